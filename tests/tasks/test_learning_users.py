"""People with several records, one person each round, and the baselines in both."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

import incrowd as ic
from incrowd.errors import InvalidParameter
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import SampledProfile
from incrowd.randomness import Seeds
from incrowd.tasks.learning import (
    SVM,
    CentralNoise,
    CentralSGD,
    Crowd,
    DenseGradients,
    LocalNoise,
    LocalSGD,
    Logistic,
    OuterGradients,
    PlainSGD,
    Ridge,
    Softmax,
    SubsampledGaussian,
)
from incrowd.tasks.learning.sampling import Participants

RNG = np.random.default_rng(31)
ROWS = RNG.normal(size=(90, 5, 3))
LABELS = (ROWS[..., 0] + 0.3 * ROWS[..., 1] > 0).astype(int)
FLAT, ANSWERS = ROWS.reshape(-1, 3), LABELS.reshape(-1)
COMMON = {"model": Logistic(), "rounds": 200, "rate": "one", "learning_rate": 0.5, "seed": 4}
LEARNERS = {
    "plain": lambda **kw: PlainSGD(**{**COMMON, **kw}),
    "central": lambda **kw: CentralSGD(**{**COMMON, "clip": 1.0, "sigma": 0.5, **kw}),
    "local": lambda **kw: LocalSGD(**{**COMMON, "clip": 1.0, "sigma": 0.5, **kw}),
    "reports": lambda **kw: LocalSGD(**{**COMMON, "clip": 1.0, "epsilon0": 8.0, **kw}),
}


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
@pytest.mark.parametrize("rate", ["one", 0.3])
def test_baselines_learn_from_people_with_several_records(make, rate):
    assert make(rate=rate).fit(ROWS, LABELS).score(FLAT, ANSWERS) > 0.85


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_one_record_per_person_trains_as_plain_records(make):
    single = make(rate=0.3).fit(ROWS[:, 0], LABELS[:, 0])
    several = make(rate=0.3).fit(ROWS[:, :1], LABELS[:, :1])
    np.testing.assert_allclose(several.parameters_, single.parameters_, rtol=1e-9, atol=1e-12)


def test_check_in_takes_people_with_several_records_and_no_single_person():
    chosen = {**COMMON, "rate": 0.3, "clip": 1.0}
    for noise in ({"sigma": 0.5}, {"epsilon0": 8.0}):
        learner = ic.CheckInSGD(**chosen, **noise).fit(ROWS, LABELS)
        assert learner.score(FLAT, ANSWERS) > 0.85
        assert learner.guarantee((90, 3)).profile == learner.guarantee_.profile
        with pytest.raises(InvalidParameter, match="not accounted for with one person each round"):
            ic.CheckInSGD(**{**chosen, "rate": "one"}, **noise)


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("model", [Logistic(), Softmax(classes=3), SVM(), Ridge(intercept=False)])
def test_means_of_outer_products_are_means_of_rows(model, clip):
    theta = RNG.normal(size=model.start((3,), Seeds(0)).size)
    found = model.gradients(theta, FLAT, ANSWERS)
    assert isinstance(found, OuterGradients)
    written = DenseGradients(found.rows(slice(None))).means(5, clip).matrix
    np.testing.assert_allclose(found.means(5, clip).matrix, written, rtol=1e-9, atol=1e-14)
    if clip is None:
        expected = found.rows(slice(None)).reshape(90, 5, -1).mean(axis=1)
        np.testing.assert_allclose(written, expected)
    else:
        assert np.linalg.norm(written, axis=1).max() <= clip


def test_record_without_finite_gradient_zeroes_its_person():
    # At parameters this wild the residual of one record overflows, and the person counts as zero.
    learner = PlainSGD(**{**COMMON, "model": Ridge(), "rounds": 2, "rate": 1.0, "clip": 1.0})
    learner.set_params(learning_rate=1e150)
    rows = ROWS.copy()
    rows[7, 2] *= 1e200
    learner.fit(rows, LABELS)
    assert [one.not_finite for one in learner.history_][1] >= 1


def test_participants_are_never_in_more_often_than_the_cap():
    for rate in ("one", 0.2):
        for cap in (1, 3):
            people = Participants(Seeds(1), 20, rate, cap)
            free = Participants(Seeds(1), 20, rate)
            seen = [people.inside(number) for number in range(200)]
            times = np.zeros(20, int)
            for number, inside in enumerate(seen):
                drawn = free.inside(number)
                np.testing.assert_array_equal(inside, drawn[times[drawn] < cap])
                times[drawn] += 1
            assert np.bincount(np.concatenate(seen), minlength=20).max() == cap
            again = Participants(Seeds(1), 20, rate, cap)
            np.testing.assert_array_equal(again.inside(60), seen[60])
            np.testing.assert_array_equal(again.inside(3), seen[3])


def test_local_training_leaves_out_people_at_the_cap():
    learner = LEARNERS["local"](cap=1, rounds=2000).fit(ROWS, LABELS)
    assert sum(one.participants for one in learner.history_) == 90
    late = [one.step for one in learner.history_ if one.participants == 0]
    assert set(late) == {0.0}


def test_parameters_stay_in_the_ball():
    learner = LEARNERS["central"](radius=0.5).fit(ROWS, LABELS)
    assert np.linalg.norm(learner.parameters_) <= 0.5
    assert max(one.step for one in learner.history_) <= 1.0
    wide = LEARNERS["central"](radius=1e6).fit(ROWS, LABELS)
    np.testing.assert_array_equal(
        wide.parameters_, LEARNERS["central"]().fit(ROWS, LABELS).parameters_
    )


# ---- what is guaranteed of one person each round


def divergence(epsilon, n, sigma):
    """Of one round where the victim holds +1 or −1 and everybody else −1, by integration."""

    def excess(z):
        mixed = norm.pdf(z, 1, sigma) / n + norm.pdf(z, -1, sigma) * (1 - 1 / n)
        return max(0.0, mixed - math.exp(epsilon) * norm.pdf(z, -1, sigma))

    where = sigma**2 / 2 * math.log1p(n * math.expm1(epsilon))
    return quad(excess, where, where + 30 * sigma, epsabs=1e-15)[0]


@pytest.mark.parametrize(("n", "sigma", "epsilon"), [(5, 1.0, 0.2), (20, 2.0, 0.05), (3, 0.7, 1.0)])
def test_curator_drawing_one_person_attains_its_bound(n, sigma, epsilon):
    crowd = Crowd(people=n, rate=1 / n, size=1, one=True)
    bound = CentralNoise(1.0, sigma).guarantee(crowd, 1).delta(epsilon)
    attained = divergence(epsilon, n, sigma)
    assert attained <= bound
    assert 0.98 * bound < attained
    # Coins leave a gradient of zero where somebody is not in, which hides better.
    assert SubsampledGaussian(1 / n, sigma).delta(epsilon) < attained


def test_curator_drawing_one_person_composes_step_by_step():
    """A token whose steps were all seen, by somebody who is none of the people."""
    found = LEARNERS["central"](sigma=2.0, rounds=50).guarantee((90, 3))
    seen = RepeatedProfile(SampledProfile(GaussianProfile(2 / 2.0), 1 / 90), 50)
    assert found.delta(0.3) == pytest.approx(seen.delta(0.3), rel=1e-6)
    assert found.view == {"analyst"}
    walk = ic.TokenSGD(
        model=Logistic(), rounds=50, learning_rate=0.5, clip=1.0, sigma=2.0, seed=4
    )  # fmt: skip
    # A participant has one fewer to hide among.
    assert found.delta(0.3) < walk.guarantee((90, 3)).delta(0.3) < 1.1 * found.delta(0.3)


def test_crowd_expects_one_person_when_one_is_drawn():
    crowd = Crowd(people=7, rate=1 / 7, size=2, one=True)
    assert crowd.expected == 1
    assert Crowd(people=7, rate=0.5, size=2).expected == 3.5


def test_local_noise_with_a_cap_composes_that_many_noises():
    guarantee = LEARNERS["local"](sigma=26.72, cap=10, rounds=20_000).guarantee((2000, 3))
    assert guarantee.epsilon(1e-6) == pytest.approx(1, abs=1e-3)
    exact = GaussianProfile(2 * math.sqrt(10) / 26.72)
    assert guarantee.delta(1.0) == pytest.approx(exact.delta(1.0), rel=1e-9)
    few = LEARNERS["local"](sigma=26.72, cap=10, rounds=4).guarantee((2000, 3))
    assert few.delta(0.1) == pytest.approx(GaussianProfile(4 / 26.72).delta(0.1), rel=1e-9)


def test_local_noise_without_a_cap_is_the_mean_over_the_number_of_contributions():
    n, rounds, sigma, epsilon = 40, 120, 10.0, 1.0
    guarantee = LEARNERS["local"](sigma=sigma, rounds=rounds).guarantee((n, 3))
    exact = sum(
        binom.pmf(k, rounds, 1 / n) * GaussianProfile(2 * math.sqrt(k) / sigma).delta(epsilon)
        for k in range(1, 40)
    )
    found = guarantee.delta(epsilon)
    assert exact <= found <= 1.02 * exact
    assert guarantee.epsilon(1e-5) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LEARNERS["plain"](rate="two"), "rate must be a number .* or 'one'"),
        (lambda: LEARNERS["plain"](rate=0.0), "rate must be above 0"),
        (lambda: LEARNERS["local"](epsilon0=1.0), "one of the two"),
        (lambda: LocalSGD(**COMMON, clip=1.0), "one of the two"),
        (lambda: LEARNERS["local"](projection=2), "projection is for reports"),
        (lambda: LEARNERS["reports"](cap=2), "cap is for Gaussian noise"),
        (lambda: LEARNERS["local"](cap=0), "cap must be a whole number"),
        (lambda: LEARNERS["local"](sigma=-1.0), "sigma must lie between"),
        (lambda: LocalNoise(0.0, 1.0), "clip must be above 0"),
        (lambda: LocalNoise(1.0, 0.3), "sigma of 0.3 times .*: sigma must be between"),
        (lambda: LEARNERS["plain"](radius=-1), "radius must be above 0"),
        (lambda: LEARNERS["plain"]().fit(ROWS, LABELS[:, :2]), "give one label for each record"),
        (lambda: LEARNERS["plain"]().fit(ROWS, LABELS[:, 0]), "rows of numbers"),
        (lambda: LEARNERS["plain"]().fit(ROWS[:, 0], LABELS), "labels must be one per person"),
    ],
)
def test_rate_with_wrong_argument_raises_one_clear_line(call, message):
    with pytest.raises(InvalidParameter, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
