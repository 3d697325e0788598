"""Maximum of curves, each of which is proven for some of the neighbouring data sets.

Where no pair of inputs is the worst at every ε, each pair has a curve of its own; and people may
differ in what they are charged. The largest curve at each ε holds for all. A maximum of convex
curves is convex, so that it can be composed like the curve of one pair
(``docs/theory/channel.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from incrowd.privacy.guarantee import Profile

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution


@dataclass(frozen=True)
class GreatestProfile(Profile):
    """The largest of several curves at each ε; the one that is likely the largest comes first."""

    parts: tuple[Profile, ...]

    def delta(self, epsilon: float) -> float:
        """The largest δ."""
        return max(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        """The largest ε; one look at a curve often shows that it is no larger than another."""
        first, *others = self.parts
        found = first.epsilon(delta)
        for part in others:
            if part.delta(found) > delta:
                found = max(found, part.epsilon(delta))
        return found

    def lower(self, delta: float) -> float | None:
        """The strongest attack on any part."""
        found = [part.lower(delta) for part in self.parts]
        return max((each for each in found if each is not None), default=None)

    def attained(self) -> Sequence[LossDistribution]:
        """Losses of all attacks."""
        return [losses for part in self.parts for losses in part.attained()]

    @property
    def greatest_loss(self) -> float:
        """The largest of all."""
        return max(part.greatest_loss for part in self.parts)

    @property
    def interval(self) -> float:
        """That of the widest curve: where another one is finer, it is not the largest."""
        return max(part.interval for part in self.parts)

    def losses(self, interval: float) -> LossDistribution:
        """The dots of the largest curve at each grid point, connected."""
        from incrowd.privacy.composition import joined

        each = [part.losses(interval) for part in self.parts]
        first = min(losses.first for losses in each)
        last = max(losses.first + losses.mass.size for losses in each)
        heights = [_heights(losses, first, last) for losses in each]
        return joined(interval, first, np.minimum(np.max(heights, axis=0), 1.0))


def greatest(parts: Sequence[Profile]) -> Profile:
    """Return the maximum of these curves: the curve itself, if there is only one."""
    return parts[0] if len(parts) == 1 else GreatestProfile(tuple(parts))


def _heights(losses: LossDistribution, first: int, last: int) -> NDArray[np.float64]:
    """The curve of a distribution on a grid that contains its own."""
    here = losses.interval * (losses.first + np.arange(losses.mass.size))
    before = np.exp(losses.interval * np.arange(first, losses.first))
    # Below its grid a curve is straight: all mass is of larger loss.
    chance = float(losses.mass.sum()) + losses.infinite
    rising = chance - before * float(losses.mass @ np.exp(-here))
    after = np.full(last - losses.first - losses.mass.size, losses.infinite)
    return np.concatenate([rising, losses.heights(), after])
