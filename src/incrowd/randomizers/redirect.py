"""Where a message goes: to its true target, or, now and then, to one drawn from all of them.

With probability σ the target is drawn uniformly from all T, the true one included; a message that
is drawn to another target than its own carries nothing. So a message reaches its target with
probability p = 1 − σ + σ/T, and each other one with r = σ/T: k-ary randomized response, told by how
often people answer at random rather than by its ε0 = ln(p/r). The lies of everybody are the blanket
of everybody else's message, and dummies that are drawn uniformly are more of it.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers import _inputs
from incrowd.randomizers._lattice import BITS
from incrowd.randomizers.base import Domain, Randomizer, Reports
from incrowd.randomizers.law import PairLaw
from incrowd.randomizers.response import response_attacks, response_blanket

_STEPS = 2.0**BITS
_ROUND_UP = 1 + 2.0**-48
_GREATEST = 700.0
"""Beyond this ε, whose exponential a double still holds, curves are taken as flat."""


class Redirect(Randomizer, frozen=True, kw_only=True, tag="redirect"):
    """Sends a message to one of ``targets`` drawn at random, with the chance ``sampling``.

    ``epsilon`` follows from the two: it is infinite for σ = 0, where only dummies hide anything.
    """

    epsilon: float = math.inf
    targets: int
    sampling: float

    domain: ClassVar[Domain] = "target"
    report_domain: ClassVar[Domain | None] = "target"
    uniform_blanket: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what is no chance, and an ε0 that is not the one which follows."""
        checks.integer(self.targets, "targets", 1)
        if not 0 <= checks.number(self.sampling, "sampling") <= 1:
            raise InvalidParameter(
                f"sampling must be between 0 and 1, got {self.sampling!r}", field="sampling"
            )
        follows = _epsilon(self.targets, self.lies)
        if self.epsilon not in (math.inf, follows):
            raise InvalidParameter(
                f"epsilon follows from sampling: it is {follows!r}", field="epsilon"
            )
        msgspec.structs.force_setattr(self, "epsilon", follows)

    @property
    def lies(self) -> float:
        """σ as it is drawn: the next multiple of 2⁻⁵³, which hides no less."""
        return math.ceil(self.sampling * _STEPS) / _STEPS

    @property
    def kept(self) -> float:
        """The chance that a message reaches its true target with what it carries."""
        return 1 - self.lies * (1 - 1 / self.targets)

    @property
    def report_bytes(self) -> int:
        """The number of a target."""
        return _inputs.smallest_unsigned(self.targets - 1).itemsize

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """The true targets, but with probability σ one of all, drawn uniformly."""
        true = _inputs.targets(values, self.targets)
        lie = rng.random(len(true)) < self.lies
        drawn = rng.integers(self.targets, size=len(true))
        sent = np.where(lie, drawn, true)
        return sent.astype(_inputs.smallest_unsigned(self.targets - 1))

    def local_delta(self, epsilon: float) -> float:
        """The exact profile of any two targets, rounded up: p − e^ε·r for 0 ≤ ε ≤ ε0."""
        if epsilon >= self.epsilon:
            return 0.0
        if epsilon < 0:  # the other direction, which has the same curve, says it
            found = -math.expm1(epsilon) + math.exp(epsilon) * self.local_delta(-epsilon)
            return min(1.0, found + 2.0**-50)
        other = self.lies / self.targets * math.exp(min(epsilon, _GREATEST))
        return min(1.0, max(0.0, self.kept - other) + 2.0**-50)

    def blanket(self) -> PairLaw:
        """The lies: uniform, of mass σ; refused where nobody lies and nothing covers anybody.

        All pairs of targets have this same law, which is symmetric: one pair dominates at every ε,
        in both directions.
        """
        if self.targets == 1:
            return PairLaw.of([1.0], [1.0], [1.0])
        return response_blanket(self._odds, self.targets)

    def attack(self) -> tuple[PairLaw, ...]:
        """All others at a third target, or at either of the two."""
        return response_attacks(self._odds, self.targets) if self.targets > 1 else ()

    @property
    def _odds(self) -> float:
        """p/r as it is drawn."""
        if not self.lies:
            raise InvalidParameter(
                "sampling must be above 0 for others to hide a message", field="sampling"
            )
        return 1 + (1 - self.lies) * self.targets / self.lies


def _epsilon(targets: int, lies: float) -> float:
    """ln(p/r), rounded up; 0 with one target, where there is nothing to tell."""
    if targets == 1 or lies == 1:
        return 0.0
    return math.inf if lies == 0 else math.log1p((1 - lies) * targets / lies) * _ROUND_UP
