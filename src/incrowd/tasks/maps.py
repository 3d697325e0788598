"""Squares over the places of a release, and the share of an answer around each of them.

A square stands for the rows nearest to its middle, equally many for each, so that all estimates of
a map are equally noisy. Squares are as wide as they are high: one degree of longitude is shortened
to its length at the middle latitude, and degrees that lie on both sides of the date line are
counted on. Rows at the origin of the earth are those of people without a place, and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.tasks.raw import IntArray

_ACROSS = 24
"""Squares from one side to the other, along the longer one."""
_AROUND, _FEWEST, _MOST = 0.03, 30, 1000
"""Share of the rows that a square stands for, and the fewest and most of them."""
_SHORTEST = 0.1
"""Least length of a degree of longitude, in degrees of latitude: the poles have none."""


@dataclass(frozen=True, eq=False)
class Squares:
    """Occupied squares of a grid over places, in the units of the places: to the right, then up.

    ``rows`` numbers the rows that each square stands for, nearest first. ``stretch`` is the length
    of one unit up over that of one to the right. ``unplaced`` counts the rows left out.
    """

    middles: FloatArray
    size: FloatArray
    rows: IntArray
    stretch: float
    unplaced: int

    def shares(self, codes: IntArray, category: int) -> FloatArray:
        """Share of a category in the rows of each square."""
        return np.asarray((codes[self.rows] == category).mean(axis=1))

    def estimates(self, codes: IntArray, randomizer: Randomizer) -> tuple[FloatArray, FloatArray]:
        """Estimate all shares around each square from reports, with their standard errors."""
        found = [randomizer.estimate(codes[rows]) for rows in self.rows]
        variances = np.array([each.variance for each in found])
        return np.array([each.value for each in found]), np.sqrt(variances)


def squares_over(points: FloatArray, *, geographic: bool) -> Squares | None:
    """Return squares over points on a plane, or latitudes and longitudes; none without a place."""
    from scipy.spatial import cKDTree

    placed = np.flatnonzero(points.any(axis=1)) if geographic else np.arange(len(points))
    if not placed.size:
        return None
    plane, stretch = points[placed], 1.0
    if geographic:
        plane = np.column_stack((_counted_on(plane[:, 1]), plane[:, 0]))
        stretch = 1 / max(math.cos(math.radians(float(plane[:, 1].mean()))), _SHORTEST)
    unit = np.array([1 / stretch, 1.0])
    plane = plane * unit
    low, high = plane.min(axis=0), plane.max(axis=0)
    side = float((high - low).max()) / _ACROSS or 1.0
    numbers = np.unique(np.minimum((plane - low) // side, _ACROSS - 1), axis=0)
    middles = low + (numbers + 0.5) * side
    nearest = min(placed.size, _MOST, max(_FEWEST, math.ceil(_AROUND * placed.size)))
    rows = cKDTree(plane).query(middles, k=[*range(1, nearest + 1)])[1]
    unplaced = len(points) - placed.size
    return Squares(middles / unit, side / unit, placed[np.asarray(rows)], stretch, unplaced)


def explained(squares: Squares, error: float, *, known: bool) -> Iterator[str]:
    """Yield how to read maps of a release, of which a square has up to this standard error.

    ``known``: maps of the true answers are beside them.
    """
    yield (
        "The released table has one report for each place. It need not be that of the person who "
        "is there: it may be that of somebody near. A square shows the share of an answer in the "
        f"{squares.rows.shape[1]:,} rows nearest to it."
    )
    if known:
        yield (
            "Before are the true answers at the places of those who gave them. They are known "
            "because this run was a simulation: in a real survey nobody sees this side."
        )
    yield (
        f"{'After' if known else 'Shown'} is what the released rows alone say, less the noise of "
        "randomizing on average: what is left of it is a standard error of up to "
        f"{100 * error:.0f} points in a square, and a share below zero is drawn as zero. What "
        "shuffling has mixed stays mixed: details are gone up to how far reports have moved."
    )
    if squares.unplaced:
        yield f"{squares.unplaced:,} rows of people without a place are on no map."


def _counted_on(longitudes: FloatArray) -> FloatArray:
    """Longitudes within half a turn of their mean direction, beyond 180 where need be."""
    turns = np.radians(longitudes)
    middle = math.degrees(math.atan2(np.sin(turns).sum(), np.cos(turns).sum()))
    return np.asarray(middle + (longitudes - middle + 180) % 360 - 180)
