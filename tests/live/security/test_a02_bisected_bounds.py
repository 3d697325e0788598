"""A2: offers that halve the bounds, to find an exact number by who can answer them."""

from __future__ import annotations

import asyncio

from incrowd.live.policy import ColumnRule
from incrowd.protocols.local.spec import Local
from incrowd.randomizers import OneBit
from incrowd.tasks import Mean
from tests.live.security.stage import PEOPLE, stage

COLUMNS = {"age": ColumnRule(type="number", bounds=(0, 128))}
ANSWERS = [
    *({"age": each} for each in ("0", "17", "42", "42.5", "93", "128")),
    {}, {"age": ""}, {"age": "-3"}, {"age": "1e400"}, {"age": "nan"}, {"age": "forty-two"},
]  # fmt: skip
OFFERS = 7
"""Enough to tell 128 ages apart, one half at a time."""


def asking(low: float, high: float) -> tuple[Local, Mean, str]:
    return Local(OneBit(epsilon=1.0), n=PEOPLE), Mean(bounds=(low, high)), "age"


def test_join_when_bounds_are_bisected_is_equal_for_every_answer(hub, tmp_path):
    async def main() -> None:
        async with stage(hub, tmp_path, ANSWERS, COLUMNS) as play:
            low, high = 0.0, 128.0
            for _ in range(OFFERS):
                middle = (low + high) / 2
                survey = await play.offer(*asking(low, middle - 0.5))
                seen = {play.seen(person, survey) for person in range(PEOPLE)}
                assert [each.declined for each in seen] == ["policy"]
                assert [each.frames for each in seen] == [()]
                assert all(each.log for each in seen)
                high = middle

    asyncio.run(main())


def test_report_when_bounds_are_the_policys_looks_equal_for_every_answer(hub, tmp_path):
    async def main() -> None:
        async with stage(hub, tmp_path, ANSWERS, COLUMNS) as play:
            survey = await play.offer(*asking(0.0, 128.0))
            run = await play.run(survey)
            assert run.collected.received == PEOPLE
            seen = [play.seen(person, survey) for person in range(PEOPLE)]
            assert len(set(seen)) == 1
            assert seen[0].declined is None

    asyncio.run(main())
