"""Reference orders by coordinates: along lines, a Hilbert curve, or strips.

They need no list of who is near whom, so that they serve groups of any size. People at one place
stay together. Each function yields its variants, and nothing where there are too few coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.order_shuffle.groupings.balls import BallGroups
from incrowd.protocols.order_shuffle.groupings.base import IntArray
from incrowd.protocols.order_shuffle.groupings.geo import DEGREE

FloatArray = NDArray[np.float64]

_DIRECTIONS = 16
_LEVELS = 16
CURVE = 2**_LEVELS
"""Rows of a Hilbert curve, each of as many cells."""
_WIDTHS = (1, 2, 4)


def coordinate(grouping: BallGroups) -> Iterator[IntArray]:
    """Sorted by each coordinate, along the principal axis, and in 16 directions of a plane."""
    points = grouping.plane()
    for axis in range(points.shape[1]):
        yield _sorted(grouping, points[:, axis])
    if points.shape[1] > 1:
        yield _sorted(grouping, _principal(points)[:, 0])
    if points.shape[1] == 2:
        for step in range(1, _DIRECTIONS):
            # The axes themselves were tried.
            if 2 * step != _DIRECTIONS:
                angle = math.pi * step / _DIRECTIONS
                yield _sorted(grouping, points @ [math.cos(angle), math.sin(angle)])


def hilbert(grouping: BallGroups) -> Iterator[IntArray]:
    """Along a Hilbert curve over the square that holds everybody."""
    if grouping.points.shape[1] < 2:
        return
    points = grouping.plane()
    plane = points if points.shape[1] == 2 else _principal(points)[:, :2]
    low = plane.min(axis=0)
    width = float(np.ptp(plane, axis=0).max()) or 1.0
    column, row = np.minimum(((plane - low) / width * CURVE).astype(np.int64), CURVE - 1).T
    yield _sorted(grouping, along_hilbert(column, row))


def along_hilbert(column: IntArray, row: IntArray) -> IntArray:
    """Distances of cells along the curve: quadrant by quadrant, turned and mirrored as it goes."""
    x, y, far = column.copy(), row.copy(), np.zeros(column.size, np.int64)
    side = CURVE // 2
    while side:
        right, upper = (x & side) > 0, (y & side) > 0
        far += side * side * ((3 * right) ^ upper)
        mirrored = right & ~upper
        x, y = (np.where(mirrored, CURVE - 1 - x, x), np.where(mirrored, CURVE - 1 - y, y))
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        side //= 2
    return far


def strips(grouping: BallGroups) -> Iterator[IntArray]:
    """Up one strip and down the next; strips across either of two axes, of several widths."""
    if grouping.points.shape[1] < 2 or grouping.radius == 0:
        return
    points = grouping.plane()
    plane = points if points.shape[1] == 2 else _principal(points)[:, :2]
    radius = grouping.radius / (DEGREE if grouping.metric == "haversine" else 1.0)
    for across in (0, 1):
        for width in _WIDTHS:
            strip = (plane[:, across] - plane[:, across].min()) // (width * radius)
            along = plane[:, 1 - across]
            yield _sorted(grouping, np.where(strip % 2 == 1, -along, along), strip)


def _sorted(grouping: BallGroups, *keys: NDArray[np.float64] | IntArray) -> IntArray:
    """People by the last key, then by those before; those at one place together."""
    start = grouping.by_place()
    return start[np.lexsort([key[start] for key in keys])]


def _principal(points: FloatArray) -> FloatArray:
    """Coordinates along the axes in which people are most spread out."""
    centred = points - points.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    axes = axes[:, ::-1]
    # Either sign is an axis: one is fixed, so that the order does not hang on the library.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    found: FloatArray = centred @ (axes * signs)
    return found
