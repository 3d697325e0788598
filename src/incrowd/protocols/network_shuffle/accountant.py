"""What is proven when reports walk from person to person before the curator sees them.

One function per theorem (``docs/theory/network_shuffle.md``, ``network_single.md``,
``network_collusion.md``):

* :func:`people_profile`: the curator, at any number of rounds, person by person: a report is mixed
  with those of its crowd except for its excess. Once the walks have mixed, this is the trusted
  shuffler of the crowd, on any graph;
* :class:`CollisionProfile`: mode ``single``, from the chance that two copies of a walk meet;
* :class:`SampledProfile`: mode ``single`` once the walks have mixed: only some reports are kept;
* :func:`exposures`: colluders: with what probability a person is exposed, and the ε otherwise.

None is ever above what the randomizer promises alone. A view that includes the hub sees who sends
to whom: there only the randomizer protects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.privacy import Guarantee, LocalProfile, Profile
from incrowd.privacy.mechanisms.local import drawing
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.privacy.mixed import Attacks, Crowd, PeopleProfile, mixed_crowd
from incrowd.privacy.search import crossing
from incrowd.protocols.network_shuffle.theorems.attack import NeighbourhoodAttack
from incrowd.protocols.network_shuffle.theorems.mixing import SLACKS, Mixing
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.randomizers.base import Randomizer

Doubles = NDArray[np.float64]

ATTENDANCE = "network shuffling with doubtful devices (docs/theory/network_attendance.md)"
THEOREM = "network shuffling (docs/theory/network_shuffle.md)"
_COLLUSION = "network shuffling with colluders (docs/theory/network_collusion.md)"

_HONEST_PEERS = "the people on the way forward at random and tell nobody what passed"
_HONEST_OTHERS = (
    "everyone but the colluders, who were named or drawn, forwards at random and tells nobody "
    "what passed"
)
_INDEPENDENT_WALKS = "who is there, and where reports go, does not depend on the data"
_SAME_RANDOMIZER = "every other person uses the same randomizer honestly"
_ABSENCES = "who was away when is public, and depends on neither the data nor the walks"
_DOUBTS = (
    "(I) when devices are on, and what the network delays or loses, depends on neither the data "
    "nor the walks",
    "(F) given that, what becomes of a report depends on its own way alone",
    "(N) a message sent by the end of a window arrives by that of the next if both devices are on "
    "in it, as they are where neither they nor a hub say otherwise, and between those who were on "
    "to the end all arrived before they handed in",
)
_ARRIVED = (
    "what is sent between those who are on to the end arrives before they hand in: in mode single "
    "nobody would see that it did not"
)
_MIXED = "the walks are taken as perfectly mixed, as after endless rounds"
NO_TRAFFIC = "the view does not see who sends to whom"

_STICKS_OUT = int(np.searchsorted(SLACKS, 0.5))
_TAIL = 1e-12
"""What is charged for a number of kept reports above its bound."""
_TIERS = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9)
_HIDDEN = 0.99
_NEARLY = 1.1
"""Of all ways to trade exposure for ε: the least exposure within this factor of the least ε."""


def people_profile(
    mixing: Mixing,
    randomizer: Randomizer,
    *,
    single: bool,
    kept: float | None = None,
    attacked: Walk | None = None,
    doubtful: bool = False,
) -> PeopleProfile:
    """Everyone's curve against the curator, from how well the walks have mixed.

    ``kept`` is the expected number of reports that mode ``single`` keeps once the walks have mixed,
    where that is known. ``attacked`` is the walk when the curator has everyone's reports in mode
    ``all``. Then the view tells the crowds apart and holds the multiset of each, so that every
    attack behind a trusted shuffler works; and the person whose report sticks out most can be
    looked for where it is likely to be. ``doubtful``: the numbers are bounds over all that may have
    happened, so that only the theorem made for those applies; mode ``single`` is a post-processing.
    """
    found = []
    absent = np.zeros(mixing.n, bool) if mixing.absent is None else mixing.absent
    for number in np.unique(mixing.crowds[mixing.crowds >= 0]):
        crowd = np.flatnonzero(mixing.crowds == number)
        members = crowd[~absent[crowd]]
        if not members.size:
            continue
        sizes, shares, rows = [], [], []
        for cut in range(len(mixing.cuts)):
            size, share = _largest_crowd(1 - mixing.separation[crowd, cut])
            for level, slack in enumerate(SLACKS):
                sizes.append(size)
                shares.append(share / (1 + slack))
                rows.append(mixing.excess[members, cut, level])
        others: tuple[Profile, ...] = ()
        if single and kept is not None and members.size == mixing.n:
            slip = float(mixing.variation[members].sum())
            others = (SampledProfile(randomizer, members.size, kept, slip),)
        # The closed form needs a pure randomizer.
        closed = single and randomizer.delta == 0 and len(mixing.cuts) == 1 and not doubtful
        found.append(
            Crowd(
                members=members,
                excess=np.column_stack(rows),
                sizes=tuple(sizes),
                shares=tuple(shares),
                others=others,
                alone=partial(CollisionProfile, randomizer.epsilon) if closed else None,
                levels=mixing.collision[members] if closed else None,
                unseen=None if mixing.unseen is None else mixing.unseen[members],
                attacks=() if attacked is None else (blanket_profile(randomizer, members.size),),
            )
        )
    hunt: Attacks = ()
    if attacked is not None and mixing.route == "exact" and len(mixing.cuts) == 1:
        victim = int(mixing.excess[:, 0, _STICKS_OUT].argmax())
        hunt = (NeighbourhoodAttack(attacked, mixing.rounds, victim, randomizer),)
    gone = frozenset(np.flatnonzero(absent).tolist())
    return PeopleProfile(randomizer, tuple(found), mixing.n, hunt, gone)


def _largest_crowd(provided: Doubles) -> tuple[int, float]:
    """The people to count on, and the share that each of them provides at least.

    Of the people with the largest shares, as many as make the expected number of mixed reports
    largest; the others are given up.
    """
    ordered = np.sort(np.maximum(provided, 0.0))[::-1]
    count = int(np.argmax(ordered * np.arange(1, ordered.size + 1))) + 1
    return count, float(ordered[count - 1])


@dataclass(frozen=True)
class CollisionProfile(Profile):
    """Mode ``single``: ε = a²S/2 + a√(2S·log(1/δ)) with a = e^ε0·(e^ε0 − 1) and S = Σ P².

    At most one position of the view depends on the victim, and which one is as spread out as the
    victim's walk: ``docs/theory/network_single.md``.
    """

    local_epsilon: float
    collision: float

    @property
    def _scale(self) -> float:
        return math.exp(self.local_epsilon) * math.expm1(self.local_epsilon) * (1 + 2.0**-48)

    @property
    def _drift(self) -> float:
        return self._scale**2 * self.collision / 2

    def epsilon(self, delta: float) -> float:
        """The closed form, or ε0 where that is less."""
        checks.delta(delta)
        spread = self._scale * math.sqrt(2 * self.collision * math.log(1 / delta))
        return min(self.local_epsilon, (self._drift + spread) * (1 + 2.0**-48))

    def delta(self, epsilon: float) -> float:
        """The closed form solved for δ."""
        if epsilon >= self.local_epsilon or (self.collision == 0 and epsilon >= 0):
            return 0.0
        if epsilon <= self._drift:
            return 1.0
        return math.exp(-((epsilon - self._drift) ** 2) / (4 * self._drift)) * (1 + 2.0**-40)

    @property
    def interval(self) -> float:
        """A share of the standard deviation of the loss."""
        return min(self.local_epsilon, math.sqrt(2 * self._drift) or self.local_epsilon) / 40

    @property
    def greatest_loss(self) -> float:
        """ε0: no loss is above that of a report seen alone."""
        return self.local_epsilon


@dataclass(frozen=True)
class SampledProfile(Profile):
    """Mode ``single`` once the walks have mixed: a random sample of the reports, shuffled.

    At most K of n reports are kept, up to a small probability, so
    δ(ε') ≤ (K/n)·δ_shuffle(ε; K) + Pr[more]·δ_shuffle(ε'; n) + (e^ε' + 1)·slip, where
    e^ε' − 1 = (K/n)(e^ε − 1), and ``slip`` is the sum of everyone's distance from the common law:
    ``docs/theory/network_single.md``.
    """

    randomizer: Randomizer
    n: int
    kept: float
    slip: float

    @property
    def _most(self) -> int:
        """More reports than this are kept with a probability below the tail that is charged."""
        room = math.sqrt(self.n * math.log(1 / _TAIL) / 2)
        return min(self.n, math.ceil(self.kept + room) + 1)

    def delta(self, epsilon: float) -> float:
        """The bound; below zero the mirrored one, as it holds in both directions."""
        if epsilon < 0:
            mirrored = -math.expm1(epsilon) + math.exp(epsilon) * self.delta(-epsilon)
            return min(1.0, mirrored * (1 + 2.0**-40))
        if epsilon > 500:
            return min(1.0, LocalProfile(self.randomizer).delta(epsilon))
        rate = self._most / self.n
        inner = math.log1p(math.expm1(epsilon) / rate) * (1 - 2.0**-48)
        sampled = rate * blanket_profile(self.randomizer, self._most).delta(inner)
        tail = 0.0 if self._most == self.n else _TAIL
        slipped = (math.exp(epsilon) + 1) * self.slip
        return min(1.0, (sampled + tail + slipped) * (1 + 2.0**-40))

    def epsilon(self, delta: float) -> float:
        """Where the bound falls to δ, or what the randomizer promises where it does not."""
        ceiling = LocalProfile(self.randomizer).epsilon(delta)
        guess = blanket_profile(self.randomizer, self._most).epsilon(delta)
        if self.delta(ceiling * (1 - 1e-6)) > delta:
            return ceiling
        return crossing(self.delta, delta, guess, ceiling).within

    @property
    def interval(self) -> float:
        """That of the shuffled sample."""
        return blanket_profile(self.randomizer, self._most).interval

    @property
    def greatest_loss(self) -> float:
        """No loss is above that of a report seen alone."""
        return LocalProfile(self.randomizer).greatest_loss


@dataclass(frozen=True, eq=False)
class Exposures:
    """With colluders: each person's chance of being exposed, and the ε of those who are not.

    Colluders themselves have exposure 1 and are not counted in ``worst`` and ``median``, nor are
    people whose reports are surely never seen.
    """

    exposure: Doubles
    epsilon: Doubles
    honest: NDArray[np.bool_]

    @property
    def worst(self) -> int:
        """The honest person with the largest exposure, of those the one with the largest ε."""
        people = np.flatnonzero(self.honest)
        order = np.lexsort((self.epsilon[people], self.exposure[people]))
        return int(people[order[-1]])

    @property
    def median(self) -> tuple[float, float]:
        """The median exposure and the median ε."""
        return tuple(
            float(np.quantile(each[self.honest], 0.5, method="higher"))
            for each in (self.exposure, self.epsilon)
        )  # type: ignore[return-value]


def exposures(mixing: Mixing, randomizer: Randomizer, delta: float) -> Exposures:
    """Per person: the least exposure whose conditional ε is close to the least there is."""
    ceiling = LocalProfile(randomizer).epsilon(delta)
    exposure, epsilon = np.ones(mixing.n), np.full(mixing.n, ceiling)
    honest = mixing.crowds >= 0
    if mixing.absent is not None:
        honest &= ~mixing.absent
    for number in np.unique(mixing.crowds[honest]):
        members = np.flatnonzero(honest & (mixing.crowds == number))
        chances, bounds = [], []
        for cut in range(len(mixing.cuts)):
            size, share = _largest_crowd(1 - mixing.separation[members, cut])
            for level, slack in enumerate(SLACKS):
                chance = mixing.excess[members, cut, level]
                chances.append(chance)
                missing = chance if mixing.unseen is None else chance + mixing.unseen[members]
                bounds.append(_conditional(randomizer, size, share / (1 + slack), missing, delta))
        chance, bound = np.column_stack(chances), np.minimum(np.column_stack(bounds), ceiling)
        near = bound <= _NEARLY * bound.min(axis=1, keepdims=True)
        at = np.where(near, chance, np.inf).argmin(axis=1)
        rows = np.arange(members.size)
        # Where even the best ε is about ε0, nothing hides: there is no chance to speak of.
        hidden = bound[rows, at] < _HIDDEN * ceiling
        exposure[members] = np.where(hidden, chance[rows, at], 1.0)
        epsilon[members] = bound[rows, at]
    return Exposures(exposure, epsilon, honest)


def _conditional(
    randomizer: Randomizer, size: int, share: float, missing: Doubles, delta: float
) -> Doubles:
    """The ε of those who are mixed; people with a similar chance of that are taken together."""
    found = np.full(missing.size, math.inf)
    low = -1.0
    for tier in _TIERS:
        inside = (missing > low) & (missing <= tier)
        if inside.any():
            joined = (1 - tier) * share * (1 - 2.0**-40)
            found[inside] = mixed_crowd(randomizer, size, joined).epsilon(delta)
        low = tier
    return found


def network_guarantee(
    profile: Profile,
    randomizer: Randomizer,
    *,
    assumptions: tuple[str, ...],
    coalition: frozenset[int],
    absent: bool = False,
    doubtful: bool = False,
    single: bool = False,
    stationary: bool = False,
) -> Guarantee:
    """A curve together with what it rests on; ``assumptions`` are those of the route.

    People see what passes through them, so that the curve holds for this ``coalition`` alone.
    """
    named = [_HONEST_PEERS, _INDEPENDENT_WALKS, _SAME_RANDOMIZER, NO_TRAFFIC]
    if coalition:
        named[0] = _HONEST_OTHERS
    if doubtful:
        named.extend(_DOUBTS)
    elif absent:
        named.append(_ABSENCES)
    if single:
        named.append(_ARRIVED)
    if stationary:
        named.append(_MIXED)
    return Guarantee(
        profile=profile,
        view=frozenset({"curator"}),
        theorem=_COLLUSION if coalition else ATTENDANCE if doubtful else THEOREM,
        assumptions=(*named, *assumptions, *drawing(randomizer)),
        colluders=len(coalition),
        coalition=coalition or None,
    )
