"""The public timetable of a walk, the same for everyone.

Nobody waits for anybody: a round begins and ends with the clock, so that who was away shows, and a
device that is gone holds up no one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.runtime.context import ROUND_SECONDS, SETTLE, Timing


@dataclass(frozen=True)
class Clock:
    """The public timetable: round r is the window [r·L, (r + 1)·L) of seconds since the start.

    After the rounds come the settle windows, and then the one in which everyone hands in.
    """

    rounds: int
    seconds: float = ROUND_SECONDS
    settle: int = SETTLE

    def __post_init__(self) -> None:
        """Refuse rounds that take no time."""
        if checks.number(self.seconds, "round_seconds") <= 0:
            raise InvalidParameter(
                f"round_seconds must be a positive number of seconds, got {self.seconds!r}",
                field="round_seconds",
            )
        checks.integer(self.rounds, "rounds", 0)
        checks.integer(self.settle, "settle", 0)

    @classmethod
    def of(cls, rounds: int, timing: Timing) -> Clock:
        """The timetable of so many rounds."""
        return cls(rounds, timing.round_seconds, timing.settle)

    def opens(self, number: int) -> float:
        """When a round begins."""
        return number * self.seconds

    def current(self, now: float) -> int:
        """Which window it is; −1 before the first, and the number of windows after the last."""
        number = min(self.windows, math.floor(now / self.seconds))
        # A quotient may round to the other side of a boundary; ``opens`` is what decides.
        if number < self.windows and self.opens(number + 1) <= now:
            return number + 1
        return max(-1, number if self.opens(number) <= now else number - 1)

    @property
    def windows(self) -> int:
        """One for each round, those in which what is late comes in, and that of the hand-in."""
        return self.rounds + self.settle + 1

    @property
    def hand_in(self) -> float:
        """When everyone hands in what they hold."""
        return self.opens(self.rounds + self.settle)
