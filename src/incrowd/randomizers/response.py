"""Randomized response, a true answer or a random one: binary, k-ary, and for means.

Write E = e^ε0. In k-ary randomized response the true answer has probability E/z and every other one
1/z, z = E + k − 1. The lower envelope of the output laws is w = 1/z everywhere, so that under it
the pair (a, b) of likelihood ratios takes the values (E, 1), (1, E) and (1, 1) only. See
``docs/theory/worst_pairs.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidDelta, InvalidEpsilon, InvalidParameter, NotProven
from incrowd.randomizers import _inputs
from incrowd.randomizers._categorical import Categorical, from_support
from incrowd.randomizers._lattice import (
    check_realisable,
    keep_probability,
    response_odds,
    truth_odds,
    truth_probability,
)
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, Reports
from incrowd.randomizers.law import PairLaw

_LARGEST_EXPONENT = 300.0


class Generic(Randomizer, frozen=True, tag="generic"):
    """Any (ε0, δ0)-randomizer, the same for all people: for accounting only. δ0 is 0 by default.

    Its laws are those of the worst one. Every ε0-randomizer has a, b in [1, E] under its envelope;
    moving the points to the corners of that square and then to (E, 1) and (1, E) are
    mean-preserving spreads, so that (E, 1) and (1, E) with mass 1/(E + 1) each dominates all of
    them, at every ε and in both directions (``docs/theory/generic.md``). With a δ0 there is no
    blanket; a crowd is close to one of pure randomizers (``docs/theory/check_in.md``).
    """

    # A field in place of the base's property, as in the Gaussian.
    delta: float = 0.0

    domain: ClassVar[Domain] = "category"
    drawable: ClassVar[bool] = False
    report_bytes: ClassVar[int] = 1  # the least that a report can take

    def __post_init__(self) -> None:
        checks.epsilon(self.epsilon)
        if self.epsilon > _LARGEST_EXPONENT:
            raise InvalidEpsilon(f"epsilon must be at most {_LARGEST_EXPONENT:g}", field="epsilon")
        if not 0 <= checks.number(self.delta, "delta") < 1:
            raise InvalidDelta(
                f"delta must be 0 or more and below 1, got {self.delta!r}", field="delta"
            )

    def pure(self) -> Generic | None:
        """Return the same without δ0, where there is one."""
        return Generic(epsilon=self.epsilon) if self.delta else None

    def local_delta(self, epsilon: float) -> float:
        """Return δ0 plus a pure curve on the rest: that of the worst (ε0, δ0)-randomizer."""
        if not self.delta:
            return super().local_delta(epsilon)
        if epsilon < 0:  # by symmetry, from the opposite direction
            found = -math.expm1(epsilon) + math.exp(epsilon) * self.local_delta(-epsilon)
        else:
            found = self.delta + (1 - self.delta) * super().local_delta(epsilon)
        return min(1.0, found * (1 + 2.0**-50))

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Refuse: there is nothing to draw from."""
        del values, rng
        self._refuse("draw reports")

    def estimate(self, reports: Reports) -> Estimate:
        """Refuse: there are no reports to read."""
        del reports
        self._refuse("estimate")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidParameter(
            f"the generic randomizer cannot {what}: choose a concrete one, such as krr or laplace"
        )

    def blanket(self) -> PairLaw:
        """(E, 1) and (1, E), mass 1/(E + 1) each; refused with a δ0, which leaves no blanket."""
        if self.delta:
            raise NotProven(
                "this crowd is accounted for pure randomizers only, and the generic one has "
                f"delta = {self.delta:g}: set it to 0, or choose a concrete randomizer"
            )
        return response_blanket(math.exp(self.epsilon), 2)

    def attack(self) -> tuple[PairLaw, ...]:
        """Return the laws of k-ary randomized response for k = 2 and 3, possible instances."""
        top = math.exp(self.epsilon)
        return response_attacks(top, 2) + response_attacks(top, 3)


