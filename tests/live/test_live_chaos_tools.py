"""The tools that make trouble make it, within their bounds, and transports get over it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from incrowd.live.client import Connection
from incrowd.live.transports.base import Unreachable
from incrowd.protocols.runtime.delivery import Backoff
from tests.live.chaos import ChaosProxy, ChaosTransport, ProxyRates, Rates
from tests.live.worlds import (
    HubWorld,
    LiveHub,
    MemoryWorld,
    OwnConnection,
    World,
    deliver,
    opened,
    persist,
    play,
    receive,
)


def exchange_in_trouble(world: MemoryWorld) -> int:
    """Send through chaos at both ends, and say how much there was at one of them."""
    rates = Rates(before=0.3, after=0.3, duplicate=0.5, delay=0.3, reorder=0.5, longest=0.002)
    troubles = 0

    async def scene() -> None:
        nonlocal troubles
        sender = ChaosTransport(world.transport(0), random.Random(1), rates)
        other = ChaosTransport(world.transport(1), random.Random(2), rates)
        cells = world.cells(0, 1, 400)
        async with opened(sender), opened(other):
            receiving = asyncio.create_task(receive(other, cells))
            for start in range(0, 400, 20):
                await deliver(sender, cells[start : start + 20])
            got = await receiving
        assert set(got) == set(cells)
        assert got != cells
        assert len(got) > len(cells)
        troubles = sender.troubles

    play(world, scene)
    return troubles


def test_a_transport_in_trouble_still_delivers() -> None:
    assert exchange_in_trouble(MemoryWorld()) == exchange_in_trouble(MemoryWorld()) > 0


def test_a_failure_before_the_send_and_one_after() -> None:
    world = MemoryWorld()

    async def scene() -> None:
        one, two = world.cells(0, 1, 1), world.cells(0, 1, 1)
        inner = world.transport(0)
        lost = ChaosTransport(inner, random.Random(1), Rates(before=1.0), most=1)
        unsure = ChaosTransport(inner, random.Random(1), Rates(after=1.0), most=1)
        async with opened(world.transport(1)) as other:
            with pytest.raises(Unreachable):
                await lost.send(one)
            assert world.network.waiting() == 0
            with pytest.raises(Unreachable):
                await unsure.send(two)
            assert await receive(other, two) == two
            # Its one trouble is over.
            assert await lost.send(one) == [None]
            assert await receive(other, one) == one

    play(world, scene)


def test_what_is_withheld_comes_the_next_time() -> None:
    world = MemoryWorld()

    async def scene() -> None:
        cells, last = world.cells(0, 1, 3), world.cells(0, 1, 1)
        sender = world.transport(0)
        withholding = ChaosTransport(
            world.transport(1), random.Random(1), Rates(withhold=1.0), most=1
        )
        async with opened(withholding):
            first = asyncio.create_task(receive(withholding, last))
            await sender.send(cells)
            while not withholding.troubles:
                await asyncio.sleep(0)
            await sender.send(last)
            assert await first == last
        async with opened(world.transport(1)) as other:
            assert await receive(other, cells) == cells

    play(world, scene)


@contextlib.asynccontextmanager
async def echo() -> asyncio.Server:
    writers: list[asyncio.StreamWriter] = []

    async def back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(OSError):
            while piece := await reader.read(1 << 16):
                writer.write(piece)
        writer.close()

    server = await asyncio.start_server(back, "127.0.0.1", 0)
    try:
        yield server
    finally:
        server.close()
        for each in writers:
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()
        await server.wait_closed()


@pytest.mark.parametrize("kind", ["none", "delay", "truncate", "reset", "stall"])
def test_what_a_proxy_does_to_a_connection(kind: str) -> None:
    rates = ProxyRates(**({} if kind == "none" else {kind: 1.0}))

    async def scene() -> None:
        async with (
            echo() as server,
            ChaosProxy(server.sockets[0].getsockname()[1], random.Random(3), rates, 1) as proxy,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"12345678")
            if kind == "reset":
                with pytest.raises(ConnectionResetError):
                    await reader.readexactly(8)
            elif kind == "truncate":
                with pytest.raises(asyncio.IncompleteReadError):
                    await reader.readexactly(8)
            elif kind == "stall":
                reading = asyncio.ensure_future(reader.readexactly(8))
                while not proxy.broken:
                    await asyncio.sleep(0.001)
                assert not reading.done()
                reading.cancel()
            else:
                assert await reader.readexactly(8) == b"12345678"
            assert proxy.broken == (kind in ("truncate", "reset", "stall"))
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            # One connection was broken, the next one is not.
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
            writer.write(b"12345678")
            assert await reader.readexactly(8) == b"12345678"
            writer.close()
            await writer.wait_closed()

    play(World(), scene)


def test_the_hub_behind_a_bad_network(tmp_path: Path) -> None:
    hub = LiveHub(tmp_path)
    try:
        world = HubWorld(hub)
        rates = ProxyRates(delay=0.1, truncate=0.03, reset=0.03, stall=0.01, longest=0.01)

        async def scene() -> None:
            port = int(hub.url.rpartition(":")[2])
            async with ChaosProxy(port, random.Random(5), rates, most=12) as proxy:
                ends = [
                    OwnConnection(
                        Connection(
                            f"https://127.0.0.1:{proxy.port}",
                            keys.identity,
                            hub.tls,
                            backoff=Backoff(first=0.02, factor=2.0, cap=0.5),
                            patience=1.0,
                            rng=random.Random(place),
                        ),
                        world.survey,
                    )
                    for place, keys in enumerate(world.poll.people[:2])
                ]
                cells = world.cells(0, 1, 600)
                for each in ends:
                    await persist(each.open)
                receiving = asyncio.create_task(receive(ends[1], cells))
                for start in range(0, 600, 50):
                    assert await deliver(ends[0], cells[start : start + 50]) == [None] * 50
                assert set(await receiving) == set(cells)
                assert proxy.broken > 0
                proxy.calm = True
                for each in ends:
                    await each.close()

        play(world, scene)
    finally:
        hub.stop()
