"""A whole population at once: everyone randomizes, all reports walk, everyone hands in.

The curator learns who handed in which reports, and nothing of the order inside a set.
"""

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

Mode = Literal["all", "single"]
"""Everyone hands in all the reports they hold, or one of them, or a dummy when they hold none."""


@dataclass(frozen=True, repr=False)
class Walked(Collected):
    """What was handed in, by whom, and who was away.

    ``holders[i]`` handed in report i. ``away[r, v]``: v missed round r; none when nobody missed
    any. ``silent`` people handed in no reports. ``attendance`` has a row for every window and a
    column for everybody, as far as that is known; none when all were on from first to last, and
    where the walk itself says who was away. ``load`` counts what everyone held at the end, where
    that is known: in mode ``single`` only a simulation knows. ``lost`` reports of a run by
    devices never arrived, those that their owners dropped included; in mode ``single`` nobody can
    tell.
    """

    holders: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    away: Bools | None = None
    silent: Bools | None = None
    attendance: NDArray[np.int8] | None = None
    load: NDArray[np.int64] | None = None
    lost: int = 0

    @property
    def vanished(self) -> bool:
        """Whether the record of a device is missing."""
        return self.attendance is not None and bool((self.attendance == UNKNOWN).any())


def collect(
    randomizer: Randomizer, values: NDArray[Any], walk: Walk, rounds: int, mode: Mode, seeds: Seeds
) -> Walked:
    """Everyone's reports, walked and handed in."""
    n = walk.n
    reports = draw(randomizer, values, seeds.generator("device", 0))
    ends = np.arange(n, dtype=np.int32)
    # Whoever has nobody to talk to keeps what they hold.
    moving = np.flatnonzero(walk.together.degrees)
    if rounds and moving.size:
        ends[moving] = move(
            walk.sequence(rounds), moving, rounds, seeds.generator("walk"), walk.laziness,
            away=walk.away_table(rounds),
        )  # fmt: skip
    rng = seeds.generator("order")
    begun = walk.begun(rounds)
    order = rng.permutation(n)
    order = order[begun[order]]
    holders, handed_in = ends[order], reports[order]
    load = np.bincount(ends[begun], minlength=n)
    dummies = None
    if mode == "single":
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
    return Walked(
        rounds=(handed_in,), sent=n, dummies=dummies, holders=holders, away=walk.away_table(rounds),
        silent=walk.silent, load=load,
    )  # fmt: skip


def make_dummies(randomizer: Randomizer, count: int, rng: np.random.Generator) -> Reports:
    """Reports of uniformly random public values, which look like anyone's."""
    public = public_values(randomizer, max(1, _support(randomizer)))
    return randomizer.randomize(public[rng.integers(len(public), size=count)], rng)


def expected_dummies(randomizer: Randomizer, walk: Walk, rounds: int) -> Dummies:
    """What the curator knows of the dummies among the reports: how many to expect, and their mean.

    Someone who is expected to hold λ of n reports holds none with probability (1 − λ/n)ⁿ: exactly
    so once the walks have mixed.
    """
    public = public_values(randomizer, max(1, _support(randomizer)))
    share = walk.load(rounds) / walk.n
    empty = np.exp(walk.n * np.log1p(-np.minimum(share, 1 - 1e-15)))
    if walk.silent is not None:
        empty = empty[~walk.silent]
    return Dummies(share=float(empty.mean()), center=randomizer.estimand(public))


def _support(randomizer: Randomizer) -> int:
    """How many public values there are to choose from; one, the middle, of an interval."""
    return int(getattr(randomizer, "categories", getattr(randomizer, "dimension", 1)))
