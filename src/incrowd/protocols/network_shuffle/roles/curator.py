"""Curator of a walk: takes in, once, what each person holds at the end, and everyone's absences.

It learns who handed in which reports, and nothing of where they had been. A device that was not on
to the end hands in the record of the windows missed and no reports; one that hands in nothing by
the deadline may have said that it never began, and of the others only a hub may know anything.
"""

from __future__ import annotations

import bisect
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.network_shuffle.messages import Absent, HandIn, Withheld
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Handing, Walked
from incrowd.protocols.network_shuffle.theorems import attendance
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import Actor, Done, Effect, Message, Send, device
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import wake_at
from incrowd.tasks.base import Dummies

_TO_CURATOR = msgspec.msgpack.Decoder(HandIn | Withheld | Absent)


class _Held(msgspec.Struct, array_like=True):
    id: bytes
    missed: list[int]
    reports: list[bytes]
    withheld: bool


class _CuratorState(msgspec.Struct, array_like=True):
    handed_in: dict[int, _Held] = {}
    excused: list[int] = []
    """People who never began, in order."""
    closed: bool = False


class Curator(Actor):
    """Party that takes in everyone's hand-in, once; done with the last, or at the deadline."""

    def __init__(
        self,
        context: ActorContext,
        people: int,
        reports: wire.ReportFormat,
        rounds: int,
        hand_in: Handing,
        dummies: Dummies | None = None,
    ) -> None:
        """Patience counts from the time at which everyone hands in."""
        self._sealer, timing = context.sealer, context.timing
        self._people, self._reports, self._rounds = people, reports, rounds
        self._roster = {device(person): person for person in range(people)}
        self._handing, self._dummies = hand_in, dummies
        clock = Clock.of(rounds, timing)
        self._windows = clock.windows
        self._limit = wire.batch_limit(wire.ID_BYTES + reports.nbytes, people) + 5 * clock.windows
        self._deadline = clock.hand_in + timing.timeout
        self._state = _CuratorState()

    def start(self, _now: float) -> list[Effect]:
        return wake_at(self._deadline)

    def receive(self, message: Message, now: float) -> list[Effect]:
        person, state = self._roster.get(message.sender), self._state
        if person is None:
            return []
        heard = wire.decode(_TO_CURATOR, message.body, self._limit)
        if isinstance(heard, Absent):
            if not state.closed and person not in state.excused:
                bisect.insort(state.excused, person)
            return self._close(now)
        if heard is None or not self._makes_sense(heard):
            return []
        closing = self._close(now)
        if not state.closed and person not in state.handed_in:
            payloads = heard.payloads if isinstance(heard, HandIn) else None
            reports = wire.opened(self._sealer, payloads or [])
            state.handed_in[person] = _Held(heard.id, heard.missed, reports, payloads is None)
        known = state.handed_in.get(person)
        taken = known is not None and known.id == heard.id
        answer = (wire.Accepted if taken else wire.Refused)(0, heard.id)
        return [Send(message.sender, wire.encode(answer)), *closing, *self._close(now)]

    def wake(self, now: float) -> list[Effect]:
        return self._close(now) or ([] if self._state.closed else wake_at(self._deadline))

    def _makes_sense(self, heard: HandIn | Withheld) -> bool:
        if any(number >= self._windows for number in heard.missed):
            return False
        if isinstance(heard, Withheld):
            return True
        count = len(heard.payloads)
        right = count == 1 if self._handing == "single" else count <= self._people
        return right and attendance.on_to_the_end(heard.missed, self._windows)

    def _close(self, now: float) -> list[Effect]:
        state = self._state
        heard_of = len(state.handed_in.keys() | set(state.excused))
        if state.closed or (now < self._deadline and heard_of < self._people):
            return []
        state.closed = True
        collected = self._collected()
        for held in state.handed_in.values():
            held.reports = []
        return [Done(collected)]

    def _collected(self) -> Walked:
        state = self._state
        # An identifier counts once; sorting by these random bytes gives an order that says nothing.
        found: dict[bytes, tuple[bytes, int]] = {}
        for person, held in sorted(state.handed_in.items()):
            for opened in held.reports:
                found.setdefault(opened[: wire.ID_BYTES], (opened[wire.ID_BYTES :], person))
        ordered = [found[id_] for id_ in sorted(found)]
        reports, kept = self._readable([report for report, _ in ordered])
        held_by = np.array([person for _, person in ordered], np.int32)[kept]
        table = np.full((self._windows, self._people), attendance.UNKNOWN, np.int8)
        reported = np.zeros(self._people, bool)
        table[:, state.excused] = attendance.AWAY
        for person, held in state.handed_in.items():
            table[:, person] = attendance.from_record(held.missed, self._windows)
            reported[person] = not held.withheld
        everything = self._handing == "all"
        away = (table[: self._rounds] == attendance.AWAY) | ~reported
        return Walked(
            rounds=(reports,),
            sent=self._people,
            dummies=self._dummies,
            holders=held_by,
            away=away if away.any() or not reported.all() else None,
            silent=None if reported.all() else ~reported,
            attendance=None if (table == attendance.ON).all() and reported.all() else table,
            load=np.bincount(held_by, minlength=self._people) if everything else None,
            lost=self._people - len(reports) if everything else 0,
        )

    def _readable(self, rows: list[bytes]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        reports, places = self._reports.unpack(rows), np.arange(len(rows))
        if len(reports) < len(rows):
            places = places[[len(self._reports.unpack([row])) > 0 for row in rows]]
        return reports, places

    def state(self) -> bytes:
        return wire.encode(self._state)

    def resume(self, state: bytes) -> None:
        self._state = msgspec.msgpack.decode(state, type=_CuratorState)
