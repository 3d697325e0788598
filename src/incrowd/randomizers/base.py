"""Interface of local randomizers: the map from one value to one report, on the device.

A randomizer is a frozen description. It holds its own privacy (``epsilon``, ``delta``), draws
reports (``randomize``), estimates from them (``estimate``), and states its law under a blanket for
the accountants: mechanism and guarantee live in one class and cannot drift apart. The same tagged
``msgspec.Struct`` is read from survey files, printed in JSON and signed on the wire.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidEpsilon, InvalidParameter
from incrowd.plugins import target
from incrowd.randomizers.law import PairLaw

FloatArray = NDArray[np.float64]
Reports = NDArray[Any]
Domain = Literal["category", "interval", "vector", "target", "several", "joint"]
"""Category codes 0…k−1; numbers in [0, 1]; rows that are unit vectors; targets of messages; rows
with a category or a number for each of several randomizers; rows with a value of each of several
questions.

A value may be absent: the code −1, NaN, or a row of NaN. Its report is that of a uniform category,
of the middle of the interval unless the randomizer has an outcome for it, of a uniform direction.
"""
ABSENT: Final = -1
"""Code of an absent category."""
_ROUNDED_UP = "incrowd.report.format:up"
"""Function that writes an ε for people, imported when one is told."""


def normal_half_width(confidence: float) -> float:
    """Return the standard deviations on either side of a mean that hold this share of a normal."""
    # The standard library's quantile: scipy's would be loaded for this number alone.
    rank = 0.5 + checks.probability(confidence, "confidence") / 2
    return NormalDist().inv_cdf(rank) if rank < 1 else math.inf


@dataclass(frozen=True)
class Estimate:
    """An unbiased estimate with the variance of each of its coordinates.

    ``value`` and ``variance`` have the same shape: ``()`` for a mean, ``(k,)`` for frequencies,
    ``(d,)`` for a vector. Nothing is clipped: a frequency may be negative. ``covariance`` is given
    where an answer combines coordinates.
    """

    value: FloatArray
    variance: FloatArray
    reports: int
    covariance: FloatArray | None = None

    def interval(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return normal-approximation confidence limits per coordinate, not simultaneous."""
        half = normal_half_width(confidence) * np.sqrt(self.variance)
        return self.value - half, self.value + half

    def on_simplex(self) -> FloatArray:
        """Return the nearest frequencies that are ≥ 0 and sum to one (biased)."""
        ordered = np.sort(self.value)[::-1]
        excess = (np.cumsum(ordered) - 1) / np.arange(1, ordered.size + 1)
        shift = excess[np.nonzero(ordered > excess)[0][-1]]
        return np.asarray(np.maximum(self.value - shift, 0.0))


