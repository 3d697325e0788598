"""Check-in without a shuffler: the server sees only the noisy sum of the people who are in.

In each round everyone joins with probability ``rate``; those in clip a vector to norm C and add
N(0, s²C²·I), and a secure aggregation shows the server the sum of the k noisy vectors, and k.
Given k, the crowd is a uniform k-subset and the noise of the sum has variance k·s²·C². Replacing
one person's vector moves the sum by at most 2C, and only if that person is in: with q = k/n and δ_G
the curve of a Gaussian shift by 2/(s√k),

    δ_k(ε) = q·δ_G(ln(1 + (e^ε − 1)/q)),   ε ≥ 0,

which is attained (all others at one end, the victim at either). The curve of a round is its mean
over k ~ Bin(n, rate), with k = 0 included, where nothing is seen. Rounds compose as losses, and
may be adaptive. Proofs: ``docs/theory/distributed_check_in.md``.

Invariant: no k is dropped. Far from its mean, k is taken in blocks: the noise of the smallest and
the share q of the largest k of a block, weighed with a Chernoff bound.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter, NumericalFloor
from incrowd.privacy import Bracket, ComposedProfile, LossDistribution, connect_the_dots
from incrowd.privacy.guarantee import Guarantee, Profile
from incrowd.privacy.search import crossing
from incrowd.protocols.api import Cost
from incrowd.randomizers.noise import REAL_NOISE, gaussian_deltas
from incrowd.randomness import Seeds
from incrowd.tasks.learning.channels import check_clip
from incrowd.tasks.learning.gradients import clipped
from incrowd.views import view_of

FloatArray = NDArray[np.float64]

_THEOREM = "sum of a random crowd (docs/theory/distributed_check_in.md)"
_ASSUMPTIONS = (
    "secure aggregation shows the server each round's sum and number of people, and nothing else",
    "everyone in a round clips and adds their own share of the noise honestly",
    "everyone joins each round by a coin of their own, whatever the data",
    REAL_NOISE,
)
_AMPLIFIED_VIEW = frozenset({"curator"})

_RARE = 45.0
"""Crowds that Bernstein's inequality puts below e^−45 are taken in growing blocks."""
_BLOCKS = 1500
_GROWTH = 10
_LEAST = 1e-290
_LEAST_NOISE = 1e-3
_SLIP = 1e-9
"""Relative allowance for rounding in binomial chances: up to 10^12 people it is below half."""
_MOST_PEOPLE = 10**12
_ULPS = 2.0**-48
_CELLS = 1 << 20
_CHUNK = 256
_NEGLIGIBLE = 1e-15
_MOST_POINTS = 20_000
_FOLLOWED = 30
_GREATEST = 700.0
_MOST_CONVOLVED = 1 << 24
"""Points of a composed grid: some seconds, and less than a gigabyte."""
_LOST = 0.5

_Kernel = Callable[[FloatArray, FloatArray, FloatArray, bool], FloatArray]


@dataclass(frozen=True, eq=False)
class Crowds:
    """All possible numbers of people in a round, in blocks from ``fewest`` to ``most``.

    ``chance`` is the log of an upper bound of each block's probability; only blocks marked ``sure``
    are exact up to rounding, and may be counted on from below.
    """

    fewest: FloatArray
    most: FloatArray
    chance: FloatArray
    sure: NDArray[np.bool_]


def _people(n: int) -> int:
    if checks.crowd(n) > _MOST_PEOPLE:
        raise InvalidCrowd(f"n must be at most {_MOST_PEOPLE:,} people here, got {n}", field="n")
    return int(n)


