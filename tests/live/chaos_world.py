"""A whole survey of processes that are killed and started again while it runs.

Hub, device hosts and helpers are the real commands in processes of their own; the curator is in
this one, and everybody reaches the hub through a proxy that makes trouble. Everyone's answer is a
number of their own, in a survey that practically never lies, so that the result says which reports
arrived and how often. A child that dies is examined and started again on the same files.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from incrowd import graphs
from incrowd.cli import main
from incrowd.live import journal as journals
from incrowd.live.admission import Started
from incrowd.live.authority import Authority, Register
from incrowd.live.curator import Curator, propose, timing_of
from incrowd.live.host import Host, Network, patiently
from incrowd.live.hub.messages import Progress
from incrowd.live.journal import Journal, PartyRow
from incrowd.live.keys import CERTIFICATE_FILE, PrivateKeys, Role, write_private
from incrowd.live.options import LiveOptions
from incrowd.live.policy_write import policy_text, survey_policy
from incrowd.live.service import JOURNAL_FILE
from incrowd.live.store import Counts, SqliteStore
from incrowd.protocols.api import Protocol
from incrowd.protocols.check_in.spec import CheckIn
from incrowd.protocols.local.spec import Local
from incrowd.protocols.network_shuffle.roles.device import HandedIn
from incrowd.protocols.network_shuffle.spec import NetworkShuffle
from incrowd.protocols.run import Run, guarantees, resolve_task
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.protocols.runtime.outputs import unpack_output
from incrowd.protocols.trusted_shuffle.spec import TrustedShuffle
from incrowd.randomizers import KRR
from incrowd.tasks.base import Task
from tests.live.chaos import ChaosProxy, ProxyRates
from tests.live.nats_server import free_port

_T = TypeVar("_T")

ROOT = Path(__file__).parents[2]
DELTA = 1e-5
LIMIT = 400.0
"""Seconds for all that no survey's timetable bounds; whoever is not done by then hangs."""
ROUNDS = 5
TROUBLE = ProxyRates(delay=0.05, truncate=0.004, reset=0.004)
CALM = ProxyRates()


def truthful(n: int) -> KRR:
    """A randomizer that changes an answer once in 10¹² times."""
    return KRR(categories=n, epsilon=30.0)


def walking(n: int, seed: int, rounds: int = ROUNDS, laziness: float = 0.0) -> NetworkShuffle:
    """Everybody's number walks over a random regular graph."""
    graph = graphs.random_regular(n, 4, np.random.default_rng(seed))
    return NetworkShuffle(truthful(n), graph=graph, rounds=rounds, laziness=laziness)


def shuffled(n: int) -> TrustedShuffle:
    """Everybody's number goes through a shuffler."""
    return TrustedShuffle(truthful(n), n=n)


def straight(n: int) -> Local:
    """Everybody's number goes to the curator."""
    return Local(truthful(n), n=n)


def checked_in(n: int, rounds: int = 3, rate: float = 1.0) -> CheckIn:
    """In every round the numbers of those who are in go through a shuffler."""
    return CheckIn(truthful(n), n=n, rounds=rounds, rate=rate)


class Doom(NamedTuple):
    """At which commit a process kills itself, counted from its start."""

    when: str
    """``before`` the commit, with everything written, or ``after`` it, with nothing answered.

    ``done`` is before it as well, and counts only commits with the output of a party.
    """
    commit: int


def doomed() -> None:
    """The program in a process that dies as its first two words say."""
    doom = Doom(sys.argv[1], int(sys.argv[2]))
    del sys.argv[1:3]
    # While a log is emptied commits wait and become one: they could no longer be counted.
    journals._REMEMBERED = math.inf  # type: ignore[misc]
    if sys.argv[1] == "hub":
        SqliteStore._commit = _dying(SqliteStore._commit, doom)  # type: ignore[method-assign]
    elif doom.when == "after":
        Journal.commit = _dying(Journal.commit, doom)  # type: ignore[method-assign]
    else:
        # After the last write, inside the transaction.
        counts = _has_output if doom.when == "done" else _counts
        Journal._write = _dying(Journal._write, doom._replace(when="after"), counts)  # type: ignore[method-assign]
    sys.exit(main())


