"""The participants with one trusted shuffler.

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

from incrowd.protocols.runtime import wire
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
from incrowd.protocols.runtime.delivery import (
    Intake,
    IntakeState,
    Outbox,
    OutboxState,
    Reporter,
    wake_at,
)
from incrowd.tasks.base import Collected

_TO_SHUFFLER = msgspec.msgpack.Decoder(wire.Report)
_FROM_CURATOR = msgspec.msgpack.Decoder(wire.BatchAccepted)


class Device(Reporter):
    """Sends its reports to the shuffler, each sealed to the curator inside."""

    collector: ClassVar[Address] = SHUFFLER

    def payload(self, report: bytes) -> bytes:
        """The report, sealed so that the shuffler cannot read it."""
        return self.sealer.seal(CURATOR, report)


class _ShufflerState(msgspec.Struct, array_like=True):
    intake: IntakeState
    outbox: OutboxState


class Shuffler(Actor):
    """Takes in every person's reports and hands each round on, permuted."""

    def __init__(
        self,
        roster: Iterable[Address],
        report_bytes: int,
        rounds: int,
        *,
        generator: Callable[[int], np.random.Generator],
        timing: Timing,
    ) -> None:
        """``generator`` gives the stream of one round; patience counts from the start.

        A stream per round, rather than one for all, so that a restart cannot reuse randomness.
        """
        self._limit = wire.report_limit(report_bytes)
        self._generator = generator
        self._patience = timing.patience
        self._intake = Intake(roster, rounds)
        self._outbox = Outbox(timing.backoff)

    def start(self, now: float) -> list[Effect]:
        """Open every round."""
        self._intake.begin(now + self._patience)
        return wake_at(self._intake.due)

    def receive(self, message: Message, now: float) -> list[Effect]:
        """A report to take in, or the curator's word that a batch is safe."""
        if message.sender == CURATOR:
            answer = wire.decode(_FROM_CURATOR, message.body, self._limit)
            if answer is None or not self._outbox.settle(answer.round):
                return []
            return self._what_next()
        report = wire.decode(_TO_SHUFFLER, message.body, self._limit)
        if report is None:
            return []
        effects = self._intake.offer(message.sender, report)
        return effects + self._forward(now) if effects else []

    def wake(self, now: float) -> list[Effect]:
        """Close what is over; send again what the curator has not answered."""
        return self._outbox.retry(now) + self._forward(now)

    def _forward(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for number, payloads in self._intake.close(now):
            batch = wire.encode(self._batch(number, payloads))
            effects.append(self._outbox.put(number, CURATOR, batch, now))
        return effects + self._what_next()

    def _batch(self, number: int, payloads: list[bytes]) -> msgspec.Struct:
        """What the curator gets of a round."""
        return wire.Batch(number, self._permuted(number, payloads))

    def _permuted(self, number: int, payloads: list[bytes]) -> list[bytes]:
        order = self._generator(number).permutation(len(payloads))
        return [payloads[place] for place in order]

    def _what_next(self) -> list[Effect]:
        due = wake_at(self._intake.due, self._outbox.due)
        return due or [Done()]

    def state(self) -> bytes:
        """The open rounds, and the batches that wait for an answer."""
        return wire.encode(_ShufflerState(self._intake.state(), self._outbox.state()))

    def resume(self, state: bytes) -> None:
        """Continue with what was taken in and the same batches."""
        stored = msgspec.msgpack.decode(state, type=_ShufflerState)
        self._intake.resume(stored.intake)
        self._outbox.resume(stored.outbox)


class Curator(Actor):
    """Accepts one batch per round, and is done after the last."""

    batches: ClassVar[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(wire.Batch)
    """What the shuffler sends."""
    kept: ClassVar[Any] = list[bytes]
    """What is remembered of a batch."""

    def __init__(
        self, people: int, reports: wire.ReportFormat, rounds: int, *, sealer: Sealer
    ) -> None:
        self._people = people
        self._reports = reports
        self._rounds = rounds
        self._sealer = sealer
        self._came: dict[int, Any] = {}

    def start(self, now: float) -> list[Effect]:
        """Wait for the shuffler."""
        del now
        return []

    def receive(self, message: Message, now: float) -> list[Effect]:
        """Take in the batch of a round, once, and answer every time."""
        del now
        limit = wire.batch_limit(self._reports.nbytes, self._people)
        if message.sender != SHUFFLER:
            return []
        batch = wire.decode(self.batches, message.body, limit)
        if batch is None or batch.round >= self._rounds or not self.possible(batch):
            return []
        answer = wire.BatchAccepted(batch.round)
        effects: list[Effect] = [Send(SHUFFLER, wire.encode(answer))]
        if batch.round not in self._came:
            self._came[batch.round] = self.taken(batch)
            if len(self._came) == self._rounds:
                came = [self._came[number] for number in range(self._rounds)]
                effects.append(Done(self.collected(came)))
        return effects

    def wake(self, now: float) -> list[Effect]:
        """Nothing to do: the shuffler is the one to ask again."""
        del now
        return []

    def possible(self, batch: Any) -> bool:
        """Whether so many people can have sent it."""
        return len(batch.payloads) <= self._people

    def taken(self, batch: Any) -> Any:
        """What to remember of a batch: the reports that were sealed to this party."""
        return wire.opened(self._sealer, batch.payloads)

    def collected(self, came: Sequence[Any]) -> Collected:
        """What all rounds brought."""
        return Collected(
            rounds=tuple(map(self._reports.unpack, came)), sent=self._people * self._rounds
        )

    def state(self) -> bytes:
        """What the rounds that came have brought."""
        return wire.encode(self._came)

    def resume(self, state: bytes) -> None:
        """Continue with the rounds that came."""
        self._came = msgspec.msgpack.decode(state, type=dict[int, self.kept])  # type: ignore[name-defined]
