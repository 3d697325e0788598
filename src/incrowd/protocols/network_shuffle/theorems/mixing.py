"""Mixing of each person's walk: the numbers that the theorems need.

Let P_j be the law of where j's report ends, and σ a reference law for j's *crowd* (the people of
one component, or of one side of a bipartite component when the walk is never lazy). Per person:

* ``excess(κ) = Σ_v (P_j(v) − (1 + κ)·σ(v))₊``: the chance that the report is where too few others
  are, a real leak;
* ``separation = 1 − min_v P_j(v)/σ(v)``: the share of σ the person does not provide for others;
* ``collision = Σ_v P_j(v)²``, which the theorem for ``single`` uses.

No data enters. Three routes, named in every result (``docs/theory/network_shuffle.md``):

* ``exact``: the laws of all walks are propagated, round by round. Any walk: lazy, time-varying,
  with people away, with colluders who watch what passes;
* ``spectral``: leading eigenpairs with a certified remainder, for many rounds on one graph
  (``docs/theory/modes.md``);
* ``gap``: the second eigenvalue alone, for graphs too large for either.

Colluders (``docs/theory/network_collusion.md``) replace the final position by a label: when and
from where the report first reached a colluder, or where it ended if it never did. Labels up to a
*cut*, a round, count as exposed altogether; later ones are compared with their own reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.graphs.graph import Graph
from incrowd.graphs.propagate import over_blocks, relative_error
from incrowd.protocols.network_shuffle.theorems.walk import Bools, Doubles, Walk, start

Progress = Callable[[int, int], None]
Route = Literal["exact", "spectral", "gap", "stationary"]

SLACKS: Final[Doubles] = np.array(
    [0, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 20]
)
"""Values of κ that are tried; κ = 0 gives the total variation distance."""
_CUTS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True, eq=False)
class Mixing:
    """Mixing of all people's walks after a number of rounds.

    ``excess[j, c, k]`` belongs to cut c and slack κ_k, ``separation[j, c]`` to cut c. Without
    colluders there is one cut, at round 0. ``unseen[j]`` is the chance that j's report is never
    handed in, and ``absent[j]`` says that it surely is not. Colluders have crowd −1.
    """

    route: Route
    rounds: int
    crowds: NDArray[np.int32]
    excess: Doubles
    separation: Doubles
    collision: Doubles
    unseen: Doubles | None = None
    absent: Bools | None = None
    cuts: tuple[int, ...] = (0,)
    assumptions: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of people."""
        return self.crowds.size

    @property
    def variation(self) -> Doubles:
        """Total variation distance of each person's law from the reference."""
        return self.excess[:, 0, 0]


def work(walk: Walk, rounds: int) -> float:
    """Return the number of multiplications of the exact route."""
    return float(walk.n) * max(graph.indices.size for graph in walk.graphs) * rounds


def measure(
    walk: Walk, rounds: Sequence[int], progress: Progress | None = None
) -> dict[int, Mixing]:
    """Take the exact route, at each of these numbers of rounds."""
    found = {number: _Draft(walk.n, number, walk.crowds) for number in sorted(set(rounds))}
    meter = _Meter(progress, walk.n)
    for people in _components(walk):
        part = walk.of(people)
        for side in np.unique(part.crowds):
            _measure_crowd(part, np.flatnonzero(part.crowds == side), people, found, meter)
    return {number: draft.freeze() for number, draft in found.items()}


def measure_colluding(
    walk: Walk, rounds: int, colluders: NDArray[np.intp], progress: Progress | None = None
) -> Mixing:
    """Take the exact route when these people tell the curator what passes through them."""
    colluding = np.zeros(walk.n, dtype=bool)
    colluding[colluders] = True
    crowds = walk.crowds_without(colluding)
    cuts = (*(cut for cut in _CUTS if cut < rounds), rounds)
    found, meter = _Draft(walk.n, rounds, crowds, cuts), _Meter(progress, walk.n)
    for people in _components(walk):
        part, watched, labels = walk.of(people), colluding[people], crowds[people]
        for label in np.unique(labels[labels >= 0]):
            own = np.flatnonzero(labels == label)
            _measure_watched(part, own, watched, people, found, meter)
    return found.freeze()


class _Draft:
    """A :class:`Mixing` that is being filled in: nobody is hidden until it is shown."""

    def __init__(
        self, n: int, rounds: int, crowds: NDArray[np.int32], cuts: tuple[int, ...] = (0,)
    ) -> None:
        self.rounds, self.crowds, self.cuts = rounds, crowds, cuts
        self.excess = np.ones((n, len(cuts), SLACKS.size))
        self.separation, self.collision = np.ones((n, len(cuts))), np.ones(n)
        self.unseen, self.absent = np.zeros(n), np.zeros(n, bool)

    def freeze(self) -> Mixing:
        return Mixing(
            route="exact",
            rounds=self.rounds,
            crowds=self.crowds,
            excess=np.minimum(self.excess, 1.0),
            separation=np.clip(self.separation, 0.0, 1.0),
            collision=np.minimum(self.collision, 1.0),
            unseen=np.clip(self.unseen, 0.0, 1.0) if self.unseen.any() else None,
            absent=self.absent if self.absent.any() else None,
            cuts=self.cuts,
        )


