"""A compute node: reads the tuples of its cells, and folds them into a few numbers per cell.

    open ──▶ closed ──▶ folded ──▶ over

It takes one parcel of each group, from its scrambler or a spare, or one record of each person where
there are no scramblers. When all groups came or its time is up, it tells the curator which did; the
curator says which of them came everywhere, and only those count, so that a scrambler that died half
way is an absence everywhere. Then it drops dummies, and whatever no honest device sends, and a
record that it has seen before; folds the others, adds the noise of a release if there is to be one,
and forgets every tuple. It folds once: to another choice of groups it gives the same numbers.

What came from whom is known to everybody who watches; the curator is told too, unless the result
has noise: then the curator is promised to learn nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from incrowd.errors import InvalidParameter
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address, Done, Effect, Message, Send
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import Outbox, OutboxState, wake_at
from incrowd.protocols.scrambled_query import messages
from incrowd.protocols.scrambled_query.topology import Places, deadlines

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_FROM_DEVICE = msgspec.msgpack.Decoder(wire.Report)
_FROM_CURATOR = msgspec.msgpack.Decoder(messages.Fold | messages.Safe)
_FROM_SCRAMBLER = msgspec.msgpack.Decoder(messages.Parcel)

_OPEN, _CLOSED, _FOLDED, _OVER = range(4)
_WORD = 0
"""The key of what is told to the curator."""


class _Came(msgspec.Struct, array_like=True):
    id: bytes
    """Of the message of a person; none for a parcel."""
    count: int
    """How many records came, real or not."""
    records: list[bytes]
    """Those that could be opened."""


class _ComputeState(msgspec.Struct, array_like=True):
    stage: int
    came: dict[int, _Came]
    outbox: OutboxState


class Compute(Actor):
    """Of one target of one grouping set."""

    def __init__(self, protocol: ScrambledQuery, node: int, context: ActorContext) -> None:
        self._protocol = protocol
        self._places = Places.of(protocol)
        self._index, self._target = self._places.target_of(node)
        self._records = messages.RecordFormat(protocol.asked)
        chosen = protocol
        self._most = 1 if self._places.local else chosen.sources + chosen.dummies
        edges = protocol.asked.sets[self._index].edges(self._places.targets[self._index])
        self._first, self._last = (int(each) for each in edges[self._target : self._target + 2])
        self._generator, self._sealer = context.generator, context.sealer
        self._until = deadlines(context.timing)
        self._state = _ComputeState(_OPEN, {}, OutboxState({}))
        self._outbox = Outbox(context.timing.backoff)
        self._outbox.resume(self._state.outbox)

    # What happens.

    def start(self, now: float) -> list[Effect]:
        """Wait for what is sent here."""
        return self._go_on(now)

    def receive(self, message: Message, now: float) -> list[Effect]:
        """Tuples, or the curator's word."""
        if message.sender == CURATOR:
            limit = 1024 + self._places.units
            return self._told(wire.decode(_FROM_CURATOR, message.body, limit), now)
        if self._places.local:
            return self._record(message)
        return self._parcel(message, now)

    def wake(self, now: float) -> list[Effect]:
        """Stop waiting if it is time; repeat what was not answered."""
        return self._outbox.retry(now) + self._go_on(now)

    def _parcel(self, message: Message, now: float) -> list[Effect]:
        limit = self._records.parcel_limit(self._most)
        parcel = wire.decode(_FROM_SCRAMBLER, message.body, limit)
        if parcel is None or not self._may_send(message.sender, parcel.cluster):
            return []
        if len(parcel.records) > self._most:
            return []
        _, group = self._places.set_and_group(parcel.cluster)
        answer = Send(message.sender, wire.encode(messages.Stored(parcel.cluster)))
        # What comes too late is answered as well, so that its scrambler can forget it.
        if self._state.stage == _OPEN and group not in self._state.came:
            self._take(group, b"", parcel.records)
        return [answer, *self._go_on(now)]

    def _may_send(self, sender: Address, cluster: int) -> bool:
        """Only the scrambler of a group of this set, or a spare."""
        if cluster // self._places.groups != self._index:
            return False
        spare = self._places.spare_of(sender) is not None
        return spare or self._places.cluster_of(sender) == cluster

    def _record(self, message: Message) -> list[Effect]:
        person = self._places.person_of(message.sender)
        report = wire.decode(_FROM_DEVICE, message.body, self._records.limit)
        if person is None or report is None or report.round != 0:
            return []
        if self._index not in self._places.sets(person):
            return []
        if self._state.stage == _OPEN and person not in self._state.came:
            self._take(person, report.id, [report.payload])
        came = self._state.came.get(person)
        known = came is not None and came.id == report.id
        answer = wire.Accepted(0, report.id) if known else wire.Refused(0, report.id)
        return [Send(message.sender, wire.encode(answer))]

    def _take(self, unit: int, id_: bytes, records: list[bytes]) -> None:
        opened = wire.opened(self._sealer, records)
        self._state.came[unit] = _Came(id_, len(records), opened)

    def _told(self, told: messages.Fold | messages.Safe | None, now: float) -> list[Effect]:
        state = self._state
        if isinstance(told, messages.Fold) and state.stage in (_OPEN, _CLOSED):
            counted = messages.places_in(told.units, self._places.units)
            # Without scramblers only the curator can know that nobody else will come.
            if counted is None or (state.stage == _OPEN and not self._places.local):
                return []
            self._outbox.settle(_WORD)
            try:
                part = wire.encode(self._fold(counted))
            except InvalidParameter:
                # Somebody sent numbers that nobody can add up: these cells are lost.
                return self._end()
            state.stage = _FOLDED
            return [self._outbox.put(_WORD, CURATOR, part, now), *self._go_on(now)]
        if isinstance(told, messages.Safe) and state.stage == _FOLDED:
            return self._end()
        return []

    # The tuples.

    def _go_on(self, now: float) -> list[Effect]:
        state, places = self._state, self._places
        effects: list[Effect] = []
        if now >= self._until.result or state.stage == _OVER:
            return self._end()
        waiting = None
        if state.stage == _OPEN and not places.local:
            if len(state.came) == places.groups or now >= self._until.compute:
                state.stage = _CLOSED
                word = messages.Arrived(messages.bits(state.came, places.units))
                effects.append(self._outbox.put(_WORD, CURATOR, wire.encode(word), now))
            else:
                waiting = self._until.compute
        return effects + wake_at(waiting, self._outbox.due, self._until.result)

    def _fold(self, counted: Sequence[int]) -> messages.Part:
        state, query = self._state, self._protocol.asked
        records = [
            record for unit in counted if unit in state.came for record in state.came[unit].records
        ]
        cells, measured = self._records.tuples(records, self._first, self._last)
        folded = query.fold(cells, measured, self._first, self._last)
        noise: tuple[float, ...] = ()
        traffic = b""
        if self._protocol.release:
            from incrowd.protocols.scrambled_query.release import released

            epsilon = self._protocol.release_per_set
            folded, noise = released(folded, query, epsilon, self._generator(0))
        else:
            traffic = self._traffic()
        for came in state.came.values():
            came.records = []
        form = messages.FoldedFormat(query, self._last - self._first)
        return messages.Part(form.pack(folded), list(noise), traffic)

    def _traffic(self) -> bytes:
        counts = np.zeros(self._places.units, "<i8")
        for unit, came in self._state.came.items():
            counts[unit] = came.count
        return counts.tobytes()

    def _end(self) -> list[Effect]:
        """Forget everything but who was here, to answer repeated messages."""
        for came in self._state.came.values():
            came.records = []
        self._state.stage = _OVER
        self._outbox.settle(_WORD)
        return [Done()]

    # Durability.

    def state(self) -> bytes:
        """What came, and what the curator has not answered."""
        return wire.encode(self._state)

    def resume(self, state: bytes) -> None:
        """Continue with the same tuples and the same numbers."""
        self._state = msgspec.msgpack.decode(state, type=_ComputeState)
        self._outbox.resume(self._state.outbox)
