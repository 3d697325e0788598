"""The live system beside what it is built on: SQLite, a bare WebSocket, and the cipher.

1. Reports: cells that are accepted once and are on disk when they are acknowledged. Several callers
   put batches through the group commit at once, every id is new. Beside it, the same rows go into a
   plain SQLite table whose primary key is the id, with the same settings and durability, and each
   of its transactions takes the batches of all callers, which is the most that a group commit can
   gather. Once a batch comes from one sender, and once each report from a sender of its own.
2. Relay: cells through a hub in a process of its own, over TLS and WebSockets: several pairs of
   connections, one of which puts frames of 256 cells while the other takes its mail. Beside it, the
   same frames go through the same server to a route that sends back what it gets and knows nothing.
3. Sealing: packing a message and sealing it into a cell, beside the bare cipher called from Python
   on the same bytes.

Each is measured in rounds, its two sides in turns, and the median of the rounds' ratios counts, so
that a busy machine changes it little. The exit code is 1 when a target is missed.

    python benchmarks/live.py [--format json] [--rounds 5] [--batches 24] [--pairs 8]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AsyncExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from starlette.routing import WebSocketRoute
from targets import Result, show
from websockets.asyncio.client import ClientConnection, connect

from incrowd.live import cells, frames, task
from incrowd.live.authority import Authority, client_context
from incrowd.live.hub import server
from incrowd.live.hub.limits import Limits
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.links import Links
from incrowd.live.store import CellRow, Committer, SqliteStore, Tables
from incrowd.protocols.runtime.context import Timing

REPORT_TARGET = 0.5
RELAY_TARGET = 0.3
SEAL_TARGET = 3.0
BATCH = frames.MOST_CELLS
"""Cells in one frame, and rows in one batch of reports."""
CALLERS = 8
"""Who put reports at once."""
AHEAD = 4
"""Frames that a sender has on the way."""
MESSAGE = bytes(range(256))
SURVEY, CURATOR, DIGEST = bytes(range(16)), 0, bytes(32)
NEVER = 1e12
"""No limit of the hub is to be measured."""

_sessions = itertools.count(1)


@dataclass
class Pair:
    """Two rates of the same work, round by round: ours, and that of what it is compared with."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return statistics.median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    def told(self, unit: str, theirs: str) -> str:
        """Both median rates."""
        ours, others = map(statistics.median, (self.ours, self.theirs))
        return f"{ours:,.0f} {unit} per second, {theirs} {others:,.0f}"


# Reports


def report_rows(senders: int, each: int) -> list[CellRow]:
    """Reports to the curator under ids that were never used."""
    return [
        CellRow(SURVEY, session + counter.to_bytes(8, "big"), CURATOR, NEVER, os.urandom(1024))
        for session in (next(_sessions).to_bytes(16, "big") for _ in range(senders))
        for counter in range(each)
    ]


def raw_table(path: Path, like: SqliteStore) -> sqlite3.Connection:
    """A plain table of cells, set up as the store is."""
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in ("page_size", "journal_mode", "synchronous", "wal_autocheckpoint", "cache_size"):
        (value,) = like._pragma(pragma)
        database.execute(f"PRAGMA {pragma} = {value}")
    database.execute(
        "CREATE TABLE cells (survey BLOB, id BLOB PRIMARY KEY, recipient INTEGER, expires REAL, "
        "body BLOB)"
    )
    return database


def raw_commits(database: sqlite3.Connection, groups: list[list[CellRow]]) -> None:
    for rows in groups:
        database.execute("BEGIN IMMEDIATE")
        database.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", rows)
        database.execute("COMMIT")


async def group_commits(store: SqliteStore, queues: list[list[list[CellRow]]]) -> float:
    """Put every caller's batches, one after the other; how long it took."""
    committer = Committer(store)

    async def caller(batches: list[list[CellRow]]) -> None:
        for batch in batches:
            flags = await committer.do(partial(Tables.put_cells, cells=batch))
            if not all(flags):
                raise RuntimeError("a fresh report was taken for a known one")

    begun = time.perf_counter()
    await asyncio.gather(*map(caller, queues))
    took = time.perf_counter() - begun
    await committer.close()
    return took


def measure_reports(folder: Path, rounds: int, batches: int, senders: int) -> Pair:
    """Reports per second, a batch of which comes from so many senders."""
    pair = Pair()
    with (
        SqliteStore(folder / f"store-{senders}.db") as store,
        closing(raw_table(folder / f"raw-{senders}.db", store)) as raw,
    ):
        for turn in range(rounds + 1):
            queues = [
                [report_rows(senders, BATCH // senders) for _ in range(batches)]
                for _ in range(CALLERS)
            ]
            groups = [
                [row for batch in some for row in batch] for some in zip(*queues, strict=True)
            ]
            count = CALLERS * batches * BATCH
            ours = count / asyncio.run(group_commits(store, queues))
            begun = time.perf_counter()
            raw_commits(raw, groups)
            theirs = count / (time.perf_counter() - begun)
            if turn:  # the first one only warms up
                pair.ours.append(ours)
                pair.theirs.append(theirs)
    return pair


# Relay


class Echo:
    """Sends back what comes. A class, since a bare function would be given more than it needs."""

    async def __call__(
        self, _: MutableMapping[str, Any], receive: Callable[..., Any], send: Callable[..., Any]
    ) -> None:
        """Serve one caller."""
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "bytes": event["bytes"]})


