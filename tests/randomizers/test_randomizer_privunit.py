"""PrivUnit: the cap against mpmath, the draws against the cap, the law against simulation of it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import kstest

from incrowd.errors import InvalidEpsilon
from incrowd.randomizers import PrivUnit
from incrowd.randomizers.privunit import best_cap

CASES = [(0.1, 2), (1.0, 2), (1.0, 3), (4.0, 3), (2.0, 10), (0.5, 50), (8.0, 50), (4.0, 200)]


def above(d: int, height: float, power: int) -> mpmath.mpf:
    """∫ t^power·f(t)dt from the height to 1, with t = sin(angle): smooth in every dimension."""
    half = mpmath.mpf(d) / 2
    constant = mpmath.gamma(half) / (mpmath.sqrt(mpmath.pi) * mpmath.gamma(half - 0.5))
    start, end = mpmath.asin(height), mpmath.pi / 2
    knots = [start, start + (end - start) / 8, (start + end) / 2, end]
    return constant * mpmath.quad(
        lambda u: mpmath.sin(u) ** power * mpmath.cos(u) ** (d - 2), knots
    )


@pytest.mark.parametrize(("epsilon", "d"), CASES)
class TestCap:
    def test_cap_ratio_reaches_e_epsilon_from_below(self, epsilon, d):
        cap = best_cap(epsilon, d)
        with mpmath.workdps(50):
            p, q = mpmath.mpf(cap.probability), mpmath.mpf(cap.share)
            ratio = (p / q) / ((1 - p) / (1 - q))
            assert ratio <= mpmath.exp(epsilon)
            assert ratio >= mpmath.exp(epsilon) * (1 - mpmath.mpf("1e-12"))

    def test_cap_moments_equal_quadrature(self, epsilon, d):
        cap = best_cap(epsilon, d)
        with mpmath.workdps(25):
            share, first, second = (above(d, cap.mean_height, j) for j in (0, 1, 2))  # τ = m
            assert float(share) == pytest.approx(cap.share, rel=1e-9)
            on = cap.probability / cap.share
            off = (1 - cap.probability) / (1 - cap.share)
            assert float((on - off) * first) == pytest.approx(cap.mean_height, rel=1e-9)
            square = on * second + off * (mpmath.mpf(1) / d - second)
            assert float(square) == pytest.approx(cap.mean_square_height, rel=1e-9)

    def test_cap_has_largest_mean_height(self, epsilon, d):
        best = best_cap(epsilon, d).mean_height
        gain = math.expm1(epsilon)
        with mpmath.workdps(20):
            for tau in (0.0, best / 2, best * 0.9, best * 1.1, (1 + best) / 2):
                share, first = above(d, tau, 0), above(d, tau, 1)
                assert float(gain * first / (1 + gain * share)) <= best * (1 + 1e-9)

    def test_drawn_heights_have_stated_law(self, epsilon, d, rng):
        """⟨report, v⟩ is above τ as often as said, and given that it follows the sphere's law."""
        randomizer, cap, n = PrivUnit(epsilon=epsilon, dimension=d), best_cap(epsilon, d), 20_000
        v = np.zeros(d)
        v[-1] = 1.0
        reports = randomizer.randomize(np.tile(v, (n, 1)), rng)
        assert np.abs(np.linalg.norm(reports, axis=1) - 1).max() < 1e-5
        height = reports[:, -1].astype(float)
        inside = height >= cap.mean_height
        p = cap.probability
        assert abs(inside.mean() - p) < 4.5 * math.sqrt(p * (1 - p) / n) + 1e-5
        sphere = rng.standard_normal((2 * n, d))
        uniform = sphere[:, 0] / np.linalg.norm(sphere, axis=1)
        for ours, theirs in (
            (height[inside], uniform[uniform >= cap.mean_height]),
            (height[~inside], uniform[uniform < cap.mean_height]),
        ):
            if theirs.size > 100:
                assert kstest(ours, theirs).pvalue > 1e-5
        if d > 2:
            across = reports[:, 0] / np.sqrt(1 - height**2)
            expected = sphere[:, 0] / np.linalg.norm(sphere[:, : d - 1], axis=1)
            assert kstest(across, expected).pvalue > 1e-5
            assert abs(across.mean()) < 4.5 / math.sqrt((d - 1) * n)
            assert abs((across**2).mean() * (d - 1) - 1) < 4.5 * math.sqrt(2 / n)

    def test_blanket_equals_law_of_antipodal_caps(self, epsilon, d):
        law, cap = PrivUnit(epsilon=epsilon, dimension=d).blanket(), best_cap(epsilon, d)
        top, q = math.exp(epsilon), cap.share
        base = 1 / (1 + (top - 1) * q)
        assert law.a == pytest.approx([top, 1, 1], rel=1e-11)
        assert law.b == pytest.approx([1, top, 1], rel=1e-11)
        assert law.mass == pytest.approx(np.array([q, q, 1 - 2 * q]) * base, rel=1e-9)

    def test_attack_places_others_at_antipode(self, epsilon, d):
        at_x1, at_x0 = PrivUnit(epsilon=epsilon, dimension=d).attack()
        top, cap = math.exp(epsilon), best_cap(epsilon, d)
        assert np.all(at_x1.b == 1)
        assert at_x1.a == pytest.approx([top, 1 / top, 1], rel=1e-11)
        assert at_x1.mass[1] == pytest.approx(cap.probability, rel=1e-11)
        assert np.array_equal(at_x0.b, at_x1.a)


