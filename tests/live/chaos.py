"""Trouble on purpose, within what a network may do: everything here is seeded and bounded.

:class:`ChaosTransport` wraps a transport and breaks what a transport may break: sends fail before
or after they were carried out, deliveries come late, twice, in another order or only the next time.
:class:`ChaosProxy` sits in front of a TCP port and does to its connections what networks do.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from incrowd.live.reasons import Reason
from incrowd.live.transports.base import Delivery, Transport, Unreachable

__all__ = ["ChaosProxy", "ChaosTransport", "ProxyRates", "Rates"]


@dataclass(frozen=True)
class Rates:
    """How likely each kind of trouble is, per send or per delivery."""

    before: float = 0.0
    """A send fails, and nothing was sent."""
    after: float = 0.0
    """A send fails although everything was sent."""
    duplicate: float = 0.0
    """A delivery comes twice."""
    delay: float = 0.0
    """A send or a delivery waits for up to ``longest`` seconds."""
    reorder: float = 0.0
    """The cells of a delivery are shuffled, and the delivery is overtaken by the next."""
    withhold: float = 0.0
    """A delivery does not come until the transport is opened anew."""
    longest: float = 0.02


class ChaosTransport(Transport):
    """A transport that has the troubles of ``rates``; at most ``most`` of them, then none."""

    def __init__(
        self, inner: Transport, rng: random.Random, rates: Rates, most: int = 1000
    ) -> None:
        self.inner = inner
        self.troubles = 0
        self._rng, self._rates, self._most = rng, rates, most

    async def open(self) -> None:
        await self.inner.open()

    async def send(self, cells: Sequence[bytes]) -> list[Reason | None]:
        await self._delay()
        if self._hit(self._rates.before):
            raise Unreachable("chaos before the send")
        answers = await self.inner.send(cells)
        if self._hit(self._rates.after):
            raise Unreachable("chaos after the send")
        return answers

    async def deliveries(self) -> AsyncIterator[Delivery]:
        overtaken: Delivery | None = None
        inner = self.inner.deliveries()
        try:
            while True:
                # An overtaken delivery must not wait for a next one that never comes.
                following = asyncio.ensure_future(anext(inner))
                try:
                    if overtaken is not None:
                        await asyncio.wait([following], timeout=self._rates.longest)
                        if not following.done():
                            yield overtaken
                            overtaken = None
                    delivery = await following
                except StopAsyncIteration:
                    break
                finally:
                    if not following.done():
                        following.cancel()
                        await asyncio.wait([following])
                await self._delay()
                if self._hit(self._rates.withhold):
                    continue
                if self._hit(self._rates.reorder):
                    cells = list(delivery.cells)
                    self._rng.shuffle(cells)
                    delivery = Delivery(cells)
                    if overtaken is None:
                        overtaken = delivery
                        continue
                yield delivery
                if self._hit(self._rates.duplicate):
                    yield delivery
                if overtaken is not None:
                    yield overtaken
                    overtaken = None
        finally:
            await inner.aclose()
        if overtaken is not None:
            yield overtaken

    async def took(self, tokens: Sequence[int]) -> None:
        await self.inner.took(tokens)

    async def close(self) -> None:
        await self.inner.close()

    def _hit(self, rate: float) -> bool:
        # The coin is thrown in any case, so that the bound does not change what follows.
        hit = self._rng.random() < rate and self.troubles < self._most
        self.troubles += hit
        return hit

    async def _delay(self) -> None:
        if self._hit(self._rates.delay):
            await asyncio.sleep(self._rng.uniform(0, self._rates.longest))


@dataclass(frozen=True)
class ProxyRates:
    """How likely each kind of trouble is, per piece of bytes that passes."""

    delay: float = 0.0
    """The piece waits for up to ``longest`` seconds."""
    truncate: float = 0.0
    """Only the first half passes, then the connection is closed in order."""
    reset: float = 0.0
    """The connection is reset."""
    stall: float = 0.0
    """Nothing passes any more, in neither direction, and the connection stays open."""
    longest: float = 0.02


class ChaosProxy:
    """A TCP proxy on a port of its own; at most ``most`` connections are broken, then none."""

    def __init__(self, port: int, rng: random.Random, rates: ProxyRates, most: int = 20) -> None:
        self.port = 0
        self.broken = 0
        self.calm = False
        self._to = port
        self._rng, self._rates, self._most = rng, rates, most
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ChaosProxy:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self._to)
            writers.append(forth)
            stalled = asyncio.Event()
            ways = [
                asyncio.create_task(self._pump(reader, forth, writers, stalled)),
                asyncio.create_task(self._pump(back, writer, writers, stalled)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.wait(ways)
        except OSError:
            pass
        finally:
            for each in writers:
                each.close()
            for each in writers:
                with contextlib.suppress(OSError):
                    await each.wait_closed()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        writers: list[asyncio.StreamWriter],
        stalled: asyncio.Event,
    ) -> None:
        rates = self._rates
        with contextlib.suppress(OSError):
            while piece := await reader.read(16 * 1024):
                if self._rng.random() < rates.delay and not self.calm:
                    await asyncio.sleep(self._rng.uniform(0, rates.longest))
                if self._breaks(rates.stall):
                    stalled.set()
                if stalled.is_set():
                    await asyncio.Event().wait()
                if self._breaks(rates.reset):
                    for each in writers:
                        _reset(each)
                    return
                if self._breaks(rates.truncate):
                    writer.write(piece[: len(piece) // 2])
                    await writer.drain()
                    return
                writer.write(piece)
                await writer.drain()

    def _breaks(self, rate: float) -> bool:
        hit = self._rng.random() < rate and self.broken < self._most and not self.calm
        self.broken += hit
        return hit


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close so that the other side sees a reset instead of an end."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
