"""The cost of a run of contributions: the mean of e^{λC} over the gaps between them.

One person contributes k times before the token is seen; going back from that moment, the gaps are
g₁, …, g_k steps, each step with a noise of its own. The cost C is that of the best way to spread k
unit shifts over these noises, a shift going to its own noise or a later one: the sum of the squares
of the slopes of a convex minorant. Two computations, both from above:

* all gaps alike: the faces of the minorant are distributed as the cycles of a uniform permutation,
  so that A_k, the mean for k gaps, satisfies k·A_k = Σ_m φ_m·A_{k−m} with
  φ_m = E[e^{λm²/(g₁ + … + g_m)}];
* the first gap different: the same with the shorter of both laws, or with the first contribution
  apart, or by giving every shift evenly to all the noises it meets, which costs
  Σ_j (2j − 1)/(g₁ + … + g_j); the least of these.

Invariants: sums of gaps beyond the horizon are taken at the horizon, from where the cost only
falls; rounding is charged. See ``docs/theory/token_graph.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers.base import FloatArray

_ROUNDING = 2.0**-53
_NEAR = 128
"""Up to here sums are convolved directly; the error of the transform is relative to the total."""
_TRANSFORM = 16 * 2.0**-53
_MOST = 600.0  # exponents that are added up as they are; larger ones go by their logarithms
_LEAST = 1e-300
_KEPT = 1 << 14  # sums of gaps are kept up to this horizon; beyond they take too much memory


@dataclass(frozen=True, eq=False)
class Gap:
    """The law of a number of steps: chances of 1, …, horizon, and of more."""

    chance: FloatArray
    beyond: float

    def onward(self, weight: FloatArray) -> tuple[FloatArray, float]:
        """Return weights at 1, …, horizon after one more gap, and the mass beyond, from above."""
        horizon, size = weight.size, 2 * weight.size
        found = np.fft.irfft(np.fft.rfft(weight, size) * self._transform, size)
        norms = np.linalg.norm(weight) * float(np.linalg.norm(self.chance))
        error = math.log2(size) * _TRANSFORM * float(norms)
        after = np.zeros(horizon)
        after[1:] = np.maximum(found[: horizon - 1], 0.0) + error
        near = min(_NEAR, horizon)
        after[1:near] = np.convolve(weight[:near], self.chance[:near])[: near - 1]
        return after, float(weight @ self._tail)

    def sums(self, longest: int) -> Iterator[tuple[FloatArray, float]]:
        """Yield the laws of sums of 1, …, ``longest`` gaps: within the horizon, and beyond it."""
        known = self._sums
        weight, beyond = self.chance, self.beyond
        for m in range(longest):
            if m < len(known):
                weight, beyond = known[m]
            else:
                if m:
                    weight, left = self.onward(weight)
                    beyond += left
                if self.chance.size <= _KEPT:
                    known.append((weight, beyond))
            yield weight, beyond

    @cached_property
    def _sums(self) -> list[tuple[FloatArray, float]]:
        return []

    def shorter(self, other: Gap) -> Gap:
        """Return a law that both are at least as long as: the greater of the distributions."""
        first, second = np.cumsum(self.chance), np.cumsum(other.chance)
        if np.all(first >= second):
            return self
        if np.all(second >= first):
            return other
        greater = np.maximum(first, second)
        return Gap(np.diff(greater, prepend=0.0), max(0.0, 1 - float(greater[-1])))

    @cached_property
    def _transform(self) -> NDArray[np.complex128]:
        return np.fft.rfft(self.chance, 2 * self.chance.size)

    @cached_property
    def _tail(self) -> FloatArray:
        """The chance that a gap from 1, …, horizon on ends beyond it."""
        return np.asarray(self.beyond + np.cumsum(self.chance[::-1]))


class Geometric(Gap):
    """Every step ends the gap with the same chance."""

    rate: float

    def __init__(self, rate: float, horizon: int) -> None:
        waited = np.power(1.0 - rate, np.arange(horizon + 1))
        super().__init__(rate * waited[:-1], float(waited[-1]))
        object.__setattr__(self, "rate", rate)

    def onward(self, weight: FloatArray) -> tuple[FloatArray, float]:
        """A gap that forgets how long it has lasted: a recursive filter."""
        from scipy.signal import lfilter

        waiting = lfilter([1.0], [1.0, self.rate - 1.0], weight)
        return np.concatenate([[0.0], self.rate * waiting[:-1]]), float(waiting[-1])

    def shorter(self, other: Gap) -> Gap:
        if isinstance(other, Geometric):
            return self if self.rate >= other.rate else other
        return super().shorter(other)


def log_runs_alike(lam: float, gap: Gap, longest: int) -> FloatArray:
    """Return the logarithms of A_1, …, A_longest where all gaps have this law."""
    faces = np.array([_log_face(lam, m, *law) for m, law in enumerate(gap.sums(longest), 1)])
    found = np.zeros(longest + 1)
    for k in range(1, longest + 1):
        found[k] = np.logaddexp.reduce(faces[:k] + found[k - 1 :: -1][:k]) - math.log(k)
    return _charged(found[1:], gap.chance.size)


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of up to ``longest``: ``first`` is the gap until the token is seen, ``gap`` the rest."""

    first: Gap
    gap: Gap
    longest: int

    def log_costs(self, lam: float) -> FloatArray:
        """Return the logarithms of A_1, …, A_longest, from above."""
        first, longest = self.first, self.longest
        alone = _log_face(lam, 1, first.chance, first.beyond)
        others = np.append(0.0, log_runs_alike(lam, self.gap, longest)[:-1])
        apart = _charged(alone + others, first.chance.size)
        found = np.minimum(apart, log_runs_alike(lam, self._shorter, longest))
        if 2 * lam * longest <= _MOST:
            found = np.minimum(found, _log_runs_evenly(lam, first, self.gap, longest))
        return found

    @cached_property
    def _shorter(self) -> Gap:
        return self.first.shorter(self.gap)