class _Meter:
    """Progress over all crowds, in people."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._before = progress, total, 0

    def of(self, people: int) -> Progress:
        before, self._before = self._before, self._before + people

        def tell(done: int, total: int) -> None:
            if self._progress is not None:
                self._progress(before + people * done // max(1, total), self._total)

        return tell


def _components(walk: Walk) -> list[NDArray[np.intp]]:
    """Return the people of each component of more than one."""
    count, label = walk.together.components()
    order = np.argsort(label, kind="stable")
    edges = np.searchsorted(label[order], np.arange(count + 1))
    parts = (order[begin:end] for begin, end in pairwise(edges))
    return [people for people in parts if people.size > 1]


def _measure_crowd(
    walk: Walk,
    own: NDArray[np.intp],
    people: NDArray[np.intp],
    found: dict[int, _Draft],
    meter: _Meter,
) -> None:
    """Fill in the people of one crowd; ``people[own]`` are their names outside."""
    last = max(found)
    reference = [start(walk, own)]
    for number in range(last):
        reference.append(walk.after(number, reference[number]))
    begun = walk.begun(last)

    def follow(part: slice, block: Doubles) -> None:
        who = people[own[part]]
        block = np.where(begun[own[part]], block, 0.0)
        for number in range(last + 1):
            if (draft := found.get(number)) is not None:
                doubt = relative_error(walk.together, number)
                seen, base = walk.heard(block), walk.heard(reference[number])
                draft.excess[who, 0], least, draft.collision[who] = overhang(seen, base, doubt)
                draft.separation[who, 0] = separation_of(least, doubt)
                draft.unseen[who] = walk.unheard(block, doubt)
                draft.absent[who] = ~seen.any(axis=0)
            if number < last:
                block = walk.after(number, block)

    over_blocks(follow, own, walk.n, meter.of(own.size))


def _measure_watched(
    walk: Walk,
    own: NDArray[np.intp],
    watched: Bools,
    people: NDArray[np.intp],
    found: _Draft,
    meter: _Meter,
) -> None:
    """Fill in the honest people of one crowd, from the walks that end when they are watched.

    A report that moves to a colluder in round r from v has the label (r, v). Its chance is that of
    being at v before the round, times the chance of moving from there to a colluder.
    """
    last = found.rounds
    doubt = relative_error(walk.together, last)
    caught = [_chance_of_meeting(graph, watched, walk.laziness) for graph in walk.graphs]
    # People who can be the last honest holder, in some round.
    border = np.flatnonzero(np.any(caught, axis=0))
    weights = [each[border, None] for each in caught]

    def leaving(number: int, block: Doubles) -> Doubles:
        away = walk.away_in(number)
        seen = block[border] * weights[number % len(weights)]
        return seen if away is None else np.where(away[border, None], 0.0, seen)

    def after(number: int, block: Doubles) -> Doubles:
        moved = walk.after(number, block)
        moved[watched] = 0.0
        return moved

    reference, labels = start(walk, own), []
    for number in range(last):
        labels.append(leaving(number, reference))
        reference = after(number, reference)
    begun = walk.begun(last)

    def follow(part: slice, block: Doubles) -> None:
        who = people[own[part]]
        block = np.where(begun[own[part]], block, 0.0)
        columns = block.shape[1]
        passed, least = np.zeros((last + 1, columns)), np.empty((last + 1, columns))
        excess = np.empty((last + 1, columns, SLACKS.size))
        for number in range(last):
            seen = leaving(number, block)
            passed[number] = seen.sum(axis=0) * (1 + doubt)
            excess[number], least[number], _ = overhang(seen, labels[number], doubt)
            block = after(number, block)
        seen, base = walk.heard(block), walk.heard(reference)
        excess[last], least[last], found.collision[who] = overhang(seen, base, doubt)
        found.unseen[who] = walk.unheard(block, doubt)
        found.absent[who] = ~seen.any(axis=0) & (passed.sum(axis=0) == 0)
        # Up to the cut everything counts as seen; from there on what sticks out.
        before = np.concatenate([np.zeros((1, columns)), np.cumsum(passed[:-1], axis=0)])
        beyond = np.cumsum(excess[::-1], axis=0)[::-1]
        lowest = np.minimum.accumulate(least[::-1], axis=0)[::-1]
        for level, cut in enumerate(found.cuts):
            found.excess[who, level] = before[cut][:, None] + beyond[cut]
            found.separation[who, level] = separation_of(lowest[cut], doubt)

    over_blocks(follow, own, walk.n, meter.of(own.size))


def _chance_of_meeting(graph: Graph, watched: Bools, laziness: float) -> Doubles:
    share = graph.adjacency() @ watched.astype(np.float64) / np.maximum(graph.degrees, 1)
    return np.where(watched, 0.0, (1 - laziness) * share)


def overhang(block: Doubles, reference: Doubles, doubt: float) -> tuple[Doubles, Doubles, Doubles]:
    """Compare laws with a reference: the excess at every slack, the least ratio, the collision."""
    from incrowd.graphs._kernels import overhang as compare

    columns = block.shape[1]
    excess, collision = np.zeros((columns, SLACKS.size)), np.zeros(columns)
    least = np.full(columns, np.inf)
    # Both laws carry the relative error, so that their ratio carries twice as much.
    compare(block, reference[:, 0], SLACKS, 2 * doubt, excess, least, collision)
    # And so do sums over all positions, of as many terms.
    doubt += block.shape[0] * 2.0**-52
    return excess * (1 + doubt), least, collision * (1 + 4 * doubt)


def separation_of(least: Doubles, doubt: float) -> Doubles:
    """Return 1 − the least ratio, rounded up; 0 where there is nothing to compare with."""
    return np.where(np.isinf(least), 0.0, 1 - least * (1 - 2 * doubt))
