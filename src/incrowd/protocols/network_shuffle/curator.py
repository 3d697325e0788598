"""The curator of a walk: takes in once what each person holds at the end, and who was away when.

It learns who handed in which reports, and nothing of where they had been. A person who does not
hand in by the deadline is *silent*, and counts as away in every round. Some of them may have said
that they never began; of the others nobody knows when they left.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols import wire
from incrowd.protocols.actor import Actor, Done, Effect, Message, Sealer, Send, device
from incrowd.protocols.delivery import wake_at
from incrowd.protocols.network_shuffle.clock import Clock
from incrowd.protocols.network_shuffle.simulate import Mode, Walked
from incrowd.protocols.seat import Timing
from incrowd.tasks.base import Dummies

__all__ = ["Curator"]

_TO_CURATOR = msgspec.msgpack.Decoder(wire.HandIn | wire.Absent)


class _Held(msgspec.Struct, array_like=True):
    id: bytes
    missed: list[int]
    reports: list[bytes]
    stuck: int


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
        self._limit = wire.batch_limit(wire.ID_BYTES + reports.nbytes, people) + 5 * rounds
        self._deadline = Clock.of(rounds, timing).hand_in + timing.patience
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
            self._handed_in[person] = _Held(
                heard.id, heard.missed, wire.opened(self._sealer, heard.payloads), heard.stuck
            )
        known = self._handed_in.get(person)
        taken = known is not None and known.id == heard.id
        answer = (wire.Accepted if taken else wire.Refused)(0, heard.id)
        return [Send(message.sender, wire.encode(answer)), *closing, *self._close(now)]

    def wake(self, now: float) -> list[Effect]:
        """Close when the time is up."""
        return self._close(now) or ([] if self._closed else wake_at(self._deadline))

    def _makes_sense(self, heard: wire.HandIn) -> bool:
        rounds_fit = all(number < self._rounds for number in heard.missed)
        count = len(heard.payloads)
        return rounds_fit and (count == 1 if self._mode == "single" else count <= self._people)

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
        silent = np.array([person not in self._handed_in for person in range(self._people)])
        away = np.zeros((self._rounds, self._people), bool)
        for person, held in self._handed_in.items():
            away[held.missed, person] = True
        away[:, silent] = True
        everything = self._mode == "all"
        expected = self._people - int(silent.sum())
        # Who hands in a single report does not show how many it held, so devices say what is stuck.
        stuck = sum(held.stuck for held in self._handed_in.values())
        return Walked(
            rounds=(reports,),
            sent=self._people,
            dummies=self._dummies,
            holders=held_by,
            away=away if away.any() or silent.any() else None,
            silent=silent if silent.any() else None,
            unexplained=int(silent.sum()) - len(self._excused - self._handed_in.keys()),
            load=np.bincount(held_by, minlength=self._people) if everything else None,
            lost=max(0, expected - len(reports)) if everything else min(stuck, expected),
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
