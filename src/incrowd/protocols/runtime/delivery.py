"""Exactly-once delivery for actors: send again until answered, take in once.

* :class:`Outbox` keeps messages not yet answered, and sends the same bytes again after growing
  pauses. Each has its own clock: when it is repeated depends on nothing else that waits. Nothing is
  ever drawn anew for a retry, so a repeated message reveals nothing.
* :class:`Intake` takes in at most one report per person and round, and remembers which, so that a
  repeated report is answered as the first time. A round closes when everyone reported or at its
  deadline; a report that comes later is refused, so that its device can stop.
* :class:`Reporter`, the device, draws its reports once, at the start, and sends each in its time.

Together with a runtime that makes state and effects durable before carrying them out, a report that
was answered ``Accepted`` is counted exactly once, and any other at most once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    Actor,
    Address,
    Done,
    Effect,
    Message,
    Sealer,
    Send,
    Wake,
    owned,
)
from incrowd.randomizers.base import Randomizer

_ANSWERS = msgspec.msgpack.Decoder(wire.Accepted | wire.Refused)
_ANSWER_LIMIT = 1024


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Pauses between attempts in seconds: ``first``, then ``factor`` times longer, to ``cap``."""

    first: float = 1.0
    factor: float = 2.0
    cap: float = 60.0

    def __post_init__(self) -> None:
        if not (0 < self.first <= self.cap < np.inf and self.factor >= 1):
            raise InvalidParameter(
                f"a back-off needs 0 < first ≤ cap and factor ≥ 1, got {self.first}, {self.cap} "
                f"and {self.factor}"
            )

    def pause(self, attempts: int) -> float:
        """Seconds to wait for an answer to the latest of this many attempts."""
        # The exponent is bounded so that a very patient actor does not overflow.
        return min(self.cap, self.first * self.factor ** min(attempts - 1, 64))

    def at_most(self, longest: float) -> Backoff:
        """Return the same pauses, none of them longer than this."""
        first, cap = min(self.first, longest), min(self.cap, longest)
        return Backoff(first=first, factor=self.factor, cap=cap)


class _Pending(msgspec.Struct, array_like=True):
    to: Address
    body: bytes
    attempts: int
    due: float


class OutboxState(msgspec.Struct, array_like=True):
    """Durable state of an outbox."""

    pending: dict[int, _Pending] = {}


