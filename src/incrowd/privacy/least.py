"""Curves that hold because whoever they are for sees more; and the better of two that hold.

Whoever sees a part of what another sees learns no more: the curve of the larger view holds for the
smaller one too, and at each ε the lower of the two may be stated. An attack on the larger view is
none on the smaller one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from incrowd.privacy.guarantee import Profile

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution


@dataclass(frozen=True)
class LeastProfile(Profile):
    """The curve of one's own view, or that of somebody who sees more, whichever is lower."""

    own: Profile
    more: Profile

    def delta(self, epsilon: float) -> float:
        """The lower of the two."""
        return min(self.own.delta(epsilon), self.more.delta(epsilon))

    def epsilon(self, delta: float) -> float:
        """The lower of the two."""
        found = self.own.epsilon(delta)
        # One look at the other curve often shows that it is no lower.
        return found if self.more.delta(found) > delta else min(found, self.more.epsilon(delta))

    def lower(self, delta: float) -> float | None:
        """An attack of one's own: who sees more may attain more."""
        return self.own.lower(delta)

    def attained(self) -> Sequence[LossDistribution]:
        """Losses of the same attacks."""
        return self.own.attained()

    @property
    def greatest_loss(self) -> float:
        """The lower of the two."""
        return min(self.own.greatest_loss, self.more.greatest_loss)

    @property
    def interval(self) -> float:
        """The finer grid."""
        return min(self.own.interval, self.more.interval)

    @property
    def convolvable(self) -> bool:
        """Every point of a grid would cost two curves: adding up is cheaper."""
        return False


@dataclass(frozen=True)
class LentProfile(Profile):
    """The curve of somebody who sees more, without their attacks."""

    more: Profile

    def delta(self, epsilon: float) -> float:
        """As lent."""
        return self.more.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """As lent."""
        return self.more.epsilon(delta)

    @property
    def greatest_loss(self) -> float:
        """As lent."""
        return self.more.greatest_loss

    @property
    def interval(self) -> float:
        """As lent."""
        return self.more.interval

    @property
    def pure_epsilon(self) -> float | None:
        """As lent."""
        return self.more.pure_epsilon

    def losses(self, interval: float) -> LossDistribution:
        """As lent."""
        return self.more.losses(interval)
