"""Redirection of messages: a message goes to its true target or to one drawn from all targets.

With the redirect probability σ the target is drawn uniformly from all T, the true one included; a
message drawn to another target than its own carries nothing. So a message reaches its target with
probability p = 1 − σ + σ/T, and each other one with r = σ/T: k-ary randomized response, stated by σ
rather than by its ε0 = ln(p/r). Redirected messages are the blanket of all others, and dummies
drawn uniformly add to it.
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
    """Send a message to one of ``targets`` drawn at random, with ``redirect_probability``.

    ``epsilon`` follows from the two: it is infinite for σ = 0, where only dummies hide anything.
    """

    epsilon: float = math.inf
    targets: int
    redirect_probability: float

    domain: ClassVar[Domain] = "target"
    report_domain: ClassVar[Domain | None] = "target"
    uniform_blanket: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.integer(self.targets, "targets", 1)
        if not 0 <= checks.number(self.redirect_probability, "redirect_probability") <= 1:
            raise InvalidParameter(
                f"redirect_probability must be between 0 and 1, got {self.redirect_probability!r}",
                field="redirect_probability",
            )
        follows = _epsilon(self.targets, self.drawn_probability)
        if self.epsilon not in (math.inf, follows):
            raise InvalidParameter(
                f"epsilon follows from redirect_probability: it is {follows!r}", field="epsilon"
            )
        msgspec.structs.force_setattr(self, "epsilon", follows)

    @property
    def drawn_probability(self) -> float:
        """σ as drawn: the next multiple of 2⁻⁵³, which hides no less."""
        return math.ceil(self.redirect_probability * _STEPS) / _STEPS

    @property
    def kept(self) -> float:
        """Probability that a message reaches its true target with its content."""
        return 1 - self.drawn_probability * (1 - 1 / self.targets)

    @property
    def report_bytes(self) -> int:
        """Size of a target's number."""
        return _inputs.smallest_unsigned(self.targets - 1).itemsize

    def treatment(self) -> str:
        """Describe the share of messages that are redirected."""
        if not self.redirect_probability:
            return "every message goes where it belongs"
        share = f"{100 * self.redirect_probability:.1f} %"
        return f"{share} of messages go to a compute node at random, without their tuple"

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Return the true targets, but with probability σ one of all, drawn uniformly."""
        true = _inputs.targets(values, self.targets)
        redirected = rng.random(len(true)) < self.drawn_probability
        drawn = rng.integers(self.targets, size=len(true))
        return np.where(redirected, drawn, true).astype(_inputs.smallest_unsigned(self.targets - 1))

    def local_delta(self, epsilon: float) -> float:
        """Return the profile of any two targets, rounded up: p − e^ε·r for 0 ≤ ε ≤ ε0."""
        if epsilon >= self.epsilon:
            return 0.0
        if epsilon < 0:  # by symmetry, from the opposite direction
            found = -math.expm1(epsilon) + math.exp(epsilon) * self.local_delta(-epsilon)
            return min(1.0, found + 2.0**-50)
        other = self.drawn_probability / self.targets * math.exp(min(epsilon, _GREATEST))
        return min(1.0, max(0.0, self.kept - other) + 2.0**-50)

    def blanket(self) -> PairLaw:
        """Return the uniform blanket of mass σ; refused at σ = 0, which leaves none.

        All pairs of targets have this same law, which is symmetric: one pair dominates at every ε,
        in both directions.
        """
        if self.targets == 1:
            return PairLaw.of([1.0], [1.0], [1.0])
        return response_blanket(self._odds, self.targets)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at a third target, or at either of the two."""
        return response_attacks(self._odds, self.targets) if self.targets > 1 else ()

    @property
    def _odds(self) -> float:
        """p/r as drawn."""
        share = self.drawn_probability
        if not share:
            raise InvalidParameter(
                "redirect_probability must be above 0 for others to hide a message",
                field="redirect_probability",
            )
        return 1 + (1 - share) * self.targets / share


def _epsilon(targets: int, share: float) -> float:
    """ln(p/r), rounded up; 0 with one target, which reveals nothing."""
    if targets == 1 or share == 1:
        return 0.0
    return math.inf if share == 0 else math.log1p((1 - share) * targets / share) * _ROUND_UP
