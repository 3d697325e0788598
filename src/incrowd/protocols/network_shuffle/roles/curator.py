"""The curator of a walk: takes in once what each person holds at the end, and who was away when.

It learns who handed in which reports, and nothing of where they had been. Who was not on to the end
hands in the record of the windows missed and no reports; who hands in nothing by the deadline may
have said that they never began, and of the others this curator knows nothing: a hub may.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Mode, Walked
from incrowd.protocols.network_shuffle.theorems.attendance import (
    AWAY,
    ON,
    UNKNOWN,
    from_record,
    on_to_the_end,
)
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import Actor, Done, Effect, Message, Sealer, Send, device
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.delivery import wake_at
from incrowd.tasks.base import Dummies

_TO_CURATOR = msgspec.msgpack.Decoder(wire.HandIn | wire.Withheld | wire.Absent)


class _Held(msgspec.Struct, array_like=True):
    id: bytes
    missed: list[int]
    reports: list[bytes]
    withheld: bool


class _CuratorState(msgspec.Struct, array_like=True):
    handed_in: dict[int, _Held]
    excused: list[int]
    closed: bool


class Curator(Actor):
    """Takes in what each person holds at the end, once; done when all have, or at the deadline."""

    def __init__(
        self,
        people: int,
        reports: wire.ReportFormat,
        *,
        rounds: int,
        mode: Mode,
        dummies: Dummies | None,
        sealer: Sealer,
        timing: Timing,
    ) -> None:
        """Patience counts from the time at which everyone hands in."""
        self._people = people
        self._roster = {device(person): person for person in range(people)}
        self._reports = reports
        self._rounds = rounds
        self._mode = mode
        self._dummies = dummies
        self._sealer = sealer
        clock = Clock.of(rounds, timing)
        self._windows = clock.windows
        self._limit = wire.batch_limit(wire.ID_BYTES + reports.nbytes, people) + 5 * clock.windows
        self._deadline = clock.hand_in + timing.patience
        self._handed_in: dict[int, _Held] = {}
        self._excused: set[int] = set()
        self._closed = False

    def start(self, now: float) -> list[Effect]:
        """Wait until people hand in."""
        del now
        return wake_at(self._deadline)

    def receive(self, message: Message, now: float) -> list[Effect]:
        """Take in what one person hands in, once, and answer every time."""
        person = self._roster.get(message.sender)
        if person is None:
            return []
        heard = wire.decode(_TO_CURATOR, message.body, self._limit)
        if isinstance(heard, wire.Absent):
            if not self._closed:
                self._excused.add(person)
            return self._close(now)
        if heard is None or not self._makes_sense(heard):
            return []
        closing = self._close(now)
        if not self._closed and person not in self._handed_in:
            payloads = heard.payloads if isinstance(heard, wire.HandIn) else None
            reports = wire.opened(self._sealer, payloads or [])
            self._handed_in[person] = _Held(heard.id, heard.missed, reports, payloads is None)
        known = self._handed_in.get(person)
        taken = known is not None and known.id == heard.id
        answer = (wire.Accepted if taken else wire.Refused)(0, heard.id)
        return [Send(message.sender, wire.encode(answer)), *closing, *self._close(now)]

    def wake(self, now: float) -> list[Effect]:
        """Close when the time is up."""
        return self._close(now) or ([] if self._closed else wake_at(self._deadline))

    def _makes_sense(self, heard: wire.HandIn | wire.Withheld) -> bool:
        """Windows that there are, and as many reports as may be handed in by who missed those."""
        if any(number >= self._windows for number in heard.missed):
            return False
        if isinstance(heard, wire.Withheld):
            return True
        count = len(heard.payloads)
        right = count == 1 if self._mode == "single" else count <= self._people
        return right and on_to_the_end(heard.missed, self._windows)

    def _close(self, now: float) -> list[Effect]:
        """Finish if everyone handed in, or the time is up; what was handed in is then forgotten."""
        heard_of = len(self._handed_in.keys() | self._excused)
        if self._closed or (now < self._deadline and heard_of < self._people):
            return []
        self._closed = True
        collected = self._collected()
        for held in self._handed_in.values():
            held.reports = []
        return [Done(collected)]

    def _collected(self) -> Walked:
        # An identifier counts once; sorting by these random bytes gives an order that says nothing.
        found: dict[bytes, tuple[bytes, int]] = {}
        for person in sorted(self._handed_in):
            for opened in self._handed_in[person].reports:
                id_, report = opened[: wire.ID_BYTES], opened[wire.ID_BYTES :]
                found.setdefault(id_, (report, person))
        rows, holders = [], []
        for id_ in sorted(found):
            report, person = found[id_]
            rows.append(report)
            holders.append(person)
        reports, kept = self._readable(rows)
        held_by = np.array(holders, np.int32)[kept]
        table = np.full((self._windows, self._people), UNKNOWN, np.int8)
        reported = np.zeros(self._people, bool)
        for person in self._excused:
            table[:, person] = AWAY
        for person, held in self._handed_in.items():
            table[:, person] = from_record(held.missed, self._windows)
            reported[person] = not held.withheld
        everything = self._mode == "all"
        away = (table[: self._rounds] == AWAY) | ~reported
        return Walked(
            rounds=(reports,),
            sent=self._people,
            dummies=self._dummies,
            holders=held_by,
            away=away if away.any() or not reported.all() else None,
            silent=None if reported.all() else ~reported,
            attendance=None if (table == ON).all() and reported.all() else table,
            load=np.bincount(held_by, minlength=self._people) if everything else None,
            lost=self._people - len(reports) if everything else 0,
        )

    def _readable(self, rows: list[bytes]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The rows that are reports, and which they are."""
        reports = self._reports.unpack(rows)
        if len(reports) == len(rows):
            return reports, np.arange(len(rows))
        kept = [at for at, row in enumerate(rows) if len(self._reports.unpack([row]))]
        return reports, np.array(kept, np.intp)

    def state(self) -> bytes:
        """What was handed in, and whether that is all."""
        return wire.encode(_CuratorState(self._handed_in, sorted(self._excused), self._closed))

    def resume(self, state: bytes) -> None:
        """Continue with what was handed in."""
        stored = msgspec.msgpack.decode(state, type=_CuratorState)
        self._handed_in, self._closed = stored.handed_in, stored.closed
        self._excused = set(stored.excused)
