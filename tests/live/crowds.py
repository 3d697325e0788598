"""A small crowd of real devices, in processes' stead in hosts, around a real hub over TLS."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from incrowd.graphs import families
from incrowd.live import frames
from incrowd.live import task as tasks
from incrowd.live.admission import Offer, Started
from incrowd.live.answers import Answers, Secret
from incrowd.live.client import Connection, HubClient
from incrowd.live.control import Control
from incrowd.live.curator import Curator, Proposal, propose, timing_of
from incrowd.live.device import Device
from incrowd.live.host import Host, Network, patiently
from incrowd.live.journal import Journal
from incrowd.live.keys import CERTIFICATE_FILE, KeyRecord, PrivateKeys, Role
from incrowd.live.ledger import Line
from incrowd.live.options import LiveOptions
from incrowd.live.policy import Policy
from incrowd.protocols.api import Protocol
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.run import Run
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.randomizers import KRR
from incrowd.tasks.histogram import Histogram
from tests.live.policies import wide
from tests.live.worlds import LIMIT, LiveHub

__all__ = [
    "DELTA",
    "QUESTION",
    "Crowd",
    "HeldBack",
    "Pace",
    "Process",
    "crowd",
    "until",
    "walk",
]

DELTA = 0.05
"""Large enough for a handful of people to hide anyone."""
ROUND = 0.4
LEAD = 1.0
QUESTION = Histogram(categories=("no", "yes"), complete=True)
YES = Answers({"cycles": Secret("yes")})
_TESTS = itertools.count(1)


def walk(people: int, rounds: int = 3) -> NetworkShuffle:
    """Everyone knows everyone."""
    return NetworkShuffle(
        KRR(categories=2, epsilon=1.0), graph=families.complete(people), rounds=rounds
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds; whatever never does is ended by the test's own limit."""
    while not condition():
        await asyncio.sleep(0.02)


