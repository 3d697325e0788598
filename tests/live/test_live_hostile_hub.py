"""Hubs and curators that lie, against devices that are real: nothing leaves that must not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from incrowd.graphs import families
from incrowd.live import frames
from incrowd.live import task as tasks
from incrowd.live.admission import Started
from incrowd.live.authority import Authority
from incrowd.live.cells import COMPARE, DATA
from incrowd.live.client import HubClient
from incrowd.live.curator import Proposal
from incrowd.live.hub.messages import Survey
from incrowd.live.journal import Fact
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.task import Start
from incrowd.protocols.run import Run
from tests.live.crowds import DELTA, ROUND, Crowd, HeldBack, crowd, until, walk
from tests.live.policies import wide
from tests.live.specs import changed
from tests.live.worlds import LiveHub

PEOPLE = 6


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("hostile-hub"))
    yield hub
    hub.stop()


class Liar(HubClient):
    """A hub that answers some questions otherwise, by the name of what was asked for."""

    def __init__(self, url: str, tls: Any) -> None:
        super().__init__(url, tls)
        self.lies: dict[str, Callable[[Any], Any]] = {}

    def _told(self, what: str, truth: Any) -> Any:
        return self.lies.get(what, lambda same: same)(truth)

    async def survey(self, survey: bytes) -> Survey:
        found = await super().survey(survey)
        found = msgspec.structs.replace(found, task=self._told("task", found.task))
        return msgspec.structs.replace(found, start=self._told("start", found.start))

    async def revocations(self) -> bytes | None:
        return self._told("crl", await super().revocations())

    async def roster(self, survey: bytes) -> bytes:
        return self._told("roster", await super().roster(survey))

    async def graph(self, survey: bytes) -> bytes:
        return self._told("graph", await super().graph(survey))


def lying(**lies: Callable[[Any], Any]) -> Callable[[Any, Any], HubClient]:
    def make(url: str, tls: Any) -> HubClient:
        liar = Liar(url, tls)
        liar.lies |= lies
        return liar

    return make


def resigned(crowd: Crowd, proposal: Proposal, **changes: Any) -> bytes:
    """Another task, which the curator has signed as well."""
    spec = changed(proposal.spec, **changes)
    return tasks.encode_signed(tasks.sign_task(spec, crowd.curator.keys.identity))


def tampered(signed: bytes, **changes: Any) -> bytes:
    """The task with other contents under the signature that it had."""
    body, signature = msgspec.msgpack.decode(signed)
    spec = msgspec.msgpack.decode(body, type=tasks.Spec)
    other = msgspec.msgpack.encode(changed(spec, **changes))
    return tasks.encode_signed(tasks.Signed(other, signature))


Lies = Callable[[Crowd, Proposal], dict[str, Any]]


def _parameters(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    return {"task": lambda true: tampered(true, parameters={"n": PEOPLE, "rounds": 0})}


def _promise(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    low = [msgspec.structs.replace(each, epsilon=0.01) for each in proposal.spec.promises]
    return {"task": lambda _: resigned(crowd, proposal, promises=low)}


def _fewer_rounds(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    """A walk of no rounds under the promise of the walk that was planned."""
    parameters = {**proposal.spec.questions[0].parameters, "rounds": 0}
    return {"task": lambda _: resigned(crowd, proposal, parameters=parameters)}


def _roster(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    return {"roster": lambda _: tasks.encode_roster(crowd.records[::-1])[0]}


def _graph(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    return {"graph": lambda _: tasks.encode_graph(families.ring(PEOPLE))[0]}


def _surrounded(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    """Everyone but the victim is a key that the hub has made itself."""
    own = Authority.create()
    others = [own.issue(f"friend-{each}", Role.device).record() for each in range(PEOPLE - 1)]
    roster, hashed = tasks.encode_roster([crowd.records[0], *others])
    return {"task": lambda _: resigned(crowd, proposal, roster=hashed), "roster": lambda _: roster}


def _sock_puppet(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    """Everyone but the victim is one person."""
    records = crowd.records
    same = [msgspec.structs.replace(records[1], name=f"friend-{each}") for each in range(5)]
    roster, hashed = tasks.encode_roster([records[0], *same])
    return {"task": lambda _: resigned(crowd, proposal, roster=hashed), "roster": lambda _: roster}


def _own_curator(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    keys = Authority.create().issue("census", Role.curator)
    spec = msgspec.structs.replace(proposal.spec, helpers={"curator": keys.record()})
    signed = tasks.encode_signed(tasks.sign_task(spec, keys.identity))
    return {"task": lambda _: signed}


def _other_survey(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    return {"task": lambda _: resigned(crowd, proposal, survey=bytes(16))}


def _garbage(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    return {"task": lambda _: b"\x91" * 5000}


def _revocations(crowd: Crowd, proposal: Proposal) -> dict[str, Any]:
    """A list on which another authority has put somebody."""
    return {"crl": lambda _: Authority.create().revoke([1])}


@pytest.mark.parametrize(
    ("lies", "reason"),
    [
        (_parameters, "forged"),
        (_promise, "unproven"),
        (_fewer_rounds, "unproven"),
        (_roster, "forged"),
        (_graph, "forged"),
        (_surrounded, "forged"),
        (_sock_puppet, "malformed"),
        (_own_curator, "policy"),
        (_other_survey, "foreign"),
        (_garbage, "malformed"),
        (_revocations, "forged"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_a_device_that_is_lied_to_does_not_join(
    hub: LiveHub, tmp_path: Path, lies: Lies, reason: str
) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            for keys in people.keys[1:]:
                await people.host.hub.enrol(keys.record())
            proposal = people.proposal()
            victim = await people.process("victim", [0], hub=lying(**lies(people, proposal)))
            await people.curator.open_survey(proposal)
            device = victim.devices[0]
            await until(lambda: proposal.survey in device.declined)
            assert device.declined[proposal.survey] == reason
            assert victim.silent(proposal.survey)
            assert await people.host.hub.joins(proposal.survey) == []

    asyncio.run(main())


def promised(started: Started) -> dict[str, float]:
    return {each.view: each.epsilon for each in started.start.promises}


def assert_as_promised(run: Run, started: Started) -> None:
    """Worse only where somebody was away, which on a machine that is busy happens to anyone."""
    proven = run.guarantees[0].epsilon(DELTA)
    if run.collected.away is None:
        assert proven == promised(started)["curator"]
    else:
        assert proven >= promised(started)["curator"]


# Starts.


async def two_starts(people: Crowd, proposal: Proposal, apart: float) -> tuple[bytes, bytes]:
    """Two starts of one survey, each valid for everyone."""
    offer, joins = await people.joined(proposal)
    at = people.host.time() + 1.5
    first, second = (
        tasks.encode_signed(
            tasks.sign_start(
                Start(digest=offer.digest, at=when, joins=joins, promises=offer.spec.promises),
                people.curator.keys.identity,
            )
        )
        for when in (at, at + apart)
    )
    return first, second


def test_two_starts_end_it_before_anything_has_left(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            other: list[bytes] = []
            there = await people.process("there", [0, 1, 2])
            here = await people.process(
                "here", [3, 4, 5], hub=lying(start=lambda true: true and other[0])
            )
            proposal = await people.offered()
            survey = proposal.survey
            first, second = await two_starts(people, proposal, 0.001)
            other.append(second)
            await people.host.hub.start(survey, first)
            for half in (there, here):
                await until(lambda half=half: None not in half.refusals(survey))
                assert half.refusals(survey) == ["equivocal"] * 3
                assert half.silent(survey)
            # Not even a restart, and a hub that lies no more, makes them try again.
            await here.close()
            here._hub = None
            await here.open()
            here.devices[3]._news(frames.News(survey, "started"))
            await asyncio.sleep(0.2)
            assert here.silent(survey)
            assert not any(each._lives for each in here.devices.values())

    asyncio.run(main())


def test_a_start_that_lies_behind_gives_no_walk(hub: LiveHub, tmp_path: Path) -> None:
    """Whoever began after the rounds would hand in their own report, next to their name."""

    async def main() -> None:
        async with crowd(hub, tmp_path, 3) as people:
            crowd_ = await people.process("all", [0, 1, 2])
            proposal = await people.offered()
            offer, joins = await people.joined(proposal)
            start = Start(
                digest=offer.digest,
                at=people.host.time() - 4 * ROUND,
                joins=joins,
                promises=offer.spec.promises,
            )
            signed = tasks.sign_start(start, people.curator.keys.identity)
            await people.host.hub.start(proposal.survey, tasks.encode_signed(signed))
            await until(lambda: None not in crowd_.refusals(proposal.survey))
            assert crowd_.refusals(proposal.survey) == ["expired"] * 3
            assert crowd_.silent(proposal.survey)

    asyncio.run(main())


def test_a_device_that_hears_nobody_does_not_begin(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            others = await people.process("others", [0, 1, 2, 3, 4])
            victim = await people.process("victim", [5], connection=HeldBack)
            connection = victim.devices[5].connection
            assert isinstance(connection, HeldBack)
            connection.keeps = lambda cell: cell[1] == COMPARE
            # Reports that walked to the victim would wait there for ever.
            still = walk(PEOPLE, rounds=0)
            proposal = await people.offered(protocol=still, timeout=1.5)
            started = await people.start(proposal)
            run = await people.conclude(started)
            await until(lambda: None not in victim.refusals(proposal.survey))
            assert victim.refusals(proposal.survey) == ["equivocal"]
            assert victim.silent(proposal.survey)
            # The others heard most of their contacts, and go on.
            assert run.collected.received == 5
            assert others.refusals(proposal.survey) == [None] * 5
            assert all(len(others.lines(person)) == 1 for person in range(5))

    asyncio.run(main())


# A survey in which the hub is slow, forgetful, or asks twice.


def test_cells_held_back_for_a_while_are_not_lost(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            await people.process("others", [0, 1, 2, 3, 4])
            victim = await people.process("victim", [5], connection=HeldBack)
            connection = victim.devices[5].connection
            assert isinstance(connection, HeldBack)
            connection.keeps = lambda cell: cell[1] == DATA
            proposal = await people.offered(grace_rounds=4)
            started = await people.begin(proposal)
            receiving = asyncio.create_task(people.conclude(started))
            # All rounds pass without a single report for the victim.
            await until(lambda: people.host.time() > started.start.at + 3 * ROUND)
            assert victim.devices[5].parties[proposal.survey].statistics.received == 0
            assert connection.let_go() > 0
            run = await receiving
            assert run.collected.received == PEOPLE
            assert run.collected.lost == 0
            assert_as_promised(run, started)

    asyncio.run(main())


def test_who_is_away_shows_in_the_guarantee(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            await people.process("others", [0, 1, 2, 3, 4])
            sleeper = await people.process("sleeper", [5])
            proposal = await people.offered(grace_rounds=3)
            started = await people.begin(proposal)
            receiving = asyncio.create_task(people.conclude(started))
            await sleeper.close()
            await until(lambda: people.host.time() > started.start.at + 3 * ROUND)
            await sleeper.open()
            run = await receiving
            assert run.collected.away[:, 5].any()
            assert run.guarantees[0].epsilon(DELTA) > promised(started)["curator"]
            assert len(sleeper.lines(5)) == 1

    asyncio.run(main())


def test_a_survey_is_answered_once(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, 4) as people:
            all_ = await people.process("all", range(4))
            proposal = await people.offered()
            survey = proposal.survey
            run = await people.conclude(await people.begin(proposal))
            assert run.collected.received == 4
            await until(lambda: not any(each._lives for each in all_.devices.values()))
            sent = [each.parties[survey].statistics.cells for each in all_.devices.values()]
            # The same process is told again, in either way.
            for what in ("offered", "started"):
                for each in all_.devices.values():
                    each._news(frames.News(survey, what))
            await asyncio.sleep(0.1)
            assert [each.parties[survey].statistics.cells for each in all_.devices.values()] == sent
            await all_.close()
            # Another process is, too.
            await all_.open()
            for each in all_.devices.values():
                each._news(frames.News(survey, "started"))
            await asyncio.sleep(0.1)
            assert not any(each._lives for each in all_.devices.values())
            # Even one that has forgotten everything but the ledger does not answer again.
            device = all_.devices[2]
            gone = [Fact(device.identity, survey, key, None) for key in ("over", "digest")]
            await all_.host.note(*gone)
            device._news(frames.News(survey, "offered"))
            await until(lambda: survey in device.declined)
            assert device.declined[survey] == "answered"
            assert not device.parties
            assert [len(all_.lines(person)) for person in range(4)] == [1] * 4

    asyncio.run(main())


# Budgets.


def test_who_cannot_afford_it_stays_out_and_the_rest_goes_on(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, PEOPLE) as people:
            poor = await people.process("poor", [2], policy=partial(wide, epsilon=0.5))
            others = await people.process("others", [0, 1, 3, 4, 5])
            proposal = await people.offered()
            survey = proposal.survey
            await until(lambda: poor.refusals(survey) == ["budget"])
            started = await people.start(proposal, wait=0.5)
            assert started.start.people == [0, 1, 3, 4, 5]
            run = await people.conclude(started)
            assert run.collected.received == 5
            assert started.protocol.n == 5
            assert poor.silent(survey)
            assert poor.host.ledger.lines(poor.devices[2].identity) == ()
            # Everybody else knows what the smaller crowd costs, and has written that down.
            planned = {each.view: each.epsilon for each in proposal.spec.promises}
            stated = promised(started)
            assert stated["curator"] > planned["curator"]
            assert_as_promised(run, started)
            for number, person in enumerate(others.people):
                (line,) = others.lines(person)
                assert line.cost("curator") == (stated["curator"], DELTA)
                address = others.devices[person].parties[survey].address
                assert address == f"device/{number}"

    asyncio.run(main())


def test_two_surveys_at_a_time_cannot_reserve_one_budget_twice(
    hub: LiveHub, tmp_path: Path
) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, 3) as people:
            cost = people.proposal().spec.promises[0].epsilon
            all_ = await people.process("all", range(3), policy=partial(wide, epsilon=1.5 * cost))
            first = await people.offered()
            await people.joined(first)
            # The first one holds its price from the join on, though it has not begun.
            second = await people.offered()
            await until(lambda: None not in all_.refusals(second.survey))
            assert all_.refusals(second.survey) == ["budget"] * 3
            run = await people.conclude(await people.begin(first))
            assert run.collected.received == 3
            assert all_.silent(second.survey)
            for person in range(3):
                (line,) = all_.lines(person)
                assert line.survey == first.survey

    asyncio.run(main())


# Keys.


def test_new_sealing_keys_are_for_the_surveys_to_come(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, 4) as people:
            all_ = await people.process("all", range(4))
            proposal = await people.offered()
            await people.joined(proposal)
            # Renewed between the join and the start: the survey is sealed to the old key.
            device, path = all_.devices[1], people.paths[1]
            PrivateKeys.load(path).rotate().save(path)
            await device.renew()
            assert device.keys.serial == 2
            started = await people.begin(proposal)
            assert started.records["device/1"].serial == 1
            run = await people.conclude(started)
            assert run.collected.received == 4
            assert device.parties[proposal.survey].statistics.rejected == {}
            enrolled = {each.name: each for each in await people.host.hub.keys()}
            roster = [enrolled[each.name] for each in people.keys]
            assert [each.serial for each in roster] == [1, 2, 1, 1]
            run = await people.conclude(await people.begin(await people.offered(roster=roster)))
            assert run.collected.received == 4
            assert not any(each.declined for each in all_.devices.values())

    asyncio.run(main())


def test_the_walk_of_these_tests_hides_people() -> None:
    """Else promises of smaller crowds could not be told apart from those of larger ones."""
    few, many = (walk(each).guarantee("curator").epsilon(DELTA) for each in (5, 6))
    alone = walk(6).guarantee("everyone").epsilon(DELTA)
    assert 0.5 < many < few < alone < 1
