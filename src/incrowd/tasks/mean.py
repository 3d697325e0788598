"""The mean and the sum of a bounded number, and the mean of unit vectors.

A number is scaled from its bounds to [0, 1] before it is randomized, and the estimate is scaled
back. The bounds are public and chosen by whoever asks. A value outside them is refused with its
row: clipping it silently would bias the answer without a trace.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, NotANumber
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer
from incrowd.tasks.base import Task, check_rows

__all__ = ["Mean", "Sum", "Vector"]

_UNIT_TOLERANCE = 1e-6


class Mean(Task, frozen=True, kw_only=True, tag="mean"):
    """The mean of a number that lies within ``bounds``, both ends included."""

    bounds: tuple[float, float]

    domain: ClassVar[Domain] = "interval"

    def __post_init__(self) -> None:
        """Refuse bounds that are not two finite numbers in order."""
        try:
            first, last = self.bounds
        except (TypeError, ValueError) as shape:
            raise InvalidParameter(f"bounds must be (low, high), got {self.bounds!r}") from shape
        low, high = checks.number(first, "low of bounds"), checks.number(last, "high of bounds")
        if not (math.isfinite(high - low) and low < high):
            raise InvalidParameter(
                f"bounds must be two finite numbers with low < high, got {self.bounds!r}"
            )
        msgspec.structs.force_setattr(self, "bounds", (low, high))

    @property
    def labels(self) -> tuple[str, ...]:
        """One row, the mean."""
        return ("mean",)

    @property
    def width(self) -> float:
        """The distance between the bounds."""
        low, high = self.bounds
        return high - low

    def scale(self, people: int) -> float:
        """The distance between the bounds."""
        del people
        return self.width

    def encode(self, column: NDArray[Any]) -> FloatArray:
        """Every value scaled to [0, 1]; :class:`NotANumber` names the first that cannot be."""
        return (self._numbers(column) - self.bounds[0]) / self.width

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The mean of the raw values."""
        return np.array([math.fsum(numbers := self._numbers(column)) / len(numbers)])

    def in_units(self, estimate: Estimate, people: int) -> Estimate:
        """From [0, 1] back to the bounds."""
        times = self.scale(people) / self.width
        return Estimate(
            value=np.atleast_1d(times * (self.bounds[0] + self.width * estimate.value)),
            variance=np.atleast_1d((times * self.width) ** 2 * estimate.variance),
            reports=estimate.reports,
        )

    def _numbers(self, column: NDArray[Any]) -> FloatArray:
        numbers = _floats(check_rows(column, axes=1))
        low, high = self.bounds
        # Written so that NaN counts as outside.
        outside = np.flatnonzero(~((numbers >= low) & (numbers <= high)))
        if outside.size:
            row = int(outside[0])
            written = str(np.asarray(column)[row])
            found = f"{written!r} is not" if written else "no value in place of"
            if not written:
                remedy = "fill it in or remove the row"
            elif math.isnan(numbers[row]):
                remedy = "write it in digits, such as 12.5"
            else:
                remedy = "widen the bounds or correct the data"
            raise NotANumber(
                f"row {row + 1}: {found} a number between {low:g} and {high:g}: {remedy}"
            )
        return numbers


class Sum(Mean, frozen=True, kw_only=True, tag="sum"):
    """The sum, over the people who took part, of a number that lies within ``bounds``."""

    @property
    def labels(self) -> tuple[str, ...]:
        """One row, the sum."""
        return ("sum",)

    def scale(self, people: int) -> float:
        """The distance between the bounds, once for each person."""
        return people * self.width

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The sum of the raw values."""
        return np.array([math.fsum(self._numbers(column))])


class Vector(Task, frozen=True, kw_only=True, tag="vector"):
    """The mean of unit vectors of ``dimension`` coordinates."""

    dimension: int

    domain: ClassVar[Domain] = "vector"

    def __post_init__(self) -> None:
        """Refuse a dimension below one."""
        checks.integer(self.dimension, "dimension", at_least=1)

    @property
    def labels(self) -> tuple[str, ...]:
        """One row per coordinate, counted from 0."""
        return tuple(str(coordinate) for coordinate in range(self.dimension))

    def require(self, randomizer: Randomizer) -> None:
        """Refuse a randomizer for another domain or another dimension."""
        Task.require(self, randomizer)
        expected = getattr(randomizer, "dimension", None)
        if expected is not None and expected != self.dimension:
            raise InvalidParameter(
                f"the vectors have {self.dimension} coordinates but {randomizer.kind} has "
                f"{expected}: make both the same"
            )

    def encode(self, column: NDArray[Any]) -> FloatArray:
        """The rows themselves; :class:`NotANumber` names the first that is no unit vector."""
        vectors = _floats(check_rows(column, axes=2))
        if vectors.shape[1] != self.dimension:
            raise InvalidParameter(
                f"the vectors have {vectors.shape[1]} coordinates, the task has {self.dimension}"
            )
        length = np.linalg.norm(vectors, axis=1)
        wrong = np.flatnonzero(~(np.abs(length - 1) <= _UNIT_TOLERANCE))
        if wrong.size:
            row = int(wrong[0])
            raise NotANumber(
                f"row {row + 1}: the vector has length {length[row]:g}, not 1: normalise the data"
            )
        return vectors

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The mean of the raw vectors."""
        return np.asarray(self.encode(column).mean(axis=0), np.float64)


def _floats(array: NDArray[Any]) -> FloatArray:
    """The array as floats; what is no number becomes NaN, for the caller to refuse by row."""
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    flat = np.fromiter((_float(value) for value in array.flat), np.float64, array.size)
    return flat.reshape(array.shape)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
