"""Quantiles of a bounded number: from frequencies of bins, with limits that hold for any shape.

Numbers are sorted into ``bins`` of equal width between public bounds; a number outside counts as
the nearest bound, a missing one has the reserved last category ``no answer``. Bins are reported by
a randomizer of categories, flat (``krr``, ``oue``) or by levels of a tree (``hierarchical``).

Estimate. Let F_j be the share of all people in the first j bins and a the share with a number. The
p-quantile of those who answered lies in bin j exactly if F_j < p·a ≤ F_{j+1}. With T_j = F_j − p·a,
whose estimate is linear in the frequencies and so has a known variance, bin j is rejected where
T̂_j > z·se_j or T̂_{j+1} < −z·se_{j+1}. At the true bin each of the two happens with at most half of
the error probability, so that the bins from the first to the last that is not rejected cover the
quantile as often as stated, however flat F is. Limits are the outer edges of these bins: the width
of a bin is part of them.

The estimate itself is where the monotone curve nearest to F̂ (isotonic regression) reaches p·â,
straight within a bin. The standard error is half the length of the limits at one standard error.
Before anyone has answered it is that of even data.
Proof: ``docs/theory/quantiles.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import msgspec
import numpy as np

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import ABSENT, Domain, Estimate, FloatArray, Randomizer
from incrowd.randomizers.base import normal_half_width as half_width
from incrowd.tasks.base import Answer, Collected, Task, check_rows
from incrowd.tasks.mean import checked_bounds
from incrowd.tasks.raw import NO_ANSWER, Array, ColumnDomain, Gaps, IntArray, floats, missing

MOST_BINS: Final = 1000
_ROUNDING: Final = 1e-9
_SPOKEN: Final = {0.25: "lower quarter", 0.5: "median", 0.75: "upper quarter"}
_BRANCHINGS: Final = (4, 8)
"""Trees that are tried: others are at best a few per cent better."""
_PILOTS: Final = 64
"""Number of draws behind an expected error, which is then good to a few per cent."""


class Quantiles(Task, frozen=True, kw_only=True, tag="quantiles"):
    """Quantiles of a number within ``bounds``, over the people who have one."""

    bounds: tuple[float, float]
    bins: int = 64
    probabilities: tuple[float, ...] = (0.25, 0.5, 0.75)
    complete: bool = False

    domain: ClassVar[Domain] = "category"

    def __post_init__(self) -> None:
        checks.instance(self.complete, bool, "complete", "True")
        set_field = msgspec.structs.force_setattr
        set_field(self, "bounds", checked_bounds(self.bounds))
        bins = checks.integer(self.bins, "bins", 2)
        if bins > MOST_BINS:
            raise InvalidParameter(f"bins must be at most {MOST_BINS}, got {bins}", field="bins")
        set_field(self, "bins", bins)
        set_field(self, "probabilities", _checked(self.probabilities))

    @property
    def labels(self) -> tuple[str, ...]:
        named = tuple(_SPOKEN.get(p, f"{100 * p:g} %") for p in self.probabilities)
        return named if self.complete else (*named, NO_ANSWER)

    @property
    def shares(self) -> bool:
        """Quantiles are in the units of the column."""
        return False

    @property
    def outcomes(self) -> int:
        """Number of the bins, and one for no answer."""
        return self.bins + (not self.complete)

    @property
    def edges(self) -> FloatArray:
        """Edges of the bins, both bounds included."""
        return np.linspace(*self.bounds, self.bins + 1)

    def scale(self, people: int) -> float:
        del people
        return self.bounds[1] - self.bounds[0]

    def expected_error(
        self, coordinate: float, randomizer: Randomizer, people: int, *, sampled: bool
    ) -> float:
        """Root mean square of the standard errors that runs state, for numbers even in the bounds.

        A frequency of one report has a known error; ``coordinate`` says how many reports there are
        worth of it. Normal errors of their law are put on even frequencies, some dozens of times,
        and limits drawn as of reports, with quantiles anywhere in their bins.
        """
        del people
        even, one = self._even(randomizer)
        if sampled:
            one = one + np.diag(even) - np.outer(even, even)
        covariance = one * coordinate**2 / np.mean(np.diag(one))
        rng = np.random.default_rng(0)
        curve = _Distribution.of(Estimate(even, even, 1, covariance), self.edges)
        squares = []
        for noise in _normal(covariance, rng)[:, : self.bins]:
            drawn = replace(curve, heights=curve.heights + np.concatenate([[0.0], noise.cumsum()]))
            for p in self.probabilities:
                near = p + (rng.random() - 0.5) / self.bins
                low, high = drawn.limits(min(max(near, 0.0), 1.0), 1.0)
                squares.append((high - low) ** 2 / 4)
        return math.sqrt(float(np.mean(squares)))

    def require(self, randomizer: Randomizer) -> None:
        Task.require(self, randomizer)
        if not randomizer.joint:
            raise InvalidParameter(
                f"{self.kind} need errors of sums of frequencies, which {randomizer.kind} does not "
                "state: use krr, oue, sue, hierarchical or channel"
            )
        expected = getattr(randomizer, "categories", self.outcomes)
        if expected != self.outcomes:
            reserved = "" if self.complete else f" and {NO_ANSWER!r}"
            raise InvalidParameter(
                f"the {self.kind} have {self.bins} bins{reserved}, {self.outcomes} outcomes in "
                f"all, but {randomizer.kind} has {expected}: make both the same"
            )

    def domains(self, column: str) -> Mapping[str, ColumnDomain]:
        return {column: ColumnDomain("number", (), *self.bounds, complete=self.complete)}

    def encode(self, column: Array) -> IntArray:
        """Bin of each number, clipped to the bounds; the reserved code for what is none."""
        numbers = self._numbers(column)
        inner = self.edges[1:-1]
        codes = np.searchsorted(inner, numbers, side="right").astype(np.int64)
        codes[np.isnan(numbers)] = ABSENT if self.complete else self.bins
        return codes

    def gaps(self, column: Array) -> Gaps:
        numbers, (low, high) = floats(check_rows(column, axes=1)), self.bounds
        return Gaps.of(missing(np.asarray(column)), (numbers >= low) & (numbers <= high))

    def truth(self, column: Array) -> FloatArray:
        """Exact quantiles of the clipped numbers: the least that a share p does not exceed."""
        numbers = self._numbers(column)
        there = np.sort(numbers[~np.isnan(numbers)])
        if not there.size:
            found = [math.nan] * len(self.probabilities)
        else:
            places = [max(0, math.ceil(p * there.size - _ROUNDING) - 1) for p in self.probabilities]
            found = [float(there[place]) for place in places]
        return np.array([*found, 1 - there.size / numbers.size][: len(self.labels)])

    def effect(self, randomizer: Randomizer) -> str:
        del randomizer
        told = f"Quantiles are over the people who answered, and {NO_ANSWER!r} is the share of the "
        told += "people who did not."
        if self.complete:
            told = "A person without an answer reports a bin at random: where a share q of the "
            told += "people has none, they are quantiles of a mixture with a share q of even data."
        return f"{told} A number outside the bounds counts as the nearest bound."

    def estimate(
        self, collected: Collected, randomizer: Randomizer, confidence: float = 0.95
    ) -> Answer:
        self.require(randomizer)
        z, people = half_width(confidence), collected.people
        found = collected.estimate(randomizer, joint=True)
        curve = _Distribution.of(found, self.edges)
        rows = []
        for p in self.probabilities:
            value = curve.quantile(p)
            low, high = curve.limits(p, z)
            near = curve.limits(p, 1.0)
            error = (near[1] - near[0]) / 2
            rows.append((value, min(low, value), max(high, value), error))
        if not self.complete:
            none, error = float(found.value[-1]), math.sqrt(max(0.0, float(found.variance[-1])))
            rows.append((none, none - z * error, none + z * error, error))
        value, low, high, errors = np.array(rows).T
        told = self.effect(randomizer)
        return Answer(self.labels, value, low, high, errors, confidence, people, told)

    def variants(self, kind: type[Randomizer]) -> tuple[Mapping[str, Any], ...]:
        if not kind.joint:
            return ()
        if not kind.nested:
            return ({},)
        return tuple({"branching": each} for each in _BRANCHINGS if each < self.outcomes)

    def noise(self, randomizer: Randomizer) -> float:
        """Return the root mean square error of F at all edges, for one person and even data.

        Errors of n people are this over √n. It orders randomizers, each with an ε0 of its own.
        """
        even, covariance = self._even(randomizer)
        curve = _Distribution.of(Estimate(even, even, 1, covariance), self.edges)
        errors = [curve.errors(at / self.bins)[at] for at in range(1, self.bins)]
        return math.sqrt(float(np.mean(np.square(errors))))

    def _even(self, randomizer: Randomizer) -> tuple[FloatArray, FloatArray]:
        """Even frequencies of all outcomes, and their covariance from one person's report."""
        self.require(randomizer)
        even = np.full(self.outcomes, 1 / self.outcomes)
        return even, randomizer.frequency_covariance(even)

    def _numbers(self, column: Array) -> FloatArray:
        return np.asarray(np.clip(floats(check_rows(column, axes=1)), *self.bounds))


