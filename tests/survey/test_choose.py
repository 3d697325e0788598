"""Choice of a randomizer where none is named: the truly best one, or as good as it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import incrowd as ic
from incrowd import survey
from incrowd.privacy.shuffle import functional
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import planned
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.registry import PROTOCOLS
from incrowd.randomizers import KRR, OLH, OUE, SUE, HadamardResponse, Hierarchical, Randomizer
from incrowd.randomizers.registry import RANDOMIZERS
from incrowd.survey.calibrate import LOCAL_EPSILON, Goal, calibrate
from incrowd.survey.choose import Candidates, _log_delta, at_budget, at_epsilon
from incrowd.tasks import Histogram, Quantiles
from incrowd.tasks.base import Task

KINDS: tuple[type[Any], ...] = (KRR, OUE, SUE, HadamardResponse, OLH)
DELTA = 1e-6
WORSE = 1.03
"""Factor by which the error of the choice may exceed the least."""

Make = Callable[[Randomizer, int], Protocol]
PLANS: dict[str, Make] = {
    "local": lambda randomizer, n: ic.Local(randomizer, n=n),
    "trusted-shuffle": lambda randomizer, n: ic.TrustedShuffle(randomizer, n=n),
    "adaptive": lambda randomizer, n: ic.TrustedShuffle(randomizer, n=n, adaptive=True),
    "rounds": lambda randomizer, n: ic.TrustedShuffle(randomizer, n=n, rounds=5),
    "check-in": lambda randomizer, n: ic.CheckIn(randomizer, n=n, rounds=10, rate=0.1),
    "network-shuffle": lambda randomizer, n: ic.NetworkShuffle(randomizer, n=n, stationary=True),
}


def histogram(categories: int) -> Histogram:
    return Histogram(categories=tuple(map(str, range(categories))), complete=True)


def candidates(task: Task) -> Candidates:
    def draw(kind: type[Any], more: Any) -> Callable[[float], Randomizer]:
        return lambda epsilon: kind(epsilon=epsilon, categories=task.outcomes, **more)

    kinds = (*KINDS, Hierarchical)
    draws = tuple(draw(kind, more) for kind in kinds for more in task.variants(kind))
    return Candidates(task, 1.0, draws)


def loss(make: Make, task: Task, n: int, epsilon: float, view: str = "curator") -> float:
    """Factor by which the choice errs more than the best candidate, each truly calibrated."""
    asked, goal = candidates(task), Goal(epsilon=epsilon, delta=DELTA, view=view)
    (chosen,) = at_budget([asked], goal, n, lambda _, drawn: make(drawn, n))
    errors = {}
    for draw in asked.draws:
        member = lambda x, draw=draw: planned(make(draw(x), n), DELTA)  # noqa: E731
        value, _ = calibrate(member, LOCAL_EPSILON, goal)
        errors[draw] = task.noise(draw(value))
    return errors[chosen] / min(errors.values())


def kind_of(draw: Callable[[float], Randomizer]) -> str:
    return draw(1.0).kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("categories", [2, 5, 200])
@pytest.mark.parametrize("epsilon", [0.3, 2.0, 6.0])
def test_closed_form_of_the_error_is_that_of_the_pilot(
    kind: type[Any], categories: int, epsilon: float
) -> None:
    randomizer = kind(epsilon=epsilon, categories=categories)
    assert randomizer.noise() == pytest.approx(expected_error(randomizer, 1), rel=0.03)


@pytest.mark.parametrize(
    ("randomizer", "n", "epsilon"),
    [
        (KRR(categories=5, epsilon=2.0), 1000, 0.3),
        (KRR(categories=200, epsilon=4.0), 500, 1.0),
        (OUE(categories=200, epsilon=2.0), 500, 0.5),
        (KRR(categories=30, epsilon=1.0), 5000, 0.02),
        (HadamardResponse(categories=30, epsilon=3.0), 2000, 0.1),
    ],
)
def test_guessed_delta_is_near_the_enclosed_one(
    randomizer: Randomizer, n: int, epsilon: float
) -> None:
    law = randomizer.blanket()
    exact = functional(law, n, epsilon).upper
    assert _log_delta(law, n, epsilon) == pytest.approx(math.log(exact), abs=0.05)


@pytest.mark.parametrize(
    ("plan", "categories", "n", "epsilon"),
    [
        *(("local", k, 500, epsilon) for k in (2, 5, 30, 200) for epsilon in (0.2, 1.0, 4.0)),
        ("trusted-shuffle", 5, 500, 1.0),
        ("trusted-shuffle", 200, 5000, 1.0),
        ("trusted-shuffle", 1000, 50, 0.5),  # the crowd is too small for krr
        ("adaptive", 200, 5000, 0.2),
        ("adaptive", 30, 5000, 1.0),
        ("check-in", 200, 500, 1.0),
        ("network-shuffle", 30, 5000, 1.0),
    ],
)
def test_choice_errs_at_most_a_little_more_than_the_best(
    plan: str, categories: int, n: int, epsilon: float
) -> None:
    assert loss(PLANS[plan], histogram(categories), n, epsilon) <= WORSE


@pytest.mark.slow
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("categories", [2, 5, 30, 200])
@pytest.mark.parametrize("n", [500, 5_000, 100_000])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_choice_errs_at_most_a_little_more_than_the_best_sweep(
    plan: str, categories: int, n: int, epsilon: float
) -> None:
    assert loss(PLANS[plan], histogram(categories), n, epsilon) <= WORSE


@pytest.mark.parametrize(("plan", "epsilon"), [("local", 1.0), ("trusted-shuffle", 1.0)])
@pytest.mark.parametrize("bins", [6, 64])
def test_choice_for_quantiles_errs_at_most_a_little_more_than_the_best(
    plan: str, bins: int, epsilon: float
) -> None:
    assert loss(PLANS[plan], Quantiles(bounds=(0, 1), bins=bins), 2000, epsilon) <= WORSE


@pytest.mark.parametrize("plan", ["trusted-shuffle", "rounds", "check-in"])
def test_choice_against_a_view_that_sees_through_the_crowd_is_nearly_the_best(plan: str) -> None:
    assert loss(PLANS[plan], histogram(200), 500, 1.0, view="everyone") <= WORSE


def test_equally_good_candidates_are_told_apart_by_the_size_of_reports() -> None:
    small = at_epsilon(candidates(histogram(200)), 0.2)
    assert kind_of(small) == "hadamard"
    assert small(0.2).noise() <= 1.01 * OUE(epsilon=0.2, categories=200).noise()


def test_several_questions_are_each_chosen_at_their_share_of_the_budget() -> None:
    tasks = [histogram(12), histogram(12)]
    asked = [
        Candidates(task, weight, candidates(task).draws)
        for task, weight in zip(tasks, (7.0, 1.0), strict=True)
    ]
    goal = Goal(epsilon=4.0, delta=DELTA)
    heavy, light = at_budget(asked, goal, 500, lambda _, drawn: ic.Local(drawn, n=500))
    assert kind_of(heavy) == "krr"
    assert kind_of(light) != "krr"
    again = at_budget(asked, goal, 500, lambda _, drawn: ic.Local(drawn, n=500), one=True)
    assert [kind_of(each) for each in again] == ["krr", "krr"]


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_default_randomizers_are_drawn_exactly_as_devices_demand(kind: str) -> None:
    parameters = {"epsilon": 1.0, "categories": 4, "delta": 1e-6}
    for domain, names in PROTOCOLS.find(kind).default_randomizers.items():
        for name in names if domain in ("category", "interval") else ():
            described = RANDOMIZERS.load(name)
            known = {
                each: parameters[each] for each in described.__struct_fields__ if each in parameters
            }
            assert described(**known).exact


SURVEY = """
version = 2

