"""A small crowd with real keys, links and actors, for tests that play it.

Every report carries its own person's number (the randomizer all but always keeps it), so that the
curator's reports show who was counted, and how often.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from incrowd.live import cells
from incrowd.live.authority import Authority
from incrowd.live.journal import Batch, Journal
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.links import HpkeSealer, Links
from incrowd.live.party import Party
from incrowd.live.playing import Player
from incrowd.live.transports.memory import MemoryNetwork
from incrowd.protocols.local import Local
from incrowd.protocols.runtime.actor import CURATOR, device
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.delivery import Backoff
from incrowd.protocols.runtime.outputs import unpack_output
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import KRR
from incrowd.tasks.base import Collected

SURVEY = b"survey-of-16-byt"
CONTEXT = b"c" * 32
QUICK = Backoff(first=0.05, factor=1.5, cap=0.2)


def protocol(kind: str, people: int):
    made = {"local": Local, "shuffle": TrustedShuffle}[kind]
    return made(KRR(epsilon=30.0, categories=max(2, people)), n=people)


def make_keys(directory: Path, kind: str, people: int) -> None:
    """Keys of everyone, in directories named by number."""
    authority = Authority.create()
    for address in addresses(kind, people):
        role = Role.device if address.startswith("device") else Role.helper
        authority.issue(address.replace("/", "-"), role).save(
            directory / str(cells.number(address))
        )


def addresses(kind: str, people: int) -> list[str]:
    return [*map(device, range(people)), *protocol(kind, people).helpers]


class Cast:
    """Makes the parties of one survey, again and again."""

    def __init__(self, keys: Path, kind: str, people: int, origin: float | None = None) -> None:
        self.protocol = protocol(kind, people)
        self.people = people
        self.addresses = addresses(kind, people)
        self.origin = time.time() if origin is None else origin
        numbers = {address: cells.number(address) for address in self.addresses}
        self.keys = {
            address: PrivateKeys.load(keys / str(number)) for address, number in numbers.items()
        }
        self.records = {number: self.keys[each].record() for each, number in numbers.items()}

    def links(self, address: str) -> Links:
        return Links(cells.number(address), self.keys[address], SURVEY, CONTEXT, self.records)

    def party(self, address: str, **options) -> Party:
        number, keys = cells.number(address), self.keys[address]
        person = number if number < self.people else None
        seat = ActorContext(
            generator=lambda *_: np.random.default_rng(),
            value=None if person is None else np.array([person]),
            sealer=HpkeSealer(number, keys, SURVEY, CONTEXT, self.records),
            timing=Timing(backoff=QUICK),
        )
        return Party(
            address,
            SURVEY,
            lambda: self.protocol.actor(address, seat),
            self.links(address),
            origin=self.origin,
            round_seconds=1.0,
            **options,
        )

    def counted(self, party: Party) -> list[int]:
        """Who was counted, in order, once per report."""
        collected = unpack_output(party.output, Collected)
        return sorted(int(report) for report in collected.rounds[0])


class Host:
    """Some of the parties, with a journal of their own."""

    def __init__(
        self,
        cast: Cast,
        network: MemoryNetwork,
        path: Path,
        who: Iterable[str] | None = None,
        make_journal: Callable[[Path], Journal] = Journal,
    ) -> None:
        self.journal = make_journal(path)
        self.player = Player(self.journal, retry=QUICK)
        self.parties = {}
        self._cast, self._network, self._who = cast, network, who or cast.addresses

    async def start(self) -> Host:
        await self.player.__aenter__()
        for address in self._who:
            party = self.parties[address] = self._cast.party(address)
            self.player.add(party, self._network.transport(SURVEY, party.number))
        return self

    async def stop(self) -> None:
        try:
            await self.player.stop()
        finally:
            self.journal.close()

    async def abandon(self) -> None:
        """As a crash leaves it: nothing more is committed, sent or acknowledged."""
        await self.player.supervisor.close()
        for seat in self.player._seats.values():
            await seat.transport.close()
        self.journal.close()


class Dying(Journal):
    """A journal whose process is killed at one of its commits, before or after it."""

    def __init__(self, path: Path, commit: int, after: bool) -> None:
        super().__init__(path)
        self._left, self._after = commit, after

    def commit(self, batch: Batch) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit(batch)
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def play_to_the_end(host: Host, patience: float = 30.0) -> list[int]:
    await host.start()
    try:
        await asyncio.wait_for(host.player.finished(), patience)
        return host._cast.counted(host.parties[CURATOR])
    finally:
        await host.stop()


def play_and_die(
    keys: Path, path: Path, kind: str, people: int, origin: float, commit: int, after: bool
) -> None:
    """Play everyone on one journal, and be killed at this commit unless it is over before."""
    cast = Cast(keys, kind, people, origin)

    async def main() -> None:
        host = Host(
            cast, MemoryNetwork(), path, make_journal=lambda file: Dying(file, commit, after)
        )
        await play_to_the_end(host)

    asyncio.run(main())
