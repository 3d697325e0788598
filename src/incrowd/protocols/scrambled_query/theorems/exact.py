"""The exact privacy of one scrambler: messages of ``sources`` people among ``dummies`` others.

Redirected messages and dummies are uniform over the T targets. If m of the others' messages are
redirected, the victim's hides among N = m + d + 1, and with A and B the counts of two targets among
N uniform messages

    δ(ε) ≤ Σ_m Pr[m]·(1 − σ)·(T/N)·E[(A − e^ε·B − h_N)₊],   h_N = N·σ(e^ε − 1)/((1 − σ)T),

which is the blanket bound, and is exact for σ = 0. A + B is binomial, and A given A + B is a fair
coin's, so that the mean is a double sum of positive terms (:mod:`.kernels`). Terms that are left
out are charged to δ, as is all rounding. Proof: ``docs/theory/scrambler.md``.

The attack has all others at one target that is neither of the two, and looks at these two alone;
its δ is a single sum. With two targets all others are at the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from incrowd import checks
from incrowd.errors import NumericalFloor
from incrowd.privacy.fourier import Bracket
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.search import crossing
from incrowd.protocols.scrambled_query.theorems.occupancy import crowds, likely, span
from incrowd.randomizers import Redirect

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution

FloatArray = NDArray[np.float64]

_UNIT = 2.0**-53
_EXPONENTS = (36.0, 60.0, 100.0, 180.0, 360.0, 680.0)
"""Sums leave out e^−36, or less where that would be seen in δ."""
_UNSEEN = 1e-8
_LEAST = 1e-290
_FLOOR = 1e-280
_GREATEST = 600.0
"""Beyond this ε, whose exponential a double still holds with room, curves are taken as flat."""
_TOLERANCE = 2e-9
_FINE, _COARSE = 3e-7, 2e-5
"""Addition to ε by putting crowds together: of one curve, and of curves that are composed."""
_PER_DEVIATION = 40
_WIDEST = 0.004
_NEGLIGIBLE = 1e-15


@dataclass(frozen=True)
class ScramblerProfile(Profile):
    """One round of a scrambler that adds uniform dummies, against an observer of its traffic.

    ``sampling`` is the chance that a source sends to a target drawn from all ``targets``.
    """

    targets: int
    sampling: float
    sources: int
    dummies: int

    def __post_init__(self) -> None:
        Redirect(targets=self.targets, redirect_probability=self.sampling)
        checks.crowd(self.sources, "sources")
        checks.integer(self.dummies, "dummies", 0)

    def delta(self, epsilon: float) -> float:
        if checks.number(epsilon, "epsilon") < 0:
            return mirrored(self.delta(-epsilon), epsilon)
        if epsilon >= self.greatest_loss:
            return 0.0
        return float(self._deltas(np.array([epsilon]), _FINE)[0])

    def epsilon(self, delta: float) -> float:
        """The least ε of the bound at this δ, rounded up; infinite below :attr:`floor`."""
        check_floor(delta)
        if math.isinf(self.greatest_loss) and self.delta(_GREATEST) > delta:
            return math.inf
        if not self.greatest_loss:
            return 0.0
        guess, ceiling = self._guess(delta), self.greatest_loss
        return crossing(self.delta, delta, guess, ceiling, tolerance=_TOLERANCE).within

    def lower(self, delta: float) -> float | None:
        """The ε of the attack at this δ, rounded down; infinite where some message is bare."""
        if checks.delta(delta) < _FLOOR or not self.greatest_loss:
            return None
        if math.isinf(self.greatest_loss) and self.floor * (1 - 1e-9) > delta:
            return math.inf
        guess, ceiling = self._guess(delta), min(self.greatest_loss, _GREATEST)

        def attained(attack: Callable[[float], Bracket]) -> float:
            return crossing(
                lambda epsilon: attack(epsilon).lower, delta, guess, ceiling, tolerance=_TOLERANCE
            ).above

        return max(map(attained, self._attacks(30.0 - math.log(delta))))

    def attained(self) -> Sequence[LossDistribution]:
        return _attained(self)

    @cached_property
    def greatest_loss(self) -> float:
        """ε0, that of a message seen alone: all messages may go to one target."""
        return Redirect(targets=self.targets, redirect_probability=self.sampling).epsilon

    @property
    def floor(self) -> float:
        """The least δ at any ε: without sampling, the chance that a target gets no dummy."""
        if self.greatest_loss < math.inf:
            return 0.0
        return math.exp(self.dummies * math.log1p(-1 / self.targets))

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of a small privacy loss."""
        hidden = (self.sources - 1) * self.sampling + self.dummies + 1
        return (1 - self.sampling) * math.sqrt(2 * self.targets / hidden)

    @property
    def interval(self) -> float:
        return min(self.deviation / _PER_DEVIATION, _WIDEST) if self.greatest_loss else 1.0

    def losses(self, interval: float) -> LossDistribution:
        return _losses(self, interval)

    def _guess(self, delta: float) -> float:
        return self.deviation * math.sqrt(2 * math.log(1 / delta))

    def _deltas(self, epsilons: FloatArray, precision: float) -> FloatArray:
        """The bound at increasing ε ≥ 0, all below ε0, rounded up."""
        from incrowd.protocols.scrambled_query.theorems.kernels import curve

        flat = np.minimum(epsilons, _GREATEST)
        t, growth = np.exp(flat), np.expm1(flat)
        done = np.ones(epsilons.size)
        open_ = np.arange(epsilons.size)
        for exponent in _EXPONENTS:
            sums = _sums(self, exponent, precision)
            found = np.zeros(open_.size)
            curve(t[open_], growth[open_], *sums.arrays, sums.odds, sums.share, found)
            found = found * (1 + sums.slack) + (sums.left_out + _LEAST)
            done[open_] = np.minimum(1.0, found)
            open_ = open_[found * _UNSEEN < sums.left_out]
            if not open_.size:
                break
        return done

    def _attacks(self, exponent: float) -> tuple[Callable[[float], Bracket], ...]:
        """The exact curves of the attacks, at any real ε."""
        if self.targets > 2:
            return (partial(_two_targets, self, exponent=exponent),)
        attack = partial(_one_target, self, exponent=exponent)
        return partial(attack, swapped=False), partial(attack, swapped=True)


