"""Privacy losses of a shuffled crowd by listing what can be seen, where that is little.

When few people are expected to say anything that tells, their counts take few likely values. Then
the pair behind the blanket functional need not be known through its curve: each likely outcome is
listed with its probability under either value of the victim, and its loss is the logarithm of their
ratio. Heavy tails, which a curve on an even grid follows slowly, cost nothing here.

Outcomes that are left out have a probability that Chernoff's inequality bounds; it becomes infinite
loss. For bounds an outcome between two grid points is split between them, with both of its
probabilities kept, which only makes the two values easier to tell apart
(``docs/theory/check_in.md``); for attacks losses are rounded down. Chances carry the rounding of
their logarithms: both probabilities of an outcome alike, so that it scales the curve and is paid
for by a factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from incrowd.errors import NumericalFloor
from incrowd.privacy.composition import MOST_POINTS, LossDistribution
from incrowd.privacy.fourier import Bracket
from incrowd.randomizers.law import PairLaw

FloatArray = NDArray[np.float64]

MANY = 600_000
"""More outcomes than this take longer to list than a curve takes to follow."""
_MOST_DRAWN = 200_000
"""More reports than this that are not of the most frequent kind are added up too coarsely."""
_TAIL = 42.0
"""Each count is followed until Chernoff's bound on what is beyond is exp(−42) < 1e−18."""
_UNIT = 2.0**-53
_IMPOSSIBLE = 64 * _UNIT
"""A missing mass below this is the rounding of the masses that are there."""
_UNLIKELY = 1e-26
_GREATEST = 700.0
_EVEN = 1e-9
"""Losses below this are taken as none where the scale of the losses is asked for."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The likely outcomes: ``first`` and ``second`` are their probabilities for x0 and for x1.

    ``slack`` is their relative error, the same for both; ``missing`` bounds the probability of all
    others, under either.
    """

    first: FloatArray
    second: FloatArray
    slack: float
    missing: float

    def swapped(self) -> Outcomes:
        """The same with x0 and x1 exchanged."""
        return Outcomes(self.second, self.first, self.slack, self.missing)

    @cached_property
    def loss(self) -> FloatArray:
        """The logarithm of the ratio; infinite where x1 cannot lead to the outcome."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.first) - np.log(self.second))

    @cached_property
    def scale(self) -> float:
        """The root mean square of the losses that are not zero."""
        telling = np.isfinite(self.loss) & (np.abs(self.loss) > _EVEN)
        chance, loss = self.first[telling], self.loss[telling]
        return math.sqrt(float(chance @ loss**2 / chance.sum())) if chance.size else 0.0

    @property
    def widest(self) -> float:
        """The largest loss, in either direction."""
        return float(np.abs(self.loss[np.isfinite(self.loss)]).max(initial=0.0))

    def bracket(self, epsilon: float) -> Bracket:
        """Enclose δ(ε), from x0 to x1."""
        t = math.exp(min(epsilon, _GREATEST))
        gain, magnitude = self.first - t * self.second, self.first + t * self.second
        total = float(gain[gain > 0].sum())
        doubt = 64 * _UNIT * magnitude
        slack = self.slack * total + float(doubt[gain > -doubt].sum())
        return Bracket(max(0.0, total - slack), total + slack + self.missing)

    def above(self, interval: float) -> LossDistribution:
        """Losses on a grid, of a pair that dominates."""
        seen = np.isfinite(self.loss)
        loss, chance = self.loss[seen], self.second[seen] * (1 + self.slack)
        place = np.floor(loss / interval).astype(np.int64)
        start, size = int(place.min()), int(place.max() - place.min()) + 2
        if size > MOST_POINTS:
            raise NumericalFloor(
                f"privacy losses need more than {MOST_POINTS:,} grid points of {interval:.1e}: "
                "compose profiles of more similar size"
            )
        # What goes to the upper end, rounded up; a and b of the two parts add up to those here.
        share = np.expm1(loss - interval * place) / math.expm1(interval)
        share = np.clip(share + 8 * _UNIT * (1 + np.abs(loss)) / interval, 0.0, 1.0)
        lower, upper = np.exp(interval * place), np.exp(interval * (place + 1))
        mass = np.bincount(place - start, weights=(1 - share) * lower * chance, minlength=size)
        mass += np.bincount(place - start + 1, weights=share * upper * chance, minlength=size)
        certain = float(self.first[~seen].sum()) * (1 + self.slack)
        return LossDistribution(interval, start, mass.astype(np.float64), certain + self.missing)

    def below(self, cell: float) -> LossDistribution:
        """Losses rounded down to multiples of a cell."""
        seen = np.isfinite(self.loss)
        place = np.floor(self.loss[seen] / cell - 8 * _UNIT / cell).astype(np.int64)
        start = int(place.min())
        mass = np.bincount(place - start, weights=self.first[seen] * (1 - self.slack))
        certain = float(self.first[~seen].sum()) * (1 - self.slack)
        return LossDistribution(cell, start, mass.astype(np.float64), certain, pessimistic=False)


@lru_cache(maxsize=8)
def likely_outcomes(law: PairLaw, n: int, most: int = MANY) -> Outcomes | None:
    """The likely multisets of n reports, or none where there are more than ``most`` to list."""
    a, b, mass, error = _points(law)
    spans = [_span(n - 1, each) for each in mass[:-1].tolist()]
    size = math.prod(last - first + 1 for first, last in spans)
    drawn_most = min(n, sum(last for _, last in spans))
    if law.escaped or size > most or drawn_most > _MOST_DRAWN or mass.size == 1:
        return None
    counts = [np.arange(first, last + 1) for first, last in spans]
    total, log_chance, sum_a, sum_b = (np.zeros(1) for _ in range(4))
    for each, at, x, y in zip(counts, mass[:-1].tolist(), a.tolist(), b.tolist(), strict=False):
        total = np.add.outer(total, each).ravel()
        log_chance = np.add.outer(log_chance, each * math.log(at) - gammaln(each + 1.0)).ravel()
        sum_a = np.add.outer(sum_a, each * x).ravel()
        sum_b = np.add.outer(sum_b, each * y).ravel()
        possible = total <= n
        total, log_chance = total[possible], log_chance[possible]
        sum_a, sum_b = sum_a[possible], sum_b[possible]
    arranged, falling = _arrangements(n, drawn_most, mass)
    chance = np.exp(log_chance + arranged[total.astype(np.int64)])
    first = chance * (sum_a + (n - total) * a[-1]) / n
    second = chance * (sum_b + (n - total) * b[-1]) / n
    likely = np.maximum(first, second) > _UNLIKELY
    dropped = max(float(first[~likely].sum()), float(second[~likely].sum()))
    # Logarithms of this size were added up; each step of the longest sum may err by its whole.
    size_of_terms = drawn_most * (math.log(n) + float(np.abs(np.log(mass[:-1])).max()) + 1)
    size_of_terms += n * abs(math.log(float(mass[-1]))) + drawn_most * falling
    counted = np.array([*(last for _, last in spans), n])
    slack = 8 * _UNIT * (size_of_terms + 8) + float(counted @ error)
    missing = 2 * len(spans) * math.exp(-_TAIL) + 2 * dropped
    return Outcomes(first[likely], second[likely], slack, missing)


def _points(law: PairLaw) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The distinct points a and b, their masses, the largest last, and the masses' errors."""
    points, which = np.unique(np.column_stack([law.a, law.b]), axis=0, return_inverse=True)
    mass = np.bincount(which.ravel(), weights=law.mass).astype(np.float64)
    rest = 1.0 - float(mass.sum())
    error = np.full(mass.size, 4 * _UNIT)
    if rest > _IMPOSSIBLE:
        points, mass = np.vstack([points, [0.0, 0.0]]), np.append(mass, rest)
        error = np.append(error, 4 * _UNIT / rest)
    order = np.argsort(mass, kind="stable")
    return points[order, 0], points[order, 1], mass[order], error[order]


