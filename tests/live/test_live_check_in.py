"""A check-in with real devices, a shuffler in a process of its own, and a hub that looks on."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from incrowd.cli import main
from incrowd.live.cells import CELL, DATA
from incrowd.live.options import LiveOptions
from incrowd.live.run import run_live
from incrowd.protocols.check_in import CheckIn, roles
from incrowd.protocols.runtime.actor import SHUFFLER
from incrowd.protocols.runtime.delivery import Receipt
from incrowd.randomizers import KRR
from tests.live.chaos_world import (
    DELTA,
    TROUBLE,
    Doom,
    Outcome,
    Stage,
    assert_totals,
    checked_in,
    children,
    staged,
    truthful,
)
from tests.live.crowds import QUESTION
from tests.live.overheard import overhear_shuffle
from tests.live.worlds import LiveHub

# The whole survey on one machine, as `incrowd run --engine live` does it.


@pytest.mark.parametrize("cover", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_live_run_is_the_one_that_was_simulated(tmp_path, monkeypatch, cover):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    people, rounds, rate = 24, 2, 0.4
    protocol = CheckIn(truthful(people), n=people, rounds=rounds, rate=rate)
    values = np.arange(people)
    hosted: list[list[str]] = []

    def look(stage: str, done: int, total: int) -> None:
        del done, total
        if stage in ("comparing", "round") and not hosted:
            hosted.extend(children().values())

    run = run_live(
        protocol, values, delta=DELTA, hosts=1, progress=look,
        options=LiveOptions(cover=cover, round_seconds=4.0, grace_rounds=3),
    )  # fmt: skip
    simulated = protocol.simulate(values, seed=1)
    collected: Any = run.collected
    assert collected.present == (people,) * rounds
    for reports, drawn in zip(collected.rounds, simulated.collected.rounds, strict=True):
        assert (reports.dtype, reports.shape[1:]) == (drawn.dtype, drawn.shape[1:])
        assert len(set(reports.tolist())) == len(reports)
    # Once in a million runs the coins are as strange as this, on either side.
    assert binom.ppf(1e-6, people * rounds, rate) <= collected.received
    assert collected.received <= binom.isf(1e-6, people * rounds, rate)
    assert collected.sent == collected.received
    assert run.cost == simulated.cost
    assert run.live.rejected == {}
    for given, due in zip(run.guarantees, simulated.guarantees, strict=True):
        assert given.view == due.view
        if cover and due.view_name == "curator+hub":
            assert given.epsilon(DELTA) == run.guarantees[0].epsilon(DELTA) < due.epsilon(DELTA)
        else:
            assert given.theorem == due.theorem
            assert given.epsilon(DELTA) == due.epsilon(DELTA)
    if Path("/proc").is_dir():
        _assert_apart(hosted)
    assert list(tmp_path.iterdir()) == []


def _assert_apart(programs: Sequence[Sequence[str]]) -> None:
    """The shuffler is alone in its process, with nobody's keys or answers."""
    programs = [words for words in programs if "incrowd" in words]
    (devices,) = (words for words in programs if "device" in words and "--keys" in words)
    (helper,) = (words for words in programs if "--helper" in words)
    assert len(programs) == 3
    assert "--helper" not in devices
    assert "--keys" not in helper
    assert "--answers" not in helper
    assert Path(helper[helper.index("--helper") + 1]).name == SHUFFLER


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "say whose keys to host"),
        (("--helper", "h", "--policy", "p"), "need the keys of their owners"),
        (("--keys", "k", "--dial", "10.0.0.0/8"), "in their owners' policy"),
        (("--helper", "h", "--dial", "nowhere"), "write an address or a network"),
    ],
)
def test_a_host_needs_somebody_to_host(capsys, words, complaint):
    """Devices have a policy, helpers have none, and without either there is nothing to do."""
    common = ["device", "run", "--hub", "https://h", "--ca", "a", "--state", "s"]
    assert main([*common, *words]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())


# What the hub sees.