def check_floor(delta: float) -> None:
    """Refuse a δ that is below the least that can be certified."""
    if checks.delta(delta) < _FLOOR:
        told = f"delta = {delta!r} is below {_FLOOR}, the least that can be certified"
        raise NumericalFloor(told, field="delta")


def mirrored(there: float, epsilon: float) -> float:
    """The curve at ε < 0 from its value at −ε, rounded up: H_t(P‖Q) = 1 − t + t·H_{1/t}(Q‖P)."""
    return min(1.0, (-math.expm1(epsilon) + math.exp(epsilon) * there) * (1 + 2.0**-50))


class _Sums(NamedTuple):
    """The range of the double sum, which does not depend on ε.

    The arrays are N, its weight Pr[m]·(1 − σ)T/N, the likely values of S from lowest to highest,
    and the chance of the lowest.
    """

    arrays: tuple[NDArray[np.int64], FloatArray, NDArray[np.int64], NDArray[np.int64], FloatArray]
    odds: float
    share: float
    slack: float
    left_out: float


@lru_cache(maxsize=64)
def _sums(profile: ScramblerProfile, exponent: float, precision: float) -> _Sums:
    targets, sampling = profile.targets, profile.sampling
    # A block of this width raises ε by less than the precision: δ falls about as e^(−N·ε²/…), so
    # that a crowd too small by w of N raises ε by the share w/(2N), and on average by half of it.
    hidden = (profile.sources - 1) * sampling + profile.dummies + 1
    usual = profile._guess(math.exp(-exponent / 2))
    width = max(1, math.floor(4 * precision * hidden / usual)) if usual else 1
    found = crowds(profile.sources - 1, sampling, exponent, width)
    people = found.least + profile.dummies + 1
    weight = found.chance * ((1 - sampling) * targets / people)
    both = 2 / targets
    spans = [span(each - 1, both, exponent) for each in people.tolist()]
    lowest = np.array([low + (targets == 2) for low, _ in spans], np.int64)
    highest = np.minimum(np.array([high for _, high in spans], np.int64) + 1, people)
    lowest = np.minimum.accumulate(lowest[::-1])[::-1]
    highest = np.maximum.accumulate(highest)
    log_start = gammaln(people + 1.0) - gammaln(lowest + 1.0) - gammaln(people - lowest + 1.0)
    log_start += xlogy(lowest, both) + xlog1py(people - lowest, -both)
    start = np.ones(people.size) if targets == 2 else np.exp(log_start)
    most, steps = float(people[-1]), float((highest - lowest).max()) + 64
    # Outside the likely S a gain is at most A, and E[S; S = s] is N·2/T·Pr[1 + Bin(N − 1) = s].
    unlikely = found.missing + 2.0 * math.exp(-exponent) * float(found.chance.sum())
    return _Sums(
        arrays=(people, weight, lowest, highest, start),
        odds=both / (1 - both) if targets > 2 else 0.0,
        share=sampling / ((1 - sampling) * targets),
        slack=8 * _UNIT * (4 * most * math.log(most + 2) + 4 * steps + 100),
        left_out=(1 - sampling) * unlikely * (1 + 2.0**-40),
    )


@lru_cache(maxsize=8)
def _losses(profile: ScramblerProfile, interval: float) -> LossDistribution:
    from incrowd.privacy.composition import MOST_POINTS, joined

    last = math.ceil(_reach(profile) / interval)
    if last > MOST_POINTS // 2:
        raise NumericalFloor(
            f"a privacy curve needs more than {MOST_POINTS:,} grid points of {interval:.1e}: "
            "compose profiles of more similar size"
        )
    epsilons: FloatArray = interval * np.arange(last + 1, dtype=np.float64)
    height = np.zeros(last + 1)
    below = epsilons < profile.greatest_loss
    if below.any():
        height[below] = profile._deltas(epsilons[below], _COARSE)
    pairs = zip(height[:0:-1].tolist(), epsilons[:0:-1].tolist(), strict=True)
    below_zero = [mirrored(there, -epsilon) for there, epsilon in pairs]
    return joined(interval, -last, np.concatenate([below_zero, height]))


