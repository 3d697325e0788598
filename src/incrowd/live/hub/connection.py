"""One party's WebSocket: the greeting, then frames in both directions until either side ends it.

Reading and writing are two tasks. What a frame asks for is committed before it is answered, and a
few frames may wait for their commits at once; when more are sent, or more cells than the limits
allow, the hub stops reading for a while, and the network makes the sender wait. A frame that no
party of this program would send ends the connection, with the reason as the reason of the close.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from incrowd.errors import IncrowdError, StoreUnavailable
from incrowd.live import frames
from incrowd.live.hub.board import Survey
from incrowd.live.hub.events import log
from incrowd.live.hub.limits import Bucket
from incrowd.live.hub.mailroom import Listener, Refusals
from incrowd.live.reasons import Reason, Rejected

if TYPE_CHECKING:
    from incrowd.live.hub.hub import Hub

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

_GOING_AWAY: Final = 1001
_POLICY: Final = 1008
_TOO_BIG: Final = 1009
_TRY_LATER: Final = 1013
_FLUSH_SECONDS: Final = 5.0
_ENDPOINT = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_EVERYWHERE: Final = bytes(16)
"""Stands for no survey in particular."""


class _Close(NamedTuple):
    """The last thing in an outbox."""

    code: int
    reason: str


class _Letter(NamedTuple):
    """A frame of mail in an outbox, and whose it is."""

    data: bytes
    listener: Listener


async def serve(hub: Hub, receive: Receive, send: Send) -> None:
    """Speak with one caller from the opening to the close."""
    await receive()
    await send({"type": "websocket.accept"})
    connection = Connection(hub, receive, send)
    try:
        async with asyncio.timeout(hub.limits.greeting_seconds):
            await connection.greet()
    except TimeoutError:
        await _close(send, Rejected(Reason.expired))
        return
    except Rejected as error:
        hub.metrics.reject(error.reason)
        await _close(send, error)
        return
    except IncrowdError as error:
        log("greeting failed", logging.ERROR, kind=type(error).__name__)
        await send({"type": "websocket.close", "code": _TRY_LATER, "reason": "the store failed"})
        return
    except OSError:  # the caller is gone
        return
    await connection.run()


async def _close(send: Send, error: Rejected) -> None:
    await send({"type": "websocket.close", "code": _POLICY, "reason": str(error.reason)})


class Connection:
    """A caller that has proven who it is."""

    def __init__(self, hub: Hub, receive: Receive, send: Send) -> None:
        self._hub = hub
        self._receive, self._send = receive, send
        self._outbox: asyncio.Queue[bytes | _Letter | _Close] = asyncio.Queue()
        self._listeners: dict[bytes, Listener] = {}
        self._wanted: set[bytes] = set()
        self._slots = asyncio.Semaphore(hub.limits.pipeline)
        self._pending: set[asyncio.Future[None]] = set()
        self._bucket = Bucket(hub.limits.rate, hub.limits.burst, time.monotonic())
        self._ending = False
        self.identity = b""

    async def greet(self) -> None:
        """Challenge the caller; ``Rejected`` unless it is enrolled and proves it."""
        nonce = os.urandom(32)
        await self._send_bytes(frames.encode(frames.Challenge(nonce)))
        hello = frames.decode_from_party(await self._receive_bytes())
        if not isinstance(hello, frames.Hello):
            raise Rejected(Reason.malformed)
        record = await self._hub.registry.greet(hello.identity)
        record.verify(hello.signature, frames.hello_bytes(nonce))
        self.identity = hello.identity

    async def run(self) -> None:
        """Serve the caller until the connection ends."""
        self.tell(frames.Welcome())
        self._hub.enter(self)
        writer = self._hub.supervisor.job(self._write())
        reader = self._hub.supervisor.job(self._read())
        try:
            await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
            if self._ending:
                # What was said before the close still goes out, unless the caller does not listen.
                await asyncio.wait({writer}, timeout=_FLUSH_SECONDS)
        finally:
            self._hub.leave(self)
            for listener in self._listeners.values():
                self._hub.mailroom.leave(listener)
            for task in (writer, reader):
                task.cancel()
            for outcome in await asyncio.gather(writer, reader, return_exceptions=True):
                if isinstance(outcome, Exception) and not isinstance(outcome, OSError):
                    log("connection failed", logging.ERROR, kind=type(outcome).__name__)

    def tell(self, frame: frames.FromHub) -> None:
        """Send a frame after those that wait."""
        self._outbox.put_nowait(frames.encode(frame))

    def end(self, code: int, reason: str) -> None:
        """Take nothing more, and close after what waits to be sent."""
        if not self._ending:
            self._ending = True
            self._outbox.put_nowait(_Close(code, reason))

    def revoke(self) -> None:
        """Say why, and close."""
        self.tell(frames.News(_EVERYWHERE, "revoked"))
        self.end(_POLICY, str(Reason.revoked))

    async def drain(self) -> None:
        """Take nothing more, answer what was taken, and close."""
        self._ending = True
        await asyncio.gather(*self._pending, return_exceptions=True)
        self.leave()

    def leave(self) -> None:
        """Close, because the hub stops."""
        self._ending = True
        self._outbox.put_nowait(_Close(_GOING_AWAY, "the hub stops"))

    def started(self, survey: Survey) -> None:
        """Begin to deliver, if this was asked for before there was anything to deliver."""
        if survey.id in self._wanted:
            self._listen(survey)

    async def _write(self) -> None:
        while True:
            match await self._outbox.get():
                case _Close(code, reason):
                    await self._send({"type": "websocket.close", "code": code, "reason": reason})
                    return
                case _Letter(data, listener):
                    await self._send_bytes(data)
                    self._hub.mailroom.sent(listener)
                case data:
                    await self._send_bytes(data)

    async def _read(self) -> None:
        while True:
            try:
                frame = frames.decode_from_party(await self._receive_bytes())
                if not self._ending:
                    await self._handle(frame)
                    if debt := self._bucket.debt:
                        await asyncio.sleep(debt)
            except Rejected as error:
                self._hub.metrics.reject(error.reason)
                self.end(_POLICY, str(error.reason))
                return

    async def _handle(self, frame: frames.FromParty) -> None:
        match frame:
            case frames.Put():
                await self._later(self._put(frame, self._spend(len(frame.cells))))
            case frames.Took():
                self._spend_one()
                await self._later(self._took(frame))
            case frames.Listen():
                self._spend_one()
                self._wanted.add(frame.survey)
                survey = self._hub.board.get(frame.survey)
                if survey is not None:
                    self._listen(survey)
            case frames.Join() | frames.Announce():
                self._spend_one()
                await self._later(self._said(frame))
            case _:
                raise Rejected(Reason.malformed)

    def _spend(self, wanted: int) -> int:
        """How many of these cells are not beyond all measure."""
        return self._bucket.take(wanted, time.monotonic())

    def _spend_one(self) -> None:
        """Frames without cells count as one."""
        if not self._spend(1):
            raise Rejected(Reason.flooding)

    async def _later(self, work: Coroutine[None, None, None]) -> None:
        """Do it while the next frames are read, unless too many wait already."""
        await self._slots.acquire()
        task = self._hub.supervisor.job(work)
        self._pending.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Future[None]) -> None:
        self._slots.release()
        self._pending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # The caller still has what it sent, and sends it again later.
            log("frame failed", logging.ERROR, kind=type(task.exception()).__name__)
            self.end(_TRY_LATER, "the hub failed")

    async def _put(self, frame: frames.Put, allowed: int) -> None:
        cells, metrics = frame.cells, self._hub.metrics
        refused: Refusals
        try:
            survey, number = self._sender(frame.survey)
        except Rejected as error:
            refused = [(place, error.reason) for place in range(len(cells))]
        else:
            try:
                refused = await self._hub.mailroom.put(survey, number, cells[:allowed])
            except StoreUnavailable:
                # The sender keeps what is not stored, and sends the same bytes again.
                refused = [(place, Reason.busy) for place in range(allowed)]
            refused += ((place, Reason.flooding) for place in range(allowed, len(cells)))
        for _, reason in refused:
            metrics.reject(reason)
        self.tell(frames.Stored(frame.number, refused))

    def _sender(self, survey: bytes) -> tuple[Survey, int]:
        """The survey in which cells may travel now, and the caller's number in it."""
        if self.identity in self._hub.registry.revoked:
            raise Rejected(Reason.revoked)
        found = self._hub.board.get(survey)
        if found is None:
            raise Rejected(Reason.foreign)
        if found.state != "started" or found.spec.expires <= time.time():
            raise Rejected(Reason.expired)
        number = found.numbers.get(self.identity)
        if number is None:
            raise Rejected(Reason.unknown)
        return found, number

    async def _took(self, frame: frames.Took) -> None:
        survey = self._hub.board.get(frame.survey)
        number = None if survey is None else survey.numbers.get(self.identity)
        if number is not None and frame.places:
            listener = self._listeners.get(frame.survey)
            await self._hub.mailroom.took((frame.survey, number), frame.places, listener)

    async def _said(self, frame: frames.Join | frames.Announce) -> None:
        refused: Refusals = []
        try:
            await self._keep(frame)
        except Rejected as error:
            refused = [(0, error.reason)]
        except StoreUnavailable:
            refused = [(0, Reason.busy)]
        for _, reason in refused:
            self._hub.metrics.reject(reason)
        self.tell(frames.Stored(frame.number, refused))

    async def _keep(self, frame: frames.Join | frames.Announce) -> None:
        survey = self._hub.board.get(frame.survey)
        if self.identity in self._hub.registry.revoked:
            raise Rejected(Reason.revoked)
        if survey is None:
            raise Rejected(Reason.foreign)
        if isinstance(frame, frames.Join):
            await self._hub.board.join(survey, self.identity, frame.join)
            return
        slot = survey.slot(self.identity)
        if slot is None:
            raise Rejected(Reason.unknown)
        if survey.state == "closed":
            raise Rejected(Reason.expired)
        if not _ENDPOINT.fullmatch(frame.endpoint):
            raise Rejected(Reason.malformed)
        await self._hub.committer.do(
            lambda tables: tables.announce(survey.id, slot, frame.endpoint)
        )

    def _listen(self, survey: Survey) -> None:
        number = survey.numbers.get(self.identity)
        if number is None:
            return

        def deliver(mail: list[tuple[int, bytes]]) -> None:
            data = frames.encode(frames.Mail(survey.id, mail))
            self._outbox.put_nowait(_Letter(data, listener))

        listener = Listener((survey.id, number), self._hub.limits.window, deliver)
        before = self._listeners.get(survey.id)
        if before is not None:
            self._hub.mailroom.leave(before)
        self._listeners[survey.id] = listener
        self._hub.mailroom.listen(listener)

    async def _send_bytes(self, data: bytes) -> None:
        await self._send({"type": "websocket.send", "bytes": data})

    async def _receive_bytes(self) -> bytes:
        event = await self._receive()
        if event["type"] == "websocket.disconnect":
            if event.get("code") == _TOO_BIG:
                # The server underneath refused a frame before it was read to the end.
                self._hub.metrics.reject(Reason.oversized)
            raise ConnectionResetError
        self._hub.presence.hear(self)
        data = event.get("bytes")
        if not isinstance(data, bytes):
            raise Rejected(Reason.malformed)
        return data