PEOPLE, ROUNDS = 5, 2
IN = (0, 3)
"""Who takes part in every round, where everyone else stays away."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("check-in-hub"))
    yield hub
    hub.stop()


async def transcripts(hub: LiveHub, folder: Path) -> tuple[list[Any], Any]:
    """What the hub sees of each device, and what was collected."""
    protocol = CheckIn(KRR(categories=2, epsilon=1.0), n=PEOPLE, rounds=ROUNDS, rate=0.5)
    answers = [{"cycles": "yes"}] * PEOPLE
    heard, collected = await overhear_shuffle(hub, folder, protocol, QUESTION, answers)
    return [(each.unsigned, each.taken) for each in heard], collected


def _coins(self: CheckIn, person: int) -> float:
    return 1.0 if person in IN else 1e-12


def test_who_is_in_and_who_stays_away_look_the_same_to_the_hub(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(CheckIn, "rate_of", _coins)
    seen, collected = asyncio.run(transcripts(hub, tmp_path / "covered"))
    assert collected.crowds == (len(IN),) * ROUNDS
    assert collected.present == (PEOPLE,) * ROUNDS
    assert all(each == seen[0] for each in seen)
    (cells, taken) = seen[0]
    # One cell per round and two more ticks; an answer per round and a word of the shuffler's.
    assert [count for (kind, *_), count in sorted(cells.items()) if kind == DATA] == [1] * 4
    assert {size for *_, size in cells} == {CELL}
    assert taken == ROUNDS + 1


def test_a_device_that_is_silent_when_it_stays_away_shows(hub, tmp_path, monkeypatch):
    """The comparison above bites, also where cells hide that there is no message in them."""
    honest = roles.Device.message

    def silent(self: Any, number: int, id_: bytes, report: bytes | None) -> bytes | None:
        return None if report is None else honest(self, number, id_, report)

    monkeypatch.setattr(CheckIn, "rate_of", _coins)
    monkeypatch.setattr(roles.Device, "message", silent)
    seen, collected = asyncio.run(transcripts(hub, tmp_path / "silent"))
    assert collected.present == (len(IN),) * ROUNDS
    different = [person for person in range(PEOPLE) if seen[person] != seen[IN[0]]]
    assert different == [person for person in range(PEOPLE) if person not in IN]


# Kills.


def assert_checked_in(stage: Stage, outcome: Outcome) -> None:
    """Every round has the reports of those who were heard of in it, each at most once.

    With a rate of one, that is the report of each of them.
    """
    collected: Any = outcome.run.collected
    protocol: Any = stage.protocol
    receipts = stage.outputs(Receipt)
    assert sorted(receipts) == list(range(stage.n))
    heard = [
        {person for person, each in receipts.items() if number in each.accepted}
        for number in range(protocol.rounds)
    ]
    held = [people for people in heard if people]
    assert collected.present == tuple(map(len, held))
    for reports, people in zip(collected.rounds, held, strict=True):
        assert len(set(reports.tolist())) == len(reports)
        assert set(reports.tolist()) <= people
        if protocol.rate == 1:
            assert set(reports.tolist()) == people
    happened = CheckIn(
        protocol.randomizer, n=min(map(len, held)), rounds=len(held), rate=protocol.rate
    )
    stated = {each.view_name: each.epsilon(DELTA) for each in outcome.run.guarantees}
    assert stated["curator"] == happened.guarantee().epsilon(DELTA)
    covered = outcome.started.plan is not None
    assert stated["curator+hub"] == stated["curator" if covered else "everyone"]
    assert_totals(stage, outcome)


async def _survey(
    folder: Path, seed: int, rate: float, dooms: dict[str, list[Doom]], cover: bool = False
) -> None:
    """Kill the hub, the shuffler and one of the hosts, each at a moment of its own."""
    protocol = checked_in(9, rate=rate)
    async with staged(folder, protocol, seed=seed, rates=TROUBLE, dooms=dooms) as stage:
        victims = [stage.hub, *stage.helpers, stage.rng.choice(stage.hosts)]
        kills = stage.kill(victims, protocol.cost().rounds)
        outcome, killed = await stage.ask_amid(kills, cover=cover)
    expected = killed + sum(map(len, dooms.values()))
    assert sum(child.deaths for child in stage.children) == expected
    assert_checked_in(stage, outcome)


def test_kills_lose_and_double_nothing(tmp_path):
    """The shuffler also dies around two of its own first commits."""
    dooms = {SHUFFLER: [Doom("after", 2), Doom("before", 1)]}
    asyncio.run(_survey(tmp_path, 0, 1.0, dooms))


@pytest.mark.slow
@pytest.mark.parametrize("cover", [False, True])
@pytest.mark.parametrize("seed", range(1, 11))
def test_kills_at_random_moments_lose_and_double_nothing(tmp_path, seed, cover):
    asyncio.run(_survey(tmp_path, seed, 1.0 if seed % 2 else 0.5, {}, cover))


@pytest.mark.slow
@pytest.mark.parametrize("commit", range(1, 25))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("victim", ["host 0", SHUFFLER])
def test_a_process_may_die_at_any_commit(tmp_path, victim, when, commit):
    async def survey() -> None:
        dooms = {victim: [Doom(when, commit)]}
        async with staged(tmp_path, checked_in(5), hosts=1, dooms=dooms) as stage:
            outcome = await stage.ask()
        assert_checked_in(stage, outcome)

    asyncio.run(survey())
