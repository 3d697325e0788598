"""Curves of people who check in at different, known rates.

Take the others whose rates lie in a band [g, G]. Whatever they hold, their law in a round is at
least g·w + (1 − G)·void, where w is the blanket of the randomizer: a common blanket. A victim of
rate r is then shuffled among them with

    (r/g)·(a, b) at mass g·m   for every point (a, b) of mass m,   and
    (1 − r)/(1 − G) twice      at mass 1 − G for void;

everyone outside the band is taken as revealed. If G = 1 there is no void to hide behind: whether
the victim takes part is given away, and δ = r·δ' for ε ≥ 0 with δ' that of a victim who does. Every
band is proven on its own, so each victim is given a good one. A victim's rate may be rounded up.
See ``docs/theory/check_in.md``.

Cost: rates are put in at most sixteen levels, whose victims are rounded up and whose bands are
rounded outwards, so that a hundred thousand people take sixteen curves at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd
from incrowd.privacy import ComposedProfile, LocalProfile, LossDistribution, ShuffleProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.mechanisms.shuffle import any_randomizer, distance, near_pure, victim_law
from incrowd.privacy.thinned import thinned
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.law import PairLaw

Doubles = NDArray[np.float64]

_LEVELS = 16
_TRIED = 3
"""Bands compared for each level of victims."""
_LOOK = 1e-8
"""The δ at which they are compared."""
_ROUND = 2.0**-40


@dataclass(frozen=True)
class Band:
    """Others whose rates lie between two numbers, and the crowd they make with the victim."""

    low: float
    high: float
    crowd: int


def banded_law(law: PairLaw, rate: float, band: Band) -> PairLaw:
    """Return the law of a victim of this rate under the common blanket of a band below 1."""
    void, scaled = (1 - rate) / (1 - band.high), rate / band.low
    return PairLaw.of(
        np.append(law.a * scaled, void),
        np.append(law.b * scaled, void),
        np.append(law.mass * band.low, 1 - band.high),
        law.escaped * rate,
    )


@dataclass(frozen=True)
class RevealedProfile(Profile):
    """Curve of a victim who takes part at a rate, when whether they do is given away."""

    taking_part: Profile
    rate: float

    def delta(self, epsilon: float) -> float:
        """Return the share of the rounds with the victim; those without tell nothing."""
        nothing = -math.expm1(min(checks.number(epsilon, "epsilon"), 0.0))
        share = self.rate * self.taking_part.delta(epsilon)
        return min(1.0, (share + (1 - self.rate) * nothing) * (1 + _ROUND))

    def epsilon(self, delta: float) -> float:
        needed = checks.delta(delta) / self.rate * (1 - _ROUND)
        return self.taking_part.epsilon(needed) if needed < 1 else 0.0

    def losses(self, interval: float) -> LossDistribution:
        found = self.taking_part.losses(interval)
        first = min(found.first, 0)
        mass = np.zeros(max(found.first + found.mass.size, 1) - first)
        start = found.first - first
        mass[start : start + found.mass.size] = self.rate * found.mass
        mass[-first] += 1 - self.rate
        return LossDistribution(interval, first, mass, self.rate * found.infinite)

    @property
    def greatest_loss(self) -> float:
        return self.taking_part.greatest_loss

    @property
    def interval(self) -> float:
        return self.taking_part.interval


@dataclass(frozen=True, eq=False)
class RatesProfile(Profile):
    """Everyone's curve over all rounds; that of the crowd is the one of the highest rate.

    ``missing`` people, the most useful ones, are absent or collude.
    """

    randomizer: Randomizer
    rates: Doubles
    rounds: int
    adaptive: bool = False
    missing: int = 0
    _found: dict[float, Profile] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def levels(self) -> tuple[tuple[float, float, int], ...]:
        """At most sixteen levels: the lowest and highest rate in each, and the people."""
        rates = np.sort(self.rates)
        if np.unique(rates).size <= _LEVELS:
            low, count = np.unique(rates, return_counts=True)
            return tuple(zip(low.tolist(), low.tolist(), count.tolist(), strict=True))
        edges = np.geomspace(rates[0], rates[-1], _LEVELS + 1)[1:-1]
        parts = np.split(rates, np.searchsorted(rates, edges))
        return tuple((float(p[0]), float(p[-1]), p.size) for p in parts if p.size)

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """All bands that leave a crowd, those that hide best first: by the reports they make."""
        found = []
        for start, (low, _, _) in enumerate(self.levels):
            crowd = -self.missing
            for _, high, count in self.levels[start:]:
                crowd += count
                if crowd > 1:
                    found.append(Band(low, high, crowd))
        return tuple(sorted(found, key=lambda band: (-band.low * band.crowd, band.high)))

    @cached_property
    def _alone(self) -> Randomizer:
        return any_randomizer(self.randomizer) if self.adaptive else self.randomizer

    def at_rate(self, rate: float) -> Profile:
        """Return the curve over all rounds of a victim of this rate."""
        if rate not in self._found:
            tried = [band for band in self.bands if band.high < 1][:_TRIED]
            tried += [band for band in self.bands if band.high == 1][:1]
            options = [self._one_round(rate, band) for band in tried]
            local = LocalProfile(thinned(self._alone, rate))
            best = min(options, key=lambda each: each.epsilon(_LOOK), default=local)
            self._found[rate] = ComposedProfile(((best, self.rounds),))
        return self._found[rate]

    def _one_round(self, rate: float, band: Band) -> Profile:
        law = victim_law(self.randomizer, self.adaptive)
        if band.high == 1:
            return RevealedProfile(self._among(1.0, band, law.partially_mixed(band.low)), rate)
        return self._among(rate, band, banded_law(law, rate, band))

    def _among(self, rate: float, band: Band, law: PairLaw) -> Profile:
        return near_pure(
            self._alone,
            lambda same: ShuffleProfile(law, band.crowd, LocalProfile(thinned(same, rate))),
            LocalProfile(thinned(self._alone, rate)),
            # The band's others come at its highest rate at most, the victim at their own.
            distance(self._alone, band.crowd, adaptive=self.adaptive) * max(rate, band.high),
        )

    def person(self, who: int) -> Profile:
        """Return the curve of one person."""
        if not 0 <= who < self.rates.size:
            raise InvalidCrowd(f"person {who} is not one of 0 to {self.rates.size - 1}")
        return self.at_rate(next(high for _, high, _ in self.levels if self.rates[who] <= high))

    @cached_property
    def worst(self) -> Profile:
        """Curve of the highest rate: no other rate does worse in the same crowd."""
        return self.at_rate(self.levels[-1][1])

    def delta(self, epsilon: float) -> float:
        return self.worst.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        return self.worst.epsilon(delta)

    def per_person(self, delta: float) -> Doubles:
        """Return the ε of each person, that of the next higher level of rates."""
        most = self.worst.epsilon(delta)
        high = np.array([level[1] for level in self.levels])
        each = np.array([min(most, self.at_rate(rate).epsilon(delta)) for rate in high.tolist()])
        return np.asarray(each[np.searchsorted(high, self.rates)])

    @property
    def greatest_loss(self) -> float:
        return self.worst.greatest_loss

    @property
    def interval(self) -> float:
        return self.worst.interval
