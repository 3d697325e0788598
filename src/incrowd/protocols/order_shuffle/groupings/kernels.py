"""Compiled searches for the places near a point, imported only when first used.

Places are sorted by rows, strips as high as the radius along one coordinate, and within a row by
another coordinate. All that are near a point lie in its row and the two beside it, in one interval
of each: found by bisection, then compared one by one. That reads about twice as many places as it
finds, one after another in memory, and lists them in increasing order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_Loop = TypeVar("_Loop", bound=Callable[..., Any])


def _compiled(loop: _Loop) -> _Loop:
    return cast(_Loop, numba.njit(cache=True, nogil=True)(loop))


@_compiled
def _first(values: FloatArray, low: int, high: int, bound: float) -> int:
    """The first index of ``values[low:high]``, which increase, that is not below ``bound``."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@_compiled
def _near(places: FloatArray, index: int, centre: FloatArray, square: float) -> bool:
    total = 0.0
    for c in range(centre.size):
        difference = places[index, c] - centre[c]
        total += difference * difference
    return total <= square


@_compiled
def _row(rows: IntArray, wanted: int) -> int:
    """Which of the rows that have places is the wanted one, or −1."""
    low, high = 0, rows.size
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    if low < rows.size and rows[low] == wanted:
        return low
    return -1


@_compiled
def count_near(
    places: FloatArray,
    along: FloatArray,
    rows: IntArray,
    starts: IntArray,
    weights: IntArray,
    centres: FloatArray,
    centre_along: FloatArray,
    centre_rows: IntArray,
    radius: float,
    people: IntArray,
    found: IntArray,
) -> None:
    """Of every centre, the people and the places within the radius, into the last two arrays."""
    square = radius * radius
    for c in range(centres.shape[0]):
        total, number = 0, 0
        for step in range(-1, 2):
            row = _row(rows, centre_rows[c] + step)
            if row < 0:
                continue
            index = _first(along, starts[row], starts[row + 1], centre_along[c] - radius)
            while index < starts[row + 1] and along[index] <= centre_along[c] + radius:
                if _near(places, index, centres[c], square):
                    total += weights[index]
                    number += 1
                index += 1
        people[c], found[c] = total, number


@_compiled
def list_near(
    places: FloatArray,
    along: FloatArray,
    rows: IntArray,
    starts: IntArray,
    centres: FloatArray,
    centre_along: FloatArray,
    centre_rows: IntArray,
    radius: float,
    out: NDArray[np.int32],
) -> int:
    """The places within the radius of every centre, one centre after another."""
    square, at = radius * radius, 0
    for c in range(centres.shape[0]):
        for step in range(-1, 2):
            row = _row(rows, centre_rows[c] + step)
            if row < 0:
                continue
            index = _first(along, starts[row], starts[row + 1], centre_along[c] - radius)
            while index < starts[row + 1] and along[index] <= centre_along[c] + radius:
                if _near(places, index, centres[c], square):
                    out[at] = index
                    at += 1
                index += 1
    return at


@_compiled
def list_near_people(
    near: NDArray[np.int32], indptr: IntArray, people: IntArray, out: IntArray
) -> None:
    """The people at these places, one place after another."""
    at = 0
    for place in near:
        for index in range(indptr[place], indptr[place + 1]):
            out[at] = people[index]
            at += 1


@_compiled
def search_near(
    places: FloatArray,
    along: FloatArray,
    rows: IntArray,
    starts: IntArray,
    place_along: FloatArray,
    place_rows: IntArray,
    radius: float,
    roots: IntArray,
    order: IntArray,
) -> None:
    """Breadth-first search over places from each root on that was not reached, into ``order``.

    The places near one are visited in increasing order; which they are is found on the way.
    """
    square, end = radius * radius, 0
    reached = np.zeros(places.shape[0], np.bool_)
    for root in roots:
        if reached[root]:
            continue
        reached[root] = True
        order[end] = root
        at = end
        end += 1
        while at < end:
            place = order[at]
            at += 1
            for step in range(-1, 2):
                row = _row(rows, place_rows[place] + step)
                if row < 0:
                    continue
                low = place_along[place] - radius
                index = _first(along, starts[row], starts[row + 1], low)
                while index < starts[row + 1] and along[index] <= place_along[place] + radius:
                    if not reached[index] and _near(places, index, places[place], square):
                        reached[index] = True
                        order[end] = index
                        end += 1
                    index += 1
