"""Gaussian noise: the exact curve of a shift, and what shuffling leaves of it on one data set.

* :class:`GaussianProfile` is the exact curve of two normal laws of equal variance. For vectors in a
  ball of radius C with noise σ·C, one of which is replaced, the means are up to 2C apart: the shift
  is 2/σ, not 1/σ.
* :class:`ShuffledGaussianPair` encloses the exact curve, in both directions, of one victim's 1 or 0
  shuffled among n − 1 zeros: P = (1/n)·Σ_i N(e_i, σ²I) and Q = N(0, σ²I), known as 1-out-of-n
  random allocation. It is the privacy of *one* pair of data sets. Shuffling Gaussian reports cannot
  guarantee more than that; whether it guarantees as much is not proven, so it is no guarantee.

See ``docs/theory/gaussian.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.privacy.composition import LossDistribution
from incrowd.privacy.fourier import Bracket, SumLaw
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.search import crossing
from incrowd.randomizers.noise import gaussian_deltas, gaussian_pair

Direction = Literal["forth", "back"]

_LEAST, _MOST = 1e-6, 1e3
_LEAST_SIGMA, _MOST_SIGMA = 0.4, 1e3
_MOST_PEOPLE = 10**10
_CUT = 8.5
"""Standard deviations that are kept; about 1e−17 lies beyond, and is charged."""
_APART = 4.0
_SMOOTHING, _COARSE = 2e-3, 2e-2
_NEGLIGIBLE = 1e-200

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianProfile(Profile):
    """Two normal laws whose means are ``shift`` standard deviations apart; exact, at any real ε."""

    shift: float

    def __post_init__(self) -> None:
        """Refuse shifts that are none, or that doubles do not resolve."""
        if not _LEAST <= checks.number(self.shift, "shift") <= _MOST:
            raise InvalidParameter(
                f"shift must lie between {_LEAST:g} and {_MOST:g}, got {self.shift!r}"
            )

    @staticmethod
    def replacing(sigma: float) -> GaussianProfile:
        """Vectors clipped to norm C, noise ``sigma``·C on each coordinate, one vector replaced."""
        if not 2 / _MOST <= checks.number(sigma, "sigma") <= 2 / _LEAST:
            raise InvalidParameter(
                f"sigma must lie between {2 / _MOST:g} and {2 / _LEAST:g}, got {sigma!r}",
                field="sigma",
            )
        return GaussianProfile(2 / sigma)

    def bracket(self, epsilon: float) -> Bracket:
        """The curve between two doubles."""
        down, up = gaussian_deltas(
            np.float64(checks.number(epsilon, "epsilon")), np.float64(1 / self.shift)
        )
        return Bracket(float(down), float(up))

    def delta(self, epsilon: float) -> float:
        """The exact curve, rounded up."""
        return self.bracket(epsilon).upper

    def epsilon(self, delta: float) -> float:
        """The ε at which the curve meets δ, rounded up."""
        return crossing(self.delta, checks.delta(delta), self.shift).within

    def lower(self, delta: float) -> float | None:
        """The curve is attained, so this is the same ε, rounded down."""
        curve = lambda epsilon: self.bracket(epsilon).lower  # noqa: E731
        return crossing(curve, checks.delta(delta), self.shift).above

    def attained(self) -> Sequence[LossDistribution]:
        """The losses of the pair itself, from below; it is its own mirror image."""
        from incrowd.privacy.attained import dots_below

        return (dots_below(self.bracket, self.shift, math.inf),)

    @property
    def normal_shift(self) -> float:
        """The shift itself."""
        return self.shift

    @property
    def interval(self) -> float:
        """The loss has the shift for its standard deviation."""
        return self.shift / 40


@dataclass(frozen=True)
class ShuffledGaussianPair:
    """One victim's 1 or 0 among n − 1 zeros, each plus N(0, σ²), in random order: one data set.

    ``forth`` is from the victim's 1 to 0, P‖Q; ``back`` is Q‖P. For values in a ball of radius C,
    noise σ·C and one value replaced, the pair at distance 2C is given by ``sigma`` = σ/2.
    """

    n: int
    sigma: float

    def __post_init__(self) -> None:
        """Refuse an empty crowd, and noise that the grid of the law does not resolve."""
        if checks.crowd(self.n) > _MOST_PEOPLE:
            raise InvalidCrowd(
                f"n must be at most {_MOST_PEOPLE:,} people here, got {self.n}", field="n"
            )
        if not _LEAST_SIGMA <= checks.number(self.sigma, "sigma") <= _MOST_SIGMA:
            raise InvalidParameter(
                f"sigma must lie between {_LEAST_SIGMA:g} and {_MOST_SIGMA:g}, got {self.sigma!r}",
                field="sigma",
            )

    def delta(self, epsilon: float, direction: Direction = "forth") -> Bracket:
        """Enclose the exact δ at ε ≥ 0 of one direction, to about one part in a thousand."""
        if checks.number(epsilon, "epsilon") < 0:
            raise InvalidParameter(
                f"epsilon must not be negative here, got {epsilon!r}", field="epsilon"
            )
        return Bracket(*(self._end(epsilon, direction, upper) for upper in (False, True)))

    def epsilon(self, delta: float, direction: Direction = "forth") -> Bracket:
        """Enclose the exact ε at this δ of one direction."""
        checks.delta(delta)
        variance = math.expm1(min(1 / self.sigma**2, 5.0)) / self.n
        guess = math.sqrt(variance * 2 * math.log(1 / delta))

        def above(at: float) -> float:
            return self._end(at, direction, upper=True)

        def below(at: float) -> float:
            return self._end(at, direction, upper=False)

        alone = GaussianProfile(1 / self.sigma).epsilon(delta)
        high = crossing(above, delta, guess, alone, 1e-5).within
        return Bracket(crossing(below, delta, high, alone, 1e-5, 1.01).above, high)

    def _end(self, epsilon: float, direction: Direction, upper: bool) -> float:
        """One end of the bracket of δ."""
        alone = GaussianProfile(1 / self.sigma).bracket(epsilon)
        if self.n == 1 or alone.upper < _NEGLIGIBLE:
            return alone.upper if upper else alone.lower * (self.n == 1)
        t = math.exp(epsilon)
        found = self._forth(t, upper) if direction == "forth" else self._back(t, upper)
        # Shuffling only forgets: nothing is above what one report gives away.
        return min(max(found, 0.0), alone.upper)

    def _back(self, t: float, upper: bool) -> float:
        """(1/n)·E[(Σ(1 − t·X))₊]; no term is above 1, so one below −n decides, however far."""
        law = gaussian_pair(self.sigma, spread=upper)
        scaled = t * np.minimum(law.b, 2 * self.n / t)
        return self._positive_part(1 - scaled, law.mass, 1 + scaled, upper)

    def _forth(self, t: float, upper: bool) -> float:
        """(1/n)·E[(Σ(X − t))₊], with the few largest X apart: their tail is too heavy to transform.

        Let A be that some X is above c. Without A all terms are bounded. On A the sum is almost
        always positive: its mean there is known, and what its negative part adds is bounded by
        n·Pr[X > c]·E[(n·t − c − Σ X)₊] over the n − 1 others.
        """
        n, sigma = self.n, self.sigma
        variance = min(math.expm1(min(1 / sigma**2, 300.0)), float(n))
        c = n * (t - 1) + _APART * math.sqrt(n * variance)
        top = min(max(sigma**2 * math.log(c), 3 * sigma) + 0.5, 1 + _CUT * sigma)
        c = math.exp((2 * top - 1) / (2 * sigma**2))
        zero, one = float(ndtr(-top / sigma)), float(ndtr((1 - top) / sigma))
        # Pr[A] when the victim holds 1, minus t times that when they hold 0.
        nobody = math.exp((n - 1) * math.log1p(-zero))
        apart = (1 - (1 - one) * nobody) - t * (1 - (1 - zero) * nobody)
        slip = 2.0**-48 * (1 + t)
        law = gaussian_pair(sigma, spread=upper, top=top)
        # Spread, the last atom is c itself, with some of the mass below it; merged, it is beyond.
        x, mass = law.b.copy(), law.mass.copy()
        mass[-1] = max(0.0, mass[-1] - zero) if upper else 0.0
        # Where some X is above c, the sum is not counted here: such a term makes it negative.
        value, chance = np.append(x - t, -2.0 * n * c), np.append(mass, zero)
        without = self._positive_part(value, chance, np.append(x + t, 0.0), upper)
        if not upper:
            return without + apart - slip
        rest = SumLaw((n * t - c) / (n - 1) - x, law.mass, n * t + c + x, n - 1)
        return without + apart + slip + zero * rest.positive_part(_SMOOTHING).upper

    def _positive_part(
        self, value: FloatArray, mass: FloatArray, magnitude: FloatArray, upper: bool
    ) -> float:
        total = _Heavy(value, mass, magnitude, self.n)
        found = [total.positive_part(_SMOOTHING)]
        if found[0].lower == 0:
            # A small crowd needs too many terms for that: smooth more.
            found.append(total.positive_part(_COARSE))
        best = min(each.upper for each in found) if upper else max(each.lower for each in found)
        return best / self.n


class _Heavy(SumLaw):
    """Beyond the saddle the transform of a heavy-tailed law explodes, and the bound of the aliases.

    Any contour is valid; one well before the saddle keeps that bound finite for some more terms.
    """

    def _saddle(self, tau: float) -> float:
        return 0.7 * super()._saddle(tau)
