"""The messages of a scrambled query, and what is sealed inside them.

They are tagged MessagePack arrays, decoded as strictly as those of
``incrowd.protocols.runtime.wire``. So that nothing but counts shows on the way, every message of
one role has the same size whatever it says: targets, tuples and results are written as bytes of
fixed width.

A *record* is what a compute node gets to read: a flag, the cell, 16 random bytes by which a record
that came twice is known, and the measures. A dummy is a record whose flag is not set.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.runtime import wire
from incrowd.tasks.query import Folded, Query

_ROOM = 1024
_MOST_WHOLE = 2**53
_TARGET = struct.Struct("<I")
_HEAD = struct.Struct(f"<BI{wire.ID_BYTES}s")

_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class Ask(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="ask"):
    """From a scrambler to the curator: everybody is here or late, and it asks to send."""

    cluster: _Number
    present: _Number
    """How many people came."""


class Granted(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="granted"
):
    """From the curator to a scrambler: send what you have; nobody else ever will."""

    cluster: _Number


class Lost(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="lost"):
    """From the curator to a scrambler: the cluster is somebody else's; forget it."""

    cluster: _Number


class Take(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="take"):
    """From the curator to a spare: this cluster is yours now."""

    cluster: _Number


class Taken(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="taken"):
    """From a spare to the curator: its people may come."""

    cluster: _Number


class Divert(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="divert"
):
    """From the curator to a device: send the same bytes of this grouping set to a spare."""

    index: _Number
    spare: _Number


class Diverted(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="diverted"
):
    """From a device to the curator: they are on their way."""

    index: _Number
    spare: _Number


class Parcel(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="parcel"
):
    """From a scrambler to a compute node: everything of a cluster that goes there, permuted."""

    cluster: _Number
    records: list[bytes]


class Stored(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="stored"
):
    """From a compute node to a scrambler: the parcel came; forget it."""

    cluster: _Number


class Through(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="through"
):
    """From a device without a scrambler to the curator: its messages of a set have arrived.

    At least with every compute node that is there.
    """

    index: _Number


class Noted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="noted"):
    """From the curator to a device: stop saying so."""

    index: _Number


class Arrived(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="arrived"
):
    """From a compute node to the curator: these groups came, and no other will."""

    units: bytes


class Fold(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="fold"):
    """From the curator to a compute node: the tuples of these groups (or people) count."""

    units: bytes


class Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="part"):
    """From a compute node to the curator: its cells, the noise in them, and what came.

    ``traffic`` is empty where something is promised against the curator.
    """

    folded: bytes
    noise: list[Annotated[float, msgspec.Meta(ge=0)]]
    traffic: bytes


class Safe(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="safe"):
    """From the curator to a compute node: the numbers came; there is nothing left to do."""


# What a scrambler sees of a message.


def post(target: int, sealed: bytes) -> bytes:
    """A sealed record with its target in front, of the same size for all targets."""
    return _TARGET.pack(target) + sealed


def posted(payload: bytes) -> tuple[int, bytes]:
    """The target of a message, and the record that is sealed to it."""
    (target,) = _TARGET.unpack_from(payload)
    return int(target), payload[_TARGET.size :]


# What a compute node reads.