def serve(root: Path) -> None:
    """The hub's own process: as any hub, with a route more and out of reach of its limits."""
    much = 10**9
    server.run(
        root / "hub",
        root / "authority",
        str(root / "hub.db"),
        "127.0.0.1",
        0,
        lambda url: print(url, flush=True),
        Limits(rate=much, burst=much, quota=much),
        [WebSocketRoute("/echo", Echo())],
    )


@dataclass
class Deployment:
    """A hub that runs, and a survey with pairs of people."""

    root: Path
    url: str
    survey: bytes
    people: list[PrivateKeys]

    def connect(self, path: str) -> connect:
        """A connection to one of the server's routes."""
        return connect(
            self.url.replace("https:", "wss:") + path,
            ssl=client_context(self.root / "authority"),
            compression=None,
            max_size=frames.FRAME_LIMIT,
            max_queue=16,
            proxy=None,
        )

    async def greeted(self, stack: AsyncExitStack, number: int) -> ClientConnection:
        """A connection on which the hub knows one of the people."""
        keys = self.people[number]
        socket = await stack.enter_async_context(self.connect("/v1/cells"))
        challenge = frames.decode_from_hub(await socket.recv(decode=False))
        if not isinstance(challenge, frames.Challenge):
            raise RuntimeError(f"the hub began with {challenge}")
        identity = keys.identity.public_key().public_bytes_raw()
        signature = keys.identity.sign(frames.hello_bytes(challenge.nonce))
        await socket.send(frames.encode(frames.Hello(identity, signature)))
        await socket.recv()
        return socket

    def batch(self, sender: int, recipient: int, number: int) -> bytes:
        """A frame of cells whose headers are true and whose inside is noise."""
        header = cells.Header(
            kind=cells.DATA,
            survey=self.survey,
            sender=sender,
            recipient=recipient,
            round=0,
            session=sender.to_bytes(16, "big"),
            counter=0,
            wrapped=bytes(cells.WRAPPED),
        )
        return frames.encode(
            frames.Put(
                number,
                self.survey,
                [
                    msgspec.structs.replace(header, counter=number * BATCH + index).pack()
                    + os.urandom(cells.CELL - cells.HEADER)
                    for index in range(BATCH)
                ],
            )
        )


