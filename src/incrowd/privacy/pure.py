"""The curve of a mechanism that is purely private, or that says nothing at all.

Of an ε0-private mechanism whose outputs tell two neighbours apart by e^ε0, by e^−ε0 or not at all,
and do the first with probability x, the curve is δ(ε) = x·(1 − e^(ε − ε0)) for 0 ≤ ε ≤ ε0. With
x = E/(E + 1), E = e^ε0, it bounds every ε0-private one (``docs/theory/local.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.search import crossing

_ROUND = 2.0**-50
_STEPS = 64


@dataclass(frozen=True)
class PureProfile(Profile):
    """A finite ``greatest`` ε, and the chance of an output that ``tells`` so much.

    Without the chance the worst is assumed, and no attack is known.
    """

    greatest: float
    tells: float | None = None

    def __post_init__(self) -> None:
        """Refuse an ε that is negative or not finite."""
        if checks.number(self.greatest, "epsilon") < 0:
            raise InvalidParameter(
                f"epsilon must not be negative, got {self.greatest!r}", field="epsilon"
            )
        if self.tells is not None:
            checks.probability(self.tells, "the chance of an output that tells")

    def delta(self, epsilon: float) -> float:
        """The curve at any real ε, rounded up."""
        if checks.number(epsilon, "epsilon") < 0:
            mirrored = -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
            return min(1.0, mirrored * (1 + _ROUND))
        if epsilon >= self.greatest:
            return 0.0
        often = 1 / (1 + math.exp(-self.greatest)) if self.tells is None else self.tells
        return min(1.0, -often * math.expm1(epsilon - self.greatest) * (1 + _ROUND))

    def epsilon(self, delta: float) -> float:
        """The pure ε, which needs no δ: spending one would buy next to nothing."""
        checks.delta(delta)
        return self.greatest

    def lower(self, delta: float) -> float | None:
        """Where the curve falls to δ, rounded down, where it is that of the mechanism."""
        checks.delta(delta)
        if self.tells is None or not self.greatest:
            return None
        return crossing(
            lambda epsilon: self.delta(epsilon) * (1 - 4 * _ROUND) - _ROUND,
            delta,
            self.greatest / 2,
            self.greatest,
        ).above

    @property
    def greatest_loss(self) -> float:
        """The ε of the guarantee."""
        return self.greatest

    @property
    def pure_epsilon(self) -> float:
        """The ε of the guarantee."""
        return self.greatest

    @property
    def interval(self) -> float:
        """A share of the greatest loss, which then falls on the grid."""
        return self.greatest / _STEPS if self.greatest else 1.0
