"""The Gaussian side against brute force: partitions to 50 digits, and numerical integration."""

import math

import mpmath
import numpy as np
import pytest
from gaussian_partitions import arrangements, exact_renyi
from scipy.special import ndtr

from experiments.paper_check_in import paper_gaussian_delta, paper_partition_sum, partitions
from incrowd.privacy.gaussian import GaussianProfile, ShuffledGaussianPair
from incrowd.privacy.renyi import shuffled_gaussian_renyi


def exact_delta(epsilon, shift):
    with mpmath.workdps(80):
        e, d = mpmath.mpf(epsilon), mpmath.mpf(shift)
        return mpmath.ncdf(d / 2 - e / d) - mpmath.exp(e) * mpmath.ncdf(-d / 2 - e / d)


@pytest.mark.parametrize("shift", [0.01, 0.5, 1.0, 2 / 0.86, 8.0])
@pytest.mark.parametrize("epsilon", [-20.0, -1.0, 0.0, 1e-3, 1.0, 8.0, 60.0])
def test_gaussian_bracket_encloses_exact_delta(shift, epsilon):
    exact, found = exact_delta(epsilon, shift), GaussianProfile(shift).bracket(epsilon)
    assert found.lower <= exact <= found.upper
    if exact > 1e-12:
        assert found.upper - found.lower <= 1e-8 * exact
        assert 0.98 * found.upper < exact, "lowered by 2 %, the curve would be too small"


def test_printed_gaussian_curve_is_below_exact():
    assert float(exact_delta(8.0, 2.0)) == pytest.approx(4.954e-4, rel=1e-3)
    assert paper_gaussian_delta(8.0, 0.5) == pytest.approx(4.193e-4, rel=1e-3)
    assert GaussianProfile(2.0).delta(8.0) > paper_gaussian_delta(8.0, 0.5)
    # Replacing a vector in a ball moves it by up to the diameter, and that is another matter.
    assert GaussianProfile(1 / 0.86).delta(8.0) == pytest.approx(2.26e-11, rel=2e-3)
    assert GaussianProfile.replacing(0.86).delta(8.0) == pytest.approx(5.17e-3, rel=1e-3)
    assert paper_gaussian_delta(8.0, 0.86) < 1e-10


@pytest.mark.parametrize("order", [2, 5, 9])
@pytest.mark.parametrize("n", [1, 3, 7, 100])
def test_partitions_count_all_products(order, n):
    assert sum(arrangements(parts, n) for parts in partitions(order)) == n**order


@pytest.mark.parametrize("n", [1, 2, 3, 7, 100, 60_000])
@pytest.mark.parametrize("sigma", [0.5, 0.86, 2.0, 30.0])
def test_shuffled_renyi_equals_sum_over_partitions(n, sigma):
    orders = [2, 3, 5, 8, 13, 20]
    found = shuffled_gaussian_renyi(orders, n=n, sigma=sigma)
    for order, value in zip(orders, found, strict=True):
        assert value == pytest.approx(float(exact_renyi(order, n, sigma)), rel=1e-9)


@pytest.mark.parametrize("order", [2, 4, 8])
def test_printed_algorithm_differs_from_partitions(order):
    exact = float(exact_renyi(order, 7, 0.86))
    printed = paper_partition_sum(order, 7, 0.86)
    assert abs(printed / exact - 1) > 1
    assert abs(math.log(printed) / (order - 1) / exact - 1) > 1, "nor does its logarithm help"


def lattice(n, sigma, step, size):
    """The law of the sum of n copies of X, rounded to the nearest multiple of ``step``."""
    edges = np.maximum((np.arange(size + 1) - 0.5) * step, 1e-300)
    chance = ndtr(sigma * np.log(edges) + 1 / (2 * sigma))
    chance[0], chance[-1] = 0.0, 1.0
    return np.fft.irfft(np.fft.rfft(np.diff(chance)) ** n, size), step * np.arange(size)


@pytest.mark.parametrize(
    ("n", "sigma", "epsilon", "step", "size"),
    [
        (100, 1.0, 0.5, 2e-3, 1 << 22),
        (500, 1.0, 0.2, 2e-3, 1 << 22),
        (100, 2.0, 0.2, 1e-4, 1 << 22),
    ],
)
def test_shuffled_pair_encloses_fine_convolution(n, sigma, epsilon, step, size):
    chance, total = lattice(n, sigma, step, size)
    t, pair = math.exp(epsilon), ShuffledGaussianPair(n, sigma)
    forth = float(chance @ np.maximum(total - n * t, 0)) / n
    back = float(chance @ np.maximum(n - t * total, 0)) / n
    for exact, direction in ((forth, "forth"), (back, "back")):
        found = pair.delta(epsilon, direction)
        assert found.lower * (1 - 1e-5) <= exact <= found.upper * (1 + 1e-5)
        assert found.upper - found.lower < 0.01 * exact
        assert 0.98 * found.upper < exact < 1.02 * found.lower