def _reach(profile: ScramblerProfile) -> float:
    """An ε beyond which the curve is zero, or negligibly above its floor."""
    if not profile.greatest_loss:
        return 0.0
    if math.isfinite(profile.greatest_loss):
        return profile.epsilon(_NEGLIGIBLE)
    floor = profile.delta(_GREATEST)
    # Without sampling, N + 1 targets' worth of odds tell all that there is to tell.
    ceiling = math.log(profile.dummies + 2.0)
    return crossing(
        lambda epsilon: max(profile.delta(epsilon) - floor * (1 + 2.0**-30), 0.0),
        _NEGLIGIBLE,
        min(profile._guess(_NEGLIGIBLE), ceiling / 2),
        ceiling,
        tolerance=1e-3,
    ).within


@lru_cache(maxsize=8)
def _background(
    profile: ScramblerProfile, of_others: float, of_dummies: float, exponent: float
) -> tuple[int, FloatArray, float]:
    """The law of the number of messages at some targets, without the victim's.

    Each other is there with the one chance, each dummy with the other. Returns the first likely
    number, the chances from there on, and a bound on their relative error, which is upwards.
    """
    first, others, error = likely(profile.sources - 1, of_others, exponent)
    second, dummies, more = likely(profile.dummies, of_dummies, exponent)
    summed = np.convolve(others, dummies)
    slack = error + more + 8 * math.exp(-exponent) + 4 * _UNIT * min(others.size, dummies.size)
    return first + second, summed, slack


def _two_targets(profile: ScramblerProfile, epsilon: float, exponent: float) -> Bracket:
    """All others are at a third target: δ of the counts A and B at the victim's two.

    Given S = A + B the likelihoods are those of a fair coin times (2/S)·Pr[S − 1]·(pA + rB) +
    (1 − p − r)·Pr[S], where Pr is the law of S without the victim.
    """
    from incrowd.protocols.scrambled_query.theorems.kernels import attacks

    if epsilon < 0:
        there = _two_targets(profile, -epsilon, exponent)
        certain, scaled = -math.expm1(epsilon), there.scaled(math.exp(epsilon))
        return Bracket(max(0.0, certain + scaled.lower), mirrored(there.upper, epsilon))
    other = profile.sampling / profile.targets
    true = 1 - profile.sampling + other
    t, growth = math.exp(min(epsilon, _GREATEST)), math.expm1(min(epsilon, _GREATEST))
    begin, chance, slack = _background(profile, 2 * other, 2 / profile.targets, exponent)
    alpha, beta = true - t * other, t * true - other
    if alpha <= 0:
        return Bracket(0.0, 4 * _UNIT)
    seen = np.arange(begin + 1, begin + chance.size + 1, dtype=np.float64)
    here = np.append(chance[1:], 0.0)
    lost = growth * (1 - true - other) * here * seen / (2 * chance)
    # How A and B share S errs alike for both laws: that is a factor, and no doubt about a gain.
    doubt = 2 * slack + 64 * _UNIT * (1 + t * other / alpha)
    slack += 64 * _UNIT * float(seen[-1]) * math.log(seen[-1] + 2)
    below, above = attacks(begin + 1, 2 * chance / seen, lost, alpha, beta, doubt)
    # Where a count is not likely the second law may have more than is counted here, or the first.
    unlikely = 4 * math.exp(-exponent)
    lower = max(0.0, below * (1 - 4 * slack) - (1 + t) * unlikely)
    return Bracket(lower, above * (1 + 4 * slack) + unlikely)


def _one_target(
    profile: ScramblerProfile, epsilon: float, exponent: float, swapped: bool
) -> Bracket:
    """With two targets, and all others at the second: δ of the count at the first."""
    other = profile.sampling / 2
    _, chance, slack = _background(profile, other, 0.5, exponent)
    without, beside = np.append(chance, 0.0), np.append(0.0, chance)
    here = (1 - other) * beside + other * without
    there = other * beside + (1 - other) * without
    if swapped:
        here, there = there, here
    t = math.exp(min(epsilon, _GREATEST))
    taken = here > t * there
    total = float((here - t * there)[taken].sum())
    doubt = (slack + 32 * _UNIT) * float((here + t * there)[taken].sum())
    unlikely = 4 * math.exp(-exponent)
    lower = max(0.0, total - doubt - (1 + t) * unlikely)
    return Bracket(lower, total + 2 * doubt + unlikely + 32 * _UNIT * t)


@lru_cache(maxsize=8)
def _attained(profile: ScramblerProfile) -> tuple[LossDistribution, ...]:
    from incrowd.privacy.attained import dots_below

    if not profile.greatest_loss:
        return ()
    return tuple(
        dots_below(attack, profile.deviation, profile.greatest_loss)
        for attack in profile._attacks(_EXPONENTS[1])
    )
