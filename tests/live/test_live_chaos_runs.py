"""Surveys that are killed at random moments and still count everybody exactly once.

A report counts as acknowledged when a hop was answered ``Passed`` or a hand-in ``Accepted``. Since
everyone who is killed comes back before people hand in, all of them are acknowledged, and all must
be in the result: none missing, none twice.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from incrowd.protocols.api import Protocol
from tests.live.chaos_world import (
    TROUBLE,
    Outcome,
    Stage,
    assert_accounted,
    assert_exactly_once,
    shuffled,
    staged,
    walking,
)

PEOPLE = 12


async def _survey(
    folder: Path, protocol: Protocol, seed: int, earliest: float
) -> tuple[Stage, Outcome]:
    """Kill the hub and a third of the hosts, each at a moment of its own."""
    folder.mkdir()
    async with staged(folder, protocol, seed=seed, rates=TROUBLE) as stage:
        victims = [stage.hub, *stage.rng.sample(stage.hosts, len(stage.hosts) // 3)]
        outcome, _ = await stage.ask_amid(stage.kill(victims, protocol.cost().rounds, earliest))
    assert sum(child.deaths for child in stage.children) == 1 + len(stage.hosts) // 3
    assert_exactly_once(stage, outcome)
    return stage, outcome


async def _walk(folder: Path, seed: int) -> None:
    assert_accounted(*await _survey(folder, walking(PEOPLE, seed), seed, 0))


async def _shuffle(folder: Path, seed: int) -> None:
    await _survey(folder, shuffled(PEOPLE), seed, -1)


def test_kills_at_random_moments_lose_and_double_nothing(tmp_path):
    async def main() -> None:
        async with asyncio.TaskGroup() as runs:
            for seed in range(3):
                runs.create_task(_walk(tmp_path / f"walk-{seed}", seed))
            runs.create_task(_shuffle(tmp_path / "shuffle", 0))

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 50))
def test_kills_at_random_moments_lose_and_double_nothing_in_a_walk(tmp_path, seed):
    asyncio.run(_walk(tmp_path / "walk", seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 10))
def test_kills_at_random_moments_lose_and_double_nothing_in_a_shuffle(tmp_path, seed):
    asyncio.run(_shuffle(tmp_path / "shuffle", seed))
