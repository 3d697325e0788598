"""Walks that meet doubtful devices: where a report surely ends, and where it may end.

Of every person j two laws are propagated, with P_j^min ≤ P_j ≤ P_j^max at every place and whatever
happened: in the lower one a report that meets doubt is dead, in the upper one it lives. The lower
law has two layers, as a report is *late* after a hop whose ends were not both on in the next
window: what is late is certain between punctual devices only. From the two laws come the numbers
of :class:`Mixing`: ``excess`` from the upper, ``separation`` from the lower one, and ``unseen`` is
what the lower one lacks of one. Statement and proof: ``docs/theory/network_attendance.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd.graphs.propagate import over_blocks, relative_error
from incrowd.protocols.network_shuffle.theorems.attendance import (
    AWAY,
    EITHER,
    LEFT,
    ON,
    UNKNOWN,
    Attendance,
)
from incrowd.protocols.network_shuffle.theorems.mixing import (
    SLACKS,
    Mixing,
    overhang,
    separation_of,
)
from incrowd.protocols.network_shuffle.theorems.walk import Bools, Doubles, Walk

_HIDDEN = 0.5
"""A first hop after which the report is lost or sticks out more often than this hides nobody."""


@dataclass(frozen=True, eq=False)
class Envelopes:
    """One round of the two laws, for a walk of which the attendance is known."""

    walk: Walk
    attendance: Attendance

    @cached_property
    def _plain(self) -> list[tuple[Doubles, Doubles]]:
        """Per graph: the chance to stay, and that of moving to one given neighbour."""
        lazy, found = self.walk.laziness, []
        for graph in self.walk.graphs:
            stuck = graph.degrees == 0
            share = np.where(stuck, 0.0, (1 - lazy) / np.maximum(graph.degrees, 1))
            found.append((np.where(stuck, 1.0, lazy), share))
        return found

    def _moved(self, number: int, stay: Doubles, share: Doubles, block: Doubles) -> Doubles:
        from incrowd.graphs._kernels import step

        graph = self.walk.graphs[number % len(self.walk.graphs)]
        out = np.empty_like(block)
        step(graph.indptr, graph.indices, stay, share, block, out)
        return out

    def upper(self, number: int, block: Doubles) -> Doubles:
        """P^max after a round: where it is not known whether somebody moved, both."""
        codes = self.attendance.table[number]
        stay, share = self._plain[number % len(self._plain)]
        keeps = (codes == AWAY) | (codes == EITHER) | (codes == UNKNOWN)
        return self._moved(
            number, np.where(keeps, 1.0, stay), np.where(codes == AWAY, 0.0, share), block
        )

    def lower(self, number: int, on_time: Doubles, late: Doubles) -> tuple[Doubles, Doubles]:
        """P^min after a round, by layers; what meets doubt is dead."""
        codes, sure = self.attendance.table[number], self.attendance.punctual
        stay, share = self._plain[number % len(self._plain)]
        dies = ~sure & ((codes == EITHER) | (codes == UNKNOWN) | (codes == LEFT))
        keeps = codes == AWAY
        stay = np.where(dies, 0.0, np.where(keeps, 1.0, stay))
        share = np.where(dies | keeps, 0.0, share)
        on = self.attendance.table[number + 1] == ON
        none = np.zeros_like(stay)
        # Both ends on in the next window: the hop is on time, whoever they are.
        prompt = self._moved(number, none, np.where(on, share, 0.0), on_time)
        # Between punctual devices everything arrives, but it may be late.
        slow = self._moved(number, none, np.where(sure, share, 0.0), late)
        slow += self._moved(number, none, np.where(sure & ~on, share, 0.0), on_time)
        if not on[sure].all():
            missed = self._moved(number, none, np.where(sure & on, share, 0.0), on_time)
            slow += np.where(on[:, None], 0.0, missed)
        return (
            stay[:, None] * on_time + np.where(on[:, None], prompt, 0.0),
            stay[:, None] * late + np.where(sure[:, None], slow, 0.0),
        )

    @property
    def dropped(self) -> Bools:
        """Whose report there is not: they were away in the first round, if there was one."""
        return np.asarray((self.attendance.table[0] == AWAY) & (self.attendance.rounds > 0))

    def started(self, block: Doubles, who: NDArray[np.intp]) -> Doubles:
        """Without the reports that were dropped."""
        return np.where(self.dropped[who][None, :], 0.0, block)

    def heard(self, block: Doubles) -> Doubles:
        """What the curator may hear of."""
        return np.where(self.attendance.heard[:, None], block, 0.0)

    def certain(self, on_time: Doubles, late: Doubles) -> Doubles:
        """What the curator surely hears of."""
        return np.where(self.attendance.punctual[:, None], on_time + late, 0.0)


def measure_doubtful(walk: Walk, rounds: int, attendance: Attendance) -> Mixing:
    """How well everyone is hidden, whatever the doubtful devices did with what they held."""
    found = _Found(Envelopes(walk, attendance), rounds)
    for crowd in np.unique(walk.crowds):
        found.add(np.flatnonzero(walk.crowds == crowd))
    return Mixing(
        route="exact",
        rounds=rounds,
        crowds=walk.crowds,
        excess=np.minimum(found.excess, 1.0)[:, None, :],
        separation=np.clip(found.separation, 0.0, 1.0)[:, None],
        collision=np.ones(walk.n),
        unseen=np.clip(found.unseen, 0.0, 1.0),
        absent=found.absent,
    )


class _Found:
    """What is known of each person so far: nobody is hidden until it is shown."""

    def __init__(self, laws: Envelopes, rounds: int) -> None:
        n = laws.walk.n
        self.laws, self.rounds = laws, rounds
        # Layers are added to each other, and so are the sums over both.
        self.doubt = 3 * relative_error(laws.walk.together, rounds + 2)
        self.excess = np.ones((n, SLACKS.size))
        self.separation = np.ones(n)
        self.unseen = np.ones(n)
        self.absent = np.zeros(n, bool)

    def add(self, own: NDArray[np.intp]) -> None:
        """The people of one crowd."""
        reference = self._reference(own)

        def follow(part: slice, block: Doubles) -> None:
            who = own[part]
            block = self.laws.started(block, who)
            found = self._compared(0, block, np.zeros_like(block), reference)
            self.excess[who], self.separation[who], self.unseen[who], self.absent[who] = found

        over_blocks(follow, own, self.laws.walk.n)
        # A report that stayed at home has no first hop to reveal.
        if self.rounds and not self.laws.walk.laziness:
            self._by_first_hop(own, reference)

    def _reference(self, own: NDArray[np.intp]) -> Doubles:
        """The mean upper law of the punctual people of a crowd, where punctual people are."""
        sure = self.laws.attendance.punctual
        law = np.zeros((self.laws.walk.n, 1))
        members = own[sure[own]]
        law[members] = 1 / max(1, members.size)
        law = np.where(self.laws.dropped[:, None], 0.0, law)
        for number in range(self.rounds):
            law = self.laws.upper(number, law)
        return np.where(sure[:, None], law, 0.0)

    def _compared(
        self, first: int, on_time: Doubles, late: Doubles, reference: Doubles
    ) -> tuple[Doubles, Doubles, Doubles, Bools]:
        """Excess, separation, what may be unseen, and whether all is, of reports that start so."""
        most = on_time + late
        for number in range(first, self.rounds):
            most = self.laws.upper(number, most)
            on_time, late = self.laws.lower(number, on_time, late)
        most, least = self.laws.heard(most), self.laws.certain(on_time, late)
        excess, _, _ = overhang(most, reference, self.doubt)
        _, ratio, _ = overhang(least, reference, self.doubt)
        seen = least.sum(axis=0) * (1 - self.doubt - len(least) * 2.0**-52)
        return excess, separation_of(ratio, self.doubt), 1 - seen, np.asarray(~most.any(axis=0))

    def _by_first_hop(self, own: NDArray[np.intp], reference: Doubles) -> None:
        """The doubtful themselves: by where their reports are after the first hop.

        That hop may be told. From there on it is a report that starts in round 1, late; at another
        doubtful device, or where it is lost or sticks out too often, nothing hides it.
        """
        graph, attendance = self.laws.walk.graphs[0], self.laws.attendance
        victims = own[attendance.doubtful[own] & ~self.absent[own]]
        near = [graph.neighbours(person) for person in victims.tolist()]
        reached = np.unique(np.concatenate([*near, np.empty(0, np.int32)])).astype(np.intp)
        reached = reached[attendance.punctual[reached]]
        excess, unseen = np.ones((graph.n, SLACKS.size)), np.ones(graph.n)

        def follow(part: slice, block: Doubles) -> None:
            who = reached[part]
            excess[who], _, unseen[who], _ = self._compared(
                1, np.zeros_like(block), block, reference
            )

        over_blocks(follow, reached, graph.n)
        missing = excess + unseen[:, None]
        excess = np.where(missing <= _HIDDEN, excess, 1.0)
        for person, hops in zip(victims.tolist(), near, strict=True):
            if not hops.size:
                self.excess[person] = 1.0
                continue
            # The curve of those that stay hidden is that of the one of them who is hidden least.
            mean = excess[hops].mean(axis=0)
            most = np.where(missing[hops] <= _HIDDEN, missing[hops], 0.0).max(axis=0)
            self.excess[person] = mean
            self.unseen[person] = np.maximum(most - mean, 0.0).max()
