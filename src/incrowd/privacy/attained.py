"""What an attack attains over many rounds: privacy losses from below.

The curve H(t) of a concrete attack is convex in t = e^ε and is known, at grid points, between two
numbers. A line through a grid point whose slope lies between those of the neighbouring chords,
lowered by what convexity leaves open between the grid points, lies below H everywhere; so does the
largest of these lines, 1 − t and 0. That envelope is convex, piecewise linear, 1 at t = 0 and 0 in
the end: it is the curve of a discrete pair, which the attack dominates. Its losses are rounded down
to a grid and convolved. A single report needs none of this: its losses are known. See
``docs/theory/composition.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from incrowd.privacy.composition import LossDistribution
from incrowd.privacy.fourier import Bracket
from incrowd.randomizers.law import PairLaw

FloatArray = NDArray[np.float64]

_REACH = 10.0
_PER_DEVIATION = 16
_FINER = 128
"""Rounding losses down costs half a cell per round: cells are this much finer than the grid."""
_ALONE = 8192
_GREATEST = 700.0
"""The largest loss whose exponential is a double, with some room."""
_FLATTEST = 1e-280
"""Flatter lines say nothing that is ever asked for, and where they meet is no double."""


def losses_of(law: PairLaw) -> LossDistribution:
    """The losses of one report seen alone, which are those of the law's own atoms, rounded down."""
    certain = law.b == 0
    loss = np.log(law.a[~certain]) - np.log(law.b[~certain])
    chance = (law.a * law.mass)[~certain]
    seen = chance > 0
    cell = float(np.abs(loss[seen]).max()) / _ALONE
    return rounded_down(loss[seen], chance[seen], cell, float((law.a * law.mass)[certain].sum()))


def dots_below(
    curve: Callable[[float], Bracket], deviation: float, greatest_loss: float
) -> LossDistribution:
    """Losses of a discrete pair that lies below ``curve``, a bracket at every real ε.

    ``deviation`` is the scale of the loss; the curve is followed for ten of them, as long as
    exponentials are doubles.
    """
    deviation = min(deviation, _GREATEST / _REACH)
    spacing = deviation / _PER_DEVIATION
    last = math.ceil(min(_REACH * deviation, greatest_loss) / spacing)
    epsilons = spacing * np.arange(-last, last + 1)
    brackets = [curve(float(epsilon)) for epsilon in epsilons]
    height, slope = _lines(
        np.exp(epsilons),
        np.array([each.lower for each in brackets]),
        np.array([each.upper for each in brackets]),
    )
    knots, bends = _envelope(height, slope)
    return rounded_down(np.log(knots), knots * bends, spacing / _FINER, 0.0)


def rounded_down(
    loss: FloatArray, chance: FloatArray, cell: float, infinite: float
) -> LossDistribution:
    """Losses with their chances, each moved down to a grid of this cell."""
    place = np.floor(loss / cell).astype(np.int64)
    first = int(place.min())
    mass = np.bincount(place - first, weights=chance).astype(np.float64)
    return LossDistribution(cell, first, mass, infinite, pessimistic=False)


def _lines(t: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Heights at t = 0 and slopes of lines below the curve, with 1 − t first and 0 last."""
    step = np.diff(t)
    before, after = step[:-1], step[1:]
    # The least and greatest slopes that the chords left and right of each inner point can have.
    left_least, left_most = (low[1:-1] - high[:-2]) / before, (high[1:-1] - low[:-2]) / before
    right_least, right_most = (low[2:] - high[1:-1]) / after, (high[2:] - low[1:-1]) / after
    slope = (left_most + right_least) / 2
    lowered = np.maximum((slope - left_least) * after, (right_most - slope) * before)
    height = low[1:-1] - np.maximum(lowered, 0.0) - slope * t[1:-1]
    # Where the brackets are too wide to tell the chords apart there is no such line.
    told = (left_most <= right_least) & (slope > -1) & (slope < -_FLATTEST) & (height < 1)
    return (
        np.concatenate([[1.0], height[told], [0.0]]),
        np.concatenate([[-1.0], slope[told], [0.0]]),
    )


def _envelope(height: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where the largest of the lines bends, and by how much."""
    order = np.lexsort((height, slope))
    kept: list[int] = []
    for index in order:
        while kept and (
            slope[kept[-1]] == slope[index]
            or (
                len(kept) > 1
                and _meet(height, slope, kept[-2], index)
                <= _meet(height, slope, kept[-2], kept[-1])
            )
        ):
            kept.pop()
        kept.append(int(index))
    pairs = list(pairwise(kept))
    knots = np.array([_meet(height, slope, left, right) for left, right in pairs])
    bends = np.array([slope[right] - slope[left] for left, right in pairs])
    return knots, bends


def _meet(height: FloatArray, slope: FloatArray, left: int, right: int) -> float:
    """The t at which a line meets a steeper one on its left."""
    return float((height[left] - height[right]) / (slope[right] - slope[left]))
