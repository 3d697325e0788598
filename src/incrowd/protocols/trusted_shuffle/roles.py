"""Actors of shuffling by one trusted shuffler.

    device ── Report(round, id, [report sealed to the curator]) ──▶ shuffler
    device ◀── Accepted | Refused ───────────────────────────────── shuffler
                    shuffler ── Batch(round, permuted [report]s) ──▶ curator
                    shuffler ◀── BatchAccepted ──────────────────── curator

The shuffler closes a round when everyone on its roster reported, or at the deadline; it then
permutes the payloads uniformly and forgets who sent them. Identifiers and senders stay with it, so
all that the curator learns of a round is a multiset of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from incrowd.protocols.runtime import delivery, wire
from incrowd.protocols.runtime.actor import (
    CURATOR,
    SHUFFLER,
    Actor,
    Address,
    Done,
    Effect,
    Message,
    Sealer,
    Send,
)
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.trusted_shuffle.messages import Batch, BatchAccepted
from incrowd.tasks.base import Collected

_TO_SHUFFLER = msgspec.msgpack.Decoder(wire.Report)
_FROM_CURATOR = msgspec.msgpack.Decoder(BatchAccepted)


class Device(delivery.Reporter):
    """Device that sends its reports to the shuffler, each sealed to the curator inside."""

    collector: ClassVar[Address] = SHUFFLER

    def payload(self, report: bytes) -> bytes:
        return self.sealer.seal(CURATOR, report)


class _ShufflerState(msgspec.Struct, array_like=True):
    intake: delivery.IntakeState
    outbox: delivery.OutboxState


class Shuffler(Actor):
    """Party that takes in everyone's reports and hands each round on, permuted."""

    def __init__(
        self,
        roster: Iterable[Address],
        report_bytes: int,
        rounds: int,
        *,
        generator: Callable[[int], np.random.Generator],
        timing: Timing,
    ) -> None:
        """``generator`` gives a stream per round, so that a restart cannot reuse randomness."""
        self._limit, self._timeout = wire.report_limit(report_bytes), timing.timeout
        self._generator = generator
        self._intake = delivery.Intake(roster, rounds)
        self._outbox = delivery.Outbox(timing.backoff)

    def start(self, now: float) -> list[Effect]:
        self._intake.begin(now + self._timeout)
        return delivery.wake_at(self._intake.due)

    def receive(self, message: Message, now: float) -> list[Effect]:
        if message.sender == CURATOR:
            answer = wire.decode(_FROM_CURATOR, message.body, self._limit)
            settled = answer is not None and self._outbox.settle(answer.round)
            return self._next() if settled else []
        report = self._report(message.body)
        effects = [] if report is None else self._intake.offer(message.sender, report)
        return effects + self._forward(now) if effects else []

    def wake(self, now: float) -> list[Effect]:
        return self._outbox.retry(now) + self._forward(now)

    def _report(self, body: bytes) -> wire.Report | None:
        return wire.decode(_TO_SHUFFLER, body, self._limit)

    def _forward(self, now: float) -> list[Effect]:
        effects: list[Effect] = [
            self._outbox.put(number, CURATOR, wire.encode(self._batch(number, payloads)), now)
            for number, payloads in self._intake.close(now)
        ]
        return effects + self._next()

    def _batch(self, number: int, payloads: list[bytes]) -> msgspec.Struct:
        return Batch(number, self._permuted(number, payloads))

    def _permuted(self, number: int, payloads: list[bytes]) -> list[bytes]:
        return [payloads[at] for at in self._generator(number).permutation(len(payloads))]

    def _next(self) -> list[Effect]:
        return delivery.wake_at(self._intake.due, self._outbox.due) or [Done()]

    def state(self) -> bytes:
        return wire.encode(_ShufflerState(self._intake.state(), self._outbox.state()))

    def resume(self, state: bytes) -> None:
        stored = msgspec.msgpack.decode(state, type=_ShufflerState)
        self._intake.resume(stored.intake)
        self._outbox.resume(stored.outbox)


class Curator(Actor):
    """Party that accepts one batch per round, and is done after the last."""

    batches: ClassVar[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(Batch)
    """Decoder of the shuffler's messages."""
    kept: ClassVar[Any] = list[bytes]
    """Type of the part of a batch that is stored."""

    def __init__(
        self, people: int, reports: wire.ReportFormat, rounds: int, *, sealer: Sealer
    ) -> None:
        self._people, self._rounds = people, rounds
        self._reports, self._sealer = reports, sealer
        self._came: dict[int, Any] = {}

    def start(self, _now: float) -> list[Effect]:
        return []

    def receive(self, message: Message, _now: float) -> list[Effect]:
        limit = wire.batch_limit(self._reports.nbytes, self._people)
        if message.sender != SHUFFLER:
            return []
        batch = wire.decode(self.batches, message.body, limit)
        if batch is None or batch.round >= self._rounds or not self.possible(batch):
            return []
        effects: list[Effect] = [Send(SHUFFLER, wire.encode(BatchAccepted(batch.round)))]
        if batch.round not in self._came:
            self._came[batch.round] = self.taken(batch)
            if len(self._came) == self._rounds:
                came = [self._came[number] for number in range(self._rounds)]
                effects.append(Done(self.collected(came)))
        return effects

    def wake(self, _now: float) -> list[Effect]:
        return []

    def possible(self, batch: Any) -> bool:
        """Whether the people of the roster can have sent this batch."""
        return len(batch.payloads) <= self._people

    def taken(self, batch: Any) -> Any:
        """Return the part of a batch to store: the reports that were sealed to this party."""
        return wire.opened(self._sealer, batch.payloads)

    def collected(self, came: Sequence[Any]) -> Collected:
        """Return the reports of all rounds."""
        rounds = tuple(map(self._reports.unpack, came))
        return Collected(rounds=rounds, sent=self._people * self._rounds)

    def state(self) -> bytes:
        return wire.encode(self._came)

    def resume(self, state: bytes) -> None:
        self._came = msgspec.msgpack.decode(state, type=dict[int, self.kept])  # type: ignore[name-defined]
