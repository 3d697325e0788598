"""The curve of a mechanism that is used on a hidden random sample, where one record is replaced.

With probability η ("rate") the victim is the one whose record is used, and else it is somebody
else's, whose law is no farther from either of the victim's than the two are from each other. Then
for ε ≥ 0, in both directions,

    δ(ε) = η·δ₀(ln(1 + (e^ε − 1)/η)),      and δ(−ε) = 1 − e^(−ε) + e^(−ε)·δ(ε),

where δ₀ is the curve without sampling. It is attained by somebody else whose law is that of one of
the victim's two values. See ``docs/theory/token_walk.md``.

:class:`RevealedProfile` is the same where it is seen whose record was used: δ(ε) = η·δ₀(ε).

Invariant: ε is mapped outwards with its rounding on the safe side; a tiny rate loses no digits, as
all is done in e^ε − 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.privacy.composition import LossDistribution
from incrowd.privacy.guarantee import Profile

FloatArray = NDArray[np.float64]

_ROUND = 2.0**-48
_PER_DEVIATION = 40
_WIDEST = 1 / 32
_FARTHEST = 600.0
"""The largest unsampled ε that is looked at: its exponential is a double, with some room."""
_NEGLIGIBLE = 1e-60
_LINEAR = 30.0
_CELLS = 8192


class DottedProfile(Profile):
    """A curve of one use at some rate, known above at dots that suit it.

    It is two-sided: at −ε it is 1 − e^(−ε) + e^(−ε) times what it is at ε.
    """

    one: Profile
    rate: float

    @property
    def weight(self) -> float:
        """What the heights of the curve of ``one`` are multiplied by."""
        return self.rate

    @abstractmethod
    def excess(self, unsampled: FloatArray) -> FloatArray:
        """e^ε − 1 where the curve is ``rate`` times that of ``one`` at each unsampled ε."""

    def dots(self) -> tuple[FloatArray, FloatArray]:
        """Values of e^ε − 1 ≥ 0, and bounds of δ from above at each of them.

        They lie closest where the unsampled curve has its mass, and end where it is negligible.
        """
        greatest = min(self.one.greatest_loss, _FARTHEST)
        step = min(self.one.interval, _WIDEST)
        last = 1
        while last * step < greatest and self.one.delta(last * step) > _NEGLIGIBLE:
            last *= 2
        x = np.minimum(step * np.arange(last + 1), greatest)
        x = x[: int(np.searchsorted(x, greatest)) + 1]
        height = np.array([self.one.delta(float(at)) for at in x])
        if x[-1] >= self.one.greatest_loss:
            height[-1] = 0.0
        kept = min(x.size, int(np.count_nonzero(height > _NEGLIGIBLE)) + 1)
        height = np.minimum(1.0, self.weight * height * (1 + _ROUND))[:kept]
        # The curve falls, so that a height holds at whatever lies slightly beyond its ε.
        return self.excess(x[:kept]) * (1 + _ROUND), height

    @cached_property
    def deviation(self) -> float:
        """The root mean square of the loss, from E ℓ² = ∫ 2(1 + x + (1 − x)·e^(−x))·δ(x) dx.

        It only chooses grids; nothing is proven with it.
        """
        excess, height = self.dots()
        loss = np.log1p(excess)
        weight = 2 * (1 + loss + (1 - loss) * np.exp(-loss)) * height
        return math.sqrt(float(np.trapezoid(weight, loss)))

    @property
    def interval(self) -> float:
        """A share of the loss's deviation, and of the greatest loss, so that it is on the grid."""
        wanted = self.deviation / _PER_DEVIATION
        if not math.isfinite(self.greatest_loss):
            return wanted
        return self.greatest_loss / math.ceil(self.greatest_loss / wanted)

    def _mirrored(self, epsilon: float) -> float:
        """The curve at ε < 0."""
        found = -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
        return min(1.0, found * (1 + _ROUND))


