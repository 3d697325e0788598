"""The two ends of a direct connection: puts that wait for answers, and cells that wait to be taken.

A frame is its length in four bytes, then a ``Put`` or a ``Stored`` as on the hub's WebSocket. The
sending end is a :class:`Link`, which pairs answers with puts. The receiving end keeps cells in an
:class:`Inbox`: each cell once, however often it is sent, with all the puts that wait for it. A put
is answered when the last of its cells was taken.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from incrowd.live import frames
from incrowd.live.cells import cell_id
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.transports.base import Unreachable

BROKEN = (OSError, EOFError, Rejected)
"""What reading from a peer may raise; timeouts and TLS failures are ``OSError`` too."""


class Inbound:
    """A peer that is connected to this party, and how many of its puts wait for an answer."""

    def __init__(self, certificate: x509.Certificate, writer: asyncio.StreamWriter) -> None:
        self.identity = identity_of(certificate)
        self.serial = certificate.serial_number
        self.writer = writer
        self.unanswered = 0


class _Ticket:
    """One put, and how many of its cells are not taken yet."""

    __slots__ = ("inbound", "left", "number", "rejected")

    def __init__(self, inbound: Inbound, number: int) -> None:
        self.inbound, self.number = inbound, number
        self.left = 0
        self.rejected: list[tuple[int, Reason]] = []

    @property
    def lost(self) -> bool:
        return self.inbound.writer.is_closing()

    def answer(self) -> None:
        self.inbound.unanswered -= 1
        if not self.lost:
            _write(self.inbound.writer, frames.Stored(self.number, self.rejected))


class Held:
    """A cell that is not taken yet, and the puts that brought it."""

    __slots__ = ("cell", "queued", "sender", "tickets", "token")

    def __init__(self, token: int, sender: bytes, cell: bytes) -> None:
        self.token, self.sender, self.cell = token, sender, cell
        self.queued = False
        self.tickets: list[_Ticket] = []


class Inbox:
    """The cells that have arrived and are not taken, each once."""

    def __init__(self, room: int, share: int) -> None:
        self._room, self._share = room, share
        self._tokens = itertools.count(1)
        self._by_token: dict[int, Held] = {}
        self._by_id: dict[bytes, Held] = {}
        self._of: Counter[bytes] = Counter()
        self.queue: asyncio.Queue[list[Held] | None] = asyncio.Queue()

    def add(self, inbound: Inbound, put: frames.Put, check: Callable[[bytes], None]) -> None:
        """Take in what ``check`` does not refuse; answer the put if nothing of it must wait."""
        if inbound.unanswered >= self._share:
            # Even one cell at a time, no honest peer has so many puts under way.
            raise Rejected(Reason.flooding)
        ticket = _Ticket(inbound, put.number)
        fresh = []
        for place, cell in enumerate(put.cells):
            try:
                check(cell)
                held = self._hold(inbound.identity, cell)
            except Rejected as error:
                ticket.rejected.append((place, error.reason))
                continue
            # Puts of a connection that is gone wait for nothing.
            held.tickets = [each for each in held.tickets if not each.lost]
            held.tickets.append(ticket)
            ticket.left += 1
            if not held.queued:
                held.queued = True
                fresh.append(held)
        inbound.unanswered += 1
        if ticket.left == 0:
            ticket.answer()
        elif fresh:
            self.queue.put_nowait(fresh)

    def _hold(self, sender: bytes, cell: bytes) -> Held:
        key = sender + cell_id(cell)
        held = self._by_id.get(key)
        if held is None:
            if len(self._by_id) >= self._room or self._of[sender] >= self._share:
                raise Rejected(Reason.full)
            held = Held(next(self._tokens), sender, cell)
            self._by_id[key] = self._by_token[held.token] = held
            self._of[sender] += 1
        return held

    def take(self, token: int) -> None:
        """The receiver has this one; answer the puts that waited for no other."""
        held = self._by_token.pop(token, None)
        if held is None:
            return
        del self._by_id[held.sender + cell_id(held.cell)]
        self._of[held.sender] -= 1
        for ticket in held.tickets:
            ticket.left -= 1
            if ticket.left == 0:
                ticket.answer()


class Link:
    """A connection to a peer, and the puts on it that wait for an answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.pending: dict[int, asyncio.Future[frames.Stored | None]] = {}
        self._numbers = itertools.count(1)

    async def put(self, survey: bytes, cells: Sequence[bytes]) -> list[tuple[int, Reason]]:
        """Hand cells to the peer, and wait until it has taken them."""
        number = next(self._numbers)
        future: asyncio.Future[frames.Stored | None] = asyncio.get_running_loop().create_future()
        self.pending[number] = future
        try:
            if self.writer.is_closing():
                raise Unreachable("the connection to the peer is closed")
            _write(self.writer, frames.Put(number, survey, list(cells)))
            await self.writer.drain()
            stored = await future
        except OSError as error:
            raise Unreachable(f"the connection to the peer broke: {error!r}") from error
        finally:
            del self.pending[number]
        if stored is None:
            raise Unreachable("the connection to the peer broke")
        return stored.rejected

    async def read(self, idle: float, patience: float) -> None:
        """Pair answers with puts until the connection breaks, or nobody uses it for long."""
        try:
            while True:
                frame = await next_frame(self.reader, lambda: bool(self.pending), idle, patience)
                if frame is None:
                    return
                stored = frames.decode_from_hub(frame)
                if not isinstance(stored, frames.Stored):
                    return
                future = self.pending.get(stored.number)
                if future is not None and not future.done():
                    future.set_result(stored)
        except BROKEN:
            return
        finally:
            for future in self.pending.values():
                if not future.done():
                    future.set_result(None)
            await close_stream(self.writer)


def identity_of(certificate: x509.Certificate) -> bytes:
    """The public key by which the roster knows whom this certificate is for."""
    key = certificate.public_key()
    # Every identity is an Ed25519 key; whoever shows another kind is nobody on any roster.
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else b""


def _write(writer: asyncio.StreamWriter, frame: frames.Put | frames.Stored) -> None:
    encoded = frames.encode(frame)
    writer.write(len(encoded).to_bytes(4, "big") + encoded)


async def next_frame(
    reader: asyncio.StreamReader, busy: Callable[[], bool], idle: float, patience: float
) -> bytes | None:
    """The next frame, or none when there is none for ``idle`` seconds and nothing is under way."""
    while True:
        try:
            async with asyncio.timeout(idle):
                size = int.from_bytes(await reader.readexactly(4), "big")
            break
        except TimeoutError:
            if not busy():
                return None
    if size > frames.FRAME_LIMIT:
        raise Rejected(Reason.oversized)
    async with asyncio.timeout(patience):
        return await reader.readexactly(size)


async def close_stream(writer: asyncio.StreamWriter) -> None:
    """Close a connection, whatever state it is in."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
