"""The number of the others' messages that are redirected at random, and so hide the victim's.

Each of ``draws`` others redirects with the same chance, so that their number is binomial. A bound
for a crowd holds for every larger one (``docs/theory/scrambler.md``), so that the likely numbers
may be put together in blocks, each of which counts as its least.

Invariants: chances err upwards; numbers above the likely ones belong to the last block; the chance
of fewer than the likely ones is ``missing``, to be charged to δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_UNIT = 2.0**-53
_USUAL = 3.0  # standard deviations within which a count mostly is of its mean


@dataclass(frozen=True, eq=False)
class Crowds:
    """Blocks of numbers of hidden messages: the ``least`` of each, and its ``chance``."""

    least: NDArray[np.int64]
    chance: FloatArray
    missing: float

    def merged(self, blocks: int) -> Crowds:
        """Put together to about this many blocks, half of them where most of the chance is."""
        mean = float(self.least @ self.chance)
        spread = math.sqrt(max(float((self.least - mean) ** 2 @ self.chance), 0.0))
        even = np.linspace(0, self.least.size - 1, blocks // 2 + 1)[:-1].astype(np.int64)
        usual = mean + spread * np.linspace(-_USUAL, _USUAL, blocks - blocks // 2)
        near = np.searchsorted(self.least, usual)
        starts = np.unique(np.concatenate([[0], even, near[near < self.least.size]]))
        return Crowds(self.least[starts], np.add.reduceat(self.chance, starts), self.missing)


def span(draws: int, chance: float, exponent: float) -> tuple[int, int]:
    """The likely values of a binomial count: fewer, and more, have a chance of e^−exponent each.

    By Bernstein's inequality, Pr[count − mean ≥ x] ≤ exp(−x²/(2(variance + x/3))).
    """
    mean, variance = draws * chance, draws * chance * (1 - chance)
    reach = exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * exponent * variance)
    reach = 0.0 if chance in (0.0, 1.0) else reach
    return max(0, math.floor(mean - reach)), min(draws, math.ceil(mean + reach))


def likely(draws: int, chance: float, exponent: float) -> tuple[int, FloatArray, float]:
    """The first likely count, the chances from there on, and a bound on their relative error.

    Chances are divided by their own sum, which is less than one: they err upwards, by no more than
    that bound and 2·e^−exponent.
    """
    low, high = span(draws, chance, exponent)
    if low == high:
        return low, np.ones(1), 0.0
    mode = min(high, max(low, math.floor((draws + 1) * chance)))
    odds = math.log(chance) - math.log1p(-chance)
    count = np.arange(low, high, dtype=np.float64)
    rise = np.log((draws - count) / (count + 1)) + odds
    place = mode - low
    log = np.concatenate([-np.cumsum(rise[:place][::-1])[::-1], [0.0], np.cumsum(rise[place:])])
    term = np.exp(log)
    # A step errs by the rounding of its logarithms, and a sum by that of all sums before it.
    steepest = float(np.abs(log).max()) + abs(odds) + math.log(draws + 2)
    slack = 8 * _UNIT * (high - low) * (steepest + 1)
    return low, term / float(term.sum()), slack


def crowds(draws: int, chance: float, exponent: float, width: int = 1) -> Crowds:
    """Blocks of ``width`` likely numbers."""
    low, term, slack = likely(draws, chance, exponent)
    starts = np.arange(0, term.size, width)
    summed = np.add.reduceat(term, starts) * (1 + slack)
    rest = math.exp(-exponent)
    if low + term.size - 1 < draws:
        summed[-1] += rest
    return Crowds(low + starts, summed, rest if low else 0.0)
