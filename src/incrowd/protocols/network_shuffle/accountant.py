"""Guarantees of reports that walk from person to person before the curator sees them.

One function per theorem (``docs/theory/network_shuffle.md``, ``network_single.md``,
``network_collusion.md``):

* :func:`people_profile`: the curator, at any number of rounds, person by person: a report is mixed
  with those of its crowd except for its excess. Once the walks have mixed, this is the trusted
  shuffler of the crowd, on any graph;
* :class:`CollisionProfile`: ``single``, from the chance that two copies of a walk meet;
* :class:`SampledProfile`: ``single`` once the walks have mixed: only some reports are kept;
* :func:`exposures`: colluders: the chance that a person is exposed, and the ε otherwise.

None is ever above the guarantee of the randomizer alone, which is all that protects against a view
that includes the hub: it sees who sends to whom.
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
    "what is sent between those who are on to the end arrives before they hand in: with hand_in "
    "single nobody would see that it did not"
)
_MIXED = "the walks are taken as perfectly mixed, as after endless rounds"
NO_TRAFFIC = "the view does not see who sends to whom"

_STICKS_OUT = int(np.searchsorted(SLACKS, 0.5))
_TAIL = 1e-12
"""Charge for a number of kept reports above its bound."""
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
    """Return everyone's curve against the curator, from the mixing of the walks.

    ``kept`` is the expected number of reports that ``single`` keeps once the walks have mixed,
    where that is known. ``attacked`` is the walk when the curator has everyone's reports in mode
    ``all``: the view then tells the crowds apart and holds the multiset of each, so that every
    attack behind a trusted shuffler works, and the report that sticks out most can be looked for
    where it is likely to be. ``doubtful``: the numbers are bounds over all that may have happened,
    and only the theorem made for those applies; ``single`` is a post-processing.
    """
    found = []
    absent = np.zeros(mixing.n, bool) if mixing.absent is None else mixing.absent
    for number in np.unique(mixing.crowds[mixing.crowds >= 0]):
        crowd = np.flatnonzero(mixing.crowds == number)
        members = crowd[~absent[crowd]]
        if not members.size:
            continue
        largest = [_largest_crowd(1 - cut) for cut in mixing.separation[crowd].T]
        others: tuple[Profile, ...] = ()
        if single and kept is not None and members.size == mixing.n:
            slip = float(mixing.variation[members].sum())
            others = (SampledProfile(randomizer, members.size, kept, slip),)
        # The closed form needs a pure randomizer.
        closed = single and randomizer.delta == 0 and len(mixing.cuts) == 1 and not doubtful
        found.append(
            Crowd(
                members=members,
                excess=mixing.excess[members].reshape(members.size, -1),
                sizes=tuple(size for size, _ in largest for _ in SLACKS),
                shares=tuple(share / (1 + slack) for _, share in largest for slack in SLACKS),
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
    """Return the number of people to count on, and the share that each provides at least.

    Of the people with the largest shares, as many as make the expected number of mixed reports
    largest; the others are given up.
    """
    ordered = np.sort(np.maximum(provided, 0.0))[::-1]
    count = int(np.argmax(ordered * np.arange(1, ordered.size + 1))) + 1
    return count, float(ordered[count - 1])


@dataclass(frozen=True)
class CollisionProfile(Profile):
    """``single``: ε = a²S/2 + a√(2S·log(1/δ)) with a = e^ε0·(e^ε0 − 1) and S = Σ P².

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
        checks.delta(delta)
        spread = self._scale * math.sqrt(2 * self.collision * math.log(1 / delta))
        return min(self.local_epsilon, (self._drift + spread) * (1 + 2.0**-48))

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.local_epsilon or (self.collision == 0 and epsilon >= 0):
            return 0.0
        if epsilon <= self._drift:
            return 1.0
        return math.exp(-((epsilon - self._drift) ** 2) / (4 * self._drift)) * (1 + 2.0**-40)

    @property
    def interval(self) -> float:
        """Share of the standard deviation of the loss."""
        return min(self.local_epsilon, math.sqrt(2 * self._drift) or self.local_epsilon) / 40

    @property
    def greatest_loss(self) -> float:
        return self.local_epsilon


