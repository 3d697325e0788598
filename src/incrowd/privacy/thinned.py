"""A randomizer that is used now and then: for accounting.

Who stays away sends the symbol *void*. With γ the chance to take part, R' = γ·R + (1 − γ)·void is a
randomizer like any other, and all that is proven of shuffling holds of it. See
``docs/theory/check_in.md``.
"""

from __future__ import annotations

import math
from typing import ClassVar

from incrowd.randomizers.base import Domain, Randomizer
from incrowd.randomizers.law import PairLaw


class Thinned(Randomizer, frozen=True, tag="thinned"):
    """A randomizer that is used with probability ``rate`` only: for accounting.

    With the rest of the probability the report is void, whatever the value.
    """

    inner: Randomizer
    rate: float

    domain: ClassVar[Domain] = "category"
    drawable: ClassVar[bool] = False

    @property
    def delta(self) -> float:
        """That of the randomizer, as often as it is used."""
        return self.rate * self.inner.delta

    @property
    def assumption(self) -> str | None:
        """What the randomizer takes for granted."""
        return self.inner.assumption

    def local_delta(self, epsilon: float) -> float:
        """Void says nothing: its curve is (1 − e^ε)₊."""
        nothing = -math.expm1(min(epsilon, 0.0))
        return self.rate * self.inner.local_delta(epsilon) + (1 - self.rate) * nothing

    def blanket(self) -> PairLaw:
        """The void symbol is as likely for every value, so all of it belongs to the blanket."""
        return self.inner.blanket().subsampled(self.rate)

    def attack(self) -> tuple[PairLaw, ...]:
        """The same data sets, seen through the same coin."""
        return tuple(law.subsampled(self.rate) for law in self.inner.attack())


def thinned(randomizer: Randomizer, rate: float) -> Randomizer:
    """The randomizer, used at this rate."""
    if rate == 1:
        return randomizer
    return Thinned(epsilon=randomizer.epsilon, inner=randomizer, rate=rate)
