"""A certified bracket of E[(G₁ + … + Gₙ)₊] for independent copies of a finite law.

This expectation, divided by n, is the privacy δ of a shuffled crowd (``docs/theory/blanket.md``).
It is evaluated at a cost that does not grow with n. With S the sum, K the cumulant function of one
copy and Z an independent normal variable of standard deviation τ, for any λ > 0,

    E[(S + Z)₊] = 1/(2πi) ∫ exp(n·K(z) + τ²z²/2) / z² dz   along Re z = λ,

and three facts make the trapezoidal sum of this integral a bracket (``docs/theory/fourier.md``):

* smoothing raises a convex expectation, by at most τ² times the density of S + Z at zero, and that
  density is the same integral without the factor 1/z²;
* the trapezoidal sum with period P is, by Poisson summation, the integral plus *positive* terms
  (the aliases), so it never errs below; for the lower end Chernoff's inequality bounds them;
* the part of the sum that is left out is at most its Gaussian factor, since |M(λ+iθ)| ≤ M(λ).

Most of the sum is negligible: where |M(λ+iθ)| is provably far below M(λ) on a whole stretch of θ,
by a Taylor bound of its square, the stretch is skipped and charged. λ is the saddle point, so that
nothing cancels: the answer has *relative* accuracy, at any δ that a double can hold. Rounding is
bounded term by term and widens the bracket.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_UNIT = 2.0**-53
_ROUNDINGS = 64
"""Rounding errors allowed per atom: of its value, its angle, sine, exponential, product and sum."""
_DAMPING = 7.8
"""The sum stops where the Gaussian factor is exp(−7.8²/2) < 1e−13 of its largest."""
_ALIAS = 40.0
_PERIOD = 14.0
"""The period is at least 14 standard deviations at the saddle, and at least 40/λ."""
_EXPONENT = 690.0
_DEAD = 60.0
"""A stretch of the sum is skipped when each of its terms is below exp(−60) of the largest."""
_FINEST = 8
_SPLIT = 4
_MOST_CELLS = 1 << 18
_MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two numbers that enclose the true one."""

    lower: float
    upper: float

    def scaled(self, factor: float) -> Bracket:
        """The bracket of the true value times a positive factor."""
        return Bracket(self.lower * factor, self.upper * factor)


