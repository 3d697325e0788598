"""The messages of the protocols that collect reports, and how one report becomes bytes.

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
MOST_TOGETHER = 4096
"""How many reports travel from one device to another in one message at most."""
_ROOM = 1024

_Id = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
_Round = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class Report(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="report"
):
    """From a device to the party that collects: one report of one round."""

    round: _Round
    id: _Id
    payload: bytes


class Accepted(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="accepted"
):
    """To a device: this report is safe and will be counted; stop sending it."""

    round: _Round
    id: _Id


class Refused(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="refused"
):
    """To a device: this report came too late, or is not the first; stop sending it."""

    round: _Round
    id: _Id


class Batch(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="batch"):
    """From the shuffler to the curator: the reports of one round, permuted, and nothing else."""

    round: _Round
    payloads: list[bytes]


class CheckIn(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="check-in"
):
    """From a device to the shuffler: what it has to say in one round.

    ``void``: its owner stays away, and the payload is noise. Neither changes the length.
    """

    round: _Round
    id: _Id
    void: bool
    payload: bytes


class Gathering(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="gathering"
):
    """From the shuffler to the curator: the reports of one round, permuted.

    ``present`` counts the people who were there, also those who stayed away by their coin; none
    means that the round was not held, and then there are no reports.
    """

    round: _Round
    present: _Count
    payloads: list[bytes]


class BatchAccepted(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="batch-accepted"
):
    """From the curator to the shuffler: the batch of this round is safe."""

    round: _Round


class Hop(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="hop"):
    """From a device to a neighbour: the reports that move there in this round, in no order."""

    round: _Round
    id: _Id
    payloads: Annotated[list[bytes], msgspec.Meta(min_length=1, max_length=MOST_TOGETHER)]


class Passed(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="passed"
):
    """From a neighbour to a device: the reports of this hop are safe; stop sending it."""

    id: _Id


class HandIn(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="hand-in"
):
    """From a device to the curator: what it holds at the end, in no order, and when it was away.

    ``missed`` are the windows of the clock, of rounds and after them, in which it was off from the
    first moment to the last.
    """

    id: _Id
    missed: list[_Round]
    payloads: list[bytes]


class Withheld(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="withheld"
):
    """From a device to the curator in place of a hand-in: when it was away, and no reports.

    Sent by a device that was not on to the end, or for which it is too late. That there are no
    reports is said, not left to be seen: a device that holds none hands in none as well.
    """

    id: _Id
    missed: list[_Round]


class Absent(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="absent"
):
    """From a device to the curator: it never began, and nothing of it is on its way."""


encode = msgspec.msgpack.Encoder().encode

_T = TypeVar("_T")


def decode(decoder: msgspec.msgpack.Decoder[_T], body: bytes, limit: int) -> _T | None:
    """The message in a body, or none when it is too long or malformed."""
    if len(body) > limit:
        return None
    try:
        return decoder.decode(body)
    except ValueError:  # msgspec.DecodeError and ValidationError are ValueErrors too.
        return None


def opened(sealer: Sealer, payloads: Iterable[bytes]) -> list[bytes]:
    """What was sealed to this party; what was not is left out."""
    found = []
    for payload in payloads:
        try:
            found.append(sealer.open(payload))
        except ValueError:
            continue  # Not sealed to this party: not a report.
    return found


def pack(reports: Reports) -> list[bytes]:
    """The bytes of each row."""
    rows = np.ascontiguousarray(reports, reports.dtype.newbyteorder("<"))
    return [row.tobytes() for row in rows]


@dataclass(frozen=True)
class ReportFormat:
    """The row type of a randomizer's reports: how the bytes of rows are read back."""

    randomizer: Randomizer
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @staticmethod
    def of(randomizer: Randomizer) -> ReportFormat:
        """The format, read off one report of a public value; refuses what cannot randomize."""
        example = randomizer.randomize(public_values(randomizer, 1), np.random.default_rng(0))
        if example.dtype.hasobject:
            raise InvalidParameter(f"reports of {randomizer.kind} cannot be written as bytes")
        return ReportFormat(randomizer, example.dtype, example.shape[1:])

    @property
    def nbytes(self) -> int:
        """The size of one report."""
        return self.dtype.itemsize * math.prod(self.shape)

    def unpack(self, payloads: Iterable[bytes]) -> Reports:
        """The rows, with the report on the first axis; what the randomizer cannot read is left out.

        One person must not be able to spoil the answer of all with a report that no randomizer
        draws. Checking them one by one is slow, so it is done only when the whole does not pass.
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
    """Values that say nothing about anyone, spread evenly over what the randomizer takes."""
    if randomizer.domain == "category":
        return np.arange(people) % int(getattr(randomizer, "categories", 1))
    if randomizer.domain == "interval":
        return (np.arange(people) + 0.5) / people
    return np.eye(int(getattr(randomizer, "dimension", 1)))[
        np.arange(people) % int(getattr(randomizer, "dimension", 1))
    ]


def report_limit(nbytes: int) -> int:
    """The longest body that can hold one report of this size, with room for two seals."""
    return nbytes + _ROOM


def batch_limit(nbytes: int, people: int) -> int:
    """The longest body that can hold one report from each of so many people."""
    return _ROOM + people * report_limit(nbytes)


def envelope_bytes(payload: int, rounds: int) -> int:
    """The size of a :class:`Report` with a payload of this size, in the last of the rounds.

    No report of an earlier round is larger. Sealing is not counted.
    """
    return len(encode(Report(rounds - 1, bytes(ID_BYTES), bytes(payload))))


def check_in_bytes(payload: int, rounds: int) -> int:
    """The size of a :class:`CheckIn`, void or not, likewise."""
    return len(encode(CheckIn(rounds - 1, bytes(ID_BYTES), False, bytes(payload))))
