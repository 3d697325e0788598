"""Surveys of three devices on each transport, and the few things that every test does there."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography import x509

from incrowd.live.cells import CELL, DATA, Header, cell_id
from incrowd.live.client import Connection, HubClient
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.policy import NetworkRule
from incrowd.live.reasons import Reason
from incrowd.live.transports.base import Transport, Unreachable
from incrowd.live.transports.direct import DirectTransport, HubDirectory, mutual_contexts
from incrowd.live.transports.hub import HubTransport
from incrowd.live.transports.memory import MemoryNetwork
from incrowd.live.transports.nats import NatsTransport
from incrowd.protocols.runtime.delivery import Backoff
from tests.live.hub_server import Deployment, Poll, RunningHub, make_poll, running_hub
from tests.live.nats_server import NatsServer

PEOPLE = 3
LOOPBACK = NetworkRule(dial=("127.0.0.0/8",))
LIMIT = 30.0
"""Seconds after which a test that hangs is ended; nothing is measured by it."""


class World:
    """Three devices of one survey and what is between them."""

    holds = True
    """Whether someone in between keeps mail for a party that is away."""
    strict = True
    """Whether a sender learns that a cell is not its own."""
    knows_parties = False
    """Whether a sender learns that there is no such recipient."""

    def __init__(self, seed: int = 7) -> None:
        self.rng = random.Random(seed)
        self.survey = self.rng.randbytes(16)

    def cells(self, sender: int, recipient: int, count: int, **fields: Any) -> list[bytes]:
        """Cells with good headers; what is sealed in them is not a transport's business."""
        session, wrapped = self.rng.randbytes(16), self.rng.randbytes(144)
        header = {"survey": self.survey, "sender": sender, "recipient": recipient, **fields}
        heads = (
            Header(kind=DATA, round=0, session=session, counter=each, wrapped=wrapped, **header)
            for each in range(count)
        )
        made = []
        for head in heads:
            front = head.pack()
            made.append(front + self.rng.randbytes(CELL - len(front)))
        return made

    async def begin(self) -> None:
        """Bring the survey to the point where cells travel."""

    def transport(self, number: int) -> Transport:
        """A new way to the others for this party, as after a restart."""
        raise NotImplementedError

    async def crash(self) -> None:
        """Whoever is in between dies without a word, and comes back with what is on its disk."""

    async def end(self) -> None:
        """Clean up."""


@contextlib.asynccontextmanager
async def opened(transport: Transport) -> AsyncIterator[Transport]:
    await persist(transport.open)
    try:
        yield transport
    finally:
        await transport.close()


async def persist(work: Callable[[], Awaitable[object]]) -> object:
    """Try again until it works, as a runtime does."""
    while True:
        try:
            return await work()
        except Unreachable:
            await asyncio.sleep(0.02)


async def deliver(transport: Transport, cells: Sequence[bytes]) -> list[Reason | None]:
    return await persist(lambda: transport.send(cells))


async def receive(
    transport: Transport, wanted: Sequence[bytes], *, take: bool = True
) -> list[bytes]:
    """Everything that arrives until all the wanted cells have."""
    missing = {cell_id(cell) for cell in wanted}
    arrived: list[bytes] = []
    stream = transport.deliveries()
    try:
        while missing:
            delivery = await anext(stream)
            arrived.extend(cell for _, cell in delivery.cells)
            missing -= {cell_id(cell) for _, cell in delivery.cells}
            if take:
                await transport.took([token for token, _ in delivery.cells])
    finally:
        await stream.aclose()
    return arrived


def play(world: World, scene: Callable[[], Awaitable[None]], limit: float = LIMIT) -> None:
    """Run a scene in a world; nothing may be left over at its end."""

    async def main() -> None:
        async with asyncio.timeout(limit):
            await world.begin()
            try:
                await scene()
            finally:
                await world.end()
        # Cancelled tasks of libraries end in the next turns of the loop.
        for _ in range(10):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    gc.collect()


class MemoryWorld(World):
    strict = False

    async def begin(self) -> None:
        self.network = MemoryNetwork()

    def transport(self, number: int) -> Transport:
        return self.network.transport(self.survey, number)


