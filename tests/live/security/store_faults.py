"""Faults of stores, each by the mechanism that brings it about outside of tests too.

``python -m tests.live.security.store_faults`` plays a survey under each of them and prints a table;
``--long`` adds the faults of 40 seconds, ``--people`` sets the size of the crowd.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest

from incrowd.errors import FileUnreadable, ProtocolFailed
from incrowd.live.client import Connection
from incrowd.live.host import Host
from incrowd.live.journal import Journal
from incrowd.live.reasons import Reason
from tests.live.crowds import Process, crowd, until
from tests.live.postgres import Server, programs
from tests.live.security.named import Outcome, offer, outcome, owners, spent_once
from tests.live.worlds import LiveHub

__all__ = ["FAULTS", "Fault", "Outcome", "Played", "over_quota", "play", "read_only"]

ROUNDS = 4
HOSTS = 3
ROUND = 0.5
_LOOK = 0.1
_NOTICED = 5.0
"""Seconds that a transaction waits for a lock before anybody hears of it."""
_SHORT = 10.0
_DISK_MEGABYTES = 96


# Mechanisms. Each is a context in which the store fails.


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process writes, and does not end."""
    database = sqlite3.connect(path, isolation_level=None, timeout=30.0, check_same_thread=False)
    with contextlib.closing(database):
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


@contextlib.contextmanager
def full(path: Path) -> Iterator[None]:
    """Something else takes up all that is left of the disk, and all that becomes free of it.

    A journal empties its log now and then, and would have room again for as long as it says little.
    """
    filler, over = path.with_name("filler"), threading.Event()

    def fill() -> None:
        for size in (1 << 20, 1 << 12):
            with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))

    def go_on() -> None:
        while not over.wait(_LOOK):
            fill()

    fill()
    filling = threading.Thread(target=go_on)
    filling.start()
    try:
        yield
    finally:
        over.set()
        filling.join()
        filler.unlink()


@contextlib.contextmanager
def over_quota(pid: int) -> Iterator[None]:
    """The system lets this process write no file beyond its first byte."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def stopped(server: Server) -> Iterator[None]:
    """PostgreSQL is down, after a crash."""
    server.stop("immediate")
    try:
        yield
    finally:
        server.start()


@contextlib.contextmanager
def postgres_read_only(server: Server) -> Iterator[None]:
    """PostgreSQL takes no writes, as a standby does not."""

    def let(writes: str) -> None:
        with psycopg.connect(server.root, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(
                f"ALTER SYSTEM SET default_transaction_read_only = {writes}".encode()
            )
            connection.execute("SELECT pg_reload_conf()")

    let("on")
    try:
        yield
    finally:
        let("off")


@contextlib.contextmanager
def read_only(journal: Journal) -> Iterator[None]:
    """The journal may be read and not written."""

    def let(query_only: str) -> None:
        with journal._using() as database:
            database.execute(f"PRAGMA query_only = {query_only}")

    let("ON")
    try:
        yield
    finally:
        with contextlib.suppress(FileUnreadable):  # its process may have ended meanwhile
            let("OFF")


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A file system of its own, so small that it can be filled."""
    with tempfile.TemporaryDirectory(prefix="incrowd-disk-") as name:
        words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", name]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("mounting a small file system needs the rights of root")
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


# Scenes.


@dataclass(frozen=True)
class Stage:
    """What a fault can be brought about in."""

    hub: LiveHub
    host: Host
    """The host whose journal is struck."""
    server: Server | None

    @property
    def postgres(self) -> Server:
        assert self.server is not None
        return self.server

    @property
    def journal(self) -> Journal:
        return self.host.journal

    @property
    def pid(self) -> int:
        return self.hub.running.process.pid


@dataclass(frozen=True)
class Fault:
    """One way in which the store of a hub or of a device fails."""

    name: str
    where: str
    """``hub``, ``device`` or ``curator``."""
    seconds: float
    strike: Callable[[Stage], AbstractContextManager[None]]
    store: str = "sqlite"
    disk: bool = False
    """Whether the store must be on a small disk."""


