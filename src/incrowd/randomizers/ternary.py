"""Ternary response: the mean of numbers in [0, 1] where some people have none.

A number v is rounded at random to 1 with probability v, else to 0; an absent one is the third
outcome. The outcome is then told by ternary randomized response: with E = e^ε0 and z = E + 2, the
true outcome with probability E/z and each other one with 1/z. With k = 3 this is the response of
``krr``, and of PCKV-GRR for one key ("PCKV: Locally Differentially Private Correlated Key-Value
Data Collection with Optimized Utility", Gu, Li, Cheng, Xiong, Cao).

Rounding happens before the response, so that the law of every input is a mixture of the laws of the
three outcomes: lower envelope, blanket and local curve are those of ``krr`` with three categories,
which two outcomes attain. The exactness of the rounding of v does not matter to privacy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers import _inputs
from incrowd.randomizers._lattice import check_realisable, keep_probability
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, Reports
from incrowd.randomizers.law import PairLaw
from incrowd.randomizers.response import KRR, respond

LOW: Final = 0
HIGH: Final = 1
NONE: Final = 2
"""Codes of the outcomes."""
_OUTCOMES: Final = 3


class Ternary(Randomizer, frozen=True, tag="ternary"):
    """Random rounding to low or high, or none, then randomized response over the three.

    The estimate has three coordinates: the shares of low, high and none. That of high among low and
    high is the mean over people with a number.
    """

    domain: ClassVar[Domain] = "interval"
    reports_missing: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        keep_probability(self.epsilon, _OUTCOMES)

    @property
    def _response(self) -> KRR:
        return _response(self.epsilon)

    @property
    def report_bytes(self) -> int:
        """Size of a code."""
        return self._response.report_bytes

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Round each number, then respond."""
        numbers = _inputs.optional_numbers(values)
        rounded = (rng.random(numbers.size) < numbers).astype(np.int64)
        return respond(np.where(np.isnan(numbers), NONE, rounded), self.epsilon, _OUTCOMES, rng)

    def estimand(self, values: NDArray[Any]) -> FloatArray:
        """Return the shares of low, high and none."""
        numbers = _inputs.optional_numbers(values)
        high, none = np.nansum(numbers) / numbers.size, np.isnan(numbers).mean()
        return np.array([1 - none - high, high, none])

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate the shares of low, high and none, with their covariance.

        Given the data, the covariance of the shares s of the reports is the mean of
        diag(P_i) − P_i·P_iᵀ over n, with P_i the law of person i's report. In place of the mean of
        P_i·P_iᵀ stands its least value: s·sᵀ, and the spread between people with a number and those
        without, who are never rounded. That is exact where all numbers are equal, else cautious.
        The shares are those of the nearest proper estimate: an outcome that no report states is
        still one that noise states now and then.
        """
        found = self._response.estimate(reports)
        keep = keep_probability(self.epsilon, _OUTCOMES)
        proper = found.on_simplex()
        shares = keep * proper + (1 - keep) / _OUTCOMES
        answered = float(1 - proper[NONE])
        mean = float(proper[HIGH] / answered) if answered > 0 else 0.0
        apart = np.array([1 - mean, mean, -1.0])
        covariance = (np.diag(shares) - np.outer(shares, shares)) / keep**2
        covariance -= answered * (1 - answered) * np.outer(apart, apart)
        covariance /= found.reports
        return replace(found, variance=np.maximum(np.diag(covariance), 0.0), covariance=covariance)

    def priced(self, estimate: Estimate) -> FloatArray:
        """Return the variance of the mean over people with a number, by the delta method."""
        low, high = estimate.value[LOW], estimate.value[HIGH]
        mean = high / (low + high)
        towards = np.array([-mean, 1 - mean, 0.0]) / (low + high)
        return np.asarray(towards @ np.asarray(estimate.covariance) @ towards)

    def local_delta(self, epsilon: float) -> float:
        """Return the profile of the response to any two outcomes."""
        return self._response.local_delta(epsilon)

    def blanket(self) -> PairLaw:
        """Return that of ternary response: two outcomes are the worst pair, mixtures no worse."""
        return self._response.blanket()

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at the third outcome, or at either of the two."""
        return self._response.attack()


@lru_cache(maxsize=256)
def _response(epsilon: float) -> KRR:
    # Cached: every batch of reports asks for it.
    return KRR(epsilon=epsilon, categories=_OUTCOMES)
