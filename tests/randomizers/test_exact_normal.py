"""Normal noise that is drawn without floating point has the law that it should have."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from incrowd.randomizers import KRR, Gaussian, GaussianVector
from incrowd.randomizers import exact_normal as exact
from incrowd.randomness import system_generator


def test_noisy_zeros_are_normal():
    found = exact.noisy(np.zeros(6000), 1.7, np.random.default_rng(1)) / 1.7
    assert stats.kstest(found, "norm").pvalue > 1e-3
    assert np.abs(found).max() < 6


def test_noisy_value_is_normal_around_it():
    found = exact.noisy(np.full(3000, 0.3), 0.5, np.random.default_rng(2))
    assert stats.kstest((found - 0.3) / 0.5, "norm").pvalue > 1e-3


def test_noise_as_wide_as_the_grid_is_rounded_exactly():
    """With noise as wide as the grid every whole number has its own chance."""
    sigma = 1.3 / exact.GRID
    found = np.rint(exact.noisy(np.zeros(4000), sigma, np.random.default_rng(3)) * exact.GRID)
    edges = np.arange(-3.5, 4)
    counts = np.histogram(found, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    chances = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) / 1.3))
    assert stats.chisquare(counts, 4000 * chances).pvalue > 1e-3


@pytest.mark.parametrize("k", [0, 1, 3])
def test_falls_has_probability_exp_minus_gamma(k):
    """e^(−γ) is the chance of each draw, at any x."""
    rng = np.random.default_rng(4)
    share = Fraction(11, 16)
    x = exact._Uniform(rng)
    x.low, x.bits = (share.numerator << 300) // share.denominator, 300
    kept = np.mean([exact._falls(x, k, rng) for _ in range(4000)])
    gamma = float(share * (2 * k + share) / (2 * k + 2))
    assert kept == pytest.approx(math.exp(-gamma), abs=4 * 0.5 / math.sqrt(4000))


def test_magnitude_has_normal_whole_part():
    rng = np.random.default_rng(5)
    whole = np.array([exact._magnitude(rng)[0] for _ in range(3000)])
    chances = np.diff(2 * stats.norm.cdf([0, 1, 2, 3, np.inf]) - 1)
    counts = np.bincount(np.minimum(whole, 3), minlength=4)
    assert stats.chisquare(counts, 3000 * chances).pvalue > 1e-3


def test_noisy_results_lie_on_the_grid():
    found = exact.noisy(np.array([0.1, 0.7]), 3.3, system_generator())
    assert np.array_equal(found * exact.GRID, np.rint(found * exact.GRID))


def test_exact_holds_for_gaussian_but_not_gaussian_vector():
    assert Gaussian(epsilon=1.0, delta=1e-6).exact
    assert KRR(epsilon=1.0, categories=3).exact
    assert not GaussianVector(epsilon=1.0, delta=1e-6, dimension=2).exact


def test_randomize_exactly_and_randomize_have_equal_law():
    randomizer = Gaussian(epsilon=2.0, delta=1e-5)
    values = np.full(1500, 0.25)
    exactly = randomizer.randomize_exactly(values, np.random.default_rng(6))
    quickly = randomizer.randomize(values, np.random.default_rng(7))
    assert stats.ks_2samp(exactly, quickly).pvalue > 1e-3
    assert randomizer.estimate(exactly).value == pytest.approx(0.25, abs=0.3)
