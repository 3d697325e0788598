"""The privacy of a walk on the complete graph whose path is known, and of smaller views.

All are averages over the walk, which is drawn independently of the data:

* :class:`PublicWalkProfile`: a peer who knows the whole path. Given the walk it sees Gaussian sums
  whose squared shift is μ²·W, W = Σ k²/m over its cycles; δ(ε) = E g(ε, μ√W) with g the Gaussian
  curve. The contributions must not read the token. For ε ≥ 0, g is 0 where W is, so for every λ > 0

      δ(ε) ≤ sup_w [g(ε, μ√w)/(e^(λw) − 1)] · (E e^(λW) − 1).

* :class:`CuratorSumProfile`: a view of the final token only, T noises in one sum.
* :class:`LocalWalkProfile`: a view of every contribution with its owner.

See ``docs/theory/token_walk.md``. Invariant: sums over the number of visits charge their tails to
δ, and suprema are taken over cells, each from above.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from incrowd import checks
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import RevealedProfile
from incrowd.privacy.search import crossing
from incrowd.protocols.token_walk.theorems import visit_counts
from incrowd.protocols.token_walk.theorems.cycle_moments import CycleMoments
from incrowd.protocols.token_walk.theorems.hidden_path import coalition
from incrowd.protocols.token_walk.theorems.visit_counts import Visits, visits
from incrowd.randomizers.base import FloatArray
from incrowd.randomizers.noise import gaussian_deltas

_ROUND = 1e-9
_TOLERANCE = 1e-6
_LEAST = 1e-8
_COARSE, _FINE = 3000, 64
_RATES = 1.04 ** np.arange(-500, 140)
_START, _STRIDE = 384, 64


class _WalkProfile(Profile):
    """An average of curves over walks."""

    @property
    @abstractmethod
    def _scale(self) -> float:
        """Roughly the shift, to begin a search with."""

    @abstractmethod
    def _positive(self, epsilon: float) -> float:
        """The curve at ε ≥ 0, from above."""

    @abstractmethod
    def _attack(self, epsilon: float) -> float:
        """The δ of an attack at ε ≥ 0, from below."""

    def delta(self, epsilon: float) -> float:
        if checks.number(epsilon, "epsilon") < 0:
            found = -math.expm1(epsilon) + math.exp(epsilon) * self._positive(-epsilon)
        else:
            found = self._positive(epsilon)
        return min(1.0, found * (1 + _ROUND))

    def epsilon(self, delta: float) -> float:
        guess = _guess(self._scale, checks.delta(delta))
        return crossing(self.delta, delta, guess, tolerance=_TOLERANCE, factor=1.5).within

    def lower(self, delta: float) -> float | None:
        guess = _guess(self._scale, checks.delta(delta)) / 2
        return crossing(self._attack, delta, guess, tolerance=1e-4, factor=1.5).above

    @property
    def interval(self) -> float:
        return self._scale / 40


def _guess(scale: float, delta: float) -> float:
    return max(scale * (math.sqrt(2 * math.log(1 / delta)) + scale / 2), 1e-9)


def _averaged(number: Visits, shift: FloatArray, epsilon: float) -> tuple[float, float]:
    """Σ_k Pr[k]·g(ε, shift_k) at ε ≥ 0, from below and from above, without the rest ``beyond``."""
    some = shift > 0
    below, above = gaussian_deltas(np.full(int(some.sum()), epsilon), 1 / shift[some])
    return float(below @ number.chance[some]), float(above @ number.chance[some])


@dataclass(frozen=True)
class CuratorSumProfile(_WalkProfile):
    """A view of the sum of all contributions alone, for ``steps`` steps among n people.

    ``mu`` is the shift of one contribution in standard deviations of its own noise.
    """

    mu: float
    n: int
    steps: int

    def __post_init__(self) -> None:
        _check(self.mu, self.n, self.steps)

    @cached_property
    def _visits(self) -> Visits:
        return visits(self.steps, 1 / self.n)

    @cached_property
    def _shift(self) -> float:
        return self.mu / math.sqrt(self.steps)

    @property
    def _scale(self) -> float:
        return self._shift * (self.steps / self.n + math.sqrt(self.steps / self.n))

    def _positive(self, epsilon: float) -> float:
        number = self._visits
        return _averaged(number, self._shift * number.count, epsilon)[1] + number.beyond

    def _attack(self, epsilon: float) -> float:
        return visit_counts.ShiftedSum(self._visits.merged(), self._shift).attack(epsilon)


@dataclass(frozen=True)
class PublicWalkProfile(_WalkProfile):
    """A peer and ``colluders`` who know the path, and the final token if it is ``published``."""

    mu: float
    n: int
    steps: int
    colluders: int = 0
    published: bool = False

    def __post_init__(self) -> None:
        _check(self.mu, self.n, self.steps)
        coalition(self.n, self.colluders, 1)

    @cached_property
    def _moments(self) -> CycleMoments:
        return CycleMoments(self.n, 1 + self.colluders, self.steps, bool(self.published))

    @cached_property
    def _seen_by_all(self) -> LocalWalkProfile:
        return LocalWalkProfile(GaussianProfile(self.mu), self.n, self.steps)

    @property
    def _scale(self) -> float:
        """E W is about (2 + colluders)·T/n²."""
        mean = (2 + self.colluders) * self.steps / self.n**2
        return self.mu * math.sqrt(mean + 0.1 * math.sqrt(mean))

    def _positive(self, epsilon: float) -> float:
        cells = _Cells(epsilon, self.mu, float(self.steps))
        index = self._best(cells)
        log = cells.supremum(float(_RATES[index])) + self._log_excess(index)
        # k²/m is at most k: never worse than a view of every contribution.
        return min(math.exp(min(log, 0.0)), self._seen_by_all.delta(epsilon))

    def _log_excess(self, index: int) -> float:
        """ln(E e^(λW) − 1)."""
        log = self._moments.log_moment(float(_RATES[index]))
        return log + math.log(-math.expm1(-log)) if math.isfinite(log) else math.inf

    def _best(self, cells: _Cells) -> int:
        """The rate λ whose bound is least, going down the slope by ever smaller steps."""

        def height(index: int) -> float:
            return cells.roughly(float(_RATES[index])) + self._log_excess(index)

        # Every search begins at the same place, so that later ones meet rates already looked at.
        here, step = _START, _STRIDE
        while not math.isfinite(height(here)) and here > step:
            here -= step
        while step:
            near = [at for at in (here - step, here + step) if 0 <= at < _RATES.size]
            best = min(near, key=height)
            if height(best) < height(here):
                here = best
            else:
                step //= 2
        return here

    @cached_property
    def _attacks(self) -> list[tuple[float, Visits, FloatArray]]:
        """Chances of stretches of the last visit, and the shifts by then: W ≥ (Σ k)²/Σ m."""
        stretches = [(1.0, float(self.steps), float(self.steps))]
        if not self.published:
            together = 1 + self.colluders
            width = visit_counts.few_stretches(self.n, together)
            seen = visit_counts.last_visit(self.n, together, self.steps, width)
            stretches = np.transpose(seen).tolist()
        found = []
        for chance, fewest, most in stretches:
            if fewest > 0:
                number = visits(int(fewest), 1 / self.n).merged()
                found.append((chance, number, self.mu / math.sqrt(most) * number.count))
        return found

    def _attack(self, epsilon: float) -> float:
        total = 0.0
        for chance, number, shift in self._attacks:
            total += chance * _averaged(number, shift, epsilon)[0] * (1 - 3 * _ROUND)
        return total


class _Cells:
    """The curve g(ε, μ√w) on cells of w, each bounded by its right end."""

    def __init__(self, epsilon: float, mu: float, most: float) -> None:
        self.epsilon, self.mu = epsilon, mu
        # W is at least 1/T unless it is zero, and a cell that begins at zero is never good.
        self.w = np.geomspace(min(_LEAST, 1 / most), most, _COARSE)
        self.log = self._curve(self.w)

    def _curve(self, w: FloatArray) -> FloatArray:
        _, found = gaussian_deltas(np.full(w.shape, self.epsilon), 1 / (self.mu * np.sqrt(w)))
        return np.asarray(np.log(found))

    def roughly(self, rate: float) -> float:
        """The logarithm of sup g/(e^(λw) − 1) at the grid points: no bound, but near it."""
        return float((self.log - _log_expm1(rate * self.w)).max())

    def supremum(self, rate: float) -> float:
        """The same over all w, from above: g at the right of a cell, e^(λw) at its left."""
        left, seen = _log_expm1(rate * self.w), self.roughly(rate)
        bounds = self.log[1:] - left[:-1]
        worst = bounds > seen
        if not worst.any():
            return float(bounds.max())
        edges = np.geomspace(self.w[:-1][worst], self.w[1:][worst], _FINE + 1)
        fine = self._curve(edges[1:]) - _log_expm1(rate * edges[:-1])
        return max(seen, float(fine.max())) + _ROUND


def _log_expm1(x: FloatArray) -> FloatArray:
    """ln(e^x − 1) for x > 0."""
    return np.asarray(x + np.log(-np.expm1(-x)))


@dataclass(frozen=True)
class LocalWalkProfile(_WalkProfile):
    """A view of every contribution with its owner; ``cap`` limits those of one person.

    The number of contributions is binomial. Gaussian ones are averaged exactly; any other ``one``
    is composed, with the chance 1/n that a step is the victim's.
    """

    one: Profile
    n: int
    steps: int
    cap: int = 0

    def __post_init__(self) -> None:
        checks.crowd(self.n, at_least=2)
        checks.integer(self.steps, "steps", 1)
        checks.integer(self.cap, "cap", 0)

    @cached_property
    def _visits(self) -> Visits:
        number = visits(self.steps, 1 / self.n)
        return replace(number, count=np.minimum(number.count, self.cap or math.inf))

    @property
    def _scale(self) -> float:
        return (
            40 * self.one.interval * math.sqrt(min(self.steps / self.n + 1, self.cap or math.inf))
        )

    @cached_property
    def _composed(self) -> tuple[RepeatedProfile, ...]:
        found = [RepeatedProfile(RevealedProfile(self.one, 1 / self.n), self.steps)]
        if self.cap:
            found.append(RepeatedProfile(RevealedProfile(self.one, 1.0), self.cap))
        return tuple(found)

    def _positive(self, epsilon: float) -> float:
        if self.one.normal_shift is not None:
            shift = self.one.normal_shift * np.sqrt(self._visits.count)
            return _averaged(self._visits, shift, epsilon)[1] + self._visits.beyond
        return min(each.delta(epsilon) for each in self._composed)

    def epsilon(self, delta: float) -> float:
        if self.one.normal_shift is not None:
            return super().epsilon(delta)
        return min(each.epsilon(delta) for each in self._composed)

    def lower(self, delta: float) -> float | None:
        """The ε of the Gaussian curve, which is exact; of others none is stated."""
        return None if self.one.normal_shift is None else super().lower(delta)

    def _attack(self, epsilon: float) -> float:
        """The average itself, rounded down: with the names it is attained."""
        return self._positive(epsilon) * (1 - 4 * _ROUND) - self._visits.beyond

    @property
    def greatest_loss(self) -> float:
        return self.one.greatest_loss * min(self.steps, self.cap or self.steps)


def _check(mu: float, n: int, steps: int) -> None:
    GaussianProfile(mu)
    checks.crowd(n, at_least=2)
    checks.integer(steps, "steps", 1)
