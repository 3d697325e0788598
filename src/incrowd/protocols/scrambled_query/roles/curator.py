"""The curator of a scrambled query: says who may send for a group, and puts the result together.

    scrambler ── Ask ──▶ curator ── Granted | Lost ──▶ scrambler
                         curator ── Take ──▶ spare ── Taken ──▶ curator ── Divert ──▶ people
    compute ── Arrived ─▶ curator ── Fold ──▶ compute ── Part ──▶ curator

A group is granted to one scrambler, ever. If it has not asked in time, a spare takes its place; all
people of the group are then told, whether or not they had got through, so that nobody sees who had.
A group counts when its parcels reached every compute node of its set that is there; one whose
scrambler died on the way counts nowhere, and its people are absent.

If a compute node is silent to the end, its cells are *lost*: what is in them is unknown, and not
zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import Actor, Address, Done, Effect, Message, Send, device
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import Outbox, OutboxState, wake_at
from incrowd.protocols.scrambled_query import messages
from incrowd.protocols.scrambled_query.simulate import coverage
from incrowd.protocols.scrambled_query.topology import Places, deadlines
from incrowd.tasks.query import Folded, Tabulated

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_FROM_SCRAMBLER = msgspec.msgpack.Decoder(messages.Ask | messages.Taken)
_FROM_DEVICE = msgspec.msgpack.Decoder(messages.Diverted | messages.Through)
_FROM_COMPUTE = msgspec.msgpack.Decoder(messages.Arrived | messages.Part)
_SHORT = 1024


class _Cluster(msgspec.Struct, array_like=True):
    holder: Address
    """Who may ask for it."""
    granted: bool = False
    present: int = 0
    due: float = np.inf
    """Until when a spare has to answer that it takes it."""
    diverted: bool = False


class _CuratorState(msgspec.Struct, array_like=True):
    clusters: list[_Cluster]
    replacing: bool = True
    """Whether scramblers that are silent are still to be replaced."""
    spares: int = 0
    """How many spares were asked."""
    through: dict[int, set[int]] = {}
    """Without scramblers: whose messages have all arrived, by grouping set."""
    arrived: dict[int, bytes] = {}
    """The groups that came, by compute node."""
    counted: dict[int, bytes] = {}
    """The groups that count, or people, by grouping set."""
    parts: dict[int, messages.Part] = {}
    takes: OutboxState = msgspec.field(default_factory=lambda: OutboxState({}))
    diverts: OutboxState = msgspec.field(default_factory=lambda: OutboxState({}))
    folds: OutboxState = msgspec.field(default_factory=lambda: OutboxState({}))
    over: bool = False


class Curator(Actor):
    """Grants groups, and is done when every compute node has answered or the time is up."""

    def __init__(self, protocol: ScrambledQuery, context: ActorContext) -> None:
        self._protocol = protocol
        self._places = places = Places.of(protocol)
        self._asked_of = [len(places.answering(index)) for index in range(len(places.targets))]
        self._until = deadlines(context.timing)
        self._takes, self._diverts, self._folds = (Outbox(context.timing.backoff) for _ in range(3))
        self._set_state(
            _CuratorState([_Cluster(places.scrambler(each)) for each in range(places.clusters)])
        )

    def _set_state(self, state: _CuratorState) -> None:
        self._state = state
        self._takes.resume(state.takes)
        self._diverts.resume(state.diverts)
        self._folds.resume(state.folds)

    # What happens.

    def start(self, now: float) -> list[Effect]:
        """Wait for scramblers."""
        return self._go_on(now)

    def receive(self, message: Message, now: float) -> list[Effect]:
        """Somebody asks, answers, or brings numbers."""
        sender, places = message.sender, self._places
        person, node = places.person_of(sender), places.node_of(sender)
        if person is not None:
            return self._from_device(person, wire.decode(_FROM_DEVICE, message.body, _SHORT), now)
        if node is not None:
            limit = _SHORT + self._form(node).nbytes + 16 * (places.units + 8)
            return self._from_compute(node, wire.decode(_FROM_COMPUTE, message.body, limit), now)
        said = wire.decode(_FROM_SCRAMBLER, message.body, _SHORT)
        if said is None or said.cluster >= places.clusters:
            return []
        if isinstance(said, messages.Ask):
            return self._asked(sender, said, now)
        return self._taken(sender, said, now)

    def wake(self, now: float) -> list[Effect]:
        """Repeat what was not answered, and go on without those who are silent."""
        again = [*self._takes.retry(now), *self._diverts.retry(now), *self._folds.retry(now)]
        return again + self._go_on(now)

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
        outboxes = (self._takes.due, self._diverts.due, self._folds.due)
        return effects + wake_at(*dues, *outboxes, until.result)

    # Who may send for a group.

    def _asked(self, sender: Address, asked: messages.Ask, now: float) -> list[Effect]:
        places = self._places
        if places.cluster_of(sender) != asked.cluster and places.spare_of(sender) is None:
            return []
        if asked.present > len(places.members(asked.cluster)):
            return []
        cluster = self._state.clusters[asked.cluster]
        if cluster.holder != sender:
            return [Send(sender, wire.encode(messages.Lost(asked.cluster)))]
        if not cluster.granted:
            cluster.granted, cluster.present, cluster.due = True, asked.present, np.inf
            self._takes.settle(asked.cluster)
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
            self._takes.settle(number)
            # There must be time for people to come; and if there is no spare left, whoever had
            # the group first may still come back.
            if state.spares < self._places.spares and now < self._until.spares - self._until.pause:
                cluster.holder = self._places.spare(state.spares)
                cluster.due = now + self._until.pause
                state.spares += 1
                take = wire.encode(messages.Take(number))
                effects.append(self._takes.put(number, cluster.holder, take, now))
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
        self._takes.settle(number)
        index, _ = self._places.set_and_group(number)
        told = wire.encode(messages.Divert(index, spare))
        effects: list[Effect] = [
            self._diverts.put(self._key(person, index), device(person), told, now)
            for person in self._places.members(number)
        ]
        return effects + self._go_on(now)

    def _key(self, person: int, index: int) -> int:
        return person * len(self._places.targets) + index

    def _from_device(
        self, person: int, said: messages.Diverted | messages.Through | None, now: float
    ) -> list[Effect]:
        if said is None or said.index not in self._places.sets(person):
            return []
        if isinstance(said, messages.Diverted):
            return self._go_on(now) if self._diverts.settle(self._key(person, said.index)) else []
        if not self._places.local:
            return []
        if said.index not in self._state.counted:
            self._state.through.setdefault(said.index, set()).add(person)
        answer = Send(device(person), wire.encode(messages.Noted(said.index)))
        return [answer, *self._go_on(now)]

    # What counts.

    @property
    def _counting_ends(self) -> float:
        return self._until.scramblers if self._places.local else self._until.counted

    def _count(self, now: float) -> list[Effect]:
        """Of each set whose compute nodes, or people, are all there: what counts."""
        effects: list[Effect] = []
        for index in range(len(self._places.targets)):
            if index in self._state.counted:
                continue
            units = self._units(index, now >= self._counting_ends)
            if units is not None:
                self._state.counted[index] = messages.bits(units, self._places.units)
                for node in range(*self._places.first[index : index + 2]):
                    effects += self._ask_for(node, now)
        return effects

    def _units(self, index: int, late: bool) -> set[int] | None:
        places, state = self._places, self._state
        if places.local:
            through = state.through.get(index, set())
            return through if late or len(through) == self._asked_of[index] else None
        nodes = range(*places.first[index : index + 2])
        said = [state.arrived[node] for node in nodes if node in state.arrived]
        if len(said) < len(nodes) and not late:
            return None
        everywhere = set(range(places.groups)) if said else set()
        for each in said:
            everywhere &= set(messages.places_in(each, places.groups) or ())
        first = index * places.groups
        return {group for group in everywhere if state.clusters[first + group].granted}

    def _ask_for(self, node: int, now: float) -> list[Effect]:
        """Ask a compute node for its numbers, if it has everything that counts."""
        places, state = self._places, self._state
        counted = state.counted[places.target_of(node)[0]]
        if node in state.parts:
            return []
        if not places.local:
            if node not in state.arrived:
                return []
            wanted = set(messages.places_in(counted, places.units) or ())
            if not wanted <= set(messages.places_in(state.arrived[node], places.units) or ()):
                return []
        address = places.compute(*places.target_of(node))
        return [self._folds.put(node, address, wire.encode(messages.Fold(counted)), now)]

    def _form(self, node: int) -> messages.FoldedFormat:
        index, target = self._places.target_of(node)
        edges = self._protocol.asked.sets[index].edges(self._places.targets[index])
        return messages.FoldedFormat(
            self._protocol.asked, int(edges[target + 1]) - int(edges[target])
        )

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
            if index in state.counted:
                return [*(self._ask_for(node, now) if fresh else ()), *self._go_on(now)]
            return self._go_on(now)
        if said is None or index not in state.counted or not self._possible(node, said):
            return []
        address = places.compute(*places.target_of(node))
        if not state.over and node not in state.parts:
            state.parts[node] = said
            self._folds.settle(node)
        return [Send(address, wire.encode(messages.Safe())), *self._go_on(now)]

    def _possible(self, node: int, part: messages.Part) -> bool:
        """Whether these can be the numbers of this compute node."""
        chosen = self._protocol
        try:
            self._form(node).unpack(part.folded)
        except ValueError:
            return False
        told = 1 + len(self._protocol.asked.measures) if chosen.release else 0
        if not all(map(np.isfinite, part.noise)) or len(part.noise) != told:
            return False
        return len(part.traffic) == (0 if chosen.release else 8 * self._places.units)

    # The result.

    def _end(self) -> list[Effect]:
        self._state.over = True
        for outbox in (self._takes, self._diverts, self._folds):
            outbox.resume(OutboxState({}))
        return [Done(self._tabulated())]

    def _tabulated(self) -> Tabulated:
        protocol, places = self._protocol, self._places
        sets = range(len(places.targets))
        present, kept = coverage(protocol, [self._present(index) for index in sets])
        return Tabulated(
            rounds=(),
            sent=places.people * (1 if places.one else len(sets)),
            folded=tuple(self._folded(index) for index in sets),
            present=present,
            kept=kept,
            noise=tuple(self._noise(index) for index in sets),
            traffic=() if protocol.release else tuple(map(self._traffic, sets)),
            lost=tuple(map(self._lost, sets)),
        )

    def _nodes(self, index: int) -> range:
        return range(*self._places.first[index : index + 2])

    def _folded(self, index: int) -> Folded:
        found = []
        for node in self._nodes(index):
            form, part = self._form(node), self._state.parts.get(node)
            found.append(form.empty() if part is None else form.unpack(part.folded))
        return Folded.joined(found)

    def _lost(self, index: int) -> NDArray[np.int64]:
        """The cells of which nothing is known."""
        edges = self._protocol.asked.sets[index].edges(self._places.targets[index])
        silent = [node not in self._state.parts for node in self._nodes(index)]
        return np.flatnonzero(np.repeat(silent, np.diff(edges)))

    def _units_of(self, index: int) -> set[int]:
        """The groups of a set that count, or the people."""
        counted = self._state.counted.get(index, b"")
        return set(messages.places_in(counted, self._places.units) or ())

    def _present(self, index: int) -> int:
        """How many people are in what counts."""
        units = self._units_of(index)
        if self._places.local:
            return len(units)
        first = index * self._places.groups
        return sum(self._state.clusters[first + group].present for group in units)

    def _noise(self, index: int) -> tuple[float, ...]:
        told = [self._state.parts[node] for node in self._nodes(index) if node in self._state.parts]
        return tuple(told[0].noise) if told else ()

    def _traffic(self, index: int) -> NDArray[np.int64]:
        """What came of the groups that count; of the others nobody knows all."""
        counts = np.zeros((self._places.units, self._places.targets[index]), np.int64)
        for target, node in enumerate(self._nodes(index)):
            if node in self._state.parts:
                counts[:, target] = np.frombuffer(self._state.parts[node].traffic, "<i8")
        counts[[unit for unit in range(len(counts)) if unit not in self._units_of(index)]] = 0
        return counts

    # Durability.

    def state(self) -> bytes:
        """Every grant, and everything that came."""
        state = self._state
        state.takes, state.diverts = self._takes.state(), self._diverts.state()
        state.folds = self._folds.state()
        return wire.encode(state)

    def resume(self, state: bytes) -> None:
        """Continue with the same grants."""
        self._set_state(msgspec.msgpack.decode(state, type=_CuratorState))
