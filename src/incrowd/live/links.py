"""Sealed links: what one party seals into a cell, only its recipient can open, once.

The first cell to a recipient begins a *session*: 32 fresh random bytes, sealed to the recipient's
HPKE key (X25519, HKDF-SHA256, ChaCha20-Poly1305) and signed by the sender's identity. Survey,
context, sender and recipient enter both, so a wrapped key is good for one link of one task only.
The session is named by the hash of its wrapped key. Every cell is ChaCha20-Poly1305 under the
session key, with its whole header and the context as associated data.

Why no nonce repeats: the nonce is the end of the session's name and the cell's counter, counters
count up in memory, and session keys are never stored. A process that starts again has lost its
counters together with its session keys, and can only begin new sessions under fresh keys; so does
the child of a fork, which forgets the sessions of its parent. A cell that must be sent again is
kept as bytes and never sealed anew.

Why no cell is taken in twice: each session has a window of the counters that were marked, which
``state`` makes durable. ``open`` refuses what was marked and marks nothing, so that a cell that was
opened and not used up before a crash can be opened again; ``mark`` belongs into the same commit as
whatever the cell brought about.

A dummy is a plaintext like any other, so it costs what any cell costs.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import struct
from collections.abc import Mapping
from typing import Annotated, Final
from weakref import WeakSet

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import (
    X25519PrivateKey,
    X25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from incrowd.errors import InvalidParameter
from incrowd.live import cells
from incrowd.live.cells import CAPACITY, CELL, HEADER, WRAPPED, Header, Window
from incrowd.live.keys import KeyRecord, PrivateKeys
from incrowd.live.reasons import Reason, Rejected
from incrowd.protocols.runtime.actor import Address

SESSIONS: Final = 64
"""Sessions per sender: an honest one begins another only when its process starts again."""

SEAL: Final = 48
"""What a single-shot seal adds: an encapsulated key of 32 bytes and a tag of 16."""
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_SIGNATURE = 64
_LINK = b"incrowd/link/1\0"
_SEALER = b"incrowd/sealer/1\0"
_ONE_TIME = b"incrowd/one-time/1\0"
_COMPARE = b"incrowd/compare/1\0"
_NUMBER = struct.Struct(">I")
_PAIR = struct.Struct(">II")
_HEADER = struct.Struct(f">26sI16sQ{WRAPPED}s")
_STATE_LIMIT = 2**30
_COUNTERS = 2**48
"""No session has more cells; a larger counter would only push the window out of reach."""


class _Outbound:
    """My session to one recipient."""

    __slots__ = ("counter", "encrypt", "prefix", "session", "wrapped")

    def __init__(self, prefix: bytes, key: bytes, wrapped: bytes) -> None:
        self.prefix = prefix
        self.session = _session(wrapped)
        self.wrapped = wrapped
        self.encrypt = ChaCha20Poly1305(key).encrypt
        # Unlike a number that is read and written back, it never hands out a value twice, even to
        # two threads.
        self.counter = itertools.count()


class _Inbound:
    """A sender's session to me."""

    __slots__ = ("decrypt", "prefix", "window", "wrapped")

    def __init__(self, prefix: bytes, wrapped: bytes, key: bytes, window: Window) -> None:
        self.prefix = prefix
        self.wrapped = wrapped
        self.decrypt = ChaCha20Poly1305(key).decrypt
        self.window = window


