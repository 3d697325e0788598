"""The privacy of a walk on the complete graph whose path is hidden.

Every holder, the first one too, is drawn uniformly from all n people, and no participant learns
from whom the token came nor where it goes. The view of the observer and its helpers is computed
from the T increments of the token, in which each of the others is equally likely to be the holder
at a step that is not their own: T uses of a mechanism that samples one of n − c people. Steps that
read the token are allowed; steps that count the holder's own visits are not. See
``docs/theory/token_walk.md``.

The lower bound is an attack on the view that the observer really has: the token at its last visit,
with all others holding the same value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from incrowd import checks
from incrowd.errors import InvalidCrowd
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import SampledProfile
from incrowd.privacy.search import crossing
from incrowd.protocols.token_walk.theorems import visit_counts
from incrowd.randomizers.base import FloatArray
from incrowd.randomizers.law import PairLaw

_NARROW = 0.1
_TINY = 1e-290
_DEVIATIONS = np.linspace(-1.0, 8.0, 28)
_ROUND = 1e-9


def coalition(n: int, colluders: int, at_least: int = 2) -> int:
    """Return the number of observers; enough others must be left to hide the victim."""
    together = 1 + checks.integer(colluders, "colluders", 0)
    if checks.crowd(n) - together < at_least:
        raise InvalidCrowd(
            f"{n} people of whom {together} observe leave {max(n - together, 0)}, and at least "
            f"{at_least} must be left to hide each other: take more people or fewer colluders"
        )
    return together


@dataclass(frozen=True)
class HiddenWalkProfile(Profile):
    """``steps`` uses of ``one``, each on an unknown one of n − 1 − colluders people.

    The curve against a peer and ``colluders`` who help it, whose own steps tell nothing; ``one`` is
    that of a single contribution seen alone.
    """

    one: Profile
    n: int
    steps: int
    colluders: int = 0

    def __post_init__(self) -> None:
        coalition(self.n, self.colluders)
        checks.integer(self.steps, "steps", 1)

    @cached_property
    def all_steps(self) -> RepeatedProfile:
        """The curve of a view of every increment without its owner."""
        others = self.n - coalition(self.n, self.colluders)
        return RepeatedProfile(SampledProfile(self.one, 1 / others, others / self.n), self.steps)

    def delta(self, epsilon: float) -> float:
        return self.all_steps.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        return self.all_steps.epsilon(delta)

    def lower(self, delta: float) -> float | None:
        """The ε of an attack on the token at the observer's last visit, its time known; or none."""
        if self.one.normal_shift is not None:
            attack: Callable[[float], float] = self._sum_attack(self.one.normal_shift)
        elif known := self.one.attack():
            laws = [self._count_attack(each) for law in known for each in (law, law.swapped())]
            attack = lambda epsilon: max(each(epsilon) for each in laws)  # noqa: E731
        else:
            return None
        ceiling = self.all_steps.epsilon(delta)
        return crossing(attack, checks.delta(delta), ceiling * 0.9, ceiling, 1e-4, 1.2).above

    @property
    def greatest_loss(self) -> float:
        return self.all_steps.greatest_loss

    @property
    def interval(self) -> float:
        return self.all_steps.interval

    def _seen(self, width: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        # At its own steps the observer puts in what another would, so that all steps are alike.
        return visit_counts.last_visit(self.n, 1 + self.colluders, self.steps, width)

    def _sum_attack(self, shift: float) -> Callable[[float], float]:
        parts = []
        width = visit_counts.few_stretches(self.n, 1 + self.colluders)
        for chance, fewest, most in zip(*self._seen(width), strict=True):
            if fewest > 0:
                number = visit_counts.visits(int(fewest), 1 / self.n).merged()
                parts.append((chance, visit_counts.ShiftedSum(number, shift / math.sqrt(most))))
        return lambda epsilon: sum(chance * part.attack(epsilon) for chance, part in parts)

    def _count_attack(self, law: PairLaw) -> Callable[[float], float]:
        """Count the reports that the victim's first value makes likelier than the second."""
        from scipy.special import betainc

        sign = law.a > law.b
        share = float(law.mass[sign].sum())
        first, second = (
            share + (float((density * law.mass)[sign].sum()) - share) / self.n
            for density in (law.a, law.b)
        )
        # Stretches are so short that their number of steps matters less than the victim.
        width = max(1, math.ceil(_NARROW * self.steps * (first - second) / second))
        chance, fewest, most = (each[:, None] for each in self._seen(width))
        centre = most * second + _DEVIATIONS * np.sqrt(most * second * (1 - second))
        # At least this many; a test that is never or always passed tells nothing.
        threshold = np.clip(np.ceil(centre), 1, np.maximum(fewest, 1))
        told = np.where(fewest > 0, betainc(threshold, fewest - threshold + 1, first), 0.0)
        untold = np.log(np.maximum(betainc(threshold, most - threshold + 1, second), _TINY))

        def attack(epsilon: float) -> float:
            other = np.exp(np.minimum(epsilon + untold, 1.0))
            found = told * (1 - _ROUND) - other * (1 + _ROUND)
            return float(chance[:, 0] @ np.maximum(found.max(axis=1), 0.0))

        return attack
