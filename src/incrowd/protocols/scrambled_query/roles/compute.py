"""Compute node: reads the tuples of its cells, and folds them into a few numbers per cell.

    open ──▶ closed ──▶ folded ──▶ over

It takes one parcel of each group, from its scrambler or a spare, or one record of each person where
there are no scramblers. When all groups came or its time is up, it tells the curator which did; the
curator says which of them came everywhere, and only those count, so that a scrambler that died half
way is an absence everywhere. Then it drops dummies, and whatever no honest device sends, and a
record that it has seen before; folds the others, adds the noise of a release if there is to be one,
and forgets every tuple. It folds once: to another choice of groups it gives the same numbers.

An observer knows what came from where; the curator is told too, unless the result has noise: then
the curator is guaranteed to learn nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from incrowd.errors import InvalidParameter
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Done, Effect, Message, Send
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import OutboxState, wake_at
from incrowd.protocols.scrambled_query import messages
from incrowd.protocols.scrambled_query.release import released
from incrowd.protocols.scrambled_query.roles.base import SHORT, QueryActor

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_FROM_DEVICE = msgspec.msgpack.Decoder(wire.Report)
_FROM_CURATOR = msgspec.msgpack.Decoder(messages.Fold | messages.Safe)
_FROM_SCRAMBLER = msgspec.msgpack.Decoder(messages.Parcel)

_OPEN, _CLOSED, _FOLDED, _OVER = range(4)
_WORD = 0  # the key of what is told to the curator


class _Came(msgspec.Struct, array_like=True):
    id: bytes  # of the message of a person; none for a parcel
    count: int  # number of records that came, real or not
    records: list[bytes]  # those that could be opened


class _ComputeState(msgspec.Struct, array_like=True):
    stage: int
    came: dict[int, _Came]
    outbox: OutboxState


class Compute(QueryActor):
    """Compute node of one target of one grouping set."""

    _state: _ComputeState

    def __init__(self, protocol: ScrambledQuery, node: int, context: ActorContext) -> None:
        super().__init__(protocol, context)
        self._index, self._target = self._places.target_of(node)
        self._most = 1 if self._places.local else protocol.sources + protocol.dummies
        edges = protocol.asked.sets[self._index].edges(self._places.targets[self._index])
        self._first, self._last = (int(each) for each in edges[self._target : self._target + 2])
        self._set_state(_ComputeState(_OPEN, {}, OutboxState({})))

    def receive(self, message: Message, now: float) -> list[Effect]:
        if message.sender == CURATOR:
            limit = SHORT + self._places.units
            return self._told(wire.decode(_FROM_CURATOR, message.body, limit), now)
        return self._record(message) if self._places.local else self._parcel(message, now)

    def _parcel(self, message: Message, now: float) -> list[Effect]:
        limit = self._records.parcel_limit(self._most)
        parcel = wire.decode(_FROM_SCRAMBLER, message.body, limit)
        if parcel is None or len(parcel.records) > self._most:
            return []
        index, group = self._places.set_and_group(parcel.cluster)
        spare = self._places.spare_of(message.sender) is not None
        own = self._places.cluster_of(message.sender) == parcel.cluster
        if index != self._index or not (spare or own):
            return []
        answer = Send(message.sender, wire.encode(messages.Stored(parcel.cluster)))
        # What comes too late is answered as well, so that its scrambler can forget it.
        if self._state.stage == _OPEN and group not in self._state.came:
            self._take(group, b"", parcel.records)
        return [answer, *self._go_on(now)]

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
        self._state.came[unit] = _Came(id_, len(records), wire.opened(self._sealer, records))

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
                # A device sent numbers that cannot be added up: these cells are lost.
                return self._end()
            state.stage = _FOLDED
            return [self._outbox.put(_WORD, CURATOR, part, now), *self._go_on(now)]
        if isinstance(told, messages.Safe) and state.stage == _FOLDED:
            return self._end()
        return []

    def _go_on(self, now: float) -> list[Effect]:
        state, places = self._state, self._places
        if now >= self._until.result or state.stage == _OVER:
            return self._end()
        if state.stage != _OPEN or places.local:
            return wake_at(self._outbox.due, self._until.result)
        if len(state.came) < places.groups and now < self._until.compute:
            return wake_at(self._until.compute, self._outbox.due, self._until.result)
        state.stage = _CLOSED
        word = wire.encode(messages.Arrived(messages.bits(state.came, places.units)))
        sent = self._outbox.put(_WORD, CURATOR, word, now)
        return [sent, *wake_at(self._outbox.due, self._until.result)]

    def _fold(self, counted: Sequence[int]) -> messages.Part:
        came, protocol, query = self._state.came, self._protocol, self._protocol.asked
        records = [record for unit in counted if unit in came for record in came[unit].records]
        cells, measured = self._records.tuples(records, self._first, self._last)
        folded = query.fold(cells, measured, self._first, self._last)
        noise: tuple[float, ...] = ()
        traffic = np.zeros(0 if protocol.release_epsilon else self._places.units, "<i8")
        if protocol.release_epsilon:
            folded, noise = released(folded, query, protocol.release_per_set, self._generator(0))
        else:
            traffic[list(came)] = [each.count for each in came.values()]
        self._forget()
        form = messages.FoldedFormat(query, self._last - self._first)
        return messages.Part(form.pack(folded), list(noise), traffic.tobytes())

    def _forget(self) -> None:
        """Drop all records; their senders are kept, to answer repeated messages."""
        for came in self._state.came.values():
            came.records = []

    def _end(self) -> list[Effect]:
        self._forget()
        self._state.stage = _OVER
        self._outbox.settle(_WORD)
        return [Done()]