def _faults(seconds: float) -> list[Fault]:
    return [
        Fault("locked", "hub", seconds, lambda stage: locked(stage.hub.deployment.store)),
        Fault("over quota", "hub", seconds, lambda stage: over_quota(stage.pid)),
        Fault("stopped", "hub", seconds, lambda stage: stopped(stage.postgres), "postgresql"),
        Fault(
            "read-only", "hub", seconds, lambda stage: postgres_read_only(stage.postgres),
            "postgresql",
        ),
        Fault("locked", "device", seconds, lambda stage: locked(stage.journal.path)),
        Fault("read-only", "curator", seconds, lambda stage: read_only(stage.journal)),
        Fault("read-only", "device", seconds, lambda stage: read_only(stage.journal)),
    ]  # fmt: skip


def _full(seconds: float) -> list[Fault]:
    return [
        Fault(
            "disk full", "hub", seconds, lambda stage: full(stage.hub.deployment.store), disk=True
        ),
        Fault("disk full", "device", seconds, lambda stage: full(stage.journal.path), disk=True),
    ]


FAULTS = {
    f"{fault.where} {fault.store} {fault.name} {fault.seconds:g} s": fault
    for seconds in (2.0, 6.0, 40.0)
    for fault in (*_faults(seconds), *_full(seconds))
}


@dataclass(frozen=True)
class Played:
    """One survey under one fault, after which everything was ready again."""

    outcome: Outcome | None
    """None where the survey ended without a result."""
    reason: str
    """Why there is no result."""
    grace: float
    lasted: float
    """Seconds from the strike until the store could be written again, which starting may delay."""
    not_ready: float
    """Seconds in which the hub, or the host that was struck, said that it was not ready."""
    named: frozenset[str]
    """What it named as the reasons."""
    spent_once: bool
    sent_meanwhile: int
    """Cells that the devices of the struck host sent while it knew that it could not write."""


class Readiness:
    """Asks again and again whether the hub, or a host, is ready."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        self.seconds = 0.0
        self.named: set[str] = set()
        self.failing: list[str] = []
        self._fault, self._stage = fault, stage
        self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        hub = self._stage.hub
        async with httpx.AsyncClient(verify=hub.tls, trust_env=False, timeout=30.0) as client:
            at = time.monotonic()
            while True:
                if self._fault.where == "hub":
                    answered = await client.get(f"{hub.url}/readyz")
                    self.failing = [] if answered.is_success else [answered.json()["error"]]
                else:
                    self.failing = self._stage.host.supervisor.failing()
                now = time.monotonic()
                if self.failing:
                    self.seconds += now - at
                    self.named.update(self.failing)
                at = now
                await asyncio.sleep(_LOOK)

    async def stop(self) -> None:
        """Wait until it is ready, and ask no more."""
        await until(lambda: self._asking.done() or not self.failing)
        self._asking.cancel()
        (ended,) = await asyncio.gather(self._asking, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


@contextlib.contextmanager
def _staged(fault: Fault, folder: Path) -> Iterator[tuple[LiveHub, Path, Server | None]]:
    """A hub on the store that is to fail, and the place of the struck host's journal."""
    with contextlib.ExitStack() as stack:
        places = {"hub": folder / "hub", "device": folder}
        if fault.disk:
            places[fault.where] = stack.enter_context(small_disk(_DISK_MEGABYTES))
        places["hub"].mkdir(exist_ok=True)
        server = None
        if fault.store == "postgresql":
            server = Server(programs())
            stack.callback(server.remove)
        hub = LiveHub(places["hub"], None if server is None else server.url())
        stack.callback(hub.stop)
        yield hub, places["device"], server


