"""Clocks of surveys: the wall clock is read once per survey, and a steady clock from then on.

Rounds are counted in seconds from a start that is stated as a wall-clock time. A wall clock can be
set, by its owner or by a time server, and a device that followed it would skip rounds, repeat them,
or leave. So the first look at a survey's clock anchors it: its time is the wall clock's then, and
passes as the steady clock does. A new process anchors anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

# A machine that sleeps misses its rounds; where it can be told, that time has passed nevertheless.
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)
steady: Callable[[], float] = (
    time.monotonic if _BOOT is None else partial(time.clock_gettime, _BOOT)
)
"""Seconds that nobody can set, from an arbitrary beginning."""
_MOST: Final = 1 << 16
"""Surveys whose clocks are kept, so that offers without end do not fill the memory."""


class Clocks:
    """The clocks of all surveys of one process."""

    def __init__(
        self, wall: Callable[[], float] = time.time, passing: Callable[[], float] = steady
    ) -> None:
        """``wall`` tells the seconds since 1970, ``passing`` those since any moment."""
        self.wall = wall
        self.passing = passing
        self._anchors: dict[bytes, float] = {}

    def now(self, survey: bytes) -> float:
        """The time in a survey, in seconds since 1970."""
        return self.passing() + self._anchor(survey)

    def moment(self, survey: bytes, at: float) -> float:
        """A survey's time, as the steady clock tells it: comparable between surveys."""
        return at - self._anchor(survey)

    def _anchor(self, survey: bytes) -> float:
        found = self._anchors.get(survey)
        if found is None:
            found = self._anchors[survey] = self.wall() - self.passing()
            if len(self._anchors) > _MOST:
                del self._anchors[next(iter(self._anchors))]
        return found
