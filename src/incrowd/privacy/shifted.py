"""The curve of a mechanism that is another one except on a rare event that no data decides.

Off an event of probability at most p the view is that of a mechanism with a known curve; on it the
view may be anything that depends on the victim through one report only. The event is independent of
all reports. Then, for every real ε,

    δ(ε) ≤ base(ε) + p·(e^ε − 1 + 2·δ_local(ε)),

and no smaller charge holds in general. Proof: ``docs/theory/cover.md``. The charge is a convex
function of e^ε, so that over an interval of ε it is largest at an end; that is what turns a δ into
an ε without a search. Nothing is ever above what the randomizer guarantees alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.local import LocalProfile
from incrowd.randomizers.base import Randomizer

_ROUND = 2.0**-40
_LARGEST = 500.0
_STEPS = (1.002, 1.02, 1.1, 1.3, 1.7, 2.5, 5.0)
"""How far above the base's ε the answer is looked for, one after the other."""
_QUANTILES = (1.0, 0.9, 0.5)
"""Who is looked at together: everyone at once, unless that charges people too much."""
_LITTLE = 0.1


@dataclass(frozen=True)
class ShiftedProfile(Profile):
    """``base``, charged for an event of probability at most ``chance``."""

    base: Profile
    randomizer: Randomizer
    chance: float

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if checks.number(self.chance, "chance") < 0:
            raise InvalidParameter(f"chance must not be negative, got {self.chance!r}")

    @cached_property
    def _local(self) -> LocalProfile:
        return LocalProfile(self.randomizer)

    def charge(self, epsilon: float) -> float:
        """What the event costs at this ε, rounded up."""
        if epsilon > _LARGEST:
            return math.inf if self.chance else 0.0
        factor = math.expm1(epsilon) + 2 * self._local.delta(epsilon)
        return max(0.0, self.chance * factor * (1 + _ROUND) + self.chance * _ROUND)

    def delta(self, epsilon: float) -> float:
        """The base's δ and the charge, or what the randomizer guarantees where that is less."""
        least = self._local.delta(checks.number(epsilon, "epsilon"))
        charge = self.charge(epsilon)
        if charge >= least:
            return least
        return min(least, (self.base.delta(epsilon) + charge) * (1 + _ROUND))

    def epsilon(self, delta: float) -> float:
        """The least ε that is found, rounded up."""
        checks.delta(delta)
        ceiling = self._local.epsilon(delta)
        low = min(ceiling, self.base.epsilon(delta))
        if not self.chance:
            return low
        for step in _STEPS:
            found = self._below(delta, low, min(ceiling, low * step))
            if found is not None:
                # Once more from there: the charge up to it is smaller.
                return self._below(delta, low, found) or found
        return ceiling

    def _below(self, delta: float, low: float, high: float) -> float | None:
        """An ε between these at which the base has what the charge leaves, if there is one."""
        left = (delta - self._most(low, high)) * (1 - _ROUND)
        if left <= 0 or self.base.delta(high) > left:
            return None
        return min(high, max(low, self.base.epsilon(left)))

    def _most(self, low: float, high: float) -> float:
        """The largest charge between two ε."""
        return max(self.charge(low), self.charge(high))

    def lower(self, delta: float) -> float | None:
        """What an attack on the base attains beyond the charge: the event may spoil it."""
        found = self.base.lower(delta)
        if found is None or not self.chance:
            return found
        needed = (delta + self._most(0.0, found)) * (1 + _ROUND)
        left = self.base.lower(needed) if needed < 1 else None
        return None if left is None else min(found, left)

    def per_person(self, delta: float) -> NDArray[np.float64] | None:
        """Each person's ε; those with a smaller one are charged less."""
        alone = self.base.per_person(delta)
        if alone is None or not self.chance:
            return alone
        found = np.full(alone.size, self._local.epsilon(delta))
        low = float(alone.min())
        for share in _QUANTILES:
            high = _STEPS[1] * float(np.quantile(alone, share))
            most = self._most(low, high)
            left = (delta - most) * (1 - _ROUND)
            charged = self.base.per_person(left) if left > 0 else None
            if charged is not None:
                # Where a bound holds it holds at a larger ε, and the charge is known from low.
                charged = np.maximum(charged, low)
                found = np.where(charged <= high, np.minimum(found, charged), found)
                if (charged <= high).all() and most <= _LITTLE * delta:
                    break
        return found

    @property
    def greatest_loss(self) -> float:
        """No loss is above that of a report seen alone."""
        return self._local.greatest_loss

    @property
    def interval(self) -> float:
        """That of the base."""
        return self.base.interval
