"""Token walks with real devices, a courier in a process of its own, and processes that are killed.

Everyone's answer is a number of their own, which randomized response with ε0 = 30 never changes in
practice, so that a token says who contributed to it, and how often.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from incrowd.live.options import LiveOptions
from incrowd.live.run import run_live
from incrowd.protocols.runtime.actor import COURIER
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.roles import relay
from incrowd.protocols.token_walk.roles.device import DeviceResult
from incrowd.protocols.token_walk.roles.relay import line
from incrowd.randomizers import KRR, Gaussian
from incrowd.tasks import Mean
from tests.live.chaos_world import (
    DELTA,
    TROUBLE,
    Doom,
    Outcome,
    Stage,
    assert_totals,
    staged,
    truthful,
)

N, STEPS = 9, 60


def walking(steps: int = STEPS) -> TokenWalk:
    """Everybody's number is added to a token that goes to anybody."""
    return TokenWalk(truthful(N), n=N, steps=steps)


def courier_state(stage: Stage) -> Any:
    """What the courier knew at the end, from its own files."""
    return msgspec.msgpack.decode(stage.helper_row(COURIER).state, type=relay._RelayState)


def assert_walked(stage: Stage, outcome: Outcome) -> None:
    """The result holds what the surviving visits added, each once; the promise is for all steps."""
    collected: Any = outcome.run.collected
    protocol: Any = stage.protocol
    total = np.zeros(stage.n)
    steps = []
    for walk in courier_state(stage).walks:
        here = [walk.visits[each].holder for each in line(walk.visits, walk.head)]
        total += np.bincount(here, minlength=stage.n)
        steps.append(len(walk.visits))
    np.testing.assert_array_equal(collected.total, total)
    assert collected.reports == total.sum() > 0
    assert collected.steps == max(steps) <= protocol.steps
    assert collected.reports <= sum(steps)
    held = stage.outputs(DeviceResult)
    for person, each in held.items():
        assert each.contributions >= total[person]
    happened = protocol.conditional_on(collected)
    stated = {each.view_name: each for each in outcome.run.guarantees}
    assert stated["peer"].epsilon(DELTA) == happened.guarantee("peer").epsilon(DELTA)
    assert happened.n == collected.crowd
    assert_totals(stage, outcome)


async def _survey(
    folder: Path, seed: int, dooms: dict[str, list[Doom]], victims: list[str]
) -> None:
    protocol = walking()
    async with staged(folder, protocol, hosts=2, seed=seed, rates=TROUBLE, dooms=dooms) as stage:
        chosen = [each for each in stage.children if each.name in victims]
        outcome, killed = await stage.ask_amid(stage.kill(chosen, 2.0), shortest=1.0)
    expected = killed + sum(map(len, dooms.values()))
    assert sum(child.deaths for child in stage.children) == expected
    assert_walked(stage, outcome)


def test_kills_lose_no_token_and_count_nothing_twice(tmp_path):
    """The courier also dies right after one of its own first commits."""
    dooms = {COURIER: [Doom("after", 2)]}
    asyncio.run(_survey(tmp_path, 0, dooms, [COURIER, "host 0"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 8))
def test_kills_at_random_moments_lose_no_token(tmp_path, seed):
    victims = ["hub", COURIER, "host 0", "host 1"]
    asyncio.run(_survey(tmp_path, seed, {}, victims))


@pytest.mark.slow
@pytest.mark.parametrize("commit", [1, 2, 3, 5, 8, 13, 21, 34])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("victim", ["host 0", COURIER])
def test_a_process_may_die_at_any_commit(tmp_path, victim, when, commit):
    async def survey() -> None:
        dooms = {victim: [Doom(when, commit)]}
        async with staged(tmp_path, walking(steps=20), hosts=1, dooms=dooms) as stage:
            outcome = await stage.ask(shortest=1.0)
        assert_walked(stage, outcome)

    asyncio.run(survey())


PEOPLE, LONG = 200, 1000


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["histogram", "mean"])
def test_two_hundred_devices_whose_hosts_are_killed(tmp_path, asked):
    """The token finishes, nothing is counted twice, and the answer is within its limits."""
    randomizer = truthful(PEOPLE) if asked == "histogram" else Gaussian(epsilon=4.0, delta=DELTA)
    task = None if asked == "histogram" else Mean(bounds=(0, PEOPLE - 1))
    protocol = TokenWalk(randomizer, n=PEOPLE, steps=LONG)

    async def survey() -> tuple[Stage, Outcome]:
        async with staged(tmp_path, protocol, hosts=4, seed=1, task=task) as stage:
            hosts = [each for each in stage.children if each.name.startswith("host")]
            kills = stage.kill(hosts, 4.0)
            outcome, _ = await stage.ask_amid(kills, shortest=1.0)
        assert sum(child.deaths for child in stage.children) == len(hosts)
        return stage, outcome

    stage, outcome = asyncio.run(survey())
    collected: Any = outcome.run.collected
    print(f"{asked}: {collected.reports} of {collected.steps} steps, crowd {collected.crowd}")
    if asked == "histogram":
        assert_walked(stage, outcome)
    else:
        assert 0 < collected.reports <= collected.steps <= LONG
        assert_totals(stage, outcome)
        answer = outcome.run.result
        print(answer)
        assert abs(answer.value[0] - (PEOPLE - 1) / 2) < 4 * answer.standard_error[0]


# The whole survey on one machine, as `incrowd run --engine live` does it.


def test_a_live_run_is_the_one_that_was_simulated(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    people, steps = 12, 50
    protocol = TokenWalk(KRR(categories=3, epsilon=3.0), n=people, steps=steps)
    values = np.arange(people) % 3
    run = run_live(
        protocol,
        values,
        delta=DELTA,
        hosts=1,
        options=LiveOptions(round_seconds=20.0, grace_rounds=3),
    )
    simulated = protocol.simulate(values, seed=1)
    collected: Any = run.collected
    assert (collected.reports, collected.steps) == (steps, steps)
    assert (collected.crowd, collected.noise) == (people, steps)
    assert collected.total.shape == simulated.collected.total.shape
    assert run.live.rejected == {}
    assert run.cost == simulated.cost
    # Five standard errors: with these three shares that is wrong once in a million runs.
    assert np.all(np.abs(run.result.value - 1 / 3) < 5 * run.result.standard_error)
    for given, due in zip(run.guarantees, simulated.guarantees, strict=True):
        assert (given.view, given.theorem) == (due.view, due.theorem)
        assert given.epsilon(DELTA) == due.epsilon(DELTA)
    assert list(tmp_path.iterdir()) == []