def _counts(*_: Any) -> bool:
    return True


def _has_output(_: Journal, __: Any, batch: journals.Batch) -> bool:
    return any(row.output is not None for row in batch.parties)


def _dying(
    real: Callable[..., None], doom: Doom, counts: Callable[..., bool] = _counts
) -> Callable[..., None]:
    count = itertools.count(1)

    def call(*arguments: Any) -> None:
        last = counts(*arguments) and next(count) == doom.commit
        if last and doom.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        real(*arguments)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    return call


@dataclass
class Child:
    """A process that is started again on the same files whenever it dies."""

    name: str
    words: Sequence[str]
    log: Path
    faults: Callable[[], list[str]]
    """What is wrong with its files, asked while it is dead."""
    pause: Callable[[], float] = lambda: 0.0
    """How long it stays dead."""
    dooms: list[Doom] = field(default_factory=list)
    """How its first lives end."""
    deaths: int = 0
    stops: int = 0
    """How often it ended well, because it was asked to."""
    said: list[Any] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    _process: asyncio.subprocess.Process | None = None
    vanished: bool = False
    _stopping: bool = False

    async def live(self) -> None:
        """Life after life, until it is asked to stop for good."""
        try:
            while True:
                code = await self._life(self.dooms.pop(0) if self.dooms else None)
                self.ready.clear()
                assert self.faults() == [], self.name
                if code == -signal.SIGKILL:
                    self.deaths += 1
                else:
                    assert code == 0, (self.name, code, self._last())
                    self.stops += 1
                if self._stopping:
                    return
                await asyncio.sleep(self.pause())
        finally:
            if self._process is not None and self._process.returncode is None:
                self.signal(signal.SIGKILL)
                await self._process.wait()

    async def _life(self, doom: Doom | None) -> int:
        program = ["-m", "incrowd"]
        if doom is not None:
            run = "from tests.live.chaos_world import doomed; doomed()"
            program = ["-c", run, doom.when, str(doom.commit)]
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *program, *self.words,
                stdout=asyncio.subprocess.PIPE, stderr=log, cwd=ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )  # fmt: skip
        self._process = process
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self.said.append(msgspec.json.decode(line))
            self.ready.set()
        return await process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the life that is lived now, if there is one."""
        self.ready.clear()
        process = self._process
        if process is not None and process.returncode is None:
            # Not by the process's own method, which may take its exit status from who waits for it.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def stop(self) -> None:
        """Ask it to stop for good."""
        self._stopping = True
        self.signal(signal.SIGTERM)

    def vanish(self) -> None:
        """Die, and never come back."""
        self.vanished = self._stopping = True
        self.signal(signal.SIGKILL)

    def _last(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


@dataclass(frozen=True)
class Outcome:
    """What a survey came to."""

    run: Run
    started: Started
    progress: Progress
    """The hub's totals before it was closed."""


