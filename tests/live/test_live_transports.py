"""What every transport promises, asked of each of them."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from incrowd.errors import MissingExtra
from incrowd.live.reasons import Reason
from incrowd.live.transports.base import Unreachable
from incrowd.live.transports.nats import NatsTransport
from tests.live.hub_server import Deployment
from tests.live.nats_server import NatsServer, free_port, nats_server
from tests.live.worlds import (
    DirectWorld,
    HubWorld,
    LiveHub,
    MemoryWorld,
    NatsWorld,
    World,
    deliver,
    opened,
    persist,
    play,
    receive,
)


class Contract:
    """The promises; a subclass says of which transport."""

    @pytest.fixture
    def world(self) -> World:
        raise NotImplementedError

    def test_everything_sent_arrives(self, world: World) -> None:
        async def scene() -> None:
            one, two = world.cells(0, 1, 300), world.cells(0, 2, 41)
            back = world.cells(1, 0, 1)
            async with (
                opened(world.transport(0)) as zero,
                opened(world.transport(1)) as first,
                opened(world.transport(2)) as second,
            ):
                mixed = one + two
                world.rng.shuffle(mixed)
                answers, got_one, got_two, sent_back, got_back = await asyncio.gather(
                    deliver(zero, mixed),
                    receive(first, one),
                    receive(second, two),
                    deliver(first, back),
                    receive(zero, back),
                )
            assert answers == [None] * 341
            assert sent_back == [None]
            assert (set(got_one), set(got_two), set(got_back)) == (set(one), set(two), set(back))

        play(world, scene)

    def test_a_large_batch(self, world: World) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 5000)
            async with opened(world.transport(0)) as sender, opened(world.transport(1)) as other:
                answers, got = await asyncio.gather(deliver(sender, cells), receive(other, cells))
            assert answers == [None] * 5000
            assert set(got) == set(cells)

        play(world, scene)

    def test_sends_at_the_same_time(self, world: World) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 200)
            async with opened(world.transport(0)) as sender, opened(world.transport(1)) as other:
                got = asyncio.create_task(receive(other, cells))
                await asyncio.gather(*(deliver(sender, [cell]) for cell in cells))
                assert set(await got) == set(cells)

        play(world, scene)

    def test_nothing_is_sent_at_once(self, world: World) -> None:
        async def scene() -> None:
            async with opened(world.transport(0)) as sender:
                assert await sender.send([]) == []
                await sender.took([])
                await sender.took([12345])

        play(world, scene)

    def test_what_was_not_taken_comes_again_and_what_was_taken_does_not(self, world: World) -> None:
        async def scene() -> None:
            cells, last = world.cells(0, 1, 400), world.cells(0, 1, 1)
            async with opened(world.transport(0)) as sender:
                sending = asyncio.create_task(deliver(sender, cells))
                async with opened(world.transport(1)) as other:
                    await receive(other, cells, take=False)
                async with opened(world.transport(1)) as other:
                    got = await receive(other, cells)
                    # What came more than once is taken as often.
                    assert await sending == [None] * 400
                assert set(got) == set(cells)
                sending = asyncio.create_task(deliver(sender, last))
                async with opened(world.transport(1)) as other:
                    assert await receive(other, last) == last
                await sending

        play(world, scene)

    def test_a_part_is_taken(self, world: World) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 100)
            kept, left = set(cells[::2]), cells[1::2]
            async with opened(world.transport(0)) as sender:
                sending = asyncio.create_task(deliver(sender, cells))
                async with opened(world.transport(1)) as other:
                    seen: set[bytes] = set()
                    async with contextlib.aclosing(other.deliveries()) as stream:
                        while len(seen) < 100:
                            delivery = await anext(stream)
                            seen.update(cell for _, cell in delivery.cells)
                            await other.took(
                                [each for each, cell in delivery.cells if cell in kept]
                            )
                async with opened(world.transport(1)) as other:
                    got, answers = await asyncio.gather(receive(other, left), sending)
                assert set(left) <= set(got) <= set(cells)
                assert answers == [None] * 100

        play(world, scene)

    def test_the_same_cells_twice(self, world: World) -> None:
        async def scene() -> None:
            cells, last = world.cells(0, 1, 20), world.cells(0, 1, 1)
            async with opened(world.transport(0)) as sender, opened(world.transport(1)) as other:
                receiving = asyncio.create_task(receive(other, cells + last))
                for batch in (cells + cells, cells, last):
                    assert await deliver(sender, batch) == [None] * len(batch)
                assert set(await receiving) == {*cells, *last}

        play(world, scene)

    def test_nobody_loses_mail_when_the_holder_crashes(self, world: World) -> None:
        async def scene() -> None:
            cells, more = world.cells(0, 1, 300), world.cells(0, 1, 300)
            async with opened(world.transport(0)) as sender:
                if world.holds:
                    assert await deliver(sender, cells) == [None] * 300
                    await world.crash()
                    async with opened(world.transport(1)) as other:
                        got = await receive(other, cells)
                        assert set(got) == set(cells)
                async with opened(world.transport(1)) as other:
                    # The same objects carry on after another crash.
                    await world.crash()
                    answers, got = await asyncio.gather(deliver(sender, more), receive(other, more))
                assert answers == [None] * 300
                assert set(more) <= set(got)

        play(world, scene)

    def test_bad_cells_are_refused_and_good_ones_are_not(self, world: World) -> None:
        async def scene() -> None:
            good = world.cells(0, 1, 1)
            bad = [good[0][:-1], good[0] + b"\0", b"\x09" + good[0][1:]]
            wanted: list[Reason | None] = [Reason.malformed, Reason.oversized, Reason.version]
            if world.strict:
                bad += world.cells(0, 1, 1, survey=bytes(16)) + world.cells(2, 1, 1)
                bad += world.cells(0, 77, 1)[: world.knows_parties]
                wanted += [Reason.foreign, Reason.forged, Reason.unknown][: 2 + world.knows_parties]
            async with opened(world.transport(0)) as sender, opened(world.transport(1)) as other:
                answers, got = await asyncio.gather(
                    deliver(sender, bad + good), receive(other, good)
                )
            assert answers == [*wanted, None]
            assert got == good

        play(world, scene)

    def test_deliveries_end_when_the_transport_is_closed(self, world: World) -> None:
        async def scene() -> None:
            transport = world.transport(0)
            await persist(transport.open)

            async def listen() -> int:
                return len([each async for each in transport.deliveries()])

            listening = asyncio.create_task(listen())
            await asyncio.sleep(0)
            await transport.close()
            assert await listening == 0

        play(world, scene)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    live = LiveHub(tmp_path_factory.mktemp("hub"))
    yield live
    live.stop()


class TestMemory(Contract):
    @pytest.fixture
    def world(self) -> World:
        return MemoryWorld()


class TestNats(Contract):
    @pytest.fixture
    def world(self, nats: NatsServer) -> World:
        return NatsWorld(nats)

    def test_rubbish_is_dropped(self, world: NatsWorld) -> None:
        async def scene() -> None:
            import nats

            cells = world.cells(0, 1, 3)
            client = await nats.connect(world.server.url)
            async with opened(world.transport(1)) as other, opened(world.transport(0)) as sender:
                subject = f"incrowd.{world.survey.hex()}.1"
                for rubbish in (b"", b"x", cells[0] + b"x"):
                    await client.jetstream().publish(subject, rubbish)
                await deliver(sender, cells)
                assert sorted(await receive(other, cells)) == sorted(cells)
            await client.close()

        play(world, scene)

    def test_a_full_stream(self, tmp_path: Path) -> None:
        with nats_server(tmp_path) as server:
            world = NatsWorld(server, room=100_000)

            async def scene() -> None:
                async with (
                    opened(world.transport(0)) as sender,
                    opened(world.transport(1)) as other,
                ):
                    small, large = world.cells(0, 1, 60), world.cells(0, 1, 60)
                    assert await sender.send(small) == [None] * 60
                    assert await sender.send(large) == [Reason.full] * 60
                    await receive(other, small)
                    assert await sender.send(large) == [None] * 60

            play(world, scene)

    def test_over_tls(self, tmp_path: Path) -> None:
        deployment = Deployment(tmp_path)
        with nats_server(tmp_path, deployment.root / "hub") as server:
            world = NatsWorld(server, tls=deployment.tls)

            async def scene() -> None:
                cells = world.cells(0, 1, 3)
                async with (
                    opened(world.transport(0)) as sender,
                    opened(world.transport(1)) as other,
                ):
                    await deliver(sender, cells)
                    assert sorted(await receive(other, cells)) == sorted(cells)

            play(world, scene)

    def test_a_server_that_is_not_there(self, world: NatsWorld) -> None:
        async def scene() -> None:
            url = f"nats://127.0.0.1:{free_port()}"
            with pytest.raises(Unreachable, match="no JetStream"):
                await NatsTransport(url, world.survey, 0, patience=5.0).open()

        play(world, scene)

    def test_without_the_library(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "nats", None)

        async def scene() -> None:
            with pytest.raises(MissingExtra, match="pip install 'incrowd"):
                await world.transport(0).open()

        play(world, scene)


class TestHub(Contract):
    @pytest.fixture
    def world(self, hub: LiveHub) -> World:
        return HubWorld(hub)


class TestDirect(Contract):
    @pytest.fixture
    def world(self, hub: LiveHub, tmp_path: Path) -> World:
        return DirectWorld(hub, tmp_path)

    def test_a_send_ends_when_its_cells_are_taken(self, world: DirectWorld) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 10)
            async with opened(world.transport(0)) as sender, opened(world.transport(1)) as other:
                sending = asyncio.create_task(deliver(sender, cells))
                async with contextlib.aclosing(other.deliveries()) as stream:
                    delivery = await anext(stream)
                    tokens = [token for token, _ in delivery.cells]
                    await other.took(tokens[:-1])
                    # A round trip on the same connection, and still nothing is said of the first.
                    assert await sender.send(world.cells(0, 1, 1, survey=bytes(16)))
                    assert not sending.done()
                    await other.took(tokens[-1:])
                    assert await sending == [None] * 10

        play(world, scene)

    def test_what_a_receiver_refuses(self, world: DirectWorld) -> None:
        revoked: set[int] = set()

        async def scene() -> None:
            good = world.cells(0, 1, 1)
            batch = [
                *good,
                *world.cells(2, 1, 1),
                *world.cells(0, 2, 1),
                *world.cells(0, 1, 1, survey=bytes(16)),
                *world.cells(77, 1, 1),
                b"",
            ]
            wanted = [Reason.forged, Reason.foreign, Reason.foreign, Reason.unknown]
            wanted.append(Reason.malformed)
            async with (
                opened(world.transport(0)) as sender,
                opened(world.transport(1, revoked=lambda: revoked)) as other,
            ):
                # The sender's own checks are left out, as a dishonest sender would.
                link = await sender._link(1)
                answers, got = await asyncio.gather(
                    link.put(world.survey, batch), receive(other, good)
                )
                assert answers == list(enumerate(wanted, 1))
                assert got == good
                revoked.add(world.serial(0))
                assert await link.put(world.survey, good) == [(0, Reason.revoked)]

        play(world, scene)

    def test_withdrawn_parties_and_strangers_get_no_connection(self, world: DirectWorld) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 1)
            serials = {world.serial(0)}
            withdrawn = opened(world.transport(1, revoked=lambda: serials))
            async with opened(world.transport(0)) as sender, withdrawn:
                with pytest.raises(Unreachable):
                    await sender.send(cells)
            serials = {world.serial(1)}
            wary = opened(world.transport(0, revoked=lambda: serials))
            async with wary as sender, opened(world.transport(1)):
                assert await sender.send(cells) == [Reason.revoked]
            del world.identities[0]
            async with opened(world.transport(0)) as sender, opened(world.transport(1)):
                with pytest.raises(Unreachable):
                    await sender.send(cells)

        play(world, scene)

    def test_somebody_else_listens(self, world: DirectWorld) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 1)
            async with opened(world.transport(2)) as liar, opened(world.transport(0)) as sender:
                address = f"127.0.0.1:{liar.port}"
                async with contextlib.AsyncExitStack() as stack:
                    lost = world.hub.connection(world.poll.people[1])
                    stack.push_async_callback(lost.close)
                    await lost.open()
                    assert await lost.announce(world.survey, address) is None
                with pytest.raises(Unreachable, match="someone else"):
                    await sender.send(cells)
                # The true party comes back elsewhere, and is found.
                async with opened(world.transport(1)) as other:
                    _, got = await asyncio.gather(deliver(sender, cells), receive(other, cells))
                    assert got == cells

        play(world, scene)

    def test_one_connection_at_a_time(self, world: DirectWorld) -> None:
        async def scene() -> None:
            async with (
                opened(world.transport(0, most=1)) as sender,
                opened(world.transport(1, most=1)) as first,
                opened(world.transport(2, most=1)) as second,
            ):
                for _ in range(3):
                    one, two = world.cells(0, 1, 300), world.cells(0, 2, 300)
                    await asyncio.gather(
                        deliver(sender, one + two), receive(first, one), receive(second, two)
                    )
                    back = world.cells(2, 1, 1)
                    await asyncio.gather(deliver(second, back), receive(first, back))

        play(world, scene)

    def test_unused_connections_are_closed(self, world: DirectWorld) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 1)
            async with (
                opened(world.transport(0, idle=0.05)) as sender,
                opened(world.transport(1, idle=0.05)) as other,
            ):
                await asyncio.gather(deliver(sender, cells), receive(other, cells))
                while sender.connections:
                    await asyncio.sleep(0.01)
                await asyncio.gather(deliver(sender, cells), receive(other, cells))

        play(world, scene)

    def test_a_full_receiver(self, world: DirectWorld) -> None:
        async def scene() -> None:
            cells = world.cells(0, 1, 10)
            async with (
                opened(world.transport(0)) as sender,
                opened(world.transport(1, room=6)) as other,
            ):
                answers, _ = await asyncio.gather(deliver(sender, cells), receive(other, cells[:6]))
                assert answers == [None] * 6 + [Reason.full] * 4
                answers, _ = await asyncio.gather(
                    deliver(sender, cells[6:]), receive(other, cells[6:])
                )
                assert answers == [None] * 4

        play(world, scene)

    def test_one_peer_that_is_away_does_not_hold_up_the_others(self, world: DirectWorld) -> None:
        async def scene() -> None:
            one, two = world.cells(0, 1, 5), world.cells(0, 2, 5)
            async with opened(world.transport(0)) as sender, opened(world.transport(1)) as first:
                sending = asyncio.create_task(deliver(sender, one + two))
                assert sorted(await receive(first, one)) == sorted(one)
                async with opened(world.transport(2)) as second:
                    await receive(second, two)
                    assert await sending == [None] * 10

        play(world, scene)
