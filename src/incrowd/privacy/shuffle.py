"""The privacy of a crowd whose reports are shuffled: the blanket functional, both ways.

For a law of (a, b) under a blanket and a crowd of n, with G = a − e^ε·b,

    δ(ε) ≤ (1/n)·E[(G₁ + … + Gₙ)₊],

with equality when all others hold one value and the law is taken under their own output law. So one
functional gives the proven bound (from ``Randomizer.blanket``) and the exact attack (from
``Randomizer.attack``). Proofs: ``docs/theory/blanket.md``; generic randomizers:
``docs/theory/generic.md``; adaptive ones: ``docs/theory/clones.md``; the numerical method, which
encloses the functional rigorously: ``docs/theory/fourier.md``. Where few outcomes are likely they
are listed instead: ``incrowd.privacy.listed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from incrowd import checks
from incrowd.errors import NumericalFloor
from incrowd.privacy import multinomial
from incrowd.privacy.fourier import Bracket, SumLaw
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.search import Crossing, crossing
from incrowd.randomizers.law import PairLaw

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution
    from incrowd.privacy.listed import Outcomes

_Curve = Callable[[float], Bracket]

_SMOOTHINGS = (4e-3, 1e-3, 2e-4, 5e-5)
_COMMON = 1e-2
"""The smoothing of whole curves: it adds about 5e−5 to a composed ε."""
_GREATEST = 700.0
"""Beyond this ε, whose exponential a double still holds, curves are taken as flat."""
_TOLERANCE = 2e-3
"""The relative width in δ at which a bracket is narrow enough: about 1e−4 in ε."""
_LISTABLE = 30_000
_MANY_ATOMS = 200
"""Laws with more atoms come from continuous noise: nothing to resolve by finer smoothing."""
_FLOOR = 1e-280
_FINER = 2048
_MOST_CELLS = 1 << 17
"""Losses that are listed for attacks are rounded down to cells, a share of a deviation each."""


def clones_law(epsilon: float) -> PairLaw:
    """The law for adaptive ε0-randomizers: each other report is a clone with probability e^−ε0.

    Feldman, McMillan and Talwar, "Hiding Among the Clones". A clone is a uniform bit; the victim's
    report is the bit "x0" with probability E/(E+1) or 1/(E+1), where E = e^ε0.
    """
    high = math.exp(checks.epsilon(epsilon))
    likely, rare = 2 * high * high / (high + 1), 2 * high / (high + 1)
    return PairLaw.of([likely, rare], [rare, likely], 1 / (2 * high))


def functional(
    law: PairLaw,
    n: int,
    epsilon: float,
    tolerance: float = _TOLERANCE,
    scale: float | None = None,
    beside: float = 0.0,
) -> Bracket:
    """Enclose (1/n)·E[(ΣG)₊] at ε ≥ 0, in the direction from x0 to x1.

    Smoothing is made finer until the bracket is narrow, or below ``beside``: a value that another
    law has already and that makes this one irrelevant. With ``scale`` (a standard deviation of the
    sum) one fine smoothing is used for all ε: then the upper ends are convex in e^ε.
    """
    if epsilon > _GREATEST:
        return Bracket(0.0, functional(law, n, _GREATEST, tolerance, scale).upper)
    t = math.exp(epsilon)
    value, magnitude = law.a - t * law.b, law.a + t * law.b
    # a − t·b loses digits when a = b: there it is −a·(e^ε − 1).
    value = np.where(law.a == law.b, -law.a * math.expm1(epsilon), value)
    total = SumLaw(value, law.mass, magnitude, n)
    if n == 1 or multinomial.outcomes(total) <= _LISTABLE:
        return multinomial.positive_part(total).scaled(1 / n)
    if scale is not None:
        return total.positive_part(_COMMON, scale).scaled(1 / n)
    best = Bracket(0.0, math.inf)
    for smoothing in _SMOOTHINGS:
        found, width = total.positive_part(smoothing), best.upper - best.lower
        best = Bracket(max(best.lower, found.lower), min(best.upper, found.upper))
        narrow = best.upper - best.lower <= tolerance * best.upper
        # Finer smoothing costs more and, once rounding dominates, gains nothing.
        stuck = best.upper - best.lower > 0.9 * width or value.size > _MANY_ATOMS
        if narrow or stuck or best.upper <= beside * n:
            break
    if not 0 <= best.lower <= best.upper:
        raise NumericalFloor(f"rounding dominates the privacy curve at epsilon = {epsilon!r}")
    return best.scaled(1 / n)


@dataclass(frozen=True)
class ShuffleProfile(Profile):
    """One round of ``n`` people under one blanket law, never worse than ``cap``.

    ``attacks`` are laws of concrete data sets, for lower bounds. ``cap`` is the curve that holds
    without any shuffling.
    """

    law: PairLaw
    n: int
    cap: Profile
    attacks: tuple[PairLaw, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an empty crowd."""
        checks.crowd(self.n)

    def bracket(self, epsilon: float) -> Bracket:
        """Enclose the functional itself, the worse of the two directions, without the cap."""
        return _either_way(self.law, self.n, epsilon)

    def delta(self, epsilon: float) -> float:
        """The blanket bound, or the cap where that is smaller."""
        if checks.number(epsilon, "epsilon") >= self.greatest_loss:
            return 0.0
        blanket = self.bracket(epsilon).upper + self.law.escaped
        return min(1.0, blanket, self.cap.delta(epsilon))

    def epsilon(self, delta: float) -> float:
        """The smallest ε the bound allows at this δ, rounded up."""
        _check_floor(checks.delta(delta))
        left = delta - self.law.escaped
        return (
            self._solve(self.law, left, upper=True).within if left > 0 else self.cap.epsilon(delta)
        )

    def unhidden(self, epsilon: float) -> float:
        """The part of the functional in which no other report hides the victim's: cheap to know."""
        gain = np.maximum(self.law.a - math.exp(min(epsilon, _GREATEST)) * self.law.b, 0.0)
        alone = (self.n - 1) * math.log1p(-min(self.law.gamma, 1 - 1e-16))
        return float(self.law.mass @ gain) * math.exp(alone)

    def lower(self, delta: float) -> float | None:
        """The ε of the strongest of the listed attacks at this δ, rounded down."""
        _check_floor(checks.delta(delta))
        found = (self._solve(law, delta, upper=False).above for law in self.distinct_attacks)
        return max(found, default=None)

    @cached_property
    def distinct_attacks(self) -> tuple[PairLaw, ...]:
        """The attacks without those that are another one seen from the other side."""
        kept: list[PairLaw] = []
        for law in self.attacks:
            if not any(law.mirrors(other) for other in kept):
                kept.append(law)
        return tuple(kept)

    def _solve(self, law: PairLaw, delta: float, *, upper: bool) -> Crossing:
        """Where one end of the bracket meets δ: first roughly, then with narrow brackets."""

        def end(epsilon: float, tolerance: float = _TOLERANCE) -> float:
            found = _either_way(law, self.n, epsilon, tolerance=tolerance)
            return found.upper if upper else found.lower

        cap = self.cap.epsilon(delta)
        guess = self.deviation * math.sqrt(2 * math.log(1 / delta))
        rough = crossing(lambda epsilon: end(epsilon, math.inf), delta, guess, cap, 1e-3)
        return crossing(end, delta, rough.within, cap, factor=1.002)

    def losses(self, interval: float) -> LossDistribution:
        """A privacy-loss distribution that dominates both the blanket's pair and the cap's."""
        return _dominating(self, interval)

    def attained(self) -> Sequence[LossDistribution]:
        """Losses of each attack, from x0 to x1 and back."""
        return _attained(self)

    @property
    def greatest_loss(self) -> float:
        """The crowd only helps: no loss is above that of a report seen alone."""
        return self.cap.greatest_loss

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of a small privacy loss: that of G at ε = 0, over √n."""
        return math.sqrt(float(self.law.mass @ (self.law.a - self.law.b) ** 2) / self.n)

    @property
    def interval(self) -> float:
        """A grid spacing fine enough to compose this profile a thousand times."""
        listed = _listed(self.law, self.n) if self.law.symmetric else None
        # Where most rounds tell nothing, it is the others that the grid must resolve.
        scale = self.deviation if listed is None else max(self.deviation, listed.scale)
        return min(scale / 40, self.cap.interval)


@lru_cache(maxsize=8)
def _dominating(profile: ShuffleProfile, interval: float) -> LossDistribution:
    """Connect the dots of the blanket's curve; kept, since solving for rounds asks again."""
    from incrowd.privacy.composition import connect_the_dots

    law, scale = profile.law, profile.deviation * profile.n
    listed = _listed(law, profile.n) if law.symmetric else None
    if listed is not None:
        return listed.above(interval)

    @cache
    def above(epsilon: float) -> Bracket:
        return _either_way(law, profile.n, epsilon, scale=scale)

    def curve(epsilon: float) -> float:
        # Each point serves ε and −ε: the curve below zero is the other direction's above it.
        there = above(epsilon) if epsilon >= 0 else _mirrored(above(-epsilon), epsilon)
        return min(1.0, there.upper + law.escaped, profile.cap.delta(epsilon))

    return connect_the_dots(curve, interval, profile.greatest_loss)