@dataclass(frozen=True)
class SampledProfile(Profile):
    """``single`` once the walks have mixed: a random sample of the reports, shuffled.

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
        # More reports than this are kept with a probability below the tail that is charged.
        room = math.sqrt(self.n * math.log(1 / _TAIL) / 2)
        return min(self.n, math.ceil(self.kept + room) + 1)

    def delta(self, epsilon: float) -> float:
        """Return the bound; below zero the mirrored one, as it holds in both directions."""
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
        ceiling = LocalProfile(self.randomizer).epsilon(delta)
        guess = blanket_profile(self.randomizer, self._most).epsilon(delta)
        if self.delta(ceiling * (1 - 1e-6)) > delta:
            return ceiling
        return crossing(self.delta, delta, guess, ceiling).within

    @property
    def interval(self) -> float:
        return blanket_profile(self.randomizer, self._most).interval

    @property
    def greatest_loss(self) -> float:
        return LocalProfile(self.randomizer).greatest_loss


@dataclass(frozen=True, eq=False)
class Exposures:
    """Each person's chance of being exposed by colluders, and the ε of those who are not.

    Colluders have exposure 1 and are not counted in ``worst`` and ``median``, nor are people whose
    reports are surely never seen.
    """

    exposure: Doubles
    epsilon: Doubles
    honest: NDArray[np.bool_]

    @property
    def worst(self) -> int:
        """Honest person with the largest exposure, of those the one with the largest ε."""
        people = np.flatnonzero(self.honest)
        order = np.lexsort((self.epsilon[people], self.exposure[people]))
        return int(people[order[-1]])

    @property
    def median(self) -> tuple[float, float]:
        """Median exposure and median ε."""
        found = np.stack([self.exposure, self.epsilon])[:, self.honest]
        exposure, epsilon = np.quantile(found, 0.5, axis=1, method="higher").tolist()
        return exposure, epsilon


def exposures(mixing: Mixing, randomizer: Randomizer, delta: float) -> Exposures:
    """Return, per person, the least exposure whose conditional ε is close to the least."""
    ceiling = LocalProfile(randomizer).epsilon(delta)
    exposure, epsilon = np.ones(mixing.n), np.full(mixing.n, ceiling)
    honest = mixing.crowds >= 0
    if mixing.absent is not None:
        honest &= ~mixing.absent
    for number in np.unique(mixing.crowds[honest]):
        members = np.flatnonzero(honest & (mixing.crowds == number))
        chance = mixing.excess[members].reshape(members.size, -1)
        missing = chance if mixing.unseen is None else chance + mixing.unseen[members, None]
        largest = [_largest_crowd(1 - cut) for cut in mixing.separation[members].T]
        options = [(size, share / (1 + slack)) for size, share in largest for slack in SLACKS]
        bounds = [
            _conditional(randomizer, *option, column, delta)
            for option, column in zip(options, missing.T, strict=True)
        ]
        bound = np.minimum(np.column_stack(bounds), ceiling)
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
    # People with a similar chance of being mixed are taken together.
    found = np.full(missing.size, math.inf)
    tiers = np.searchsorted(_TIERS, missing)
    for at in np.unique(tiers[tiers < len(_TIERS)]).tolist():
        joined = (1 - _TIERS[at]) * share * (1 - 2.0**-40)
        found[tiers == at] = mixed_crowd(randomizer, size, joined).epsilon(delta)
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
    """Join a curve with its assumptions, those of the route included.

    People see what passes through them, so that the curve holds for this ``coalition`` alone.
    """
    return Guarantee(
        profile=profile,
        view=frozenset({"curator"}),
        theorem=_COLLUSION if coalition else ATTENDANCE if doubtful else THEOREM,
        assumptions=(
            _HONEST_OTHERS if coalition else _HONEST_PEERS,
            _INDEPENDENT_WALKS,
            _SAME_RANDOMIZER,
            NO_TRAFFIC,
            *(_DOUBTS if doubtful else (_ABSENCES,) if absent else ()),
            *((_ARRIVED,) if single else ()),
            *((_MIXED,) if stationary else ()),
            *assumptions,
            *drawing(randomizer),
        ),
        colluders=len(coalition),
        coalition=coalition or None,
    )
