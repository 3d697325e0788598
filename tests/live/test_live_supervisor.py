"""Supervision: services are begun again, readiness is proven, and faults end a process."""

from __future__ import annotations

import ast
import asyncio
import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import incrowd
from incrowd.errors import HubUnreachable, ServiceFailed, StoreUnavailable
from incrowd.live import supervisor as module
from incrowd.live.journal import Fact, GroupCommit, Journal
from incrowd.live.keys import CERTIFICATE_FILE, Role
from incrowd.live.supervisor import LOGGER, Service, Supervisor
from incrowd.live.transports.base import Unreachable
from incrowd.protocols.runtime.delivery import Backoff
from tests.live.hub_server import Api, Deployment, running_hub

LIVE = Path(incrowd.__file__).parent / "live"
LIMIT = 30.0
"""Seconds after which a test that hangs is ended; nothing is measured by it."""
NEVER = 1e6


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSES", Backoff(first=0.001, factor=1.0, cap=0.001))


def play(scene: Callable[[Supervisor, Clock], Awaitable[None]], **options: bool) -> None:
    async def main() -> None:
        clock = Clock()
        made = Supervisor(clock=clock, **options)
        async with asyncio.timeout(LIMIT):
            try:
                await scene(made, clock)
            finally:
                await made.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_tasks_are_created_by_the_supervisor_alone() -> None:
    makers = {"create_task", "ensure_future", "TaskGroup", "create_task_group"}
    found = [
        f"{path.relative_to(LIVE)}:{node.lineno}"
        for path in LIVE.rglob("*.py")
        if path.name != "supervisor.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) in makers
    ]
    assert found == []


def test_wait_for_is_not_used_because_it_swallows_cancellations() -> None:
    found = [
        f"{path.relative_to(LIVE)}:{node.lineno}"
        for path in LIVE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "wait_for"
    ]
    assert found == []


