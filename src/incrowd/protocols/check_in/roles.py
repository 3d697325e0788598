"""Actors of a shuffled check-in.

    device ── CheckIn(round, id, void?, [report sealed to the curator]) ──▶ shuffler
    device ◀── Accepted | Refused ───────────────────────────────────────── shuffler
            shuffler ── Gathering(round, present, permuted [report]s) ──▶ curator
            shuffler ◀── BatchAccepted ─────────────────────────────────── curator

Rounds follow the public clock: round r opens r rounds after the start. A device flips its coin for
every round at the start, and draws a report where it is in; coins and reports are durable from then
on, and only bytes are repeated. In each round it sends one message: with dummies, void ones look
the same on the way, and only the shuffler, who sees nothing but sealed reports, can tell.

The shuffler closes a round when everyone was heard of, or when the time for late messages is over.
With dummies it knows how many people were there, and drops a round with too few unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from incrowd.protocols.check_in.cover import closes
from incrowd.protocols.check_in.messages import CheckIn, Gathering
from incrowd.protocols.check_in.simulate import CheckedIn
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import Effect, devices, owned
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.cover import phase
from incrowd.protocols.runtime.delivery import wake_at
from incrowd.protocols.trusted_shuffle import roles as shuffle

if TYPE_CHECKING:
    from incrowd.protocols.check_in import spec

_TO_SHUFFLER = msgspec.msgpack.Decoder(CheckIn)
_STEP = 2.0**-53


class Device(shuffle.Device):
    """Device that sends one message per round: a report, or a dummy when its owner stays away."""

    def __init__(
        self, protocol: spec.CheckIn, person: int, report_bytes: int, context: ActorContext
    ) -> None:
        super().__init__(
            context.value,
            protocol.randomizer,
            protocol.rounds,
            rng=context.generator(),
            sealer=context.sealer,
            backoff=context.timing.backoff,
        )
        self._report_bytes, self._timing = report_bytes, context.timing
        self._rate, self._dummies = protocol.rate_of(person), protocol.dummies
        # Under cover the cells leave at the device's time, and what is in them is there before.
        self._share = phase(person) if protocol.cover is None else 0.0

    def reports(self) -> Sequence[bytes | None]:
        # The generator draws multiples of its step: so compared, the rate is never exceeded.
        joins = self._rng.random(self._rounds) + _STEP <= self._rate
        values = np.repeat(owned(self._value), np.count_nonzero(joins), axis=0)
        drawn = iter(wire.pack(self._randomizer.randomize_exactly(values, self._rng)))
        return [next(drawn) if joined else None for joined in joins]

    def message(self, number: int, id_: bytes, report: bytes | None) -> bytes | None:
        """Return a report, or noise of the same length."""
        if report is None and not self._dummies:
            return None
        payload = self.payload(bytes(self._report_bytes) if report is None else report)
        if report is None:
            payload = self._rng.bytes(len(payload))
        return wire.encode(CheckIn(number, id_, report is None, payload))

    def window(self, number: int) -> tuple[float, float]:
        opens = (number + self._share) * self._timing.round_seconds
        return opens, closes(number, self._timing)


class Shuffler(shuffle.Shuffler):
    """Party that hands each round on, permuted, without dummies, with the number of people."""

    def __init__(self, protocol: spec.CheckIn, report_bytes: int, context: ActorContext) -> None:
        roster, rounds, timing = devices(protocol.n), protocol.rounds, context.timing
        super().__init__(roster, report_bytes, rounds, generator=context.generator, timing=timing)
        self._asked, self._dummies = protocol.n, protocol.dummies
        self._least = protocol.fewest
        self._deadlines = [closes(number, timing) for number in range(rounds)]

    def start(self, _now: float) -> list[Effect]:
        """Open every round; the clock is the public one, whenever this party begins."""
        self._intake.begin(self._deadlines)
        return wake_at(self._intake.due)

    def _report(self, body: bytes) -> wire.Report | None:
        said = wire.decode(_TO_SHUFFLER, body, self._limit)
        if said is None:
            return None
        return wire.Report(said.round, said.id, b"" if said.void else said.payload)

    def _batch(self, number: int, payloads: list[bytes]) -> Gathering:
        # Without dummies, staying away by a coin cannot be told from not being there.
        present = self._intake.heard(number) if self._dummies else self._asked
        if present < self._least:
            return Gathering(number, 0, [])
        return Gathering(number, present, self._permuted(number, payloads))


class _Came(msgspec.Struct, array_like=True):
    present: int
    sent: int
    payloads: list[bytes]


class Curator(shuffle.Curator):
    """Party that accepts the gathering of each round, once, and is done after the last."""

    batches: ClassVar[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(Gathering)
    kept: ClassVar[Any] = _Came

    def possible(self, batch: Gathering) -> bool:
        return len(batch.payloads) <= batch.present <= self._people

    def taken(self, batch: Gathering) -> _Came:
        return _Came(batch.present, len(batch.payloads), super().taken(batch))

    def collected(self, came: Sequence[_Came]) -> CheckedIn:
        held = [each for each in came if each.present > 0]
        return CheckedIn(
            rounds=tuple(self._reports.unpack(each.payloads) for each in held),
            sent=sum(each.sent for each in held),
            present=tuple(each.present for each in held),
            unheld=len(came) - len(held),
        )
