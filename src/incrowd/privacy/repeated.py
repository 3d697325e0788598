"""A sampled mechanism, used very many times: the composed curve by a certified inversion.

Dots above the curve of one use are joined to a discrete pair that dominates it
(``docs/theory/composition.md``); here they need not be equally spaced. With ℓ its loss, K(z) the
logarithm of E e^(zℓ), and T uses, for every λ > 0

    δ(ε) = 1/(2πi) ∫ exp(T·K(z) − z·ε) / (z(z + 1)) dz   along Re z = λ.

Three facts make a short sum of this integral an upper bound (``docs/theory/token_walk.md``):

* one more Gaussian mechanism with a small shift τ can only raise δ; it multiplies the integrand by
  exp(τ²·z(z + 1)/2), so that the integral may be cut off, and the rest is bounded;
* the trapezoidal sum with period P is Σ_k δ(ε + kP)·e^(λkP): the integral plus positive terms;
* λ is near the saddle point, so that nothing cancels. K comes from sums of e^(zℓ) − 1, whose
  rounding is a tiny share of them: T·K has all its digits for a hundred million uses as well.

The work does not grow with T, and there is no floor under δ but that of the doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import NumericalFloor
from incrowd.privacy.composition import convex_minorant
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.sampled import DottedProfile
from incrowd.privacy.search import crossing

FloatArray = NDArray[np.float64]

_ROUND = 2.0**-46
_HEAVIER = 2.0**-44
"""By this share each use's chances are raised, for the rounding of the dots that were joined."""
_SMOOTHING = 0.01
"""The extra shift, in units of 1/λ; it raises δ by about its square, and ε by far less."""
_DAMPING = 8.0
_PERIOD = 14.0
_ALIAS = 100.0
_MOST_TERMS = 200_000
_RATIO = 1.35
"""Contours are tried at λ in a geometric sequence."""
_VANISHING = 1e-200
_GREATEST = 600.0
"""The largest exponent of a double, with some room."""
_LEAST_GUESS = 1e-12
_NARROWEST, _FARTHEST = 1e-4, 1e7
_UNSEEN = 1e-25
"""Losses that are lower than all but this much of the rest are counted as the lowest of these."""


@dataclass(frozen=True, eq=False)
class _Transform:
    """The integrand along one contour, without the factor exp(scale − z·ε)."""

    contour: float
    scale: float
    period: float
    theta: FloatArray
    value: NDArray[np.complex128]
    slack: float

    def bound(self, epsilon: float) -> float:
        """The logarithm of an upper bound of δ(ε)."""
        turned = self.value * np.exp(-1j * self.theta * epsilon)
        total = (2 * float(turned.real.sum()) - float(turned[0].real)) / self.period
        return self.scale - self.contour * epsilon + math.log(max(total, 0.0) + self.slack)


