"""The trainer: it learns, stops within its budget, and keeps a round as a whole or not at all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from incrowd.errors import (
    BudgetInfeasible,
    EmptyData,
    InvalidDelta,
    InvalidEpsilon,
    InvalidParameter,
    NotANumber,
    NotProven,
    ProtocolFailed,
    UnknownCategory,
)
from incrowd.tasks.learning import (
    SVM,
    CentralSGD,
    DenseGradients,
    LocalSGD,
    Logistic,
    OuterGradients,
    PlainSGD,
    Ridge,
    Softmax,
)

RNG = np.random.default_rng(11)
LABELS = RNG.integers(0, 3, 600)
ROWS = RNG.normal(size=(600, 4)) * 0.4 + np.eye(3, 4)[LABELS] * 1.5
COMMON = {"model": Softmax(classes=3), "rounds": 60, "rate": 0.3, "learning_rate": 0.5, "seed": 4}


def central(**changes):
    return CentralSGD(**{**COMMON, "clip": 1.0, "sigma": 1.0, **changes})


@pytest.mark.parametrize(
    ("learner", "least"),
    [
        (PlainSGD(**COMMON), 0.9),
        (PlainSGD(**{**COMMON, "model": SVM(classes=3, l2=0.01)}, clip=1.0), 0.9),
        (PlainSGD(**{**COMMON, "model": Logistic(classes=3)}, momentum=0.8, average=True), 0.9),
        (CentralSGD(**COMMON, clip=1.0, sigma=1.0), 0.88),
        (LocalSGD(**COMMON, clip=1.0, epsilon0=8.0), 0.85),
        (LocalSGD(**COMMON, clip=1.0, epsilon0=12.0, projection=8), 0.5),
    ],
)
def test_learners_learn(learner, least):
    learner.fit(ROWS, LABELS)
    assert learner.score(ROWS, LABELS) > least
    assert learner.loss(ROWS, LABELS) < math.log(3)
    assert learner.rounds_ == 60
    assert learner.predict(ROWS[:5]).shape == (5,)


def test_training_depends_on_the_seed_alone():
    first, same, other = (central(seed=seed).fit(ROWS, LABELS) for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.parameters_, same.parameters_)
    assert not np.array_equal(first.parameters_, other.parameters_)
    drawn = central(seed=None).fit(ROWS, LABELS)
    again = central(seed=drawn.seed_).fit(ROWS, LABELS)
    np.testing.assert_array_equal(drawn.parameters_, again.parameters_)


def test_partial_fit_round_by_round_equals_fit():
    whole = central(momentum=0.5, average=True).fit(ROWS, LABELS)
    steps = central(momentum=0.5, average=True)
    for more in (1, 19, 40):
        steps.partial_fit(ROWS, LABELS, rounds=more)
        assert steps.epsilon(1e-5) == whole.epsilon(1e-5)
    np.testing.assert_array_equal(whole.parameters_, steps.parameters_)
    assert whole.history_ == steps.history_
    assert steps.rounds_ == 60
    assert steps.epsilon(1e-5) == whole.epsilon(1e-5)
    with pytest.raises(InvalidParameter, match=r"rounds = 60 were planned .* at most 0 more"):
        steps.partial_fit(ROWS, LABELS)
    steps.fit(ROWS, LABELS)
    assert steps.rounds_ == 60


def test_history_holds_no_more_than_is_released():
    known = PlainSGD(**COMMON).fit(ROWS, LABELS).history_
    assert len(known) == 60
    assert 120 < np.mean([each.participants for each in known]) < 240
    assert all(each.step > 0 for each in known)
    assert {each.participants for each in central().fit(ROWS, LABELS).history_} == {None}


def test_learning_rate_schedule_is_followed():
    learner = PlainSGD(**{**COMMON, "learning_rate": lambda t: 0.5 / math.sqrt(t + 1)})
    rates = [each.learning_rate for each in learner.fit(ROWS, LABELS).history_]
    assert rates == [0.5 / math.sqrt(t + 1) for t in range(60)]
    learner = PlainSGD(**{**COMMON, "learning_rate": lambda t: 0.5 - t})
    with pytest.raises(InvalidParameter, match="learning_rate must be above 0"):
        learner.fit(ROWS, LABELS)
    assert learner.rounds_ == 1


def test_average_is_of_all_iterates_and_prefers_late_ones():
    learner = PlainSGD(**{**COMMON, "rounds": 3}, average=True)
    last = PlainSGD(**{**COMMON, "rounds": 3})
    iterates = []
    for _ in range(3):
        learner.partial_fit(ROWS, LABELS)
        iterates.append(last.partial_fit(ROWS, LABELS).parameters_)
    weights = np.array([1.0, 0.0, 0.0])
    for t in (2, 3):
        share = 4 / (t + 3)
        weights *= 1 - share
        weights[t - 1] = share
    np.testing.assert_allclose(learner.parameters_, weights @ np.array(iterates))


def test_guarantee_reads_no_data():
    learner = central()
    guarantee = learner.guarantee((600, 4))
    learner.fit(ROWS, LABELS)
    assert learner.epsilon(1e-5) == guarantee.epsilon(1e-5)
    assert learner.guarantee((600, 4), rounds=1).epsilon(1e-5) < guarantee.epsilon(1e-5)


def test_guarantee_ignores_settings_changed_after_training():
    learner = central().fit(ROWS, LABELS)
    before = learner.epsilon(1e-5)
    assert learner.set_params(sigma=5.0, rate=0.1).epsilon(1e-5) == before


def test_plain_sgd_epsilon_is_infinite_and_guarantee_refused():
    learner = PlainSGD(**COMMON).fit(ROWS, LABELS)
    assert learner.epsilon(1e-5) == math.inf
    with pytest.raises(NotProven, match="guarantees no privacy"):
        _ = learner.guarantee_


def test_budget_stops_training_in_time():
    epsilon = central().guarantee((600, 4), rounds=23).epsilon(1e-5)
    learner = central(budget=(epsilon, 1e-5)).fit(ROWS, LABELS)
    assert learner.rounds_ == 23
    assert learner.epsilon(1e-5) <= epsilon
    assert learner.guarantee((600, 4), rounds=24).epsilon(1e-5) > epsilon
    with pytest.raises(BudgetInfeasible, match="met by 23 rounds, and 23 were held"):
        learner.partial_fit(ROWS, LABELS)
    assert learner.rounds_ == 23
    plenty = central(budget=(1e6, 1e-5)).fit(ROWS, LABELS)
    assert plenty.rounds_ == 60


def test_budget_for_no_round_is_refused():
    learner = central(budget=(0.01, 1e-9))
    with pytest.raises(BudgetInfeasible, match="met by 0 rounds"):
        learner.fit(ROWS, LABELS)
    assert learner.rounds_ == 0
    with pytest.raises(ProtocolFailed, match="nothing was released"):
        learner.epsilon(1e-5)


def test_rounds_without_people_are_accounted():
    few = {**COMMON, "rate": 1e-5, "rounds": 20}
    silent = LocalSGD(**few, clip=1.0, epsilon0=1.0).fit(ROWS, LABELS)
    assert [each.participants for each in silent.history_] == [0] * 20
    assert not silent.parameters_.any()
    assert silent.rounds_ == 20
    assert silent.guarantee_.delta(0.0) > LocalSGD(**few, clip=1.0, epsilon0=1.0).guarantee(
        (600, 4), rounds=19
    ).delta(0.0)
    noisy = CentralSGD(**few, clip=1.0, sigma=1.0).fit(ROWS, LABELS)
    assert all(each.step > 0 for each in noisy.history_)


def test_parameters_that_are_not_finite_are_not_kept_and_the_round_is_spent():
    learner = PlainSGD(**{**COMMON, "model": Ridge(), "learning_rate": 1e150, "rate": 1.0})
    with pytest.raises(NotANumber, match=r"round 2: a parameter is not a finite .* as spent"):
        learner.fit(ROWS, LABELS)
    held = learner.rounds_
    assert held == 3
    assert len(learner.history_) == held
    assert learner.history_[-1].step == 0.0
    assert np.isfinite(learner.parameters_).all()
    before = learner.parameters_
    with pytest.raises(NotANumber, match=f"round {held}: "):
        learner.partial_fit(ROWS, LABELS)
    np.testing.assert_array_equal(learner.parameters_, before)
    assert learner.rounds_ == held + 1


def test_training_that_ends_by_what_it_came_to_is_charged_as_planned():
    learner = central(learning_rate=lambda t: 0.5 if t < 4 else 1e308, clip=1e10)
    with pytest.raises(NotANumber, match="round 4: a parameter"):
        learner.fit(ROWS, LABELS)
    assert learner.rounds_ == 5
    assert learner.epsilon(1e-5) == learner.guarantee((600, 4)).epsilon(1e-5)


@pytest.mark.parametrize(
    "learner",
    [
        central(model=Ridge(), rate=1.0, rounds=5),
        LocalSGD(**{**COMMON, "model": Ridge(), "rate": 1.0, "rounds": 5}, clip=1.0, epsilon0=4.0),
    ],
)
def test_gradients_beyond_all_numbers_count_as_zero(learner):
    """Whether training goes on, and what is guaranteed, does not depend on one record."""
    rows = ROWS.copy()
    rows[7] *= 1e200
    with np.errstate(all="raise"):
        learner.fit(rows, LABELS)
    assert [each.not_finite for each in learner.history_] == [0, 1, 1, 1, 1]
    assert np.isfinite(learner.parameters_).all()
    assert learner.epsilon(1e-5) == learner.guarantee((600, 4)).epsilon(1e-5)


def test_without_puts_zero_for_gradients():
    gradients = OuterGradients(np.array([[math.inf], [2.0]]), np.ones((2, 3)), intercept=True)
    lost = ~np.isfinite(gradients.norms())
    assert lost.tolist() == [True, False]
    assert gradients.without(lost).rows(slice(0, 2)).tolist() == [[0.0] * 4, [2.0] * 4]
    assert gradients.without(lost).combined(np.ones(2)).tolist() == [2.0] * 4
    dense = DenseGradients(np.array([[1.0, np.nan], [3.0, 4.0]], np.float32)).without(lost)
    assert dense.matrix.dtype == np.float32
    assert dense.norms() == pytest.approx([0.0, 5.0], rel=1e-5)


def test_tiny_records_in_single_precision_do_not_overflow():
    gradients = OuterGradients(np.array([[1e45]]), np.full((1, 2), 1e-40, np.float32), False)
    weights = 1.0 / gradients.norms()
    assert np.linalg.norm(gradients.combined(weights)) == pytest.approx(1.0, rel=1e-4)


def test_progress_function_is_called_after_each_round():
    seen = []
    central(rounds=3, progress=lambda done, total: seen.append((done, total))).fit(ROWS, LABELS)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_progress_bar_is_drawn_on_terminals_only(monkeypatch, capsys):
    import sys

    central(rounds=3, progress=True).fit(ROWS, LABELS)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    central(rounds=3, progress=True).fit(ROWS, LABELS)
    assert "training" in capsys.readouterr().err


def test_settings_are_read_and_changed_by_name():
    learner = central()
    assert learner.get_params()["clip"] == 1.0
    same = CentralSGD(**learner.get_params())
    assert same.get_params() == learner.get_params()
    assert learner.set_params(clip=2.0).clip == 2.0
    with pytest.raises(InvalidParameter, match="no setting 'clips': did you mean clip"):
        learner.set_params(clips=1.0)
    with pytest.raises(InvalidParameter, match="clip must be above 0"):
        learner.set_params(rate=0.5, clip=0.0)
    assert (learner.rate, learner.clip) == (0.3, 2.0)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: central(rate=0.0), InvalidParameter, "rate must be above 0 and at most 1"),
        (lambda: central(rate=1.5), InvalidParameter, "rate must be above 0 and at most 1"),
        (lambda: central(rounds=0), InvalidParameter, "rounds must be a whole number ≥ 1"),
        (lambda: central(momentum=1.0), InvalidParameter, "momentum must be at least 0"),
        (lambda: central(learning_rate=0.0), InvalidParameter, "learning_rate must be above 0"),
        (lambda: central(learning_rate="fast"), InvalidParameter, "learning_rate must be a fin"),
        (lambda: central(model="softmax"), InvalidParameter, "model must be a Model such as"),
        (lambda: central(every=0), InvalidParameter, "every must be a whole number ≥ 1"),
        (lambda: central(seed=2**70), InvalidParameter, "seed must be below 2\\^63"),
        (lambda: central(seed=-1), InvalidParameter, "seed must be a whole number ≥ 0"),
        (lambda: central(budget=1.0), InvalidParameter, r"budget must be a pair \(epsilon, delta"),
        (lambda: central(budget=(0.0, 1e-5)), InvalidEpsilon, "epsilon must be a positive"),
        (lambda: central(budget=(1.0, 2.0)), InvalidDelta, "delta must lie strictly"),
        (lambda: central().fit(ROWS, LABELS[:5]), InvalidParameter, "600 records and 5 labels"),
        (lambda: central().fit(ROWS, LABELS + 1), UnknownCategory, "label 3 is none"),
        (lambda: central().fit(ROWS[:, 0], LABELS), InvalidParameter, "at least two axes"),
        (lambda: central().fit(ROWS[:, :, None], LABELS), InvalidParameter, "reshape them"),
        (lambda: central().fit(ROWS[:0], LABELS[:0]), EmptyData, "there are no records"),
        (lambda: central().fit(ROWS * np.nan, LABELS), NotANumber, "records must be finite"),
        (lambda: central().fit([["a"]], [0]), InvalidParameter, "records must be numbers"),
        (lambda: central().fit([[1.0], [1.0, 2.0]], [0, 1]), InvalidParameter, "must be numbers"),
        (lambda: central().predict(ROWS), ProtocolFailed, "CentralSGD is not trained yet"),
        (lambda: central().epsilon(1e-5), ProtocolFailed, "not trained yet: call fit"),
        (lambda: central().guarantee((9, 4), 2.9), InvalidParameter, "rounds must be a whole"),
        (lambda: central().guarantee((9, 4), True), InvalidParameter, "rounds must be a whole"),
        (lambda: central().guarantee((9, 4), 0), InvalidParameter, "rounds must be a whole"),
        (lambda: central(sigma=1e200), InvalidParameter, "sigma must be at most"),
        (lambda: central(model=Ridge()).fit(ROWS, LABELS * np.nan), NotANumber, "must be finite"),
        (
            lambda: central().partial_fit(ROWS, LABELS).partial_fit(ROWS[::-1], LABELS),
            InvalidParameter,
            "training began with data = ",
        ),
        (lambda: central().guarantee((0, 4)), InvalidParameter, "n must be a whole number of"),
        (
            lambda: central().partial_fit(ROWS, LABELS).partial_fit(ROWS[:9], LABELS[:9]),
            InvalidParameter,
            r"training began with records = \[600, 4\], got \[9, 4\]",
        ),
        (
            lambda: (
                central().partial_fit(ROWS, LABELS).set_params(rate=0.1).partial_fit(ROWS, LABELS)
            ),
            InvalidParameter,
            "training began with rate = 0.3, got 0.1",
        ),
        (
            lambda: (
                central()
                .partial_fit(ROWS, LABELS)
                .set_params(model=Softmax(classes=3))
                .partial_fit(ROWS, LABELS)
            ),
            InvalidParameter,
            "training began with another model",
        ),
        (
            lambda: central().fit(ROWS, LABELS).predict(ROWS[:, :3]),
            InvalidParameter,
            "trained on records",
        ),
    ],
)
def test_learner_with_wrong_argument_raises_one_clear_line(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_learning_example_runs(monkeypatch, capsys):
    import importlib.util
    import sys
    from pathlib import Path

    path = Path(__file__).parents[2] / "examples" / "learn_digits.py"
    spec = importlib.util.spec_from_file_location("learn_digits", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr(example, "PEOPLE", 1500)
    monkeypatch.setattr(sys, "argv", ["learn_digits.py", "--seed", "3"])
    example.main()
    printed = capsys.readouterr().out
    assert "a shuffler of reports" in printed
    assert "∞" in printed