class Stage:
    """Files, processes and a curator; see ``staged``."""

    def __init__(
        self,
        folder: Path,
        protocol: Protocol,
        hosts: int,
        seed: int,
        rates: ProxyRates,
        task: Task | None = None,
    ) -> None:
        self.folder = folder
        self.protocol = protocol
        self.task = resolve_task(protocol, task)
        self.n = protocol.n
        self.rng = random.Random(seed)
        self.opened: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.started: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        self.warm_up = 0.0
        """How long the processes took to start, on this machine as it is now."""
        self.proxy = ChaosProxy(port := free_port(), random.Random(seed + 1), rates)
        self._prepare()
        self.hub = Child(
            "hub",
            [
                *("hub", "--keys", str(folder / "hub"), "--ca", str(self.authority)),
                *("--store", str(folder / "hub.sqlite"), "--port", str(port)),
            ],
            folder / "hub.log",
            self._store_faults,
            lambda: self.rng.uniform(0, 0.5),
        )
        self.hosts = [self._host(index, hosts) for index in range(hosts)]
        self.helpers = [self._helper(name) for name in protocol.helpers if name != CURATOR]
        self.curator: Curator
        self.limit = asyncio.timeout(LIMIT)

    @property
    def authority(self) -> Path:
        return self.folder / "authority" / CERTIFICATE_FILE

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.proxy.port}"

    @property
    def children(self) -> list[Child]:
        return [self.hub, *self.hosts, *self.helpers]

    def _prepare(self) -> None:
        Authority.create().save(self.folder / "authority")
        register = Register(self.folder / "authority")
        helpers = [each for each in self.protocol.helpers if each != CURATOR]
        for role, names in (
            (Role.hub, ["hub"]),
            (Role.curator, ["curator"]),
            (Role.helper, helpers),
        ):
            for keys in register.issue(names, role, []):
                keys.save(self.folder / keys.name)
        curator = PrivateKeys.load(self.folder / "curator").record().identity
        policy = survey_policy(self.task, "number", curator, self.protocol.kind)
        (self.folder / "policy.toml").write_text(policy_text(policy))
        names = [f"p{person:03}" for person in range(self.n)]
        for keys in register.issue(names, Role.device, []):
            keys.save(self.folder / "devices" / keys.name)
        rows = ["device,number", *(f"{name},{each}" for each, name in enumerate(names))]
        write_private(self.folder / "answers.csv", "\n".join(rows).encode())

    def _host(self, index: int, hosts: int) -> Child:
        first, last = (self.n * each // hosts for each in (index, index + 1))
        words = [
            *("--answers", str(self.folder / "answers.csv")),
            *("--policy", str(self.folder / "policy.toml")),
            *("--keys", str(self.folder / "devices")),
            *("--offset", str(first), "--count", str(last - first)),
        ]
        return self._devices(f"host {index}", f"host-{index}", words)

    def _helper(self, name: str) -> Child:
        return self._devices(name, _folder_of(name), ["--helper", str(self.folder / name)])

    def _devices(self, name: str, folder: str, words: list[str]) -> Child:
        state = self.folder / folder
        return Child(
            name,
            ["device", "run", "--ca", str(self.authority), "--state", str(state), *words],
            self.folder / f"{folder}.log",
            lambda: journal_faults(state / JOURNAL_FILE),
            lambda: self.rng.uniform(0, 1.0),
        )

    def _store_faults(self) -> list[str]:
        with SqliteStore(self.folder / "hub.sqlite") as store:
            return store.integrity()

    # The survey.

    async def ask(
        self,
        shortest: float = 4.0,
        patience: float = 120.0,
        settling: float | None = None,
        cover: bool = False,
    ) -> Outcome:
        """Offer, start, receive and close, as a curator does, with rounds at least so long.

        Between the last round and handing in are ``settling`` seconds, or else enough for a child
        to come back to a machine that is far busier than when everything was started, and then to
        be on through the last windows, without which it hands in no reports.
        """
        curator = self.curator
        roster = await curator.devices()
        helpers = await curator.helpers(self.protocol.helpers)
        length = max(shortest, self.warm_up / 8)
        if settling is None:
            settling = 2 * self.warm_up + 16 + 4 * length
        settle = math.ceil(settling / length)
        options = LiveOptions(
            cover=cover, round_seconds=length, grace_rounds=settle, timeout=patience
        )
        timing = timing_of(options)
        proposal = propose(
            self.protocol, self.task, question="Which number?", column="number",
            delta=DELTA, roster=roster, helpers=helpers, keys=curator.keys, options=options,
            timing=timing, expires=time.time() + LIMIT + self.protocol.duration(timing),
        )  # fmt: skip
        await curator.open_survey(proposal)
        self.opened.set_result(time.time())
        started = await curator.gather(proposal.survey, wait=LIMIT, lead=2.0 + self.warm_up / 4)
        # Rounds are the longer the busier the machine is: a survey may take all its time.
        lasts = started.ends - time.time()
        self.limit.reschedule(asyncio.get_running_loop().time() + lasts + LIMIT)
        self.started.set_result(started)
        run = await curator.receive(started)
        progress = await self._quiet(started)
        await curator.close_survey(proposal.survey)
        return Outcome(run, started, progress)

    async def ask_amid(
        self, trouble: Coroutine[Any, Any, _T], **options: Any
    ) -> tuple[Outcome, _T]:
        """Ask while there is trouble, which is over when the survey is; what came of both."""
        troubling = asyncio.create_task(trouble)
        try:
            outcome = await self.ask(**options)
            return outcome, await troubling
        finally:
            troubling.cancel()
            await asyncio.gather(troubling, return_exceptions=True)

    async def kill(self, victims: Sequence[Child], latest: float, earliest: float = 0.0) -> int:
        """Kill these, each at a moment of its own, in rounds after the start; how many they are."""
        moments = [(self.rng.uniform(earliest, latest), victim) for victim in victims]
        for moment, victim in sorted(moments, key=lambda each: each[0]):
            await self.until(moment)
            await victim.ready.wait()
            victim.signal(signal.SIGKILL)
        return len(victims)

    async def _quiet(self, started: Started) -> Progress:
        """The totals once everything was delivered, or everybody may leave.

        Closing would take away what waits. Whoever was away for longer than a pause between two
        attempts repeats what it has no answer to, and a curator that has its result takes nothing
        in any more: so it goes on here.
        """
        survey, curator = started.offer.spec.survey, self.curator
        playing = asyncio.create_task(curator.play(started, curator.party(started, CURATOR)))
        try:
            while True:
                progress = await patiently(lambda: curator.host.hub.progress(survey))
                if not progress.waiting or any(child.vanished for child in self.children):
                    return progress
                if playing.done():
                    await playing
                    return progress
                await asyncio.sleep(0.2)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)

    async def until(self, rounds: float) -> None:
        """Sleep until so many rounds after the start; negative ones are between offer and start.

        Who is away for the whole first round does not take part, so a walk has to have begun.
        """
        if rounds < 0:
            await self.opened
            await asyncio.sleep((1 + rounds) * self.warm_up / 2)
            return
        started = await self.started
        while len(self.ledgers()) < self.n:
            await asyncio.sleep(0.1)
        length = started.offer.spec.timing.round_seconds
        await asyncio.sleep(started.start.at + rounds * length - time.time())

    # What is left on disk.

    def journals(self) -> list[Path]:
        return sorted(self.folder.glob(f"host-*/{JOURNAL_FILE}"))

    def helper_row(self, name: str) -> PartyRow:
        """What a helper knew at the end, from its own files."""
        with Journal(self.folder / _folder_of(name) / JOURNAL_FILE, readonly=True) as journal:
            (row,) = journal.parties()
        assert row.state is not None
        return row

    def counts(self, survey: bytes) -> Counts:
        """The totals in the store of a hub that has ended."""
        with SqliteStore(self.folder / "hub.sqlite") as store:
            return store.transact(lambda tables: tables.counts(survey))

    def ledgers(self) -> list[tuple[bytes, bytes]]:
        """Owner and survey of every line of every device."""
        lines = []
        for path in self.journals():
            with Journal(path, readonly=True) as journal:
                lines += [(entry.owner, entry.survey) for entry in journal.entries()]
        return lines

    def outputs(self, kind: type[_T]) -> dict[int, _T]:
        """What the devices know at the end, by person."""
        found = {}
        for path in self.journals():
            with Journal(path, readonly=True) as journal:
                for row in journal.parties():
                    if row.number < self.n and row.output is not None:
                        found[row.number] = unpack_output(row.output, kind)
        return found


