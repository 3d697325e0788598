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

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, normal_half_width
from incrowd.randomizers.ternary import NONE
from incrowd.tasks.base import Answer, Collected, Task, check_rows
from incrowd.tasks.raw import NO_ANSWER, Array, ColumnDomain, Gaps, floats, missing

_UNIT_TOLERANCE = 1e-6
Row = tuple[float, float, float, float]
"""Value, lower limit, upper limit and standard error."""


def fieller(top: float, bottom: float, covariance: FloatArray, z: float) -> Row | None:
    """Return top/bottom of two estimates with Fieller's limits; None if bottom may be zero.

    For estimates t and b ≥ 0 of τ and β that are about normal, t − m·b has mean zero at m = τ/β and
    the variance v(m) = Var t − 2m·Cov + m²·Var b. The limits are those m with (t − m·b)² ≤ z²·v(m):
    they cover τ/β as often as the normal law says, however close b is to zero. Where b cannot be
    told from zero they are no interval. The standard error is that of the delta method, √v(m̂)/b.
    """
    (of_top, both), (_, of_bottom) = np.asarray(covariance).tolist()
    # (t − m·b)² = z²·v(m) as a·m² − 2·h·m + c = 0.
    a = bottom**2 - z**2 * of_bottom
    if bottom <= 0 or a <= 0:
        return None
    h, c = top * bottom - z**2 * both, top**2 - z**2 * of_top
    root = math.sqrt(max(0.0, h * h - a * c))
    value = top / bottom
    variance = of_top - 2 * value * both + value**2 * of_bottom
    return value, (h - root) / a, (h + root) / a, math.sqrt(max(0.0, variance)) / bottom


def _with_limits(value: float, variance: float, z: float) -> Row:
    error = math.sqrt(max(0.0, variance))
    return value, value - z * error, value + z * error, error


def checked_bounds(bounds: Any) -> tuple[float, float]:
    """Check two finite numbers in order, the bounds of a number."""
    try:
        first, last = bounds
    except (TypeError, ValueError) as shape:
        problem = f"bounds must be (low, high), got {bounds!r}"
        raise InvalidParameter(problem, field="bounds") from shape
    low, high = checks.number(first, "low of bounds"), checks.number(last, "high of bounds")
    if not (math.isfinite(high - low) and low < high):
        problem = f"bounds must be two finite numbers with low < high, got {bounds!r}"
        raise InvalidParameter(problem, field="bounds")
    return low, high


class Mean(Task, frozen=True, kw_only=True, tag="mean"):
    """The mean of a number that lies within ``bounds``, both ends included."""

    bounds: tuple[float, float]
    complete: bool = False

    domain: ClassVar[Domain] = "interval"

    def __post_init__(self) -> None:
        checks.instance(self.complete, bool, "complete", "True")
        msgspec.structs.force_setattr(self, "bounds", checked_bounds(self.bounds))

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.kind,) if self.complete else (self.kind, NO_ANSWER)

    @property
    def _width(self) -> float:
        return self.bounds[1] - self.bounds[0]

    @property
    def _middle(self) -> float:
        return self.bounds[0] / 2 + self.bounds[1] / 2

    def scale(self, people: int) -> float:
        del people
        return self._width

    def require(self, randomizer: Randomizer) -> None:
        Task.require(self, randomizer)
        if self.complete and randomizer.reports_missing:
            raise InvalidParameter(
                f"{randomizer.kind} has an outcome for people without an answer, and complete = "
                "true says that there are none: leave complete out, or use onebit"
            )

    def variants(self, kind: type[Randomizer]) -> tuple[Mapping[str, Any], ...]:
        # Unless the column is complete, a report must be able to say that there is no answer.
        return () if kind.reports_missing == self.complete else Task.variants(self, kind)

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        return {column: ColumnDomain("number", (), *self.bounds, complete=self.complete)}

    def encode(self, column: Array) -> FloatArray:
        """Clip every number to the bounds and scale it to [0, 1]; NaN for what is none."""
        return (self._numbers(column) - self.bounds[0]) / self._width

    def gaps(self, column: Array) -> Gaps:
        numbers, (low, high) = floats(check_rows(column, axes=1)), self.bounds
        return Gaps.of(missing(np.asarray(column)), (numbers >= low) & (numbers <= high))

    def truth(self, column: Array) -> FloatArray:
        numbers = self._numbers(column)
        there = numbers[~np.isnan(numbers)]
        return np.array([self._summary(there), 1 - there.size / numbers.size][: len(self.labels)])

    def effect(self, randomizer: Randomizer) -> str:
        told = "A person without an answer counts as the middle of the bounds, "
        told += f"{self._middle:g}: {self._bias}"
        if randomizer.reports_missing:
            told = f"The {self.kind} is over the people who answered, and {NO_ANSWER!r} is the "
            told += "share of the people who did not."
        return f"{told} A number outside the bounds counts as the nearest bound."

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> Answer:
        if not randomizer.reports_missing:
            plain = Task.estimate(self, collected, randomizer, confidence)
            return replace(plain, labels=(self.kind,))
        self.require(randomizer)
        z, people = normal_half_width(confidence), collected.people
        found = collected.estimate(randomizer)
        answered = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
        covariance = answered @ found.covariance @ answered.T
        first = self._row(answered @ found.value, covariance, people, z)
        none = _with_limits(float(found.value[NONE]), float(found.variance[NONE]), z)
        value, low, high, errors = np.array([first, none]).T
        labels, told = (self.kind, NO_ANSWER), self.effect(randomizer)
        return Answer(labels, value, low, high, errors, confidence, people, told)

    def in_units(self, estimate: Estimate, people: int) -> Estimate:
        times = self.scale(people) / self._width
        value = np.atleast_1d(times * (self.bounds[0] + self._width * estimate.value))
        variance = np.atleast_1d((times * self._width) ** 2 * estimate.variance)
        return Estimate(value=value, variance=variance, reports=estimate.reports)

    @property
    def _bias(self) -> str:
        middle = f"{self._middle:g}"
        return f"where a share q of the people has none, the mean is off by q·({middle} − mean)."

    def _row(self, value: FloatArray, covariance: FloatArray, people: int, z: float) -> Row:
        """First row of the answer, from estimates of share·mean and share of people with a number.

        Where the share cannot be told from zero, only the bounds are known of the mean.
        """
        del people
        (low, high), width = self.bounds, self._width
        if (found := fieller(value[0], value[1], covariance, z)) is None:
            return self._middle, low, high, width / 2
        ratio, least, most, error = found
        return low + width * ratio, low + width * least, low + width * most, width * error

    def _summary(self, numbers: FloatArray) -> float:
        return math.fsum(numbers) / numbers.size if numbers.size else math.nan

    def _numbers(self, column: Array) -> FloatArray:
        return np.asarray(np.clip(floats(check_rows(column, axes=1)), *self.bounds))


