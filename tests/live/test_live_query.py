"""Scrambled queries with real devices, every helper a process of its own, and some that are killed.

Everyone's answer is a number of their own, so that the result says whose tuple was counted, and how
often. Without lies it must be everybody's, once.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from incrowd.live.journal import Journal
from incrowd.live.ledger import Line
from incrowd.live.options import LiveOptions
from incrowd.live.run import _APART, _Local, run_live
from incrowd.live.service import JOURNAL_FILE
from incrowd.protocols.runtime.actor import CURATOR, stands_by
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.randomness import Seeds
from incrowd.tasks.query import Query
from tests.live.chaos_world import (
    CALM,
    DELTA,
    TROUBLE,
    Doom,
    Outcome,
    Stage,
    assert_totals,
    staged,
)
from tests.sim.query_played import PATIENTS, assert_folded, exact, numbers, own

QUERY = Query(
    sql="SELECT region, COUNT(*), SUM(stay), AVG(score) FROM patients WHERE stay < 80 "
    "GROUP BY region",
    table="patients",
    columns=PATIENTS,
)


def rows(n: int, seed: int = 1) -> Any:
    """Texts for the columns that the query asks for."""
    rng = np.random.default_rng(seed)
    return QUERY.rows(
        [
            (
                str(rng.choice(PATIENTS[0].values)),
                str(rng.integers(101)),
                f"{rng.uniform(-1, 1):.3f}",
            )
            for _ in range(n)
        ]
    )


def enough(n: int, **parameters: Any) -> ScrambledQuery:
    """Dummies that hide who goes where at a small δ, without lies."""
    return ScrambledQuery(n=n, targets=3, dummies=60, **parameters)


def assert_exact(collected: Any, values: Any, query: Query) -> None:
    assert collected.present == (len(values),)
    assert not any(map(len, collected.lost))
    assert_folded(collected.folded[0], exact(query, query.encode(values), 0))


# The whole query on one machine, as `incrowd run --engine live` does it.


def test_a_live_query_has_the_exact_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    people = 20
    protocol, values = enough(people, sources=10, standby_scramblers=1), rows(people)
    folder = tmp_path / "kept"
    run = run_live(
        protocol, values, QUERY, delta=DELTA, hosts=1, keep=folder,
        options=LiveOptions(round_seconds=2.0),
    )  # fmt: skip
    assert_exact(run.collected, values, QUERY)
    collected: Any = run.collected
    assert collected.traffic[0].sum(axis=1).tolist() == [70, 70]
    assert run.live.rejected == {}
    assert run.live.cells_per_device == 1
    asked = protocol.bound_to(QUERY)
    simulated = protocol.simulate(values, task=QUERY, seed=1)
    assert run.cost == simulated.cost
    np.testing.assert_allclose(run.result.value, simulated.result.value, rtol=1e-12)
    for given, due in zip(run.guarantees, simulated.guarantees, strict=True):
        assert (given.view, given.theorem) == (due.view, due.theorem)
        assert given.epsilon(DELTA) == due.epsilon(DELTA)
    # Each helper has a process and files of its own, and nobody's answers.
    apart = sorted(path.name for path in folder.glob("*-state"))
    helpers = [each.replace("/", "-") for each in asked.helpers if each != CURATOR]
    assert apart == sorted(f"{each}-state" for each in helpers)
    _assert_charged(folder, asked, people)


def _assert_charged(folder: Path, protocol: ScrambledQuery, people: int) -> None:
    """Every device's ledger has the promise against whoever watches, once."""
    with Journal(folder / "host-0" / JOURNAL_FILE, readonly=True) as journal:
        lines = [msgspec.msgpack.decode(entry.body, type=Line) for entry in journal.entries()]
    assert len(lines) == people
    promised = protocol.guarantee("network").epsilon(DELTA)
    assert {each.cost("network") for each in lines} == {(promised, DELTA)}
    # Compute nodes read tuples, and the result has no noise: of all others nothing is promised, so
    # that a device with a budget towards them would have declined.
    assert {each.cost(view)[0] for each in lines for view in ("curator", "hub")} == {math.inf}


def _processes(protocol: ScrambledQuery) -> dict[str, list[str]]:
    nothing: Any = None
    local = _Local(protocol, *[nothing] * 9)
    return local._together()