def _folder_of(helper: str) -> str:
    return f"helper-{helper.replace('/', '-')}"


@contextlib.asynccontextmanager
async def staged(
    folder: Path,
    protocol: Protocol,
    *,
    hosts: int = 3,
    seed: int = 0,
    rates: ProxyRates = CALM,
    dooms: dict[str, list[Doom]] | None = None,
    task: Task | None = None,
) -> AsyncIterator[Stage]:
    """A stage on which everything is up; at the end it has stopped well, and the files are whole.

    ``dooms`` says of children, by name, how their first lives end.
    """
    stage = Stage(folder, protocol, hosts, seed, rates, task)
    for child in stage.children:
        child.dooms += (dooms or {}).get(child.name, [])
    async with stage.limit, stage.proxy:
        for child in (*stage.hosts, *stage.helpers):
            child.words = [*child.words, "--hub", stage.url]
        began = time.monotonic()
        async with asyncio.TaskGroup() as lives:
            tasks = [lives.create_task(child.live()) for child in stage.children]
            for child in stage.children:
                await child.ready.wait()
            stage.warm_up = time.monotonic() - began
            with Journal(folder / "curator.journal") as journal:
                async with Host(Network(stage.url, stage.authority), journal) as host:
                    keys = PrivateKeys.load(folder / "curator")
                    stage.curator = Curator(keys, host, folder / "curator")
                    await patiently(stage.curator.enrol)
                    await stage.curator.open()
                    try:
                        yield stage
                    finally:
                        await stage.curator.close()
            for child, task in reversed([*zip(stage.children, tasks, strict=True)]):
                if not task.done():
                    await child.ready.wait()
                    child.stop()
                    await asyncio.wait([task])
    assert journal_faults(folder / "curator.journal") == []


