"""The curve of one report seen alone, by everyone: what the randomizer itself promises.

See ``docs/theory/local.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from incrowd import checks
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.search import crossing
from incrowd.randomizers.base import Randomizer

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution

__all__ = ["LocalProfile"]

_ROUNDING = 2.0**-53 * 16


@dataclass(frozen=True)
class LocalProfile(Profile):
    """The profile of one randomizer, whatever else is published or known."""

    randomizer: Randomizer

    def delta(self, epsilon: float) -> float:
        """The exact curve of the randomizer, rounded up."""
        exact = self.randomizer.local_delta(epsilon)
        # Far beyond ε0 a pure randomizer has δ = 0 exactly; elsewhere allow for cancellation.
        return min(1.0, exact + _ROUNDING) if exact > 0 else 0.0

    def epsilon(self, delta: float) -> float:
        """The smallest ε on the curve, rounded up; ε0 itself when δ is too small to matter."""
        checks.delta(delta)
        ceiling = self.randomizer.epsilon
        if self.delta(ceiling) <= delta:
            return crossing(self.delta, delta, ceiling / 2, ceiling).within
        return crossing(self.delta, delta, ceiling).within

    def losses(self, interval: float) -> LossDistribution:
        """A privacy-loss distribution that dominates the curve."""
        from incrowd.privacy.composition import connect_the_dots

        return connect_the_dots(self.delta, interval)
