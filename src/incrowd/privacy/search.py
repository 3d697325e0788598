"""Solving a falling curve for a target, so that the answer is on the safe side.

The search keeps two points: one where the curve was *seen* at or below the target, and one where it
was seen above. It returns both. A bound takes the first, an attack the second; neither is ever an
interpolated guess. A search that cannot find two such points raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from incrowd.errors import NumericalFloor

_TINY = 1e-300
_SMALLEST = 1e-15
_HUGE = 1e6
_WIDENINGS = 12


@dataclass(frozen=True, slots=True)
class Crossing:
    """``above`` is the last point with curve > target, ``within`` the first with curve ≤ target."""

    above: float
    within: float


def crossing(
    curve: Callable[[float], float],
    target: float,
    guess: float,
    ceiling: float = math.inf,
    tolerance: float = 1e-7,
    factor: float = 2.0,
) -> Crossing:
    """Where a non-increasing ``curve`` on [0, ceiling] falls to ``target``, to relative precision.

    The curve is taken to meet the target at ``ceiling``. When it does at 0 already, both ends are
    0. ``guess``, good to about a ``factor``, only saves time; 0 is no guess at all.
    """
    from scipy.optimize import brentq  # imported late: it takes longer than most answers

    above, within = 0.0, ceiling

    @cache
    def gap(point: float) -> float:
        nonlocal above, within
        value = curve(point)
        if value > target:
            above = max(above, point)
        else:
            within = min(within, point)
        return math.log(max(value, _TINY) / target)

    if guess == 0:
        guess = min(1.0, ceiling / 2)
    ends = _enclose(gap, min(guess, ceiling * (1 - 1e-6)), ceiling, factor)
    if ends is None:
        return Crossing(above, within)
    root, told = brentq(
        gap, *ends, xtol=_TINY, rtol=max(tolerance / 8, 1e-15), full_output=True, disp=False
    )
    if not told.converged:
        raise NumericalFloor(f"could not locate where the privacy curve meets {target!r}")
    for _ in range(_WIDENINGS):
        if within - above <= tolerance * within:
            return Crossing(above, within)
        gap(root * (1 + tolerance / 4))
        gap(root * (1 - tolerance / 4))
        tolerance *= 2
    raise NumericalFloor(f"could not locate where the privacy curve meets {target!r}")


def _enclose(
    gap: Callable[[float], float], guess: float, ceiling: float, factor: float
) -> tuple[float, float] | None:
    """Two points with the crossing between them; none when it is at zero or at the ceiling."""
    point = guess
    rising = gap(point) > 0
    if not rising and gap(0.0) <= 0:
        return None
    while True:
        ahead = point * factor if rising else point / factor
        if ahead >= ceiling:
            # The curve may fall only just short of the ceiling, or never.
            short = ceiling * (1 - 1e-6)
            return (point, short) if short > point and gap(short) <= 0 else None
        if ahead > _HUGE:
            raise NumericalFloor("the privacy curve does not fall to the target")
        if not rising and ahead < _SMALLEST:
            return 0.0, point
        if (gap(ahead) > 0) != rising:
            return (point, ahead) if rising else (ahead, point)
        point, factor = ahead, factor * factor if factor < 2 else factor
