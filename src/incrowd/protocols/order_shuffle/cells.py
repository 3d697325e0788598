"""Groups from coordinates: everybody in the same square of a fixed grid.

Balls around people overlap, so that no line through a plane keeps them all together, and the worst
of them decides how much has to be shuffled. Squares do not overlap: along a Hilbert curve over the
grid each one is a run of neighbours on the line, which is the least that a group of its size can
cost, and squares that follow each other share a side. What is hidden is who of a square said what;
between people on two sides of a border the promise is that for other groups, stated after the fact.

The grid is fixed by its side alone, not by who takes part: a square is the same whoever comes. On
the earth it is cut along parallels, and along meridians by the width of a degree in the middle of
each whole degree of latitude, so that squares are as wide as high to within some per cent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.order_shuffle.balls import checked_points
from incrowd.protocols.order_shuffle.earth import DEGREE
from incrowd.protocols.order_shuffle.listed import ListedGroups
from incrowd.protocols.order_shuffle.sorting import CURVE, along_hilbert

__all__ = ["from_cells"]


def from_cells(points: ArrayLike, side: float, metric: str = "euclidean") -> ListedGroups:
    """Everybody in the same square, ``side`` wide, in the order of a Hilbert curve over them.

    ``points`` has one row per person, of one number (then squares are intervals) or of two; for
    ``haversine`` they are latitude and longitude in degrees, and the side is in kilometres.
    """
    places = checked_points(points, metric)
    if checks.number(side, "radius") <= 0:
        raise InvalidParameter(f"radius must be above 0 for squares, got {side!r}")
    if places.shape[1] > 2:
        raise InvalidParameter(
            f"squares are for one or two coordinates, got {places.shape[1]}: use balls"
        )
    flat = _on_plane(places) if metric == "haversine" else places
    squares = np.floor(flat / side)
    if np.abs(squares).max() >= 2**52:
        raise InvalidParameter(f"radius {side:g} is too small for coordinates of this size")
    distinct, square_of = np.unique(squares.astype(np.int64), axis=0, return_inverse=True)
    groups = np.split(np.argsort(square_of, kind="stable"), np.cumsum(np.bincount(square_of))[:-1])
    unit = " km" if metric == "haversine" else ""
    words = f"everybody in the same square of {side:g}{unit}"
    if places.shape[1] == 1:
        words = f"everybody in the same interval of {side:g}"
    along = (groups[each] for each in _along(distinct))
    return ListedGroups(len(places), along, words, lined_up=True)


def _on_plane(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kilometres north of the equator and east of Greenwich, the latter by whole degrees."""
    north, east = places.T
    widths = np.cos(np.radians(np.clip(np.floor(north) + 0.5, -89.5, 89.5)))
    return np.column_stack([north * DEGREE, east * DEGREE * widths])


def _along(squares: NDArray[np.int64]) -> NDArray[np.intp]:
    """Squares in the order of the curve; of a grid too fine for it, in that of its blocks."""
    if squares.shape[1] == 1:
        return np.argsort(squares[:, 0])
    from_corner = squares - squares.min(axis=0)
    coarse = from_corner // max(1, -(-int(from_corner.max() + 1) // CURVE))
    return np.lexsort([squares[:, 1], squares[:, 0], along_hilbert(coarse[:, 1], coarse[:, 0])])
