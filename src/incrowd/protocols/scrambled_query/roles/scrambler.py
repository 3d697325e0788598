"""Scrambler: mixes the messages of one group with each other and with dummies.

    open ──▶ asking ──▶ releasing ──▶ over
                │ lost                  ▲
                └───────────────────────┘

It takes in one message per person of its group until all are there or its time is up. For everyone
who is missing it draws a message without a tuple, to a target that is uniform: that is what the
redirected messages of people average to, so that the guarantee against an observer is the same
with any absences. It adds its dummies, permutes, and sends one parcel to each compute node, an
empty one too: always as many messages as it has places and dummies. It cannot read what it carries,
and does not know which messages are redirected.

Nothing leaves before the curator has granted it the group, which happens for one scrambler of a
group only, ever; so that no message is seen twice, and none can count twice. The sender of each
message is forgotten when the group closes, and everything else as soon as every parcel has arrived.

A spare is the same without a group; the curator gives it one when another scrambler is silent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Address, Done, Effect, Message, Send, device
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import Intake, IntakeState, OutboxState, wake_at
from incrowd.protocols.scrambled_query import messages
from incrowd.protocols.scrambled_query.roles.base import SHORT, QueryActor

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

_FROM_DEVICE = msgspec.msgpack.Decoder(wire.Report)
_FROM_CURATOR = msgspec.msgpack.Decoder(messages.Granted | messages.Lost | messages.Take)
_FROM_COMPUTE = msgspec.msgpack.Decoder(messages.Stored)

_IDLE, _OPEN, _ASKING, _RELEASING, _OVER = range(5)
_NONE = -1
_QUESTION = _NONE  # the key of what is asked of the curator; parcels go by their targets


def added(
    targets: int, held: NDArray[np.int64], sources: int, dummies: int, capped: bool,
    rng: np.random.Generator,
) -> list[int]:  # fmt: skip
    """Draw the targets of the messages that a scrambler makes itself, for absences and as dummies.

    ``held`` counts the messages of each target that came. Where there is one target there is
    nothing to hide, and dummies would be of no use. ``capped``: none goes to a target that has as
    many as there are sources.
    """
    fill = rng.integers(targets, size=sources - int(held.sum()))
    drawn: list[int] = fill.tolist()
    if targets == 1:
        return drawn
    if not capped:
        return [*drawn, *rng.integers(targets, size=dummies).tolist()]
    counts = held + np.bincount(fill, minlength=targets)
    for _ in range(dummies):
        free = np.flatnonzero(counts < sources)
        target = int(free[rng.integers(len(free))])
        counts[target] += 1
        drawn.append(target)
    return drawn


class _ScramblerState(msgspec.Struct, array_like=True):
    stage: int
    cluster: int
    intake: IntakeState | None
    held: list[bytes]
    """Messages in the order of random identifiers, from the close of the group to its grant."""
    outbox: OutboxState


class Scrambler(QueryActor):
    """Scrambler of one group and grouping set; or a spare, of none as yet."""

    _state: _ScramblerState
    _intake: Intake | None

    def __init__(self, protocol: ScrambledQuery, address: Address, context: ActorContext) -> None:
        super().__init__(protocol, context)
        own = self._places.cluster_of(address)
        self._closes = self._until.spares if own is None else self._until.scramblers
        self._payload_bytes = 0
        self._set_state(_ScramblerState(_IDLE, _NONE, None, [], OutboxState({})))
        if own is not None:
            self._open(own)

    def _open(self, cluster: int) -> None:
        self._state.stage, self._state.cluster = _OPEN, cluster
        self._intake = self._new_intake()
        self._intake.begin(self._closes)

    def _new_intake(self) -> Intake:
        return Intake(map(device, self._places.members(self._state.cluster)), 1)

    @property
    def _index(self) -> int:
        return self._places.set_and_group(self._state.cluster)[0]

    @property
    def _targets(self) -> int:
        return self._places.targets[self._index]

    def _compute(self, target: int) -> Address:
        return self._places.compute(self._index, target)

    def receive(self, message: Message, now: float) -> list[Effect]:
        if message.sender == CURATOR:
            return self._told(wire.decode(_FROM_CURATOR, message.body, SHORT), now)
        node = self._places.node_of(message.sender)
        if node is not None:
            stored = wire.decode(_FROM_COMPUTE, message.body, SHORT)
            if stored is None or stored.cluster != self._state.cluster:
                return []
            _, target = self._places.target_of(node)
            # A node of another set gets nothing from here.
            if self._compute(target) != message.sender or not self._outbox.settle(target):
                return []
            return self._go_on(now)
        report = wire.decode(_FROM_DEVICE, message.body, self._records.limit)
        if report is None or self._intake is None or not self._fits(report.payload):
            return []
        effects = self._intake.offer(message.sender, report)
        return effects + self._go_on(now) if effects else []

    def _fits(self, payload: bytes) -> bool:
        """Whether this is a message like all others: one that is not would stand out."""
        if not self._payload_bytes:
            sealed = self._sealer.seal(self._compute(0), bytes(self._records.nbytes))
            self._payload_bytes = len(messages.post(0, sealed))
        return len(payload) == self._payload_bytes and messages.posted(payload)[0] < self._targets

    def _told(
        self, told: messages.Granted | messages.Lost | messages.Take | None, now: float
    ) -> list[Effect]:
        if isinstance(told, messages.Take):
            return self._take(told, now)
        if told is None or told.cluster != self._state.cluster or self._state.stage != _ASKING:
            return []
        self._outbox.settle(_QUESTION)
        if isinstance(told, messages.Granted):
            return self._release(now) + self._go_on(now)
        return self._end()

    def _take(self, told: messages.Take, now: float) -> list[Effect]:
        if self._state.stage == _IDLE and told.cluster < self._places.clusters:
            self._open(told.cluster)
        if told.cluster != self._state.cluster:
            return []
        answer = Send(CURATOR, wire.encode(messages.Taken(told.cluster)))
        return [answer, *self._go_on(now)]

    def _go_on(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self._state.stage == _OPEN and self._intake is not None:
            for _, held in self._intake.close(now):
                self._state.stage, self._state.held = _ASKING, held
                question = wire.encode(messages.Ask(self._state.cluster, len(held)))
                effects.append(self._outbox.put(_QUESTION, CURATOR, question, now))
        sent = self._state.stage == _RELEASING and not len(self._outbox)
        if sent or self._state.stage == _OVER or now >= self._until.result:
            return effects + self._end()
        if self._state.stage == _IDLE:
            # A spare that is not needed keeps no party waiting.
            return [Done()]
        closing = self._intake.due if self._intake is not None else None
        return effects + wake_at(closing, self._outbox.due, self._until.result)

    def _release(self, now: float) -> list[Effect]:
        """Send all messages and dummies in parcels, permuted: from here on no sender is known."""
        rng, query = self._generator(0), self._protocol
        mixed = [messages.posted(each) for each in self._state.held]
        held = np.bincount([target for target, _ in mixed], minlength=self._targets)
        capped = query.hiding == "capped"
        for target in added(self._targets, held, query.sources, query.dummies, capped, rng):
            sealed = self._sealer.seal(self._compute(target), self._records.dummy(rng))
            mixed.append((target, sealed))
        by_target: list[list[bytes]] = [[] for _ in range(self._targets)]
        for place in rng.permutation(len(mixed)):
            target, sealed = mixed[place]
            by_target[target].append(sealed)
        self._state.stage, self._state.held = _RELEASING, []
        parcels = [messages.Parcel(self._state.cluster, records) for records in by_target]
        return [
            self._outbox.put(target, self._compute(target), wire.encode(parcel), now)
            for target, parcel in enumerate(parcels)
        ]

    def _end(self) -> list[Effect]:
        """Forget all messages; their senders are kept, to answer repeated ones."""
        if self._intake is not None:
            self._intake.close(np.inf)
        self._state.stage, self._state.held = _OVER, []
        self._state.outbox.pending.clear()
        return [Done()]

    def state(self) -> bytes:
        self._state.intake = None if self._intake is None else self._intake.state()
        return super().state()

    def _set_state(self, state: _ScramblerState) -> None:
        super()._set_state(state)
        self._intake = None if state.intake is None else self._new_intake()
        if self._intake is not None and state.intake is not None:
            self._intake.resume(state.intake)