class Unstated(Randomizer, frozen=True, kw_only=True, tag="unstated"):
    """A randomizer with infinite ε0: a report may reveal everything.

    For accounting only: guarantees about the routes of reports hold whatever their content.
    """

    epsilon: float = math.inf

    domain: ClassVar[Domain] = "category"
    drawable: ClassVar[bool] = False
    report_bytes: ClassVar[int] = 1  # the least that a report can take

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            raise InvalidParameter(
                "epsilon of an unstated randomizer is infinite: name another", field="epsilon"
            )

    def local_delta(self, epsilon: float) -> float:
        """Return one at every ε."""
        del epsilon
        return 1.0


class KRR(Categorical, frozen=True, tag="krr"):
    """k-ary randomized response, also called direct encoding or GRR.

    A report is one category code, in the smallest unsigned type that holds it.
    """

    report_domain: ClassVar[Domain | None] = "category"
    joint: ClassVar[bool] = True
    summable: ClassVar[bool] = True
    uniform_blanket: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_probability(self.epsilon, self.categories)

    @property
    def report_bytes(self) -> int:
        """Size of a code."""
        return _inputs.smallest_unsigned(self.categories - 1).itemsize

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Keep the code with probability (E − 1)/z, otherwise draw one of all k uniformly."""
        codes = _inputs.codes(values, self.categories, rng)
        return respond(codes, self.epsilon, self.categories, rng)

    def tally(self, reports: Reports) -> FloatArray:
        """Count the reports of each code."""
        codes = _inputs.received(reports, None, self.categories)
        return np.bincount(codes, minlength=self.categories).astype(np.float64)

    def from_tally(self, tally: FloatArray, reports: int, noise: float) -> Estimate:
        """Estimate frequencies from counts; those beyond the reports are uniform elements."""
        keep = keep_probability(self.epsilon, self.categories)
        other = (1 - keep) / self.categories
        blank = (noise - reports) / self.categories
        found = from_support(tally - blank, reports, keep + other, other)
        # Uniform elements are multinomial noise of their own.
        more = blank * (1 - 1 / self.categories) / (reports * keep) ** 2
        return replace(found, variance=found.variance + more)

    def support_probabilities(self) -> tuple[float, float]:
        keep = keep_probability(self.epsilon, self.categories)
        other = (1 - keep) / self.categories
        return keep + other, other

    def support_moments(self, frequencies: FloatArray) -> FloatArray:
        """Return the second moments of the supports: a report supports one category."""
        p, q = self.support_probabilities()
        return np.diag(q + (p - q) * frequencies)

    def frequency_covariance(self, frequencies: FloatArray) -> FloatArray:
        """Return (diag(c) − Σ_x f_x·R_x·R_xᵀ)/g² for reports of law c = q + g·f, g = p − q."""
        p, q = self.support_probabilities()
        apart = q**2 + q * (p - q) * (frequencies[:, None] + frequencies)
        noise = self.support_moments(frequencies) - apart
        return np.asarray(noise / (p - q) ** 2 - np.diag(frequencies))

    def local_delta(self, epsilon: float) -> float:
        """Return the profile of any two categories: (E − e^ε)/z for 0 ≤ ε ≤ ε0, rounded up."""
        if epsilon >= self.epsilon:
            return 0.0
        top, here = math.exp(self.epsilon), math.exp(abs(epsilon))
        exact = max(0.0, (top - here) / (top + self.categories - 1))
        if epsilon < 0:  # by symmetry, from the opposite direction
            exact = -math.expm1(epsilon) + math.exp(epsilon) * exact
        return min(1.0, exact + 2.0**-50)

    def blanket(self) -> PairLaw:
        """(E, 1) and (1, E): 1/z each; (1, 1): (k − 2)/z.

        All pairs of distinct categories have this same law, which is symmetric: one pair dominates
        at every ε, in both directions.
        """
        return response_blanket(response_odds(self.epsilon, self.categories), self.categories)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at a third category; for k = 2 all at x1, or all at x0."""
        return response_attacks(response_odds(self.epsilon, self.categories), self.categories)