@lru_cache(maxsize=8)
def _attained(profile: ShuffleProfile) -> tuple[LossDistribution, ...]:
    """Losses from below for every attack and direction; kept, like those from above."""
    from incrowd.privacy.attained import dots_below, losses_of

    if profile.n == 1:
        return tuple(
            losses_of(way)
            for law in profile.distinct_attacks
            for way in ((law,) if law.symmetric else (law, law.swapped()))
        )
    found = []
    for law in profile.distinct_attacks:
        deviation = math.sqrt(float(law.mass @ (law.a - law.b) ** 2) / profile.n)
        listed = _listed(law, profile.n)
        if listed is not None:
            cell = max(deviation / _FINER, listed.widest / _MOST_CELLS)
            found.append(listed.below(cell))
            if not law.symmetric:
                found.append(listed.swapped().below(cell))
            continue
        scale = deviation * profile.n
        one_way = cache(partial(functional, law, profile.n, scale=scale))
        other_way = cache(partial(functional, law.swapped(), profile.n, scale=scale))
        directions = [(one_way, other_way), (other_way, one_way)]
        for forth, back in directions[: 1 if law.symmetric else 2]:

            def curve(epsilon: float, forth: _Curve = forth, back: _Curve = back) -> Bracket:
                return forth(epsilon) if epsilon >= 0 else _mirrored(back(-epsilon), epsilon)

            found.append(dots_below(curve, deviation, profile.greatest_loss))
    return tuple(found)