@dataclass(frozen=True, eq=False)
class _Distribution:
    """Estimated distribution function at the edges of the bins, with its joint errors."""

    edges: FloatArray
    heights: FloatArray
    variance: FloatArray
    with_all: FloatArray
    """Covariance with the last height."""

    @classmethod
    def of(cls, found: Estimate, edges: FloatArray) -> Self:
        bins = edges.size - 1
        both = np.cumsum(np.cumsum(np.asarray(found.covariance)[:bins, :bins], axis=0), axis=1)
        summed = (np.cumsum(found.value[:bins]), np.diag(both), both[:, -1])
        return cls(edges, *(np.concatenate([[0.0], each]) for each in summed))

    def errors(self, p: float) -> FloatArray:
        """Standard errors of F_j − p·a at all edges."""
        all_of = self.variance[-1]
        variance = self.variance - 2 * p * self.with_all + p**2 * all_of
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    def limits(self, p: float, z: float) -> tuple[float, float]:
        """Outer edges of the bins that are not rejected; both bounds where nothing is known."""
        if math.isinf(z):
            return float(self.edges[0]), float(self.edges[-1])
        away, errors = self.heights - p * self.heights[-1], z * self.errors(p)
        possible = np.flatnonzero((away[:-1] <= errors[:-1]) & (away[1:] >= -errors[1:]))
        if not possible.size or self.heights[-1] <= 0:
            return float(self.edges[0]), float(self.edges[-1])
        return float(self.edges[possible[0]]), float(self.edges[possible[-1] + 1])

    def quantile(self, p: float) -> float:
        """Where the nearest monotone curve reaches p·a; the middle where it never rises."""
        from scipy.optimize import isotonic_regression  # imported late: it takes long

        heights, top = self.heights, float(self.heights[-1])
        if top <= 0:
            return float(self.edges[0] / 2 + self.edges[-1] / 2)
        rising = np.clip(isotonic_regression(heights).x, 0.0, top)
        rising[0], rising[-1] = 0.0, top
        target = p * top
        right = int(np.searchsorted(rising, target, side="left"))
        left = right - 1
        share = (target - rising[left]) / (rising[right] - rising[left])
        return float(self.edges[left] + share * (self.edges[right] - self.edges[left]))


def _checked(probabilities: Sequence[float]) -> tuple[float, ...]:
    if isinstance(probabilities, str | bytes) or not isinstance(probabilities, Sequence):
        problem = f"a list such as (0.25, 0.5, 0.75), got {probabilities!r}"
        raise InvalidParameter(f"probabilities must be {problem}", field="probabilities")
    found = tuple(checks.number(each, "a probability", "probabilities") for each in probabilities)
    if not found or any(not 0 < p < 1 for p in found) or sorted(set(found)) != list(found):
        problem = f"must rise and lie strictly between 0 and 1, got {list(probabilities)}"
        raise InvalidParameter(f"probabilities {problem}", field="probabilities")
    return found


def _normal(covariance: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw rows of normal numbers; roots of nothing may round below zero."""
    roots, axes = np.linalg.eigh(covariance)
    scaled = axes * np.sqrt(np.maximum(roots, 0.0))
    return np.asarray(rng.standard_normal((_PILOTS, roots.size)) @ scaled.T)
