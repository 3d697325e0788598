"""Walks that meet doubtful devices: a lower and an upper law of where each report ends.

Whatever happened, P_j^min ≤ P_j ≤ P_j^max at every place: in the lower law a report that meets
doubt is dead, in the upper one it lives. The lower law has two layers, as a report is *late* after
a hop whose ends were not both on in the next window, and then certain between punctual devices
only. ``excess`` of :class:`Mixing` comes from the upper law, ``separation`` from the lower one, and
``unseen`` is the mass that the lower one lacks. Proof: ``docs/theory/network_attendance.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd.graphs.propagate import over_blocks, relative_error
from incrowd.protocols.network_shuffle.theorems import mixing
from incrowd.protocols.network_shuffle.theorems.attendance import (
    AWAY,
    EITHER,
    LEFT,
    ON,
    UNKNOWN,
    Attendance,
)
from incrowd.protocols.network_shuffle.theorems.walk import Bools, Doubles, Walk

_HIDDEN = 0.5
"""A first hop after which the report is lost or sticks out more often than this does not hide."""


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

        graph, out = self.walk.graphs[number % len(self.walk.graphs)], np.empty_like(block)
        step(graph.indptr, graph.indices, stay, share, block, out)
        return out

    def upper(self, number: int, block: Doubles) -> Doubles:
        """Return P^max after a round; of a device that may have moved its reports, both."""
        codes = self.attendance.table[number]
        stay, share = self._plain[number % len(self._plain)]
        stay = np.where(np.isin(codes, (AWAY, EITHER, UNKNOWN)), 1.0, stay)
        return self._moved(number, stay, np.where(codes == AWAY, 0.0, share), block)

    def lower(self, number: int, on_time: Doubles, late: Doubles) -> tuple[Doubles, Doubles]:
        """Return P^min after a round, by layers; reports that meet doubt are dead."""
        codes, sure = self.attendance.table[number], self.attendance.punctual
        stay, share = self._plain[number % len(self._plain)]
        dies, keeps = ~sure & np.isin(codes, (EITHER, UNKNOWN, LEFT)), codes == AWAY
        stay = np.where(dies, 0.0, np.where(keeps, 1.0, stay))
        share = np.where(dies | keeps, 0.0, share)
        on, none = self.attendance.table[number + 1] == ON, np.zeros_like(stay)
        # Both ends on in the next window: the hop is on time between any two.
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
        """People whose report was dropped, as they were away in the first round."""
        return np.asarray((self.attendance.table[0] == AWAY) & (self.attendance.rounds > 0))


def measure_doubtful(walk: Walk, rounds: int, attendance: Attendance) -> mixing.Mixing:
    """Return the mixing, whatever the doubtful devices did with the reports they held."""
    found = _Found(Envelopes(walk, attendance), rounds)
    for crowd in np.unique(walk.crowds):
        found.add(np.flatnonzero(walk.crowds == crowd))
    return mixing.Mixing(
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
    """Numbers of each person so far: nobody is hidden until it is shown."""

    def __init__(self, laws: Envelopes, rounds: int) -> None:
        n = laws.walk.n
        self.laws, self.rounds = laws, rounds
        # Layers are added to each other, and so are the sums over both.
        self.doubt = 3 * relative_error(laws.walk.together, rounds + 2)
        self.excess, self.separation = np.ones((n, mixing.SLACKS.size)), np.ones(n)
        self.unseen, self.absent = np.ones(n), np.zeros(n, bool)

    def add(self, own: NDArray[np.intp]) -> None:
        reference = self._reference(own)

        def follow(part: slice, block: Doubles) -> None:
            who = own[part]
            block = np.where(self.laws.dropped[who], 0.0, block)
            found = self._compared(0, block, np.zeros_like(block), reference)
            self.excess[who], self.separation[who], self.unseen[who], self.absent[who] = found

        over_blocks(follow, own, self.laws.walk.n)
        # A report that stayed at home has no first hop to reveal.
        if self.rounds and not self.laws.walk.laziness:
            self._by_first_hop(own, reference)

    def _reference(self, own: NDArray[np.intp]) -> Doubles:
        """Return the mean upper law of the punctual people of a crowd, at punctual people."""
        sure, law = self.laws.attendance.punctual, np.zeros((self.laws.walk.n, 1))
        members = own[sure[own]]
        law[members] = 1 / max(1, members.size)
        law = np.where(self.laws.dropped[:, None], 0.0, law)
        for number in range(self.rounds):
            law = self.laws.upper(number, law)
        return np.where(sure[:, None], law, 0.0)

    def _compared(
        self, first: int, on_time: Doubles, late: Doubles, reference: Doubles
    ) -> tuple[Doubles, Doubles, Doubles, Bools]:
        """Return excess, separation, the share that may be unseen, and whether all is."""
        most, seen = on_time + late, self.laws.attendance
        for number in range(first, self.rounds):
            most = self.laws.upper(number, most)
            on_time, late = self.laws.lower(number, on_time, late)
        most = np.where(seen.heard[:, None], most, 0.0)
        least = np.where(seen.punctual[:, None], on_time + late, 0.0)
        excess, _, _ = mixing.overhang(most, reference, self.doubt)
        _, ratio, _ = mixing.overhang(least, reference, self.doubt)
        unseen = 1 - least.sum(axis=0) * (1 - self.doubt - len(least) * 2.0**-52)
        separation = mixing.separation_of(ratio, self.doubt)
        return excess, separation, unseen, np.asarray(~most.any(axis=0))

    def _by_first_hop(self, own: NDArray[np.intp], reference: Doubles) -> None:
        """Fill in the doubtful themselves, by where their reports are after the first hop.

        That hop may be told. From there on it is a report that starts in round 1, late; at another
        doubtful device, or where it is lost or sticks out too often, nothing hides it.
        """
        graph, attendance = self.laws.walk.graphs[0], self.laws.attendance
        victims = own[attendance.doubtful[own] & ~self.absent[own]]
        near = [graph.neighbours(person) for person in victims.tolist()]
        reached = np.unique(np.concatenate([*near, np.empty(0, np.int32)])).astype(np.intp)
        reached = reached[attendance.punctual[reached]]
        excess, unseen = np.ones((graph.n, mixing.SLACKS.size)), np.ones(graph.n)

        def follow(part: slice, block: Doubles) -> None:
            who = reached[part]
            found = self._compared(1, np.zeros_like(block), block, reference)
            excess[who], _, unseen[who], _ = found

        over_blocks(follow, reached, graph.n)
        missing = excess + unseen[:, None]
        excess = np.where(missing <= _HIDDEN, excess, 1.0)
        for person, hops in zip(victims.tolist(), near, strict=True):
            if not hops.size:
                self.excess[person] = 1.0
                continue
            # The curve of those that stay hidden is that of the one of them who is hidden least.
            self.excess[person] = mean = excess[hops].mean(axis=0)
            most = np.where(missing[hops] <= _HIDDEN, missing[hops], 0.0).max(axis=0)
            self.unseen[person] = np.maximum(most - mean, 0.0).max()
