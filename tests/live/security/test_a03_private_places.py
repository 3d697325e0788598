"""A3: a release whose place is a private column, sent and published in the clear."""

from __future__ import annotations

import asyncio

import pytest

from incrowd.live.policy import ColumnRule
from incrowd.protocols.order_shuffle.spec import OrderShuffle
from incrowd.randomizers import KRR
from incrowd.tasks.release import Release
from tests.live.security.stage import PEOPLE, stage

VOTES = ("keep", "drop")
COLUMNS = {
    "vote": ColumnRule(type="category", values=VOTES),
    "income": ColumnRule(type="number", bounds=(0, 1e6)),
    "diagnosis": ColumnRule(type="category", values=("none", "hiv")),
    "district": ColumnRule(type="category", values=("north", "south"), public=True),
}
ANSWERS = [
    {"vote": VOTES[person % 2], "income": str(7919 * person), "diagnosis": "hiv"}
    for person in range(PEOPLE - 2)
] + [{}, {"income": "secret"}]


def asking(**place: object) -> tuple[OrderShuffle, Release, str]:
    task = Release(categories=VOTES, **place)
    randomizer = KRR(categories=len(task.labels), epsilon=1.0)
    chosen = OrderShuffle(randomizer, n=PEOPLE, alpha=1.0, **_grouping(task))
    return chosen.bound_to(task), task, "vote"


def _grouping(task: Release) -> dict[str, object]:
    return {"metric": "euclidean", "radius": 1.0} if task.coordinates else {}


@pytest.mark.parametrize(
    "place", [{"groups": "diagnosis"}, {"groups": "income"}, {"coordinates": ("income",)}]
)
def test_release_when_its_place_is_private_is_declined_and_no_byte_leaves(hub, tmp_path, place):
    async def main() -> None:
        async with stage(hub, tmp_path, ANSWERS, COLUMNS) as play:
            survey = await play.offer(*asking(**place))
            seen = {play.seen(person, survey) for person in range(PEOPLE)}
            assert [each.declined for each in seen] == ["policy"]
            assert [each.frames for each in seen] == [()]
            assert [each.lines for each in seen] == [()]

    asyncio.run(main())


def test_release_when_its_place_is_public_is_joined(hub, tmp_path):
    async def main() -> None:
        async with stage(hub, tmp_path, ANSWERS, COLUMNS) as play:
            survey = await play.offer(*asking(groups="district"))
            assert {play.seen(person, survey).declined for person in range(PEOPLE)} == {None}

    asyncio.run(main())