@dataclass(frozen=True)
class RecordFormat:
    """How the tuples of a query are written."""

    query: Query

    @property
    def nbytes(self) -> int:
        """The size of every record, real or not."""
        return _HEAD.size + self.query.measure_dtype.itemsize

    @property
    def limit(self) -> int:
        """The longest body that can hold one record, with room for seals."""
        return self.nbytes + _ROOM

    def parcel_limit(self, most: int) -> int:
        """The longest body that can hold so many."""
        return _ROOM + most * self.limit

    def dummy(self, rng: np.random.Generator) -> bytes:
        """A record that says nothing."""
        return _HEAD.pack(0, 0, rng.bytes(wire.ID_BYTES)).ljust(self.nbytes, b"\0")

    def real(self, cell: int, measured: NDArray[Any], rng: np.random.Generator) -> bytes:
        """The tuple of one person."""
        return _HEAD.pack(1, cell, rng.bytes(wire.ID_BYTES)) + measured.tobytes()

    def tuples(
        self, records: Iterable[bytes], first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Cells and measures of the records that are real and belong here, each identifier once.

        They are in the order of their random identifiers, so that sums of fractions do not depend
        on who was quick. One person must not be able to spoil the answer of all: what no honest
        device sends is left out.
        """
        found: dict[bytes, tuple[int, bytes]] = {}
        for record in records:
            if len(record) == self.nbytes:
                real, cell, id_ = _HEAD.unpack_from(record)
                if real == 1 and first <= cell < last:
                    found.setdefault(id_, (cell, record[_HEAD.size :]))
        dtype = self.query.measure_dtype
        rows = [found[id_] for id_ in sorted(found)]
        cells = np.array([cell for cell, _ in rows], np.int64)
        measured = np.empty(len(rows), dtype)
        if dtype.itemsize and rows:
            measured = np.frombuffer(b"".join(row for _, row in rows), dtype).copy()
        possible = np.ones(len(rows), bool)
        for column in self.query.measures:
            values = measured[column.name]
            if column.low is not None:
                possible &= values >= column.low
            if column.high is not None:
                possible &= values <= column.high
            # Whole numbers of this size can be added up without running over.
            possible &= (
                np.isfinite(values)
                if values.dtype.kind == "f"
                else ((values >= -_MOST_WHOLE) & (values <= _MOST_WHOLE))
            )
        return cells[possible], measured[possible]


@dataclass(frozen=True)
class FoldedFormat:
    """How the cells of one compute node are written: whole columns, one after the other."""

    query: Query
    cells: int

    @property
    def _columns(self) -> list[np.dtype[Any]]:
        dtype = self.query.measure_dtype
        own = [dtype[name] for name in dtype.names or ()]
        # Count; then total, least and most of every measure; then its spread.
        return [np.dtype("<i8"), *own, *own, *own, *(np.dtype("<f8") for _ in own)]

    @property
    def nbytes(self) -> int:
        """The size of every part of so many cells."""
        return sum(self.cells * each.itemsize for each in self._columns)

    def pack(self, folded: Folded) -> bytes:
        """The bytes of the numbers."""
        columns = (folded.count, *folded.total, *folded.least, *folded.most, *folded.spread)
        pairs = zip(columns, self._columns, strict=True)
        return b"".join(np.ascontiguousarray(each, dtype).tobytes() for each, dtype in pairs)

    def unpack(self, packed: bytes) -> Folded:
        """The numbers; ``ValueError`` when they cannot be those of so many cells."""
        if len(packed) != self.nbytes:
            raise ValueError("these are the numbers of another part")
        columns: list[NDArray[Any]] = []
        at = 0
        for dtype in self._columns:
            column = np.frombuffer(packed, dtype, self.cells, at)
            if dtype.kind == "f" and not np.isfinite(column).all():
                raise ValueError("a result must be finite")
            columns.append(column.astype(dtype.newbyteorder("=")))
            at += self.cells * dtype.itemsize
        count, *rest = columns
        own = len(rest) // 4
        total, least, most, spread = (tuple(rest[own * k : own * (k + 1)]) for k in range(4))
        return Folded(count, total, least, most, spread)

    def empty(self) -> Folded:
        """The numbers of cells of which nothing is known."""
        return self.unpack(bytes(self.nbytes))


# Which groups, or people.


def bits(units: Iterable[int], count: int) -> bytes:
    """A set of the units 0 to ``count`` − 1, of the same size for all sets."""
    flags = np.zeros(count, bool)
    flags[np.fromiter(units, np.intp)] = True
    return np.packbits(flags).tobytes()


def places_in(packed: bytes, count: int) -> Sequence[int] | None:
    """The units in a set; none where it is a set of others."""
    if len(packed) != -(-count // 8):
        return None
    flags = np.unpackbits(np.frombuffer(packed, np.uint8))
    if flags[count:].any():
        return None
    return [int(each) for each in np.flatnonzero(flags)]
