"""Curve of a check-in without dummies, from the number of reports of each round.

Without dummies a person who stays away by the coin looks like one who is not there at all: the
number M of people of a round is unknown. If k honest reports came, then for β > 0 the crowd is
counted as

    m(k) = the least m ≥ max(k, 1) with Pr[Bin(m, γ) ≥ k] > β.

m(k) exceeds M with probability at most β, whatever M is, and the curve of a smaller crowd holds for
a larger one. So ε_m(δ − T·β) may be stated of T rounds at δ. β is a fixed share of δ, never chosen
in view of k. Proof: ``docs/theory/stopping.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.privacy.guarantee import Profile

Crowds = tuple[tuple[int, int], ...]
"""Crowds, each with the number of rounds that have it."""

_SHARE = 10
"""All rounds together are charged at most this part of δ."""
_SMALLEST = 30
"""β is 10⁻³⁰ at least: beyond, a smaller one changes nothing that is ever asked for."""
_LEVELS = 4
"""Counts are rounded down to this many values, so that few curves are composed."""
_ROUND = 2.0**-40
_SAFE = 1 - 1e-9
"""Allowed for the rounding of binomial tails."""


@lru_cache(maxsize=4096)
def fewest_people(count: int, rate: float, beta: float, most: int) -> int:
    """Return the least crowd, of ``most`` people, giving this count with probability above β."""
    from scipy.stats import binom

    below, enough = max(count, 1) - 1, most
    while enough - below > 1:
        middle = (below + enough) // 2
        likely = float(binom.sf(count - 1, middle, rate)) > beta * _SAFE
        below, enough = (below, middle) if likely else (middle, enough)
    return max(enough, 1)


@dataclass(frozen=True, eq=False)
class CountedProfile(Profile):
    """All rounds, of which the numbers of honest reports are known and the crowds are not.

    ``curve`` makes the curve of given crowds, of at most ``most`` people; ``alone`` is that without
    any crowd. ``rate`` is the largest of anyone.
    """

    counts: tuple[int, ...]
    rate: float
    most: int
    curve: Callable[[Crowds], Profile]
    alone: Profile

    @cached_property
    def levels(self) -> tuple[tuple[int, int], ...]:
        """Counts, each with the number of rounds that had it or slightly more."""
        known = Counter(max(0, min(each, self.most)) for each in self.counts)
        if len(known) > _LEVELS:
            ordered = np.sort(list(known.elements()))
            starts = np.linspace(0, ordered.size, _LEVELS, endpoint=False).astype(int)
            place = np.searchsorted(starts, np.arange(ordered.size), side="right") - 1
            known = Counter(ordered[starts][place].tolist())
        return tuple(sorted(known.items()))

    def crowds(self, beta: float) -> Crowds:
        """Return the crowds that the rounds are counted as, at this β per round."""
        found: Counter[int] = Counter()
        for count, rounds in self.levels:
            found[fewest_people(count, self.rate, beta, self.most)] += rounds
        return tuple(sorted(found.items()))

    @cached_property
    def _curve(self) -> Callable[[Crowds], Profile]:
        return cache(self.curve)

    def _step(self, delta: float) -> int:
        # The j of β = 10^−j: the largest β that all rounds together can be charged.
        return min(_SMALLEST, math.ceil(math.log10(_SHARE * len(self.counts) / delta) - 1e-9))

    def _charge(self, step: int) -> float:
        return len(self.counts) * 10.0**-step * (1 + _ROUND)

    def _stated(self, delta: float) -> tuple[Profile, float]:
        step = self._step(checks.delta(delta))
        left = delta - self._charge(step)
        return (self._curve(self.crowds(10.0**-step)), left) if left > 0 else (self.alone, delta)

    def epsilon(self, delta: float) -> float:
        curve, left = self._stated(delta)
        return min(self.alone.epsilon(delta), curve.epsilon(left))

    def delta(self, epsilon: float) -> float:
        found = self.alone.delta(checks.number(epsilon, "epsilon"))
        for step in range(self._step(1.0), _SMALLEST + 1):
            charge = self._charge(step)
            bound = (self._curve(self.crowds(10.0**-step)).delta(epsilon) + charge) * (1 + _ROUND)
            start = _SHARE * charge  # This β belongs to values of δ from here on.
            found = min(found, max(bound, start))
            if bound >= start:
                break
        return found

    def lower(self, delta: float) -> float | None:
        """Return the lower bound for all people asked: a smaller crowd hides no better."""
        return self._asked.lower(delta)

    def per_person(self, delta: float) -> NDArray[np.float64] | None:
        curve, left = self._stated(delta)
        return curve.per_person(left)

    @cached_property
    def _asked(self) -> Profile:
        return self.curve(((self.most, len(self.counts)),))

    @property
    def greatest_loss(self) -> float:
        return self.alone.greatest_loss

    @property
    def interval(self) -> float:
        """Interval of the largest crowd, whose losses are the smallest."""
        return self._asked.interval
