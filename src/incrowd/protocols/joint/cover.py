"""Cover traffic of several questions: at each time the cells of all of them.

Messages of different questions wait in one queue, so that they may fill cells in any order. Between
two cells at most one record is lost, be it that a message goes on or that its end leaves too little
room. Each question is therefore planned with cells that are smaller by one record: what fits into
those of each fits into all of them together, whatever the order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from incrowd.protocols.runtime.actor import Address
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.cover import CellFormat, CoverPlan, Tick

_NUMBER = 1
"""Bytes that name the question of a message, and of what is sealed in it."""


def cells_of_part(cells: CellFormat) -> CellFormat:
    """Return the cells that one question may count on."""
    return replace(
        cells,
        capacity=cells.capacity - cells.record,
        record=cells.record + _NUMBER,
        seal=cells.seal + _NUMBER,
    )


@dataclass(frozen=True)
class JointCover(CoverPlan):
    """The timetables of all questions at once."""

    parts: tuple[CoverPlan, ...]

    @property
    def overflow(self) -> float:  # type: ignore[override]
        """Chance that a message of any question waits."""
        return sum(part.overflow for part in self.parts)

    def ticks(self, address: Address, timing: Timing) -> list[Tick]:
        found: dict[float, dict[Address, int]] = {}
        for part in self.parts:
            for tick in part.ticks(address, timing):
                cells = found.setdefault(tick.at, {})
                for to, count in tick.cells.items():
                    cells[to] = cells.get(to, 0) + count
        return [Tick(at, found[at]) for at in sorted(found)]

    def paced(self, timing: Timing) -> Timing:
        for part in self.parts:
            timing = part.paced(timing)
        return timing