[data]
file = "people.csv"

[[question]]
id = "code"
kind = "{task}"
{asked}

{randomizer}

[budget]
epsilon = 1.0
delta = 1e-6

[protocol]
kind = "{protocol}"
"""
MANY = f"categories = {[str(each) for each in range(40)]}".replace("'", '"')


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(
        protocol: str = "local",
        task: str = "histogram",
        asked: str = MANY,
        keys: Sequence[str] = (),
    ):
        (tmp_path / "people.csv").write_text("code\n" + "7\n" * 300)
        table = "\n".join(["[question.randomizer]", *keys]) if keys else ""
        path = tmp_path / "survey.toml"
        path.write_text(SURVEY.format(protocol=protocol, task=task, asked=asked, randomizer=table))
        return path

    return write


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "oue"),
        ({"keys": ['kind = "krr"']}, "krr"),
        ({"keys": ["epsilon = 0.2"]}, "hadamard"),
        ({"keys": ["categories = 41", "epsilon = 0.9"]}, "oue"),
        ({"protocol": "trusted-shuffle"}, "krr"),
        ({"task": "mean", "asked": "bounds = [0, 10]"}, "ternary"),
        ({"task": "mean", "asked": "bounds = [0, 10]\ncomplete = true"}, "onebit"),
        ({"task": "quantiles", "asked": "bounds = [0, 10]"}, "hierarchical"),
        (
            {"task": "quantiles", "asked": "bounds = [0, 10]", "keys": ["branching = 3"]},
            "hierarchical",
        ),
    ],
)
def test_survey_gets_the_randomizer_of_least_error_unless_it_names_one(
    written: Callable[..., Path], given: dict[str, Any], expected: str
) -> None:
    assert survey.load(written(**given)).randomizer.kind == expected


def test_answers_do_not_change_the_choice(written: Callable[..., Path], tmp_path: Path) -> None:
    first = survey.load(path := written()).randomizer
    (tmp_path / "people.csv").write_text("code\n" + "1\n" * 150 + "39\n" * 150)
    assert survey.load(path).randomizer == first
    assert survey.load_question(path, 300).randomizer == first
