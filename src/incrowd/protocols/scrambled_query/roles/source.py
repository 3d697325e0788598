"""Source: a person's device; and the maker of all actors of a scrambled query.

    source ── Report([target, [record]]) ──▶ scrambler ── Parcel([record]s) ──▶ compute
    source ◀── Accepted | Refused ────────── scrambler ◀── Stored ───────────── compute
                        compute ── Part(numbers of its cells) ──▶ curator

A record is sealed to the compute node of the target that its source has drawn, so that a scrambler
knows where it goes and not what it says, and a compute node what it says and not whose it is. For
mixing and for the replacement of silent scramblers see :mod:`.scrambler` and :mod:`.curator`; for
addresses ``incrowd.protocols.scrambled_query.topology``.

A source draws once, for each grouping set that it answers: a target, with the chance σ at random,
and a record, which is real if the target is the one its tuple belongs to. A tuple that does not
meet WHERE has no target: a dummy goes to one that is uniform. From then on only the same bytes are
repeated, to the scrambler, or to a spare when the curator says so. Without scramblers it sends to
compute nodes itself, d + 1 messages to as many of them, in random order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Address, Done, Effect, Message, Send, owned
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import OutboxState, Receipt, wake_at
from incrowd.protocols.scrambled_query import messages
from incrowd.protocols.scrambled_query.roles.base import SHORT, QueryActor
from incrowd.protocols.scrambled_query.roles.compute import Compute
from incrowd.protocols.scrambled_query.roles.curator import Curator
from incrowd.protocols.scrambled_query.roles.scrambler import Scrambler
from incrowd.protocols.scrambled_query.topology import Places

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_ANSWERS = msgspec.msgpack.Decoder(wire.Accepted | wire.Refused)
_FROM_CURATOR = msgspec.msgpack.Decoder(messages.Divert | messages.Noted)
_WAITING, _ACCEPTED, _REFUSED = range(3)


def make_actor(protocol: ScrambledQuery, address: Address, context: ActorContext) -> QueryActor:
    """Return one person's device, a scrambler or spare, a compute node, or the curator."""
    places = Places.of(protocol)
    if address == CURATOR:
        return Curator(protocol, context)
    if places.cluster_of(address) is not None or places.spare_of(address) is not None:
        return Scrambler(protocol, address, context)
    node, person = places.node_of(address), places.person_of(address)
    if node is not None:
        return Compute(protocol, node, context)
    if person is None:
        raise InvalidParameter(f"{address} has no part in this query: it needs fewer helpers")
    return Source(protocol, person, context)


class _Post(msgspec.Struct, array_like=True):
    index: int  # the grouping set
    to: Address
    id: bytes
    body: bytes
    stage: int = _WAITING


class _SourceState(msgspec.Struct, array_like=True):
    posts: list[_Post]
    told: list[int]
    """The sets of which the curator was told that everything arrived; without scramblers only."""
    outbox: OutboxState