class Pace:
    """The time of a crowd, which passes while its event loop turns.

    By its protocol a device that is held up for a whole round has missed that round, and drops its
    report if it was the first. A busy machine holds this process up for longer than the short
    rounds of tests, and with it everybody in it at once. Such a pause does not count here: it makes
    a survey take longer, and nobody miss a round.
    """

    _TURN = 0.02
    _MOST = 0.05
    """Seconds that count of those between two turns."""

    def __init__(self) -> None:
        self._passed = self._turned = time.monotonic()
        self._since = time.time() - self._passed
        self._rate = 1.0

    def passing(self) -> float:
        """Seconds since any moment."""
        return self._passed + self._rate * min(time.monotonic() - self._turned, self._MOST)

    def wall(self) -> float:
        """Seconds since 1970, as far as they count."""
        return self._since + self.passing()

    async def turn(self) -> None:
        """Let time pass, until cancelled."""
        while True:
            self._turn()
            await asyncio.sleep(self._TURN)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the time all but stand still; what is due now must still become due."""
        self._turn()
        self._rate = 1e-3
        try:
            yield
        finally:
            self._turn()
            self._rate = 1.0

    def _turn(self) -> None:
        self._passed, self._turned = self.passing(), time.monotonic()


class Process:
    """Some of the devices, as one process would host them; it can stop and start again."""

    def __init__(
        self,
        crowd: Crowd,
        name: str,
        people: Sequence[int],
        *,
        hub: Callable[[Any, Any], HubClient] | None = None,
        policy: Callable[[bytes], Policy] = wide,
        answers: Callable[[int], Answers] = lambda person: YES,
        connection: type[Connection] | None = None,
        clock: Callable[[], float] | None = None,
        folder: Path | None = None,
    ) -> None:
        """``hub`` and ``connection`` are how these see the hub, when it lies to them.

        ``policy`` is made for the curator of the crowd; ``answers`` are those of each person.
        ``clock`` is the wall clock of their machine, by default the crowd's; ``folder`` is the
        place of their journal.
        """
        self.crowd, self.people = crowd, people
        self._policy, self._answers = policy, answers
        self.path = (folder or crowd.folder) / f"{name}.sqlite"
        self._hub, self._connection = hub, connection
        self._clock = clock or crowd.pace.wall
        self.control = Control(self.path.parent)
        self.devices: dict[int, Device] = {}

    async def open(self) -> None:
        self.journal = Journal(self.path)
        self.host = self.crowd.made_host(self.journal, self._clock)
        if self._hub is not None:
            await self.host.hub.close()
            self.host.hub = self._hub(self.crowd.network.hub, self.host.tls)
        await self.host.__aenter__()
        policy = self._policy(self.crowd.curator.identity)
        for person in self.people:
            path = self.crowd.paths[person]
            made = Device(
                PrivateKeys.load(path), self.host, path,
                answers=self._answers(person), policy=policy, control=self.control,
            )  # fmt: skip
            if self._connection is not None:
                made.connection = self._connection(
                    self.host.hub.url, made.keys.identity, self.host.tls, news=made._news
                )
            self.devices[person] = made
            await patiently(made.enrol)
            await made.open()

    async def close(self) -> None:
        for each in self.devices.values():
            await each.close()
        try:
            await self.host.__aexit__(None, None, None)
        finally:
            self.journal.close()

    def lines(self, person: int) -> list[Line]:
        """What this person's ledger says, as it is on disk."""
        return [
            line
            for entry in self.journal.entries()
            for line in self.host.ledger.lines(entry.owner)
            if entry.owner == self.devices[person].identity and entry.survey == line.survey
        ]

    def begun(self, survey: bytes) -> bool:
        """Whether everybody has begun, or gone on after a restart, who does not decline."""
        return all(
            survey in each.declined or (survey in each.parties and each.parties[survey].begun)
            for each in self.devices.values()
        )

    def refusals(self, survey: bytes) -> list[str | None]:
        """Why each of these does not take part."""
        return [each.declined.get(survey) for each in self.devices.values()]

    def silent(self, survey: bytes) -> bool:
        """Whether nothing of anybody's answer has left, or was paid for."""
        begun = [each.parties[survey] for each in self.devices.values() if survey in each.parties]
        return (
            # One cell may tell the curator that there is nothing to wait for.
            not any(party.begun or party.statistics.cells > 1 for party in begun)
            and not any(row.survey == survey for row in self.journal.parties())
            and not any(entry.survey == survey for entry in self.journal.entries())
        )


