"""A19: many offers at a time, each affordable alone, to spend a budget several times."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from functools import partial

from incrowd.live.journal import Journal
from incrowd.live.ledger import Ledger
from incrowd.protocols.local.spec import Local
from incrowd.randomizers import KRR
from tests.live.crowds import Process, crowd, until
from tests.live.policies import wide

PEOPLE, OFFERS = 3, 7
STRAIGHT = Local(KRR(categories=2, epsilon=1.0), n=PEOPLE)
BUDGET = 2.5


def held(process: Process, ledger: Ledger, now: float) -> list[Fraction]:
    """Lines and reservations of each device, summed exactly."""
    sums = []
    for device in process.devices.values():
        charges = ledger.standing(device.identity, now)
        costs = [each.cost("curator")[0] for each in (*charges.spent, *charges.reserved)]
        sums.append(sum(map(Fraction, costs), Fraction(0)))
    return sums


def test_reservations_when_offers_race_stay_within_the_budget(hub, tmp_path):
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            all_ = await people.process("all", range(PEOPLE), policy=partial(wide, epsilon=BUDGET))
            proposals = [people.proposal(protocol=STRAIGHT) for _ in range(OFFERS)]
            await asyncio.gather(*map(people.curator.open_survey, proposals))

            def settled() -> bool:
                now = people.host.time()
                return all(
                    len(all_.host.ledger.reserved(device.identity, now)) + len(device.declined)
                    == OFFERS
                    for device in all_.devices.values()
                )

            await until(settled)
            now = people.host.time()
            (cost,) = (each for each in proposals[0].spec.promises if each.view == "curator")
            two = 2 * Fraction(cost.epsilon)
            for ledger in (all_.host.ledger, Ledger(all_.journal)):
                assert all(0 < each <= Fraction(BUDGET) for each in held(all_, ledger, now))
            for device in all_.devices.values():
                assert set(device.declined.values()) == {"budget"}
                assert len(device.declined) == OFFERS - 2
            joined = [each for each in proposals if not any(all_.refusals(each.survey))]
            # A crash forgets none of it.
            await all_.close()
            with Journal(tmp_path / "all.sqlite", readonly=True) as journal:
                assert held(all_, Ledger(journal), now) == [two] * PEOPLE
            await all_.open()
            run = await people.conclude(await people.begin(joined[0]))
            assert run.collected.received == PEOPLE
            assert held(all_, all_.host.ledger, people.host.time()) == [two] * PEOPLE

    asyncio.run(main())


def test_offers_of_one_curator_leave_room_for_another(hub, tmp_path):
    async def main() -> None:
        async with (
            crowd(hub, tmp_path / "greedy", PEOPLE) as greedy,
            crowd(hub, tmp_path / "honest", PEOPLE) as honest,
        ):
            honest.paths = greedy.paths
            rules = wide(
                greedy.curator.identity, honest.curator.identity, epsilon=BUDGET, max_epsilon=1
            )
            all_ = await greedy.process("all", range(PEOPLE), policy=lambda curator: rules)
            hoard = [greedy.proposal(protocol=STRAIGHT) for _ in range(OFFERS)]
            await asyncio.gather(*map(greedy.curator.open_survey, hoard))
            await until(
                lambda: all(len(each.declined) == OFFERS - 1 for each in all_.devices.values())
            )
            proposal = honest.proposal(protocol=STRAIGHT)
            await honest.curator.open_survey(proposal)
            run = await honest.conclude(await honest.start(proposal))
            assert run.collected.received == PEOPLE

    asyncio.run(main())
