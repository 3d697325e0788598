"""Actors without a shuffler: devices, and a curator who hears each of them.

    device ── Report(round, id, report) ──▶ curator
    device ◀── Accepted | Refused ───────── curator

The curator closes a round when everyone on the roster reported, or at the deadline.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address, Done, Effect, Message
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.delivery import Intake, IntakeState, Reporter, wake_at
from incrowd.tasks.base import Collected

_REPORTS = msgspec.msgpack.Decoder(wire.Report)


class Device(Reporter):
    """Device that sends its reports to the curator."""

    collector: ClassVar[Address] = CURATOR

    def payload(self, report: bytes) -> bytes:
        """Return the report itself: the curator is to read it, and no other party carries it."""
        return report


class _State(msgspec.Struct, array_like=True):
    intake: IntakeState
    closed: dict[int, list[bytes]]


class Curator(Actor):
    """Party that takes in everyone's reports until each round is full or over."""

    def __init__(
        self, roster: Iterable[Address], reports: wire.ReportFormat, rounds: int, *, timing: Timing
    ) -> None:
        """Patience counts from the start."""
        people = frozenset(roster)
        self._asked, self._timeout = len(people) * rounds, timing.timeout
        self._reports, self._rounds = reports, rounds
        self._intake = Intake(people, rounds)
        self._closed: dict[int, list[bytes]] = {}

    def start(self, now: float) -> list[Effect]:
        self._intake.begin(now + self._timeout)
        return wake_at(self._intake.due)

    def receive(self, message: Message, now: float) -> list[Effect]:
        report = wire.decode(_REPORTS, message.body, wire.report_limit(self._reports.nbytes))
        effects = [] if report is None else self._intake.offer(message.sender, report)
        return effects + self.wake(now) if effects else []

    def wake(self, now: float) -> list[Effect]:
        ready = self._intake.close(now)
        self._closed.update(ready)
        if not ready or len(self._closed) < self._rounds:
            return wake_at(self._intake.due)
        rounds = (self._reports.unpack(self._closed[number]) for number in range(self._rounds))
        return [Done(Collected(rounds=tuple(rounds), sent=self._asked))]

    def state(self) -> bytes:
        return wire.encode(_State(self._intake.state(), self._closed))

    def resume(self, state: bytes) -> None:
        stored = msgspec.msgpack.decode(state, type=_State)
        self._intake.resume(stored.intake)
        self._closed = stored.closed
