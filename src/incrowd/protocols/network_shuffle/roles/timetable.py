"""Public timetable of a walk: the clock decides, and no device waits for another."""

from __future__ import annotations

import math
from dataclasses import dataclass

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.runtime.context import GRACE_ROUNDS, ROUND_SECONDS, Timing


@dataclass(frozen=True)
class Clock:
    """Public timetable: round r is the window [r·L, (r + 1)·L) of seconds since the start.

    After the rounds come the grace windows, and then the one in which everyone hands in.
    """

    rounds: int
    seconds: float = ROUND_SECONDS
    grace_rounds: int = GRACE_ROUNDS

    def __post_init__(self) -> None:
        if checks.number(self.seconds, "round_seconds") <= 0:
            raise InvalidParameter(
                f"round_seconds must be a positive number of seconds, got {self.seconds!r}",
                field="round_seconds",
            )
        checks.integer(self.rounds, "rounds", 0)
        checks.integer(self.grace_rounds, "grace_rounds", 0)

    @classmethod
    def of(cls, rounds: int, timing: Timing) -> Clock:
        """Make the timetable of these rounds."""
        return cls(rounds, timing.round_seconds, timing.grace_rounds)

    def opens(self, number: int) -> float:
        """Return the time at which a round begins."""
        return number * self.seconds

    def current(self, now: float) -> int:
        """Return the window; −1 before the first, and the number of windows after the last."""
        number = min(self.windows, math.floor(now / self.seconds))
        # A quotient may round to the other side of a boundary; ``opens`` is what decides.
        if number < self.windows and self.opens(number + 1) <= now:
            return number + 1
        return max(-1, number if self.opens(number) <= now else number - 1)

    @property
    def windows(self) -> int:
        """Number of windows: one per round, the grace windows, and that of the hand-in."""
        return self.rounds + self.grace_rounds + 1

    @property
    def hand_in(self) -> float:
        """Time at which everyone hands in."""
        return self.opens(self.rounds + self.grace_rounds)
