"""The curve of a mechanism that is close to another one, whose curve is known.

If for either value of the victim the view is within total variation D of that of a mechanism with
the curve ``base``, then for every real ε

    δ(ε) ≤ base(ε) + (1 + e^ε)·D.

This is how randomizers with a δ0 of their own are accounted: they are close to pure ones, and so is
a crowd of them (``docs/theory/check_in.md``). The charge rises with ε while the base falls; since
the true curve does not rise, over many rounds only the part up to the least point is used, and the
rest becomes infinite loss: each round pays about 2·D, not e^ε times as much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy.guarantee import Profile

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution

_ROUND = 2.0**-40
_LARGEST = 500.0
_STEPS = (1.0002, 1.002, 1.02, 1.1, 1.3, 1.7, 2.5, 5.0)
"""How far above the base's ε the answer is looked for, one after the other."""
_REFINED = 3


@dataclass(frozen=True)
class NearProfile(Profile):
    """``base``, for a mechanism within ``distance`` of it; never worse than ``cap``."""

    base: Profile
    distance: float
    cap: Profile

    def __post_init__(self) -> None:
        """Refuse what is no distance."""
        if checks.number(self.distance, "distance") < 0:
            raise InvalidParameter(
                f"distance must not be negative, got {self.distance!r}", field="distance"
            )

    def charge(self, epsilon: float) -> float:
        """What the distance costs at this ε, rounded up."""
        if epsilon > _LARGEST:
            return math.inf if self.distance else 0.0
        return self.distance * (1 + math.exp(epsilon)) * (1 + _ROUND)

    def delta(self, epsilon: float) -> float:
        """The base's δ and the charge, or the cap where that is less."""
        most = self.cap.delta(checks.number(epsilon, "epsilon"))
        charge = self.charge(epsilon)
        return most if charge >= most else min(most, self.base.delta(epsilon) + charge)

    def epsilon(self, delta: float) -> float:
        """The least ε that is found, rounded up."""
        found, cap = self._charged(checks.delta(delta)), self.cap.epsilon(delta)
        return min(found, cap)

    def _charged(self, delta: float) -> float:
        """An ε at which the base and the charge are within δ; infinite where none is found."""
        left = delta - self.charge(0.0)
        low = self.base.epsilon(left) if left > 0 else math.inf
        for step in _STEPS if left > 0 else ():
            # At most so much is charged up to here, so what is left is enough for all below.
            left = delta - self.charge(low * step)
            if left > 0 and (found := self.base.epsilon(left)) <= low * step:
                for _ in range(_REFINED):
                    found = min(found, self.base.epsilon(delta - self.charge(found)))
                return found
        return math.inf

    def lower(self, delta: float) -> float | None:
        """What is attained against the base, which is one of the mechanisms that are meant."""
        return self.base.lower(delta)

    def attained(self) -> Sequence[LossDistribution]:
        """Losses of the same attacks."""
        return self.base.attained()

    def losses(self, interval: float) -> LossDistribution:
        """The dots of the charged curve, joined up to the least of them."""
        from incrowd.privacy.composition import joined

        found = self.base.losses(interval)
        t = np.exp(interval * (found.first + np.arange(found.mass.size)))
        height = (found.heights() + self.distance * (1 + t)) * (1 + _ROUND)
        return joined(interval, found.first, height[: int(height.argmin()) + 1])

    @property
    def greatest_loss(self) -> float:
        """That of the cap: none where the randomizer has a δ0."""
        return self.cap.greatest_loss

    @property
    def interval(self) -> float:
        """That of the base."""
        return self.base.interval
