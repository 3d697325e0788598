"""The hub as a party sees it: requests, and the connection that comes back."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from incrowd.errors import HubRefused, HubUnreachable, InvalidParameter
from incrowd.live import frames
from incrowd.live.client import Connection, HubClient
from incrowd.live.hub.closing import sign_close
from incrowd.live.hub.messages import Line
from incrowd.live.keys import Role
from incrowd.live.reasons import Reason
from incrowd.live.task import read_task
from incrowd.live.transports.base import Unreachable
from incrowd.live.transports.hub import HubTransport
from tests.live.nats_server import free_port
from tests.live.worlds import HubWorld, LiveHub, World, deliver, persist, play, receive


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    live = LiveHub(tmp_path_factory.mktemp("hub"))
    yield live
    live.stop()


def test_a_survey_from_enrolment_to_close(hub: LiveHub) -> None:
    poll = hub.poll()
    survey = poll.spec.survey
    news: list[str] = []

    async def scene() -> None:
        device = hub.connection(poll.people[0], news=lambda each: news.append(each.what))
        async with HubClient(hub.url + "/", hub.tls) as client:
            await client.ready()
            with pytest.raises(HubRefused, match=r"404.*no such survey"):
                await client.survey(survey)
            with pytest.raises(HubRefused, match=r"does not let this party in .unknown"):
                await device.open()
            for keys in (*poll.people, poll.curator):
                await client.enrol(keys.record())
            assert await client.key(poll.curator.name) == poll.curator.record()
            assert poll.people[2].record() in await client.keys()
            await device.open()
            assert device.connected
            offered = await client.offer(poll.signed, poll.roster, poll.graph)
            assert offered.digest == poll.digest
            assert await device.join(survey, b"no join") is Reason.malformed
            assert await device.join(survey, poll.join(0)) is None
            assert await device.join(os.urandom(16), poll.join(0)) is Reason.foreign
            assert await client.joins(survey) == [poll.join(0)]
            shown = await client.survey(survey)
            assert (shown.state, shown.joins, shown.start) == ("offered", 1, None)
            assert read_task(shown.task)[1] == poll.spec
            assert await client.roster(survey) == poll.roster
            with pytest.raises(HubRefused, match="404"):
                await client.graph(survey)
            line = Line(survey=survey.hex(), state="offered", expires=poll.spec.expires)
            assert line in (await client.surveys()).surveys
            start = poll.start([0])
            await client.start(survey, start)
            assert (await client.survey(survey)).start == start
            assert await device.announce(survey, "no endpoint") is Reason.malformed
            assert await device.announce(survey, "127.0.0.1:4000") is None
            assert await client.endpoints(survey) == {"device/0": "127.0.0.1:4000"}
            progress = await client.progress(survey)
            assert (progress.joined, progress.people) == (1, 3)
            with pytest.raises(HubRefused, match="403"):
                await client.finish(survey, sign_close(poll.digest, poll.people[0].identity))
            await client.finish(survey, sign_close(poll.digest, poll.curator.identity))
            crl = hub.deployment.revoke(poll.people[0])
            await client.revoke(crl)
            assert await client.revocations() == crl
            while device.connected:
                await asyncio.sleep(0.01)
        await device.close()
        assert news == ["offered", "started", "closed", "revoked"]

    play(World(), scene)


def test_no_hub(hub: LiveHub) -> None:
    (keys,) = hub.deployment.parties(1, Role.device, "lonely")

    async def scene() -> None:
        url = f"https://127.0.0.1:{free_port()}"
        async with HubClient(url, hub.tls) as client:
            with pytest.raises(HubUnreachable, match=r"does not answer .*: check the address"):
                await client.ready()
        connection = Connection(url, keys.identity, hub.tls)
        with pytest.raises(Unreachable, match="does not answer"):
            await connection.open()
        with pytest.raises(Unreachable):
            await connection.put(bytes(16), [])
        await connection.took(bytes(16), [1, 2, 3])
        await connection.close()

    play(World(), scene)


def test_another_authority(hub: LiveHub, tmp_path_factory: pytest.TempPathFactory) -> None:
    (keys,) = hub.deployment.parties(1, Role.device, "wary")

    async def scene() -> None:
        from incrowd.live.authority import Authority, client_context

        place = tmp_path_factory.mktemp("other") / "authority"
        Authority.create("another").save(place)
        tls = client_context(place)
        async with HubClient(hub.url, tls) as client:
            with pytest.raises(HubUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
                await client.ready()
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            await Connection(hub.url, keys.identity, tls).open()

    play(World(), scene)


@pytest.mark.parametrize("url", ["127.0.0.1:1", "wss://127.0.0.1", "http://127.0.0.1:1"])
def test_addresses_that_are_no_hubs(hub: LiveHub, url: str) -> None:
    with pytest.raises(InvalidParameter, match="https://"):
        HubClient(url, hub.tls)


def test_two_surveys_on_one_connection(hub: LiveHub) -> None:
    world = HubWorld(hub)
    people = world.poll.people

    async def scene() -> None:
        from tests.live.hub_server import make_poll

        second = make_poll(people, world.poll.curator)
        await world.client.offer(second.signed, second.roster, second.graph)
        await world.client.start(second.spec.survey, second.start(range(3)))
        connections = [hub.connection(keys) for keys in people[:2]]
        surveys = (world.survey, second.spec.survey)
        (one, two), (three, four) = (
            [HubTransport(connection, survey) for survey in surveys] for connection in connections
        )
        for each in (one, two, three, four):
            await each.open()
        for sender, receiver, survey in ((one, three, surveys[0]), (two, four, surveys[1])):
            cells = world.cells(0, 1, 3, survey=survey)
            assert await deliver(sender, cells) == [None] * 3
            assert await receive(receiver, cells) == cells
        await three.close()
        cells = world.cells(0, 1, 3, survey=surveys[1])
        await deliver(two, cells)
        assert await receive(four, cells) == cells
        for connection in connections:
            await connection.close()

    play(world, scene)


def many_connections(hub: LiveHub, count: int) -> None:
    world = HubWorld(hub)
    world.poll = hub.poll(count)
    world.survey = world.poll.spec.survey

    async def scene() -> None:
        transports = [world.transport(number) for number in range(count)]
        await asyncio.gather(*(persist(each.open) for each in transports))
        reading = [each for each in asyncio.all_tasks() if each.get_name() == "connection"]
        assert len(reading) == count
        ring = [world.cells(each, (each + 1) % count, 2) for each in range(count)]
        await asyncio.gather(
            *(deliver(each, cells) for each, cells in zip(transports, ring, strict=True)),
            *(receive(transports[(at + 1) % count], cells) for at, cells in enumerate(ring)),
        )
        await asyncio.gather(*(each.close() for each in transports))

    play(world, scene, limit=300.0)


def test_many_connections_in_one_process(hub: LiveHub) -> None:
    many_connections(hub, 40)


@pytest.mark.slow
def test_a_thousand_connections_in_one_process(hub: LiveHub) -> None:
    many_connections(hub, 1000)


def test_a_question_fails_when_the_hub_dies(hub: LiveHub) -> None:
    world = HubWorld(hub)

    async def scene() -> None:
        transport = world.transport(0)
        await transport.open()
        mail: list[frames.Mail | None] = []
        await transport.connection.listen(world.survey, mail.append)
        await asyncio.to_thread(hub.kill)
        with pytest.raises(Unreachable):
            await transport.send(world.cells(0, 1, 1))
        while transport.connection.connected:
            await asyncio.sleep(0.01)
        # Whoever listens learns that what it did not take will come again.
        assert mail == [None]
        await asyncio.to_thread(hub.start)
        cells = world.cells(1, 0, 2)
        other = world.transport(1)
        await persist(other.open)
        await deliver(other, cells)
        while sum(len(each.cells) for each in mail if each is not None) < 2:
            await asyncio.sleep(0.01)
        await transport.close()
        await other.close()

    play(world, scene)