class Source(QueryActor):
    """Sends its owner's tuple, once for each grouping set that it answers."""

    _state: _SourceState

    def __init__(self, protocol: ScrambledQuery, person: int, context: ActorContext) -> None:
        super().__init__(protocol, context)
        self._person, self._value = person, context.value
        self._set_state(_SourceState([], [], OutboxState({})))

    def start(self, now: float) -> list[Effect]:
        value = owned(self._value)
        for index in self._places.sets(self._person):
            self._state.posts += self._drawn(index, value)
        posts = enumerate(self._state.posts)
        sent = [self._outbox.put(key, post.to, post.body, now) for key, post in posts]
        return [*sent, *self._go_on(now)]

    def receive(self, message: Message, now: float) -> list[Effect]:
        if message.sender == CURATOR:
            told = wire.decode(_FROM_CURATOR, message.body, SHORT)
            if isinstance(told, messages.Divert):
                return self._divert(told, now)
            if told is None or not self._outbox.settle(self._said(told.index)):
                return []
            return self._go_on(now)
        answer = wire.decode(_ANSWERS, message.body, SHORT)
        if answer is None or answer.round != 0:
            return []
        for key, post in enumerate(self._state.posts):
            if (post.to, post.id) == (message.sender, answer.id) and self._outbox.settle(key):
                post.stage = _ACCEPTED if isinstance(answer, wire.Accepted) else _REFUSED
                return self._tell(post.index, now) + self._go_on(now)
        return []

    def _go_on(self, now: float) -> list[Effect]:
        effects, later, sets = list[Effect](), None, self._places.sets(self._person)
        if self._places.local and now < self._until.people:
            later = self._until.people
        elif self._places.local:
            effects += [each for index in sets for each in self._tell(index, now)]
        if now >= self._until.result:
            self._state.outbox.pending.clear()
        if len(self._outbox):
            return effects + wake_at(self._outbox.due, later, self._until.result)
        late = {post.index for post in self._state.posts if post.stage != _ACCEPTED}
        receipt = Receipt(tuple(each for each in sets if each not in late), tuple(sorted(late)))
        return [*effects, Done(receipt)]

    def _drawn(self, index: int, value: NDArray[Any]) -> list[_Post]:
        """The messages of one grouping set, in the order in which they leave."""
        query, places = self._protocol.asked, self._places
        rng = self._generator(index)
        targets, grouping = places.targets[index], query.sets[index]
        cell = grouping.cell_of(value)
        true = grouping.target_of(cell, targets)
        if query.matches(value)[0]:
            drawn = int(self._protocol.redirect(index).randomize_exactly(true, rng)[0])
            kept = drawn == int(true[0])
        else:
            drawn, kept = int(rng.integers(targets)), False
        record = self._records.dummy(rng)
        if kept:
            record = self._records.real(int(cell[0]), query.measured(value), rng)
        if not places.local:
            to = places.scrambler(places.cluster(index, self._person))
            sealed = self._sealer.seal(places.compute(index, drawn), record)
            return [self._post(index, to, messages.post(drawn, sealed), rng)]
        extra = min(self._protocol.dummies, targets - 1)
        others = [each for each in range(targets) if each != drawn]
        chosen = [drawn, *(others[each] for each in rng.permutation(targets - 1)[:extra])]
        posts = []
        for place in rng.permutation(len(chosen)):
            content = self._records.dummy(rng) if place else record
            to = places.compute(index, chosen[place])
            posts.append(self._post(index, to, self._sealer.seal(to, content), rng))
        return posts

    def _post(self, index: int, to: Address, payload: bytes, rng: np.random.Generator) -> _Post:
        id_ = rng.bytes(wire.ID_BYTES)
        return _Post(index, to, id_, wire.encode(wire.Report(0, id_, payload)))

    def _divert(self, told: messages.Divert, now: float) -> list[Effect]:
        """Send the same bytes to a spare, to one only."""
        places = self._places
        if places.local or told.spare >= places.spares or now >= self._until.result:
            return []
        spare, effects = places.spare(told.spare), list[Effect]()
        for key, post in enumerate(self._state.posts):
            if post.index != told.index:
                continue
            if places.cluster_of(post.to) is not None:
                post.to, post.stage = spare, _WAITING
                self._outbox.settle(key)
                effects.append(self._outbox.put(key, spare, post.body, now))
            if post.to == spare:
                word = wire.encode(messages.Diverted(told.index, told.spare))
                return [*effects, Send(CURATOR, word), *self._go_on(now)]
        return []

    def _said(self, index: int) -> int:
        return len(self._state.posts) + index

    def _tell(self, index: int, now: float) -> list[Effect]:
        """Without a scrambler: say when everything of a set has arrived."""
        mine = {post.stage for post in self._state.posts if post.index == index}
        if not self._places.local or index in self._state.told or _ACCEPTED not in mine:
            return []
        # After a while, what could: a person who sent to a compute node that is not there, perhaps
        # only a dummy, must not be missing in the cells of all others.
        if _WAITING in mine and now < self._until.people:
            return []
        self._state.told.append(index)
        word = wire.encode(messages.Through(index))
        return [self._outbox.put(self._said(index), CURATOR, word, now)]
