"""Messages of a scrambled query, and the contents sealed inside them.

They are tagged MessagePack arrays, decoded as strictly as those of
``incrowd.protocols.runtime.wire``. So that nothing but counts shows on the way, every message of
one role has the same size whatever it says: targets, tuples and results have a fixed width.

A *record* is for compute nodes: a flag, the cell, 16 random bytes by which a record that came twice
is known, and the measures. A dummy is a record whose flag is not set.
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


class _Message(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=str.lower
):
    pass


class _OfCluster(_Message, frozen=True):
    cluster: _Number


class Ask(_OfCluster, frozen=True):
    """From a scrambler to the curator: everybody is here or late, and it asks to send."""

    present: _Number
    """Number of people who came."""


class Granted(_OfCluster, frozen=True):
    """From the curator to a scrambler: send the messages; no other scrambler ever will."""


class Lost(_OfCluster, frozen=True):
    """From the curator to a scrambler: the cluster belongs to another scrambler; forget it."""


class Take(_OfCluster, frozen=True):
    """From the curator to a spare: this cluster is yours now."""


class Taken(_OfCluster, frozen=True):
    """From a spare to the curator: its people may come."""


class Parcel(_OfCluster, frozen=True):
    """From a scrambler to a compute node: everything of a cluster that goes there, permuted."""

    records: list[bytes]


class Stored(_OfCluster, frozen=True):
    """From a compute node to a scrambler: the parcel came; forget it."""


class _OfSet(_Message, frozen=True):
    index: _Number


class Divert(_OfSet, frozen=True):
    """From the curator to a device: send the same bytes of this grouping set to a spare."""

    spare: _Number


class Diverted(_OfSet, frozen=True):
    """From a device to the curator: they are on their way."""

    spare: _Number


class Through(_OfSet, frozen=True):
    """From a device without a scrambler to the curator: what can arrive of a set has arrived."""


class Noted(_OfSet, frozen=True):
    """From the curator to a device: stop saying so."""


class _OfUnits(_Message, frozen=True):
    units: bytes


class Arrived(_OfUnits, frozen=True):
    """From a compute node to the curator: these groups came, and no other will."""


class Fold(_OfUnits, frozen=True):
    """From the curator to a compute node: the tuples of these groups (or people) count."""


class Part(_Message, frozen=True):
    """From a compute node to the curator: its cells, the noise in them, and the traffic."""

    folded: bytes
    noise: list[Annotated[float, msgspec.Meta(ge=0)]]
    traffic: bytes
    """Empty where something is guaranteed against the curator."""


class Safe(_Message, frozen=True):
    """From the curator to a compute node: the numbers came; there is nothing left to do."""


def post(target: int, sealed: bytes) -> bytes:
    """Put the target in front of a sealed record, in the same size for all targets."""
    return _TARGET.pack(target) + sealed


def posted(payload: bytes) -> tuple[int, bytes]:
    """The target of a message, and the record that is sealed to it."""
    (target,) = _TARGET.unpack_from(payload)
    return int(target), payload[_TARGET.size :]


@dataclass(frozen=True)
class RecordFormat:
    """Encoding of the tuples of a query, as a compute node reads them."""

    query: Query

    @property
    def nbytes(self) -> int:
        """Size of every record, real or not."""
        return _HEAD.size + self.query.measure_dtype.itemsize

    @property
    def limit(self) -> int:
        """The longest body that can hold one record, with room for seals."""
        return self.nbytes + _ROOM

    def parcel_limit(self, most: int) -> int:
        """The longest body that can hold ``most`` records."""
        return _ROOM + most * self.limit

    def dummy(self, rng: np.random.Generator) -> bytes:
        """A record without a tuple."""
        return _HEAD.pack(0, 0, rng.bytes(wire.ID_BYTES)).ljust(self.nbytes, b"\0")

    def real(self, cell: int, measured: NDArray[Any], rng: np.random.Generator) -> bytes:
        """The tuple of one person."""
        return _HEAD.pack(1, cell, rng.bytes(wire.ID_BYTES)) + measured.tobytes()

    def tuples(
        self, records: Iterable[bytes], first: int, last: int
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Cells and measures of the records that are real and belong here, each identifier once.

        They are in the order of their random identifiers, so that sums of fractions do not depend
        on the order of arrival. One person must not be able to spoil the answer of all: what no
        honest device sends is left out.
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
            if values.dtype.kind == "f":
                possible &= np.isfinite(values)
            else:
                # Whole numbers of this size can be added up without running over.
                possible &= (values >= -_MOST_WHOLE) & (values <= _MOST_WHOLE)
        return cells[possible], measured[possible]


@dataclass(frozen=True)
class FoldedFormat:
    """Encoding of the cells of one compute node: whole columns, one after the other."""

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
        """Size of every part with this number of cells."""
        return sum(self.cells * each.itemsize for each in self._columns)

    def pack(self, folded: Folded) -> bytes:
        """The bytes of the numbers."""
        columns = (folded.count, *folded.total, *folded.least, *folded.most, *folded.spread)
        pairs = zip(columns, self._columns, strict=True)
        return b"".join(np.ascontiguousarray(each, dtype).tobytes() for each, dtype in pairs)

    def unpack(self, packed: bytes) -> Folded:
        """The numbers; ``ValueError`` when they cannot be those of this number of cells."""
        if len(packed) != self.nbytes:
            raise ValueError("these are the numbers of another part")
        columns, at = list[NDArray[Any]](), 0
        for dtype in self._columns:
            column = np.frombuffer(packed, dtype, self.cells, at)
            if dtype.kind == "f" and not np.isfinite(column).all():
                raise ValueError("a result must be finite")
            columns.append(column.astype(dtype.newbyteorder("=")))
            at += self.cells * dtype.itemsize
        count, *rest = columns
        own = len(rest) // 4
        return Folded(count, *(tuple(rest[own * k : own * (k + 1)]) for k in range(4)))

    def empty(self) -> Folded:
        """The numbers of lost cells."""
        return self.unpack(bytes(self.nbytes))


def bits(units: Iterable[int], count: int) -> bytes:
    """Encode a set of groups or people from 0 to ``count`` − 1, in the same size for all sets."""
    flags = np.zeros(count, bool)
    flags[np.fromiter(units, np.intp)] = True
    return np.packbits(flags).tobytes()


def places_in(packed: bytes, count: int) -> Sequence[int] | None:
    """Decode the units of a set; none where it is not a set of ``count`` units."""
    if len(packed) != -(-count // 8):
        return None
    flags = np.unpackbits(np.frombuffer(packed, np.uint8))
    return None if flags[count:].any() else [int(each) for each in np.flatnonzero(flags)]
