"""Surveys of several questions: one offer, one join, one line of the ledger, an answer to each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from incrowd.graphs import families
from incrowd.live import accounting, admission
from incrowd.live import task as tasks
from incrowd.live.accounting import MOST
from incrowd.live.answers import Answers, Secret
from incrowd.live.curator import Proposal
from incrowd.live.policy import ColumnRule
from incrowd.live.policy_write import question_columns
from incrowd.live.reasons import Reason
from incrowd.live.task import Described
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import covered, parts_of
from incrowd.protocols.joint import JointProtocol
from incrowd.protocols.local import Local
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.runtime.actor import SHUFFLER
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import KRR, Laplace, Ternary
from incrowd.randomizers.base import Randomizer
from incrowd.tasks.base import Asked
from incrowd.tasks.histogram import Histogram
from incrowd.tasks.joint import JointTask
from incrowd.tasks.mean import Mean
from tests.live.crowds import DELTA, ROUND, crowd, until
from tests.live.office import Office, refused
from tests.live.overheard import SECONDS, shuffler_of
from tests.live.policies import wide
from tests.live.worlds import LiveHub

PEOPLE = 5
EPSILON = 12.0
"""So large that every report is all but always the truth."""
CYCLES = Asked(text="Do you cycle?", column="cycles", task=Histogram(categories=("no", "yes")))
HOURS = Asked(text="How long?", column="hours", task=Mean(bounds=(0, 10)))
BOTH = JointTask(asked=(CYCLES, HOURS))
COLUMNS = question_columns(BOTH, "")
ROWS: tuple[Mapping[str, str], ...] = (
    {"cycles": "yes", "hours": "10"},
    {"cycles": "no", "hours": "0"},
    {"cycles": "yes", "hours": "10"},
    {"cycles": "yes"},
    {"hours": "0"},
)
"""Two people leave one of the questions out."""


def answers(person: int) -> Answers:
    return Answers({column: Secret(text) for column, text in ROWS[person].items()})


def part(kind: str, randomizer: Randomizer, people: int) -> Protocol:
    if kind == "network-shuffle":
        return NetworkShuffle(randomizer, graph=families.complete(people), rounds=2)
    return {"local": Local, "trusted-shuffle": TrustedShuffle}[kind](randomizer, n=people)


def both(kind: str, people: int = PEOPLE, epsilon: float = EPSILON) -> JointProtocol:
    randomizers = (KRR(categories=3, epsilon=epsilon), Ternary(epsilon=epsilon))
    return JointProtocol.of([part(kind, each, people) for each in randomizers])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("questions-hub"))
    yield hub
    hub.stop()


@pytest.mark.parametrize(
    ("kind", "cover"),
    [
        ("local", False),
        ("trusted-shuffle", False),
        ("trusted-shuffle", True),
        ("network-shuffle", False),
        ("network-shuffle", True),
    ],
)
def test_survey_of_two_questions_answers_both_for_one_line(
    hub: LiveHub, tmp_path: Path, kind: str, cover: bool
) -> None:
    protocol = both(kind)

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
                protocol=protocol, question=BOTH, column="", helpers=helpers, cover=cover,
                round_seconds=SECONDS, timeout=30.0,
            )  # fmt: skip
            assert [each.column for each in proposal.spec.questions] == ["cycles", "hours"]
            run = await people.conclude(await people.begin(proposal))
            cycles, hours = run.answers
            np.testing.assert_allclose(cycles.value, [0.2, 0.6, 0.2], atol=0.01)
            np.testing.assert_allclose(hours.value, [5.0, 0.2], atol=0.1)
            assert [each.received for each in run.collected.parts] == [PEOPLE, PEOPLE]
            for person in range(PEOPLE):
                (line,) = devices.lines(person)
                assert (line.survey, line.question) == (proposal.survey, "Do you cycle?")
                assert line.questions == ("Do you cycle?", "How long?")
                assert_composed(line.promises, protocol, cover)
                # Whoever learns whose reports these are learns both.
                assert EPSILON < line.epsilon0 <= 2 * EPSILON * (1 + 1e-9)

    asyncio.run(main())


def assert_composed(
    promises: list[tuple[str, float, float]], protocol: JointProtocol, cover: bool
) -> None:
    """A line costs what both questions do together: more than either, and not more than the sum."""
    played = covered(protocol, DELTA, accounting.CELLS) if cover else protocol
    first, second = parts_of(played)
    assert [view for view, *_ in promises] == sorted(protocol.views)
    for view, epsilon, delta in promises:
        assert delta == DELTA
        one, other = first.guarantee(view), second.guarantee(view)
        assert epsilon == pytest.approx(one.compose(other).epsilon(DELTA))
        assert epsilon >= max(one.epsilon(DELTA), other.epsilon(DELTA))
        assert epsilon <= (one.epsilon(DELTA / 2) + other.epsilon(DELTA / 2)) * (1 + 1e-6)


def test_devices_that_restart_go_on_with_both_questions(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            devices = await people.process(
                "all", range(PEOPLE), policy=partial(wide, columns=COLUMNS), answers=answers
            )
            proposal = await people.offered(
                protocol=both("network-shuffle"), question=BOTH, column="", timeout=20.0
            )
            started = await people.begin(proposal)
            receiving = asyncio.create_task(people.conclude(started))
            while people.host.time() < started.start.at + 0.5 * ROUND:
                await asyncio.sleep(0.02)
            with people.pace.held():
                await devices.close()
                await devices.open()
                await until(lambda: devices.begun(proposal.survey))
            run = await receiving
            assert [each.received for each in run.collected.parts] == [PEOPLE, PEOPLE]
            assert [len(devices.lines(person)) for person in range(PEOPLE)] == [1] * PEOPLE

    asyncio.run(main())


REFUSING: Mapping[str, Mapping[str, ColumnRule]] = {
    "lacks the second column": {"cycles": COLUMNS["cycles"]},
    "lacks the first column": {"hours": COLUMNS["hours"]},
    "has other bounds": {**COLUMNS, "hours": ColumnRule(type="number", bounds=(0, 24))},
    "has other categories": {
        **COLUMNS, "cycles": ColumnRule(type="category", values=("yes", "no"))
    },
}  # fmt: skip


def test_device_whose_policy_does_not_allow_each_question_declines_them_all(
    hub: LiveHub, tmp_path: Path
) -> None:
    """Nothing of it leaves; the others go on without it."""
    everyone = 3 + len(REFUSING)

    async def main() -> None:
        async with crowd(hub, tmp_path, everyone) as people:
            willing = await people.process(
                "willing", range(3), policy=partial(wide, columns=COLUMNS), answers=answers
            )
            refusing = [
                await people.process(f"refusing-{at}", [at], policy=partial(wide, columns=columns))
                for at, columns in enumerate(REFUSING.values(), 3)
            ]
            proposal = await people.offered(
                protocol=both("local", everyone), question=BOTH, column="", timeout=20.0
            )
            for each in refusing:
                await until(lambda who=each: who.refusals(proposal.survey) == ["policy"])
            run = await people.conclude(await people.start(proposal, wait=5.0))
            assert [each.received for each in run.collected.parts] == [3, 3]
            assert all(each.silent(proposal.survey) for each in refusing)
            assert [len(willing.lines(person)) for person in range(3)] == [1, 1, 1]
            assert not any(each.lines(at) for at, each in enumerate(refusing, 3))

    asyncio.run(main())


# Offers of a hostile curator.


@pytest.fixture(scope="module")
def office() -> Office:
    return Office()


def offer(office: Office, kind: str = "local") -> Proposal:
    """An honest offer of both questions."""
    return office.proposal(both(kind, len(office.people), 1.0), task=BOTH, column="")


@pytest.mark.parametrize("kind", ["local", "trusted-shuffle", "network-shuffle"])
def test_honest_offer_of_two_questions_is_what_it_says(office: Office, kind: str) -> None:
    proposal = offer(office, kind)
    found = office.examine(proposal)
    assert found.task == BOTH
    assert found.protocol == both(kind, len(office.people), 1.0)
    assert tasks.sign_task(found.spec, office.curator.identity) == proposal.signed


def never(*words: Any, **options: Any) -> None:
    raise AssertionError("something was built or computed")


@pytest.mark.parametrize("count", [0, 256, 300])
def test_too_few_or_many_questions_are_refused_before_anything_is_read(
    office: Office, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    proposal = offer(office)
    for place, name in ((admission, "recompute"), (admission, "build"), (tasks, "decode_roster")):
        monkeypatch.setattr(place, name, never)
    many = (proposal.spec.questions * 150)[:count]
    refused(Reason.malformed, lambda: office.examine(proposal, questions=many))


def second(proposal: Proposal, **changes: Any) -> list[Described]:
    """The questions, with another second one."""
    one, other = proposal.spec.questions
    return [one, msgspec.structs.replace(other, **changes)]


UNFIT = {
    "another domain of one column": (
        {"column": "cycles"},
        "two questions",
    ),
    "other categories of one column": (
        {
            "column": "cycles",
            "task": msgspec.to_builtins(Histogram(categories=("yes", "no"))),
            "randomizer": msgspec.to_builtins(KRR(categories=3, epsilon=1.0)),
        },
        "two questions",
    ),
    "a release": (
        {
            "task": {"kind": "release", "categories": ["a", "b", "c"], "groups": "street"},
            "randomizer": {"kind": "krr", "categories": 4, "epsilon": 1.0},
        },
        "stands alone",
    ),
    "a vector": (
        {
            "task": {"kind": "vector", "dimension": 2},
            "randomizer": {"kind": "privunit", "dimension": 2, "epsilon": 1.0},
        },
        "stands alone",
    ),
}


@pytest.mark.parametrize(("changes", "says"), UNFIT.values(), ids=UNFIT)
def test_questions_that_do_not_go_together_are_refused_before_a_protocol_is_built(
    office: Office, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], says: str
) -> None:
    proposal = offer(office)
    questions = second(proposal, **changes)
    refused(Reason.malformed, lambda: office.examine(proposal, questions=questions), says)
    spec = msgspec.structs.replace(proposal.spec, questions=questions)
    monkeypatch.setattr(tasks, "build", never)
    refused(Reason.malformed, lambda: tasks.offered_protocol(spec, None), says)


def test_places_of_several_releases_do_not_leave_in_the_clear_unasked(office: Office) -> None:
    """A policy is asked about the columns of the questions; places would be sent beside them."""
    proposal = offer(office)
    released = Described(
        text="Which vote is where?",
        column="vote",
        task={"kind": "release", "categories": ["a", "b", "c"], "groups": "street"},
        parameters={"n": len(office.people), "alpha": 1.0},
        randomizer={"kind": "krr", "categories": 4, "epsilon": 1.0},
    )
    spec = msgspec.structs.replace(proposal.spec, protocol="order-shuffle", questions=[released])
    assert tasks.offered_protocol(spec, None)[0].kind == "order-shuffle"
    twice = msgspec.structs.replace(spec, questions=[released, released])
    refused(Reason.malformed, lambda: tasks.offered_protocol(twice, None), "stands alone")


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"n": 7}},
        {"parameters": {"n": 6, "graph": "regular:4"}},
        {"task": {"kind": "opinion"}},
        {"task": {"kind": "joint", "asked": []}},
        {"randomizer": {"kind": "joint", "parts": []}},
        {"randomizer": {"kind": "krr", "categories": 3, "epsilon": 1.0}},
        {"randomizer": {}},
    ],
    ids=str,
)
def test_second_question_is_examined_as_the_first_is(
    office: Office, changes: dict[str, Any]
) -> None:
    proposal = offer(office)
    questions = second(proposal, **changes)
    refused(Reason.malformed, lambda: office.examine(proposal, questions=questions))


def test_second_question_in_floating_point_is_refused(office: Office) -> None:
    proposal = offer(office)
    questions = second(proposal, randomizer=msgspec.to_builtins(Laplace(epsilon=1.0)))
    says = "laplace is drawn in floating point"
    refused(Reason.unproven, lambda: office.examine(proposal, questions=questions), says)


def test_limits_hold_for_each_question_and_for_all_steps_together(office: Office) -> None:
    proposal = offer(office)
    endless = second(proposal, parameters={"n": 6, "rounds": 2**31 - 1})
    refused(Reason.oversized, lambda: office.examine(proposal, questions=endless))
    long = {"steps": MOST["steps"] * 3 // 5}
    walked = [msgspec.structs.replace(each, parameters=long) for each in proposal.spec.questions]
    spec = msgspec.structs.replace(proposal.spec, questions=walked[:1])
    accounting.check_limits(spec)
    refused(Reason.oversized, lambda: office.examine(proposal, questions=walked), "steps")


@pytest.mark.parametrize("kind", ["local", "trusted-shuffle", "network-shuffle"])
def test_promise_of_one_question_for_both_is_refused(office: Office, kind: str) -> None:
    proposal = offer(office, kind)
    single = parts_of(both(kind, len(office.people), 1.0))[0]
    alone = accounting.promises_of(single, DELTA)
    refused(Reason.unproven, lambda: office.examine(proposal, promises=alone), "but only")
    few = replace(proposal, spec=msgspec.structs.replace(proposal.spec, promises=alone))
    one = proposal.spec.questions[:1]
    assert office.examine(few, questions=one).task == CYCLES.task