@pytest.mark.parametrize("error", [StoreUnavailable, HubUnreachable, Unreachable, OSError])
def test_service_with_store_or_network_errors_is_tried_again_as_long_as_they_last(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0
    passed = asyncio.Event()

    async def work(pulse: Service) -> None:
        nonlocal tries
        tries += 1
        if tries <= 3 * module._MOST_FAULTS:
            raise error("away")
        pulse.beat()
        passed.set()
        await pulse.until(asyncio.Event())

    async def scene(made: Supervisor, clock: Clock) -> None:
        del clock
        made.service("mail", work, period=NEVER)
        await until(lambda: bool(made.failing()))
        assert made.failing() == [f"mail ({error.__name__})"]
        await passed.wait()
        assert made.failing() == []
        made.check()

    with caplog.at_level(logging.WARNING, LOGGER):
        play(scene)
    assert [record.getMessage() for record in caplog.records] == [
        "mail waits: away",
        "mail goes on",
    ]


def test_service_with_faults_is_begun_again_and_the_fifth_in_a_minute_ends_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries = 0
    told = asyncio.Event()

    async def work(pulse: Service) -> None:
        nonlocal tries
        del pulse
        tries += 1
        if tries == 2:
            return  # a return is a fault as well
        raise ValueError("quotes an answer")

    async def scene(made: Supervisor, clock: Clock) -> None:
        del clock
        made.on_exhausted = told.set
        made.service("mail", work, period=NEVER)
        await told.wait()
        assert tries == 5
        assert "supervisor (too many faults)" in made.failing()
        with pytest.raises(ServiceFailed, match="'mail' failed too often") as caught:
            made.check()
        assert caught.value.exit_code == 70

    with caplog.at_level(logging.WARNING, LOGGER):
        play(scene)
    assert len(caplog.records) == 5
    assert "answer" not in caplog.text


def test_service_with_fewer_faults_in_a_minute_goes_on() -> None:
    tries = 0

    async def scene(made: Supervisor, clock: Clock) -> None:
        async def work(pulse: Service) -> None:
            nonlocal tries
            tries += 1
            clock.now += 16.0
            if tries <= 20:
                raise ValueError
            await pulse.until(asyncio.Event())

        made.service("mail", work, period=NEVER)
        await until(lambda: tries == 21)
        assert made.exhausted is None

    play(scene)


def test_service_without_restart_ends_the_process_with_its_first_fault() -> None:
    async def work(pulse: Service) -> None:
        raise ValueError

    async def scene(made: Supervisor, clock: Clock) -> None:
        del clock
        made.service("journal", work, period=NEVER, restart=False)
        await until(lambda: made.exhausted is not None)

    play(scene)


def test_part_that_keeps_failing_is_given_up_alone() -> None:
    ends: list[str] = []

    async def bad(pulse: Service) -> None:
        raise ValueError

    async def good(pulse: Service) -> None:
        ends.append("returned")

    async def scene(made: Supervisor, clock: Clock) -> None:
        del clock
        parts = [made.part("part", work, lambda: ends.append("given up")) for work in (bad, good)]
        await until(lambda: all(each.task is not None and each.task.done() for each in parts))
        assert sorted(ends) == ["given up", "returned"]
        assert made.exhausted is None
        await until(lambda: not made.failing())

    play(scene)


def test_readiness_with_a_heartbeat_older_than_three_periods_names_the_service() -> None:
    async def scene(made: Supervisor, clock: Clock) -> None:
        stuck = asyncio.Event()

        async def work(pulse: Service) -> None:
            pulse.beat()
            await stuck.wait()

        made.service("mail", work, period=2.0)
        await asyncio.sleep(0)
        clock.now += 5.9
        assert made.failing() == []
        clock.now += 0.2
        assert made.failing() == ["mail (no heartbeat for 6 s)"]

    play(scene)


def test_readiness_needs_a_commit_within_five_seconds() -> None:
    async def scene(made: Supervisor, clock: Clock) -> None:
        assert made.failing() == ["store (no commit within 5 s)"]
        made.committed()
        clock.now += 4.9
        assert made.failing() == []
        clock.now += 0.2
        assert made.failing() == ["store (no commit within 5 s)"]

    play(scene, proves_writes=True)


def test_many_services_of_one_name_say_once_that_they_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    back = asyncio.Event()

    async def work(pulse: Service) -> None:
        if not back.is_set():
            raise Unreachable("the hub is away")
        pulse.beat()
        await pulse.until(asyncio.Event())

    async def scene(made: Supervisor, clock: Clock) -> None:
        del clock
        for _ in range(50):
            made.service("connection", work, period=NEVER)
        await until(lambda: made._waiting["connection"] == 50)
        back.set()
        await until(lambda: not made.failing())

    with caplog.at_level(logging.WARNING, LOGGER):
        play(scene)
    assert [record.getMessage() for record in caplog.records] == [
        "connection waits: the hub is away",
        "connection goes on",
    ]


def test_journal_cancelled_in_the_moment_it_is_asked_to_write_ends(tmp_path: Path) -> None:
    """``asyncio.wait_for`` of Python 3.11 swallows this cancellation, and its host never ends."""

    async def main() -> None:
        with Journal(tmp_path / "journal.sqlite") as journal:
            made, group = Supervisor(), GroupCommit(journal)
            running = made.service("journal", group.run, period=NEVER, restart=False)
            await group.write([Fact(b"owner", bytes(16), "key", b"value")])
            # It waits now, for as long as the log may keep what was replaced.
            while not group._wanted._waiters:
                await asyncio.sleep(0)
            group._wanted.set()
            async with asyncio.timeout(LIMIT):
                await running.stop()
            assert running.task is not None
            assert running.task.cancelled()

    asyncio.run(main())


_PATCHED = """
from incrowd.live.host import Host
from incrowd.live.hub.mailroom import Mailroom

async def fail(self, pulse):
    raise ValueError("quotes an answer")

Host._watch = Mailroom.carry = fail
from incrowd.cli import main
raise SystemExit(main())
"""
"""The program, in which one background task keeps failing."""


def ended(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the program until it ends by itself."""
    return subprocess.run(
        [sys.executable, "-c", _PATCHED, *map(str, words)],
        capture_output=True, text=True, check=False, timeout=4 * LIMIT,
    )  # fmt: skip


def test_processes_in_which_a_task_keeps_failing_end_with_exit_code_70(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    (keys,) = deployment.parties(1, Role.helper)
    keys.save(tmp_path / "helper")
    authority = tmp_path / "authority" / CERTIFICATE_FILE
    with running_hub(deployment) as hub:
        host = ended(
            "device", "run", "--hub", hub.url, "--ca", authority,
            "--state", tmp_path / "state", "--helper", tmp_path / "helper",
        )  # fmt: skip
    broken = ended(
        "hub", "--keys", tmp_path / "hub", "--ca", authority, "--store", tmp_path / "new.db",
        "--log-format", "text",
    )  # fmt: skip
    for process, task in ((host, "revocations"), (broken, "delivery")):
        assert process.returncode == 70, process.stderr
        assert f"'{task}' failed too often" in process.stderr
        assert process.stderr.count(f"{task} failed: ValueError in fail") == 5
        assert "answer" not in process.stderr


def test_readiness_of_a_hub_whose_store_is_locked_names_what_fails(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        assert api.get("/readyz").json() == {"ok": True}
        with closing(sqlite3.connect(deployment.store, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            # Reads go on, and prove nothing.
            assert other.execute("SELECT count(*) FROM tasks").fetchone() == (0,)
            answer = eventually(lambda: api.get("/readyz"), 503)
            other.execute("ROLLBACK")
        assert answer.json()["reason"] == "unavailable"
        assert "probe (" in answer.json()["error"]
        assert eventually(lambda: api.get("/readyz"), 200).json() == {"ok": True}


def eventually(ask: Callable[[], httpx.Response], status: int) -> httpx.Response:
    """Ask until the answer has this status."""
    while (answer := ask()).status_code != status:
        time.sleep(0.05)
    return answer
