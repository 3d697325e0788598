"""The protocols by name: those that are built in, and those of other packages.

A protocol's declaration is the ``plugin`` module of its folder. Everything that others must know of
it before it is loaded is derived from there: its command, its help line, its parties and their
numbers on the wire, the tasks that it answers and the randomizers that they get.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from incrowd.errors import PluginInvalid
from incrowd.plugins import Plugin, Registry, target

if TYPE_CHECKING:
    import msgspec

    from incrowd.protocols.api import Protocol
    from incrowd.randomizers.base import Randomizer

FIRST_OUTSIDE, LAST_OUTSIDE = 256, 4095
"""Numbers on the wire that are left to the parties of other packages."""


@dataclass(frozen=True, kw_only=True)
class Party:
    """A helper of a protocol: a party besides people's devices and the curator."""

    name: str
    """Its address, and its name in views; with ``family``, that of all helpers of its kind."""
    description: str = ""
    """What it does, for a report that names it; a helper without one is in no view of its own."""
    number: int | None = None
    """Its number on the wire, counted down from the top; those of other packages from 256."""
    family: int | None = None
    """Place of a kind of helpers of which there are several, such as ``scrambler/3``."""


@dataclass(frozen=True, kw_only=True)
class ProtocolPlugin(Plugin):
    """A protocol by its name, for entry points of the group ``incrowd.protocols``."""

    summary: str
    """One line for tables and help."""
    default_randomizers: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType(
            {
                "category": ("krr", "oue", "sue", "hadamard", "olh", "hierarchical"),
                "interval": ("ternary", "onebit"),
                "several": ("one-of",),
            }
        )
    )
    """Randomizers for each domain of values that it takes.

    Where none is named, it is one of these: that of least error among those that suit the task. All
    must be fit for devices, which refuse noise that is drawn in floating point.
    """
    tasks: tuple[str, ...] = ()
    """The only tasks that it answers; empty for all whose values and collected reports fit."""
    parties: tuple[Party, ...] = ()
    """Its helpers besides the curator."""
    docs: str = ""
    """Its page in the documentation."""
    paper: str = ""
    """Title and authors of the paper that proposes it."""
    stated_views: tuple[str, ...] = ("curator", "curator+hub", "everyone")
    """Views that a result states, where something is proven against them."""
    any_crowd: bool = False
    """Whether n = 0 stands for any number of people."""
    default_view: str = "curator"
    """Against whom it protects in the first place: the view where none is named."""
    accounting_randomizer: str | None = None
    """Place of the randomizer where a guarantee can be stated without any, as ``module:Class``."""
    default_delta: float | None = None
    """The δ of a guarantee for which none is named; none where one must be."""
    commands: Mapping[str, tuple[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """Own commands by name: the place of what makes each, and its help line."""
    exports: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Further public names, such as a learner, and the modules that they are in."""


_HERE = "incrowd.protocols"

PROTOCOLS: Final = Registry(
    "incrowd.protocols",
    "protocol",
    ProtocolPlugin,
    (
        f"{_HERE}.check_in.plugin:PLUGIN",
        f"{_HERE}.local.plugin:PLUGIN",
        f"{_HERE}.network_shuffle.plugin:PLUGIN",
        f"{_HERE}.order_shuffle.plugin:PLUGIN",
        f"{_HERE}.scrambled_query.plugin:PLUGIN",
        f"{_HERE}.token_walk.plugin:PLUGIN",
        f"{_HERE}.trusted_shuffle.plugin:PLUGIN",
    ),
)
"""Every protocol by its name in survey files and on the command line."""


def load(kind: str) -> type[Protocol]:
    """The class of a protocol, imported now."""
    protocol: type[Protocol] = PROTOCOLS.load(kind)
    return protocol


def build(
    kind: str | type[Protocol],
    settings: Mapping[str, Any] | msgspec.Struct,
    randomizer: Randomizer | None,
    sources: Mapping[str, Any] = MappingProxyType({}),
) -> Protocol:
    """Build a protocol from plain settings: the only place that does.

    ``settings`` name its sources too; ``sources`` are those that are at hand already. The
    randomizer is None where the settings state the noise.
    """
    # Loaded with what describes settings, which declarations alone do without.
    import msgspec

    from incrowd.protocols.settings import fields_of, settings_type

    protocol: Any = load(kind) if isinstance(kind, str) else kind
    described = settings_type(protocol)
    if isinstance(settings, Mapping):
        settings = msgspec.convert(settings, described)
    values = msgspec.structs.asdict(settings)
    loaded = {
        name: field.load(values, sources.get(name))
        for name, field in fields_of(described).items()
        if field.load is not None
    }
    if names := {name: values[name] for name in loaded if values[name]}:
        loaded["names"] = names
    made: Protocol = protocol(randomizer, **values | loaded)
    return made


def plugin_of(protocol: Protocol | type[Protocol]) -> ProtocolPlugin:
    """The declaration of a protocol."""
    return PROTOCOLS.find(protocol.kind)


def answered_tasks(kind: str) -> tuple[str, ...]:
    """Tasks of survey files whose values a protocol randomizes, and collects to estimate from."""
    # Loaded with all that holds answers, which declarations alone do without.
    from incrowd.tasks.registry import TASKS, survey_tasks

    plugin, collected = PROTOCOLS.find(kind), load(kind).collected_type
    return tuple(
        task
        for task in survey_tasks()
        if (not plugin.tasks or task in plugin.tasks)
        and TASKS.find(task).domain in plugin.default_randomizers
        and issubclass(collected, TASKS.load(task).collected_type)
    )


def parties(*, outside: bool = True) -> dict[str, Party]:
    """Helpers of all protocols by their names; those of other packages only with ``outside``."""
    found = _joined({}, PROTOCOLS.built_in().values())
    if not outside:
        return found
    more = _joined(found, PROTOCOLS.plugins().values())
    for name in more.keys() - found.keys():
        _check_outside(more[name])
    return more


def _joined(known: Mapping[str, Party], plugins: Iterable[ProtocolPlugin]) -> dict[str, Party]:
    found = dict(known)
    for plugin in plugins:
        for party in plugin.parties:
            taken = {each.number for each in found.values()} - {None}
            if found.get(party.name, party) != party or (
                party.name not in found and party.number in taken
            ):
                raise PluginInvalid(
                    f"protocol {plugin.kind!r}: the party {party.name!r}, or its number "
                    f"{party.number}, is another one elsewhere: choose others"
                )
            found[party.name] = party
    return found


def _check_outside(party: Party) -> None:
    if party.family is not None or (
        party.number is not None and not FIRST_OUTSIDE <= party.number <= LAST_OUTSIDE
    ):
        raise PluginInvalid(
            f"party {party.name!r}: another package's party has a number from {FIRST_OUTSIDE} to "
            f"{LAST_OUTSIDE} and no family, got {party.number}"
        )


def exported(name: str) -> Any:
    """The public class of this name of a built-in protocol; none where there is none."""
    for plugin in PROTOCOLS.built_in().values():
        if plugin.target.endswith(f":{name}"):
            return PROTOCOLS.load(plugin.kind)
        if name in plugin.exports:
            return target(f"{plugin.exports[name]}:{name}")
    return None
