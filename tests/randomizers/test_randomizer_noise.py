"""Laplace and Gaussian: calibration, profiles and laws against mpmath and quadrature."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, laplace, norm

from incrowd.randomizers import Gaussian, Laplace, PairLaw, Randomizer
from incrowd.randomizers.noise import gaussian_delta

RANDOMIZERS: list[Randomizer] = [
    Laplace(epsilon=0.2),
    Laplace(epsilon=1.0),
    Laplace(epsilon=6.0),
    Gaussian(epsilon=0.5, delta=1e-6),
    Gaussian(epsilon=2.0, delta=1e-3),
    Gaussian(epsilon=8.0, delta=1e-9),
]


def density(randomizer: Randomizer, x: float):
    if isinstance(randomizer, Laplace):
        return laplace(x, 1 / randomizer.epsilon)
    return norm(x, randomizer.sigma)  # type: ignore[attr-defined]


def spread_of(randomizer: Randomizer) -> float:
    return float(density(randomizer, 0.0).std())


def pdf(randomizer: Randomizer, x: float):
    """The density as plain arithmetic: quadrature calls it often."""
    if isinstance(randomizer, Laplace):
        rate = randomizer.epsilon
        return lambda y: rate / 2 * math.exp(-rate * abs(y - x))
    sigma = randomizer.sigma  # type: ignore[attr-defined]
    return lambda y: math.exp(-(((y - x) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))


def exact_mean_under_blanket(randomizer: Randomizer, function) -> float:
    """E[function(a, b)] under w = min(R_0, R_1), by quadrature; function(0, 0) must be 0."""
    first, second = pdf(randomizer, 0.0), pdf(randomizer, 1.0)

    def integrand(y: float) -> float:
        p, q = first(y), second(y)
        w = min(p, q)
        return w * function(p / w, q / w) if w > 0 else 0.0

    return piecewise(integrand, randomizer)


def exact_mean_under_zero(randomizer: Randomizer, function) -> float:
    first, second = pdf(randomizer, 0.0), pdf(randomizer, 1.0)

    def integrand(y: float) -> float:
        w = first(y)
        return w * function(1.0, second(y) / w) if w > 0 else 0.0

    return piecewise(integrand, randomizer)


def piecewise(integrand, randomizer: Randomizer) -> float:
    reach = 37 / randomizer.epsilon
    if isinstance(randomizer, Gaussian):
        reach = 8.5 * randomizer.sigma
    knots = sorted({-reach, -reach / 8, 0.0, 0.25, 0.5, 0.75, 1.0, 1 + reach / 8, 1 + reach})
    return sum(
        quad(integrand, left, right, limit=200, epsabs=1e-13, epsrel=1e-11)[0]
        for left, right in pairwise(knots)
    )


def mean(law: PairLaw, function) -> float:
    return float(np.sum(law.mass * function(law.a, law.b)))


def hockey(t: float):
    return lambda a, b: (abs(a - t * b) + a - t * b) / 2


@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=lambda r: f"{r.kind}-{r.epsilon}")
class TestLaws:
    def test_blanket_is_just_above_exact_law_in_convex_order(self, randomizer):
        law = randomizer.blanket()
        for t in (0.4, 0.9, 1.0, 1.1, math.exp(randomizer.epsilon / 2)):
            exact = exact_mean_under_blanket(randomizer, hockey(t))
            ours = mean(law, hockey(t))
            assert exact * (1 - 1e-9) - 1e-12 <= ours <= exact * (1 + 1e-4) + 1e-9

    def test_blanket_second_moment_is_just_above_exact(self, randomizer):
        exact = exact_mean_under_blanket(randomizer, lambda a, b: (a - b) ** 2)
        ours = mean(randomizer.blanket(), lambda a, b: (a - b) ** 2)
        assert exact * (1 - 1e-9) <= ours <= exact * (1 + 1e-3)

    def test_attack_is_just_below_exact_law_in_convex_order(self, randomizer):
        at_0, at_1 = randomizer.attack()
        assert np.all(at_0.a == 1)
        assert np.array_equal(at_0.b, at_1.a)
        for t in (0.4, 0.9, 1.0, 1.1, math.exp(randomizer.epsilon / 2)):
            for forward, law in ((True, at_0), (False, at_1)):
                if forward:
                    exact = exact_mean_under_zero(randomizer, hockey(t))
                else:
                    exact = exact_mean_under_zero(randomizer, lambda a, b, t=t: max(b - t * a, 0.0))
                ours = mean(law, hockey(t))
                assert exact * (1 - 1e-3) - 1e-9 <= ours <= exact * (1 + 1e-9) + 1e-12

    def test_blanket_mass_equals_overlap(self, randomizer):
        exact = 2 * float(density(randomizer, 1.0).cdf(0.5))
        law = randomizer.blanket()
        assert law.gamma == pytest.approx(exact, rel=1e-12)
        assert 500 <= law.mass.size <= 2000
        assert 0 <= law.escaped < 1e-16

    def test_local_profile_equals_exact_pair(self, randomizer):
        for epsilon in (-2.0, -0.1, 0.0, 0.1, randomizer.epsilon, 0.7 * randomizer.epsilon):
            exact = exact_mean_under_blanket(randomizer, hockey(math.exp(epsilon)))
            assert randomizer.local_delta(epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-11)

    def test_drawn_noise_has_stated_law(self, randomizer, rng):
        for value in (0.0, 0.7):
            reports = randomizer.randomize(np.full(20_000, value), rng)
            assert kstest(reports, density(randomizer, value).cdf).pvalue > 1e-5
            assert np.array_equal(reports * 2**20, np.rint(reports * 2**20))

    def test_observed_likelihood_ratio_stays_below_e_epsilon(self, randomizer, rng):
        first, second = (randomizer.randomize(np.full(200_000, x), rng) for x in (0.0, 1.0))
        reach = 2 * spread_of(randomizer)
        edges = np.linspace(-reach, 1 + reach, 60)
        top, bottom = np.histogram(first, edges)[0], np.histogram(second, edges)[0]
        enough = (top > 200) & (bottom > 200)
        log_ratio = np.log(top[enough] / bottom[enough])
        noise = np.sqrt(1 / top[enough] + 1 / bottom[enough])
        if randomizer.delta == 0:
            assert ((np.abs(log_ratio) - randomizer.epsilon) / noise).max() < 4.5
        centres = ((edges[1:] + edges[:-1]) / 2)[enough]
        wide = edges[1] - edges[0]
        exact = [
            math.log(
                np.diff(density(randomizer, 0.0).cdf([c - wide / 2, c + wide / 2]))[0]
                / np.diff(density(randomizer, 1.0).cdf([c - wide / 2, c + wide / 2]))[0]
            )
            for c in centres
        ]
        assert np.abs((log_ratio - exact) / noise).max() < 4.5


def exact_gaussian_delta(epsilon: float, sigma: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        e, s = mpmath.mpf(epsilon), mpmath.mpf(sigma)
        upper, lower = mpmath.ncdf(1 / (2 * s) - e * s), mpmath.ncdf(-1 / (2 * s) - e * s)
        return upper - mpmath.exp(e) * lower


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 12.0, 30.0])
@pytest.mark.parametrize("delta", [1e-14, 1e-9, 1e-6, 1e-3, 0.1, 0.5])
def test_sigma_is_least_private_value(epsilon, delta):
    sigma = Gaussian(epsilon=epsilon, delta=delta).sigma
    assert exact_gaussian_delta(epsilon, sigma) <= delta
    assert exact_gaussian_delta(epsilon, sigma * (1 - 1e-7)) > delta


def test_sigma_is_below_classical_formula():
    classical = math.sqrt(2 * math.log(1.25 / 1e-5)) / 1.0
    assert Gaussian(epsilon=1.0, delta=1e-5).sigma < 0.8 * classical
    # beyond ε = 1 the classical formula has no proof, and here it is not private
    assert exact_gaussian_delta(12.0, math.sqrt(2 * math.log(1.25 / 1e-5)) / 12.0) > 1e-5


@pytest.mark.parametrize("epsilon", [-3.0, -0.5, 0.0, 1e-4, 0.3, 2.0, 9.0])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0, 50.0])
def test_gaussian_profile_is_rounded_up(epsilon, sigma):
    exact = exact_gaussian_delta(epsilon, sigma)
    ours = gaussian_delta(epsilon, sigma)
    assert exact <= ours <= exact * (1 + mpmath.mpf("1e-6")) + mpmath.mpf("1e-13")


def test_gaussian_meets_stated_epsilon_and_delta():
    randomizer = Gaussian(epsilon=1.0, delta=1e-5)
    assert randomizer.local_delta(1.0) <= randomizer.delta
    assert randomizer.local_delta(1.0) == pytest.approx(1e-5, rel=1e-6)


def test_gaussian_laws_exist_at_tiny_noise():
    randomizer = Gaussian(epsilon=30.0, delta=1 - 1e-15)
    assert randomizer.sigma < 0.1
    for law in (randomizer.blanket(), *randomizer.attack()):
        assert np.all(np.isfinite(law.a * law.b))


def test_laplace_profile_is_rounded_up():
    randomizer = Laplace(epsilon=1.5)
    for epsilon in (-5.0, -1.5, -0.3, 0.0, 0.7, 1.4999, 1.5, 2.0):
        with mpmath.workdps(40):
            inner = 1 - mpmath.exp((mpmath.mpf(epsilon) - 1.5) / 2) if epsilon < 1.5 else 0
            exact = max(inner, 1 - mpmath.exp(mpmath.mpf(epsilon)), 0)
            assert exact <= randomizer.local_delta(epsilon) <= exact * (1 + mpmath.mpf("1e-14"))
