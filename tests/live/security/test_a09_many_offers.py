"""A9: a thousand valid offers of one curator, none of which ever starts."""

from __future__ import annotations

import asyncio
import os
import resource
from pathlib import Path
from typing import Any

import msgspec
import pytest

from incrowd.live import task as tasks
from incrowd.live.curator import Proposal
from incrowd.protocols.local.spec import Local
from incrowd.randomizers import KRR
from tests.live.crowds import Crowd, crowd, until
from tests.live.policies import wide

PEOPLE, OPEN = 3, 8
GROWTH = 50 << 20
TOGETHER = 16
STRAIGHT = Local(KRR(categories=2, epsilon=1.0), n=PEOPLE)


def copies(people: Crowd, count: int) -> list[bytes]:
    """Valid offers that differ in their identifiers alone."""
    spec = people.proposal(protocol=STRAIGHT).spec
    return [
        tasks.encode_signed(
            tasks.sign_task(
                msgspec.structs.replace(spec, survey=os.urandom(16)), people.curator.keys.identity
            )
        )
        for _ in range(count)
    ]


async def post(people: Crowd, offers: list[bytes], roster: bytes) -> None:
    places = asyncio.Semaphore(TOGETHER)

    async def one(signed: bytes) -> None:
        async with places:
            await people.host.hub.offer(signed, roster, None)

    await asyncio.gather(*map(one, offers))


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize("offered", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_offers_leave_eight_open_and_another_curators_survey_is_joined(hub, tmp_path, offered):
    async def main() -> None:
        async with (
            crowd(hub, tmp_path / "flooding", PEOPLE, limit=300.0) as flooding,
            crowd(hub, tmp_path / "honest", PEOPLE, limit=300.0) as honest,
        ):
            honest.paths = flooding.paths
            rules = wide(flooding.curator.identity, honest.curator.identity)
            all_ = await flooding.process("all", range(PEOPLE), policy=lambda curator: rules)
            examined: list[bytes] = []
            examine = all_.host._examine

            async def counted(survey: bytes) -> Any:
                examined.append(survey)
                return await examine(survey)

            all_.host._examine = counted
            roster = flooding.proposal(protocol=STRAIGHT).roster
            offers = copies(flooding, offered)
            await post(flooding, offers[: offered // 10], roster)
            before = resident()
            flood = asyncio.create_task(post(flooding, offers[offered // 10 :], roster))
            # Meanwhile another curator asks, and is answered.
            proposal: Proposal = honest.proposal(protocol=STRAIGHT)
            await honest.curator.open_survey(proposal)
            run = await honest.conclude(await honest.start(proposal, wait=60.0))
            assert run.collected.received == PEOPLE
            await flood
            devices = all_.devices.values()

            def settled(each: Any) -> bool:
                held = all_.host.ledger.reserved(each.identity, all_.host.time())
                full = each.refusals["full"] >= offered - OPEN
                return full and len(each._lives) <= OPEN and len(held) == OPEN

            await until(lambda: all(map(settled, devices)))
            grown = resident() - before
            print(f"{offered} offers: memory grew by {grown / 2**20:.1f} MiB")
            assert grown < GROWTH
            now = all_.host.time()
            for device in devices:
                assert device.refusals == {"full": offered - OPEN}
                assert len(all_.host.ledger.reserved(device.identity, now)) == OPEN
                assert len(device._open) == len(device._lives) == OPEN
                assert len(device.declined) <= 256
                # Those that are one too many leave nothing on disk.
                assert len(all_.journal.facts(device.identity)) == OPEN + 1
            assert len(examined) == OPEN + 1
            held = all_.host
            assert max(map(len, (held._news, held._offers.found, held._tasks.found))) <= OPEN + 1

    asyncio.run(main())
