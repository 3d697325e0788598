"""Settings of protocols, and what can be set in any description, read from its own fields.

A protocol is a frozen dataclass whose fields are settings, sources (loaded inputs such as a graph)
or facts about a run. Randomizers, tasks and options are frozen ``msgspec.Struct`` classes.
Everything that lets a person set them (tables of a survey file, options of the command line, the
choice of what ``calibrate`` solves for) and the signed offer of a live survey are derived here from
their fields, so that adding a setting is one line in one place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from incrowd import checks
from incrowd.errors import InvalidParameter

if TYPE_CHECKING:
    from incrowd.protocols.api import Protocol

Safe = Literal["min", "max"]
"""Safe side of a solved setting: the least value that meets the budget, or the most."""
Check = Callable[[Any, str], Any]
"""Returns the value that was given under a name, or raises ``InvalidParameter``."""
Load = Callable[[Mapping[str, Any], Any], Any]
"""Makes a source from all settings, and from what is at hand of it already, or from none."""

_SPOKEN = {
    int: "whole number",
    float: "number",
    bool: "truth value",
    str: "text",
    tuple: "list of numbers",
}


def setting(
    description: str,
    solve: Safe | None = None,
    *,
    check: Check | None = None,
    least: int = 0,
    most: float | None = None,
    default: str | None = None,
    local: bool = False,
) -> Any:
    """Describe a field of a protocol that people set: as a flag, a survey key and in JSON.

    Args:
        description: Help text.
        solve: Safe side of it, where ``calibrate`` may solve for it.
        check: Check of its value, in place of the one that its type implies.
        least: Smallest number.
        most: Largest number that makes sense, for a search.
        default: Text for its default where the value itself says nothing.
        local: Whether it never travels, as it means something on one machine only.

    """
    extra = {"solve": solve, "check": check, "least": least, "most": most, "default": default}
    return msgspec.Meta(description=description, extra=extra | {"local": local})


def refuse(wrong: object, problem: str) -> None:
    """Refuse a value that is wrong; the problem begins with the name of its field."""
    if wrong:
        raise InvalidParameter(problem, field=problem.partition(" ")[0])


def crowd_or_open(value: int, name: str) -> int:
    """Check a number of people; 0 leaves it to a source or to the data."""
    return checks.crowd(value, name) if value else 0


def source(description: str, load: Load) -> Any:
    """Describe a field that holds a loaded input, such as a graph; people give its name."""
    extra = {"load": load, "path": True, "default": "none", "local": True}
    return msgspec.Meta(description=description, extra=extra)


@dataclass(frozen=True)
class Field:
    """One field of a description: its plain type, its help text, and how it may be solved for."""

    name: str
    type: Any
    """A class, or a ``Literal`` of the words that are allowed; ``tuple`` for a list of numbers."""
    required: bool
    default: Any
    description: str = ""
    solve: Safe | None = None
    words: tuple[str, ...] = ()
    """What may be said instead of a number, to leave it open."""
    path: bool = False
    """Whether the value names a file."""
    most: float | None = None
    """The largest value that makes sense."""
    length: int | None = None
    """How many numbers a list of them must have, where that is fixed: they are given one by one."""
    default_text: str | None = None
    """What to say of the default where the value itself does not."""
    check: Check | None = None
    """Check of a value, in place of the one that the type implies."""
    least: int = 0
    load: Load | None = None
    """Makes the input that a source names."""
    local: bool = False
    """Whether the value never travels."""

    @property
    def expected(self) -> str:
        """What may be set, in words: ``a whole number or auto``, ``all or single``."""
        if get_origin(self.type) is Literal:
            return " or ".join(map(str, get_args(self.type)))
        return " or ".join((f"a {_SPOKEN[self.type]}", *self.words))

    @property
    def listed(self) -> bool:
        """Whether it is a list of any length, for which a file of numbers may stand."""
        return self.type is tuple and self.length is None

    @property
    def file(self) -> bool:
        """Whether a text in its place is the name of a file."""
        return self.path or self.listed

    @property
    def chosen(self) -> bool:
        """Whether it may be set to one of a few words."""
        return bool(self.words) or get_origin(self.type) is Literal

    @property
    def shown_default(self) -> str:
        """The default, for people; nothing where there is none to speak of."""
        if self.default_text is not None:
            return self.default_text
        return "" if self.default in (None, ()) else str(self.default)


@cache
def settings_type(kind: type[Protocol]) -> type[msgspec.Struct]:
    """Return the strict struct of a protocol's settings and of the names of its sources."""
    hints = get_type_hints(kind, include_extras=True)
    fields: list[Any] = []
    for each in dataclasses.fields(kind):
        if get_origin(hints[each.name]) is Annotated:
            meta = hints[each.name].__metadata__[0]
            if meta.extra.get("load") is not None:
                fields.append((each.name, Annotated[str, meta], ""))
            else:
                default = () if each.default is MISSING else (each.default,)
                fields.append((each.name, hints[each.name], *default))
    options: Any = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}
    return msgspec.defstruct(f"{kind.__name__}Settings", fields, **options)


