"""Models: gradients are those of the losses, labels are checked, feature maps keep their word."""

from __future__ import annotations

import numpy as np
import pytest

from incrowd.errors import InvalidParameter, NotANumber, UnknownCategory
from incrowd.randomness import Seeds
from incrowd.tasks.learning import (
    SVM,
    Bounds,
    DenseGradients,
    Logistic,
    OuterGradients,
    PlainSGD,
    RandomFourier,
    RandomProjection,
    Ridge,
    Softmax,
    UnitBall,
)
from incrowd.tasks.learning.features import orthonormal
from incrowd.tasks.learning.gradients import clip_weights

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(12, 4))
MODELS = {
    "softmax": (Softmax(classes=3), RNG.integers(0, 3, 12)),
    "two softmax": (Softmax(classes=("no", "yes")), RNG.choice(["no", "yes"], 12)),
    "logistic": (Logistic(classes=2), RNG.integers(0, 2, 12)),
    "one against the rest": (Logistic(classes=4, intercept=False), RNG.integers(0, 4, 12)),
    "svm": (SVM(classes=(-1, 1)), RNG.choice([-1, 1], 12)),
    "many svm": (SVM(classes=3), RNG.integers(0, 3, 12)),
    "ridge": (Ridge(l2=0.3), RNG.normal(size=12)),
}


def start(model, seed=1):
    size = model.start((4,), Seeds(0)).size
    return np.random.default_rng(seed).normal(size=size)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_match_numerical_derivatives_of_losses(name):
    model, labels = MODELS[name]
    theta, targets = start(model), model.targets(labels)
    rows = model.gradients(theta, ROWS, targets).rows(slice(None))
    for place in range(theta.size):
        step = np.zeros(theta.size)
        step[place] = 1e-6
        change = model.losses(theta + step, ROWS, targets) - model.losses(
            theta - step, ROWS, targets
        )
        np.testing.assert_allclose(rows[:, place], change / 2e-6, atol=1e-7)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_outer_gradients_combine_and_measure_as_their_rows(name, kind):
    model, labels = MODELS[name]
    found = model.gradients(start(model), ROWS.astype(kind), model.targets(labels))
    rows = found.rows(slice(None))
    weights = np.linspace(-1, 1, 12)
    np.testing.assert_allclose(found.combined(weights), weights @ rows, rtol=1e-4, atol=1e-5)
    true = np.linalg.norm(rows, axis=1)
    assert np.all(found.norms() >= true)
    np.testing.assert_allclose(found.norms(), true, rtol=1e-5)
    assert len(found.norms()) == 12


def test_penalty_leaves_the_intercept_alone():
    model = Ridge(l2=0.5)
    np.testing.assert_array_equal(model.penalty(np.array([2.0, -4.0, 8.0])), [1.0, -2.0, 0.0])
    assert not Softmax(classes=3).penalty(np.ones(9)).any()


def test_gradient_norms_never_below_exact_length():
    rows = np.random.default_rng(2).normal(size=(40, 3000)).astype(np.float32)
    rows[1] *= np.float32(1e-25)
    rows[2] *= np.float32(1e25)
    rows[3] = 0.0
    rows[4, 7] = np.nan
    rows[5, 7] = -np.inf
    norms = DenseGradients(rows).norms()
    assert np.isinf(norms[[4, 5]]).all()
    kept = np.delete(np.arange(40), [4, 5])
    true = np.linalg.norm(rows[kept].astype(np.float64), axis=1)
    assert np.all(norms[kept] >= true)
    np.testing.assert_allclose(norms[kept], true, rtol=3e-4, atol=1e-300)
    weights = clip_weights(norms[kept], 0.5)
    clipped = weights.astype(np.float32)[:, None] * rows[kept]
    assert np.linalg.norm(clipped.astype(np.float64), axis=1).max() <= 0.5
    assert weights[3] == 1.0


def test_outer_gradient_norms_beyond_doubles_are_infinite():
    found = OuterGradients(np.array([[1e200], [np.nan]]), np.array([[1e200], [1.0]]), True)
    assert np.isinf(found.norms()).all()


