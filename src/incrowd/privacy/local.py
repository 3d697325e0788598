"""The curve of one report seen alone, by everyone: what the randomizer itself guarantees.

See ``docs/theory/local.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from incrowd import checks
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.search import crossing
from incrowd.randomizers.base import Randomizer

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution
    from incrowd.privacy.shuffle import ShuffleProfile
    from incrowd.randomizers.law import PairLaw

_FARTHEST = 1e5
"""An ε beyond every other."""


@dataclass(frozen=True)
class LocalProfile(Profile):
    """The profile of one randomizer, whatever else is published or known."""

    randomizer: Randomizer

    def delta(self, epsilon: float) -> float:
        """The exact curve of the randomizer."""
        return min(1.0, self.randomizer.local_delta(checks.number(epsilon, "epsilon")))

    def epsilon(self, delta: float) -> float:
        """The smallest ε on the curve, rounded up; ε0 itself when δ is too small to matter.

        Infinite where the randomizer has more δ than this at every ε.
        """
        if self.delta(_FARTHEST) > checks.delta(delta):
            return math.inf
        ceiling = self.randomizer.epsilon
        if self.delta(ceiling) <= delta:
            return crossing(self.delta, delta, ceiling / 2, ceiling).within
        return crossing(self.delta, delta, ceiling).within

    def lower(self, delta: float) -> float | None:
        """The ε of the best known attack, which here sees one report of a known randomizer."""
        if math.isinf(self.randomizer.epsilon):
            return None  # There is no randomizer to speak of.
        return self._crowd_of_one.lower(delta)

    def attained(self) -> Sequence[LossDistribution]:
        """Losses of the same attacks."""
        return self._crowd_of_one.attained()

    def attack(self) -> tuple[PairLaw, ...]:
        """Those that the randomizer knows."""
        return self.randomizer.attack()

    @cached_property
    def _crowd_of_one(self) -> ShuffleProfile:
        from incrowd.privacy.shuffle import ShuffleProfile

        # Alone, every law of a pair says the same; not every randomizer has a blanket.
        attacks = self.attack()
        law = attacks[0] if attacks else self.randomizer.blanket()
        return ShuffleProfile(law, 1, self, attacks)

    @property
    def greatest_loss(self) -> float:
        """ε0 for a pure randomizer."""
        return self.randomizer.epsilon if self.randomizer.delta == 0 else math.inf

    @property
    def interval(self) -> float:
        """A share of ε0, so that the losses ±ε0 of randomized response fall on the grid."""
        return self.randomizer.epsilon / 64