@lru_cache(maxsize=16)
def crowds_of(n: int, rate: float) -> Crowds:
    """Return the blocks of K = 1 … n; the empty round tells nothing, and is left to the callers."""
    from scipy.special import rel_entr
    from scipy.stats import binom  # imported late: it takes longer than most answers

    n, rate = _people(n), checks.rate(rate)
    if rate == 1:
        everyone = np.array([float(n)])
        return Crowds(everyone, everyone, np.zeros(1), np.array([True]))
    mean = n * rate
    half = math.sqrt(2 * _RARE * mean * (1 - rate)) + _RARE
    low, high = max(1, math.floor(mean - half)), min(n, math.ceil(mean + half))
    width = math.ceil((high - low + 1) / _BLOCKS)
    starts = np.arange(low, high + 1, width)
    mass = np.add.reduceat(binom.pmf(np.arange(low, high + 1), n, rate), starts - low)
    below, above = _outwards(low, 1), _outwards(high + 1, n + 1)
    fewest = np.concatenate([below[:0:-1], starts, above[:-1]]).astype(np.float64)
    most = np.append(fewest[1:] - 1, n)
    # P(K ≤ k) ≤ exp(−n·KL(k/n ‖ rate)) below the mean, and P(K ≥ k) likewise above it.
    nearest = np.clip(mean, fewest, most) / n
    chance = -n * (rel_entr(nearest, rate) + rel_entr(1 - nearest, 1 - rate)) * (1 - _SLIP)
    sure = np.zeros(fewest.size, np.bool_)
    sure[below.size - 1 :][: starts.size] = mass > _LEAST
    chance[sure] = np.log(mass[mass > _LEAST]) + _SLIP
    return Crowds(fewest, most, chance, sure)


