"""Groups from coordinates: everybody in the same square of a fixed grid.

Balls around people overlap, so that no line through a plane keeps them all together, and the worst
of them decides how much has to be shuffled. Squares do not overlap: along a Hilbert curve over the
grid each one is a run of neighbours on the line, which is the least that a group of its size can
cost, and squares that follow each other share a side. Order is hidden inside a square; between
people on two sides of a border the guarantee is that for other groups, stated after the fact.

The grid is fixed by its side alone, not by the people who take part. On the earth it has rows
between parallels, and each row is cut along meridians by the width of a degree in its middle:
squares are as wide there as they are high.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.order_shuffle.groupings.balls import checked_points
from incrowd.protocols.order_shuffle.groupings.geo import DEGREE
from incrowd.protocols.order_shuffle.groupings.lists import ListedGroups
from incrowd.protocols.order_shuffle.orders.coordinates import CURVE, along_hilbert

FloatArray = NDArray[np.float64]

_NARROWEST = 1e-9
"""The least width of a degree of longitude, as a share of that at the equator."""


def from_cells(points: ArrayLike, side: float, metric: str = "euclidean") -> ListedGroups:
    """Everybody in the same square, ``side`` wide, in the order of a Hilbert curve over them.

    ``points`` has one row per person, of one number (then squares are intervals) or of two; for
    ``haversine`` they are latitude and longitude in degrees, and the side is in kilometres.
    """
    places = checked_points(points, metric)
    if checks.number(side, "radius") <= 0:
        raise InvalidParameter(f"radius must be above 0 for squares, got {side!r}", field="radius")
    if places.shape[1] > 2:
        raise InvalidParameter(
            f"squares are for one or two coordinates, got {places.shape[1]}: use balls"
        )
    squares, middles = (_on_earth if metric == "haversine" else _on_plane)(places, side)
    if np.abs(squares).max() >= 2**52:
        raise InvalidParameter(
            f"radius {side:g} is too small for coordinates of this size", field="radius"
        )
    distinct, first, square_of = np.unique(
        squares.astype(np.int64), axis=0, return_index=True, return_inverse=True
    )
    groups = np.split(np.argsort(square_of, kind="stable"), np.cumsum(np.bincount(square_of))[:-1])
    unit = " km" if metric == "haversine" else ""
    words = f"everybody in the same square of {side:g}{unit}"
    if places.shape[1] == 1:
        words = f"everybody in the same interval of {side:g}"
    along = (groups[each] for each in _along(distinct, middles[first]))
    return ListedGroups(len(places), along, words, lined_up=True)


def _on_plane(places: FloatArray, side: float) -> tuple[FloatArray, FloatArray]:
    """The square of each place, and where it lies for a curve over all of them."""
    squares = np.floor(places / side)
    return squares, squares


def _on_earth(places: FloatArray, side: float) -> tuple[FloatArray, FloatArray]:
    # Rows of squares are shifted against each other, so that for the curve the middles of squares
    # are put on a map that is true in the middle of all places.
    north, east = places.T
    rows = np.floor(north * DEGREE / side)
    latitudes = np.clip((rows + 0.5) * side / DEGREE, -90.0, 90.0)
    widths = np.maximum(np.cos(np.radians(latitudes)), _NARROWEST) * DEGREE / side
    columns = np.floor(east * widths)
    true = np.maximum(np.cos(np.radians(north.mean())), _NARROWEST) * DEGREE / side
    across = np.floor((columns + 0.5) / widths * true)
    return np.column_stack([rows, columns]), np.column_stack([rows, across])


def _along(squares: NDArray[np.int64], middles: FloatArray) -> NDArray[np.intp]:
    """Squares in the order of the curve; of a grid too fine for it, in that of its blocks."""
    if squares.shape[1] == 1:
        return np.argsort(squares[:, 0])
    from_corner = (middles - middles.min(axis=0)).astype(np.int64)
    coarse = from_corner // max(1, -(-int(from_corner.max() + 1) // CURVE))
    return np.lexsort([squares[:, 1], squares[:, 0], along_hilbert(coarse[:, 1], coarse[:, 0])])
