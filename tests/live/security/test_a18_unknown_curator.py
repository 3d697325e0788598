"""A18: a curator whom the authority certified, and no owner has named."""

from __future__ import annotations

import asyncio
from functools import partial

from incrowd.protocols.local.spec import Local
from incrowd.randomizers import KRR
from tests.live.crowds import crowd, until
from tests.live.policies import wide

PEOPLE = 4


def test_certified_curator_without_an_entry_is_declined_before_anything_is_computed(
    hub, tmp_path, monkeypatch
):
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            others = partial(wide, b"o" * 32)
            everyone = [
                await people.process("named", [0, 1], policy=lambda curator: others()),
                await people.process("nobody", [2], policy=lambda curator: wide()),
                await people.process("without", [3], policy=lambda curator: None),
            ]
            examined: list[bytes] = []
            for each in everyone:
                each.host._examine = lambda survey: examined.append(survey)
            straight = Local(KRR(categories=2, epsilon=1.0), n=PEOPLE)
            proposal = await people.offered(protocol=straight)
            for each in everyone:
                await until(lambda each=each: None not in each.refusals(proposal.survey))
                assert set(each.refusals(proposal.survey)) == {"policy"}
                assert each.silent(proposal.survey)
            offer = await people.host.offer(proposal.survey)
            assert await people.curator._joins(offer) == []
            assert examined == []

    asyncio.run(main())