def _outwards(first: int, last: int) -> NDArray[np.int64]:
    edges = [first]
    while edges[-1] != last:
        step = max(1, edges[-1] // _GROWTH)
        edges.append(min(last, edges[-1] + step) if last > first else max(last, edges[-1] - step))
    return np.array(edges)


@dataclass(frozen=True)
class SummedProfile(Profile):
    """One round with ``n`` people, each in with probability ``rate``, noise ``sigma`` times C each.

    The curve is exact at ε ≥ 0 up to the blocks, and mirrored below: both directions are covered.
    ``lower`` and ``attained`` belong to the worst data set.
    """

    n: int
    rate: float
    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _people(self.n))
        object.__setattr__(self, "rate", checks.rate(self.rate))
        if not _LEAST_NOISE <= checks.number(self.sigma, "sigma") <= 1 / _LEAST_NOISE:
            raise InvalidParameter(
                f"sigma must lie between {_LEAST_NOISE:g} and {1 / _LEAST_NOISE:g}, "
                f"got {self.sigma!r}",
                field="sigma",
            )

    def delta(self, epsilon: float) -> float:
        return float(self.deltas(np.array([checks.number(epsilon, "epsilon")]))[0])

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """Return many points of the curve at once."""
        size = np.abs(epsilons)
        found = self._mean(_joined, size, up=True)
        mirrored = (-np.expm1(-size) + np.exp(-size) * found) * (1 + 2.0**-50)
        return np.minimum(np.where(epsilons < 0, mirrored, found), 1.0)

    def epsilon(self, delta: float) -> float:
        return crossing(self.delta, checks.delta(delta), self.deviation).within

    def lower(self, delta: float) -> float | None:
        attack = crossing(lambda at: self.forth(at).lower, checks.delta(delta), self.deviation)
        return attack.above

    def forth(self, epsilon: float) -> Bracket:
        """Bracket the curve from "all hold −u but the victim, who holds u" to "all hold −u"."""
        return self._attack(epsilon, _joined, _left)

    def back(self, epsilon: float) -> Bracket:
        """Bracket the curve of the opposite direction; it is the smaller one at ε > 0."""
        return self._attack(epsilon, _left, _joined)

    def _attack(self, epsilon: float, ahead: _Kernel, behind: _Kernel) -> Bracket:
        size = np.array([abs(epsilon)])
        kernel = ahead if epsilon >= 0 else behind
        low, high = (float(self._mean(kernel, size, up=up)[0]) for up in (False, True))
        if epsilon >= 0:
            return Bracket(low, high)
        certain, t, slip = -math.expm1(epsilon), math.exp(epsilon), 2.0**-50
        return Bracket((certain + t * low) * (1 - slip), (certain + t * high) * (1 + slip))

    def _mean(self, kernel: _Kernel, epsilons: FloatArray, *, up: bool) -> FloatArray:
        # A curve grows with the share q and falls with the noise, so a block's ends enclose it.
        crowds = crowds_of(self.n, self.rate)
        kept = slice(None) if up else crowds.sure
        share, noisy = (crowds.most, crowds.fewest) if up else (crowds.fewest, crowds.most)
        share, sigma = share[kept] / self.n, self.sigma / 2 * np.sqrt(noisy[kept])
        weight = np.exp(crowds.chance[kept] - (0.0 if up else 3 * _SLIP))
        height = max(1, _CELLS // share.size)
        parts = (epsilons[at : at + height, None] for at in range(0, epsilons.size, height))
        return np.concatenate([kernel(part, share, sigma, up) @ weight for part in parts])

    @cached_property
    def deviation(self) -> float:
        """Scale of one round's privacy loss: q·2/(s√k), with the shift taken as at most 1."""
        crowds = crowds_of(self.n, self.rate)
        shift = np.minimum(2 / (self.sigma * np.sqrt(crowds.fewest)), 1.0)
        return math.sqrt(float(np.exp(crowds.chance) @ (crowds.most / self.n * shift) ** 2))

    @cached_property
    def interval(self) -> float:
        """Share of the deviation, unless the tail of the losses is too long for such a grid."""
        return max(self.deviation / 40, self.reach / _MOST_POINTS)

    @cached_property
    def reach(self) -> float:
        """Loss beyond which the curve is negligible."""
        return crossing(self.delta, _NEGLIGIBLE, 8 * self.deviation, tolerance=0.1).within

    def losses(self, interval: float) -> LossDistribution:
        return _dominating(self, interval)

    def attained(self) -> Sequence[LossDistribution]:
        return _attained(self)


@lru_cache(maxsize=8)
def _dominating(profile: SummedProfile, interval: float) -> LossDistribution:
    @cache
    def chunk(number: int) -> FloatArray:
        return profile.deltas(interval * (number * _CHUNK + np.arange(_CHUNK, dtype=np.float64)))

    def curve(epsilon: float) -> float:
        number, place = divmod(round(epsilon / interval), _CHUNK)
        return float(chunk(number)[place])

    found = connect_the_dots(curve, interval)
    if found.infinite > _LOST:
        raise NumericalFloor(
            f"with n = {profile.n}, rate = {profile.rate:g} and sigma = {profile.sigma:g} a round "
            "gives away more than can be composed: raise sigma"
        )
    return found


class _Rounds(ComposedProfile):
    """Rounds of sums whose composed grid, if it is too large for the memory, is refused."""

    @cached_property
    def distribution(self) -> Any:
        from dp_accounting.pld import common

        for part, rounds in self.parts:
            mass = part.losses(self.interval).mass
            first, last = common.compute_self_convolve_bounds(mass, rounds, _NEGLIGIBLE)
            if last - first > _MOST_CONVOLVED:
                raise NumericalFloor(
                    f"the losses of {rounds} rounds need a grid of {last - first:,} points, more "
                    f"than {_MOST_CONVOLVED:,}: raise sigma or lower the rounds"
                )
        return super().distribution


@lru_cache(maxsize=8)
def _attained(profile: SummedProfile) -> tuple[LossDistribution, ...]:
    from incrowd.privacy.attained import dots_below

    # Where few people are in, rare losses are far larger than the deviation: follow those too.
    scale = max(profile.deviation, profile.reach / _FOLLOWED)
    return tuple(dots_below(curve, scale, math.inf) for curve in (profile.forth, profile.back))


def _joined(epsilon: FloatArray, share: FloatArray, sigma: FloatArray, up: bool) -> FloatArray:
    """From q·P + (1 − q)·Q to Q, with P and Q one unit apart: q·δ_G(ln(1 + (e^ε − 1)/q))."""
    inner = epsilon + np.log1p((1 - share) / share * -np.expm1(-epsilon))
    inner = inner * (1 - _ULPS if up else 1 + _ULPS)
    found: FloatArray = share * gaussian_deltas(inner, sigma)[int(up)]
    return found * (1 + _ULPS if up else 1 - _ULPS)


def _left(epsilon: FloatArray, share: FloatArray, sigma: FloatArray, up: bool) -> FloatArray:
    """From Q to q·P + (1 − q)·Q: r·δ_G(ln(q·e^ε/r)) with r = 1 − (1 − q)·e^ε, if positive."""
    grown = np.expm1(np.minimum(epsilon, _GREATEST)) * (1 - share)
    rest = np.maximum(share - grown + (1 if up else -1) * _ULPS * (share + grown), 0.0)
    inner = epsilon + np.log(share) - np.log(np.maximum(rest, sys.float_info.min))
    inner = np.maximum(inner * (1 - _ULPS if up else 1 + _ULPS), 0.0)
    found: FloatArray = rest * gaussian_deltas(inner, sigma)[int(up)]
    return found


@dataclass(frozen=True)
class DistributedCheckIn:
    """``rounds`` noisy sums of clipped vectors, each of a random crowd: accounted and simulated.

    There is no live form: a secure aggregation would have to be trusted or built.
    """

    n: int
    rate: float
    rounds: int
    sigma: float
    """Standard deviation of each person's noise, as a multiple of ``clip``."""
    clip: float = 1.0

    def __post_init__(self) -> None:
        one = SummedProfile(self.n, self.rate, self.sigma)
        rounds, clip = checks.integer(self.rounds, "rounds", 1), check_clip(self.clip)
        for name, value in (("n", one.n), ("rate", one.rate), ("rounds", rounds), ("clip", clip)):
            object.__setattr__(self, name, value)

    def guarantee(self, view: str | Iterable[str] = "curator", colluders: int = 0) -> Guarantee:
        """Return the guarantee, amplified against the curator; other views see a crowd of one.

        A colluder knows and subtracts their own vector and noise.
        """
        parties, colluders = view_of(view), checks.integer(colluders, "colluders", 0)
        if colluders >= self.n:
            raise InvalidCrowd(
                f"colluders must leave someone of n = {self.n} people, got {colluders}"
            )
        summed = parties == _AMPLIFIED_VIEW
        crowd = self.n - colluders if summed else 1
        told = f"{colluders} colluding people reveal their own vectors and noise, leaving {crowd}"
        return Guarantee(
            profile=_Rounds(((SummedProfile(crowd, self.rate, self.sigma), self.rounds),)),
            view=parties,
            theorem=_THEOREM,
            assumptions=(*_ASSUMPTIONS[0 if summed else 1 :], *((told,) if colluders else ())),
            colluders=colluders,
        )

    def cost(self, dimension: int) -> Cost:
        """Price one vector of doubles per round joined; the error is that of one round."""
        messages = self.rate * self.rounds
        return Cost(
            rounds=self.rounds,
            messages_per_person=messages,
            bytes_per_person=messages * 8 * checks.integer(dimension, "dimension", 1),
            expected_error=self.sigma * self.clip / math.sqrt(self.n * self.rate),
        )

    def simulate(self, vectors: NDArray[np.floating[Any]], seed: int | None = None) -> FloatArray:
        """Return each round's mean of the rows of ``vectors``; NaN for an empty round."""
        rows = np.asarray(vectors, np.float64)
        if rows.ndim != 2 or rows.shape[0] != self.n or not np.isfinite(rows).all():
            raise InvalidParameter(
                f"vectors must be finite numbers, one row for each of n = {self.n} people, "
                f"got shape {rows.shape}"
            )
        shortened = clipped(rows, self.clip)
        seeds, means = Seeds(seed), np.full((self.rounds, rows.shape[1]), np.nan)
        for number in range(self.rounds):
            joins = seeds.generator("coin", number).random(self.n) < self.rate
            k = int(np.count_nonzero(joins))
            if k:
                noise = seeds.generator("device", number).standard_normal(rows.shape[1])
                total = joins.astype(np.float64) @ shortened
                means[number] = (total + math.sqrt(k) * self.sigma * self.clip * noise) / k
        return means