class Randomizer(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """Base of all randomizers; subclasses add their parameters and set ``domain``."""

    epsilon: float

    domain: ClassVar[Domain]
    drawable: ClassVar[bool] = True
    """Whether reports can be drawn; otherwise the randomizer is for accounting only."""
    report_domain: ClassVar[Domain | None] = None
    """Domain of reports that have the form of a value, if they do."""
    reports_missing: ClassVar[bool] = False
    """Whether a report can state that a number is absent.

    Estimates then have the shares of low, high and none, with their covariance.
    """
    joint: ClassVar[bool] = False
    """Whether the covariance of estimated frequencies is known: see :meth:`joint_estimate`."""
    nested: ClassVar[bool] = False
    """Whether reports are about groups of neighbouring categories, to sum their frequencies."""
    summable: ClassVar[bool] = False
    """Whether a sum of reports is enough to estimate from: see :meth:`tally`."""
    additive: ClassVar[bool] = False
    """Whether a report is the value plus noise that does not depend on it."""
    uniform_blanket: ClassVar[bool] = False
    """Whether a report is uniform over all categories or targets with a probability that is the
    same for every value, and the value otherwise, as in k-ary randomized response."""

    def __post_init__(self) -> None:
        checks.epsilon(self.epsilon)

    @property
    def kind(self) -> str:
        """Name in survey files and on the command line."""
        return str(type(self).__struct_config__.tag)

    @property
    def delta(self) -> float:
        """δ0 of the local guarantee; zero for pure randomizers."""
        return 0.0

    @property
    def normal_shift(self) -> float | None:
        """Largest distance of two values in standard deviations of normal noise, None for other.

        All bounds on sums of Gaussian noise depend on it.
        """
        return None

    @property
    def assumption(self) -> str | None:
        """Assumption of the guarantee about drawing; None where draws are exact."""
        return None

    @property
    def exact(self) -> bool:
        """Whether devices, which use :meth:`randomize_exactly`, draw the stated law exactly."""
        return self.assumption is None

    @property
    def report_bytes(self) -> int:
        """Size of one report on the wire, in bytes before sealing."""
        raise NotImplementedError

    def treatment(self) -> str:
        """Describe in one phrase the treatment of a value, for reports to people."""
        return f"ε0 = {target(_ROUNDED_UP)(self.epsilon)} each"

    def local_delta(self, epsilon: float) -> float:
        """Return the best proven δ of one report seen alone, at any real ε, rounded up.

        By default the exact profile of binary randomized response, an upper bound for every pure
        ε0-randomizer.
        """
        if epsilon >= self.epsilon:
            return 0.0
        top, here = math.exp(self.epsilon), math.exp(epsilon)
        return max(-math.expm1(epsilon), (top - here) / (top + 1)) + 2.0**-50

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw one report per value; the first axis is the person."""
        raise NotImplementedError

    def randomize_exactly(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw reports as a device does, where an exact draw takes longer."""
        return self.randomize(values, rng)

    def randomize_scaled(
        self, values: NDArray[Any], scale: float, rng: np.random.Generator
    ) -> Reports:
        """Add ``scale`` times as much noise to the values, on a device, if :attr:`additive`."""
        raise NotImplementedError

    def filled(self, values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """Return the values as :meth:`randomize` takes them: a stand-in for each absent one."""
        from incrowd.randomizers import _inputs

        described: Any = self
        if self.domain == "category":
            return _inputs.codes(values, described.categories, rng)
        if self.domain == "vector":
            return _inputs.vectors(values, described.dimension, rng)
        return _inputs.numbers(values)

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate frequencies or the mean without bias, from the reports alone."""
        if not self.summable:
            raise NotImplementedError
        return self.from_tally(self.tally(reports), len(reports), len(reports))

    def joint_estimate(self, reports: Reports) -> Estimate:
        """Estimate frequencies with the covariance of all of them.

        The covariance is that of the nearest proper frequencies to the estimate.
        """
        found = self.estimate(reports)
        covariance = self.frequency_covariance(found.on_simplex()) / found.reports
        return replace(found, covariance=covariance)

    def frequency_covariance(self, frequencies: FloatArray) -> FloatArray:
        """Return the covariance of the estimate from one report per person, times the people.

        For people with these frequencies of categories, and :attr:`joint` randomizers alone.
        """
        raise NotImplementedError

    def estimand(self, values: NDArray[Any]) -> FloatArray:
        """Return the mean of :meth:`estimate` over reports of these values, with none absent."""
        if self.domain == "category":
            size = int(getattr(self, "categories"))  # noqa: B009
            return np.bincount(values, minlength=size) / len(values)
        return np.asarray(np.mean(values, axis=0), np.float64)

    def priced(self, estimate: Estimate) -> FloatArray:
        """Return the variances behind a stated expected error: those of all coordinates."""
        return estimate.variance

    def noise(self) -> float | None:
        """Return the root mean square error of the estimate from one report of even data.

        Errors of n reports are this over √n. None where no closed form is known.
        """
        return None

    def pure(self) -> Randomizer | None:
        """Return the randomizer without δ0 whose crowds are close to those of this one.

        None without a δ0, and where closeness is not proven (``docs/theory/check_in.md``).
        """
        return None

    def tally(self, reports: Reports) -> FloatArray:
        """Add up reports where their sum is a sufficient statistic; counts for categories."""
        del reports
        raise self._no_tally()

    def from_tally(self, tally: FloatArray, reports: int, noise: float) -> Estimate:
        """Estimate from a sum of reports.

        ``noise`` is the number of reports' worth of noise in it: as many as there are reports, less
        where only some contributions carried noise, more where some carried nothing else.
        """
        del tally, reports, noise
        raise self._no_tally()

    def _no_tally(self) -> InvalidParameter:
        return InvalidParameter(
            f"reports of {self.kind} cannot be added up on their way: use krr for categories, "
            "gaussian or laplace for numbers"
        )

    def blanket(self) -> PairLaw:
        """Return the law of the worst pair of inputs under the largest blanket (upper bounds).

        It must dominate every pair of inputs at every ε, in both directions; each randomizer proves
        that in its docstring.
        """
        raise NotImplementedError

    def blankets(self) -> tuple[PairLaw, ...]:
        """Return laws under a blanket one of which bounds each pair of inputs (upper bounds).

        The largest of their bounds at each ε is never above that of :meth:`blanket`.
        """
        return (self.blanket(),)

    def attack(self) -> tuple[PairLaw, ...]:
        """Return exact laws of data sets on which all others hold one value (lower bounds).

        The blanket of such a law is the others' own output law, of total mass one.
        """
        return ()


class DerivedEpsilon(Randomizer, frozen=True, kw_only=True):
    """Base of randomizers whose ε0 follows from their other fields; 0 stands for that."""

    epsilon: float = 0.0

    def _derive(self, epsilon: float) -> None:
        """Set ε0 to the one that follows; refuse one that was given and is smaller."""
        stated = checks.number(self.epsilon, "epsilon")
        if stated != 0 and stated < epsilon:
            raise InvalidEpsilon(
                f"epsilon must be left out or at least {epsilon!r}, which follows from the other "
                f"parameters, got {stated!r}",
                field="epsilon",
            )
        msgspec.structs.force_setattr(self, "epsilon", epsilon)
