"""A device that is late, a host that forgets nothing, and contacts that lie."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from incrowd.live import links
from incrowd.live.host import Host
from incrowd.live.journal import Journal
from incrowd.protocols.network_shuffle.theorems.attendance import AWAY
from tests.live.crowds import ROUND, Crowd, crowd, until
from tests.live.worlds import LiveHub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("member-hub"))
    yield hub
    hub.stop()


def test_a_device_that_slept_through_the_first_round_does_not_begin(hub, tmp_path):
    """Else it would hand in nothing but its own report, next to its name."""

    async def main() -> None:
        async with crowd(hub, tmp_path, 8) as people:
            awake = await people.process("awake", range(7))
            sleepy = await people.process("sleepy", [7])
            released = sleepy.host.player.release
            sleepy.host.player.release = lambda party: None
            # Reports that walk to the one who sleeps are lost; some are not.
            proposal = await people.offered(timeout=20.0, min_crowd=1)
            started = await people.start(proposal)
            receiving = asyncio.create_task(people.curator.receive(started))
            party = sleepy.devices[7].parties
            await until(lambda: proposal.survey in party)
            while people.host.time() < started.start.at + 1.5 * ROUND:
                await asyncio.sleep(0.05)
            released(party[proposal.survey])
            run = await receiving
            assert sleepy.refusals(proposal.survey) == ["expired"]
            assert sleepy.silent(proposal.survey)
            # It said so: the curator neither waits for it nor doubts what happened.
            assert run.collected.silent.tolist() == [False] * 7 + [True]
            assert (run.collected.attendance[:, 7] == AWAY).all()
            assert awake.refusals(proposal.survey) == [None] * 7

    asyncio.run(main())


def test_one_contact_that_lies_ends_nothing(hub, tmp_path, monkeypatch):
    honest = links.compare_cell

    def lie(keys, survey, sender, recipient, digest):
        return honest(keys, survey, sender, recipient, os.urandom(32) if sender == 0 else digest)

    async def main() -> None:
        async with crowd(hub, tmp_path, 5) as people:
            everyone = await people.process("all", range(5))
            proposal = await people.offered(timeout=20.0)
            started = await people.start(proposal)
            run = await people.conclude(started)
            assert everyone.refusals(proposal.survey) == [None] * 5
            assert run.collected.received == 5

    monkeypatch.setattr(links, "compare_cell", lie)
    asyncio.run(main())


@pytest.mark.slow
def test_device_whose_policy_was_withdrawn_goes_on_with_what_it_began(hub, tmp_path):
    """What others entrusted to it must not be lost; what it has only joined does not begin."""

    async def main() -> None:
        async with crowd(hub, tmp_path, 5) as people:
            all_ = await people.process("all", range(5))
            # Long enough after the last round for the process to come back on a busy machine.
            begun = await people.offered(timeout=20.0, grace_rounds=20)
            waiting = await people.offered(timeout=20.0)
            await people.joined(waiting)
            started = await people.start(begun)
            receiving = asyncio.create_task(people.conclude(started))
            parties = [each.parties for each in all_.devices.values()]
            await until(lambda: all(begun.survey in each for each in parties))
            await until(lambda: all(each[begun.survey].begun for each in parties))
            await all_.close()
            all_._policy = lambda curator: None
            await all_.open()
            assert (await receiving).collected.received == 5
            await people.start(waiting)
            await until(lambda: all_.refusals(waiting.survey) == ["policy"] * 5)
            assert all_.silent(waiting.survey)

    asyncio.run(main())


def test_revocations_are_remembered(hub, tmp_path):
    async def main() -> None:
        async with crowd(hub, tmp_path, 3) as people:
            gone = people.keys[0]
            await people.host.hub.revoke(hub.deployment.revoke(gone))
            serial = gone.record().certificate_serial
            with Journal(tmp_path / "first.sqlite") as journal:
                async with Host(people.network, journal) as host:
                    await host.refresh()
                    assert serial in host.revoked
            with Journal(tmp_path / "first.sqlite") as journal:
                # Not even asked yet: a hub that forgets the list brings nobody back.
                assert serial in Host(people.network, journal).revoked

    asyncio.run(main())


@pytest.mark.parametrize("timing", [{"round_seconds": 1e-5}, {"round_seconds": 0.05}])
def test_rounds_that_nobody_can_keep_are_refused(hub, tmp_path, timing):
    async def main(people: Crowd) -> None:
        everyone = await people.process("all", range(3))
        proposal = await people.offered(**timing)
        await until(lambda: None not in everyone.refusals(proposal.survey))
        assert everyone.refusals(proposal.survey) == ["malformed"] * 3

    async def run() -> None:
        async with crowd(hub, tmp_path, 3) as people:
            await main(people)

    asyncio.run(run())


def test_without_randomness_there_is_no_device():
    code = (
        "import os; from incrowd.randomness import system_generator\n"
        "def broken(n): raise OSError('no entropy')\n"
        "os.urandom = broken\n"
        "print(system_generator().random(3))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert ended.returncode < 0
    assert ended.stdout == b""