def test_ridge_finds_the_solution_of_its_equations():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 3))
    labels = rows @ [1.0, -2.0, 0.5] + 3 + 0.1 * rng.normal(size=200)
    learner = PlainSGD(model=Ridge(l2=0.1), rounds=400, rate=1.0, learning_rate=0.3, seed=1)
    learner.fit(rows, labels)
    design = np.column_stack([rows, np.ones(200)])
    pull = np.diag([0.1, 0.1, 0.1, 0.0])
    exact = np.linalg.solve(design.T @ design / 200 + pull, design.T @ labels / 200)
    np.testing.assert_allclose(learner.parameters_, exact, rtol=1e-9)
    assert learner.score(rows, labels) > 0.95
    assert learner.predict(rows).shape == (200,)


def test_classifier_predicts_labels():
    model, labels = MODELS["two softmax"]
    assert set(model.predict(start(model), ROWS)) <= {"no", "yes"}
    assert 0 <= model.score(start(model), ROWS, labels) <= 1


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: Softmax(classes=1), InvalidParameter, "classes must be a whole number ≥ 2"),
        (lambda: Softmax(classes=("a", "a")), InvalidParameter, "two different labels"),
        (lambda: Softmax(classes="ab"), InvalidParameter, "classes must be a whole number"),
        (lambda: Ridge(l2=-1.0), InvalidParameter, "l2 must be ≥ 0"),
        (lambda: Softmax(classes=3).targets(np.array([0, 3])), UnknownCategory, "label 3 is none"),
        (lambda: Softmax(classes=3).targets(np.array([0, 0.5])), UnknownCategory, "label 0.5"),
        (lambda: Softmax(classes=2).targets(np.array(["x"])), UnknownCategory, "label 'x' is none"),
        (lambda: Softmax(classes=2).targets(np.zeros((2, 2))), InvalidParameter, "one per person"),
        (lambda: Ridge().targets(np.array(["x"])), NotANumber, "must be numbers"),
        (lambda: Ridge().targets(np.array([np.nan])), NotANumber, "must be finite"),
        (lambda: Ridge().targets(np.zeros((2, 2))), InvalidParameter, "one per person"),
        (lambda: Ridge().start((2, 3), Seeds(0)), InvalidParameter, "reshape them to two axes"),
        (lambda: Bounds(1.0, 1.0), InvalidParameter, "low < high"),
        (lambda: UnitBall(0.0), InvalidParameter, "radius must be above 0"),
        (lambda: RandomFourier(4, -1.0, 0), InvalidParameter, "width must be above 0"),
        (lambda: RandomProjection(9, 0).transform(ROWS), InvalidParameter, "between 1 and all 4"),
        (lambda: UnitBall().transform(ROWS[0]), InvalidParameter, "an array of rows"),
    ],
)
def test_model_with_wrong_argument_raises_one_clear_line(call, kind, message):
    with pytest.raises(kind, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_feature_maps_scale_and_shorten_as_stated():
    np.testing.assert_allclose(
        Bounds([0, 10], [1, 20]).transform(np.array([[0.5, 20.0], [-3.0, 12.5]])),
        [[0.0, 1.0], [-1.0, -0.5]],
    )
    np.testing.assert_allclose(
        UnitBall(2.0).transform(np.array([[3.0, 4.0], [0.6, 0.8]])), [[0.6, 0.8], [0.3, 0.4]]
    )
    base = orthonormal(50, 7, Seeds(3))
    np.testing.assert_allclose(base.T @ base, np.eye(7), atol=1e-12)


def test_random_maps_are_public_and_keep_geometry():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(30, 400))
    small = RandomProjection(200, seed=9).transform(rows)
    np.testing.assert_array_equal(small, RandomProjection(200, seed=9).transform(rows))
    ratio = np.linalg.norm(small, axis=1) / np.linalg.norm(rows, axis=1)
    assert abs(ratio - 1).max() < 0.2
    rows = rows[:, :5]
    waves = RandomFourier(6000, width=2.0, seed=1).transform(rows)
    apart = ((rows[:, None] - rows) ** 2).sum(axis=2)
    assert abs(waves @ waves.T - np.exp(-apart / 8)).max() < 0.06
    assert np.linalg.norm(waves, axis=1).max() <= np.sqrt(2)