class NatsWorld(World):
    def __init__(self, server: NatsServer, **options: Any) -> None:
        super().__init__()
        self.options = {"patience": 10.0, **options}
        # The stream outlives the test, so the survey must be another one each time.
        self.survey = random.SystemRandom().randbytes(16)
        self.server = server

    def transport(self, number: int) -> Transport:
        return NatsTransport(self.server.url, self.survey, number, **self.options)

    async def crash(self) -> None:
        await asyncio.to_thread(self.server.kill)
        await asyncio.to_thread(self.server.start)


class LiveHub:
    """A hub that can be killed and started again on the same port."""

    def __init__(self, root: Path, store: str | None = None) -> None:
        """``store`` is a URL or a path, by default a file in ``root``."""
        self.deployment = Deployment(root)
        self._store = store
        self.tls = self.deployment.tls
        self._stack = contextlib.ExitStack()
        self._running: RunningHub | None = None
        self._people = 0
        self.start()

    @property
    def url(self) -> str:
        return self.running.url

    @property
    def running(self) -> RunningHub:
        assert self._running is not None
        return self._running

    def start(self) -> None:
        port = [] if self._running is None else ["--port", self.url.rpartition(":")[2]]
        self._running = self._stack.enter_context(
            running_hub(self.deployment, *port, store=self._store)
        )

    def kill(self) -> None:
        assert self._running is not None
        self._running.kill()
        self._stack.close()

    def stop(self) -> None:
        self._stack.close()

    def poll(self, people: int = PEOPLE) -> Poll:
        self._people += 1
        devices = self.deployment.parties(people, name=f"{self._people}-")
        (curator,) = self.deployment.parties(1, Role.curator, f"curator/{self._people}-")
        return make_poll(devices, curator)

    def connection(self, keys: PrivateKeys, **options: Any) -> Connection:
        """A connection of this party that is in more of a hurry than the usual one."""
        backoff = Backoff(first=0.05, factor=2.0, cap=1.0)
        return Connection(self.url, keys.identity, self.tls, backoff=backoff, **options)


class OwnConnection(HubTransport):
    """A transport whose connection is nobody else's, and ends with it."""

    def __init__(self, connection: Connection, survey: bytes) -> None:
        super().__init__(connection, survey)
        self.connection = connection

    async def close(self) -> None:
        await super().close()
        await self.connection.close()


class HubWorld(World):
    knows_parties = True

    def __init__(self, hub: LiveHub) -> None:
        super().__init__()
        self.hub = hub
        self.poll = hub.poll()
        self.survey = self.poll.spec.survey

    async def begin(self) -> None:
        self.client = HubClient(self.hub.url, self.hub.tls)
        for keys in (*self.poll.people, self.poll.curator):
            await self.client.enrol(keys.record())
        await self.client.offer(self.poll.signed, self.poll.roster, self.poll.graph)
        await self.client.start(self.survey, self.poll.start(range(len(self.poll.people))))

    def transport(self, number: int) -> Transport:
        return OwnConnection(self.hub.connection(self.poll.people[number]), self.survey)

    async def crash(self) -> None:
        await asyncio.to_thread(self.hub.kill)
        await asyncio.to_thread(self.hub.start)

    async def end(self) -> None:
        await self.client.close()


class Alone(DirectTransport):
    """A direct transport with a connection to the hub that ends with it."""

    def __init__(self, world: DirectWorld, number: int, **options: Any) -> None:
        keys = world.poll.people[number]
        self.connection = world.hub.connection(keys)
        super().__init__(
            world.survey,
            number,
            world.identities,
            world.hub.deployment.authority.certificate,
            world.contexts[number],
            HubDirectory(world.client, self.connection, world.survey),
            **{"dial": LOOPBACK.allows} | options,
        )

    async def close(self) -> None:
        await super().close()
        await self.connection.close()


class DirectWorld(HubWorld):
    holds = False

    def __init__(self, hub: LiveHub, root: Path) -> None:
        super().__init__(hub)
        self.identities = {
            place: keys.record().identity for place, keys in enumerate(self.poll.people)
        }
        self.contexts = []
        for keys in self.poll.people:
            place = root / keys.name
            keys.save(place)
            self.contexts.append(mutual_contexts(place, hub.deployment.root / "authority"))

    def serial(self, number: int) -> int:
        """The serial number of a party's certificate."""
        certificate = self.poll.people[number].certificate
        return x509.load_der_x509_certificate(certificate).serial_number

    def transport(self, number: int, **options: Any) -> DirectTransport:
        return Alone(self, number, **options)
