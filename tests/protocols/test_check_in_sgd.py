"""Learning by check-in: the guarantee is the protocol's, for reports and for sums."""

from __future__ import annotations

import numpy as np
import pytest

import incrowd as ic
from incrowd.errors import BudgetInfeasible, InvalidParameter
from incrowd.protocols.check_in.theorems.secure_aggregation import DistributedCheckIn
from incrowd.tasks.learning import LocalSGD, Softmax

RNG = np.random.default_rng(21)
LABELS = RNG.integers(0, 3, 800)
ROWS = 0.4 * RNG.normal(size=(800, 4)) + np.eye(3, 4)[LABELS] * 1.5
COMMON = {
    "model": Softmax(classes=3),
    "rounds": 40,
    "rate": 0.25,
    "learning_rate": 0.5,
    "clip": 1.0,
    "seed": 2,
}


@pytest.mark.parametrize("noise", [{"epsilon0": 6.0}, {"sigma": 2.0}])
def test_check_in_sgd_learns(noise):
    learner = ic.CheckInSGD(**COMMON, **noise).fit(ROWS, LABELS)
    assert learner.score(ROWS, LABELS) > 0.85
    people = [each.participants for each in learner.history_]
    assert len(people) == 40
    assert 150 < np.mean(people) < 250


def test_reports_are_accounted_as_the_protocol():
    learner = ic.CheckInSGD(**COMMON, epsilon0=2.0).fit(ROWS, LABELS)
    # Three classes, four numbers and an intercept; one more dimension puts them on the sphere.
    randomizer = ic.PrivUnit(epsilon=2.0, dimension=16)
    protocol = ic.CheckIn(randomizer, n=800, rate=0.25, rounds=40)
    assert learner.protocol_ == protocol
    assert learner.epsilon(1e-5) == protocol.guarantee().epsilon(1e-5)
    assert learner.guarantee_.view == {"curator"}
    assert randomizer.assumption in learner.guarantee_.assumptions
    assert learner.protocol_.guarantee("everyone").epsilon(1e-5) > learner.epsilon(1e-5)
    assert learner.guarantee(ROWS.shape).epsilon(1e-5) == learner.epsilon(1e-5)


def test_projected_reports_are_accounted_in_the_subspace():
    learner = ic.CheckInSGD(**COMMON, epsilon0=2.0, projection=5).fit(ROWS, LABELS)
    assert learner.protocol_.randomizer == ic.PrivUnit(epsilon=2.0, dimension=6)


def test_sums_are_accounted_as_distributed_noise():
    learner = ic.CheckInSGD(**COMMON, sigma=2.0).fit(ROWS, LABELS)
    expected = DistributedCheckIn(800, 0.25, 40, 2.0).guarantee()
    assert learner.epsilon(1e-5) == expected.epsilon(1e-5)
    assert any("floating-point" in each for each in learner.guarantee_.assumptions)
    everyone = learner.protocol_.guarantee("everyone")
    assert everyone.epsilon(1e-5) > learner.epsilon(1e-5)


def test_reports_without_crowd_have_far_larger_epsilon():
    crowd = ic.CheckInSGD(**COMMON, epsilon0=2.0).fit(ROWS, LABELS)
    alone = LocalSGD(**COMMON, epsilon0=2.0).fit(ROWS, LABELS)
    np.testing.assert_array_equal(crowd.parameters_, alone.parameters_)
    assert crowd.epsilon(1e-5) < 0.2 * alone.epsilon(1e-5)


@pytest.mark.parametrize("noise", [{"epsilon0": 2.0}, {"sigma": 1.0}])
def test_training_stops_within_budget(noise):
    planned = ic.CheckInSGD(**COMMON, **noise)
    epsilon = planned.guarantee((800, 4), rounds=11).epsilon(1e-5)
    learner = ic.CheckInSGD(**COMMON, **noise, budget=(epsilon, 1e-5)).fit(ROWS, LABELS)
    assert learner.rounds_ == 11
    assert learner.epsilon(1e-5) <= epsilon
    with pytest.raises(BudgetInfeasible, match="met by 11 rounds"):
        learner.partial_fit(ROWS, LABELS)
    with pytest.raises(BudgetInfeasible, match="met by 0 rounds"):
        ic.CheckInSGD(**COMMON, **noise, budget=(1e-4, 1e-7)).fit(ROWS, LABELS)


def test_empty_rounds_are_accounted_and_change_nothing():
    few = {**COMMON, "rate": 1e-6, "rounds": 5}
    learner = ic.CheckInSGD(**few, epsilon0=1.0).fit(ROWS, LABELS)
    assert [each.participants for each in learner.history_] == [0] * 5
    assert not learner.parameters_.any()
    assert learner.protocol_.rounds == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "give epsilon0, .* or sigma"),
        ({"epsilon0": 1.0, "sigma": 1.0}, "one of the two"),
        ({"sigma": 1.0, "projection": 3}, "projection is for reports"),
        ({"epsilon0": 0.0}, "epsilon0 must be a positive finite number"),
        ({"epsilon0": "x"}, "epsilon0 must be a positive finite number"),
        ({"epsilon0": 1.0, "rate": 2.0}, "rate must be above 0"),
        ({"epsilon0": 1.0, "clip": 0.0}, "clip must be above 0"),
        ({"epsilon0": 1.0, "clip": 1e-320}, "clip must be above 0"),
    ],
)
def test_check_in_sgd_rejects_wrong_arguments(changes, message):
    with pytest.raises(InvalidParameter, match=message):
        ic.CheckInSGD(**{**COMMON, **changes})


def test_projection_larger_than_model_is_refused():
    learner = ic.CheckInSGD(**COMMON, epsilon0=1.0, projection=99)
    with pytest.raises(InvalidParameter, match="projection keeps 99 of 15 parameters"):
        learner.fit(ROWS, LABELS)