@dataclass(frozen=True)
class RepeatedProfile(Profile):
    """``one`` used ``rounds`` times, also when later uses are chosen in view of earlier ones."""

    one: DottedProfile
    rounds: int

    def __post_init__(self) -> None:
        """Refuse what is no number of uses."""
        checks.integer(self.rounds, "rounds", 1)

    def delta(self, epsilon: float) -> float:
        """An upper bound of the composed curve, within about a thousandth part of it."""
        if self.rounds == 1:
            return self.one.delta(epsilon)
        if checks.number(epsilon, "epsilon") < 0:
            found = -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
            return min(1.0, found * (1 + _ROUND))
        if epsilon >= self.greatest_loss:
            return 0.0
        contours, heights = self._contours
        best = int(np.argmin(heights - contours * epsilon))
        return min(1.0, math.exp(min(self._transform(best).bound(epsilon), 0.0)) + self._escaped)

    def epsilon(self, delta: float) -> float:
        """An ε at which the bound is within δ."""
        if self.rounds == 1:
            return self.one.epsilon(delta)
        if checks.delta(delta) <= 2 * self._escaped:
            raise NumericalFloor(
                f"delta = {delta!r} is below {2 * self._escaped:.1e}, what doubles resolve of "
                "so many and so large losses: ask for a larger delta, more noise or fewer rounds",
                field="delta",
            )
        contours, heights = self._contours
        # Where Chernoff's bound meets δ; contours are far apart, but then it is only a guess.
        guess = max(float(((heights - math.log(delta)) / contours).min()), _LEAST_GUESS)
        factor = 1 + min(1.0, self.deviation / guess)
        return crossing(
            self.delta, delta, guess, self.greatest_loss, tolerance=1e-6, factor=factor
        ).within

    @property
    def greatest_loss(self) -> float:
        """Losses add up."""
        return self.rounds * self.one.greatest_loss

    @property
    def deviation(self) -> float:
        """The root mean square of the composed loss, about its mean."""
        return math.sqrt(self.rounds) * self.one.deviation

    @property
    def interval(self) -> float:
        """A share of the deviation."""
        return self.deviation / 40

    @cached_property
    def _pair(self) -> tuple[FloatArray, FloatArray, float]:
        """Losses of the pair that dominates one use, their chances, and the chance of no bound."""
        a, height = self.one.dots()
        # Beyond some loss the lower law has next to nothing: these dots may be left out.
        low = 2 + int(np.count_nonzero(height[1:] > _UNSEEN * height[0]))
        back = slice(min(low, a.size) - 1, 0, -1)
        places = np.concatenate([[-1.0], -a[back] / (1 + a[back]), a])
        mirrored = (a[back] + height[back]) / (1 + a[back]) * (1 + _ROUND)
        heights = np.concatenate([[1.0], np.minimum(mirrored, 1.0), height])
        heights = np.minimum.accumulate(heights)
        kept = convex_minorant(places, heights)
        places, heights = places[kept], heights[kept]
        slopes = np.append(np.diff(heights) / np.diff(places), 0.0)
        bends = np.maximum(np.diff(slopes), 0.0)
        chances = bends * (1 + places[1:])
        return np.log1p(places[1:]), chances, float(heights[-1])

    @property
    def _escaped(self) -> float:
        """What the uses have beyond the last dot, all of it charged."""
        return self.rounds * self._pair[2] * (1 + _ROUND)

    @cached_property
    def _contours(self) -> tuple[FloatArray, FloatArray]:
        """Contours λ that doubles bear, and the logarithm of the integrand at each, without ε."""
        spread = self.deviation
        steps = math.log(_FARTHEST / _NARROWEST) / math.log(_RATIO)
        growth = np.arange(math.ceil(steps), dtype=np.float64) * math.log(_RATIO)
        contours: FloatArray = _NARROWEST / spread * np.exp(growth)
        losses, chances, _ = self._pair
        heights = []
        for contour in contours:
            if contour * losses[-1] > _GREATEST:
                break
            grown = math.log1p(float(chances @ np.expm1(contour * losses)))
            heights.append(self.rounds * grown - math.log(contour) - math.log1p(contour))
        return contours[: len(heights)], np.array(heights)

    @cached_property
    def _transforms(self) -> dict[int, _Transform]:
        return {}

    def _transform(self, index: int) -> _Transform:
        if index not in self._transforms:
            self._transforms[index] = self._along(float(self._contours[0][index]))
        return self._transforms[index]

    def _along(self, contour: float) -> _Transform:
        """The integrand along Re z = λ, and a bound of what is cut off or rounded away."""
        losses, chances, _ = self._pair
        weights = chances * np.exp(contour * losses)
        real = float(chances @ np.expm1(contour * losses))
        tilted = weights / (1 + real)
        mean = float(tilted @ losses)
        spread = math.sqrt(self.rounds * float(tilted @ (losses - mean) ** 2))
        shift = _SMOOTHING / math.sqrt(contour * (contour + 1))
        period = max(_PERIOD * math.hypot(spread, shift), _ALIAS / contour)
        end = _DAMPING / shift
        terms = min(math.ceil(end * period / (2 * math.pi)), _MOST_TERMS)
        period = terms * 2 * math.pi / end
        theta = 2 * math.pi / period * np.arange(terms + 1, dtype=np.float64)
        fallen, turned = self._sums(theta, losses, tilted)
        # ln|M(z)/M(λ)|, from the difference to one where that is small.
        modulus = 0.5 * np.where(
            fallen < 0.5,
            np.log1p(np.maximum(-2 * fallen + fallen**2 + turned**2, -0.9)),
            np.log(np.maximum((1 - fallen) ** 2 + turned**2, _VANISHING)),
        )
        angle = np.arctan2(turned, 1 - fallen)
        weight = 1 / ((contour + 1j * theta) * (contour + 1 + 1j * theta))
        # z(z + 1) − λ(λ + 1), without cancelling.
        damped = shift**2 / 2 * (1j * theta * (2 * contour + 1) - theta**2)
        exponent = damped + self.rounds * (modulus + 1j * angle)
        value = (weight * np.exp(exponent)).astype(np.complex128)
        scale = self.rounds * (math.log1p(real) + _HEAVIER) + shift**2 / 2 * contour * (contour + 1)
        # M is rounded by a share of its absolute terms; an error counts T·|M|^(T − 1) fold.
        moved = (contour + end) * float(np.abs(tilted * losses).sum())
        rounded = _ROUND * (1 + abs(scale) + self.rounds * (moved + 1e-3))
        nearly = np.abs(weight) * np.exp((self.rounds - 1) * modulus + damped.real)
        cut = math.exp(-(_DAMPING**2) / 2) / (math.pi * end)
        slack = cut + min(rounded, 1.0) * 2 * float(nearly.sum()) / period
        return _Transform(contour, scale, period, theta, value, slack)

    @staticmethod
    def _sums(
        theta: FloatArray, losses: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Σ w·(1 − cos θℓ) and Σ w·sin θℓ for equally spaced θ.

        Each θ is one of few multiples of a large step plus one of few of a small one, a + b, and
        e^(i(a + b)ℓ) − 1 = x·y + x + y, where x and y are the same for a and for b: a product of
        two matrices, in which small numbers keep their digits.
        """
        few = math.ceil(math.sqrt(theta.size))
        ends = [np.outer(each, losses) for each in (theta[::few], theta[:few])]
        x, y = (-2 * np.sin(each / 2) ** 2 + 1j * np.sin(each) for each in ends)
        total = (x * weights) @ y.T + (x @ weights)[:, None] + (y @ weights)[None, :]
        flat = total.ravel()[: theta.size]
        return -flat.real, flat.imag