class Crowd:
    """Everybody's keys, and a curator of their own."""

    def __init__(self, hub: LiveHub, folder: Path, people: int) -> None:
        self.hub, self.folder, self.number = hub, folder, next(_TESTS)
        self.network = Network(hub.url, hub.deployment.root / "authority" / CERTIFICATE_FILE)
        self.keys = hub.deployment.parties(people, name=f"crowd-{self.number}-")
        self.paths = [folder / "keys" / each.name for each in self.keys]
        for keys, path in zip(self.keys, self.paths, strict=True):
            keys.save(path)
        self.pace = Pace()
        self.processes: list[Process] = []
        self.guests: list[Connection] = []
        """Connections that a test made by itself, to be closed at its end."""

    async def open(self) -> None:
        name = f"curator-{self.number}-"
        (keys,) = self.hub.deployment.parties(1, Role.curator, name)
        self._journal = Journal(self.folder / "curator.sqlite")
        self.host = self.made_host(self._journal, self.pace.wall)
        await self.host.__aenter__()
        self.curator = Curator(keys, self.host)
        await patiently(self.curator.enrol)
        await self.curator.open()

    def made_host(self, journal: Journal, clock: Callable[[], float]) -> Host:
        """A host for which time passes as for the whole crowd."""
        host = Host(self.network, journal, clock=clock)
        host.clocks.passing = self.pace.passing
        return host

    async def close(self) -> None:
        for each in (*self.guests, *self.processes):
            await each.close()
        await self.curator.close()
        await self.host.__aexit__(None, None, None)
        self._journal.close()

    async def process(self, name: str, people: Sequence[int], **options: Any) -> Process:
        made = Process(self, name, people, **options)
        await made.open()
        self.processes.append(made)
        return made

    @property
    def records(self) -> list[KeyRecord]:
        return [PrivateKeys.load(path).record() for path in self.paths]

    def proposal(self, protocol: Protocol | None = None, **options: Any) -> Proposal:
        roster = options.pop("roster", None) or self.records
        question = options.pop("question", QUESTION)
        column = options.pop("column", "cycles")
        helpers = {CURATOR: self.curator.keys.record(), **options.pop("helpers", {})}
        chosen = LiveOptions(
            **{"min_crowd": 3, "round_seconds": ROUND, "grace_rounds": 1, "timeout": 4.0, **options}
        )
        protocol = protocol or walk(len(roster))
        return propose(
            protocol, question, question="Do you cycle?", column=column, delta=DELTA,
            roster=roster, helpers=helpers, keys=self.curator.keys,
            options=chosen, timing=timing_of(chosen), expires=self.host.time() + 600,
        )  # fmt: skip

    async def offered(self, **options: Any) -> Proposal:
        proposal = self.proposal(**options)
        await self.curator.open_survey(proposal)
        return proposal

    async def start(self, proposal: Proposal, *, wait: float = 20.0) -> Started:
        return await self.curator.gather(proposal.survey, wait=wait, lead=LEAD)

    async def begin(self, proposal: Proposal, *, wait: float = 20.0) -> Started:
        """Start, and wait until everyone has compared notes and begun, or declined.

        The time hardly passes meanwhile: whoever has not begun by the end of the first round never
        does, and on a busy machine so many signatures take longer than that.
        """
        started = await self.start(proposal, wait=wait)
        with self.pace.held():
            await until(lambda: all(each.begun(proposal.survey) for each in self.processes))
        return started

    async def joined(self, proposal: Proposal) -> tuple[Offer, list[tasks.Join]]:
        """The offer as the curator sees it, once everyone has joined."""
        offer = await self.host.offer(proposal.survey)
        while len(joins := await self.curator._joins(offer)) < len(offer.roster):
            await asyncio.sleep(0.05)
        return offer, joins

    async def conclude(self, started: Started) -> Run:
        run = await self.curator.receive(started)
        await self.curator.close_survey(started.offer.spec.survey)
        return run


@asynccontextmanager
async def crowd(
    hub: LiveHub, folder: Path, people: int, limit: float = 2 * LIMIT
) -> AsyncIterator[Crowd]:
    """A crowd for one test, which is ended when it hangs."""
    made = Crowd(hub, folder, people)
    async with asyncio.timeout(limit):
        turning = asyncio.create_task(made.pace.turn())
        await made.open()
        try:
            yield made
        finally:
            await made.close()
            turning.cancel()
            await asyncio.gather(turning, return_exceptions=True)


class HeldBack(Connection):
    """A connection to a hub that keeps some mail for itself."""

    keeps: Callable[[bytes], bool] = staticmethod(lambda cell: False)
    """Which cells do not come through, for now."""

    def _handle(self, frame: frames.FromHub) -> None:
        if isinstance(frame, frames.Mail):
            kept = [each for each in frame.cells if self.keeps(each[1])]
            if kept:
                self.__dict__.setdefault("kept", []).append(frames.Mail(frame.survey, kept))
                frame = frames.Mail(
                    frame.survey, [each for each in frame.cells if each not in kept]
                )
        super()._handle(frame)

    def let_go(self) -> int:
        """Deliver what was kept; how many cells that is."""
        kept: list[frames.Mail] = self.__dict__.pop("kept", [])
        self.keeps = lambda cell: False
        for mail in kept:
            super()._handle(mail)
        return sum(len(mail.cells) for mail in kept)