class RR(Randomizer, frozen=True, tag="rr"):
    """Binary randomized response: the truth with probability E/(E + 1)."""

    domain: ClassVar[Domain] = "category"
    report_domain: ClassVar[Domain | None] = "category"
    uniform_blanket: ClassVar[bool] = True
    categories: ClassVar[int] = 2
    report_bytes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        keep_probability(self.epsilon, 2)

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw reports 0 or 1 from codes 0 or 1."""
        return respond(_inputs.codes(values, 2, rng), self.epsilon, 2, rng)

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate the frequencies of 0 and of 1."""
        return KRR(epsilon=self.epsilon, categories=2).estimate(reports)

    def blanket(self) -> PairLaw:
        """(E, 1) and (1, E), mass 1/(E + 1) each; there is only one pair of inputs."""
        return response_blanket(response_odds(self.epsilon, 2), 2)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at x1, or all at x0."""
        return response_attacks(response_odds(self.epsilon, 2), 2)


class OneBit(Randomizer, frozen=True, tag="onebit"):
    """The mean of numbers in [0, 1] from one bit each: stochastic rounding, then binary response.

    A person with value v reports 1 with probability q + v(p − q), p = E/(E + 1) = 1 − q.
    """

    domain: ClassVar[Domain] = "interval"
    report_bytes: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        truth_probability(self.epsilon)

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw both steps together: one uniform number against q + v(p − q)."""
        numbers = _inputs.numbers(values)
        p = truth_probability(self.epsilon)
        chance = np.minimum((1 - p) + numbers * (2 * p - 1), p)
        return (rng.random(numbers.size) < chance).astype(np.uint8)

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate the mean of the respondents.

        Given the data the variance is the mean of P_i(1 − P_i) over n(p − q)², where P_i is person
        i's chance of a 1. By concavity that is at most the same with the mean chance, which is
        returned with the observed share of ones: exact when all values are equal, else cautious.
        """
        reports = _inputs.received(reports, None, 2)
        p = truth_probability(self.epsilon)
        share = float(np.count_nonzero(reports)) / reports.size
        chance, gap = min(max(share, 1 - p), p), 2 * p - 1
        variance = chance * (1 - chance) / (reports.size * gap**2)
        return Estimate(np.array((share - (1 - p)) / gap), np.array(variance), reports.size)

    def blanket(self) -> PairLaw:
        """(E, 1) and (1, E), mass 1/(E + 1) each.

        The law of every input is a mixture of those of 0 and 1, so the envelope is that of binary
        response and, the bound being convex in each of the two laws, 0 and 1 are the worst pair.
        """
        return response_blanket(truth_odds(self.epsilon), 2)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at 1, or all at 0, as in binary response."""
        return response_attacks(truth_odds(self.epsilon), 2)


def respond(
    codes: NDArray[np.integer[Any]], epsilon: float, answers: int, rng: np.random.Generator
) -> NDArray[np.unsignedinteger[Any]]:
    """Draw k-ary randomized responses to checked codes."""
    kind = _inputs.smallest_unsigned(answers - 1)
    kept = rng.random(codes.size) < keep_probability(epsilon, answers)
    return np.where(kept, codes.astype(kind), rng.integers(0, answers, codes.size, dtype=kind))


def response_blanket(top: float, answers: int) -> PairLaw:
    """Return the blanket law of k-ary response with likelihood ratio ``top``.

    For two answers it is also that of the worst randomizer with this ratio.
    """
    mass = np.array([1, 1, answers - 2]) / (top + answers - 1)
    return PairLaw.of([top, 1.0, 1.0], [1.0, top, 1.0], mass)


def response_attacks(top: float, answers: int) -> tuple[PairLaw, ...]:
    """Return laws of k-ary response with likelihood ratio ``top`` when all others hold one value.

    Under R_x1: x0 is answered with probability 1/z, x1 with E/z, each of the k − 2 others with 1/z;
    best in small crowds or at large ε0. Under R_x* with x* apart from both: x0 and x1 are answered
    with probability 1/z, x* itself with E/z, each of the k − 3 others with 1/z; best elsewhere.
    """
    z = top + answers - 1
    at_x1 = PairLaw.of([top, 1 / top, 1.0], [1.0, 1.0, 1.0], np.array([1, top, answers - 2]) / z)
    if answers == 2:
        return at_x1, at_x1.swapped()
    a, b = [top, 1.0, 1 / top, 1.0], [1.0, top, 1 / top, 1.0]
    return at_x1, at_x1.swapped(), PairLaw.of(a, b, np.array([1, 1, top, answers - 3]) / z)