@dataclass(frozen=True, eq=False)
class SumLaw:
    """The sum of ``n`` independent copies of a law with atoms ``value`` and masses ``mass``.

    Missing mass sits at zero. ``magnitude`` bounds the numbers from which each value was computed,
    so that their rounding is accounted for.
    """

    value: FloatArray
    mass: FloatArray
    magnitude: FloatArray
    n: int

    def positive_part(self, smoothing: float, deviation: float | None = None) -> Bracket:
        """Enclose E[S₊], smoothing by ``smoothing`` times the scale of S at the saddle point.

        That scale is the larger of the tilted deviation and 1/λ. A given ``deviation`` takes its
        place: then the upper ends for the laws of one family are all smoothed alike, and stay
        convex in its parameter.
        """
        largest = float(self.value.max(initial=-math.inf))
        doubt = 4 * _UNIT * float(self.magnitude.max(initial=0.0))
        if largest <= doubt:
            # No atom is positive, but for the rounding of those at zero.
            return Bracket(0.0, self.n * doubt if largest > -doubt else 0.0)
        saddle = self._saddle(0.0 if deviation is None else smoothing * deviation)
        log_m, moment, spread = self._tilted(saddle)
        tau = smoothing * (max(spread, 1 / saddle) if deviation is None else deviation)
        period = max(_PERIOD * math.hypot(spread, tau), _ALIAS / saddle)
        step = 2 * math.pi / period
        terms = math.ceil(math.hypot(saddle, _DAMPING / tau) / step)
        peak = self.n * log_m + (tau * saddle) ** 2 / 2
        chernoff = self._chernoff(saddle, log_m, moment)
        live = self._live(saddle, step, terms, log_m) if abs(peak) < _EXPONENT else None
        if live is None:
            return Bracket(0.0, chernoff)
        total, density, rounding = self._trapezoid(saddle, step, live, tau, peak, log_m, moment)
        # What the sum leaves out, before and after its last term; the same bounds both integrals.
        last = step * terms
        left_out = math.exp(peak - (tau * last) ** 2 / 2) / (math.pi * last)
        left_out += math.exp(peak - _DEAD) * (1 / (math.pi * step * (_FINEST - 1)) + tau)
        upper = min(total + rounding + left_out, chernoff)
        lower = total - rounding - 2 * left_out - tau**2 * density
        lower -= self._aliases(saddle, period, tau)
        return Bracket(max(lower, 0.0), upper)

    @property
    def _rounding(self) -> float:
        """The relative error of one sum over the atoms."""
        return _UNIT * (_ROUNDINGS + self.value.size)

    def _chernoff(self, saddle: float, log_m: float, moment: float) -> float:
        """E[S₊] ≤ M(λ)ⁿ/(eλ): cheap, and about a factor of ten too large."""
        rounding = self._rounding * (4 + self.n * moment * saddle)
        exponent = self.n * log_m - 1 - math.log(saddle) + rounding
        return math.exp(min(max(exponent, -_EXPONENT), _EXPONENT))

    def _saddle(self, tau: float) -> float:
        """A λ near the minimum of n·K(λ) + τ²λ²/2 − 2·log λ: any is valid, this one is accurate."""
        largest = float(self.value.max())
        root = math.sqrt(self.n * float(self.mass @ self.value**2))
        low, high = math.log(1e-2 / max(root, largest)), math.log(600.0 / largest)

        def exponent(log_lambda: float) -> float:
            at = math.exp(log_lambda)
            return self.n * self._log_mgf(at) + (tau * at) ** 2 / 2 - 2 * log_lambda

        # The exponent is nearly convex in log λ: a golden-section search is enough.
        inner = (math.sqrt(5) - 1) / 2
        left, right = high - inner * (high - low), low + inner * (high - low)
        at_left, at_right = exponent(left), exponent(right)
        while high - low > 1e-2:
            if at_left < at_right:
                high, right, at_right = right, left, at_left
                left = high - inner * (high - low)
                at_left = exponent(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + inner * (high - low)
                at_right = exponent(right)
        return math.exp((low + high) / 2)

    def _log_mgf(self, at: float) -> float:
        grown = float(self.mass @ np.expm1(at * self.value))
        if grown > -0.5:
            return math.log1p(grown)
        # Far below 1 the sum itself keeps more digits than its distance from 1.
        return math.log(max(self._rest + float(self.mass @ np.exp(at * self.value)), 1e-300))

    @cached_property
    def _rest(self) -> float:
        """The mass at zero."""
        return max(0.0, 1.0 - float(self.mass.sum()))

    def _tilted(self, saddle: float) -> tuple[float, float, float]:
        """Of the tilted law: log M(λ), the mean magnitude, and the standard deviation of S."""
        log_m = self._log_mgf(saddle)
        weight = self.mass * np.exp(saddle * self.value - log_m)
        mean = float(weight @ self.value)
        variance = float(weight @ self.value**2) - mean**2
        rest = self.mass * np.exp(np.maximum(saddle * self.value, 0.0) - log_m)
        return log_m, float(rest @ self.magnitude), math.sqrt(max(self.n * variance, 0.0))

    def _live(
        self, saddle: float, step: float, terms: int, log_m: float
    ) -> NDArray[np.int64] | None:
        """The terms that cannot be skipped, as multiples of ``step``; none when too many.

        With A(θ) = |M(λ+iθ)|²/M(λ)² and v the variance of G under the tilted law, |A''| ≤ 2v, so on
        a stretch of half-width h around θ, A ≤ A(θ) + |A'(θ)|·h + v·h².
        """
        weight = self.mass * np.exp(saddle * self.value - log_m)
        rest = math.exp(-log_m) * self._rest
        mean = float(weight @ self.value)
        variance = float(weight @ (self.value - mean) ** 2) + rest * mean**2
        live = [np.arange(_FINEST)]
        width = max(_FINEST, math.ceil(0.5 / (step * math.sqrt(variance) + 1e-300)))
        width = min(width, terms)
        if terms / width > _MOST_CELLS * _MOST_PARTS:
            return None
        starts = np.arange(_FINEST, terms + 1, width)
        while starts.size:
            half = step * width / 2
            square, slope = self._square(np.asarray(step * starts + half), weight, rest)
            bound = square + np.abs(slope) * half + variance * half**2
            starts = starts[self.n / 2 * np.log(np.minimum(bound, 1.0)) > -_DEAD - 1]
            if starts.size * self.value.size > _MOST_CELLS * _MOST_PARTS:
                return None
            if width <= _FINEST:
                live.append((starts[:, None] + np.arange(width)).ravel())
                break
            finer = max(_FINEST, math.ceil(width / _SPLIT))
            # Stretches are cut in equal parts; the last may reach past the next stretch's start.
            starts = np.unique(starts[:, None] + np.arange(0, width, finer))
            width = finer
        found = np.unique(np.concatenate(live))
        return found[found <= terms]

    def _square(
        self, theta: FloatArray, weight: FloatArray, rest: float
    ) -> tuple[FloatArray, FloatArray]:
        """A(θ) and its derivative."""
        square, slope = np.empty_like(theta), np.empty_like(theta)
        for part in _parts(theta.size, self.value.size):
            angle = np.outer(theta[part], self.value)
            cosine, sine = np.cos(angle), np.sin(angle)
            real, imag = rest + cosine @ weight, sine @ weight
            square[part] = real**2 + imag**2
            pull = weight * self.value
            slope[part] = 2 * (imag * (cosine @ pull) - real * (sine @ pull))
        return square, slope

    def _trapezoid(
        self,
        saddle: float,
        step: float,
        live: NDArray[np.int64],
        tau: float,
        peak: float,
        log_m: float,
        moment: float,
    ) -> tuple[float, float, float]:
        """Trapezoidal sums for E[(S+Z)₊] and for the density at 0, and their rounding together."""
        growth = np.expm1(saddle * self.value)
        total = density = rounding = 0.0
        for part in _parts(live.size, self.value.size):
            theta = step * live[part]
            angle = np.outer(theta, self.value)
            # E[exp(zG)] − 1, without cancellation: its parts are of the size of z·G, not of 1.
            half = np.sin(angle / 2)
            real = (growth - 2 * (1 + growth) * half * half) @ self.mass
            imag = ((1 + growth) * np.sin(angle)) @ self.mass
            # log|M|: near 1 from the difference, elsewhere from the modulus itself.
            near = np.log1p(np.maximum(2 * real + real**2 + imag**2, -0.9)) / 2
            modulus = np.maximum(np.hypot(1 + real, imag), 1e-300)
            log_abs = np.where(modulus > 0.7, near, np.log(modulus))
            log_size = self.n * log_abs + tau**2 * (saddle**2 - theta**2) / 2
            phase = self.n * np.arctan2(imag, 1 + real) + tau**2 * saddle * theta
            weight = np.where(theta > 0, 2.0, 1.0) * np.exp(log_size - peak)
            turn = np.exp(1j * phase) / (saddle + 1j * theta) ** 2
            total += float(weight @ turn.real)
            density += float(weight @ np.cos(phase))
            # |F̂ⁿ − Fⁿ| ≤ (|F| + e)ⁿ − |F|ⁿ, where e is a few roundings of |z|·E[|G| e^{λG}].
            size = np.hypot(saddle, theta)
            error = self._rounding * moment * size
            share = np.exp(np.maximum(log_abs - log_m, -_EXPONENT))
            grown = self.n * np.log(share + error)
            slip = np.exp(grown) * -np.expm1(-self.n * np.log1p(error / share))
            slip *= 2 * np.exp(-((tau * theta) ** 2) / 2)
            rounding += float((1 / size**2 + tau**2) @ (slip + 4 * self._rounding * weight))
        scale = math.exp(peak) * step / (2 * math.pi)
        return scale * total, scale * density, scale * rounding

    def _aliases(self, saddle: float, period: float, tau: float) -> float:
        """An upper bound of the aliases: e^{−λjP}·E[(S + Z + jP)₊] summed over j ≠ 0."""
        # (x + jP)₊ ≤ exp(μ(x + jP)) / (eμ), with μ < λ for j > 0 and μ > λ for j < 0.
        largest = _EXPONENT / float(self.value.max())
        bound = 0.0
        for at in (0.5 * saddle, min(1.5 * saddle, max(largest, saddle))):
            decay = abs(at - saddle) * period
            exponent = self.n * self._log_mgf(at) + (tau * at) ** 2 / 2 - 1 - math.log(at) - decay
            if decay < 1 or exponent > _EXPONENT:
                return math.inf
            bound += math.exp(exponent) / -math.expm1(-decay)
        return bound


def _parts(rows: int, columns: int) -> Iterator[slice]:
    """Slices of rows, each with few enough cells to stay in the processor's cache."""
    height = max(1, _MOST_CELLS // columns)
    for start in range(0, rows, height):
        yield slice(start, start + height)
