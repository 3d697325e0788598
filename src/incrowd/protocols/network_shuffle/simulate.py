"""A whole population at once: everyone randomizes, all reports walk, everyone hands in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.graphs.walk import walk as move
from incrowd.protocols.local.simulate import draw
from incrowd.protocols.network_shuffle.theorems.attendance import UNKNOWN
from incrowd.protocols.network_shuffle.theorems.walk import Bools, Walk
from incrowd.protocols.runtime.wire import public_values
from incrowd.randomizers.base import Randomizer, Reports
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected, Dummies

Handing = Literal["all", "single"]
"""Hand in all reports held, or a single one of them, or a dummy instead of none."""


@dataclass(frozen=True, repr=False)
class Walked(Collected):
    """Reports handed in, their holders, and absences.

    ``holders[i]`` handed in report i. ``away[r, v]``: v missed round r; none without absences.
    ``silent`` people handed in no reports. ``attendance`` has a row for every window and a column
    for everyone; none when all were on from first to last, and in a simulated walk. ``load`` counts
    the reports that everyone held at the end, and ``lost`` those that never arrived, dropped ones
    included: with hand_in ``single`` unknown but to a simulation.
    """

    holders: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    away: Bools | None = None
    silent: Bools | None = None
    attendance: NDArray[np.int8] | None = None
    load: NDArray[np.int64] | None = None
    lost: int = 0

    @property
    def vanished(self) -> bool:
        return self.attendance is not None and bool((self.attendance == UNKNOWN).any())


def collect(
    randomizer: Randomizer,
    values: NDArray[Any],
    walk: Walk,
    rounds: int,
    hand_in: Handing,
    seeds: Seeds,
) -> Walked:
    """Return everyone's reports, walked and handed in."""
    n, away = walk.n, walk.away_table(rounds)
    reports = draw(randomizer, values, seeds.generator("device", 0))
    ends = np.arange(n, dtype=np.int32)
    # People without neighbours keep what they hold.
    moving = np.flatnonzero(walk.together.degrees)
    if rounds and moving.size:
        graphs, rng = walk.sequence(rounds), seeds.generator("walk")
        ends[moving] = move(graphs, moving, rounds, rng, walk.laziness, away=away)
    rng, begun = seeds.generator("order"), walk.begun(rounds)
    order = rng.permutation(n)
    order = order[begun[order]]
    holders, handed_in = ends[order], reports[order]
    load = np.bincount(ends[begun], minlength=n)
    dummies = None
    if hand_in == "single":
        # In random order, the first report of each holder is a uniform choice among theirs.
        chosen, first = np.unique(holders, return_index=True)
        empty = np.flatnonzero(load == 0).astype(np.int32)
        made = make_dummies(randomizer, empty.size, seeds.generator("dummy"))
        again = rng.permutation(n)
        holders = np.concatenate([chosen, empty])[again]
        handed_in = np.concatenate([handed_in[first], made])[again]
        dummies = expected_dummies(randomizer, walk, rounds)
    if walk.silent is not None:
        heard = ~walk.silent[holders]
        holders, handed_in = holders[heard], handed_in[heard]
    return Walked((handed_in,), n, dummies, holders, away, walk.silent, load=load)


def make_dummies(randomizer: Randomizer, count: int, rng: np.random.Generator) -> Reports:
    """Draw reports of uniformly random public values, which look like anyone's."""
    public = _public(randomizer)
    return randomizer.randomize(public[rng.integers(len(public), size=count)], rng)


def expected_dummies(randomizer: Randomizer, walk: Walk, rounds: int) -> Dummies:
    """Return the expected share of dummies among the reports, and their mean.

    A person with λ of n expected reports holds none with probability (1 − λ/n)ⁿ: exactly so once
    the walks have mixed.
    """
    share = walk.load(rounds) / walk.n
    empty = np.exp(walk.n * np.log1p(-np.minimum(share, 1 - 1e-15)))
    if walk.silent is not None:
        empty = empty[~walk.silent]
    return Dummies(share=float(empty.mean()), center=randomizer.estimand(_public(randomizer)))


def _public(randomizer: Randomizer) -> NDArray[Any]:
    # All values to choose from; one, the middle, of an interval.
    support = int(getattr(randomizer, "categories", getattr(randomizer, "dimension", 1)))
    return public_values(randomizer, max(1, support))
