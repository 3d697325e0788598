"""Messages shared by the protocols that collect reports, and the bytes of one report.

Messages are tagged MessagePack arrays, decoded strictly: a wrong tag, type, length or a trailing
field makes ``decode`` answer none, and the actor that got them changes nothing. Identifiers are
16 random bytes that a device draws with its report; they tell a repeated message from a new one
and go no further than the party that collects.

A report is written as the raw little-endian bytes of its row. Both ends know the row's type from
the randomizer, which is public, so nothing about it travels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import IncrowdError, InvalidParameter
from incrowd.protocols.runtime.actor import Sealer
from incrowd.randomizers.base import Randomizer, Reports

ID_BYTES = 16
_ROOM = 1024

Id = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of messages, each with a tag of its own."""


class Report(Body, frozen=True, tag="report"):
    """From a device to the collector: one report of one round."""

    round: Count
    id: Id
    payload: bytes


class Accepted(Body, frozen=True, tag="accepted"):
    """To a device: this report is safe and will be counted; stop sending it."""

    round: Count
    id: Id


class Refused(Body, frozen=True, tag="refused"):
    """To a device: this report came too late, or is not the first; stop sending it."""

    round: Count
    id: Id


encode = msgspec.msgpack.Encoder().encode

_T = TypeVar("_T")


def decode(decoder: msgspec.msgpack.Decoder[_T], body: bytes, limit: int) -> _T | None:
    """Return the message in a body, or none when it is too long or malformed."""
    try:
        return decoder.decode(body) if len(body) <= limit else None
    except ValueError:  # msgspec.DecodeError and ValidationError are ValueErrors too.
        return None


def opened(sealer: Sealer, payloads: Iterable[bytes]) -> list[bytes]:
    """Open the payloads that were sealed to this party; leave out the others."""
    found = []
    for payload in payloads:
        try:
            found.append(sealer.open(payload))
        except ValueError:
            continue  # Not sealed to this party: not a report.
    return found


def pack(reports: Reports) -> list[bytes]:
    """Return the bytes of each row."""
    rows = np.ascontiguousarray(reports, reports.dtype.newbyteorder("<"))
    return [row.tobytes() for row in rows]


@dataclass(frozen=True)
class ReportFormat:
    """Row type of a randomizer's reports, by which bytes are read back."""

    randomizer: Randomizer
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @staticmethod
    def of(randomizer: Randomizer) -> ReportFormat:
        """Read the format off one report of a public value; refuse what cannot randomize."""
        example = randomizer.randomize(public_values(randomizer, 1), np.random.default_rng(0))
        if example.dtype.hasobject:
            raise InvalidParameter(f"reports of {randomizer.kind} cannot be written as bytes")
        return ReportFormat(randomizer, example.dtype, example.shape[1:])

    @property
    def nbytes(self) -> int:
        """Size of one report."""
        return self.dtype.itemsize * math.prod(self.shape)

    def unpack(self, payloads: Iterable[bytes]) -> Reports:
        """Read the rows, reports on the first axis; leave out what the randomizer cannot read.

        No single report may spoil the answer of all. Checking reports one by one is slow, so it is
        done only when the whole does not pass.
        """
        fitting = [payload for payload in payloads if len(payload) == self.nbytes]
        rows = np.frombuffer(b"".join(fitting), self.dtype.newbyteorder("<"))
        reports = rows.reshape(len(fitting), *self.shape).astype(self.dtype)
        if len(reports) == 0 or self._readable(reports):
            return reports
        return reports[[self._readable(reports[row : row + 1]) for row in range(len(reports))]]

    def _readable(self, reports: Reports) -> bool:
        if self.dtype.kind == "f" and not np.isfinite(reports).all():
            return False
        try:
            self.randomizer.estimate(reports)
        except IncrowdError:
            return False
        return True


def public_values(randomizer: Randomizer, people: int) -> NDArray[Any]:
    """Return values independent of all data, spread evenly over the randomizer's domain."""
    if randomizer.domain == "category":
        return np.arange(people) % int(getattr(randomizer, "categories", 1))
    if randomizer.domain == "interval":
        return (np.arange(people) + 0.5) / people
    if randomizer.domain == "several":
        parts = getattr(randomizer, "parts", ())
        return np.column_stack([public_values(part, people) for part in parts])
    dimension = int(getattr(randomizer, "dimension", 1))
    return np.eye(dimension)[np.arange(people) % dimension]


def report_limit(nbytes: int) -> int:
    """Longest body that can hold one report of this size, with room for two seals."""
    return nbytes + _ROOM


def batch_limit(nbytes: int, people: int) -> int:
    """Longest body that can hold one report from each of these people."""
    return _ROOM + people * report_limit(nbytes)


def envelope_bytes(payload: int, rounds: int) -> int:
    """Size of a :class:`Report` with this payload in the last, largest round, unsealed."""
    return len(encode(Report(rounds - 1, bytes(ID_BYTES), bytes(payload))))
