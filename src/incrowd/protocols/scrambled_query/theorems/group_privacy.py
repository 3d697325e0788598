"""Curves that add up to the privacy of a plan.

* :class:`GroupProfile`: one mechanism when ``size`` of its messages change instead of one.
* :class:`TogetherProfile`: all that one tuple is charged, by convolving the losses or by adding up
  (ε, δ), whichever is less: adding up has no grid and no floor under δ, convolving is tighter.

Proofs: ``docs/theory/plans.md``. No curve is below the truth; all are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from incrowd import checks
from incrowd.errors import NumericalFloor
from incrowd.privacy.composition import ComposedProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.least import LentProfile

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution

_ROUND = 2.0**-46
_LEAST = 1e-12
_REFERENCE = 1e-6
_RATIO = 1.02
_STEPS = 2000
_HALVINGS = 30
_MOST_ROUNDS = 2000
"""More parts than this are only added up: convolving takes longer than it is worth."""


@dataclass(frozen=True)
class GroupProfile(Profile):
    """``base`` for data that differ in ``size`` of its messages: (c·ε, δ·Σ_{l<c} e^{lε})."""

    base: Profile
    size: int

    def delta(self, epsilon: float) -> float:
        """δ(ε/c)·(e^ε − 1)/(e^{ε/c} − 1); the other direction has the same curve."""
        if epsilon >= self.greatest_loss:
            return 0.0
        if epsilon < 0:
            mirrored = -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
            return min(1.0, mirrored * (1 + _ROUND))
        one = epsilon / self.size
        least = self.base.delta(one)
        if not least or not one:
            return min(1.0, self.size * least)
        # Logarithms, as e^ε may be beyond the range of doubles.
        factor = math.log1p(-math.exp(-epsilon)) - math.log(math.expm1(one)) + epsilon
        return min(1.0, math.exp(min(0.0, math.log(least) + factor)) * (1 + _ROUND))

    def epsilon(self, delta: float) -> float:
        """The first ε on a fine grid with the bound within δ, then halved towards the one before.

        The bound need not fall everywhere, so that a search from above could miss it.
        """
        checks.delta(delta)
        if self.delta(0.0) <= delta:
            return 0.0
        ceiling = self.greatest_loss
        above = within = max(self.size * self.base.epsilon(delta), _LEAST)
        for _ in range(_STEPS):
            if within >= ceiling:
                return ceiling
            if self.delta(within) <= delta:
                break
            above, within = within, within * _RATIO
        else:
            return ceiling
        for _ in range(_HALVINGS):
            middle = (above + within) / 2
            above, within = (above, middle) if self.delta(middle) <= delta else (middle, within)
        return within

    def lower(self, delta: float) -> float | None:
        """An attack on one changed message: more of them tell no less."""
        return self.base.lower(delta)

    @property
    def greatest_loss(self) -> float:
        return ComposedProfile(((self.base, self.size),)).greatest_loss

    @property
    def interval(self) -> float:
        return self.size * self.base.interval

    convolvable = False  # Convolving groups takes longer than it is worth.


@dataclass(frozen=True)
class _OnGrid(LentProfile):
    """A small part on the grid of larger ones, among which its rounding upwards is not seen."""

    spacing: float

    @property
    def interval(self) -> float:
        return self.spacing


@dataclass(frozen=True)
class TogetherProfile(Profile):
    """Adaptive composition of these parts, each as often as it says."""

    parts: tuple[tuple[Profile, int], ...]

    def delta(self, epsilon: float) -> float:
        checks.number(epsilon, "epsilon")
        if self._only is not None:
            return self._only.delta(epsilon)
        if epsilon >= self.greatest_loss:
            return 0.0
        found = self._added_delta(epsilon)
        with suppress(NumericalFloor):
            if self._convolved is not None:
                found = min(found, self._convolved.delta(epsilon))
        return found

    def epsilon(self, delta: float) -> float:
        if self._only is not None:
            return self._only.epsilon(delta)
        found = min(self._added_epsilon(checks.delta(delta)), self.greatest_loss)
        with suppress(NumericalFloor):
            if self._convolved is not None:
                found = min(found, self._convolved.epsilon(delta))
        return found

    def lower(self, delta: float) -> float | None:
        """The strongest attack on any part: other parts never tell less."""
        return ComposedProfile(self.parts).lower(delta)

    def attained(self) -> Sequence[LossDistribution]:
        return () if self._only is None else self._only.attained()

    @property
    def greatest_loss(self) -> float:
        return ComposedProfile(self.parts).greatest_loss

    @property
    def interval(self) -> float:
        return min(part.interval for part, _ in self.parts)

    def losses(self, interval: float) -> LossDistribution:
        convolved = self._convolved
        return super().losses(interval) if convolved is None else convolved.losses(interval)

    @cached_property
    def _only(self) -> Profile | None:
        (part, rounds), *rest = self.parts
        return part if rounds == 1 and not rest else None

    @cached_property
    def _convolved(self) -> ComposedProfile | None:
        many = sum(rounds for _, rounds in self.parts) > _MOST_ROUNDS
        if many or not all(each.convolvable for each, _ in self.parts):
            return None
        # A grid for all parts: that of those which matter, by the mean of the squares.
        squares = sum(rounds * each.interval**2 for each, rounds in self._impure)
        grid = math.sqrt(squares / self._rounds) * (1 - _ROUND) if self._impure else 0.0
        return ComposedProfile(
            tuple(
                (_OnGrid(each, grid) if each.interval < grid else each, rounds)
                for each, rounds in self.parts
            )
        )

    @cached_property
    def _pure(self) -> float:
        """The sum of ε over the parts without δ."""
        pure = ((each.pure_epsilon, rounds) for each, rounds in self.parts)
        return sum(epsilon * rounds for epsilon, rounds in pure if epsilon is not None)

    @cached_property
    def _impure(self) -> tuple[tuple[Profile, int], ...]:
        return tuple((each, rounds) for each, rounds in self.parts if each.pure_epsilon is None)

    @property
    def _rounds(self) -> int:
        return sum(rounds for _, rounds in self._impure)

    def _added_epsilon(self, delta: float) -> float:
        """Σ ε_i at equal shares of δ; parts without δ need none."""
        share = delta / max(1, self._rounds) * (1 - _ROUND)
        found = self._pure + sum(rounds * each.epsilon(share) for each, rounds in self._impure)
        return found * (1 + _ROUND)

    def _added_delta(self, epsilon: float) -> float:
        """Σ δ_i, with ε shared in proportion to what the parts have at one and the same δ."""
        left = epsilon * (1 - _ROUND) - self._pure
        if left < 0:
            return 1.0
        scales = [each.epsilon(_REFERENCE) for each, _ in self._impure]
        if not all(0 < each < math.inf for each in scales):
            scales = [1.0] * len(scales)
        whole = sum(scale * n for scale, (_, n) in zip(scales, self._impure, strict=True))
        found = sum(
            rounds * each.delta(left * scale / whole)
            for scale, (each, rounds) in zip(scales, self._impure, strict=True)
        )
        return min(1.0, found * (1 + _ROUND))