def _listed(law: PairLaw, n: int, most: int | None = None) -> Outcomes | None:
    from incrowd.privacy.listed import MANY, likely_outcomes

    return likely_outcomes(law, n, most or MANY) if n > 1 else None


@lru_cache(maxsize=64)
def _short_list(law: PairLaw, n: int) -> Outcomes | None:
    """The likely outcomes if they are few; kept, as a curve is one of many crowds at many ε."""
    return _listed(law, n, _LISTABLE)


def _either_way(
    law: PairLaw,
    n: int,
    epsilon: float,
    *,
    tolerance: float = _TOLERANCE,
    scale: float | None = None,
) -> Bracket:
    """The functional in the worse direction, at any real ε."""
    if epsilon < 0:
        there = _either_way(law, n, -epsilon, tolerance=tolerance, scale=scale)
        return _mirrored(there, epsilon)
    if scale is None and (listed := _short_list(law, n)) is not None:
        forth, back = listed.bracket(epsilon), listed.swapped().bracket(epsilon)
        found = Bracket(max(forth.lower, back.lower), max(forth.upper, back.upper))
        if found.upper - found.lower <= min(tolerance, _TOLERANCE) * found.upper:
            return found
    forth = functional(law, n, epsilon, tolerance, scale)
    if law.symmetric:
        return forth
    back = functional(law.swapped(), n, epsilon, tolerance, scale, beside=forth.lower)
    return Bracket(max(forth.lower, back.lower), max(forth.upper, back.upper))


def _mirrored(there: Bracket, epsilon: float) -> Bracket:
    """The curve at ε < 0 from its value at −ε: H_t(P‖Q) = 1 − t + t·H_{1/t}(Q‖P)."""
    certain, scaled = -math.expm1(epsilon), there.scaled(math.exp(epsilon))
    return Bracket(certain + scaled.lower, (certain + scaled.upper) * (1 + 2.0**-50))


def _check_floor(delta: float) -> None:
    if delta < _FLOOR:
        raise NumericalFloor(
            f"delta = {delta!r} is below {_FLOOR}, the least that can be certified", field="delta"
        )
