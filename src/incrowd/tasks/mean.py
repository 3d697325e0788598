"""The mean and the sum of a bounded number, and the mean of unit vectors.

A number is scaled from its public bounds to [0, 1] before it is randomized, and the estimate is
scaled back. A number outside the bounds counts as the nearest of them. A missing number, or text
that is none, is absent:

* ``ternary``, the default, has an outcome for it. The mean is that of people with a number, a ratio
  of two estimates with Fieller's limits; the sum is that of their numbers; a second row estimates
  the share of people without one.
* With another randomizer, and for a ``complete`` column, the middle of the bounds stands for it:
  where a share q of the people has no number, the mean is off by q·(middle − mean).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import (
    Domain,
    Estimate,
    FloatArray,
    Randomizer,
    normal_half_width,
)
from incrowd.randomizers.ternary import NONE
from incrowd.tasks.base import Answer, Collected, Task, check_rows
from incrowd.tasks.ratio import ratio
from incrowd.tasks.raw import NO_ANSWER, ColumnDomain, Gaps, floats, missing

_UNIT_TOLERANCE = 1e-6


class Mean(Task, frozen=True, kw_only=True, tag="mean"):
    """The mean of a number that lies within ``bounds``, both ends included."""

    bounds: tuple[float, float]
    complete: bool = False

    domain: ClassVar[Domain] = "interval"

    def __post_init__(self) -> None:
        """Refuse bounds that are not two finite numbers in order."""
        checks.instance(self.complete, bool, "complete", "True")
        try:
            first, last = self.bounds
        except (TypeError, ValueError) as shape:
            raise InvalidParameter(
                f"bounds must be (low, high), got {self.bounds!r}", field="bounds"
            ) from shape
        low, high = checks.number(first, "low of bounds"), checks.number(last, "high of bounds")
        if not (math.isfinite(high - low) and low < high):
            raise InvalidParameter(
                f"bounds must be two finite numbers with low < high, got {self.bounds!r}",
                field="bounds",
            )
        msgspec.structs.force_setattr(self, "bounds", (low, high))

    @property
    def labels(self) -> tuple[str, ...]:
        """The mean, and the share of people without a number unless the column is complete."""
        return (self.kind,) if self.complete else (self.kind, NO_ANSWER)

    @property
    def width(self) -> float:
        """The distance between the bounds."""
        low, high = self.bounds
        return high - low

    def scale(self, people: int) -> float:
        """The distance between the bounds."""
        del people
        return self.width

    def require(self, randomizer: Randomizer) -> None:
        """Refuse a randomizer for another domain, and one with an outcome for none."""
        Task.require(self, randomizer)
        if self.complete and randomizer.reports_missing:
            raise InvalidParameter(
                f"{randomizer.kind} has an outcome for people without an answer, and complete = "
                "true says that there are none: leave complete out, or use onebit"
            )

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        """The bounds of the column."""
        low, high = self.bounds
        return {column: ColumnDomain("number", low=low, high=high, complete=self.complete)}

    def encode(self, column: NDArray[Any]) -> FloatArray:
        """Every number clipped to the bounds and scaled to [0, 1]; NaN for what is none."""
        return (self._numbers(column) - self.bounds[0]) / self.width

    def gaps(self, column: NDArray[Any]) -> Gaps:
        """Rows without a number, and rows with one outside the bounds or with other text."""
        numbers, (low, high) = floats(check_rows(column, axes=1)), self.bounds
        return Gaps.of(missing(np.asarray(column)), (numbers >= low) & (numbers <= high))

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The mean of the numbers within the bounds, and the share of people without one."""
        numbers = self._numbers(column)
        there = numbers[~np.isnan(numbers)]
        found = [self._summary(there), 1 - there.size / numbers.size]
        return np.array(found[: len(self.labels)])

    def effect(self, randomizer: Randomizer) -> str:
        """The place of missing numbers in the estimate."""
        if randomizer.reports_missing:
            return (
                f"The {self.kind} is over the people who answered, and {NO_ANSWER!r} is the share "
                "of the people who did not. A number outside the bounds counts as the nearest "
                "bound."
            )
        return f"{self._bias} A number outside the bounds counts as the nearest bound."

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> Answer:
        """The answer from the reports alone."""
        if not randomizer.reports_missing:
            plain = Task.estimate(self, collected, randomizer, confidence)
            return replace(plain, labels=(self.kind,))
        self.require(randomizer)
        z = normal_half_width(confidence)
        found, people = collected.estimate(randomizer), collected.people
        answered = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
        value = answered @ found.value
        first = self._row(value, answered @ found.covariance @ answered.T, people, z)
        none, error = float(found.value[NONE]), math.sqrt(max(0.0, float(found.variance[NONE])))
        rows = np.array([first, (none, none - z * error, none + z * error, error)])
        return Answer(
            labels=(self.kind, NO_ANSWER),
            value=rows[:, 0],
            low=rows[:, 1],
            high=rows[:, 2],
            standard_error=rows[:, 3],
            confidence=confidence,
            people=people,
            missing=self.effect(randomizer),
        )

    def in_units(self, estimate: Estimate, people: int) -> Estimate:
        """From [0, 1] back to the bounds."""
        times = self.scale(people) / self.width
        return Estimate(
            value=np.atleast_1d(times * (self.bounds[0] + self.width * estimate.value)),
            variance=np.atleast_1d((times * self.width) ** 2 * estimate.variance),
            reports=estimate.reports,
        )

    @property
    def _bias(self) -> str:
        middle = self.bounds[0] / 2 + self.bounds[1] / 2
        return (
            f"A person without an answer counts as the middle of the bounds, {middle:g}: where a "
            f"share q of the people has none, the mean is off by q·({middle:g} − mean)."
        )

    def _row(
        self, value: FloatArray, covariance: FloatArray, people: int, z: float
    ) -> tuple[float, float, float, float]:
        """The mean with its limits and standard error.

        From the share of people who have a number times its mean, and that share. Where it cannot
        be told from zero, only the bounds are known of the mean.
        """
        del people
        (low, high), found = self.bounds, ratio(value[0], value[1], covariance, z)
        if found is None:
            return low / 2 + high / 2, low, high, self.width / 2
        return (
            low + self.width * found.value,
            low + self.width * found.low,
            low + self.width * found.high,
            self.width * found.standard_error,
        )

    def _summary(self, numbers: FloatArray) -> float:
        return math.fsum(numbers) / numbers.size if numbers.size else math.nan

    def _numbers(self, column: NDArray[Any]) -> FloatArray:
        """Every number, clipped to the bounds; NaN for what is none."""
        return np.asarray(np.clip(floats(check_rows(column, axes=1)), *self.bounds))


