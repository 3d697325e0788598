"""What one person does to one value before it leaves the device.

A randomizer is a frozen description. It knows its own privacy (``epsilon``, ``delta``), how to
``randomize`` an array of values, how to ``estimate`` from the reports, and its law under a blanket,
which the accountants use: the mechanism and its guarantee live in one class and cannot drift apart.

Being a tagged ``msgspec.Struct``, the same description is read from ``[randomizer]`` in a survey
file, printed in JSON and, later, signed on the wire.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.law import PairLaw

FloatArray = NDArray[np.float64]
Reports = NDArray[Any]
Domain = Literal["category", "interval", "vector", "target"]
"""Category codes 0…k−1; numbers in [0, 1]; rows that are unit vectors; where a message goes.

A value may be absent: the code −1, NaN, or a row of NaN. Its report is that of a uniform category,
of the middle of the interval unless the randomizer has an outcome for it, of a uniform direction.
"""
ABSENT: Final = -1
"""The code in place of a category that is not there."""


def normal_half_width(confidence: float) -> float:
    """Standard deviations to either side of a mean that hold this share of a normal law."""
    # The standard library's quantile: scipy's would be loaded for this number alone.
    rank = 0.5 + checks.probability(confidence, "confidence") / 2
    return NormalDist().inv_cdf(rank) if rank < 1 else math.inf


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate with the variance of each of its coordinates.

    ``value`` and ``variance`` have the same shape: ``()`` for a mean, ``(k,)`` for frequencies,
    ``(d,)`` for a vector. Nothing is clipped: a frequency may be negative. ``covariance`` is there
    where an answer combines coordinates.
    """

    value: FloatArray
    variance: FloatArray
    reports: int
    covariance: FloatArray | None = None

    def interval(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Normal-approximation confidence limits of each coordinate, not simultaneous."""
        half = normal_half_width(confidence) * np.sqrt(self.variance)
        return self.value - half, self.value + half

    def on_simplex(self) -> FloatArray:
        """The nearest frequencies that are ≥ 0 and sum to one (biased; on request only)."""
        ordered = np.sort(self.value)[::-1]
        excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
        shift = excess[np.nonzero(ordered > excess)[0][-1]]
        nearest: FloatArray = np.maximum(self.value - shift, 0.0)
        return nearest


class Randomizer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """Base of all randomizers; subclasses add their parameters and set ``domain``."""

    epsilon: float

    domain: ClassVar[Domain]
    drawable: ClassVar[bool] = True
    """Whether reports can be drawn; if not, the randomizer is for accounting only."""
    report_domain: ClassVar[Domain | None] = None
    """The domain of reports that have the form of a value; none where they are something else."""
    reports_missing: ClassVar[bool] = False
    """Whether a report can say that a number is absent.

    If so, an estimate has the shares of low, high and none, with their covariance.
    """
    summable: ClassVar[bool] = False
    """Whether a sum of reports is enough to estimate from: see :meth:`tally`."""
    additive: ClassVar[bool] = False
    """Whether a report is the value plus noise that does not depend on it."""
    uniform_blanket: ClassVar[bool] = False
    """Whether a report is uniform over all categories or targets with a probability that is the
    same for every value, and the value otherwise, as in k-ary randomized response."""

    def __post_init__(self) -> None:
        """Refuse parameters that describe no mechanism."""
        checks.epsilon(self.epsilon)

    @property
    def kind(self) -> str:
        """The name in survey files and on the command line."""
        return str(type(self).__struct_config__.tag)

    @property
    def delta(self) -> float:
        """The δ0 that goes with ``epsilon``; zero for pure randomizers."""
        return 0.0

    @property
    def normal_shift(self) -> float | None:
        """The largest distance of two values, in standard deviations of normal noise.

        None where noise is not normal. All bounds on sums of Gaussian noise depend on it.
        """
        return None

    @property
    def assumption(self) -> str | None:
        """What the guarantee takes for granted about drawing; none where draws are exact."""
        return None

    @property
    def exact(self) -> bool:
        """Whether :meth:`randomize_exactly` draws the very law that the guarantee speaks of.

        People's own devices use no other.
        """
        return self.assumption is None

    @property
    def report_bytes(self) -> int:
        """The size of one report on the wire, before sealing."""
        raise NotImplementedError

    def local_delta(self, epsilon: float) -> float:
        """The best proven δ of one report seen alone, as a function of any real ε, rounded up.

        For a pure ε0-randomizer: the exact profile of binary randomized response, which is an upper
        bound for all of them.
        """
        if epsilon >= self.epsilon:
            return 0.0
        top, here = math.exp(self.epsilon), math.exp(epsilon)
        return max(-math.expm1(epsilon), (top - here) / (top + 1)) + 2.0**-50

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """One report per value; the first axis is the person."""
        raise NotImplementedError

    def randomize_exactly(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """The same as a person's own device does it, where that takes longer."""
        return self.randomize(values, rng)

    def randomize_scaled(
        self, values: NDArray[Any], scale: float, rng: np.random.Generator
    ) -> Reports:
        """The values plus ``scale`` times as much noise, on a device, if :attr:`additive`."""
        raise NotImplementedError

    def filled(self, values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """The values with a stand-in for each that is absent, as :meth:`randomize` takes them."""
        from incrowd.randomizers import _inputs

        described: Any = self
        if self.domain == "category":
            return _inputs.codes(values, described.categories, rng)
        if self.domain == "vector":
            return _inputs.vectors(values, described.dimension, rng)
        return _inputs.numbers(values)

    def estimate(self, reports: Reports) -> Estimate:
        """The unbiased estimate of frequencies or of the mean, from the reports alone."""
        raise NotImplementedError

    def estimand(self, values: NDArray[Any]) -> FloatArray:
        """The mean of :meth:`estimate` over reports of these values, none of which is absent."""
        if self.domain == "category":
            size = int(getattr(self, "categories"))  # noqa: B009
            return np.bincount(values, minlength=size) / len(values)
        return np.asarray(np.mean(values, axis=0), np.float64)

    def priced(self, estimate: Estimate) -> FloatArray:
        """The variances that an expected error is stated from: those of all coordinates."""
        return estimate.variance

    def pure(self) -> Randomizer | None:
        """The randomizer without δ0 whose crowds stand for those of this one, which are near them.

        None without a δ0, and where that is not proven (``docs/theory/check_in.md``).
        """
        return None

    def tally(self, reports: Reports) -> FloatArray:
        """What reports add up to, where their sum is all that is needed; counts of categories."""
        del reports
        raise self._no_tally()

    def from_tally(self, tally: FloatArray, reports: int, noise: float) -> Estimate:
        """The estimate from a sum of reports that somebody else has added up.

        ``noise`` says how many reports' worth of noise is in it: as many as there are reports, or
        less where not everyone added noise, or more where some added nothing else.
        """
        del tally, reports, noise
        raise self._no_tally()

    def _no_tally(self) -> InvalidParameter:
        return InvalidParameter(
            f"reports of {self.kind} cannot be added up on their way: use krr for categories, "
            "gaussian or laplace for numbers"
        )

    def blanket(self) -> PairLaw:
        """The law of the worst pair of inputs under the largest blanket (upper bounds).

        It must dominate every pair of inputs at every ε, in both directions; the docstring of each
        randomizer says why it does.
        """
        raise NotImplementedError

    def attack(self) -> tuple[PairLaw, ...]:
        """Laws of data sets on which all others hold one value: exact, for lower bounds.

        The blanket of such a law is the others' own output law, so it has total mass one.
        """
        return ()
