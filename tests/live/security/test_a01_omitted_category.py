"""A1: offers that omit one category at a time, to see who stays away.

A device that declines because it has no answer to give tells the curator which answer it has, and
spends nothing by it.
"""

from __future__ import annotations

import asyncio

from incrowd.live.policy import ColumnRule
from incrowd.protocols.local.spec import Local
from incrowd.randomizers import KRR
from incrowd.tasks.histogram import Histogram
from tests.live.security.stage import PEOPLE, stage

DIAGNOSES = ("none", "asthma", "diabetes", "hiv")
COLUMNS = {"diagnosis": ColumnRule(type="category", values=DIAGNOSES)}
ANSWERS = [
    *({"diagnosis": each} for each in DIAGNOSES),
    {}, {"diagnosis": ""}, {"diagnosis": "  "}, {"diagnosis": "HIV"}, {"diagnosis": "no answer"},
    {"diagnosis": "\ud7ff\x00'); --"}, {"diagnosis": "9" * 5000}, {"other": "hiv"},
]  # fmt: skip


def asking(categories: tuple[str, ...]) -> tuple[Local, Histogram, str]:
    task = Histogram(categories=categories)
    return Local(KRR(categories=len(task.labels), epsilon=1.0), n=PEOPLE), task, "diagnosis"


def test_join_when_category_is_omitted_is_equal_for_every_answer(hub, tmp_path):
    async def main() -> None:
        async with stage(hub, tmp_path, ANSWERS, COLUMNS) as play:
            for omitted in DIAGNOSES:
                kept = tuple(each for each in DIAGNOSES if each != omitted)
                survey = await play.offer(*asking(kept))
                seen = {play.seen(person, survey) for person in range(PEOPLE)}
                assert [each.declined for each in seen] == ["policy"]
                assert [each.frames for each in seen] == [()]
                assert all("policy" in line for each in seen for line in each.log)
                assert all(each.log for each in seen)
            # Reordered, extended, or without the outcome that is reserved for a missing answer.
            for others in (DIAGNOSES[::-1], (*DIAGNOSES, "flu")):
                survey = await play.offer(*asking(others))
                assert {play.seen(each, survey).declined for each in range(PEOPLE)} == {"policy"}
            complete = Histogram(categories=DIAGNOSES, complete=True)
            survey = await play.offer(
                Local(KRR(categories=4, epsilon=1.0), n=PEOPLE), complete, "diagnosis"
            )
            assert {play.seen(each, survey).declined for each in range(PEOPLE)} == {"policy"}

    asyncio.run(main())


def test_report_when_categories_are_the_policys_looks_equal_for_every_answer(hub, tmp_path):
    async def main() -> None:
        async with stage(hub, tmp_path, ANSWERS, COLUMNS) as play:
            survey = await play.offer(*asking(DIAGNOSES))
            run = await play.run(survey)
            assert run.collected.received == PEOPLE
            seen = [play.seen(person, survey) for person in range(PEOPLE)]
            assert len(set(seen)) == 1
            assert seen[0].declined is None
            assert len(seen[0].lines) == 1
            assert sum(len(told) - 1 for told in seen[0].frames) >= 1

    asyncio.run(main())
