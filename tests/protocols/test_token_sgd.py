"""Learning by a token: its steps, its guarantee, and what it refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import incrowd as ic
from incrowd.errors import BudgetInfeasible, InvalidCrowd, InvalidParameter, NotANumber
from incrowd.protocols.token_walk import TokenWalk
from incrowd.randomness import Seeds
from incrowd.tasks.learning import SVM, Logistic, Ridge, Softmax
from incrowd.tasks.learning.sampling import Participants

RNG = np.random.default_rng(8)
PEOPLE, POINTS = 120, 4
ROWS = RNG.normal(size=(PEOPLE, POINTS, 3))
ROWS /= np.linalg.norm(ROWS, axis=2, keepdims=True)
LABELS = (ROWS @ [2.0, -1.0, 0.5] > 0).astype(int)
FLAT, ANSWERS = ROWS.reshape(-1, 3), LABELS.reshape(-1)
COMMON = {
    "model": Logistic(intercept=False),
    "rounds": 300,
    "learning_rate": 0.5,
    "clip": 1.0,
    "sigma": 0.5,
    "seed": 5,
}
PUBLIC = {"path": "public", "cap": 2, "record_norm": 1.0}


def token(**changes):
    return ic.TokenSGD(**{**COMMON, **changes})


@pytest.mark.parametrize(
    ("model", "changes", "least"),
    [
        (Logistic(), {}, 0.85),
        (Logistic(intercept=False, l2=0.01), PUBLIC | {"cap": 3}, 0.85),
        (SVM(), {"radius": 5.0}, 0.85),
        (Softmax(classes=2), {"average": True, "momentum": 0.5, "learning_rate": 0.1}, 0.85),
        (Logistic(), {"learning_rate": lambda step: 1 / (1 + step) ** 0.5}, 0.85),
    ],
)
def test_token_sgd_learns_classes(model, changes, least):
    assert token(model=model, **changes).fit(ROWS, LABELS).score(FLAT, ANSWERS) > least


def test_token_sgd_learns_numbers():
    learner = token(model=Ridge(intercept=False), rounds=1500, learning_rate=0.05)
    assert learner.fit(ROWS, ROWS @ [1.0, -0.5, 0.2]).score(FLAT, FLAT @ [1.0, -0.5, 0.2]) > 0.6


def test_token_sgd_trains_module():
    pytest.importorskip("torch", reason="torch is not installed")
    from torch import nn

    from incrowd.tasks.learning import TorchModule

    model = TorchModule(lambda: nn.Linear(3, 2), classes=2)
    learner = token(model=model, rounds=100, learning_rate=1.0).fit(ROWS, LABELS)
    assert learner.score(FLAT, ANSWERS) > 0.8


# ---- what a step does


def by_hand(rounds, *, clip, sigma, speed, radius, path="hidden", cap=np.inf, seed=5):
    """Each step written out, from the same streams."""
    seeds, theta, times = Seeds(seed), np.zeros(3), np.zeros(PEOPLE)
    people = Participants(seeds, PEOPLE, "one")
    for step in range(rounds):
        (who,) = people.inside(step)
        own = np.zeros((POINTS, 3))
        for at, (x, y) in enumerate(zip(ROWS[who], LABELS[who], strict=True)):
            own[at] = (1 / (1 + np.exp(-x @ theta)) - y) * x
            if path == "public":
                own[at] *= clip / max(clip, np.linalg.norm(own[at]))
        gradient = own.mean(axis=0)
        gradient = gradient * clip / max(clip, np.linalg.norm(gradient)) * (times[who] < cap)
        times[who] += 1
        noise = sigma * clip * seeds.generator("noise", step).standard_normal(3)
        theta = theta - speed * (gradient + noise)
        theta = theta * min(1, radius / np.linalg.norm(theta))
    return theta


@pytest.mark.parametrize("clip", [10.0, 0.2])
@pytest.mark.parametrize("radius", [np.inf, 0.7])
def test_step_clips_mean_gradient_then_adds_noise_then_projects(clip, radius):
    found = token(clip=clip, rounds=200, radius=radius if radius < 9 else None).fit(ROWS, LABELS)
    expected = by_hand(200, clip=clip, sigma=0.5, speed=0.5, radius=radius)
    np.testing.assert_allclose(found.parameters_, expected, rtol=1e-8)
    assert radius > 9 or np.linalg.norm(found.parameters_) <= radius


@pytest.mark.parametrize("clip", [10.0, 0.2])
def test_public_path_clips_records_and_leaves_noise_beyond_cap(clip):
    found = token(clip=clip, rounds=400, **PUBLIC).fit(ROWS, LABELS)
    public = {"path": "public", "cap": 2}
    expected = by_hand(400, clip=clip, sigma=0.5, speed=0.5, radius=np.inf, **public)
    np.testing.assert_allclose(found.parameters_, expected, rtol=1e-8)
    unlimited = by_hand(400, clip=clip, sigma=0.5, speed=0.5, radius=np.inf, path="public")
    assert np.linalg.norm(found.parameters_ - unlimited) > 1e-3


def test_steps_beyond_cap_do_not_depend_on_data():
    few = token(rounds=80, model=Logistic(intercept=False), **PUBLIC | {"cap": 1})
    here = few.fit(ROWS[:4], LABELS[:4])
    other = token(rounds=80, **PUBLIC | {"cap": 1}).fit(ROWS[:4], 1 - LABELS[:4])
    moved = [one.step for one in here.history_], [one.step for one in other.history_]
    differ = np.flatnonzero(~np.isclose(*moved, rtol=1e-12))
    assert 2 <= differ.size <= 4
    noise = [np.linalg.norm(Seeds(5).generator("noise", at).standard_normal(3)) for at in range(80)]
    late = slice(differ[-1] + 1, None)
    np.testing.assert_allclose(moved[0][late], 0.5 * 0.5 * np.array(noise)[late], rtol=1e-9)
    assert {one.participants for one in here.history_} == {None}


def test_holders_are_uniform_and_independent():
    people = Participants(Seeds(3), 7, "one")
    drawn = np.concatenate([people.inside(step) for step in range(14_000)])
    counts = np.bincount(drawn, minlength=7)
    pairs = np.bincount(7 * drawn[:-1] + drawn[1:], minlength=49)
    assert abs(counts - 2000).max() < 5 * np.sqrt(2000)
    assert abs(pairs - 14_000 / 49).max() < 5 * np.sqrt(14_000 / 49)


# ---- what is guaranteed


@pytest.mark.parametrize("clip", [1.0, 0.25])
def test_guarantee_equals_hidden_walk(clip):
    learner = token(clip=clip, sigma=2.0, rounds=40).fit(ROWS, LABELS)
    walk = TokenWalk(
        n=PEOPLE, steps=40, contribution="sgd", sigma=2.0 * clip, clip=clip, path="hidden"
    )
    for colluders in (0, 5):
        theirs = walk.guarantee("peer", colluders)
        ours = learner.protocol_.guarantee("peer", colluders)
        assert ours.profile == theirs.profile
        assert ours.view == theirs.view == {"peer"}
    assert learner.guarantee_.profile == walk.guarantee("peer").profile
    assert learner.guarantee_.delta(0.5) == walk.guarantee("peer").delta(0.5) < 1e-3
    assert learner.guarantee((PEOPLE, 3)).profile == learner.guarantee_.profile
    assert learner.protocol_.cost().bytes_per_person == 40 / PEOPLE * 3 * 8


@pytest.mark.parametrize("published", [True, False])
def test_guarantee_equals_public_walk(published):
    learner = token(sigma=4.0, published=published, **PUBLIC).fit(ROWS, LABELS)
    walk = TokenWalk(
        n=PEOPLE, steps=300, contribution="sgd", sigma=4.0, clip=1.0, path="public", cap=2,
        published=published,
    )  # fmt: skip
    assert learner.epsilon(1e-5) == walk.guarantee("peer").epsilon(1e-5)
    assert any("smooth" in each for each in learner.guarantee_.assumptions)


def test_noise_never_below_accounted_noise():
    for sigma in (0.57, 1.4704, 26.72):
        channel = token(sigma=sigma).channel()
        walk = channel.protocol(dataclasses.replace(token().fit(ROWS, LABELS)._crowd), 5)
        assert 2 * channel.noise.sigma >= walk.randomizer.sigma
        assert walk.randomizer.sigma == pytest.approx(sigma, rel=1e-11)


def test_budget_is_kept():
    epsilon = token(sigma=3.0).guarantee((PEOPLE, 3), rounds=5).epsilon(1e-5)
    learner = token(sigma=3.0, rounds=7, budget=(epsilon, 1e-5)).fit(ROWS, LABELS)
    assert learner.rounds_ == 5
    assert learner.epsilon(1e-5) <= epsilon
    with pytest.raises(BudgetInfeasible, match="met by 5 rounds"):
        learner.partial_fit(ROWS, LABELS)
    with pytest.raises(BudgetInfeasible, match="met by 0 rounds"):
        token(sigma=3.0, rounds=1, budget=(1e-3, 1e-6)).fit(ROWS, LABELS)


@pytest.mark.parametrize("changes", [{}, PUBLIC, {"radius": 1.0, "momentum": 0.9}])
def test_resumed_training_is_bit_identical(tmp_path, changes):
    whole = token(**changes).fit(ROWS, LABELS)
    saved = {"checkpoint": tmp_path / "token.npz", "every": 50}
    # Killed after some steps, once between two checkpoints.
    token(**changes, **saved).partial_fit(ROWS, LABELS, 170)
    resumed = token(**changes, **saved).fit(ROWS, LABELS)
    np.testing.assert_array_equal(resumed.parameters_, whole.parameters_)
    assert resumed.history_ == whole.history_
    parts = token(**changes).partial_fit(ROWS, LABELS, 111).partial_fit(ROWS, LABELS, 189)
    np.testing.assert_array_equal(parts.parameters_, whole.parameters_)


def test_resume_rejects_checkpoint_of_another_path(tmp_path):
    path = tmp_path / "token.npz"
    token(checkpoint=path).partial_fit(ROWS, LABELS, 20)
    with pytest.raises(InvalidParameter, match=r"differs in cap .*, path"):
        token(checkpoint=path, **PUBLIC).fit(ROWS, LABELS)
    with pytest.raises(InvalidParameter, match="differs in radius"):
        token(checkpoint=path, radius=1.0).fit(ROWS, LABELS)


# ---- why a public path is particular


def stretched(model, clip_each, speed, clip, rng):
    """The most by which one step of one person brings two models further apart, among many."""
    worst = 0.0
    for _ in range(400):
        records = rng.normal(size=(2, 2))
        records *= np.minimum(1, 1 / np.linalg.norm(records, axis=1))[:, None]
        labels = rng.integers(0, 2, 2)
        first = rng.normal(scale=4, size=2)
        pair = first, first + rng.normal(scale=10 ** rng.uniform(-4, 1), size=2)
        after = []
        for theta in pair:
            own = model.gradients(theta, records, labels).means(2, clip if clip_each else None)
            weight = min(1, clip / own.norms()[0])
            after.append(theta - speed * weight * own.rows(slice(1))[0])
        apart = np.linalg.norm(after[0] - after[1]) / np.linalg.norm(pair[0] - pair[1])
        worst = max(worst, apart)
    return worst


@pytest.mark.parametrize(
    ("model", "clip"),
    [(Logistic(intercept=False), 0.1), (Ridge(intercept=False), 0.5)],
    ids=["logistic", "ridge"],
)
def test_record_clipping_is_contractive_and_mean_clipping_is_not(model, clip):
    learner = token(model=model, learning_rate=0.1, clip=clip, **PUBLIC)
    most = learner.largest_learning_rate()
    assert most == pytest.approx(8 if isinstance(model, Logistic) else 2)
    assert stretched(model, True, most, clip, np.random.default_rng(1)) <= 1 + 1e-9
    assert stretched(model, False, most, clip, np.random.default_rng(1)) > 1.01
    assert stretched(model, True, 2 * most, 9.0, np.random.default_rng(1)) > 1.01


def test_largest_learning_rate_includes_intercept_and_penalty():
    learner = token(model=Logistic(l2=0.5), learning_rate=0.1, **PUBLIC | {"record_norm": 3.0})
    assert learner.largest_learning_rate() == pytest.approx(2 / (0.25 * (9 + 1) + 0.5))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cap": 3}, "cap needs a public path"),
        ({"record_norm": 1.0}, "record_norm is for a public path"),
        (PUBLIC | {"cap": None}, "cap must be given with a public path"),
        (PUBLIC | {"cap": 0}, "cap must be a whole number"),
        (PUBLIC | {"record_norm": None}, "record_norm must be above 0"),
        (PUBLIC | {"record_norm": -1.0}, "record_norm must be above 0"),
        (PUBLIC | {"learning_rate": lambda step: 0.1}, "learning_rate must be a constant"),
        (PUBLIC | {"learning_rate": 8.1}, "at most 2 over the smoothness = 8 .* got 8.1"),
        (PUBLIC | {"model": SVM()}, "convex and smooth in one number, which SVM has not"),
        (PUBLIC | {"model": Logistic(classes=3)}, "which Logistic has not"),
        (PUBLIC | {"model": Softmax(classes=2)}, "which Softmax has not"),
        (PUBLIC | {"momentum": 0.5}, "momentum is not proven with a public path"),
        (PUBLIC | {"average": True}, "average is not proven with a public path"),
        ({"path": "secret"}, "path must be hidden or public"),
        ({"published": 1}, "published must be"),
        ({"sigma": 0.0}, "sigma of 0.0 times the clipping length cannot be used"),
        ({"sigma": 0.3}, "sigma of 0.3 times .*: sigma must be between"),
        ({"sigma": "x"}, "sigma must be a finite number"),
        ({"clip": 0.0}, "clip must be above 0"),
        ({"radius": 0.0}, "radius must be above 0"),
        ({"radius": "x"}, "radius must be a finite number"),
    ],
)
def test_token_sgd_rejects_invalid_arguments(changes, message):
    with pytest.raises(InvalidParameter, match=message) as caught:
        token(**changes)
    assert "\n" not in str(caught.value)


def test_token_sgd_rejects_invalid_data():
    with pytest.raises(InvalidParameter, match="length 2, above record_norm = 1: scale"):
        token(**PUBLIC).fit(2 * ROWS, LABELS)
    with pytest.raises(InvalidCrowd, match="n must be at least 3"):
        token().fit(ROWS[:2], LABELS[:2])
    with pytest.raises(NotANumber, match="records must be finite"):
        token().fit(ROWS * np.nan, LABELS)
    with pytest.raises(TypeError, match="rate"):
        token(rate=0.5)


def test_public_path_keeps_learning_rate_when_training_goes_on():
    learner = token(**PUBLIC).partial_fit(ROWS, LABELS, 2)
    learner.learning_rate = learner.learning_rate / 2
    with pytest.raises(InvalidParameter, match="began with learning_rate"):
        learner.partial_fit(ROWS, LABELS, 2)
    free = token().partial_fit(ROWS, LABELS, 2)
    free.learning_rate = 0.001
    assert free.partial_fit(ROWS, LABELS, 2).rounds_ == 4
    assert free.protocol_.steps == free.rounds == 300
    assert free.protocol_.broken


def test_settings_round_trip():
    learner = token(**PUBLIC)
    assert "rate" not in learner.get_params()
    assert ic.TokenSGD(**learner.get_params()).get_params() == learner.get_params()
    with pytest.raises(InvalidParameter, match="no setting 'rate'"):
        learner.set_params(rate=0.5)
    assert learner.set_params(sigma=2.0).channel().sigma == 2.0