def settings_of(protocol: Protocol) -> msgspec.Struct:
    """Return the settings of a protocol, and the names of its sources on this machine."""
    kind, names = settings_type(type(protocol)), getattr(protocol, "names", {})
    return kind(
        **{
            name: names.get(name, "") if field.load else getattr(protocol, name)
            for name, field in fields_of(kind).items()
        }
    )


def public_settings(protocol: Protocol) -> msgspec.Struct:
    """Return the settings of a protocol without what means something on this machine only."""
    values = settings_of(protocol)
    local = {each.name: each.default for each in fields_of(type(values)).values() if each.local}
    return msgspec.structs.replace(values, **local)


def checked_settings(protocol: Protocol) -> Iterator[tuple[str, Any]]:
    """Yield the settings of a protocol by name, each after its check."""
    for name, field in fields_of(settings_type(type(protocol))).items():
        if field.load is None:
            yield name, _checked(field, getattr(protocol, name))


def _checked(field: Field, value: Any) -> Any:
    name = field.name
    if (value is None and field.default is None and not field.required) or value in field.words:
        return value
    if field.check is not None:
        return field.check(value, name)
    if get_origin(field.type) is Literal:
        known = get_args(field.type)
        refuse(value not in known, f"{name} must be one of {', '.join(known)}, got {value!r}")
    if field.words:
        refuse(isinstance(value, str), f"{name} must be {field.expected}, got {value!r}")
    if field.type is bool:
        return checks.instance(value, bool, name, "True")
    if field.type is int:
        return checks.integer(value, name, field.least)
    if field.type is float:
        low = checks.number(value, name) < field.least
        refuse(low, f"{name} must not be negative, got {value!r}")
    return value


@cache
def fields_of(description: type[msgspec.Struct]) -> Mapping[str, Field]:
    """Return the fields of a struct class by name, in the order in which they are written."""
    hints = get_type_hints(description, include_extras=True)
    found = {}
    for each in msgspec.structs.fields(description):
        plain, words, meta = _unwrap(hints[each.name])
        extra = (meta.extra or {}) if meta else {}
        found[each.name] = Field(
            name=each.name,
            type=plain,
            required=each.required,
            default=None if each.default is msgspec.NODEFAULT else each.default,
            description=(meta.description or "") if meta else "",
            solve=extra.get("solve"),
            words=words,
            path=bool(extra.get("path")),
            most=extra.get("most"),
            length=_length(hints[each.name]) if plain is tuple else None,
            default_text=extra.get("default"),
            check=extra.get("check"),
            least=extra.get("least", 0),
            load=extra.get("load"),
            local=bool(extra.get("local")),
        )
    return found


def _length(hint: Any) -> int | None:
    """How many entries ``Annotated[tuple[int, int] | None, …]`` has; none for any number."""
    while get_origin(hint) is not tuple:
        hint = next(each for each in get_args(hint) if get_args(each))
    entries = get_args(hint)
    return None if ... in entries else len(entries)


def _unwrap(hint: Any) -> tuple[Any, tuple[str, ...], msgspec.Meta | None]:
    """The plain type of ``Annotated[T | Literal[…] | None, Meta(…)]``, its words, its metadata."""
    meta = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        meta = next((each for each in extras if isinstance(each, msgspec.Meta)), None)
    words: tuple[str, ...] = ()
    if tuple in (get_origin(hint), *map(get_origin, get_args(hint))):
        return tuple, words, meta
    if not isinstance(hint, type) and get_origin(hint) is not Literal:
        parts = get_args(hint)
        words = tuple(
            word for each in parts if get_origin(each) is Literal for word in get_args(each)
        )
        hint = next((each for each in parts if isinstance(each, type)), str)
    return hint, words, meta