@dataclass(frozen=True)
class SampledProfile(DottedProfile):
    """The curve of ``one`` after sampling with probability ``rate``; any real ε.

    It is used with the chance ``used`` only, and whether it was is seen: that multiplies the curve.
    """

    one: Profile
    rate: float
    used: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no probability, and a rate of zero."""
        checks.rate(self.rate)
        checks.rate(self.used, "used")

    @property
    def weight(self) -> float:
        """How often the victim's record is used."""
        return self.rate * self.used

    def delta(self, epsilon: float) -> float:
        """The sampled curve, rounded up."""
        if checks.number(epsilon, "epsilon") < 0:
            return self._mirrored(epsilon)
        if epsilon >= self.greatest_loss:
            return 0.0
        return min(1.0, self.weight * self.one.delta(self._unsampled(epsilon)) * (1 + _ROUND))

    def epsilon(self, delta: float) -> float:
        """The ε at which the curve meets δ, rounded up."""
        share = checks.delta(delta) / self.weight * (1 - _ROUND)
        return 0.0 if share >= 1 else self.sampled_loss(self.one.epsilon(share)) * (1 + _ROUND)

    def lower(self, delta: float) -> float | None:
        """What is attained without sampling is attained with it, at the rate."""
        share = checks.delta(delta) / self.weight * (1 + _ROUND)
        if share >= 1:
            return None if self.one.lower(0.5) is None else 0.0
        found = self.one.lower(share)
        return None if found is None else self.sampled_loss(found) * (1 - _ROUND)

    def attained(self) -> Sequence[LossDistribution]:
        """The same attacks, where the others' law is that of the victim's second value.

        None are known of a mechanism that is not always used.
        """
        if self.used < 1:
            return ()
        return tuple(self._mixed(losses) for losses in self.one.attained())

    def _mixed(self, losses: LossDistribution) -> LossDistribution:
        """The pair (1 − η)·Q + η·P against Q, its losses rounded down to a grid."""
        from incrowd.privacy.attained import rounded_down

        seen = losses.mass > 0
        first = losses.mass[seen]
        loss = losses.interval * (losses.first + np.arange(losses.mass.size)[seen])
        second = first * np.exp(-loss)
        # Rounded down, losses leave the second law somewhat too heavy: all of it is kept below, and
        # only as much of it as is lawful above. What the first law lacks of it is one more outcome.
        whole = max(1.0, float(second.sum()))
        second = np.append(second, whole - float(second.sum()))
        above = (1 - self.rate) / whole + self.rate * np.append(np.exp(loss), 0.0)
        kept = above > 0
        found = np.log(above[kept])
        cell = float(np.abs(found).max()) / _CELLS
        return rounded_down(found, (above * second)[kept], cell, self.rate * losses.infinite)

    @cached_property
    def greatest_loss(self) -> float:
        """That of the unsampled curve, sampled."""
        return self.sampled_loss(self.one.greatest_loss) * (1 + _ROUND)

    def sampled_loss(self, loss: float) -> float:
        """ln(1 + η·(e^ε − 1)), for ε ≥ 0."""
        if loss > _LINEAR:
            return loss + math.log(self.rate + (1 - self.rate) * math.exp(-loss))
        return math.log1p(self.rate * math.expm1(loss))

    def _unsampled(self, epsilon: float) -> float:
        """Its inverse, rounded down."""
        if epsilon > _LINEAR:
            grown = epsilon + math.log1p(-(1 - self.rate) * math.exp(-epsilon))
            return (grown - math.log(self.rate)) * (1 - _ROUND)
        return math.log1p(math.expm1(epsilon) / self.rate) * (1 - _ROUND)

    def excess(self, unsampled: FloatArray) -> FloatArray:
        """η·(e^ε − 1)."""
        return self.rate * np.expm1(unsampled)


@dataclass(frozen=True)
class RevealedProfile(DottedProfile):
    """The curve of ``one`` where it is used with probability ``rate``, and this is seen."""

    one: Profile
    rate: float

    def __post_init__(self) -> None:
        """Refuse what is no probability, and a rate of zero."""
        checks.rate(self.rate)

    def delta(self, epsilon: float) -> float:
        """The rate times the curve, rounded up."""
        if checks.number(epsilon, "epsilon") < 0:
            return self._mirrored(epsilon)
        return min(1.0, self.rate * self.one.delta(epsilon) * (1 + _ROUND))

    def epsilon(self, delta: float) -> float:
        """The ε at which the curve meets δ."""
        share = checks.delta(delta) / self.rate * (1 - _ROUND)
        return 0.0 if share >= 1 else self.one.epsilon(share)

    @property
    def greatest_loss(self) -> float:
        """That of the curve."""
        return self.one.greatest_loss

    def excess(self, unsampled: FloatArray) -> FloatArray:
        """Here the two are the same."""
        found: FloatArray = np.expm1(unsampled)
        return found