def children() -> dict[str, list[str]]:
    """The programs that this process started and that are still there, by their number.

    The one that examines offers is left out: it serves the process from one run to the next.
    """
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            words = stat.with_name("cmdline").read_text().split("\0")
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and "incrowd.live.sandbox" not in words:
            found[stat.parent.name] = words
    return found


def journal_faults(path: Path) -> list[str]:
    """What is wrong with a journal that nobody has open."""
    if not path.exists():
        return []
    with Journal(path) as journal:
        return journal.damage()


def assert_exactly_once(stage: Stage, outcome: Outcome) -> None:
    """Everybody's report is in the result once, every ledger has its line, and totals add up."""
    run = outcome.run
    (reports,) = run.collected.rounds
    counted = np.bincount(reports, minlength=stage.n)
    np.testing.assert_array_equal(counted, np.ones(stage.n), err_msg=str(run.collected))
    assert_totals(stage, outcome)


def assert_totals(stage: Stage, outcome: Outcome) -> None:
    """Whatever was sent is delivered, and every ledger has its line, once."""
    survey = outcome.started.offer.spec.survey
    for counts in (outcome.progress, stage.counts(survey)):
        assert counts.sent == counts.delivered + counts.waiting + counts.expired > 0
    assert outcome.progress.sent == outcome.progress.delivered
    lines = stage.ledgers()
    assert len(lines) == len({owner for owner, _ in lines}) == stage.n
    assert {asked for _, asked in lines} == {survey}


def assert_accounted(stage: Stage, outcome: Outcome) -> None:
    """The guarantee of a walk is that of the rounds in which people really were there."""
    collected: Any = outcome.run.collected
    protocol: Any = stage.protocol
    knows = stage.outputs(HandedIn)
    assert sorted(knows) == list(range(stage.n))
    rounds = protocol.cost().rounds
    away = np.zeros((rounds, stage.n), bool)
    for person, handed_in in knows.items():
        assert handed_in.accepted
        away[[number for number in handed_in.missed if number < rounds], person] = True
    assert collected.silent is None
    assert collected.lost == 0
    if collected.away is None:
        assert not away.any()
    else:
        np.testing.assert_array_equal(collected.away, away)
    happened = NetworkShuffle(
        protocol.randomizer, graph=protocol.graph, rounds=len(away), away=away
    )
    for given, due in zip(outcome.run.guarantees, guarantees(happened), strict=True):
        assert given.view == due.view
        assert given.epsilon(DELTA) == due.epsilon(DELTA)
