"""The curve of people whose reports are mixed with those of others imperfectly.

With probability at most x, the *excess*, a person's report stays recognisable; otherwise it is
shuffled uniformly with those of a crowd of n people, each of whom joins with probability w at
least. Then, for every ε and in both directions,

    δ(ε) ≤ x·δ_local(ε) + (1 − x)·F(ε),

where F is the blanket functional of the law in which masses are multiplied by w and values divided
by it. A protocol may offer several such :class:`Option` per person; each is proven on its own, so
the best one may be taken at every ε. Proof: ``docs/theory/network_shuffle.md``.

People differ, so the curve of everyone, :class:`PeopleProfile`, is that of the worst person at each
ε, and ``per_person`` states all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd
from incrowd.privacy.greatest import greatest
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.local import LocalProfile
from incrowd.privacy.pure import PureProfile
from incrowd.privacy.search import crossing
from incrowd.privacy.shuffle import ShuffleProfile
from incrowd.randomizers.base import Randomizer

if TYPE_CHECKING:
    from incrowd.privacy.composition import LossDistribution

Doubles = NDArray[np.float64]


class Attack(Protocol):
    """Something that bounds ε from below."""

    def lower(self, delta: float) -> float | None:
        """An ε that is attained at this δ, or none."""

    def attained(self) -> Sequence[LossDistribution]:
        """The losses that are attained, where they are known."""


Attacks = tuple[Attack, ...]

_FEWEST = 1.5
"""A crowd that is expected to be smaller than this hides nobody."""
_GRID: Final[Doubles] = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 31)])
"""Where curves are evaluated between the best and the worst possible ε."""
_WORTHWHILE = 0.98
_TIERS = (0.0, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95)
"""People whose excess is between two of these are given the share of the worse end."""
_FINE = (*_TIERS[:6], *(1 - 0.98**step for step in range(1, 60)), 0.7, 0.85, 0.95)
"""The same where reports may be unseen: then crowds shrink by that, with hardly any excess."""
_ROUND = 2.0**-40
_FRONT = 64
"""Of more than this many people none of whom is worst at every ε, one worse than all is made."""


@dataclass(frozen=True)
class MixedCrowd(ShuffleProfile):
    """The curve F. Where a small crowd could gain next to nothing over the cap, it is not tried."""

    def epsilon(self, delta: float) -> float:
        """The smallest ε the bound allows at this δ, or that of the cap if it is about as good."""
        cap = self.cap.epsilon(delta)
        return cap if self.unhidden(_WORTHWHILE * cap) > delta else super().epsilon(delta)


@lru_cache(maxsize=512)
def mixed_crowd(randomizer: Randomizer, people: int, share: float) -> Profile:
    """The curve F: a crowd of ``people``, the victim included, whose others join with ``share``."""
    local = LocalProfile(randomizer)
    if people * share < _FEWEST:
        return local
    laws = (law.partially_mixed(share) for law in randomizer.blankets())
    return greatest([MixedCrowd(law, people, local) for law in laws])


@dataclass(frozen=True)
class Option:
    """One proven bound for one person: the excess x, and the curve F."""

    excess: float
    mixed: Profile

    def delta(self, epsilon: float, local: Profile) -> float:
        """x·δ_local + (1 − x)·F, rounded up."""
        plain = self.excess * local.delta(epsilon)
        return (plain + (1 - self.excess) * self.mixed.delta(epsilon)) * (1 + _ROUND)

    def epsilon(self, delta: float, local: Profile) -> float:
        """Where this bound falls to δ."""
        best = self.mixed.epsilon(delta)
        if self.excess == 0:
            return best
        ceiling = local.epsilon(delta)
        if best >= ceiling:
            return ceiling
        guess = min(best * 1.05, (best + ceiling) / 2)
        return crossing(lambda e: self.delta(e, local), delta, guess, ceiling).within


@dataclass(frozen=True)
class MixedProfile(Profile):
    """One person: the best of the options and of ``others``, never worse than the randomizer.

    ``attacks`` are profiles whose lower bounds hold here too.
    """

    randomizer: Randomizer
    options: tuple[Option, ...]
    others: tuple[Profile, ...] = ()
    attacks: Attacks = ()

    @cached_property
    def _local(self) -> LocalProfile:
        return LocalProfile(self.randomizer)

    def delta(self, epsilon: float) -> float:
        """The least that one of the bounds allows."""
        least = self._local.delta(checks.number(epsilon, "epsilon"))
        if least == 0:
            return 0.0
        for option in self.options:
            if option.excess * self._local.delta(epsilon) < least:
                least = min(least, option.delta(epsilon, self._local))
        return min([least, *(other.delta(epsilon) for other in self.others)])

    def epsilon(self, delta: float) -> float:
        """The least ε that one of the bounds allows at this δ, rounded up."""
        least = min([self._local.epsilon(delta), *(other.epsilon(delta) for other in self.others)])
        for option in self.options:
            # One look tells whether an option does better than the best so far.
            if option.delta(least * (1 - 1e-5), self._local) <= delta:
                least = min(least, option.epsilon(delta, self._local))
        return least

    def lower(self, delta: float) -> float | None:
        """The best of the attacks."""
        found = (attack.lower(delta) for attack in self.attacks)
        return max((each for each in found if each is not None), default=None)

    def attained(self) -> Sequence[LossDistribution]:
        """Losses of the attacks whose losses are known."""
        return tuple(losses for attack in self.attacks for losses in attack.attained())

    @property
    def greatest_loss(self) -> float:
        """No loss is above that of a report seen alone."""
        return self._local.greatest_loss

    @property
    def interval(self) -> float:
        """The finest spacing that any of the bounds needs."""
        curves = (*(option.mixed for option in self.options), *self.others)
        return min([self._local.interval, *(curve.interval for curve in curves)])


@dataclass(frozen=True, eq=False)
class Crowd:
    """People who are mixed with each other, under a list of options.

    Under option o the i-th member has ``excess[i, o]``, and ``sizes[o]`` people, the member
    included, join with probability ``(1 − unseen − excess)·shares[o]`` at least, where
    ``unseen[i]`` is the chance that the member's report is never seen at all. ``others`` hold for
    every member. ``alone(level)`` is one more proven curve, worse the higher the ``levels`` of a
    member. ``attacks`` work on every member.
    """

    members: NDArray[np.intp]
    excess: Doubles
    sizes: tuple[int, ...]
    shares: tuple[float, ...]
    others: tuple[Profile, ...] = ()
    alone: Callable[[float], Profile] | None = None
    levels: Doubles | None = None
    unseen: Doubles | None = None
    attacks: Attacks = ()

    @cached_property
    def rows(self) -> Doubles:
        """All that tells one member from another: excess, level, and what is unseen."""
        size = self.members.size
        level = np.zeros(size) if self.levels is None else self.levels
        unseen = np.zeros(size) if self.unseen is None else self.unseen
        return np.column_stack([self.excess, level, unseen])

    def options(self, randomizer: Randomizer) -> Iterator[tuple[Doubles, Profile]]:
        """Each option as the members' excess under it and its curve F.

        Those of similar excess share a curve; everyone else's excess is given as one.
        """
        settled = 0.0
        for at, (size, share) in enumerate(zip(self.sizes, self.shares, strict=True)):
            excess = self.excess[:, at]
            if size * share <= settled:
                continue  # Someone else's option gives up less of the crowd, at no excess.
            if not excess.any():
                settled = size * share
            missing = excess if self.unseen is None else excess + self.unseen
            for low, high in pairwise(_TIERS if self.unseen is None else _FINE):
                inside = (missing >= low) & (missing < high)
                joined = _down((1 - high) * share)
                if inside.any() and size * joined >= _FEWEST:
                    curve = mixed_crowd(randomizer, size, joined)
                    yield np.where(inside, excess, 1.0), curve

    def profile(self, randomizer: Randomizer, row: Doubles) -> MixedProfile:
        """The curve of a member with this row."""
        *excess, level, unseen = row.tolist()
        one = Crowd(
            np.zeros(1, np.intp), np.array([excess]), self.sizes, self.shares,
            unseen=np.array([unseen]),
        )  # fmt: skip
        options = tuple(Option(float(x[0]), curve) for x, curve in one.options(randomizer))
        others = self.others if self.alone is None else (*self.others, self.alone(level))
        return MixedProfile(randomizer, options, others, self.attacks)


@dataclass(frozen=True, eq=False)
class PeopleProfile(Profile):
    """Everyone in a crowd: the worst person at each ε.

    Whoever of ``people`` is in no crowd is not protected: they take part in the attack, unless they
    are ``absent``: nothing of theirs is ever seen. ``attacks`` are on whomever they please.
    """

    randomizer: Randomizer
    crowds: tuple[Crowd, ...]
    people: int
    attacks: Attacks = ()
    absent: frozenset[int] = frozenset()

    @cached_property
    def _local(self) -> LocalProfile:
        return LocalProfile(self.randomizer)

    def person(self, who: int) -> MixedProfile:
        """The curve of one person."""
        if not 0 <= who < self.people:
            raise InvalidCrowd(f"person {who} is not one of 0 to {self.people - 1}")
        for crowd in self.crowds:
            at = np.flatnonzero(crowd.members == who)
            if at.size:
                return crowd.profile(self.randomizer, crowd.rows[at[0]])
        return MixedProfile(self.randomizer, (), (PureProfile(0.0),) if who in self.absent else ())

    @cached_property
    def _worst(self) -> tuple[MixedProfile, ...]:
        """The people who can be the worst ones at some ε, those in the smallest crowds first."""
        found = [
            crowd.profile(self.randomizer, row)
            for crowd in sorted(self.crowds, key=lambda crowd: crowd.members.size)
            for row in _front(crowd.rows)
        ]
        return tuple(found)

    def delta(self, epsilon: float) -> float:
        """The largest δ of anyone; of a mechanism that tells nothing where nobody is protected."""
        ceiling = self._local.delta(epsilon)
        most = -math.expm1(min(epsilon, 0.0))
        for profile in self._worst:
            most = max(most, profile.delta(epsilon))
            if most >= ceiling:
                break
        return most

    def epsilon(self, delta: float) -> float:
        """The largest ε of anyone, rounded up."""
        most, ceiling = 0.0, self._local.epsilon(delta)
        for profile in self._worst:
            most = max(most, profile.epsilon(delta))
            if most >= ceiling:
                break
        return most

    def deltas(self, epsilon: float) -> Doubles:
        """The δ of each person at this ε; one evaluation per option, so cheaper than their ε."""
        local = self._local.delta(checks.number(epsilon, "epsilon"))
        found = np.full(self.people, local)
        for crowd in self.crowds:
            best = np.full(crowd.members.size, local)
            for excess, curve in crowd.options(self.randomizer):
                if excess.min() < 1 and local > 0:
                    bound = (excess * local + (1 - excess) * curve.delta(epsilon)) * (1 + _ROUND)
                    best = np.minimum(best, bound)
            for other in crowd.others:
                best = np.minimum(best, other.delta(epsilon))
            if crowd.alone is not None and crowd.levels is not None:
                alone = [crowd.alone(level).delta(epsilon) for level in crowd.levels.tolist()]
                best = np.minimum(best, alone)
            found[crowd.members] = best
        found[list(self.absent)] = -math.expm1(min(epsilon, 0.0))
        return found

    def per_person(self, delta: float) -> Doubles:
        """The ε of each person, rounded up to a grid that is fine where it matters."""
        checks.delta(delta)
        ceiling = self._local.epsilon(delta)
        found = np.full(self.people, ceiling)
        for crowd in self.crowds:
            best = np.full(crowd.members.size, ceiling)
            for excess, curve in crowd.options(self.randomizer):
                # Nobody does better than the curve itself, so one look may settle it.
                if curve.delta(float(best[excess < 1].max(initial=0.0)) * (1 - 1e-5)) <= delta:
                    best = np.minimum(best, self._interpolated(curve, delta, ceiling, excess))
            for other in crowd.others:
                best = np.minimum(best, other.epsilon(delta))
            if crowd.alone is not None and crowd.levels is not None:
                alone = [crowd.alone(level).epsilon(delta) for level in crowd.levels.tolist()]
                best = np.minimum(best, alone)
            found[crowd.members] = best
        found[list(self.absent)] = 0.0
        return found

    def _interpolated(
        self, curve: Profile, delta: float, ceiling: float, excess: Doubles
    ) -> Doubles:
        """The ε of one option for many values of the excess at once.

        The true δ is convex in e^ε, so that it lies below a chord between two of its upper bounds:
        where the chord falls to δ is an upper bound of ε.
        """
        found = np.full(excess.size, ceiling)
        # Whoever has more excess than this is not helped.
        least = self._local.delta(ceiling * (1 - 1e-3))
        useful = np.flatnonzero(excess * least <= delta) if least > 0 else np.arange(excess.size)
        best = curve.epsilon(delta) if useful.size else ceiling
        if best >= ceiling:
            return found
        found[useful[excess[useful] == 0]] = best
        useful = useful[excess[useful] > 0]
        if not useful.size:
            return found
        epsilons = best + (ceiling - best) * _GRID
        plain = np.array([self._local.delta(epsilon) for epsilon in epsilons])
        mixed = np.array([curve.delta(epsilon) for epsilon in epsilons])
        x = excess[useful, None]
        bound = (x * plain + (1 - x) * mixed) * (1 + _ROUND)
        enough = bound <= delta
        at = np.where(enough.any(axis=1), enough.argmax(axis=1), len(_GRID) - 1)
        before = np.maximum(at - 1, 0)
        rows = np.arange(useful.size)
        high, low = bound[rows, before], bound[rows, at]
        grown = np.expm1(epsilons)
        step = np.where(high > low, (high - delta) / np.maximum(high - low, 1e-300), 1.0)
        crossed = np.log1p(grown[before] + np.clip(step, 0.0, 1.0) * (grown[at] - grown[before]))
        found[useful] = np.where(enough.any(axis=1), np.where(at > 0, crossed, best), ceiling)
        return found

    def lower(self, delta: float) -> float | None:
        """The best of the attacks, whomever it is on."""
        return self._attacked.lower(delta)

    def attained(self) -> Sequence[LossDistribution]:
        """Losses of the attacks whose losses are known."""
        return self._attacked.attained()

    @property
    def _attacked(self) -> MixedProfile:
        """All attacks: those on a crowd work best on the smallest."""
        smallest = min(self.crowds, key=lambda crowd: crowd.members.size, default=None)
        on_crowds = () if smallest is None else smallest.attacks
        return MixedProfile(self.randomizer, (), (), (*on_crowds, *self.attacks))

    @property
    def greatest_loss(self) -> float:
        """No loss is above that of a report seen alone."""
        return self._local.greatest_loss

    @property
    def interval(self) -> float:
        """The finest spacing that anyone's curve needs; the randomizer's own without any."""
        spacings = (profile.interval for profile in self._worst)
        return min(spacings, default=self._local.interval)


def _front(rows: Doubles) -> list[Doubles]:
    """The rows that no other row exceeds everywhere, or a few that together exceed all."""
    left = np.unique(rows, axis=0)
    front: list[Doubles] = []
    while left.size:
        if len(front) == _FRONT:
            return [*front, left.max(axis=0)]
        worst = left[left.sum(axis=1).argmax()]
        front.append(worst)
        left = left[(left > worst).any(axis=1)]
    return front


def _down(share: float) -> float:
    """A probability, lowered by more than the rounding of how it was computed."""
    return min(1.0, share) * (1 - _ROUND) if share < 1 else 1.0
