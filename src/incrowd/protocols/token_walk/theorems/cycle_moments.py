"""Moments of W = Σ k²/m over the cycles of a walk: its unevenness in mixing the victim.

Between two visits of the observer (or of a coalition of c people) lies a cycle of m steps by
others, k of them by the victim. Its sum hides the victim's k equal values behind m noises, so that
the squared shift of the observer's whole view is proportional to W. Cycles are independent, m is
geometric, and k given m is binomial with q = 1/(n − c). With f(m) = E e^(λk²/m),

    E e^(λW) = [z^T] of  Σ_t (s·z)^t  /  (1 − Σ_m v·s^m·f(m)·z^(m + 1)),    v = c/n = 1 − s;

if the last, unfinished cycle is seen as well, the numerator has f(t) as a factor.
:class:`CycleMoments` bounds the logarithm from above (``docs/theory/token_walk.md``):

* short walks: by the recursion itself, a sum of positive terms;
* any walk: with ρ where the sum in the denominator is one, it is at most ρ^(−T) times a factor
  that is near one. f is bounded on stretches of m, as k grows with m and k²/m falls, so that
  neither n nor T matters for the effort; for very long cycles by f(m + m') ≤ f(m)·f(m').

Invariant: every f is rounded up, every truncated sum has a bound of its rest added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from incrowd.randomizers.base import FloatArray

_SHORT = 2500  # walks of at most this many steps are followed one by one
_SINGLE, _GROWTH = 64, 1.01
_CYCLES = 45  # cycles are followed for this many times their mean length
_FEWEST_VISITS, _CELLS = 80, 4000
_ROUND = 1e-6  # Binomial coefficients come from logarithms of factorials of numbers up to 10⁹
_SLIP = 1e-11  # sums and products of some thousand positive terms are rounded by less
_LARGEST = 1 - 1e-6


@dataclass(frozen=True)
class CycleMoments:
    """Moments of W for ``steps`` steps among n people, ``together`` of them observers."""

    n: int
    together: int
    steps: int
    published: bool = False

    def log_moment(self, rate: float) -> float:
        """Return an upper bound of ln E e^(λW); infinite where none is found."""
        return _log_moment(self, rate)

    @property
    def _visited(self) -> float:
        return self.together / self.n

    @property
    def _share(self) -> float:
        """The chance that a step which is not an observer's is the victim's."""
        return 1 / (self.n - self.together)

    @cached_property
    def stretches(self) -> tuple[FloatArray, FloatArray]:
        """First and last m of each stretch; none is longer than the walk."""
        last = min(self.steps, _CYCLES * self._mean)
        single = last if self.steps <= _SHORT else min(last, _SINGLE)
        wide = [single + 1]
        while wide[-1] <= last:
            wide.append(max(wide[-1] + 1, math.floor(wide[-1] * _GROWTH)))
        wide[-1] = last + 1
        first = np.concatenate([np.arange(single + 1), wide[:-1]]).astype(np.float64)
        return first, np.append(first[1:] - 1, float(last))

    @property
    def _mean(self) -> int:
        return math.ceil(1 / self._visited)

    @cached_property
    def _most(self) -> FloatArray:
        """For each stretch, the most visits in a cycle that are added up one by one."""
        last = self.stretches[1]
        return np.minimum(last, np.ceil(_FEWEST_VISITS + 6 * last * self._share))

    @cached_property
    def _chances(self) -> tuple[FloatArray, FloatArray]:
        """Numbers k ≥ 1 of visits, and the logarithms of Bin(last, q) there: a row per stretch."""
        from scipy.special import gammaln

        last, most = self.stretches[1][:, None], self._most[:, None]
        k = np.arange(1, max(int(most.max()), 1) + 1, dtype=np.float64)
        inside = np.minimum(k, last)
        # With q = 1 the victim is alone: then the other steps have next to no chance, and none.
        others = (last - inside) * math.log1p(-min(self._share, 1 - 1e-16))
        log = gammaln(last + 1) - gammaln(inside + 1) - gammaln(last - inside + 1) + others
        return k, np.where(k <= most, log + inside * math.log(self._share), -np.inf)

    def excesses(self, rate: float) -> FloatArray:
        """Return f(m) − 1 from above, for all m of each stretch."""
        first, last = self.stretches
        k, log = self._chances
        power = rate * k**2 / np.maximum(first, 1.0)[:, None]
        # e^x − 1 as e^x·(1 − e^(−x)): where the chance is small, e^x need not be a double.
        found: FloatArray = (np.exp(log + power) * -np.expm1(-power)).sum(axis=1)
        found[1:] += self._rest(rate, last[1:], self._most[1:])
        return found * (1 + _ROUND)

    def _rest(self, rate: float, last: FloatArray, most: FloatArray) -> FloatArray:
        """Terms with more visits than were added up: m·e^(m·sup(λx² − KL(x‖q))) over x > K/m."""
        q, rise = self._share, rate * _GROWTH
        x = np.geomspace(min(q, 0.5) * 1e-3, 1.0, _CELLS)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = x * np.log(x / q) + np.where(x < 1, (1 - x) * np.log((1 - x) / (1 - q)), 0.0)
        # Between two points x is at most the right one, and the divergence at least the left one's.
        cell = rise * x[1:] ** 2 - np.where(x[:-1] > q, far[:-1], 0.0)
        highest = np.maximum.accumulate(cell[::-1])[::-1]
        place = np.clip(np.searchsorted(x, most / last, side="right") - 1, 0, _CELLS - 2)
        log = np.where(most < last, np.log(last) + last * highest[place], -np.inf)
        return np.asarray(np.exp(log))

    def _renewed(self, excess: FloatArray, extended: bool) -> float:
        """ρ^(−T) times the overshoot.

        Cycles longer than all stretches cost more if f is ``extended``, that is taken to be at
        least what it is in the last stretch, and else bound the overshoot less well.
        """
        y = self._root(excess, extended)
        if not y < 1:
            return math.inf
        return -self.steps * math.log1p(-y) + math.log(self._overshoot(excess, y, extended))

    def _root(self, excess: FloatArray, extended: bool = False) -> float:
        """The least y = 1 − ρ, rounded up, with Σ v·s^m·f(m)·ρ^(m + 1) ≤ 1; infinite if none.

        In y it reads A(y) ≤ y with A(y) = v·ρ·Σ (f − 1)·((sρ)^first − (sρ)^(last + 1)), which
        falls with y.
        """
        first, last = self.stretches
        v, tail = self._visited, self._tail(excess)

        def above(y: float) -> bool:
            stay = math.log1p(-v) + math.log1p(-y)
            weight = np.exp(first * stay) * -np.expm1((last + 1 - first) * stay)
            rest = float(excess[-1]) * math.exp((last[-1] + 1) * stay) if extended else 0.0
            found = v * (1 - y) * (float(excess @ weight) + rest) + (v + y) * tail
            return not found * (1 + _ROUND) <= y

        low, high = 0.0, v * 1e-12
        while above(high):
            if high == _LARGEST:
                return math.inf
            low, high = high, min(2 * high, _LARGEST)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if above(middle) else (low, middle)
        return high

    def _tail(self, excess: FloatArray) -> float:
        """v·Σ of s^m·f(m) beyond the last stretch: f(jM + r) ≤ f(M)^j·f(r)."""
        last = self.stretches[1]
        if last[-1] >= self.steps:
            return 0.0
        inside = int(np.searchsorted(last, self._mean))
        ratio = math.exp(self._mean * math.log1p(-self._visited)) * (1 + float(excess[inside]))
        if ratio >= 1:
            return math.inf
        largest = 1 + float(excess[: inside + 1].max())
        return math.exp(_CYCLES * math.log(ratio)) / (1 - ratio) * largest

    def _overshoot(self, excess: FloatArray, y: float, extended: bool = False) -> float:
        """The most by which the unfinished cycle at the end raises ρ^(−T).

        It is sup_a N(a)/D(a) with D(a) = Σ_i v·ρ·(sρ)^i·f(a + i), and N(a) = 1 or f(a). Within a
        stretch D lies between f times the geometric sum and its value after the stretch. A last
        cycle that is longer than all stretches is added with all its chance.
        """
        first, last = self.stretches
        v, f = self._visited, 1 + excess
        stay = math.log1p(-v) + math.log1p(-y)
        whole = v * (1 - y) / -math.expm1(stay)
        left = np.exp((last + 1 - first) * stay)
        after, worst = (float(f[-1]) if extended else 1.0) * whole, 0.0
        for each, kept in zip(f[::-1].tolist(), left[::-1].tolist(), strict=True):
            before = each * whole * (1 - kept) + kept * after
            worst = max(worst, (each if self.published else 1.0) / min(before, after, each * whole))
            after = before
        longer = self._tail(excess) / v if self.published else 0.0
        return worst * (1 + _SLIP) + longer

    def _followed(self, excess: FloatArray) -> float:
        """The recursion H_t = N_t + Σ_m v·s^m·f(m)·H_{t − 1 − m}, each H_t times ρ^t."""
        v, y, mean = self._visited, self._root(excess), self._mean
        m = np.arange(self.steps + 1)
        f = np.ones(m.size)
        f[: excess.size] += excess
        for start in range(excess.size, m.size, mean):
            part = slice(start, min(start + mean, m.size))
            with np.errstate(over="ignore"):
                f[part] = f[mean] * f[start - mean : part.stop - mean]
        if not (np.isfinite(f).all() and y < 1):
            return math.inf
        stayed = np.exp(m * (math.log1p(-v) + math.log1p(-y)))
        cycle = (v * (1 - y) * stayed * f)[::-1]
        ends = stayed * (f if self.published else 1.0)
        height = np.zeros(m.size)
        for t in range(m.size):
            height[t] = ends[t] + float(cycle[m.size - t :] @ height[:t])
        return math.log(float(height[-1])) - self.steps * math.log1p(-y)


@lru_cache(maxsize=4096)
def _log_moment(moments: CycleMoments, rate: float) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        # If f is beyond the doubles, no root is found.
        excess = moments.excesses(rate)
        found = min(moments._renewed(excess, extended) for extended in (False, True))
    if moments.steps <= _SHORT and math.isfinite(found):
        found = min(found, moments._followed(excess))
    return max(found, 0.0) * (1 + _SLIP) + _SLIP
