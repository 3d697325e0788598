"""The price of a reserved outcome, and limits that cover with and without missing answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import incrowd as ic
from incrowd.randomizers import OUE, Ternary
from incrowd.randomness import Seeds
from incrowd.tasks import Collected, Histogram, Mean, Sum
from incrowd.tasks.mean import fieller

RUNS = 1000
PEOPLE = 2000
NAMES = ("a", "b", "c")


def runs_of(task, randomizer, column, seed):
    """Values, limits and standard errors of the answers of seeded runs over the same people."""
    rng = np.random.default_rng(seed)
    encoded = task.encode(column)
    answers = [
        task.estimate(
            Collected((randomizer.randomize(encoded, rng),), sent=len(column)), randomizer
        )
        for _ in range(RUNS)
    ]
    return {
        name: np.array([getattr(each, name) for each in answers])
        for name in ("value", "low", "high", "standard_error")
    }


def covered(found, truth):
    """Share of the runs in which the limits of each row hold the truth."""
    return ((found["low"] <= truth) & (truth <= found["high"])).mean(axis=0)


def column_of(share, others=("b", "c")):
    """Answers of which this share is ``a``, and the rest is spread evenly over others."""
    held = round(share * PEOPLE)
    rest = [others[row % len(others)] for row in range(PEOPLE - held)]
    return np.array(["a"] * held + rest)


@pytest.mark.parametrize(("share", "factor"), [(0.0, 1.13), (1 / 3, 1.17), (0.7, 1.20)])
def test_krr_error_with_a_reserved_category_grows_by_the_stated_factor(share, factor):
    column = column_of(share)
    errors = []
    for complete, k in ((True, 3), (False, 4)):
        task = Histogram(categories=NAMES, complete=complete)
        found = runs_of(task, ic.KRR(categories=k, epsilon=1.0), column, seed=1)
        errors.append(found["value"][:, 0].std(ddof=1))
        stated = found["standard_error"][:, 0].mean()
        assert stated == pytest.approx(errors[-1], rel=0.08)
    assert errors[1] / errors[0] == pytest.approx(factor, rel=0.08)


def test_oue_error_with_a_reserved_category_does_not_grow():
    column = column_of(1 / 3)
    errors = [
        runs_of(
            Histogram(categories=NAMES, complete=complete),
            OUE(categories=k, epsilon=1.0),
            column,
            seed=2,
        )["value"][:, 0].std(ddof=1)
        for complete, k in ((True, 3), (False, 4))
    ]
    assert errors[1] / errors[0] == pytest.approx(1.0, rel=0.08)


@pytest.mark.parametrize("column", [np.arange(PEOPLE) % 2, np.full(PEOPLE, 0.5)], ids=["0/1", "½"])
def test_ternary_error_is_that_of_one_bit_times_the_stated_factor(column):
    errors = [
        runs_of(Mean(bounds=(0, 1)), randomizer, column, seed=3)["value"][:, 0].std(ddof=1)
        for randomizer in (ic.OneBit(epsilon=1.0), Ternary(epsilon=1.0))
    ]
    assert errors[1] / errors[0] == pytest.approx(1.16, rel=0.08)


# A proportion of 1,000 covers of 95 % has standard deviation 0.7 %.
LEAST, MOST = 0.93, 0.97


@pytest.mark.parametrize("gone", [0.0, 0.3])
def test_histogram_limits_cover_every_row(gone):
    rng = np.random.default_rng(4)
    column = rng.choice(
        [*NAMES, "", "elsewhere"],
        PEOPLE,
        p=[*(1 - gone) * np.array([0.6, 0.3, 0.1]), gone / 2, gone / 2],
    )
    task = Histogram(categories=NAMES)
    found = runs_of(task, ic.KRR(categories=4, epsilon=1.0), column, seed=5)
    share = covered(found, task.truth(column))
    assert ((share >= LEAST) & (share <= MOST)).all()
    assert task.truth(column).sum() == pytest.approx(1)


@pytest.mark.parametrize("kind", [Mean, Sum])
@pytest.mark.parametrize("gone", [0.0, 0.3])
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_ternary_limits_cover_the_answer_and_the_share_missing(kind, gone, epsilon):
    """All numbers are equal, where the stated variance is exact rather than cautious."""
    column = np.full(PEOPLE, 50.0)
    column[: round(gone * PEOPLE)] = np.nan
    task = kind(bounds=(20, 140))
    found = runs_of(task, Ternary(epsilon=epsilon), column, seed=6)
    truth = task.truth(column)
    share = covered(found, truth)
    assert ((share >= LEAST) & (share <= MOST)).all()
    assert truth[1] == pytest.approx(gone)
    spread = found["value"].std(axis=0, ddof=1)
    np.testing.assert_allclose(found["standard_error"].mean(axis=0), spread, rtol=0.08)


@pytest.mark.parametrize("kind", [Mean, Sum])
def test_ternary_limits_cover_at_least_as_often_when_numbers_differ(kind):
    rng = np.random.default_rng(7)
    column = np.where(rng.random(PEOPLE) < 0.3, np.nan, rng.choice([20, 140, 300], PEOPLE))
    task = kind(bounds=(20, 140))
    found = runs_of(task, Ternary(epsilon=2.0), column, seed=8)
    assert (covered(found, task.truth(column)) >= LEAST).all()
    away = (found["value"].mean(axis=0) - task.truth(column)) / found["value"].std(axis=0)
    assert np.abs(away).max() < 0.2


def test_ternary_answer_when_few_answered_is_the_bounds():
    column = np.full(400, np.nan)
    found = runs_of(Mean(bounds=(20, 140)), Ternary(epsilon=0.5), column, seed=9)
    nothing = (found["low"][:, 0] == 20) & (found["high"][:, 0] == 140)
    assert nothing.mean() > 0.9
    assert found["value"][nothing, 0] == pytest.approx(80)
    assert np.isfinite(found["low"]).all()


def test_midpoint_of_another_randomizer_has_the_stated_bias():
    column = np.full(PEOPLE, 50.0)
    column[: PEOPLE // 4] = np.nan
    task = Mean(bounds=(20, 140))
    found = runs_of(task, ic.Laplace(epsilon=1.0), column, seed=10)
    bias = 0.25 * (80 - 50)
    error = found["value"].std(ddof=1) / math.sqrt(RUNS)
    assert found["value"].mean() - task.truth(column)[0] == pytest.approx(bias, abs=5 * error)
    assert "q·(80 − mean)" in task.effect(ic.Laplace(epsilon=1.0))


def test_complete_histogram_has_the_stated_bias():
    column = np.array(["a"] * 1200 + ["b"] * 300 + [""] * 500)
    task = Histogram(categories=NAMES, complete=True)
    found = runs_of(task, ic.KRR(categories=3, epsilon=2.0), column, seed=11)
    truth = task.truth(column)
    np.testing.assert_allclose(truth, [0.8, 0.2, 0.0])
    bias = 0.25 * (1 / 3 - truth)
    error = found["value"].std(axis=0, ddof=1) / math.sqrt(RUNS)
    assert (np.abs(found["value"].mean(axis=0) - truth - bias) < 5 * error).all()
    assert "q·(1/k − f)" in task.effect(ic.KRR(categories=3, epsilon=2.0))


@pytest.mark.parametrize("gone", [0.0, 0.3])
def test_ternary_limits_cover_when_people_are_drawn_at_random(gone):
    """Check-in: who reports is random too, and the covariance comes from batches."""
    rng = np.random.default_rng(12)
    column = np.where(rng.random(1000) < gone, np.nan, rng.uniform(20, 140, 1000))
    task = Mean(bounds=(20, 140))
    protocol = ic.CheckIn(Ternary(epsilon=4.0), n=1000, rate=0.3, rounds=3)
    truth, inside = task.truth(column), np.zeros(2)
    for seed in range(200):
        collected = protocol.collect(task.encode(column), Seeds(seed))
        result = task.estimate(collected, protocol.randomizer)
        inside += (result.low <= truth) & (truth <= result.high)
    assert (inside >= 180).all()


def test_fieller_limits_solve_their_equation():
    covariance = np.array([[0.04, 0.01], [0.01, 0.09]])
    value, low, high, _ = fieller(3.0, 2.0, covariance, 1.96)
    for end in (low, high):
        variance = 0.04 - 2 * end * 0.01 + end**2 * 0.09
        assert (3.0 - end * 2.0) ** 2 == pytest.approx(1.96**2 * variance)
    assert low < value == 1.5 < high


@pytest.mark.parametrize("bottom", [-1.0, 0.0, 0.58])
def test_fieller_when_denominator_may_be_zero_is_none(bottom):
    assert fieller(3.0, bottom, np.diag([0.04, 0.09]), 1.96) is None
