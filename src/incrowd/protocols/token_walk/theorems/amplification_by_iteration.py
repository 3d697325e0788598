"""Contributions that read the token on a public path: stochastic gradient descent.

The token is a model; each holder moves it by a noisy gradient step, and it goes on to anyone of the
n people with equal chance. Gradients have norm at most L, losses are convex and smooth, and the
step is constant and short enough to bring no two models further apart. Then u's contribution is
blurred by every noise until an observer sees the model, and a divergence of order α is at most
λ·C/(α − 1) with λ = α(α − 1)·μ²/2, μ = 2L/σ and C the cost of u's runs, as in
:mod:`incrowd.protocols.token_walk.theorems.gap_moments`. The walk is independent of the data, so
that moments of the divergence are means over walks, by a recursion over runs. The walk need not be
secret. See ``docs/theory/token_graph.md``.

Invariants: a run longer than ``LONGEST`` is shown to the observer in between, which only tells
more; every number is rounded up.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter, NumericalFloor
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.renyi import renyi_epsilon
from incrowd.protocols.token_walk.theorems import gap_moments
from incrowd.protocols.token_walk.theorems.gap_moments import Geometric, Runs
from incrowd.randomizers.base import FloatArray

LONGEST = 64  # a longer run of one person's contributions is shown to the observer in between
_MOST_EXPONENT = 250.0
"""Beyond this λ weights leave the range of doubles; no useful order is that large."""
_ORDERS = 1 + np.geomspace(1e-3, 1e4, 29)
_FINE, _SPLITS, _REFINEMENTS = 4000, 24, 10
_MOST_MOMENT = 50.0  # orders with larger moments are of no use
_FARTHEST, _SMALL, _GRID = 700.0, 1e-4, 40
_UP = 1 + 2.0**-51


class MomentProfile(Profile):
    """A curve from the moments E[e^{λC}] of a cost C of a random walk: (α − 1)·D_α ≤ ln E[e^{λC}].

    The cost is never above that of ``cap`` contributions that are all seen alone. A logarithm of
    moments is convex in λ, so that chords between computed ones are bounds as well.
    """

    mu: float
    cap: int

    @abstractmethod
    def log_moment(self, lam: float) -> float:
        """Return the logarithm of E[e^{λC}], rounded up."""

    @cached_property
    def alone(self) -> GaussianProfile:
        """The curve against any view: ``cap`` contributions, each with its own noise."""
        return GaussianProfile(self.mu * math.sqrt(self.cap) * _UP)

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence of this order, rounded up."""
        if not checks.number(order, "order") > 1:
            raise InvalidParameter(f"order must be above 1, got {order!r}", field="order")
        return self.log_moment(self._lambda(order)) / (order - 1) * _UP

    def delta(self, epsilon: float) -> float:
        epsilon = checks.number(epsilon, "epsilon")
        if epsilon < 0:  # both directions have the same bound, so one says it for the other
            there = math.exp(epsilon) * self.delta(-epsilon)
            return min(1.0, (there - math.expm1(epsilon)) * (1 + 2.0**-50))
        if not self._computed:
            return self.alone.delta(epsilon)
        order, moment = self._fine
        spent = moment + (order - 1) * (np.log1p(-1 / order) - epsilon) - np.log(order)
        size = moment + (order - 1) * epsilon + 1
        least = float(np.min(spent + 1e-14 * size, initial=0.0))
        return min(self.alone.delta(epsilon), math.exp(max(least, -_FARTHEST)))

    def epsilon(self, delta: float) -> float:
        best = self.alone.epsilon(delta)
        if not self._computed:
            return best
        spent = [renyi_epsilon([a], [m / (a - 1)], delta) for a, m in self._computed]
        at, last = int(np.argmin(spent)), len(spent) - 1
        low, high = (self._computed[near][0] for near in (max(at - 1, 0), min(at + 1, last)))

        def cost(exponent: float) -> float:
            a = 1 + math.exp(exponent)
            return renyi_epsilon([a], [self.divergence(a)], delta)

        return min(best, _lowest(cost, math.log(low - 1), math.log(high - 1)), *spent)

    @property
    def interval(self) -> float:
        return self.mu * math.sqrt(self.log_moment(_SMALL) / _SMALL) / _GRID

    def _lambda(self, order: float) -> float:
        lam = order * (order - 1) * self.mu**2 / 2 * _UP
        if lam > _MOST_EXPONENT:
            raise NumericalFloor(
                f"order = {order!r} is too large for mu = {self.mu!r}: ask for a smaller order",
                field="order",
            )
        return lam

    @cached_property
    def _computed(self) -> list[tuple[float, float]]:
        """Orders whose moments are within range, and the logarithms of these."""
        inside = _ORDERS[_ORDERS * (_ORDERS - 1) * self.mu**2 / 2 < _MOST_EXPONENT * (1 - 1e-9)]
        found = [(a, self.log_moment(self._lambda(a))) for a in inside.tolist()]
        finite = [each for each in found if each[1] < math.inf]
        return finite if len(finite) > 1 else []

    @cached_property
    def _fine(self) -> tuple[FloatArray, FloatArray]:
        """Many orders, with moments on chords between computed ones, more where chords are bad."""
        order, moment = np.array(self._computed).T
        for _ in range(_SPLITS):
            # The greatest distance of a convex curve from its chord is below that of the secants.
            x = order * (order - 1)
            slope = np.diff(moment) / np.diff(x)
            before = np.append(moment[0] / x[0], slope[:-1])
            off = (slope - before) * np.diff(x) * (moment[:-1] < _MOST_MOMENT)
            at = int(np.argmax(off))
            between = 1 + math.sqrt((order[at] - 1) * (order[at + 1] - 1))
            order = np.insert(order, at + 1, between)
            moment = np.insert(moment, at + 1, self.log_moment(self._lambda(between)))
        fine = np.append(1 + np.geomspace(order[0] - 1, order[-1] - 1, _FINE), order)
        fine = np.clip(np.unique(fine), order[0], order[-1])
        chord = np.interp(fine * (fine - 1), order * (order - 1), moment)
        return fine, chord * (1 + 1e-13)