class _Seen(msgspec.Struct, frozen=True, array_like=True):
    sender: Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
    base: Annotated[int, msgspec.Meta(ge=0, le=_COUNTERS)]
    bits: Annotated[bytes, msgspec.Meta(max_length=Window.SPREAD // 8)]


_SEEN = msgspec.msgpack.Decoder(_Seen)
_ROWS = msgspec.msgpack.Decoder(dict[bytes, bytes])


class Links:
    """All links of one party in one task.

    ``records`` are the checked key records of everyone it may talk to, by party number; ``context``
    is the hash of what both ends must agree on.
    """

    def __init__(
        self,
        me: int,
        keys: PrivateKeys,
        survey: bytes,
        context: bytes,
        records: Mapping[int, KeyRecord],
    ) -> None:
        _check_binding(survey, context)
        self._me = me
        self._keys = keys
        self._survey = survey
        self._context = context
        self._records = records
        self._revoked: set[int] = set()
        self._out: dict[int, _Outbound] = {}
        self._in: dict[bytes, _Inbound] = {}
        self._windows: dict[bytes, tuple[int, Window]] = {}
        self._sessions: dict[int, int] = {}
        self._numbers: dict[int, int] = {}
        _ALIVE.add(self)

    def next_number(self, recipient: int) -> int:
        """The number of the next message to this party: 1, 2, … and never one twice."""
        number = self._numbers.get(recipient, 0) + 1
        self._numbers[recipient] = number
        return number

    def seal(self, recipient: int, round: int, plaintext: bytes) -> bytes:
        """A cell that only ``recipient`` can open."""
        if len(plaintext) != CAPACITY:
            raise InvalidParameter(
                f"a plaintext has {CAPACITY} bytes, not {len(plaintext)}: use cells.pack"
            )
        out = self._out.get(recipient)
        if out is None:
            out = self._out[recipient] = self._begin(recipient)
        header = _HEADER.pack(out.prefix, round, out.session, next(out.counter), out.wrapped)
        # Bytes 42 to 54 are the end of the session's name and the counter.
        return header + out.encrypt(header[42:54], plaintext, header + self._context)

    def open(self, cell: bytes) -> tuple[int, bytes, bytes, int]:
        """Sender, plaintext, session and counter of a cell for me, unless it was marked before."""
        if len(cell) != CELL:
            Header.parse(cell)
        header = cell[:HEADER]
        prefix, _, session, counter, wrapped = _HEADER.unpack(header)
        known = self._in.get(session)
        if known is None:
            known = self._accept(Header.parse(cell))
        if prefix != known.prefix or wrapped != known.wrapped:
            # Say what is wrong with the header; if nothing is, it uses another's session.
            self._expect(Header.parse(cell))
            raise Rejected(Reason.forged, "the cell claims another party's session")
        (sender,) = _NUMBER.unpack_from(prefix, 18)
        if sender in self._revoked:
            raise Rejected(Reason.revoked, f"party {sender} was revoked")
        try:
            plaintext = known.decrypt(header[42:54], cell[HEADER:], header + self._context)
        except InvalidTag:
            raise Rejected(Reason.forged, "the tag of the cell does not fit") from None
        if counter >= _COUNTERS:
            raise Rejected(Reason.malformed, "no session counts that far")
        if counter in known.window:
            raise Rejected(Reason.replayed, "the cell was taken in before")
        return sender, plaintext, session, counter

    def mark(self, session: bytes, counter: int) -> None:
        """Never open this cell again."""
        self._windows[session][1].add(counter)

    def revoke(self, number: int) -> None:
        """Open nothing more from this party."""
        self._revoked.add(number)

    def state(self) -> bytes:
        """The windows of marked cells and the message numbers; no key is in it."""
        keys = (*map(_NUMBER.pack, self._numbers), *self._windows)
        return msgspec.msgpack.encode({key: self._row(key) for key in keys})

    def resume(self, state: bytes) -> None:
        """Continue from a state; sessions of mine begin anew."""
        if len(state) > _STATE_LIMIT:
            raise Rejected(Reason.oversized, "the state of the links is too long")
        try:
            rows = _ROWS.decode(state)
        except msgspec.DecodeError as error:
            raise Rejected(Reason.malformed, f"not a state of links: {error}") from None
        self._restore(rows)

    def _restore(self, rows: Mapping[bytes, bytes]) -> None:
        self._out, self._in = {}, {}
        self._windows, self._sessions, self._numbers = {}, {}, {}
        for key, row in rows.items():
            if len(key) == _NUMBER.size == len(row):
                self._numbers[_NUMBER.unpack(key)[0]] = _NUMBER.unpack(row)[0]
                continue
            try:
                seen = _SEEN.decode(row)
            except msgspec.DecodeError as error:
                raise Rejected(Reason.malformed, f"not a state of links: {error}") from None
            self._windows[key] = seen.sender, Window(seen.base, int.from_bytes(seen.bits, "big"))
            self._sessions[seen.sender] = self._sessions.get(seen.sender, 0) + 1

    def _row(self, key: bytes) -> bytes:
        """A session's window, or the last message number of a recipient."""
        if len(key) == _NUMBER.size:
            return _NUMBER.pack(self._numbers[_NUMBER.unpack(key)[0]])
        sender, window = self._windows[key]
        bits = window.bits
        packed = bits.to_bytes(-(-bits.bit_length() // 8), "big")
        return msgspec.msgpack.encode(_Seen(sender, window.base, packed))

    def _begin(self, recipient: int) -> _Outbound:
        """A session under a fresh key."""
        record = self._records.get(recipient)
        if record is None:
            raise InvalidParameter(f"party {recipient} is not on the roster: nothing can be sealed")
        key = os.urandom(32)
        info = self._info(self._me, recipient)
        sealed = _SUITE.encrypt(key, X25519PublicKey.from_public_bytes(record.hpke), info)
        wrapped = sealed + self._keys.identity.sign(info + sealed)
        prefix = cells.prefix(cells.DATA, self._survey, self._me, recipient)
        return _Outbound(prefix, key, wrapped)

    def _accept(self, header: Header) -> _Inbound:
        """A session from elsewhere, once its wrapped key proves to come from its sender."""
        record = self._expect(header)
        sender, session, wrapped = header.sender, header.session, header.wrapped
        if session != _session(wrapped):
            raise Rejected(Reason.forged, "the session is not named by its key")
        info = self._info(sender, self._me)
        sealed = wrapped[:-_SIGNATURE]
        record.verify(wrapped[-_SIGNATURE:], info + sealed)
        try:
            key = _SUITE.decrypt(sealed, self._keys.hpke, info)
        except (InvalidTag, ValueError):
            raise Rejected(Reason.forged, "the session key is not sealed to this party") from None
        if len(key) != 32:
            raise Rejected(Reason.malformed, "a session key has 32 bytes")
        seen = self._windows.get(session)
        if seen is None:
            count = self._sessions.get(sender, 0)
            if count >= SESSIONS:
                raise Rejected(Reason.flooding, f"party {sender} has begun {SESSIONS} sessions")
            self._sessions[sender] = count + 1
            seen = self._windows[session] = sender, Window()
        prefix = cells.prefix(cells.DATA, self._survey, sender, self._me)
        found = self._in[session] = _Inbound(prefix, wrapped, key, seen[1])
        return found

    def _expect(self, header: Header) -> KeyRecord:
        """The record of the sender of a data cell of this survey that is meant for me."""
        if header.kind != cells.DATA:
            raise Rejected(Reason.malformed, "not a data cell")
        if header.survey != self._survey or header.recipient != self._me:
            raise Rejected(Reason.foreign, "the cell is for another survey or party")
        record = self._records.get(header.sender)
        if record is None:
            raise Rejected(Reason.unknown, f"party {header.sender} is not on the roster")
        if header.sender in self._revoked:
            raise Rejected(Reason.revoked, f"party {header.sender} was revoked")
        return record

    def _info(self, sender: int, recipient: int) -> bytes:
        return _LINK + self._survey + self._context + _PAIR.pack(sender, recipient)

    def _forget_sessions(self) -> None:
        self._out = {}


_ALIVE: WeakSet[Links] = WeakSet()


def _forked() -> None:
    for links in _ALIVE:
        links._forget_sessions()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _session(wrapped: bytes) -> bytes:
    return hashlib.sha256(wrapped).digest()[:16]


def _check_binding(survey: bytes, context: bytes) -> None:
    if len(survey) != 16 or len(context) != 32:
        raise InvalidParameter(
            f"a survey has 16 bytes and a context 32, got {len(survey)} and {len(context)}"
        )


class HpkeSealer:
    """Seals single messages from actor to actor, past every party between them.

    Nothing of the sender is inside, so that a shuffler can pass on what it cannot open and the
    curator cannot tell whose it was. Survey, context and recipient are bound in.
    """

    def __init__(
        self,
        me: int,
        keys: PrivateKeys,
        survey: bytes,
        context: bytes,
        records: Mapping[int, KeyRecord],
    ) -> None:
        _check_binding(survey, context)
        self._info = _SEALER + survey + context
        self._one_time = _ONE_TIME + survey + context
        self._mine = self._info + _NUMBER.pack(me)
        self._keys = keys
        self._records = records

    def seal(self, to: Address, plain: bytes) -> bytes:
        """Bytes that only ``to`` can open."""
        number = cells.number(to)
        record = self._records.get(number)
        if record is None:
            raise InvalidParameter(f"{to} is not on the roster: nothing can be sealed to it")
        key = X25519PublicKey.from_public_bytes(record.hpke)
        return _SUITE.encrypt(plain, key, self._info + _NUMBER.pack(number))

    def open(self, sealed: bytes) -> bytes:
        """The bytes that were sealed to this party; ``ValueError`` when they were not."""
        try:
            return _SUITE.decrypt(sealed, self._keys.hpke, self._mine)
        except InvalidTag:
            raise ValueError("not sealed to this party") from None

    def public_of(self, secret: bytes) -> bytes:
        """The public half of a one-time key."""
        return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()

    def seal_to(self, public: bytes, plain: bytes) -> bytes:
        """Bytes that only the owner of this one-time key can open; ``ValueError`` if it is none."""
        return _SUITE.encrypt(plain, X25519PublicKey.from_public_bytes(public), self._one_time)

    def open_with(self, secret: bytes, sealed: bytes) -> bytes:
        """The bytes that were sealed to a one-time key; ``ValueError`` when they were not."""
        try:
            key = X25519PrivateKey.from_private_bytes(secret)
            return _SUITE.decrypt(sealed, key, self._one_time)
        except InvalidTag:
            raise ValueError("not sealed to this key") from None


def compare_cell(
    keys: PrivateKeys, survey: bytes, sender: int, recipient: int, digest: bytes
) -> bytes:
    """A signed statement to a contact of what this party was told, such as who takes part.

    It is no secret, so it is not sealed; it is signed, so that whoever was told something else
    holds the proof.
    """
    if len(survey) != 16 or len(digest) != 32:
        raise InvalidParameter("a survey has 16 bytes and a digest 32")
    signature = keys.identity.sign(_statement(survey, sender, recipient, digest))
    return _compare(survey, sender, recipient, digest, signature)


def read_compare(cell: bytes, record: KeyRecord) -> bytes:
    """The digest that the party of this record has signed."""
    header = Header.parse(cell)
    digest, signature = cell[HEADER : HEADER + 32], cell[HEADER + 32 : HEADER + 32 + _SIGNATURE]
    if _compare(header.survey, header.sender, header.recipient, digest, signature) != cell:
        raise Rejected(Reason.malformed, "not a compare cell")
    record.verify(signature, _statement(header.survey, header.sender, header.recipient, digest))
    return digest


def _statement(survey: bytes, sender: int, recipient: int, digest: bytes) -> bytes:
    return _COMPARE + survey + _PAIR.pack(sender, recipient) + digest


def _compare(survey: bytes, sender: int, recipient: int, digest: bytes, signature: bytes) -> bytes:
    # The signature names the cell, so that the same statement is the same cell.
    header = Header(
        cells.COMPARE, survey, sender, recipient, 0, _session(signature), 0, bytes(WRAPPED)
    )
    return (header.pack() + digest + signature).ljust(CELL, b"\0")
