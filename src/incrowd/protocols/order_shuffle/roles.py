"""The participants of an order-private shuffle.

    device ── PlacedReport(id, place, [report sealed to the curator]) ──▶ shuffler
    device ◀── Accepted | Refused ─────────────────────────────────────── shuffler
        shuffler ── PlacedBatch(who, places, permuted [report]s) ──▶ curator
        shuffler ◀── BatchAccepted ─────────────────────────────── curator

The shuffler closes when everyone on its roster reported, or at the deadline. From the places alone
it finds the groups, their reference order and how closely to keep to it; then it draws one
permutation of the sealed reports over the places. From that call on it has only the batch, without
who sent what, and from the curator's answer on not even that: what is left are the identifiers by
which it answers repeated reports. The draw becomes durable together with the batch, which is
repeated byte for byte, so that no shuffle is ever drawn twice and shown.

A place that makes no sense is refused; of the others the first report of each person counts, with
its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from incrowd.protocols.order_shuffle.messages import Place, PlacedBatch, PlacedReport, PlaceFormat
from incrowd.protocols.order_shuffle.simulate import parts, shuffle_of
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Effect, Message, Sealer, Send, devices
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.trusted_shuffle import roles as shuffle
from incrowd.randomizers.base import FloatArray
from incrowd.tasks.release import Placed

if TYPE_CHECKING:
    from incrowd.protocols.order_shuffle.spec import OrderShuffle

_TO_SHUFFLER = msgspec.msgpack.Decoder(PlacedReport)


class Device(shuffle.Device):
    """Sends one report to the shuffler, sealed to the curator, with the place beside it."""

    def __init__(self, protocol: OrderShuffle, context: ActorContext) -> None:
        value, places = context.value, protocol.place_format
        codes, points, groups = (None,) * 3 if value is None else parts(value, places)
        super().__init__(
            codes,
            protocol.randomizer,
            1,
            rng=context.generator(),
            sealer=context.sealer,
            backoff=context.timing.backoff,
        )
        self._place: Place = groups[0] if groups is not None else None
        if points is not None:
            self._place = points[0].tolist()

    def message(self, number: int, id_: bytes, report: bytes | None) -> bytes | None:
        del number
        if report is None:
            return None
        return wire.encode(PlacedReport(id_, self._place, self.payload(report)))


class _Row(msgspec.Struct, array_like=True):
    person: int
    place: Place
    payload: bytes


_ROWS = msgspec.msgpack.Decoder(_Row)


class Shuffler(shuffle.Shuffler):
    """Takes in everyone's report and place, and hands the reports on at other places."""

    def __init__(self, protocol: OrderShuffle, report_bytes: int, context: ActorContext) -> None:
        roster, streams = devices(protocol.n), context.generator
        super().__init__(roster, report_bytes, 1, generator=streams, timing=context.timing)
        self._protocol, self._places = protocol, protocol.place_format
        self._people = {address: person for person, address in enumerate(roster)}

    def receive(self, message: Message, now: float) -> list[Effect]:
        if message.sender == CURATOR:
            return super().receive(message, now)
        person = self._people.get(message.sender)
        report = wire.decode(_TO_SHUFFLER, message.body, self._limit)
        if person is None or report is None:
            return []
        if not self._places.fits(report.place):
            return [Send(message.sender, wire.encode(wire.Refused(0, report.id)))]
        row = wire.encode(_Row(person, report.place, report.payload))
        effects = self._intake.offer(message.sender, wire.Report(0, report.id, row))
        return effects + self._forward(now)

    def _batch(self, number: int, payloads: list[bytes]) -> PlacedBatch:
        rows = sorted(map(_ROWS.decode, payloads), key=lambda row: row.person)
        who, places = [row.person for row in rows], [row.place for row in rows]
        sources = self._sources(number, who, places)
        return PlacedBatch(who, places, [rows[source].payload for source in sources])

    def _sources(self, number: int, who: list[int], places: list[Place]) -> list[int]:
        """Whose report each place gets: drawn without a look at any of them."""
        if not who:
            return []
        found = shuffle_of(self._protocol, np.array(who), *_columns(self._places, places))
        return list(found.sources(self._generator(number), exact=self._protocol.exact).tolist())


class _Came(msgspec.Struct, array_like=True):
    who: list[int]
    places: list[Place]
    reports: dict[int, bytes]
    """Those that were sealed to the curator, by their row."""


class Curator(shuffle.Curator):
    """Accepts the batch, once, and is done."""

    batches: ClassVar[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(PlacedBatch)
    kept: ClassVar[Any] = _Came

    def __init__(
        self, people: int, reports: wire.ReportFormat, places: PlaceFormat, *, sealer: Sealer
    ) -> None:
        super().__init__(people, reports, 1, sealer=sealer)
        self._places = places

    def possible(self, batch: PlacedBatch) -> bool:
        return (
            len(batch.who) == len(batch.places) == len(batch.payloads)
            and all(one < next_ for one, next_ in zip(batch.who, batch.who[1:], strict=False))
            and (not batch.who or batch.who[-1] < self._people)
            and all(map(self._places.fits, batch.places))
        )

    def taken(self, batch: PlacedBatch) -> _Came:
        found = {
            row: report
            for row, payload in enumerate(batch.payloads)
            for report in wire.opened(self._sealer, [payload])
        }
        return _Came(batch.who, batch.places, found)

    def collected(self, came: Sequence[_Came]) -> Placed:
        """Reports at places; who sent one that nobody can read keeps the place, without one."""
        (batch,) = came
        rows, reports = list(batch.reports), self._reports.unpack(batch.reports.values())
        if len(reports) < len(rows):
            rows = [row for row in rows if len(self._reports.unpack([batch.reports[row]]))]
        points, groups = _columns(self._places, batch.places)
        return Placed(
            rounds=(reports,),
            sent=self._people,
            who=np.array(batch.who, np.int64),
            at=np.array(rows, np.int64),
            points=points,
            groups=groups,
        )


def _columns(
    form: PlaceFormat, places: Sequence[Place]
) -> tuple[FloatArray | None, tuple[str, ...] | None]:
    """Points or names of groups, for a number of places of one kind."""
    if form.kind == "points":
        return np.array(places, np.float64).reshape(len(places), len(form.bounds)), None
    if form.kind == "groups":
        return None, tuple(map(str, places))
    return None, None