def _lowest(cost: Callable[[float], float], low: float, high: float) -> float:
    """The least of the values that a golden-section search sees; each of them is a bound."""
    share = (math.sqrt(5) - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = cost(left), cost(right)
    best = min(at_left, at_right)
    for _ in range(_REFINEMENTS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = cost(right)
        best = min(best, at_left, at_right)
    return best


@dataclass(frozen=True)
class IteratedProfile(MomentProfile):
    """Everyone is next with chance 1/n; at most ``cap`` contributions of one person, then noise.

    ``mu`` is 2L/σ, and ``colluders`` share their views with the observer. With ``published``
    everyone also sees the final model.
    """

    mu: float
    n: int
    cap: int
    colluders: int = 0
    published: bool = False

    def __post_init__(self) -> None:
        checks.integer(self.cap, "cap", 1)
        checks.integer(self.colluders, "colluders", 0)
        if checks.crowd(self.n, at_least=2) < self.colluders + 2:
            raise InvalidCrowd(
                f"n must be at least colluders + 2 = {self.colluders + 2} people, got {self.n}",
                field="n",
            )
        if not checks.number(self.mu, "mu") > 0:
            raise InvalidParameter(f"mu must be above 0, got {self.mu!r}")

    def log_moment(self, lam: float) -> float:
        """By the recursion over runs; for a result that is seen, backwards from it."""
        return _log_moment(lam, self.n, self.cap, self.colluders + 1, self.published)


@lru_cache(maxsize=512)
def _log_moment(lam: float, n: int, cap: int, observers: int, published: bool) -> float:
    runs = _runs(n, min(cap, LONGEST), observers)
    seen = gap_moments.log_runs_alike(lam, runs.gap, runs.longest)
    last = seen if published else runs.log_costs(lam)
    # A cut run is shown when one of u and the observers has the token next: the gaps stay alike.
    observed = observers / (observers + 1)
    return gap_moments.log_moment_of_runs(seen, last, float(seen[-1]), observed, cap)


@lru_cache(maxsize=4)
def _runs(n: int, longest: int, observers: int) -> Runs:
    """Runs that the cap ends; those that an observer ends have all gaps alike."""
    horizon = min(max(6 * n, 2048), 131_072)
    return Runs(Geometric(observers / n, horizon), Geometric((observers + 1) / n, horizon), longest)
