"""Release of results: counts and totals with noise, which may be shown to anybody.

Compute nodes add discrete Laplace noise to their numbers. The whole of a grouping set then has
ε-differential privacy, without a δ, for one record that is changed, added or removed: a record that
moves from one cell to another changes two cells. Proof: ``docs/theory/plans.md``.

* Noise is drawn from its exact law by whole numbers alone, after "The Discrete Gaussian for
  Differential Privacy" (Canonne, Kamath, Steinke): no digit of floating point betrays anything. ε
  is rounded down to a multiple of 2⁻²⁰ first.
* Totals are counted in steps of a grid over the declared bounds of the column, and from their
  middle, where a record counts half as much: Σ(x − m) gets noise, and m times the noisy count is
  added. Where a grid is coarser than whole numbers, its rounding is part of the sensitivity.
* ε is shared equally by the count and the totals.

Invariant: what is returned depends on the data through the noisy numbers only. Numbers are not
clipped, so that they are unbiased: a count may be negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidEpsilon, InvalidQuery
from incrowd.tasks.query import Folded, Query
from incrowd.tasks.query.grid import Grid

_FINEST: Final = 1 << 20  # ε is a multiple of one over this
_IN_COUNTS: Final = 2  # cells whose count changes with one record, by one each


@dataclass(frozen=True)
class Noise:
    """Discrete Laplace noise: k has a chance proportional to e^(−|k|·rate/scale)."""

    scale: int
    rate: int

    @property
    def variance(self) -> float:
        """2q/(1 − q)² for q = e^(−rate/scale)."""
        return 0.5 / math.sinh(0.5 * self.rate / self.scale) ** 2 if self.scale else 0.0

    def draw(self, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw independent whole numbers, exactly; zeros where there is no scale."""
        found = np.zeros(size, np.int64)
        left = np.arange(size if self.scale else 0)
        while left.size:
            part = rng.integers(self.scale, size=left.size)
            kept = _exponential_coins(part, self.scale, rng)
            left_part, at = part[kept], left[kept]
            magnitude = (left_part + self.scale * _runs(left_part.size, rng)) // self.rate
            negative = rng.integers(2, size=at.size) == 1
            # Zero would be drawn twice, once with either sign.
            good = ~(negative & (magnitude == 0))
            found[at[good]] = np.where(negative, -magnitude, magnitude)[good]
            left = np.concatenate([left[~kept], at[~good]])
        return found


def laplace_noise(sensitivity: int, epsilon: float) -> Noise:
    """Return the noise that makes whole numbers of this total sensitivity ε-private."""
    rate = math.floor(checks.epsilon(epsilon, "release_epsilon") * _FINEST)
    if rate < 1:
        raise InvalidEpsilon(
            f"release_epsilon leaves ε = {epsilon:.2e} for each number: it must leave at least "
            f"{1 / _FINEST:.1e}",
            field="release_epsilon",
        )
    scale = Fraction(sensitivity * _FINEST, rate)
    return Noise(scale.numerator, scale.denominator)


def _exponential_coins(
    part: NDArray[np.int64], whole: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """True with chance e^(−part/whole)."""
    # The chance of an odd number of draws when the i-th goes on with chance part/(whole·i).
    rounds = np.ones(part.size, np.int64)
    going = np.arange(part.size)
    while going.size:
        drawn = rng.integers(whole * rounds[going])
        going = going[drawn < part[going]]
        rounds[going] += 1
    return np.asarray(rounds % 2 == 1)


def _runs(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The number of coins of chance 1/e that come up in a row."""
    found = np.zeros(size, np.int64)
    going = np.arange(size)
    while going.size:
        going = going[_exponential_coins(np.ones(going.size, np.int64), 1, rng)]
        found[going] += 1
    return found


def check_release(query: Query) -> None:
    """Refuse aggregates that noise cannot protect, and columns without bounds."""
    for name, aggregate in query.aggregates:
        if aggregate.function not in ("COUNT", "SUM", "AVG"):
            raise InvalidQuery(
                f"{name}: a release has noise in COUNT, SUM and AVG only, not in "
                f"{aggregate.function}: leave it out, or set release to 0"
            )
    for column in query.measures:
        if column.low is None or column.high is None:
            raise InvalidQuery(
                f"column {column.name}: declare low and high in the schema, so that a release "
                "knows how much noise hides one record"
            )


def released(
    folded: Folded, query: Query, epsilon: float, rng: np.random.Generator
) -> tuple[Folded, tuple[float, ...]]:
    """Return counts and totals with noise, and its variances: of counts, then of totals.

    ``folded`` may be a whole grouping set or the cells of one compute node: all nodes of the set
    together keep ε. Nothing but counts and totals is in it. The noise m·V of a count is part of the
    noise of each total, so that their covariance is m·V, m being the middle of the column's bounds.
    """
    check_release(query)
    share = checks.epsilon(epsilon, "release_epsilon") / (1 + len(query.measures))
    counting = laplace_noise(_IN_COUNTS, share)
    cells = len(folded.count)
    count = np.asarray(folded.count, np.int64) + counting.draw(cells, rng)
    totals, variances = [], [counting.variance]
    for column, total in zip(query.measures, folded.total, strict=True):
        grid = Grid.of(column)
        noise = laplace_noise(grid.sensitivity, share)
        around = grid.counted(total) - grid.middle * np.asarray(folded.count, np.int64)
        totals.append(grid.total(around + noise.draw(cells, rng) + grid.middle * count))
        added = noise.variance + grid.middle**2 * counting.variance
        variances.append(grid.step**2 * added)
    nothing = tuple(np.zeros_like(each) for each in totals)
    spread = tuple(np.zeros(cells) for _ in totals)
    return Folded(count, tuple(totals), nothing, nothing, spread), tuple(variances)
