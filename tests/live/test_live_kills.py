"""Processes that end at every point where something is written, or are asked to stop; and leave.

A doomed process kills itself around a commit: with everything written and nothing committed, or
with everything committed and nothing answered. It is started again, and dies again, until its dooms
are used up; the survey then still counts everybody exactly once.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from incrowd.live.options import LiveOptions
from incrowd.live.run import run_live
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import graph_of
from tests.live.chaos_world import (
    DELTA,
    Doom,
    Stage,
    assert_accounted,
    assert_exactly_once,
    children,
    shuffled,
    staged,
    straight,
    walking,
)

PEOPLE = 5


def _survey(folder: Path, protocol: Protocol, dooms: dict[str, list[Doom]]) -> Stage:
    """A survey of processes with such lives; those of a walk come back within the first round."""

    async def main() -> Stage:
        async with staged(folder, protocol, hosts=1, dooms=dooms) as stage:
            outcome = await stage.ask(max(6.0, 4 * stage.warm_up))
        assert_exactly_once(stage, outcome)
        if protocol.kind == "network-shuffle":
            assert_accounted(stage, outcome)
        return stage

    return asyncio.run(main())


def test_deaths_around_commits_lose_and_double_nothing(tmp_path):
    # Each life of the host dies at its first commit, which is the next one of the survey.
    dooms = {
        "hub": [Doom("after", 12), Doom("before", 20)],
        "host 0": [Doom(when, 1) for _ in range(3) for when in ("before", "after")],
    }
    stage = _survey(tmp_path, straight(PEOPLE), dooms)
    assert [child.deaths for child in stage.children] == [2, 6]


@pytest.mark.slow
@pytest.mark.parametrize("commit", range(1, 61))
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_hub_may_die_at_any_commit(tmp_path, when, commit):
    _survey(tmp_path, shuffled(PEOPLE), {"hub": [Doom(when, commit)]})


@pytest.mark.slow
@pytest.mark.parametrize("commit", range(1, 25))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("protocol", [straight(PEOPLE), shuffled(PEOPLE), walking(PEOPLE, 1, 2)])
def test_a_host_may_die_at_any_commit(tmp_path, protocol, when, commit):
    _survey(tmp_path, protocol, {"host 0": [Doom(when, commit)]})


def test_those_who_are_asked_to_stop_end_well_and_go_on_later(tmp_path):
    async def ask_to_stop(stage: Stage) -> None:
        for moment, child in enumerate(stage.children):
            await stage.until(moment + stage.rng.random())
            await child.ready.wait()
            child.signal(signal.SIGTERM)

    async def main() -> None:
        async with staged(tmp_path, walking(6, 0, 3), hosts=2, seed=1) as stage:
            asking = asyncio.create_task(ask_to_stop(stage))
            outcome = await stage.ask()
            await asking
        # Each was stopped twice: in the midst, and at the end.
        assert [child.stops for child in stage.children] == [2, 2, 2]
        assert [child.deaths for child in stage.children] == [0, 0, 0]
        assert_exactly_once(stage, outcome)
        assert_accounted(stage, outcome)

    asyncio.run(main())


def test_those_who_never_come_back_are_not_waited_for_in_vain(tmp_path):
    async def survey(protocol: Protocol) -> np.ndarray:
        async def vanish(stage: Stage) -> None:
            started = await stage.started
            if graph_of(protocol) is not None:
                # Without the word of most neighbours nobody begins to walk.
                await stage.until(0)
            assert len(started.start.joins) == 6
            stage.hosts[1].vanish()

        folder = tmp_path / protocol.kind
        folder.mkdir()
        async with staged(folder, protocol, hosts=2) as stage:
            vanishing = asyncio.create_task(vanish(stage))
            outcome = await stage.ask(patience=5.0, settling=3.0)
            await vanishing
        collected: Any = outcome.run.collected
        if graph_of(protocol) is not None:
            assert collected.silent.tolist() == 3 * [False] + 3 * [True]
        return np.bincount(collected.rounds[0], minlength=6)

    async def main() -> None:
        # Reports that hardly move, since a result needs two that did not go to who vanished.
        lazy = walking(6, 0, 1, laziness=0.999)
        local, shuffle, walk = await asyncio.gather(
            survey(straight(6)), survey(shuffled(6)), survey(lazy)
        )
        assert local.tolist() == shuffle.tolist() == 3 * [1] + 3 * [0]
        assert walk.max() == 1

    asyncio.run(main())


class _Trouble(Exception):
    pass


@pytest.fixture
def interruptible():
    """As on a terminal: what runs in the background may have been told to ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("trouble", [_Trouble, KeyboardInterrupt])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path, monkeypatch, trouble):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = children()
    during: dict[str, list[str]] = {}

    def interrupt(stage: str, done: int, total: int) -> None:
        if stage == "comparing":
            assert list(tmp_path.iterdir())
            during.update(
                (number, words) for number, words in children().items() if number not in before
            )
            if trouble is KeyboardInterrupt:
                signal.raise_signal(signal.SIGINT)
            else:
                raise trouble

    with pytest.raises(trouble):
        run_live(
            straight(3), np.arange(3), delta=DELTA, hosts=2, progress=interrupt,
            options=LiveOptions(round_seconds=60.0),
        )  # fmt: skip
    # The hub and two hosts.
    assert len(during) == 3
    assert children().keys() == before.keys()
    assert list(tmp_path.iterdir()) == []
