"""Exactly-once delivery for actors: send again until answered, take in once.

Three parts that the collecting protocols share:

* :class:`Outbox` keeps what was sent and not yet answered, and sends the same bytes again after
  growing pauses, which each message has for itself: when one is repeated never depends on what else
  waits. Nothing is ever drawn anew for a retry, so a repeated message reveals nothing.
* :class:`Intake` takes in at most one report per person and round, and remembers which, so that a
  repeated report is answered as the first time. A round closes when everyone reported or at its
  deadline; a report that comes later is refused, so that its device can stop.
* :class:`Reporter` is the device of these protocols: it draws its reports once, at the start, and
  sends each when its time has come.

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
        """Refuse pauses that would flood the network or shrink."""
        if not (0 < self.first <= self.cap < np.inf and self.factor >= 1):
            raise InvalidParameter(
                f"a back-off needs 0 < first ≤ cap and factor ≥ 1, got {self.first}, {self.cap} "
                f"and {self.factor}"
            )

    def pause(self, attempts: int) -> float:
        """How long to wait for an answer to the latest of this many attempts."""
        # The exponent is bounded so that a very patient actor does not overflow.
        return min(self.cap, self.first * self.factor ** min(attempts - 1, 64))

    def at_most(self, longest: float) -> Backoff:
        """The same pauses, none of them longer than this."""
        return Backoff(
            first=min(self.first, longest), factor=self.factor, cap=min(self.cap, longest)
        )


class _Pending(msgspec.Struct, array_like=True):
    to: Address
    body: bytes
    attempts: int
    due: float


class OutboxState(msgspec.Struct, array_like=True):
    """What an outbox stores."""

    pending: dict[int, _Pending]


class Outbox:
    """Messages that wait for an answer, by a key of the sender's choice.

    Each has its own clock: when it is sent again depends on nothing else that waits.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._state = OutboxState({})

    def put(self, key: int, to: Address, body: bytes, now: float) -> Send:
        """Send for the first time, and remember to send again."""
        self._state.pending[key] = _Pending(to, body, 1, now + self._backoff.pause(1))
        return Send(to, body)

    def settle(self, key: int) -> bool:
        """An answer came; whether it had been waited for."""
        return self._state.pending.pop(key, None) is not None

    def retry(self, now: float) -> list[Effect]:
        """Everything unanswered whose pause is over, with the same bytes."""
        again: list[Effect] = []
        for pending in self._state.pending.values():
            if now >= pending.due:
                pending.attempts += 1
                pending.due = now + self._backoff.pause(pending.attempts)
                again.append(Send(pending.to, pending.body))
        return again

    @property
    def due(self) -> float | None:
        """When to send the next of them again, or none when nothing waits."""
        return min((pending.due for pending in self._state.pending.values()), default=None)

    def __len__(self) -> int:
        return len(self._state.pending)

    def state(self) -> OutboxState:
        """What to store."""
        return self._state

    def resume(self, state: OutboxState) -> None:
        """Continue from what was stored."""
        self._state = state


class _Round(msgspec.Struct, array_like=True):
    ids: dict[Address, bytes]
    payloads: dict[Address, bytes]
    closed: bool


class IntakeState(msgspec.Struct, array_like=True):
    """What an intake stores."""

    deadlines: list[float]
    rounds: list[_Round]


