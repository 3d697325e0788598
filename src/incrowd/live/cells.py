"""The cell, the one unit that travels: its header, and the records of messages inside it.

Every cell has :data:`CELL` bytes, whatever it carries, so that its size says nothing. Big-endian:

    version u8 | kind u8 | survey 16 | sender u32 | recipient u32 | round u32 |
    session 16 | counter u64 | wrapped 144 | sealed 826

``wrapped`` is the session's key for the recipient (32 + 48 bytes of HPKE) and the sender's
signature of it (64); it rides in every cell, so that no handshake is needed and order does not
matter. ``sealed`` is a plaintext of :data:`CAPACITY` bytes and its 16-byte tag.

A plaintext is a row of records, then zeros:

    message u32 (from 1) | offset u32 | total u32 | length u16 | bytes

A message that does not end in its cell goes on to the cell's last byte, so a plaintext of zeros is
a dummy, and no cell can hold more than one unfinished part. This module knows no keys: it packs,
parses and reassembles, and refuses whatever a packer would not have written.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from incrowd.errors import InvalidParameter
from incrowd.live.reasons import Reason, Rejected
from incrowd.protocols.registry import parties
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Address,
    device,
    is_device,
)

CELL: Final = 1024
VERSION: Final = 1
DATA: Final = 1
COMPARE: Final = 2
WRAPPED: Final = 32 + 48 + 64
TAG: Final = 16

_FIELDS = struct.Struct(f">BB16sIII16sQ{WRAPPED}s")
_PREFIX = struct.Struct(">BB16sII")
HEADER: Final = _FIELDS.size
CAPACITY: Final = CELL - HEADER - TAG
DUMMY: Final = bytes(CAPACITY)

_RECORD = struct.Struct(">IIIH")
_PART = CAPACITY - _RECORD.size
RECORD: Final = _RECORD.size
"""What each part of a message costs besides its own bytes."""
_SESSION_AT = _PREFIX.size + 4
_ID_END = _SESSION_AT + 24

MESSAGE_LIMIT: Final = 16 * 2**20
_U32 = 2**32 - 1


class Header(msgspec.Struct, frozen=True):
    """What a cell says about itself in the clear; true only once the cell has been opened."""

    kind: int
    survey: bytes
    sender: int
    recipient: int
    round: int
    session: bytes
    counter: int
    wrapped: bytes

    @classmethod
    def parse(cls, cell: bytes) -> Header:
        """The header of a cell of this version."""
        if len(cell) != CELL:
            reason = Reason.oversized if len(cell) > CELL else Reason.malformed
            raise Rejected(reason, f"a cell has {CELL} bytes, this one {len(cell)}")
        version, *fields = _FIELDS.unpack_from(cell)
        if version != VERSION:
            raise Rejected(Reason.version, f"this is version {VERSION} of cells, got {version}")
        if fields[0] not in (DATA, COMPARE):
            raise Rejected(Reason.malformed, f"no cell is of kind {fields[0]}")
        return cls(*fields)

    def pack(self) -> bytes:
        """The first :data:`HEADER` bytes of the cell."""
        return _FIELDS.pack(VERSION, *msgspec.structs.astuple(self))


def prefix(kind: int, survey: bytes, sender: int, recipient: int) -> bytes:
    """The part of a header that is the same in every cell of a link, up to the round."""
    return _PREFIX.pack(VERSION, kind, survey, sender, recipient)


def cell_id(cell: bytes) -> bytes:
    """Session and counter: 24 bytes that no two cells have in common."""
    return bytes(cell[_SESSION_AT:_ID_END])


_FAMILY: Final = 0x1000
"""How many helpers of one kind there can be, where there are several."""
_DEVICES = _U32 - 0xFFFF
"""Numbers from here on belong to helpers, present and future."""


def _helpers(*, outside: bool) -> dict[Address, int]:
    """Numbers of parties that are no devices; they count down from the top."""
    declared = parties(outside=outside).values()
    stated = {each.name: each.number for each in declared if each.number is not None}
    return {name: _U32 - place for name, place in ({CURATOR: 0} | stated).items()}


_NUMBERS = _helpers(outside=False)
_ADDRESSES = {value: name for name, value in _NUMBERS.items()}
_FAMILIES = {
    each.name: _U32 - (each.family + 1) * _FAMILY
    for each in parties(outside=False).values()
    if each.family is not None
}
"""The numbers of helpers of which there are several count down from here."""


def number(address: Address) -> int:
    """The number that stands for this party in cells."""
    found = _NUMBERS.get(address)
    if found is not None:
        return found
    family, _, digits = address.rpartition("/")
    if digits.isascii() and digits.isdigit() and len(digits) <= 10:
        index = int(digits)
        if is_device(address) and index < _DEVICES and device(index) == address:
            return index
        if family in _FAMILIES and index < _FAMILY and str(index) == digits:
            return _FAMILIES[family] - index
    found = _helpers(outside=True).get(address)
    if found is not None:
        return found
    raise InvalidParameter(
        f"no party is called {address!r}: use device/0, device/1, … or one of "
        f"{', '.join(_NUMBERS)}, {', '.join(f'{each}/0' for each in _FAMILIES)}, with numbers "
        f"below {_FAMILY}"
    )


def address(number: int) -> Address:
    """The party that this number stands for."""
    if 0 <= number < _DEVICES:
        return device(number)
    found = _ADDRESSES.get(number)
    for name, top in _FAMILIES.items():
        if top - _FAMILY < number <= top:
            found = f"{name}/{top - number}"
    if found is None:
        outside = {value: name for name, value in _helpers(outside=True).items()}
        found = outside.get(number)
    if found is None:
        raise Rejected(Reason.unknown, f"no party has the number {number}")
    return found


def cells_needed(length: int) -> int:
    """How many cells a message of this length takes when it travels alone."""
    return max(1, -(-length // _PART))


def pack(
    messages: Sequence[tuple[int, bytes]], cells: int | None = None, begun: int = 0
) -> tuple[list[bytes], list[tuple[int, bytes]], int]:
    """Plaintexts that carry these numbered messages in order, and the messages that are left.

    At most ``cells`` plaintexts are made. A message that does not end within them goes on with the
    next ones: the last number returned, like ``begun``, says how much of the first message has
    already gone. So nothing overtakes, nothing starves, and a message may be of any length.
    """
    packed: list[bytes] = []
    row = bytearray()
    if cells == 0:
        return packed, list(messages), begun
    for index, (message, body) in enumerate(messages):
        total = len(body)
        if not 1 <= message <= _U32 or total > MESSAGE_LIMIT:
            raise InvalidParameter(
                f"a message needs a number from 1 to 2^32 - 1 and at most {MESSAGE_LIMIT} bytes, "
                f"got number {message} and {total} bytes"
            )
        offset = 0 if index else begun
        while True:
            room = CAPACITY - len(row) - _RECORD.size
            # A part without bytes says nothing, unless the whole message has none.
            if room < min(1, total):
                packed.append(bytes(row).ljust(CAPACITY, b"\0"))
                row = bytearray()
                if len(packed) == cells:
                    return packed, list(messages[index:]), offset
                continue
            length = min(room, total - offset)
            row += _RECORD.pack(message, offset, total, length)
            row += body[offset : offset + length]
            offset += length
            if offset == total:
                break
    if row:
        packed.append(bytes(row).ljust(CAPACITY, b"\0"))
    return packed, [], 0


class Window:
    """Which of a growing row of numbers were seen, in bounded memory.

    Everything below ``base`` counts as seen. The base follows the numbers: it skips those that were
    seen, and stays at most :data:`SPREAD` behind the largest.
    """

    __slots__ = ("base", "bits")

    SPREAD: Final = 2**14

    def __init__(self, base: int = 0, bits: int = 0) -> None:
        self.base = base
        self.bits = bits

    def __contains__(self, value: int) -> bool:
        return value < self.base or bool(self.bits >> (value - self.base) & 1)

    def add(self, value: int) -> None:
        """See this number."""
        ahead = value - self.base
        if ahead < 0:
            return
        if ahead >= self.SPREAD:
            slide = ahead - self.SPREAD + 1
            self.base += slide
            self.bits >>= min(slide, self.SPREAD)
            ahead -= slide
        bits = self.bits | 1 << ahead
        # The number of trailing ones: the lowest zero is the new base.
        run = (~bits & (bits + 1)).bit_length() - 1
        self.base += run
        self.bits = bits >> run


Token = TypeVar("Token", bound=Hashable)
_Record = tuple[int, int, int, bytes]


class _Partial(Generic[Token]):
    """The parts of one message so far by their offset, and the cells that brought them."""

    __slots__ = ("parts", "size", "tokens", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self.size = 0
        self.parts: dict[int, bytes] = {}
        # A dictionary for its order: cells finish in the order in which they came.
        self.tokens: dict[Token, None] = {}

    def completed_by(self, offset: int, total: int, part: bytes) -> bool:
        """Whether this part is the last one missing; one that does not belong here is refused."""
        known = self.parts.get(offset)
        size = self.size + len(part)
        if total != self.total or (size > total if known is None else known != part):
            raise Rejected(Reason.malformed, "the parts of a message contradict each other")
        if known is not None or size < total:
            return False
        reached = 0
        for at, length in sorted([(offset, len(part)), *map(_extent, self.parts.items())]):
            if at != reached:
                raise Rejected(Reason.malformed, "the parts of a message overlap")
            reached += length
        return True

    def joined(self) -> bytes:
        """The whole message."""
        return b"".join(self.parts[offset] for offset in sorted(self.parts))


def _extent(item: tuple[int, bytes]) -> tuple[int, int]:
    return item[0], len(item[1])


class _Stream(Generic[Token]):
    """One session: messages over, messages begun, and the bytes that these will have."""

    __slots__ = ("over", "partials", "reserved")

    def __init__(self) -> None:
        self.over = Window(1)
        self.partials: dict[int, _Partial[Token]] = {}
        self.reserved = 0


class Reassembler(Generic[Token]):
    """Puts messages together from plaintexts that come in any order, some more than once.

    A cell is finished when every message of which it carries a part is complete; only then may it
    be acknowledged, since the parts are kept in memory alone. After a crash the unfinished cells
    come again, and with them perhaps a short message that was already handed out.

    ``limit`` bounds one message; the incomplete messages of a session are at most ``begun``, and
    together at most twice the limit. A cell that would begin more is refused as ``full`` and is
    welcome again later. Room is taken for the whole message when it begins, so that what was begun
    can also be completed.
    """

    def __init__(self, limit: int = MESSAGE_LIMIT, begun: int = 1024) -> None:
        self._limit = limit
        self._begun = begun
        self._streams: dict[bytes, _Stream[Token]] = {}
        self._waiting: dict[Token, set[int]] = {}
        self._finished: list[Token] = []

    def feed(self, session: bytes, token: Token, plaintext: bytes) -> list[bytes]:
        """The messages that this plaintext completes; ``token`` stands for its cell alone."""
        if plaintext == DUMMY:
            self._finished.append(token)
            return []
        records = _records(plaintext, self._limit)
        stream = self._streams.get(session)
        if stream is None:
            stream = self._streams[session] = _Stream()
        # What was begun may fall behind the window, and is not over for that.
        over, partials = stream.over, stream.partials
        fresh = [record for record in records if record[0] not in over or record[0] in partials]
        self._check(stream, fresh)
        done = []
        for message, offset, total, part in fresh:
            if len(part) == total:
                # The common case, a whole message, is never stored.
                stream.over.add(message)
                done.append(part)
                continue
            partial = stream.partials.get(message)
            if partial is None:
                partial = stream.partials[message] = _Partial(total)
                stream.reserved += total
            if offset not in partial.parts:
                partial.parts[offset] = part
                partial.size += len(part)
            partial.tokens[token] = None
            self._waiting.setdefault(token, set()).add(message)
            if partial.size == total:
                self._complete(stream, message, token)
                done.append(partial.joined())
        if token not in self._waiting:
            self._finished.append(token)
        return done

    def finished(self) -> list[Token]:
        """The cells finished since this was last asked."""
        done, self._finished = self._finished, []
        return done

    def _complete(self, stream: _Stream[Token], message: int, current: Token) -> None:
        """Forget the parts of a message, and finish the cells that waited for it alone."""
        stream.over.add(message)
        partial = stream.partials.pop(message)
        stream.reserved -= partial.total
        for token in partial.tokens:
            waiting = self._waiting[token]
            waiting.discard(message)
            if not waiting:
                del self._waiting[token]
                if token != current:
                    self._finished.append(token)

    def _check(self, stream: _Stream[Token], records: list[_Record]) -> None:
        """Refuse parts that contradict what came before, or too much; nothing is changed."""
        begun, reserved = len(stream.partials), stream.reserved
        for message, offset, total, part in records:
            partial = stream.partials.get(message)
            if partial is None:
                if len(part) < total:
                    begun, reserved = begun + 1, reserved + total
            elif partial.completed_by(offset, total, part):
                begun, reserved = begun - 1, reserved - total
        if begun > max(self._begun, len(stream.partials)):
            raise Rejected(Reason.full, f"{self._begun} messages are incomplete")
        if reserved > max(2 * self._limit, stream.reserved):
            raise Rejected(Reason.full, f"incomplete messages need {stream.reserved} bytes")


def _records(plaintext: bytes, limit: int) -> list[_Record]:
    """The records of a plaintext, exactly as a packer writes them."""
    if len(plaintext) != CAPACITY:
        raise Rejected(Reason.malformed, f"a plaintext has {CAPACITY} bytes, not {len(plaintext)}")
    records: list[_Record] = []
    numbers = set()
    at = 0
    while at + _RECORD.size <= CAPACITY:
        message, offset, total, length = _RECORD.unpack_from(plaintext, at)
        if message == 0:
            break
        at += _RECORD.size
        end = at + length
        if total > limit:
            raise Rejected(Reason.oversized, f"a message has at most {limit} bytes, not {total}")
        if end > CAPACITY or offset + length > total or (length == 0) != (total == 0):
            raise Rejected(Reason.malformed, "a record points beyond its cell or its message")
        if offset + length < total and end != CAPACITY:
            raise Rejected(Reason.malformed, "a message breaks off before the end of its cell")
        if message in numbers:
            raise Rejected(Reason.malformed, "two records of a cell have the same message number")
        numbers.add(message)
        records.append((message, offset, total, plaintext[at:end]))
        at = end
    if any(plaintext[at:]):
        raise Rejected(Reason.malformed, "bytes follow the last record")
    return records