class Outbox:
    """Messages that wait for an answer, by a key of the sender's choice."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._state = OutboxState()

    def put(self, key: int, to: Address, body: bytes, now: float) -> Send:
        """Send for the first time, and remember to send again."""
        self._state.pending[key] = _Pending(to, body, 1, now + self._backoff.pause(1))
        return Send(to, body)

    def settle(self, key: int) -> bool:
        """Take an answer; return whether it had been waited for."""
        return self._state.pending.pop(key, None) is not None

    def retry(self, now: float) -> list[Effect]:
        """Send again, with the same bytes, every message whose pause is over."""
        again: list[Effect] = []
        for pending in self._state.pending.values():
            if now >= pending.due:
                pending.attempts += 1
                pending.due = now + self._backoff.pause(pending.attempts)
                again.append(Send(pending.to, pending.body))
        return again

    @property
    def due(self) -> float | None:
        """Time to send the next of them again, or none when nothing waits."""
        return min((pending.due for pending in self._state.pending.values()), default=None)

    def __len__(self) -> int:
        return len(self._state.pending)

    def state(self) -> OutboxState:
        """Return the durable state."""
        return self._state

    def resume(self, state: OutboxState) -> None:
        """Continue from a durable state."""
        self._state = state


class _Round(msgspec.Struct, array_like=True):
    ids: dict[Address, bytes]
    payloads: dict[Address, bytes]
    closed: bool


class IntakeState(msgspec.Struct, array_like=True):
    """Durable state of an intake."""

    deadlines: list[float]
    rounds: list[_Round]


class Intake:
    """Reports taken in, one per person of the roster and round; an empty payload only counts."""

    def __init__(self, roster: Iterable[Address], rounds: int) -> None:
        self._roster = frozenset(roster)
        self._rounds = [_Round({}, {}, False) for _ in range(rounds)]
        self._open = set(range(rounds))
        self._deadlines = [np.inf] * rounds

    def begin(self, deadline: float | Sequence[float]) -> None:
        """Set the deadline of every round, or that of each."""
        each = deadline if isinstance(deadline, Sequence) else [deadline] * len(self._rounds)
        self._deadlines = list(each)

    def offer(self, sender: Address, report: wire.Report) -> list[Effect]:
        """Take the report in, or not, and answer; strangers get no answer."""
        if sender not in self._roster or report.round >= len(self._rounds):
            return []
        answer = wire.Accepted if self.take(sender, report) else wire.Refused
        return [Send(sender, wire.encode(answer(report.round, report.id)))]

    def take(self, sender: Address, report: wire.Report) -> bool:
        """Take the report in, unless too late; return whether it is in, now or since earlier."""
        into = self._rounds[report.round]
        if not into.closed and sender not in into.ids:
            into.ids[sender] = report.id
            if report.payload:
                into.payloads[sender] = report.payload
        return into.ids.get(sender) == report.id

    def close(self, now: float) -> list[tuple[int, list[bytes]]]:
        """Close the rounds that are full or over: each, once, with its payloads by random id.

        Who sent what is forgotten; the ids of a closed round stay, to answer repeated reports.
        """
        ready = []
        for number in sorted(self._open):
            into = self._rounds[number]
            if now >= self._deadlines[number] or len(into.ids) == len(self._roster):
                self._open.remove(number)
                into.closed = True
                senders = sorted(into.payloads, key=into.ids.__getitem__)
                ready.append((number, [into.payloads[sender] for sender in senders]))
                into.payloads = {}
        return ready

    def heard(self, number: int) -> int:
        """Number of people heard of in this round."""
        return len(self._rounds[number].ids)

    @property
    def due(self) -> float | None:
        """The next deadline of a round that is open."""
        return min((self._deadlines[number] for number in self._open), default=None)

    def state(self) -> IntakeState:
        """Return the durable state."""
        return IntakeState(self._deadlines, self._rounds)

    def resume(self, state: IntakeState) -> None:
        """Continue from a durable state."""
        self._deadlines, self._rounds = state.deadlines, state.rounds
        self._open = {number for number, into in enumerate(state.rounds) if not into.closed}


@dataclass(frozen=True)
class Receipt:
    """Output of a device: the rounds in which its report was accepted, or refused."""

    accepted: tuple[int, ...]
    refused: tuple[int, ...]


class _ReporterState(msgspec.Struct, array_like=True):
    ids: list[bytes] = []
    later: dict[int, bytes] = {}
    outbox: OutboxState = msgspec.field(default_factory=OutboxState)
    accepted: list[int] = []
    refused: list[int] = []


class Reporter(Actor):
    """Device that sends one report per round to a collector.

    The value is randomized once per round, at the start; from then on only bytes are repeated.
    Subclasses name the collector, the form in which it holds a report, and when each leaves.
    """

    collector: ClassVar[Address]

    def __init__(
        self,
        value: NDArray[Any] | None,
        randomizer: Randomizer,
        rounds: int,
        *,
        rng: np.random.Generator,
        sealer: Sealer,
        backoff: Backoff,
    ) -> None:
        """``value`` is an array of one row, encoded as the randomizer wants it; none to resume."""
        self.sealer, self._rng = sealer, rng
        self._value, self._randomizer, self._rounds = value, randomizer, rounds
        self._outbox = Outbox(backoff)
        self._state = _ReporterState(outbox=self._outbox.state())

    @abstractmethod
    def payload(self, report: bytes) -> bytes:
        """Return what the collector gets to hold: the report, or a sealed one."""

    def reports(self) -> Sequence[bytes | None]:
        """Draw a fresh report of the value for each round, or none where there is none."""
        values = np.repeat(owned(self._value), self._rounds, axis=0)
        return wire.pack(self._randomizer.randomize_exactly(values, self._rng))

    def message(self, number: int, id_: bytes, report: bytes | None) -> bytes | None:
        """Return the message of a round, if there is one."""
        if report is None:
            return None
        return wire.encode(wire.Report(number, id_, self.payload(report)))

    def window(self, _number: int) -> tuple[float, float]:
        """From when to when a round's message may leave; neither earlier than a round before."""
        return -np.inf, np.inf

    def start(self, now: float) -> list[Effect]:
        reports = self.reports()
        self._state.ids = [self._rng.bytes(wire.ID_BYTES) for _ in reports]
        for number, (id_, report) in enumerate(zip(self._state.ids, reports, strict=True)):
            if (body := self.message(number, id_, report)) is not None:
                self._state.later[number] = body
        return self.wake(now)

    def receive(self, message: Message, _now: float) -> list[Effect]:
        if message.sender != self.collector:
            return []
        answer, state = wire.decode(_ANSWERS, message.body, _ANSWER_LIMIT), self._state
        if answer is None or answer.round >= len(state.ids):
            return []
        if answer.id != state.ids[answer.round] or not self._outbox.settle(answer.round):
            return []
        accepted = isinstance(answer, wire.Accepted)
        (state.accepted if accepted else state.refused).append(answer.round)
        return self._next()

    def wake(self, now: float) -> list[Effect]:
        effects, later = self._outbox.retry(now), self._state.later
        while later:
            number = next(iter(later))
            opens, closes = self.window(number)
            if now < opens:
                break
            body = later.pop(number)
            if now < closes:
                effects.append(self._outbox.put(number, self.collector, body, now))
            else:
                self._state.refused.append(number)
        return effects + self._next()

    def _next(self) -> list[Effect]:
        first, state = next(iter(self._state.later), None), self._state
        due = wake_at(self._outbox.due, None if first is None else self.window(first)[0])
        return due or [Done(Receipt(tuple(sorted(state.accepted)), tuple(sorted(state.refused))))]

    def state(self) -> bytes:
        return wire.encode(self._state)

    def resume(self, state: bytes) -> None:
        self._state = msgspec.msgpack.decode(state, type=_ReporterState)
        self._outbox.resume(self._state.outbox)


def wake_at(*times: float | None) -> list[Effect]:
    """Wake at the earliest of these times, or not at all when there is none."""
    earliest = min((time for time in times if time is not None), default=None)
    return [] if earliest is None else [Wake(earliest)]