def play(fault: Fault, folder: Path, *, people: int = 24, grace: float | None = None) -> Played:
    """Play one survey; the fault strikes in its second round, or the curator at the hand-in.

    ``grace`` is how long after the last round late reports still count, by default longer than the
    fault.
    """
    allowed = 1.25 * fault.seconds + 3.0 if grace is None else grace
    with _staged(fault, folder) as (hub, place, server):
        return asyncio.run(_survey(fault, folder, (hub, place, server), people, allowed))


async def _survey(
    fault: Fault,
    folder: Path,
    staged: tuple[LiveHub, Path, Server | None],
    count: int,
    grace: float,
) -> Played:
    hub, place, server = staged
    puts = [0]

    class Watched(Connection):
        async def put(self, survey: bytes, cells: Sequence[bytes]) -> list[tuple[int, Reason]]:
            puts[0] += len(cells)
            return await super().put(survey, cells)

    async with crowd(hub, folder, count, limit=60.0 + 5 * fault.seconds) as people:
        mine, *others = (range(each, count, HOSTS) for each in range(HOSTS))
        hosts = [
            await people.process("struck", mine, **owners(count), folder=place, connection=Watched)
        ]
        for index, theirs in enumerate(others):
            hosts.append(await people.process(f"host-{index}", theirs, **owners(count)))
        settle = 1 if fault.where == "curator" else max(1, round(grace / ROUND))
        proposal = await offer(
            people, rounds=ROUNDS, round_seconds=ROUND, grace_rounds=settle,
            timeout=max(1.0, grace), min_crowd=round(0.95 * count),
        )  # fmt: skip
        started = await people.begin(proposal)
        receiving = asyncio.create_task(people.conclude(started))
        begins = ROUNDS + settle - 0.5 if fault.where == "curator" else 1.5
        moment = started.start.at + begins * ROUND
        await until(lambda: people.host.clocks.now(proposal.survey) > moment)
        struck = people.host if fault.where == "curator" else hosts[0].host
        stage = Stage(hub, struck, server)
        readiness = Readiness(fault, stage)
        with contextlib.ExitStack() as stack:
            strikes = time.monotonic()
            await asyncio.to_thread(stack.enter_context, fault.strike(stage))
            struck_at = time.monotonic()
            if known := fault.where == "device" and fault.seconds > _NOTICED:
                await until(lambda: bool(readiness.failing) and _idle(hosts[0]))
            before = puts[0]
            await asyncio.sleep(struck_at + fault.seconds - time.monotonic())
            meanwhile = puts[0] - before if known else 0
            await asyncio.to_thread(stack.close)
            lasted = time.monotonic() - strikes
        found, reason = None, ""
        try:
            found = outcome(people, await receiving)
        except ProtocolFailed as error:
            reason = str(error)
        await readiness.stop()
        named = frozenset(readiness.named)
        once = spent_once(hosts, proposal.survey)
        return Played(found, reason, grace, lasted, readiness.seconds, named, once, meanwhile)


def _idle(process: Process) -> bool:
    """Whether everything that was committed is with the hub."""
    return all(seat.courier.idle for seat in process.host.player._seats.values())


def main() -> None:
    """Play the faults and print what became of the reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--people", type=int, default=24)
    asked = parser.parse_args()
    sys.stdout.write(
        "| fault | sent | lost | doubled | not ready | recovered |\n|---|---|---|---|---|---|\n"
    )
    for name, fault in FAULTS.items():
        if fault.seconds > _SHORT and not asked.long:
            continue
        with tempfile.TemporaryDirectory(prefix="incrowd-faults-") as folder:
            played = play(fault, Path(folder), people=asked.people)
        ended = played.outcome
        counts = "– | – | –" if ended is None else f"{ended.sent} | {ended.lost} | {ended.doubled}"
        recovered = played.reason or "yes"
        sys.stdout.write(f"| {name} | {counts} | {played.not_ready:.1f} s | {recovered} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
