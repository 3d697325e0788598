"""A disk that is rolled back with its keys: the hub still shows what the device had joined."""

import asyncio

from incrowd.live.ledger import Ledger
from incrowd.protocols.local.spec import Local
from incrowd.randomizers import KRR
from tests.live.crowds import crowd, until

PEOPLE = 3
STRAIGHT = Local(KRR(categories=2, epsilon=1.0), n=PEOPLE)


def test_survey_joined_before_a_rollback_is_charged_and_not_answered_again(hub, tmp_path):
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            all_ = await people.process("all", range(PEOPLE))
            proposal = people.proposal(protocol=STRAIGHT)
            await people.curator.open_survey(proposal)
            survey = proposal.survey
            await people.curator.gather(survey, wait=20.0, lead=1.0)
            await until(lambda: all(len(all_.lines(each)) == 1 for each in range(PEOPLE)))
            charged = [all_.lines(each)[0].promises for each in range(PEOPLE)]
            await all_.close()
            for file in tmp_path.glob("all.sqlite*"):
                file.unlink()
            await all_.open()
            await until(lambda: all(all_.refusals(survey)))
            assert all_.refusals(survey) == ["answered"] * PEOPLE
            for person in range(PEOPLE):
                assert [each.promises for each in all_.lines(person)] == [charged[person]]
            owners = [device.identity for device in all_.devices.values()]
            assert all(len(Ledger(all_.journal).lines(owner)) == 1 for owner in owners)
            assert not any(device.parties for device in all_.devices.values())

    asyncio.run(main())