def test_many_helpers_share_a_process_with_their_like():
    few = enough(20, sources=10, standby_scramblers=1, query=QUERY)
    assert len(few.helpers) - 1 == _APART
    assert all(len(each) == 1 for each in _processes(few).values())
    many = enough(20, sources=5, standby_scramblers=1, query=QUERY)
    assert _processes(many) == {
        "scrambler": [f"scrambler/{each}" for each in range(4)],
        "spare": ["spare/0"],
        "compute": [f"compute/{each}" for each in range(3)],
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["scrambler", "local"])
def test_five_hundred_people(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    people = 500
    options: dict[str, Any] = {"sources": 100, "dummies": 300, "standby_scramblers": 1}
    if mode == "local":
        options = {"hiding": "local", "redirect_probability": 0.0, "dummies": 7}
    query = numbers(people)
    protocol = ScrambledQuery(n=people, targets=8, **options)
    values = query.rows([(str(each),) for each in range(people)])
    run = run_live(
        protocol, values, query, delta=1e-3,
        options=LiveOptions(round_seconds=10.0, timeout=300.0),
    )  # fmt: skip
    assert_exact(run.collected, values, query)
    collected: Any = run.collected
    sent = collected.traffic[0].sum(axis=1)
    assert set(sent.tolist()) == ({8} if mode == "local" else {400})


@pytest.mark.slow
def test_live_and_simulated_queries_have_the_same_law(tmp_path, monkeypatch):
    """What an observer counts, and what arrives: two-sample tests at level 0.001 together."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    people, runs = 10, 20
    query = numbers(people)
    protocol = ScrambledQuery(n=people, targets=2, redirect_probability=0.5, sources=5, dummies=5)
    values = query.rows([(str(each),) for each in range(people)])

    def statistics(collected: Any) -> list[float]:
        (traffic,), (folded,) = collected.traffic, collected.folded
        assert traffic.sum(axis=1).tolist() == [10, 10]
        return [*traffic[:, 0].tolist(), folded.count.sum()]

    live = [
        statistics(
            run_live(
                protocol, values, query, delta=0.05, hosts=1, options=LiveOptions(round_seconds=2.0)
            ).collected
        )
        for _ in range(runs)
    ]
    asked = protocol.bound_to(query)
    encoded = query.encode(values)
    simulated = [statistics(asked.collect(encoded, Seeds(seed))) for seed in range(100 * runs)]
    for one, other in zip(np.transpose(live), np.transpose(simulated), strict=True):
        assert stats.ks_2samp(one, other).pvalue > 0.001 / 3


# Kills.


def assert_answered(stage: Stage, outcome: Outcome, counted: list[int]) -> None:
    """These people are in the result, once each, and nobody else."""
    collected: Any = outcome.run.collected
    assert collected.folded[0].count.tolist() == counted
    assert collected.present == (sum(counted),)
    assert not len(collected.lost[0])
    chosen: Any = stage.protocol
    sent = collected.traffic[0].sum(axis=1)
    assert set(sent[sent > 0].tolist()) == {chosen.sources + chosen.dummies}


def killable(**parameters: Any) -> ScrambledQuery:
    """Two groups of three people, two compute nodes and a spare."""
    return own(6, targets=2, dummies=40, **parameters)


@pytest.mark.parametrize("commit", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_scrambler_that_is_killed_is_replaced(tmp_path, commit):
    """It dies when its people's messages are to become durable, and never comes back.

    Or before it has told anybody which start it sees: then its people believe the spare.
    """

    async def survey() -> None:
        dooms = {"scrambler/0": [Doom("before", commit)]}
        protocol = own(4, targets=2, sources=4, dummies=40)
        async with staged(tmp_path, protocol, hosts=1, dooms=dooms, task=numbers(4)) as stage:
            (victim,) = (each for each in stage.helpers if each.name == "scrambler/0")
            victim.vanished = victim._stopping = True
            outcome = await stage.ask(shortest=1.0, patience=max(4.0, stage.warm_up))
        assert victim.deaths == 1
        assert_answered(stage, outcome, [1] * 4)
        assert len(stage.ledgers()) == 4
        assert _state(stage, "spare/0")[1] == 0

    asyncio.run(survey())


def _state(stage: Stage, helper: str) -> Any:
    """What a helper knew at the end, from its own files."""
    return msgspec.msgpack.decode(stage.helper_row(helper).state, strict=False)


def test_spares_are_known_by_their_names():
    assert [each for each in killable().helpers if stands_by(each)] == ["spare/0"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kills_lose_and_double_nothing(tmp_path, seed):
    """Hub, host and helpers die at moments of their own, and come back."""

    async def survey() -> None:
        async with staged(
            tmp_path, killable(), hosts=1, seed=seed, rates=TROUBLE if seed % 2 else CALM,
            task=numbers(6),
        ) as stage:  # fmt: skip
            outcome, killed = await stage.ask_amid(
                stage.kill(stage.children, 3.0), shortest=1.0, patience=60.0
            )
        assert sum(child.deaths for child in stage.children) == killed
        assert_answered(stage, outcome, [1] * 6)
        assert_totals(stage, outcome)

    asyncio.run(survey())


@pytest.mark.slow
@pytest.mark.parametrize("commit", range(1, 9))
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("victim", ["host 0", "scrambler/1", "compute/1"])
def test_a_process_may_die_at_any_commit(tmp_path, victim, when, commit):
    async def survey() -> None:
        dooms = {victim: [Doom(when, commit)]}
        async with staged(tmp_path, killable(), hosts=1, dooms=dooms, task=numbers(6)) as stage:
            outcome = await stage.ask(shortest=1.0, patience=60.0)
        assert_answered(stage, outcome, [1] * 6)
        assert Counter(owner for owner, _ in stage.ledgers()).total() == 6

    asyncio.run(survey())
