"""Surveys of which each device draws one question: the offer says with which chances."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from incrowd.live import accounting
from incrowd.live.answers import Answers, Secret
from incrowd.live.policy_write import question_columns
from incrowd.live.reasons import Reason
from incrowd.protocols.api import Protocol
from incrowd.protocols.local import Local
from incrowd.protocols.runtime.actor import SHUFFLER
from incrowd.randomizers import KRR, OneOf, Ternary
from incrowd.tasks.base import Asked
from incrowd.tasks.histogram import Histogram
from incrowd.tasks.joint import OneOfTask
from incrowd.tasks.mean import Mean
from incrowd.tasks.parts import answered
from tests.live.crowds import DELTA, crowd
from tests.live.office import Office, refused
from tests.live.overheard import SECONDS, shuffler_of
from tests.live.policies import wide
from tests.live.test_live_questions import part
from tests.live.worlds import LiveHub

PEOPLE = 20
"""Enough that a question which no device draws is seen once in a million runs."""
EPSILON = 16.0
"""So large that every report is all but always the truth."""
TASK = OneOfTask(
    asked=(
        Asked(text="Do you cycle?", column="cycles", task=Histogram(categories=("no", "yes"))),
        Asked(text="How long?", column="hours", task=Mean(bounds=(0, 10))),
    )
)
COLUMNS = question_columns(TASK, "")


def drawn(kind: str, people: int = PEOPLE, epsilon: float = EPSILON) -> Protocol:
    randomizers = (KRR(categories=3, epsilon=epsilon), Ternary(epsilon=epsilon))
    return part(kind, OneOf(randomizers, (0.5, 0.5)), people)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("drawn-hub"))
    yield hub
    hub.stop()


@pytest.mark.parametrize(
    ("kind", "cover"), [("local", False), ("trusted-shuffle", True), ("network-shuffle", False)]
)
def test_each_device_answers_one_of_two_questions_for_one_line(
    hub: LiveHub, tmp_path: Path, kind: str, cover: bool
) -> None:
    protocol = drawn(kind)

    def answers(person: int) -> Answers:
        return Answers({"cycles": Secret("yes"), "hours": Secret("10")})

    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people, AsyncExitStack() as stack:
            devices = await people.process(
                "all", range(PEOPLE), policy=partial(wide, columns=COLUMNS), answers=answers
            )
            helpers = {}
            if SHUFFLER in protocol.helpers:
                keys = await stack.enter_async_context(shuffler_of(people))
                helpers = {SHUFFLER: keys.record()}
            proposal = await people.offered(
                protocol=protocol, question=TASK, column="", helpers=helpers, cover=cover,
                round_seconds=SECONDS, timeout=30.0,
            )  # fmt: skip
            assert proposal.spec.chances == [0.5, 0.5]
            run = await people.conclude(await people.begin(proposal))
            cycles, hours = run.answers
            np.testing.assert_allclose(cycles.value, [0, 1, 0], atol=0.01)
            np.testing.assert_allclose(hours.value, [10, 0], atol=0.1)
            sizes = [came.received for came, _ in answered(run.collected, protocol.randomizer)]
            assert sum(sizes) == PEOPLE
            assert min(sizes) > 0
            for person in range(PEOPLE):
                (line,) = devices.lines(person)
                # One report about one question: alone it reveals what one answer does.
                assert 0.99 * EPSILON < line.epsilon0 <= EPSILON
                assert [view for view, *_ in line.promises] == sorted(protocol.views)

    asyncio.run(main())


# Offers of a hostile curator.


@pytest.fixture(scope="module")
def office() -> Office:
    return Office()


def offer(office: Office, kind: str = "local") -> Any:
    return office.proposal(drawn(kind, len(office.people), 1.0), task=TASK, column="")


@pytest.mark.parametrize("kind", ["local", "trusted-shuffle", "network-shuffle"])
def test_honest_offer_of_a_drawn_question_is_what_it_says(office: Office, kind: str) -> None:
    found = office.examine(offer(office, kind))
    assert found.task == TASK
    assert found.protocol == drawn(kind, len(office.people), 1.0)


@pytest.mark.parametrize(
    "chances",
    [[0.5], [0.5, 0.25], [0.5, 0.25, 0.25], [1.5, -0.5], [0.9, 0.2], [float("nan"), 0.5]],
    ids=str,
)
def test_chances_that_are_no_law_of_the_questions_are_refused(
    office: Office, chances: list[float]
) -> None:
    refused(Reason.malformed, lambda: office.examine(offer(office), chances=chances))


def test_guarantee_of_a_drawn_question_is_not_taken_for_that_of_all(office: Office) -> None:
    """The same offer without chances asks both questions, which reveals more."""
    refused(Reason.unproven, lambda: office.examine(offer(office), chances=[]), "but only")


def test_drawn_questions_under_different_settings_are_refused(office: Office) -> None:
    proposal = offer(office, "network-shuffle")
    one, other = proposal.spec.questions
    longer = msgspec.structs.replace(other, parameters={**other.parameters, "rounds": 3})
    refused(
        Reason.malformed,
        lambda: office.examine(proposal, questions=[one, longer]),
        "have one protocol",
    )


def test_guarantee_of_the_weaker_question_for_both_is_refused(office: Office) -> None:
    people = len(office.people)
    randomizer = OneOf((KRR(categories=3, epsilon=0.5), Ternary(epsilon=1.0)), (0.5, 0.5))
    proposal = office.proposal(part("local", randomizer, people), task=TASK, column="")
    alone = accounting.promises_of(Local(randomizer.parts[0], n=people), DELTA)
    refused(Reason.unproven, lambda: office.examine(proposal, promises=alone), "but only")
