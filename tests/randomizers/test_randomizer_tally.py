"""Reports that are added up on their way say the same as reports that arrive one by one."""

import numpy as np
import pytest

from incrowd.errors import InvalidParameter, NotANumber
from incrowd.randomizers import KRR, OLH, Gaussian, GaussianVector, Laplace

ADDED_UP = {
    "krr": (KRR(epsilon=1.0, categories=5), np.arange(2000) % 5),
    "laplace": (Laplace(epsilon=1.0), np.linspace(0, 1, 2000)),
    "gaussian": (Gaussian(epsilon=1.0, delta=1e-6), np.linspace(0, 1, 2000)),
    "vector": (
        GaussianVector(epsilon=1.0, delta=1e-6, dimension=3),
        np.eye(3)[np.arange(2000) % 3],
    ),
}


@pytest.mark.parametrize("kind", ADDED_UP)
def test_from_tally_equals_estimate_from_reports(kind):
    randomizer, values = ADDED_UP[kind]
    reports = randomizer.randomize(values, np.random.default_rng(3))
    parts = [randomizer.tally(reports[some::7]) for some in range(7)]
    summed = randomizer.from_tally(np.sum(parts, axis=0), len(reports), len(reports))
    alone = randomizer.estimate(reports)
    np.testing.assert_allclose(summed.value, alone.value, rtol=1e-12)
    np.testing.assert_allclose(summed.variance, alone.variance, rtol=1e-12)


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "vector"])
def test_from_tally_with_half_the_noise_has_half_the_variance(kind):
    randomizer, values = ADDED_UP[kind]
    total = np.sum(values, axis=0)
    whole = randomizer.from_tally(total, 2000, 2000)
    half = randomizer.from_tally(total, 2000, 1000)
    np.testing.assert_allclose(half.variance * 2, whole.variance)


def test_krr_from_tally_removes_uniform_elements():
    """The share of a category among people, however many uniform elements were put in."""
    randomizer, values = KRR(epsilon=1.0, categories=4), np.repeat([0, 1, 2, 3], [600, 250, 150, 0])
    rng = np.random.default_rng(5)
    found, claimed = [], []
    for _ in range(600):
        counts = randomizer.tally(randomizer.randomize(values, rng))
        blank = np.bincount(rng.integers(4, size=300), minlength=4)
        estimate = randomizer.from_tally(counts + blank, 1000, 1300)
        found.append(estimate.value)
        claimed.append(estimate.variance)
    error = np.mean(found, axis=0) - [0.6, 0.25, 0.15, 0]
    assert np.all(np.abs(error) < 4 * np.std(found, axis=0) / np.sqrt(600))
    np.testing.assert_allclose(np.mean(claimed, axis=0), np.var(found, axis=0), rtol=0.25)


def test_olh_refuses_tally():
    with pytest.raises(InvalidParameter, match="cannot be added up"):
        OLH(epsilon=1.0, categories=4).tally(np.zeros(3))
    with pytest.raises(InvalidParameter, match="cannot be added up"):
        OLH(epsilon=1.0, categories=4).from_tally(np.zeros(4), 3, 3)


@pytest.mark.parametrize("sigma", [0.25, 0.426, 1.0, 4.2247, 100.0, 2e5])
def test_gaussian_with_sigma_has_that_sigma(sigma):
    found = Gaussian.with_sigma(sigma).sigma
    assert sigma * (1 - 1e-12) <= found <= sigma * (1 + 1e-9)


@pytest.mark.parametrize("sigma", [0.0, 0.1, -1, float("nan"), 1e9])
def test_gaussian_with_sigma_refuses_invalid_sigma(sigma):
    with pytest.raises(InvalidParameter, match="sigma"):
        Gaussian.with_sigma(sigma)


def test_gaussian_vector_has_twice_the_sigma_of_numbers():
    vector = GaussianVector(epsilon=0.7, delta=1e-5, dimension=2)
    number = Gaussian(epsilon=0.7, delta=1e-5)
    assert vector.sigma == 2 * number.sigma
    assert vector.local_delta(0.3) == pytest.approx(number.local_delta(0.3), rel=1e-12)
    with pytest.raises(NotANumber, match="length"):
        vector.randomize(np.array([[1.0, 1.0]]), np.random.default_rng(0))


@pytest.mark.parametrize("categories", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [-2.0, -0.3, 0.0, 0.4, 0.999, 1.0, 2.0])
def test_krr_local_delta_equals_closed_form(categories, epsilon):
    odds = np.e
    p, q = odds / (odds + categories - 1), 1 / (odds + categories - 1)
    t = np.exp(epsilon)
    rest = (categories - 2) * max(0.0, q - t * q)
    exact = max(0.0, p - t * q) + max(0.0, q - t * p) + rest
    stated = KRR(epsilon=1.0, categories=categories).local_delta(epsilon)
    assert exact - 1e-15 <= stated <= exact + 1e-14
