"""The privacy curve of a round of learning with a trusted curator.

Neighbours are *replace-one*, like everywhere here: the number of people is known, and one person's
record is another one. Published figures for private SGD usually are about *adding or removing* a
person, which a fixed noise hides about twice as well: the two do not compare.

Each person is in with probability γ, the curator adds N(0, σ²C²) to the sum of the clipped
gradients, and no one else learns who or how many were in. Divide by C. Given everything about the
others, the release has the law P = (1 − γ)N(0) + γN(u) or Q = (1 − γ)N(0) + γN(v) up to a
common shift, with ‖u‖, ‖v‖ ≤ 1. For a set S with N(0)(S) = Φ(s), N(u)(S) ≤ Φ(s + 1/σ) and N(v)(S) ≥
Φ(s − 1/σ) by the Neyman–Pearson lemma, and the half-space across u = −v of length 1 attains both at
once. So for every α the largest P(S) − α·Q(S) is that of numbers, u = 1 and v = −1. There P/Q rises
with the release z and equals α = e^ε at

    z = σ²(ε/2 + asinh((1 − γ)·sinh(ε/2)·e^{1/(2σ²)}/γ)),

which makes the curve exact in closed form; by symmetry it is that of both directions. See
``docs/learning.md``.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from scipy.special import log_ndtr

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.search import crossing

_LEAST_SIGMA, _MOST_SIGMA = 0.1, 1e6
_GREATEST = 700.0
"""The largest ε whose exponential is a double."""
_ROUNDING = 2.0**-49
"""Relative to each term, per unit of its exponents, which are good to a few times 2⁻⁵³."""
_PER_DEVIATION = 20
_MOST_POINTS = 400_000
_FAR = 8.5
"""Standard deviations beyond which the noise has less than 1e-16 of its mass."""


@dataclass(frozen=True)
class SubsampledGaussian(Profile):
    """One round of a trusted curator: noise of σ times the clipping length on a random sum."""

    rate: float
    sigma: float

    def __post_init__(self) -> None:
        checks.rate(self.rate)
        if checks.number(self.sigma, "sigma") < _LEAST_SIGMA:
            problem = f"at least {_LEAST_SIGMA}, got {self.sigma!r}: less hides nobody"
            raise InvalidParameter(f"sigma must be {problem}", field="sigma")
        if self.sigma > _MOST_SIGMA:
            problem = f"at most {_MOST_SIGMA:g}, got {self.sigma!r}: more leaves nothing"
            raise InvalidParameter(f"sigma must be {problem}", field="sigma")

    def delta(self, epsilon: float) -> float:
        if checks.number(epsilon, "epsilon") < -_GREATEST:
            return 1.0
        epsilon = min(epsilon, _GREATEST)  # the curve falls: an earlier point bounds later ones
        rate, sigma = self.rate, self.sigma
        cut = sigma * self._place(epsilon)
        logs = [float(log_ndtr(shift / sigma - cut)) for shift in (0, 1, -1)]
        # (1 − e^ε)·Φ, with e^ε put to the small Φ before either leaves the range of doubles.
        stay = math.expm1(-abs(epsilon)) * math.exp(max(epsilon, 0.0) + logs[0])
        stay *= math.copysign(1 - rate, epsilon)
        here, there = rate * math.exp(logs[1]), rate * math.exp(epsilon + logs[2])
        exact = stay + here - there
        # Rounding hides more with larger exponents: far out they are large, and terms cancel.
        terms = zip((abs(stay), here, there), logs, strict=True)
        hidden = _ROUNDING * sum(term * (1 + abs(epsilon) - log) for term, log in terms)
        return min(1.0, max(exact + hidden, sys.float_info.min))

    def _place(self, epsilon: float) -> float:
        """z/σ² at which the ratio of the two laws is e^ε."""
        out = (1 - self.rate) / self.rate * math.exp(1 / (2 * self.sigma**2))
        return epsilon / 2 + math.asinh(out * math.sinh(epsilon / 2))

    def epsilon(self, delta: float) -> float:
        checks.delta(delta)
        guess = self._deviation * math.sqrt(2 * math.log(1 / delta))
        return crossing(self.delta, delta, max(guess, 1e-12)).within

    @property
    def _deviation(self) -> float:
        """About the standard deviation of a privacy loss."""
        spread = 2 * math.sqrt(math.sinh(min(1 / self.sigma**2, 300.0)))
        return min(self.rate * spread, 2 / self.sigma)

    @property
    def interval(self) -> float:
        """Share of the deviation, with no more points than can be convolved in seconds."""
        top = _FAR / self.sigma + 1 / (2 * self.sigma**2)
        # The loss at z is at most ln(1 − γ + γ·e^{(2z−1)/(2σ²)}) + ln(1/(1 − γ)).
        above = math.log1p(self.rate * math.expm1(min(top, 700.0)))
        below = min(top, -math.log1p(-self.rate)) if self.rate < 1 else top
        return max(self._deviation / _PER_DEVIATION, (above + below) / _MOST_POINTS)
