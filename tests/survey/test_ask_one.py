"""Surveys of which each person answers one question, drawn by the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from incrowd import errors, survey
from incrowd.randomness import Seeds
from incrowd.survey import Survey
from incrowd.tasks.parts import answered

PEOPLE = 1200
MISSED = 0.05
QUESTIONS = """
version = 2
title = "Work"

[data]
file = "work.csv"

[[question]]
id = "mode"
kind = "histogram"
categories = ["bus", "car"]
weight = 2

[[question]]
id = "minutes"
kind = "sum"
bounds = [0, 120]

[[question]]
id = "income"
kind = "quantiles"
bounds = [0, 100]
bins = 16
"""


def write(folder: Path, protocol: str = 'kind = "trusted-shuffle"', budget: str = "") -> Path:
    rng = np.random.default_rng(5)
    modes = rng.choice(["bus", "car", ""], PEOPLE, p=[0.5, 0.4, 0.1])
    rows = zip(modes, rng.integers(0, 120, PEOPLE), rng.integers(0, 100, PEOPLE), strict=True)
    lines = [f"{mode},{minutes},{income}" for mode, minutes, income in rows]
    (folder / "work.csv").write_text("\n".join(["mode,minutes,income", *lines]))
    path = folder / "survey.toml"
    kept = f'epsilon = 2.0\ndelta = 1e-4\nask = "one"\n{budget}'
    path.write_text(f"{QUESTIONS}\n[budget]\n{kept}\n[protocol]\n{protocol}\n")
    return path


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    return survey.load(write(tmp_path_factory.mktemp("one")))


def test_weight_two_is_drawn_four_times_as_often(one: Survey) -> None:
    chances = one.randomizer.probabilities
    np.testing.assert_allclose(chances, np.array([4, 1, 1]) / 6)
    collected = one.protocol.collect(one.task.encode(one.values), Seeds(1))
    sizes = [part.received for part, _ in answered(collected, one.randomizer)]
    assert sum(sizes) == PEOPLE
    spread = np.sqrt(PEOPLE * np.asarray(chances) * (1 - np.asarray(chances)))
    assert (np.abs(sizes - PEOPLE * np.asarray(chances)) < 5 * spread).all()


def test_budget_is_met_by_one_report_about_one_question(one: Survey) -> None:
    budget, randomizer = one.budget, one.randomizer
    stated = one.protocol.guarantee().epsilon(budget.delta)
    assert 0.99 * budget.epsilon < stated <= budget.epsilon
    # One report leaves a device: alone it reveals what one part does, not what all of them do.
    assert randomizer.epsilon == max(part.epsilon for part in randomizer.parts)
    assert one.protocol.guarantee("everyone").epsilon(0.0) == randomizer.epsilon


def test_intervals_cover_the_truth_about_everybody(one: Survey) -> None:
    runs, encoded = 400, one.task.encode(one.values)
    truths = [np.asarray(truth) for truth in one.truths]
    missed = [np.zeros(len(truth)) for truth in truths]
    for seed in range(runs):
        collected = one.protocol.collect(encoded, Seeds(seed))
        parts = zip(one.task.parts, answered(collected, one.randomizer), strict=True)
        for number, (task, came) in enumerate(parts):
            answer = task.estimate(*came)
            assert answer.people == PEOPLE
            missed[number] += (truths[number] < answer.low) | (truths[number] > answer.high)
    rows = np.concatenate(missed)
    assert rows.max() <= binom.isf(1e-4 / len(rows), runs, MISSED)


@pytest.mark.parametrize(
    "protocol",
    [
        'kind = "local"',
        'kind = "check-in"\nrounds = 4\nrate = 0.9',
        'kind = "network-shuffle"\ngraph = "complete"\nrounds = 3',
    ],
    ids=lambda each: each.split('"')[1],
)
def test_actors_answer_as_the_simulation_does(tmp_path: Path, protocol: str) -> None:
    asked = survey.load(write(tmp_path, protocol), people=120)
    for run in (asked.run(seed=3), asked.run("actors", seed=3)):
        assert [len(each.labels) for each in run.answers] == [3, 2, 4]
        assert run.refined == ()
        assert asked.met_by(run)


def test_given_epsilons_are_capped_by_the_largest(tmp_path: Path) -> None:
    path = write(tmp_path, 'kind = "local"', "local_epsilon = 2.0")
    text = path.read_text()
    for kind, randomizer in (("histogram", "krr"), ("sum", "ternary"), ("quantiles", "krr")):
        own = f'randomizer = {{ kind = "{randomizer}", epsilon = 1.5 }}'
        text = text.replace(f'kind = "{kind}"', f'kind = "{kind}"\n{own}')
    path.write_text(text)
    assert survey.load(path).randomizer.epsilon == 1.5
    path.write_text(text.replace('ask = "one"', 'ask = "all"'))
    with pytest.raises(errors.BudgetInfeasible, match=r"4\.5 exceeds budget\.local_epsilon 2"):
        survey.load(path)


def test_protocol_that_adds_answers_up_on_their_way_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 'kind = "token-walk"\nsteps = 2000')
    with pytest.raises(errors.InvalidConfig, match=r"budget\.ask: token-walk cannot tell"):
        survey.load(path)


def test_question_that_no_device_drew_fails_with_a_remedy(tmp_path: Path) -> None:
    path = write(tmp_path, 'kind = "local"')
    path.write_text(path.read_text().replace("weight = 2", "weight = 1000"))
    with pytest.raises(errors.ProtocolFailed, match="no device drew one of the questions"):
        survey.load(path, people=20).run(seed=1)


def test_single_question_is_asked_of_everybody(tmp_path: Path) -> None:
    path = write(tmp_path)
    head, mode, *_, last = path.read_text().split("[[question]]")
    path.write_text("[[question]]".join([head, mode]) + "[budget]" + last.split("[budget]")[1])
    assert survey.load(path).randomizer.kind == "krr"
