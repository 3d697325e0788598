"""A07: the store of the hub or of a device fails; all cells are delivered when it works again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from incrowd.errors import StoreUnavailable
from incrowd.live import frames
from incrowd.live.keys import Role
from tests.live.crowds import ROUND, crowd, until
from tests.live.hub_server import Api, Caller, Deployment, make_poll, running_hub, settled
from tests.live.security.named import offer, outcome, owners, spent_once
from tests.live.security.store_faults import FAULTS, Outcome, over_quota, play, read_only
from tests.live.worlds import LiveHub

PEOPLE = 24
QUICK = ["hub sqlite disk full 6 s", "hub postgresql stopped 2 s", "device sqlite disk full 6 s"]
"""The others are slow."""
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAULTS]


@pytest.mark.parametrize("name", CASES)
def test_survey_with_grace_beyond_the_fault_loses_and_doubles_nothing(
    name: str, tmp_path: Path
) -> None:
    fault = FAULTS[name]
    played = play(fault, tmp_path, people=PEOPLE)
    assert played.lasted < played.grace
    assert played.outcome == Outcome(sent=PEOPLE, lost=0, doubled=0), played
    assert played.spent_once
    assert played.sent_meanwhile == 0
    if fault.seconds > 5.0:
        # Whatever is shorter may pass within one transaction's patience.
        assert played.not_ready > 0
        assert played.named


@pytest.mark.parametrize(
    "name",
    [
        "hub sqlite over quota 6 s",
        pytest.param("device sqlite read-only 6 s", marks=pytest.mark.slow),
    ],
)
def test_survey_with_grace_below_the_fault_ends_with_a_reason(name: str, tmp_path: Path) -> None:
    played = play(FAULTS[name], tmp_path, people=PEOPLE, grace=1.0)
    if played.outcome is None:
        assert "there is no result" in played.reason
    else:
        assert played.outcome.doubled == 0
        assert played.outcome.lost <= 0.05 * PEOPLE


def test_cells_during_the_fault_are_refused_as_busy_and_stored_once_afterwards(
    tmp_path: Path,
) -> None:
    deployment = Deployment(tmp_path)
    people, (curator,) = deployment.parties(2), deployment.parties(1, Role.curator, "c")
    poll = make_poll(people, curator)
    cells = [poll.cell(0, 1, counter) for counter in range(4)]
    with running_hub(deployment) as hub, Api(hub, deployment) as api:
        poll.begin(api)
        with (
            Caller(hub, deployment).greet(people[0]) as sender,
            Caller(hub, deployment).greet(people[1]) as recipient,
        ):
            recipient.say(frames.Listen(poll.spec.survey))
            assert sender.put(poll, *cells[:2], number=1) == {}
            with over_quota(hub.process.pid):
                assert sender.put(poll, *cells[2:], number=2) == {0: "busy", 1: "busy"}
            # The connection stands, and the same bytes are taken.
            while refused := sender.put(poll, *cells, number=3):
                assert set(refused.values()) == {"busy"}
            mail = recipient.mail(4)
            assert [cell for _, cell in mail] == cells
            assert sender.put(poll, *cells, number=4) == {}
            assert recipient.idle()
            settled(api, poll, waiting=4, delivered=0)


def test_host_told_to_stop_while_it_cannot_write_ends_and_a_new_one_goes_on(tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    hub = LiveHub(tmp_path / "hub")
    try:
        asyncio.run(stopped_while_read_only(hub, tmp_path))
    finally:
        hub.stop()


async def stopped_while_read_only(hub: LiveHub, folder: Path) -> None:
    async with crowd(hub, folder, 9) as people:
        struck = await people.process("struck", range(3), **owners(9))
        await people.process("others", range(3, 9), **owners(9))
        proposal = await offer(people, rounds=4, grace_rounds=20, timeout=30.0)
        started = await people.begin(proposal)
        receiving = asyncio.create_task(people.conclude(started))
        second = started.start.at + 1.5 * ROUND
        await until(lambda: people.host.clocks.now(proposal.survey) > second)
        with read_only(struck.journal):
            await until(lambda: bool(struck.host.supervisor.failing()))
            with pytest.raises(StoreUnavailable, match="readonly"):
                await struck.close()
        await struck.open()
        assert outcome(people, await receiving) == Outcome(sent=9, lost=0, doubled=0)
        assert spent_once(people.processes, proposal.survey)