def test_observed_likelihood_ratio_stays_below_e_epsilon(rng):
    """Antipodal inputs in the plane, by sectors; inside the caps it is e^ε0, the test can fail."""
    epsilon, n = 1.0, 200_000
    randomizer = PrivUnit(epsilon=epsilon, dimension=2)
    v = np.array([[0.6, 0.8]])
    sectors = []
    for sign in (1.0, -1.0):
        reports = randomizer.randomize(np.repeat(sign * v, n, axis=0), rng)
        sectors.append(np.histogram(np.arctan2(*reports.T), np.linspace(-np.pi, np.pi, 41))[0])
    first, second = sectors
    z = (np.abs(np.log(first / second)) - epsilon) / np.sqrt(1 / first + 1 / second)
    assert z.max() < 4.5
    assert np.abs(np.log(first / second)).max() > 0.9 * epsilon


def test_smaller_cap_overlap_raises_divergence():
    """The spread lemma, on hockey sticks: caps that overlap by o against disjoint ones."""
    top, q = math.e, 0.3
    base = 1 / (1 + (top - 1) * q)
    a, b = np.array([top, 1, top, 1]), np.array([1, top, top, 1])

    def value(overlap: float, t: float) -> float:
        mass = np.array([q - overlap, q - overlap, overlap, 1 - 2 * q + overlap]) * base
        g = np.append(a - t * b, 0.0)
        weight = np.append(mass, 1 - mass.sum())
        pairs = np.maximum(g[:, None] + g[None, :], 0)
        return float(weight @ pairs @ weight)

    for t in (0.5, 1.0, 1.5, 2.5):
        values = [value(overlap, t) for overlap in (0.0, 0.05, 0.15, 0.3)]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("d", [2, 1000, 10**6])
def test_best_cap_is_valid_at_extreme_dimensions_and_epsilons(d, rng):
    for epsilon in (0.01, 30.0):
        cap = best_cap(epsilon, d)
        assert 0 < cap.share < cap.probability < 1
        assert 0 < cap.mean_height < 1
    v = np.zeros((2, d))
    v[:, 0] = 1
    assert np.all(np.isfinite(PrivUnit(epsilon=5.0, dimension=d).randomize(v, rng)))


def test_privunit_refuses_epsilon_below_resolution():
    with pytest.raises(InvalidEpsilon):
        PrivUnit(epsilon=1e-16, dimension=10)
