"""Timetable of a check-in, and its cover traffic: the same cells from everyone in each round.

With dummies a device sends one message per round, void or not, and all are of one length. So the
cells of a round involve no chance, and nothing can overflow: which round a message travels in
depends on the clock and on absences, and never on a coin or a report. See ``docs/theory/cover.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from incrowd.protocols.check_in.messages import check_in_bytes
from incrowd.protocols.runtime.actor import SHUFFLER, Address
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.cover import CellFormat, CoverPlan, Tick, ticks_per_round, with_pause


def closes(number: int, timing: Timing) -> float:
    """Return the time at which a round is over for good: later messages are refused."""
    return (number + 1 + timing.grace_rounds) * timing.round_seconds


@dataclass(frozen=True)
class CheckInCover(CoverPlan):
    """A tick in every round while the last is open, with room for two messages to catch up."""

    rounds: int
    cells: int
    overflow: float = 0.0

    def ticks(self, address: Address, timing: Timing) -> list[Tick]:
        rounds = self.rounds + timing.grace_rounds
        return ticks_per_round(address, timing, rounds, {SHUFFLER: self.cells})

    def paced(self, timing: Timing) -> Timing:
        """Repeat a message only when its round is over, to learn what became of it."""
        return with_pause(timing, closes(0, timing))


def check_in_cover(payload: int, rounds: int, cells: CellFormat) -> CheckInCover:
    """Plan the cells for reports of this size, sealed."""
    message = check_in_bytes(payload + cells.seal, rounds)
    return CheckInCover(rounds, cells.needed(message, message))