def _span(draws: int, chance: float) -> tuple[int, int]:
    """The likely counts of an atom: those of the others, and one more for the victim."""
    mean = draws * chance

    def beyond(count: int) -> bool:
        return draws * _divergence(count / max(draws, 1), chance) >= _TAIL

    first = _first(lambda k: beyond(math.floor(mean) - k), math.floor(mean))
    last = _first(lambda k: beyond(math.ceil(mean) + k), draws - math.ceil(mean))
    return max(0, math.floor(mean) - first), min(draws, math.ceil(mean) + last) + 1


def _first(holds: Callable[[int], bool], most: int) -> int:
    """The least k up to ``most`` for which a property that stays true holds; else ``most``."""
    low, high = -1, 1
    while high < most and not holds(high):
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return max(high, 0)


def _divergence(share: float, chance: float) -> float:
    """The relative entropy of two coins: n times it is Chernoff's exponent."""
    heads = share * math.log(share / chance) if share > 0 else 0.0
    tails = (1 - share) * (math.log1p(-share) - math.log1p(-chance)) if share < 1 else 0.0
    return heads + tails


def _arrangements(n: int, most: int, mass: FloatArray) -> tuple[FloatArray, float]:
    """The logarithm of n!/(n − s)!·m^(n − s) for s = 0…most; m is the last mass.

    Also the size of the longest sum in it, Σ −log(1 − i/n).
    """
    falling = np.concatenate([[0.0], np.cumsum(np.log1p(-np.arange(most) / n))])
    others = float(mass[:-1].sum())
    kept = math.log1p(-others) if others < 0.5 else math.log(float(mass[-1]))
    drawn = np.arange(most + 1)
    log_ways = drawn * math.log(n) + falling + (n - drawn) * kept
    return np.asarray(log_ways), abs(float(falling[-1]))