@contextmanager
def deployment(root: Path, pairs: int) -> Iterator[Deployment]:
    """A hub in its own process, in which a survey of these pairs has started."""
    authority = Authority.create()
    authority.save(root / "authority")
    authority.issue("hub", Role.hub).save(root / "hub")
    people = [authority.issue(f"p{n}", Role.device) for n in range(2 * pairs)]
    curator = authority.issue("curator", Role.curator)
    roster, roster_hash = task.encode_roster([each.record() for each in people])
    spec = task.Spec(
        survey=os.urandom(16),
        question="How fast?",
        questions=[task.Described(text="", column="speed", task={}, parameters={}, randomizer={})],
        protocol="local",
        people=len(people),
        roster=roster_hash,
        graph=None,
        helpers={"curator": curator.record()},
        timing=Timing(),
        cover=False,
        transport="hub",
        min_crowd=1,
        promises=[],
        expires=time.time() + 3600,
    )
    signed = task.sign_task(spec, curator.identity)
    digest = task.digest_of(signed)
    joins = [task.join_task(digest, n, each.identity) for n, each in enumerate(people)]
    start = task.Start(digest=digest, at=time.time(), promises=[], joins=joins)
    command = [sys.executable, __file__, "--serve", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip() if process.stdout else ""
            with httpx.Client(
                base_url=url, verify=client_context(root / "authority"), trust_env=False
            ) as client:

                def ask(path: str, **body: Any) -> None:
                    content = msgspec.json.encode(body)
                    headers = {"content-type": "application/json"}
                    client.post(path, content=content, headers=headers).raise_for_status()

                for each in (*people, curator):
                    ask("/v1/keys", record=each.record().encode())
                ask("/v1/surveys", task=task.encode_signed(signed), roster=roster, graph=None)
                begun = task.encode_signed(task.sign_start(start, curator.identity))
                ask(f"/v1/surveys/{spec.survey.hex()}/start", start=begun)
            yield Deployment(root, url, spec.survey, people)
        finally:
            process.terminate()


async def keep_sending(socket: ClientConnection, batches: list[bytes]) -> None:
    """Send frames, a few ahead of their answers."""
    slots = asyncio.Semaphore(AHEAD)

    async def answers() -> None:
        for _ in batches:
            answer = await socket.recv(decode=False)
            if len(answer) < 4096:  # an echo is longer
                stored = frames.decode_from_hub(answer)
                if not isinstance(stored, frames.Stored) or stored.rejected:
                    raise RuntimeError(f"the hub answered {str(stored)[:80]}")
            slots.release()

    async with asyncio.TaskGroup() as group:
        group.create_task(answers())
        for batch in batches:
            await slots.acquire()
            await socket.send(batch)


async def keep_taking(socket: ClientConnection, count: int) -> None:
    """Take so many cells."""
    while count > 0:
        mail = frames.decode_from_hub(await socket.recv(decode=False))
        if isinstance(mail, frames.Mail):
            count -= len(mail.cells)
            await socket.send(
                frames.encode(frames.Took(mail.survey, [place for place, _ in mail.cells]))
            )


async def relay(hub: Deployment, rounds: int, batches: int, pairs: int) -> Pair:
    """Cells per second through the hub's mailbox, and through the route that sends them back."""
    pair, count = Pair(), pairs * batches * BATCH
    async with AsyncExitStack() as stack:
        echoes = [await stack.enter_async_context(hub.connect("/echo")) for _ in range(pairs)]
        senders = [await hub.greeted(stack, n) for n in range(pairs)]
        takers = [await hub.greeted(stack, pairs + n) for n in range(pairs)]
        for socket in takers:
            await socket.send(frames.encode(frames.Listen(hub.survey)))
        for socket in (*senders, *takers):
            await socket.recv()  # the news that the survey has started
        for turn in range(rounds + 1):
            first = turn * batches
            sent = [
                [hub.batch(n, pairs + n, first + k) for k in range(batches)] for n in range(pairs)
            ]
            begun = time.perf_counter()
            await asyncio.gather(*map(keep_sending, echoes, sent))
            echoed = time.perf_counter()
            await asyncio.gather(
                *map(keep_sending, senders, sent),
                *(keep_taking(socket, batches * BATCH) for socket in takers),
            )
            relayed = time.perf_counter()
            if turn:
                pair.ours.append(count / (relayed - echoed))
                pair.theirs.append(count / (echoed - begun))
    return pair


def measure_relay(folder: Path, rounds: int, batches: int, pairs: int) -> Pair:
    with deployment(folder, pairs) as hub:
        return asyncio.run(relay(hub, rounds, batches, pairs))


# Sealing


def measure_sealing(rounds: int, count: int) -> Pair:
    """Sealed cells per second of processor time, and the cipher's."""
    pair = Pair()
    authority = Authority.create()
    alice, bob = (authority.issue(name, Role.device) for name in ("alice", "bob"))
    links = Links(0, alice, SURVEY, DIGEST, {1: bob.record()})
    plain = cells.pack([(1, MESSAGE)])[0][0]
    sealed = links.seal(1, 0, plain)  # the first cell begins the session
    bare, nonce = ChaCha20Poly1305(bytes(32)).encrypt, bytes(12)
    bound = sealed[: cells.HEADER] + DIGEST
    for _ in range(rounds):
        begun = time.process_time()
        for number in range(1, count + 1):
            links.seal(1, 0, cells.pack([(number, MESSAGE)])[0][0])
        ours = time.process_time()
        for _ in range(count):
            bare(nonce, plain, bound)
        theirs = time.process_time()
        pair.ours.append(count / (ours - begun))
        pair.theirs.append(count / (theirs - ours))
    return pair


def measure(rounds: int, batches: int, pairs: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("storing reports", file=sys.stderr)
        reports = measure_reports(folder, rounds, max(1, batches // 4), 1)
        crowd = measure_reports(folder, rounds, max(1, batches // 4), BATCH)
        print("relaying cells", file=sys.stderr)
        relayed = measure_relay(folder, rounds, batches, pairs)
    print("sealing cells", file=sys.stderr)
    sealed = measure_sealing(rounds, 1000 * batches)
    stored = [
        Result(name, pair.ratio, "×", REPORT_TARGET, "at least", pair.told("reports", "SQLite"))
        for name, pair in (
            ("durable reports over bare SQLite", reports),
            ("the same, a sender for each report", crowd),
        )
    ]
    told = relayed.told("cells", "the echo"), sealed.told("cells", "the cipher")
    return [
        *stored,
        Result(
            "relayed cells over a bare echo", relayed.ratio, "×", RELAY_TARGET, "at least", told[0]
        ),
        Result(
            "sealing over the bare cipher", 1 / sealed.ratio, "×", SEAL_TARGET, "at most", told[1]
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="The live system beside what it is built on.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--rounds", type=int, default=5, help="the median of them counts")
    parser.add_argument("--batches", type=int, default=24, help="per round and connection")
    parser.add_argument("--pairs", type=int, default=8, help="of connections to the hub")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    results = measure(options.rounds, options.batches, options.pairs)
    setting = {
        "rounds": options.rounds, "batches": options.batches, "pairs": options.pairs,
        "cells": BATCH,
    }  # fmt: skip
    return show(results, setting, options.format, "median ratios")


if __name__ == "__main__":
    sys.exit(main())
