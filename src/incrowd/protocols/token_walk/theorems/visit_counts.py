"""The number of visits to one person, and attacks on sums that hold this many of their values.

The number of visits among T steps is binomial. :func:`visits` lists its likely values with chances
that err upwards by less than one part in 10⁹, and bounds the rest.
:class:`ShiftedSum` is the curve of Σ_k Pr[k]·N(k·s, 1) against N(0, 1), from below: an attack
that compares the sum with a threshold, any of which is a valid attack.

Invariant: a mixture from above charges ``beyond`` to δ; one from below leaves it out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from incrowd.randomizers.base import FloatArray

_ROUND = 1e-9
_UNLIKELY = 1e-60
_MOST_GROUPS = 400
_LONGEST = 6.0  # a walk is followed back from its end for this many mean times between visits
_STRETCHES, _MOST_STRETCHES = 24, 1000
_THRESHOLDS, _ZOOMS = 48, 3


@dataclass(frozen=True, eq=False)
class Visits:
    """Likely numbers of visits, their chances rounded up, and the chance of more than these.

    Fewer visits than these are counted as the fewest.
    """

    count: FloatArray
    chance: FloatArray
    beyond: float

    def merged(self) -> Visits:
        """Return at most some hundred groups, each counted as its least: for attacks."""
        size = -(-self.count.size // _MOST_GROUPS)
        starts = np.arange(0, self.count.size, size)
        return Visits(self.count[starts], np.add.reduceat(self.chance, starts), self.beyond)


def visits(steps: int, chance: float) -> Visits:
    """Return Bin(steps, chance), by ratios of neighbouring terms from the most likely one."""
    mode = min(steps, math.floor((steps + 1) * chance))
    reach = math.ceil(20 * math.sqrt(steps * chance * (1 - chance)) + 200)
    low, high = max(0, mode - reach), min(steps, mode + reach)
    odds = math.log(chance) - math.log1p(-chance) if chance < 1 else 0.0
    k = np.arange(low, high, dtype=np.float64)
    rise = np.log((steps - k) / (k + 1)) + odds
    place = mode - low
    log = np.concatenate([-np.cumsum(rise[:place][::-1])[::-1], [0.0], np.cumsum(rise[place:])])
    term = np.exp(log)
    # Divided by less than all terms, each is too large rather than too small.
    term *= (1 + _ROUND) / float(term.sum())
    count = np.arange(low, high + 1, dtype=np.float64)
    kept = term > _UNLIKELY
    # Ratios fall, so that beyond the last one the terms are below a geometric series.
    beyond = 0.0 if high == steps and kept[-1] else _UNLIKELY * steps
    return Visits(count[kept], term[kept], min(1.0, beyond))


def few_stretches(n: int, together: int) -> int:
    """Return a width of stretches at which :func:`last_visit` returns a few dozen."""
    return math.ceil(_LONGEST * n / together / _STRETCHES)


def last_visit(
    n: int, together: int, steps: int, width: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return stretches of the last time that ``together`` of n people see the token.

    The chance of each, rounded down, and the fewest and the most steps before that visit. Left out
    is that they never see it, or not for very long.
    """
    visited = together / n
    last = min(steps, math.ceil(_LONGEST / visited), width * _MOST_STRETCHES)
    start = np.arange(0, last, width, dtype=np.float64)
    end = np.minimum(start + width, last)
    stay = math.log1p(-visited)
    chance: FloatArray = np.exp(start * stay) * -np.expm1((end - start) * stay)
    return chance * (1 - _ROUND), steps - end, steps - 1.0 - start


@dataclass(frozen=True, eq=False)
class ShiftedSum:
    """The test of k values in a sum, each of which shifts it by ``shift``, against none."""

    visits: Visits
    shift: float

    def attack(self, epsilon: float) -> float:
        """Return δ(ε) of the best threshold that is found, rounded down."""
        shifts = self.shift * self.visits.count
        chance = self.visits.chance * (1 - 2 * _ROUND)
        low, high = -8.0, float(shifts.max()) + 8.0
        best = 0.0
        for _ in range(_ZOOMS):
            at = np.linspace(low, high, _THRESHOLDS)
            # If the second term is not small, the threshold is no good anyway.
            other = np.exp(np.minimum(epsilon + log_ndtr(-at), 1.0))
            found = ndtr(shifts[None, :] - at[:, None]) @ chance - other
            place = int(np.argmax(found))
            best = max(best, float(found[place]) - (_ROUND * float(other[place]) + 1e-15))
            low, high = at[max(place - 1, 0)], at[min(place + 1, at.size - 1)]
        return best
