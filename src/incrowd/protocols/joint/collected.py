"""What a joint run collected: that of each question."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from functools import cache
from typing import Any, Self

from incrowd.tasks.base import Collected


@dataclass(frozen=True, repr=False)
class JointCollected(Collected):
    """The reports to several questions; they have no rounds in common."""

    parts: tuple[Collected, ...] = ()

    @classmethod
    def of(cls, parts: tuple[Collected, ...]) -> Self:
        """Put together what was collected for each question."""
        return cls(rounds=(), sent=sum(each.sent for each in parts), parts=parts)

    @property
    def crowds(self) -> tuple[int, ...]:
        return tuple(crowd for each in self.parts for crowd in each.crowds)

    @property
    def people(self) -> int:
        return max(each.people for each in self.parts)

    @property
    def smallest_crowd(self) -> int:
        return min(each.smallest_crowd for each in self.parts)

    @property
    def vanished(self) -> bool:
        return any(each.vanished for each in self.parts)


@cache
def collected_type(parts: tuple[type[Collected], ...]) -> type[JointCollected]:
    """Return the type whose parts are of these types, so that it can be decoded."""
    fields = [("parts", tuple.__class_getitem__(parts), ())]
    bases: Any = {"bases": (JointCollected,), "frozen": True, "repr": False}
    return make_dataclass("JointCollected", fields, **bases)