def log_moment_of_runs(
    seen: FloatArray, last: FloatArray, cut: float, observed: float, cap: int
) -> float:
    """Return the logarithm of E[e^{λC}] over all runs until ``cap`` contributions, from above.

    After each contribution the observer is next with chance ``observed``. ``seen`` are the weights
    of runs that the observer ends, ``last`` those of runs that the cap ends, ``cut`` the weight of
    one that is as long as any may be and is shown when either of the two has the token next.
    """
    longest = last.size
    again = np.arange(longest) * math.log1p(-observed)
    ends = again + math.log(observed) + seen
    moment = np.zeros(cap + 1)
    for m in range(1, cap + 1):
        reach = min(m, longest) - 1
        terms = ends[:reach] + moment[m - reach : m][::-1]
        rest = last[m - 1] if m <= longest else cut + moment[m - longest]
        moment[m] = np.logaddexp.reduce(np.append(terms, again[min(m, longest) - 1] + rest))
    return max(0.0, float(moment[cap])) * (1 + 1e-13) + cap * 1e-14


def _log_face(lam: float, m: int, weight: FloatArray, beyond: float) -> float:
    """The logarithm of E[e^{λm²/s}]; m gaps take at least m steps."""
    exponent = lam * m * m / np.arange(m, weight.size + 1)
    weight = weight[m - 1 :]
    large = int(np.searchsorted(-exponent, -_MOST))
    total = float(np.exp(exponent[large:]) @ weight[large:]) if large < exponent.size else 0.0
    with np.errstate(divide="ignore"):
        found = np.log(total + beyond * math.exp(min(exponent[-1], _MOST)))
    if large:
        # A chance that a double cannot hold is raised to one that it can.
        found = np.logaddexp.reduce(
            np.append(np.log(np.maximum(weight[:large], _LEAST)) + exponent[:large], found)
        )
    return float(found)


def _log_runs_evenly(lam: float, first: Gap, gap: Gap, longest: int) -> FloatArray:
    """Every shift is given evenly to all the noises that it meets."""
    horizon = first.chance.size
    once = np.exp(lam / np.arange(1, horizon + 1))
    twice = once * once
    factor, scale = once.copy(), 0.0
    weight, beyond = first.chance * factor, first.beyond * float(factor[-1])
    found = np.empty(longest)
    for j in range(1, longest + 1):
        if j > 1:
            weight, left = gap.onward(weight)
            # The j-th distance is at least j: what lies before has no weight.
            factor[j - 1 :] *= twice[j - 1 :]
            weight[: j - 1] = 0.0
            weight[j - 1 :] *= factor[j - 1 :]
            beyond = (beyond + left) * float(factor[-1])
        total = float(weight.sum()) + beyond
        found[j - 1] = scale + math.log(total)
        if total > 1e50:
            weight, beyond, scale = weight / total, beyond / total, scale + math.log(total)
    return _charged(found, horizon)


def _charged(found: FloatArray, horizon: int) -> FloatArray:
    """Allow for rounding: each gap of a run is a sum over the horizon."""
    return np.asarray(found + _ROUNDING * (6 * horizon + 64) * np.arange(2, found.size + 2))
