"""Curator of a scrambled query: grants groups to scramblers, and puts the result together.

    scrambler ── Ask ──▶ curator ── Granted | Lost ──▶ scrambler
                         curator ── Take ──▶ spare ── Taken ──▶ curator ── Divert ──▶ people
    compute ── Arrived ─▶ curator ── Fold ──▶ compute ── Part ──▶ curator

A group is granted to one scrambler, ever. If it has not asked in time, a spare takes its place; all
people of the group are then told, whether or not they had got through, so that it does not show who
had. A group counts when its parcels reached every compute node of its set that is there; one whose
scrambler died on the way counts nowhere, and its people are absent.

If a compute node is silent to the end, its cells are *lost*: their numbers are unknown, and not
zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import Address, Done, Effect, Message, Send, device
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import OutboxState, wake_at
from incrowd.protocols.scrambled_query import messages
from incrowd.protocols.scrambled_query.roles.base import SHORT, QueryActor
from incrowd.protocols.scrambled_query.simulate import coverage
from incrowd.tasks.query import Folded, Tabulated

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_FROM_SCRAMBLER = msgspec.msgpack.Decoder(messages.Ask | messages.Taken)
_FROM_DEVICE = msgspec.msgpack.Decoder(messages.Diverted | messages.Through)
_FROM_COMPUTE = msgspec.msgpack.Decoder(messages.Arrived | messages.Part)
_TAKE, _DIVERT, _FOLD = range(3)


def _key(kind: int, number: int, person: int = 0) -> int:
    """The key in the outbox: of a cluster, a compute node, or a set of one person."""
    return (person << 32 | number) << 2 | kind


class _Cluster(msgspec.Struct, array_like=True):
    holder: Address  # the scrambler that may ask for it
    granted: bool = False
    present: int = 0
    due: float = np.inf  # the time by which a spare has to answer that it takes it
    diverted: bool = False


class _CuratorState(msgspec.Struct, array_like=True):
    clusters: list[_Cluster]
    replacing: bool = True  # whether silent scramblers are still to be replaced
    spares: int = 0  # number of spares that were asked
    through: dict[int, set[int]] = {}
    """Without scramblers: people whose messages have all arrived, by grouping set."""
    arrived: dict[int, bytes] = {}  # the groups that came, by compute node
    counted: dict[int, bytes] = {}  # the groups that count, or people, by grouping set
    parts: dict[int, messages.Part] = {}
    outbox: OutboxState = msgspec.field(default_factory=lambda: OutboxState({}))
    over: bool = False


class Curator(QueryActor):
    """Grants groups, and is done when every compute node has answered or the time is up."""

    _state: _CuratorState

    def __init__(self, protocol: ScrambledQuery, context: ActorContext) -> None:
        super().__init__(protocol, context)
        places = self._places
        self._asked_of = [len(places.answering(index)) for index in range(len(places.targets))]
        clusters = [_Cluster(places.scrambler(each)) for each in range(places.clusters)]
        self._set_state(_CuratorState(clusters))

    def receive(self, message: Message, now: float) -> list[Effect]:
        sender, places = message.sender, self._places
        person, node = places.person_of(sender), places.node_of(sender)
        if person is not None:
            return self._from_device(person, wire.decode(_FROM_DEVICE, message.body, SHORT), now)
        if node is not None:
            limit = SHORT + self._form(node).nbytes + 16 * (places.units + 8)
            return self._from_compute(node, wire.decode(_FROM_COMPUTE, message.body, limit), now)
        said = wire.decode(_FROM_SCRAMBLER, message.body, SHORT)
        if said is None or said.cluster >= places.clusters:
            return []
        if isinstance(said, messages.Ask):
            return self._asked(sender, said, now)
        return self._taken(sender, said, now)

    def _go_on(self, now: float) -> list[Effect]:
        state, until = self._state, self._until
        if state.over or now >= until.result:
            return self._end()
        effects = self._replace(now) + self._count(now)
        if len(state.parts) == self._places.first[-1]:
            return effects + self._end()
        dues = [each.due for each in state.clusters if each.due < np.inf]
        if state.replacing and state.clusters:
            dues.append(until.replaced)
        if len(state.counted) < len(self._places.targets):
            dues.append(self._counting_ends)
        return effects + wake_at(*dues, self._outbox.due, until.result)

    # Grants.

    def _asked(self, sender: Address, asked: messages.Ask, now: float) -> list[Effect]:
        places = self._places
        stranger = places.cluster_of(sender) != asked.cluster and places.spare_of(sender) is None
        if stranger or asked.present > len(places.members(asked.cluster)):
            return []
        cluster = self._state.clusters[asked.cluster]
        if cluster.holder != sender:
            return [Send(sender, wire.encode(messages.Lost(asked.cluster)))]
        if not cluster.granted:
            cluster.granted, cluster.present, cluster.due = True, asked.present, np.inf
            self._outbox.settle(_key(_TAKE, asked.cluster))
        return [Send(sender, wire.encode(messages.Granted(asked.cluster))), *self._go_on(now)]

    def _replace(self, now: float) -> list[Effect]:
        """Give the groups of silent scramblers, and of silent spares, to the next spare."""
        state, effects = self._state, list[Effect]()
        silent = [each for each, cluster in enumerate(state.clusters) if now >= cluster.due]
        if state.replacing and now >= self._until.replaced:
            state.replacing = False
            silent += [each for each, cluster in enumerate(state.clusters) if not cluster.granted]
        for number in silent:
            cluster = state.clusters[number]
            self._outbox.settle(_key(_TAKE, number))
            # There must be time for people to come; and if there is no spare left, the group's
            # first scrambler may still come back.
            if state.spares < self._places.spares and now < self._until.spares - self._until.pause:
                cluster.holder = self._places.spare(state.spares)
                cluster.due = now + self._until.pause
                state.spares += 1
                take = wire.encode(messages.Take(number))
                effects.append(self._outbox.put(_key(_TAKE, number), cluster.holder, take, now))
            else:
                cluster.holder, cluster.due = self._places.scrambler(number), np.inf
        return effects

    def _taken(self, sender: Address, taken: messages.Taken, now: float) -> list[Effect]:
        number = taken.cluster
        cluster = self._state.clusters[number]
        spare = self._places.spare_of(sender)
        if spare is None or cluster.holder != sender or cluster.diverted:
            return []
        cluster.due, cluster.diverted = np.inf, True
        self._outbox.settle(_key(_TAKE, number))
        index, _ = self._places.set_and_group(number)
        told = wire.encode(messages.Divert(index, spare))
        effects: list[Effect] = [
            self._outbox.put(_key(_DIVERT, index, person), device(person), told, now)
            for person in self._places.members(number)
        ]
        return effects + self._go_on(now)

    def _from_device(
        self, person: int, said: messages.Diverted | messages.Through | None, now: float
    ) -> list[Effect]:
        if said is None or said.index not in self._places.sets(person):
            return []
        if isinstance(said, messages.Diverted):
            awaited = self._outbox.settle(_key(_DIVERT, said.index, person))
            return self._go_on(now) if awaited else []
        if not self._places.local:
            return []
        if said.index not in self._state.counted:
            self._state.through.setdefault(said.index, set()).add(person)
        answer = Send(device(person), wire.encode(messages.Noted(said.index)))
        return [answer, *self._go_on(now)]

    # Counting.

    @property
    def _counting_ends(self) -> float:
        return self._until.scramblers if self._places.local else self._until.counted

    def _count(self, now: float) -> list[Effect]:
        """Settle which units count, for each set whose compute nodes or people are all there."""
        effects: list[Effect] = []
        for index in range(len(self._places.targets)):
            if index in self._state.counted:
                continue
            units = self._units(index, now >= self._counting_ends)
            if units is not None:
                self._state.counted[index] = messages.bits(units, self._places.units)
                for node in self._places.nodes(index):
                    effects += self._ask_for(node, now)
        return effects

    def _decoded(self, units: bytes) -> set[int]:
        return set(messages.places_in(units, self._places.units) or ())

    def _units(self, index: int, late: bool) -> set[int] | None:
        places, state = self._places, self._state
        if places.local:
            through = state.through.get(index, set())
            return through if late or len(through) == self._asked_of[index] else None
        nodes = places.nodes(index)
        said = [self._decoded(state.arrived[node]) for node in nodes if node in state.arrived]
        if len(said) < len(nodes) and not late:
            return None
        everywhere = set.intersection(*said) if said else set()
        first = index * places.groups
        return {group for group in everywhere if state.clusters[first + group].granted}

    def _ask_for(self, node: int, now: float) -> list[Effect]:
        """Ask a compute node for its numbers, if it has everything that counts."""
        places, state = self._places, self._state
        counted = state.counted[places.target_of(node)[0]]
        if node in state.parts or (not places.local and node not in state.arrived):
            return []
        if not places.local and self._decoded(counted) - self._decoded(state.arrived[node]):
            return []
        address = places.compute(*places.target_of(node))
        fold = wire.encode(messages.Fold(counted))
        return [self._outbox.put(_key(_FOLD, node), address, fold, now)]

    def _sizes(self, index: int) -> NDArray[np.int64]:
        """The number of cells of each compute node of a set."""
        return np.diff(self._protocol.asked.sets[index].edges(self._places.targets[index]))

    def _form(self, node: int) -> messages.FoldedFormat:
        index, target = self._places.target_of(node)
        return messages.FoldedFormat(self._protocol.asked, int(self._sizes(index)[target]))

    def _from_compute(
        self, node: int, said: messages.Arrived | messages.Part | None, now: float
    ) -> list[Effect]:
        places, state = self._places, self._state
        index, _ = places.target_of(node)
        if isinstance(said, messages.Arrived):
            if places.local or messages.places_in(said.units, places.units) is None:
                return []
            fresh = node not in state.arrived
            state.arrived.setdefault(node, said.units)
            late = fresh and index in state.counted
            return [*(self._ask_for(node, now) if late else ()), *self._go_on(now)]
        if said is None or index not in state.counted or not self._possible(node, said):
            return []
        address = places.compute(*places.target_of(node))
        if not state.over and node not in state.parts:
            state.parts[node] = said
            self._outbox.settle(_key(_FOLD, node))
        return [Send(address, wire.encode(messages.Safe())), *self._go_on(now)]

    def _possible(self, node: int, part: messages.Part) -> bool:
        released = self._protocol.release_epsilon
        try:
            self._form(node).unpack(part.folded)
        except ValueError:
            return False
        told = 1 + len(self._protocol.asked.measures) if released else 0
        if not all(map(np.isfinite, part.noise)) or len(part.noise) != told:
            return False
        return len(part.traffic) == (0 if released else 8 * self._places.units)

    # The result.

    def _end(self) -> list[Effect]:
        self._state.over = True
        self._state.outbox.pending.clear()
        return [Done(self._tabulated())]

    def _tabulated(self) -> Tabulated:
        protocol, places, parts = self._protocol, self._places, self._state.parts
        sets = range(len(places.targets))
        answered = [[parts.get(node) for node in places.nodes(index)] for index in sets]
        present, kept = coverage(protocol, [self._present(index) for index in sets])
        return Tabulated(
            rounds=(),
            sent=places.people * (1 if places.one else len(sets)),
            folded=tuple(map(self._folded, sets)),
            present=present,
            kept=kept,
            noise=tuple(
                next((tuple(part.noise) for part in each if part is not None), ())
                for each in answered
            ),
            traffic=() if protocol.release_epsilon else tuple(map(self._traffic, sets)),
            lost=tuple(
                np.flatnonzero(np.repeat([part is None for part in each], self._sizes(index)))
                for index, each in enumerate(answered)
            ),
        )

    def _folded(self, index: int) -> Folded:
        found = []
        for node in self._places.nodes(index):
            form, part = self._form(node), self._state.parts.get(node)
            found.append(form.empty() if part is None else form.unpack(part.folded))
        return Folded.joined(found)

    def _present(self, index: int) -> int:
        units = self._decoded(self._state.counted.get(index, b""))
        if self._places.local:
            return len(units)
        first = index * self._places.groups
        return sum(self._state.clusters[first + group].present for group in units)

    def _traffic(self, index: int) -> NDArray[np.int64]:
        """Messages of the units that count; those of the others are not known in full."""
        counts = np.zeros((self._places.units, self._places.targets[index]), np.int64)
        units = sorted(self._decoded(self._state.counted.get(index, b"")))
        for target, node in enumerate(self._places.nodes(index)):
            if node in self._state.parts:
                told = np.frombuffer(self._state.parts[node].traffic, "<i8")
                counts[units, target] = told[units]
        return counts
