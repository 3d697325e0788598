"""Registry of randomizers: built-in ones, and those of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from incrowd.plugins import Plugin, Registry

if TYPE_CHECKING:
    from incrowd.randomizers.base import Domain


@dataclass(frozen=True, kw_only=True)
class RandomizerPlugin(Plugin):
    """Declaration of a randomizer, for entry points of the group ``incrowd.randomizers``."""

    domain: Domain
    """Domain of its values."""
    drawable: bool = True
    """Whether reports can be drawn; otherwise it is for accounting only."""


def _plugin(kind: str, domain: Domain, place: str, drawable: bool = True) -> RandomizerPlugin:
    target = f"incrowd.randomizers.{place}"
    return RandomizerPlugin(kind=kind, domain=domain, target=target, drawable=drawable)


RANDOMIZERS: Final = Registry(
    "incrowd.randomizers",
    "randomizer",
    RandomizerPlugin,
    (
        _plugin("generic", "category", "response:Generic", drawable=False),
        _plugin("rr", "category", "response:RR"),
        _plugin("krr", "category", "response:KRR"),
        _plugin("oue", "category", "unary:OUE"),
        _plugin("sue", "category", "unary:SUE"),
        _plugin("hadamard", "category", "hadamard:HadamardResponse"),
        _plugin("olh", "category", "local_hash:OLH"),
        _plugin("channel", "category", "channel:Channel"),
        _plugin("hierarchical", "category", "hierarchical:Hierarchical"),
        _plugin("laplace", "interval", "noise:Laplace"),
        _plugin("gaussian", "interval", "noise:Gaussian"),
        _plugin("privunit", "vector", "privunit:PrivUnit"),
        _plugin("onebit", "interval", "response:OneBit"),
        _plugin("ternary", "interval", "ternary:Ternary"),
        _plugin("redirect", "target", "redirect:Redirect"),
        _plugin("one-of", "several", "one_of:OneOf"),
    ),
)
"""Every randomizer that can be described by name."""


def answer_plugins() -> dict[str, RandomizerPlugin]:
    """Return the randomizers of single answers; others are made by protocols and surveys."""
    made = ("target", "several")
    return {kind: each for kind, each in RANDOMIZERS.plugins().items() if each.domain not in made}


def drawable_kinds(domain: Domain) -> list[str]:
    """Return the kinds that draw reports of values of this domain."""
    known = RANDOMIZERS.plugins().items()
    return [kind for kind, each in known if each.domain == domain and each.drawable]
