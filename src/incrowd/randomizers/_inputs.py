"""Checks of arrays: encoded values, and reports that arrive. Each failure is one clear line.

An absent value (the code −1, NaN, a row of NaN) is never refused: it gets a stand-in, drawn with
the report's generator. Any other refusal is a mistake of the caller: tasks encode no such value.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import EmptyData, InvalidParameter, NotANumber, UnknownCategory
from incrowd.randomizers.base import ABSENT, FloatArray, Reports

Integers = NDArray[np.integer[Any]]
_MIDDLE = 0.5

UNIT_TOLERANCE = 1e-6
"""Largest deviation from one of the length of a unit vector."""


def codes(values: NDArray[Any], categories: int, rng: np.random.Generator) -> Integers:
    """Check category codes 0…k−1, one per person; draw a uniform one for each absent value."""
    array = _whole(values, categories, least=ABSENT)
    absent = array == ABSENT
    if not absent.any():
        return array
    filled = array.astype(np.int64)
    filled[absent] = rng.integers(categories, size=int(np.count_nonzero(absent)))
    return filled


def targets(values: NDArray[Any], count: int) -> Integers:
    """Check targets 0…count−1, one per message; none is ever absent."""
    return _whole(values, count, least=0)


def _whole(values: NDArray[Any], below: int, least: int) -> Integers:
    array = _one_per_person(values)
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if not np.issubdtype(array.dtype, np.integer):
        raise UnknownCategory(
            f"values must be whole category codes 0…{below - 1}, got an array of "
            f"{array.dtype}: encode the categories first"
        )
    low, high = int(array.min()), int(array.max())
    if low < least or high >= below:
        wrong = low if low < least else high
        where = int(np.flatnonzero(array == wrong)[0])
        raise UnknownCategory(
            f"value {wrong} at position {where} is not one of the codes 0…{below - 1}"
        )
    return array


def numbers(values: NDArray[Any]) -> FloatArray:
    """Check numbers in [0, 1], one per person; put the middle for each absent value."""
    array = optional_numbers(values)
    absent = np.isnan(array)
    return np.where(absent, _MIDDLE, array) if absent.any() else array


def optional_numbers(values: NDArray[Any]) -> FloatArray:
    """Check numbers in [0, 1], one per person; NaN stands for an absent value."""
    array = _as_floats(_one_per_person(values))
    outside = (array < 0) | (array > 1)
    if outside.any():
        where = int(np.flatnonzero(outside)[0])
        raise NotANumber(
            f"value {array[where]} at position {where} is not a number in [0, 1]: "
            "rescale by the bounds of the task"
        )
    return array


def vectors(values: NDArray[Any], dimension: int, rng: np.random.Generator) -> FloatArray:
    """Check rows of ``dimension`` numbers; draw a uniform direction for each absent value.

    The length of a row is checked where it is computed.
    """
    array = np.asarray(values)
    if array.size == 0:
        return np.empty((0, dimension))
    if array.ndim != 2 or array.shape[1] != dimension:
        raise InvalidParameter(
            f"values must be an array of shape (people, {dimension}), got {array.shape}"
        )
    rows = _as_floats(array)
    absent = np.isnan(rows[:, 0])
    if not absent.any():
        return rows
    drawn = rng.standard_normal((int(np.count_nonzero(absent)), dimension))
    filled = rows.copy()
    filled[absent] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return filled


def refuse_length(array: FloatArray, where: int) -> NoReturn:
    """Name the vector that is not of length one."""
    length = float(np.linalg.norm(array[where]))
    raise NotANumber(
        f"the vector at position {where} has length {length}, not 1: normalise it first"
    )


def received(reports: Reports, width: int | None, below: int | None) -> Reports:
    """Check reports of shape ``(n,)`` or ``(n, width)``, at least one, entries in 0…below−1."""
    array = np.asarray(reports)
    shape_fits = array.ndim == 1 if width is None else array.ndim == 2 and array.shape[1] == width
    if array.shape[:1] == (0,):
        raise EmptyData("there are no reports to estimate from: wait for at least one")
    if not shape_fits:
        expected = "(n,)" if width is None else f"(n, {width})"
        raise InvalidParameter(f"reports must have shape {expected}, got {array.shape}")
    if below is not None and (
        not np.issubdtype(array.dtype, np.integer)
        or int(array.min()) < 0
        or int(array.max()) >= below
    ):
        raise InvalidParameter(
            f"reports must be whole numbers in 0…{below - 1}: these come from another randomizer"
        )
    return array


def received_floats(reports: Reports, width: int | None) -> Reports:
    """Check finite reports of shape ``(n,)`` or ``(n, width)``, at least one."""
    array = received(reports, width, None)
    if not np.isfinite(array).all():
        thing = "finite numbers" if width is None else "finite"
        raise InvalidParameter(f"reports must be {thing}: these come from another randomizer")
    return array


def smallest_unsigned(largest: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type that holds 0…largest."""
    return np.dtype(np.min_scalar_type(largest))


def _one_per_person(values: NDArray[Any]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidParameter(
            f"values must be one-dimensional, one per person, got shape {array.shape}"
        )
    return array


def _as_floats(array: NDArray[Any]) -> FloatArray:
    try:
        return np.ascontiguousarray(array, np.float64)
    except (TypeError, ValueError) as error:
        raise NotANumber(f"values must be numbers: {error}") from None
