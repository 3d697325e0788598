"""Four questions of one survey: every interval covers, and all together keep the budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from incrowd import survey
from incrowd.randomness import Seeds
from incrowd.survey import Survey

ROOT = Path(__file__).parents[2]
WORK = ROOT / "examples" / "work.toml"
PEOPLE = 2000
MISSED = 0.05


@pytest.fixture(scope="module")
def four() -> Survey:
    return survey.load(WORK, people=PEOPLE)


def assert_covers(asked: Survey, runs: int) -> None:
    """No row of any answer misses the truth more often than one in twenty allows, by chance."""
    encoded = asked.task.encode(asked.values)
    truths = [np.asarray(truth) for truth in asked.truths]
    missed = [0.0] * len(truths)
    for seed in range(runs):
        collected = asked.protocol.collect(encoded, Seeds(seed))
        asking = zip(asked.task.parts, asked.protocol.parts, collected.parts, strict=True)
        for number, (task, part, came) in enumerate(asking):
            answer = task.estimate(came, part.randomizer)
            truth = answer.beside(truths[number])
            missed[number] = missed[number] + ((truth < answer.low) | (truth > answer.high))
    rows = np.concatenate(missed)
    assert len(rows) == 6 + 4 + 2 + 4
    assert rows.max() <= binom.isf(1e-4 / len(rows), runs, MISSED)


def test_intervals_of_four_questions_cover_the_truth(four: Survey) -> None:
    assert_covers(four, 400)


@pytest.mark.slow
def test_intervals_of_everybody_cover_the_truth_in_a_thousand_runs() -> None:
    everybody = survey.load(WORK)
    assert len(everybody.values) == 12_000
    assert_covers(everybody, 1000)


def test_four_questions_together_keep_the_budget(four: Survey) -> None:
    first, *others = (part.guarantee() for part in four.protocol.parts)
    epsilon, delta = four.budget.epsilon, four.budget.delta
    stated = four.protocol.guarantee().epsilon(delta)
    assert stated == first.compose(*others).epsilon(delta)
    assert max(each.epsilon(delta) for each in (first, *others)) < stated <= epsilon
    # The budget is used: what was solved for is the most that it allows.
    assert stated > 0.99 * epsilon
    run = four.run(seed=3)
    assert four.met_by(run)
    assert run.guarantees[0].epsilon(delta) == stated


def test_weight_decides_whose_answer_is_more_exact(four: Survey) -> None:
    mode, home, *_ = four.run(seed=4).answers
    assert mode.standard_error.max() < 0.75 * home.standard_error.max()
