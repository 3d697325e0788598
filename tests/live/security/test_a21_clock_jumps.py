"""A21: the wall clocks of a third of the devices jump; no round moves, nothing is spent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from incrowd.live.clocks import Clocks
from tests.live.crowds import ROUND, Pace, crowd, until
from tests.live.security.named import Outcome, offer, outcome, owners, spent_once
from tests.live.worlds import LiveHub

PEOPLE = 12
HOUR = 3600.0
SETTLE = 4
"""A clock that is a round ahead hands in a round before the others, who still send to it."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("clocks-hub"))
    yield hub
    hub.stop()


class WallClock:
    """A machine's clock, which its owner may set."""

    def __init__(self, pace: Pace) -> None:
        self.offset = 0.0
        self._pace = pace

    def __call__(self) -> float:
        return self._pace.wall() + self.offset


def play(hub: LiveHub, folder: Path, jump: float, *, joined: bool, restart: bool = False) -> None:
    """One survey; the clock of a third jumps before the start, or in the second round."""

    async def main() -> None:
        async with crowd(hub, folder, PEOPLE) as people:
            clock = WallClock(people.pace)
            process = await people.process("set", range(PEOPLE // 3), clock=clock, **owners(PEOPLE))
            rest = await people.process("kept", range(PEOPLE // 3, PEOPLE), **owners(PEOPLE))
            proposal = await offer(people, rounds=4, grace_rounds=SETTLE, timeout=30.0)
            if joined:
                await people.joined(proposal)
                clock.offset = jump
            started = await people.begin(proposal)
            receiving = asyncio.create_task(people.conclude(started))
            if not joined:
                second = started.start.at + 1.5 * ROUND
                await until(lambda: people.host.clocks.now(proposal.survey) > second)
                clock.offset = jump
            if restart:
                # Who is away to the end hands in nothing; that is not what this is about.
                with people.pace.held():
                    await process.close()
                    await process.open()
                    await until(lambda: process.begun(proposal.survey))
            run = await receiving
            assert outcome(people, run) == Outcome(sent=PEOPLE, lost=0, doubled=0)
            assert spent_once([process, rest], proposal.survey)

    asyncio.run(main())


@pytest.mark.parametrize("jump", [HOUR, -HOUR, ROUND])
def test_clock_jump_during_the_rounds_moves_no_round(
    hub: LiveHub, tmp_path: Path, jump: float
) -> None:
    play(hub, tmp_path, jump, joined=False)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_clock_jump_after_the_join_moves_no_start(
    hub: LiveHub, tmp_path: Path, jump: float
) -> None:
    play(hub, tmp_path, jump, joined=True)


def test_restart_after_a_jump_by_a_round_loses_nothing_and_spends_nothing_twice(
    hub: LiveHub, tmp_path: Path
) -> None:
    play(hub, tmp_path, ROUND, joined=False, restart=True)


def test_clock_an_hour_ahead_from_the_beginning_keeps_one_device_out_alone(
    hub: LiveHub, tmp_path: Path
) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            clock = WallClock(people.pace)
            clock.offset = HOUR
            ahead = await people.process("ahead", [0], clock=clock, **owners(PEOPLE))
            rest = await people.process("rest", range(1, PEOPLE), **owners(PEOPLE))
            proposal = await offer(people, rounds=4, grace_rounds=SETTLE, timeout=30.0)
            await until(lambda: ahead.refusals(proposal.survey) != [None])
            run = await people.conclude(await people.begin(proposal, wait=3.0))
            assert ahead.refusals(proposal.survey) == ["expired"]
            assert ahead.silent(proposal.survey)
            assert outcome(people, run) == Outcome(sent=PEOPLE, lost=1, doubled=0)
            assert spent_once([rest], proposal.survey)

    asyncio.run(main())


def test_survey_clock_is_anchored_once_and_then_steady() -> None:
    wall, passed = [1e9], [5.0]
    clocks = Clocks(lambda: wall[0], lambda: passed[0])
    assert clocks.now(b"first") == 1e9
    wall[0] += HOUR
    passed[0] += 2.0
    assert clocks.now(b"first") == 1e9 + 2.0
    assert clocks.moment(b"first", 1e9 + 3.0) == 8.0
    assert clocks.now(b"second") == 1e9 + HOUR