class Intake:
    """Takes in one report per person of the roster and round, and answers.

    Who sends one with an empty payload has been heard of, and nothing more.
    """

    def __init__(self, roster: Iterable[Address], rounds: int) -> None:
        self._roster = frozenset(roster)
        self._rounds = [_Round({}, {}, False) for _ in range(rounds)]
        self._open = set(range(rounds))
        self._deadlines = [np.inf] * rounds

    def begin(self, deadline: float | Sequence[float]) -> None:
        """Every round that is still open closes at this time, or each at its own."""
        if isinstance(deadline, Sequence):
            self._deadlines = list(deadline)
        else:
            self._deadlines = [deadline] * len(self._rounds)

    def offer(self, sender: Address, report: wire.Report) -> list[Effect]:
        """Take the report in, or not, and answer; strangers get no answer."""
        if sender not in self._roster or report.round >= len(self._rounds):
            return []
        if self.take(sender, report):
            answer: wire.Accepted | wire.Refused = wire.Accepted(report.round, report.id)
        else:
            answer = wire.Refused(report.round, report.id)
        return [Send(sender, wire.encode(answer))]

    def take(self, sender: Address, report: wire.Report) -> bool:
        """Whether the report is in: now, or already since it first came."""
        into = self._rounds[report.round]
        if not into.closed and sender not in into.ids:
            into.ids[sender] = report.id
            if report.payload:
                into.payloads[sender] = report.payload
        return into.ids.get(sender) == report.id

    def close(self, now: float) -> list[tuple[int, list[bytes]]]:
        """Close the rounds that are full or over: each with its payloads, ordered by random id.

        Every round is handed out once. Who sent what is forgotten; the ids of a closed round are
        kept to answer repeated reports.
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
        """Of how many people something came in this round."""
        return len(self._rounds[number].ids)

    @property
    def due(self) -> float | None:
        """The next deadline of a round that is open."""
        return min((self._deadlines[number] for number in self._open), default=None)

    def state(self) -> IntakeState:
        """What to store."""
        return IntakeState(self._deadlines, self._rounds)

    def resume(self, state: IntakeState) -> None:
        """Continue from what was stored."""
        self._deadlines, self._rounds = state.deadlines, state.rounds
        self._open = {number for number, into in enumerate(state.rounds) if not into.closed}


@dataclass(frozen=True)
class Receipt:
    """What a device knows at the end: the rounds in which its report was accepted, or refused."""

    accepted: tuple[int, ...]
    refused: tuple[int, ...]


class _ReporterState(msgspec.Struct, array_like=True):
    ids: list[bytes]
    later: dict[int, bytes]
    outbox: OutboxState
    accepted: list[int]
    refused: list[int]


class Reporter(Actor):
    """A device that sends one report per round to the party that collects.

    The value is randomized once per round, at the start; from then on only bytes are repeated.
    Subclasses say who collects, in which form that party holds a report, and when each leaves.
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
        self.sealer = sealer
        self._value = value
        self._randomizer = randomizer
        self._rounds = rounds
        self._rng = rng
        self._ids: list[bytes] = []
        self._later: dict[int, bytes] = {}
        self._outbox = Outbox(backoff)
        self._accepted: list[int] = []
        self._refused: list[int] = []

    @abstractmethod
    def payload(self, report: bytes) -> bytes:
        """What the collecting party gets to hold: the report, or a sealed one."""

    def reports(self) -> Sequence[bytes | None]:
        """A fresh report of the value for each round, or none where there is nothing to say."""
        values = np.repeat(owned(self._value), self._rounds, axis=0)
        return wire.pack(self._randomizer.randomize_exactly(values, self._rng))

    def message(self, number: int, id_: bytes, report: bytes | None) -> bytes | None:
        """What is sent in a round, if anything is."""
        if report is None:
            return None
        return wire.encode(wire.Report(number, id_, self.payload(report)))

    def window(self, number: int) -> tuple[float, float]:
        """From when the message of a round may leave, and since when it would be too late.

        Neither may be earlier than in the round before.
        """
        del number
        return -np.inf, np.inf

    def start(self, now: float) -> list[Effect]:
        """Draw every report, and send those whose time has come."""
        reports = self.reports()
        self._ids = [self._rng.bytes(wire.ID_BYTES) for _ in reports]
        for number, (id_, report) in enumerate(zip(self._ids, reports, strict=True)):
            body = self.message(number, id_, report)
            if body is not None:
                self._later[number] = body
        return self.wake(now)

    def receive(self, message: Message, now: float) -> list[Effect]:
        """Stop sending what was answered; finish when everything was."""
        del now
        if message.sender != self.collector:
            return []
        answer = wire.decode(_ANSWERS, message.body, _ANSWER_LIMIT)
        if answer is None or answer.round >= len(self._ids):
            return []
        if answer.id != self._ids[answer.round] or not self._outbox.settle(answer.round):
            return []
        accepted = isinstance(answer, wire.Accepted)
        (self._accepted if accepted else self._refused).append(answer.round)
        return self._what_next()

    def wake(self, now: float) -> list[Effect]:
        """Send again what was not answered, and for the first time what is due."""
        effects = self._outbox.retry(now)
        while self._later:
            number = next(iter(self._later))
            opens, closes = self.window(number)
            if now < opens:
                break
            body = self._later.pop(number)
            if now < closes:
                effects.append(self._outbox.put(number, self.collector, body, now))
            else:
                self._refused.append(number)
        return effects + self._what_next()

    def _what_next(self) -> list[Effect]:
        if self._later:
            opens, _ = self.window(next(iter(self._later)))
            return wake_at(self._outbox.due, opens)
        done = Done(Receipt(tuple(sorted(self._accepted)), tuple(sorted(self._refused))))
        return wake_at(self._outbox.due) or [done]

    def state(self) -> bytes:
        """The identifiers, the reports that wait for their time or an answer, and the answers."""
        return wire.encode(
            _ReporterState(
                self._ids, self._later, self._outbox.state(), self._accepted, self._refused
            )
        )

    def resume(self, state: bytes) -> None:
        """Continue with the same identifiers and the same bytes."""
        stored = msgspec.msgpack.decode(state, type=_ReporterState)
        self._ids, self._accepted, self._refused = stored.ids, stored.accepted, stored.refused
        self._later = stored.later
        self._outbox.resume(stored.outbox)


def wake_at(*times: float | None) -> list[Effect]:
    """One wake at the earliest of these times, or none when there is none."""
    earliest = min((time for time in times if time is not None), default=None)
    return [] if earliest is None else [Wake(earliest)]
