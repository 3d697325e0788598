"""The randomizers by name: those that are built in, and those of other packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from incrowd.plugins import Plugin, Registry

if TYPE_CHECKING:
    from incrowd.randomizers.base import Domain


@dataclass(frozen=True, kw_only=True)
class RandomizerPlugin(Plugin):
    """A randomizer by its name, for entry points of the group ``incrowd.randomizers``."""

    domain: Domain
    """The values that it takes."""
    drawable: bool = True
    """Whether anybody can draw from it; one that cannot stands for others in accounting."""


_HERE = "incrowd.randomizers"

RANDOMIZERS: Final = Registry(
    "incrowd.randomizers",
    "randomizer",
    RandomizerPlugin,
    (
        RandomizerPlugin(
            kind="generic", domain="category", target=f"{_HERE}.response:Generic", drawable=False
        ),
        RandomizerPlugin(kind="rr", domain="category", target=f"{_HERE}.response:RR"),
        RandomizerPlugin(kind="krr", domain="category", target=f"{_HERE}.response:KRR"),
        RandomizerPlugin(kind="oue", domain="category", target=f"{_HERE}.unary:OUE"),
        RandomizerPlugin(kind="sue", domain="category", target=f"{_HERE}.unary:SUE"),
        RandomizerPlugin(
            kind="hadamard", domain="category", target=f"{_HERE}.hadamard:HadamardResponse"
        ),
        RandomizerPlugin(kind="olh", domain="category", target=f"{_HERE}.local_hash:OLH"),
        RandomizerPlugin(kind="laplace", domain="interval", target=f"{_HERE}.noise:Laplace"),
        RandomizerPlugin(kind="gaussian", domain="interval", target=f"{_HERE}.noise:Gaussian"),
        RandomizerPlugin(kind="privunit", domain="vector", target=f"{_HERE}.privunit:PrivUnit"),
        RandomizerPlugin(kind="onebit", domain="interval", target=f"{_HERE}.response:OneBit"),
        RandomizerPlugin(kind="ternary", domain="interval", target=f"{_HERE}.ternary:Ternary"),
        RandomizerPlugin(kind="redirect", domain="target", target=f"{_HERE}.redirect:Redirect"),
    ),
)
"""Every randomizer that can be described by name."""


def answer_plugins() -> dict[str, RandomizerPlugin]:
    """Randomizers of answers; protocols make those of targets from their own parameters."""
    return {kind: each for kind, each in RANDOMIZERS.plugins().items() if each.domain != "target"}


def drawable_kinds(domain: Domain) -> list[str]:
    """Randomizers that draw reports of values of this domain."""
    return [
        kind
        for kind, each in RANDOMIZERS.plugins().items()
        if each.domain == domain and each.drawable
    ]
