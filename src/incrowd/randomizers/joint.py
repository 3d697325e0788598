"""Several randomizers side by side: one report of each, of the same person.

The description of a device's whole message where a survey asks several questions. Reports of its
parts travel, and are shuffled, apart from each other (``incrowd.protocols.joint``), so that nothing
is drawn or estimated from it as a whole: it states what all of its reports together reveal.
"""

from __future__ import annotations

import math
from typing import ClassVar

import msgspec

from incrowd.randomizers.base import Domain, Randomizer


class JointRandomizer(Randomizer, frozen=True, tag="joint"):
    """One report of each part; ε0 is the sum, as everything is about the same person."""

    epsilon: float = 0.0
    parts: tuple[Randomizer, ...] = ()

    domain: ClassVar[Domain] = "joint"
    drawable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        # Correctly rounded, and then up: a stated ε0 is never below the sum.
        total = math.nextafter(math.fsum(each.epsilon for each in self.parts), math.inf)
        msgspec.structs.force_setattr(self, "epsilon", total)

    @property
    def delta(self) -> float:
        return min(1.0, math.fsum(each.delta for each in self.parts))

    @property
    def assumption(self) -> str | None:
        told = [each.assumption for each in self.parts if each.assumption is not None]
        return "; ".join(dict.fromkeys(told)) or None

    @property
    def exact(self) -> bool:
        return all(each.exact for each in self.parts)

    @property
    def report_bytes(self) -> int:
        return sum(each.report_bytes for each in self.parts)

    def treatment(self) -> str:
        return f"{super().treatment()}, over {len(self.parts)} questions"