class Sum(Mean, frozen=True, kw_only=True, tag="sum"):
    """The sum of a number that lies within ``bounds``, over the people who took part and have one.

    With another randomizer than ``ternary``, and for a complete column, over all who took part:
    those without a number count as the middle of the bounds.
    """

    def scale(self, people: int) -> float:
        return people * self._width

    @property
    def _bias(self) -> str:
        return f"the sum is larger than that of the others by {self._middle:g} for each."

    def _row(self, value: FloatArray, covariance: FloatArray, people: int, z: float) -> Row:
        # Linear in both estimates.
        weights = people * np.array([self._width, self.bounds[0]])
        return _with_limits(float(weights @ value), float(weights @ covariance @ weights), z)

    def _summary(self, numbers: FloatArray) -> float:
        return math.fsum(numbers)


class Vector(Task, frozen=True, kw_only=True, tag="vector"):
    """The mean of unit vectors of ``dimension`` coordinates."""

    dimension: int

    domain: ClassVar[Domain] = "vector"

    def __post_init__(self) -> None:
        checks.integer(self.dimension, "dimension", at_least=1)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.dimension)))

    def require(self, randomizer: Randomizer) -> None:
        Task.require(self, randomizer)
        expected = getattr(randomizer, "dimension", None)
        if expected is not None and expected != self.dimension:
            raise InvalidParameter(
                f"the vectors have {self.dimension} coordinates but {randomizer.kind} has "
                f"{expected}: make both the same"
            )

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        return {column: ColumnDomain("vector")}

    def encode(self, column: Array) -> FloatArray:
        """Scale every row to length one; a row of NaN for one that has no direction."""
        vectors = self._vectors(column)
        lengths = _lengths(vectors)[:, None]
        usable = np.isfinite(lengths) & (lengths > 0)
        scaled = np.divide(vectors, lengths, out=np.full(vectors.shape, np.nan), where=usable)
        return np.where(np.abs(lengths - 1) <= _UNIT_TOLERANCE, vectors, scaled)

    def gaps(self, column: Array) -> Gaps:
        """Count rows with a missing coordinate, and rows of another length than one."""
        usual = np.abs(_lengths(self._vectors(column)) - 1) <= _UNIT_TOLERANCE
        return Gaps.of(np.asarray(missing(np.asarray(column)).any(axis=1)), usual)

    def truth(self, column: Array) -> FloatArray:
        vectors = self.encode(column)
        there = vectors[~np.isnan(vectors[:, 0])]
        return np.asarray(there.mean(axis=0)) if len(there) else np.full(self.dimension, np.nan)

    def effect(self, randomizer: Randomizer) -> str:
        del randomizer
        return (
            "A person without a vector counts as a random direction: where a share q of the people "
            "has none, the mean is too short by that share. Other vectors are scaled to length one."
        )

    def _vectors(self, column: Array) -> FloatArray:
        vectors = floats(check_rows(column, axes=2))
        if vectors.shape[1] != self.dimension:
            problem = f"{vectors.shape[1]} coordinates, the task has {self.dimension}"
            raise InvalidParameter(f"the vectors have {problem}")
        return vectors


def _lengths(vectors: FloatArray) -> FloatArray:
    # Not finite where a double cannot hold it.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.linalg.norm(vectors, axis=1), np.float64)