class Sum(Mean, frozen=True, kw_only=True, tag="sum"):
    """The sum of a number that lies within ``bounds``, over the people who took part and have one.

    With a randomizer other than ``ternary``, and for a complete column, over all who took part, of
    whom those without a number count as the middle of the bounds.
    """

    def scale(self, people: int) -> float:
        """The distance between the bounds, once for each person."""
        return people * self.width

    @property
    def _bias(self) -> str:
        middle = self.bounds[0] / 2 + self.bounds[1] / 2
        return (
            f"A person without an answer counts as the middle of the bounds, {middle:g}: the sum "
            f"is larger than that of the others by {middle:g} for each."
        )

    def _row(
        self, value: FloatArray, covariance: FloatArray, people: int, z: float
    ) -> tuple[float, float, float, float]:
        """The sum with its limits and standard error: linear in both estimates."""
        weights = people * np.array([self.width, self.bounds[0]])
        total = float(weights @ value)
        error = math.sqrt(max(0.0, float(weights @ covariance @ weights)))
        return total, total - z * error, total + z * error, error

    def _summary(self, numbers: FloatArray) -> float:
        return math.fsum(numbers)


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

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        """A unit vector."""
        return {column: ColumnDomain("vector")}

    def encode(self, column: NDArray[Any]) -> FloatArray:
        """Every row scaled to length one; a row of NaN for one that has no direction."""
        vectors = self._vectors(column)
        lengths = _lengths(vectors)[:, None]
        usable = np.isfinite(lengths) & (lengths > 0)
        exact = np.abs(lengths - 1) <= _UNIT_TOLERANCE
        scaled = np.divide(vectors, lengths, out=np.full(vectors.shape, np.nan), where=usable)
        return np.where(exact, vectors, scaled)

    def gaps(self, column: NDArray[Any]) -> Gaps:
        """Rows with a missing coordinate, and rows of another length than one."""
        usual = np.abs(_lengths(self._vectors(column)) - 1) <= _UNIT_TOLERANCE
        return Gaps.of(np.asarray(missing(np.asarray(column)).any(axis=1)), usual)

    def truth(self, column: NDArray[Any]) -> FloatArray:
        """The mean of the vectors that have a direction."""
        vectors = self.encode(column)
        there = vectors[~np.isnan(vectors[:, 0])]
        return np.asarray(there.mean(axis=0)) if len(there) else np.full(self.dimension, np.nan)

    def effect(self, randomizer: Randomizer) -> str:
        """The place of missing vectors in the estimate."""
        del randomizer
        return (
            "A person without a vector counts as a random direction: where a share q of the people "
            "has none, the mean is too short by that share. Other vectors are scaled to length one."
        )

    def _vectors(self, column: NDArray[Any]) -> FloatArray:
        vectors = floats(check_rows(column, axes=2))
        if vectors.shape[1] != self.dimension:
            raise InvalidParameter(
                f"the vectors have {vectors.shape[1]} coordinates, the task has {self.dimension}"
            )
        return vectors


def _lengths(vectors: FloatArray) -> FloatArray:
    """The length of each row; not finite where it cannot be held."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.linalg.norm(vectors, axis=1), np.float64)
