"""Additive noise: Laplace and Gaussian on numbers in [0, 1], Gaussian on unit vectors.

The laws of numbers are those of the inputs 0 and 1, the worst pair at every ε and in both
directions (``docs/theory/worst_pairs.md``). With x0 = 0 and x1 = 1 the envelope is w = min(R_0,
R_1), so that b = 1 where y < 1/2 and a = 1 where y > 1/2: the points (a, b) lie on two edges of a
square, and the log of the other coordinate is monotone in y.

A law has finitely many atoms, so y is cut into bins. For the *blanket* each bin's mass is moved to
the two end points of its segment so that mass and mean are kept: a mean-preserving spread, hence a
rigorous upper bound. For *attacks* each bin is merged into its mean (a, b): a rigorous lower bound.
The variance that the spread adds is Σ mass·(width of a)²/6 to first order, least when the edges are
equally spaced in ∫(w·a'²)^(1/3); that spacing is closed-form for both kinds of noise.

The guarantees are those of real-valued noise. Reports are rounded to multiples of 2⁻²⁰, which is
post-processing; devices draw and round normal noise exactly. In simulations rounding hides the low
digits of floating-point arithmetic, which are known to leak ("On Significance of the Least
Significant Bits for Differential Privacy", Mironov).
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers import _inputs
from incrowd.randomizers._lattice import check_realisable
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, Reports
from incrowd.randomizers.exact_normal import GRID, noisy
from incrowd.randomizers.law import PairLaw

REAL_NOISE = "noise is drawn from its real-valued law, which floating-point numbers approximate"
"""Assumption of guarantees that rest on continuous noise."""

ROUNDED_NOISE = (
    "noise is drawn from its real-valued law and rounded: by devices exactly, in simulations by "
    "floating-point numbers that approximate it"
)
"""Assumption for noise that devices draw without floating point."""

_HALF_BINS = 750
_LEAST_SIGMA, _MOST_SIGMA = 0.23, 2.0**18
_STATED = 1e-6
_CUT = 8.5
"""Standard deviations kept on each side; about 1e-17 lies beyond."""


class _Additive(Randomizer, frozen=True):
    """Base of the numbers in [0, 1] plus noise; a report is one double."""

    domain: ClassVar[Domain] = "interval"
    summable: ClassVar[bool] = True
    additive: ClassVar[bool] = True
    report_bytes: ClassVar[int] = 8

    def tally(self, reports: Reports) -> FloatArray:
        """Add up the reports."""
        return np.array(_inputs.received_floats(reports, None).sum(), np.float64)

    def from_tally(self, tally: FloatArray, reports: int, noise: float) -> Estimate:
        """Estimate the mean of the respondents; given their data the variance is exact."""
        variance = self._variance(noise) / reports**2
        return Estimate(np.asarray(tally / reports), np.array(variance), reports)

    def _variance(self, noise: float) -> float:
        """Variance of a sum of this many noises."""
        raise NotImplementedError


class Laplace(_Additive, frozen=True, tag="laplace"):
    """A number in [0, 1] plus Laplace noise of scale 1/ε0."""

    assumption: ClassVar[str] = REAL_NOISE

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Add the noise and round to the grid."""
        numbers = _inputs.numbers(values)
        return on_grid(numbers + rng.laplace(0.0, 1 / self.epsilon, numbers.size))

    def randomize_scaled(
        self, values: NDArray[Any], scale: float, rng: np.random.Generator
    ) -> Reports:
        """Rescale noise that is on the grid, then round again."""
        numbers = _inputs.numbers(values)
        if not scale:
            return on_grid(numbers)
        return on_grid(numbers + scale * self.randomize_exactly(np.zeros(numbers.size), rng))

    def _variance(self, noise: float) -> float:
        return noise * 2 / self.epsilon**2

    def local_delta(self, epsilon: float) -> float:
        """Return the profile of (0, 1): ``1 − e^{(ε − ε0)/2}`` for ``|ε| ≤ ε0``, rounded up."""
        if epsilon >= self.epsilon:
            return 0.0
        exact = max(-math.expm1((epsilon - self.epsilon) / 2), -math.expm1(epsilon))
        return min(1.0, exact * (1 + 1e-15))

    def blanket(self) -> PairLaw:
        """Spread upwards; with s = e^{−ε0·y} in the lower half, a = E·s² from E down to 1.

        In a bin between s > s' the envelope has mass (1/s' − 1/s)/(2E) and R_0 has (s − s')/2, so
        the end points get (s − s')/(2E·s(s + s')) and (s − s')/(2E·s'(s + s')). Beyond 0 the point
        is (E, 1) with mass 1/(2E). The upper half mirrors the lower one.
        """
        top = math.exp(self.epsilon)
        s = np.linspace(1.0, math.exp(-self.epsilon / 2), _HALF_BINS + 1)
        high, low = s[:-1], s[1:]
        share = (high - low) / (2 * top * (high + low))
        mass = np.zeros(s.size)
        mass[:-1] += share / high
        mass[1:] += share / low
        mass[0] += 1 / (2 * top)
        return _mirrored(top * s**2, mass)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at 0, or all at 1, merged downwards.

        Others at 0: b = e^{ε0(2y − 1)} between 1/E (all y < 0) and E (all y > 1); with r = e^{ε0·y}
        a bin has mass (1/r − 1/r')/2 and mean b = r·r'/E.
        """
        top = math.exp(self.epsilon)
        r = np.linspace(1.0, top, 2 * _HALF_BINS + 1)
        b = np.concatenate([[1 / top], r[:-1] * r[1:] / top, [top]])
        mass = np.concatenate([[0.5], (r[1:] - r[:-1]) / (2 * r[:-1] * r[1:]), [1 / (2 * top)]])
        at_0 = PairLaw.of(1.0, b, mass)
        return at_0, at_0.swapped()


class Gaussian(_Additive, frozen=True, tag="gaussian"):
    """A number in [0, 1] plus Gaussian noise that is exactly (ε0, δ0)-private.

    ``delta`` is δ0. The standard deviation is solved from the exact profile ("Improving the
    Gaussian Mechanism for Differential Privacy: Analytical Calibration and Optimal Denoising",
    Balle, Wang) and rounded up.
    """

    # A field in place of the base's property: the survey file and JSON carry it under this name.
    delta: float

    assumption: ClassVar[str] = ROUNDED_NOISE
    exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        checks.delta(self.delta)

    @classmethod
    def with_sigma(cls, sigma: float) -> Gaussian:
        """Return the one with noise of this standard deviation, up to one part in 2⁴⁰ above.

        It is stated at δ0 = 10⁻⁶, which does not affect the noise.
        """
        if not _LEAST_SIGMA <= checks.number(sigma, "sigma") <= _MOST_SIGMA:
            raise InvalidParameter(
                f"sigma must be between {_LEAST_SIGMA:g} and {_MOST_SIGMA:g} of what it hides, got "
                f"{sigma!r}",
                field="sigma",
            )
        return cls(epsilon=_epsilon_of_sigma(sigma, _STATED), delta=_STATED)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise."""
        return _calibrated_sigma(self.epsilon, self.delta)

    @property
    def normal_shift(self) -> float:
        """Two numbers are at most 1 apart."""
        return 1 / self.sigma

    def randomize_exactly(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Add the noise and round to the grid, as real numbers."""
        return noisy(_inputs.numbers(values), self.sigma, rng)

    def randomize_scaled(
        self, values: NDArray[Any], scale: float, rng: np.random.Generator
    ) -> Reports:
        """Add noise of another standard deviation and round to the grid, as real numbers."""
        numbers = _inputs.numbers(values)
        return noisy(numbers, scale * self.sigma, rng) if scale else on_grid(numbers)

    def local_delta(self, epsilon: float) -> float:
        """Return the exact profile of the pair (0, 1), rounded up."""
        return gaussian_delta(epsilon, self.sigma)

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Add the noise and round to the grid."""
        numbers = _inputs.numbers(values)
        return on_grid(numbers + self.sigma * rng.standard_normal(numbers.size))

    def _variance(self, noise: float) -> float:
        return noise * self.sigma**2

    def blanket(self) -> PairLaw:
        """Spread upwards between 1/2 and 8.5σ beyond 0 (and mirrored); the rest is ``escaped``.

        In the lower half a = e^{(1 − 2y)/(2σ²)}, b = 1. The mass of R_0 (by symmetry R_1) beyond
        either cut is dropped from a and b and charged to δ; the blanket that is left is a smaller
        one, still a blanket.
        """
        sigma = self.sigma
        cut = -_CUT * sigma
        edges = _edges(cut, 0.5, centre=-1.0, spread=math.sqrt(3) * sigma, bins=_HALF_BINS)
        a = np.exp((1 - 2 * edges) / (2 * sigma**2))
        mass = _normal_mass(edges - 1, sigma)
        target = _normal_mass(edges, sigma)
        low, high = a[1:], a[:-1]
        to_high = np.clip((target - low * mass) / (high - low), 0.0, mass)
        spread = np.zeros(edges.size)
        spread[:-1] += to_high
        spread[1:] += mass - to_high
        escaped = float(ndtr(cut / sigma) + ndtr((cut - 1) / sigma))
        return _mirrored(a, spread, escaped)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at 0, or all at 1, merged downwards; the tails are merged too."""
        at_0 = gaussian_pair(self.sigma)
        return at_0, at_0.swapped()


class GaussianVector(Randomizer, frozen=True, tag="gaussian-vector"):
    """A unit vector plus Gaussian noise in every coordinate that is exactly (ε0, δ0)-private.

    Two unit vectors are at most 2 apart, and of two normal laws with covariance σ²I only the
    distance of the means matters: the curve of the worst pair is that of a shift by 2/σ. It has no
    blanket, so shuffling is not accounted for; token walks sum the reports.
    """

    # A field in place of the base's property, as in the Gaussian.
    delta: float
    dimension: int

    domain: ClassVar[Domain] = "vector"
    summable: ClassVar[bool] = True
    additive: ClassVar[bool] = True
    assumption: ClassVar[str] = REAL_NOISE

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        checks.delta(self.delta)
        whole = checks.integer(self.dimension, "dimension", 1)
        msgspec.structs.force_setattr(self, "dimension", whole)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in each coordinate."""
        return 2 * Gaussian(epsilon=self.epsilon, delta=self.delta).sigma

    @property
    def normal_shift(self) -> float:
        """Two unit vectors are at most 2 apart."""
        return 2 / self.sigma

    @property
    def report_bytes(self) -> int:
        """One double per coordinate."""
        return 8 * self.dimension

    def local_delta(self, epsilon: float) -> float:
        """Return the exact profile of two opposite vectors, rounded up."""
        return gaussian_delta(epsilon, self.sigma / 2)

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Add the noise and round to the grid."""
        vectors = _inputs.vectors(values, self.dimension, rng)
        lengths = np.linalg.norm(vectors, axis=1)
        wrong = np.flatnonzero(~(np.abs(lengths - 1) <= _inputs.UNIT_TOLERANCE))
        if wrong.size:
            _inputs.refuse_length(vectors, int(wrong[0]))
        return on_grid(vectors + self.sigma * rng.standard_normal(vectors.shape))

    def randomize_scaled(
        self, values: NDArray[Any], scale: float, rng: np.random.Generator
    ) -> Reports:
        """Rescale noise that is on the grid, then round again."""
        vectors = _inputs.vectors(values, self.dimension, rng)
        if not scale:
            return on_grid(vectors)
        public = np.zeros(vectors.shape)
        public[:, 0] = 1
        return on_grid(vectors + scale * (self.randomize_exactly(public, rng) - public))

    def tally(self, reports: Reports) -> FloatArray:
        """Add up the reports."""
        rows = _inputs.received_floats(reports, self.dimension)
        return np.asarray(rows.sum(axis=0), np.float64)

    def from_tally(self, tally: FloatArray, reports: int, noise: float) -> Estimate:
        """Estimate the mean of the respondents; given their data the variance is exact."""
        variance = np.full(self.dimension, noise * (self.sigma / reports) ** 2)
        return Estimate(tally / reports, variance, reports)


def gaussian_pair(sigma: float, *, spread: bool = False, top: float | None = None) -> PairLaw:
    """Return the law of (1, X), X = dN(1, σ²)/dN(0, σ²), under N(0, σ²): the victim among zeros.

    Merged downwards, tails included; the part above ``top`` is the last atom. With ``spread`` it is
    upwards instead: the lower tail goes to X = 0 and to its edge; X is cut at ``top``, and the mass
    of N(1, σ²) beyond is ``escaped``.
    """
    high = 1 + _CUT * sigma if top is None else top
    width = math.sqrt(3) * sigma
    inner = _edges(-_CUT * sigma, high, centre=2.0, spread=width, bins=2 * _HALF_BINS)
    edges = np.concatenate([[-np.inf], inner, [np.inf]])
    mass, other = _normal_mass(edges, sigma), _normal_mass(edges - 1, sigma)
    if not spread:
        return PairLaw.of(1.0, other / mass, mass)
    x = np.concatenate([[0.0], np.exp((2 * inner - 1) / (2 * sigma**2))])
    up = np.clip((other - x * mass)[:-1] / np.diff(x), 0.0, mass[:-1])
    spread_mass = np.append(mass[:-1] - up, mass[-1])
    spread_mass[1:] += up
    return PairLaw.of(1.0, x, spread_mass, float(other[-1]))


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """Return δ(ε) of one unit of shift under N(0, σ²), for any real ε, rounded up."""
    return float(gaussian_deltas(np.float64(epsilon), np.float64(sigma))[1])


def gaussian_deltas(
    epsilon: FloatArray | np.float64, sigma: FloatArray | np.float64
) -> tuple[FloatArray, FloatArray]:
    """Return each δ(ε) of arrays, rounded down, and rounded up.

    Φ(1/(2σ) − εσ) − e^ε·Φ(−1/(2σ) − εσ), as Φ(u)·(1 − e^x) with x = ε + ln Φ(v) − ln Φ(u), minus
    or plus the largest effect of rounding in x.
    """
    upper = log_ndtr(0.5 / sigma - epsilon * sigma)
    lower = log_ndtr(-0.5 / sigma - epsilon * sigma)
    exponent = epsilon + lower - upper
    hidden = 2.0**-50 * (1 + np.abs(epsilon) - lower - upper)
    fallen = -np.expm1(np.minimum(exponent, 0.0))
    share = np.exp(upper)
    down = np.maximum(share * (fallen - hidden), 0.0)
    return down, np.clip(share * (fallen + hidden), sys.float_info.min, 1.0)


@lru_cache(maxsize=256)
def _epsilon_of_sigma(sigma: float, delta: float) -> float:
    """Solve for the ε of this calibrated σ, or a little more."""
    low, high = 0.0, 64.0
    while high - low > 2.0**-46 * high:
        middle = (low + high) / 2
        if _calibrated_sigma(middle, delta) < sigma:
            high = middle
        else:
            low = middle
    return low


@lru_cache(maxsize=256)
def _calibrated_sigma(epsilon: float, delta: float) -> float:
    """Solve for the least σ with δ(ε), rounded up, at most ``delta``; up to 2⁻⁴⁸ above."""
    low, high = 2.0**-10, 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
        if high > 2.0**60:
            raise InvalidParameter(
                f"epsilon {epsilon!r} with delta {delta!r} needs more noise than can be resolved",
                field="epsilon",
            )
    while gaussian_delta(epsilon, low) <= delta:
        low /= 2
        if low < 2.0**-60:
            raise InvalidParameter(
                f"delta {delta!r} is so large that no noise is needed: lower it", field="delta"
            )
    while high - low > 2.0**-48 * high:
        middle = (low + high) / 2
        if gaussian_delta(epsilon, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _edges(low: float, high: float, *, centre: float, spread: float, bins: int) -> FloatArray:
    """Bin edges: half of them of least added variance (normal quantiles), half evenly spaced.

    (w·a'²)^(1/3) is here a normal density around ``centre``. The even half keeps the far tail,
    which matters to small crowds, from falling into one bin.
    """
    ranks = np.linspace(ndtr((low - centre) / spread), ndtr((high - centre) / spread), bins // 2)
    quantiles = centre + spread * ndtri(ranks[1:-1])
    inside = quantiles[(quantiles > low) & (quantiles < high)]
    merged = np.sort(np.concatenate([np.linspace(low, high, bins - bins // 2 + 1), inside]))
    apart = np.concatenate([[True], np.diff(merged) > 1e-9 * (high - low)])
    apart[-1] = True
    return np.asarray(merged[apart])


def _normal_mass(edges: FloatArray, sigma: float) -> FloatArray:
    """Mass of N(0, σ²) between consecutive edges, from the nearer tail."""
    z = edges / sigma
    left, right = z[:-1], z[1:]
    flip = left + right > 0
    return np.where(flip, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))


def _mirrored(ratio: FloatArray, mass: FloatArray, escaped: float = 0.0) -> PairLaw:
    """The symmetric law with points (ratio, 1) and (1, ratio)."""
    one = np.ones_like(ratio)
    a, b = np.concatenate([ratio, one]), np.concatenate([one, ratio])
    return PairLaw.of(a, b, np.concatenate([mass, mass]), escaped)


def on_grid(drawn: FloatArray) -> FloatArray:
    """Round to multiples of 2⁻²⁰, which hides the low digits of floating-point arithmetic."""
    return np.rint(drawn * GRID) / GRID
