"""Curves of learning without a crowd, against independent integration and enumeration."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import numpy as np
import pytest

from incrowd.errors import InvalidDelta, InvalidParameter
from incrowd.privacy import ComposedProfile
from incrowd.tasks.learning import Crowd, LocalReports, SubsampledGaussian

CASES = [(0.01, 1.0), (0.1, 0.6), (0.5, 2.0), (1.0, 1.5), (0.9, 0.3), (0.001, 0.86)]
EPSILONS = [-1.5, -0.01, 0.0, 1e-4, 0.05, 0.7, 3.0, 6.0]


def exact(rate, sigma, epsilon):
    """∫(P − e^ε·Q)₊ in fifty digits; the integrand changes sign once, found by bisection."""
    with mpmath.workdps(50):
        rate, sigma, t = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.exp(mpmath.mpf(epsilon))

        def law(z, centre):
            return (1 - rate) * mpmath.npdf(z, 0, sigma) + rate * mpmath.npdf(z, centre, sigma)

        low, high = mpmath.mpf(-60), mpmath.mpf(60)
        for _ in range(200):
            middle = (low + high) / 2
            if law(middle, 1) > t * law(middle, -1):
                high = middle
            else:
                low = middle

        def above(centre):
            tails = [mpmath.ncdf((c - high) / sigma) for c in (0, centre)]
            return (1 - rate) * tails[0] + rate * tails[1]

        return float(above(1) - t * above(-1))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("rate", "sigma"), CASES)
def test_subsampled_gaussian_curve_is_exact(rate, sigma, epsilon):
    true = exact(rate, sigma, epsilon)
    found = SubsampledGaussian(rate, sigma).delta(epsilon)
    assert true <= found <= max(true * (1 + 1e-9), true + 1e-13 * rate)
    if true > 1e-10:
        # The curve is tight: two per cent less would be wrong.
        assert 0.98 * found < true


@pytest.mark.parametrize("seed", range(20))
def test_subsampled_gaussian_bounds_all_gradients_in_the_plane(seed):
    """Sum over a grid of the plane for random u, v in the unit disc, antipodal ones included."""
    rng = np.random.default_rng(seed)
    rate, sigma, epsilon = rng.uniform(0.05, 1), rng.uniform(0.5, 1.5), rng.uniform(-0.5, 1.5)
    u, v = (np.array([np.cos(a), np.sin(a)]) for a in rng.uniform(0, 2 * math.pi, 2))
    v = -u if seed % 4 == 0 else v * rng.uniform(0, 1) ** (seed % 2)
    line = np.linspace(-9, 9, 1201)
    x, y = np.meshgrid(line, line)

    def normal(centre):
        far = (x - centre[0]) ** 2 + (y - centre[1]) ** 2
        return np.exp(-far / (2 * sigma**2)) / (2 * math.pi * sigma**2)

    first = (1 - rate) * normal((0, 0)) + rate * normal(u)
    other = (1 - rate) * normal((0, 0)) + rate * normal(v)
    cell = (line[1] - line[0]) ** 2
    worst = np.maximum(first - math.exp(epsilon) * other, 0).sum() * cell
    bound = SubsampledGaussian(rate, sigma).delta(epsilon)
    assert worst <= bound * (1 + 1e-4)
    if seed % 4 == 0:
        assert worst > 0.98 * bound


@pytest.mark.parametrize(("rate", "sigma", "rounds"), [(0.02, 1.0, 200), (0.2, 2.0, 60)])
def test_composed_curve_matches_a_fine_convolution(rate, sigma, rounds):
    """Discretise z finely, round losses to a grid without bias, and convolve by squaring."""
    z = np.linspace(-12 * sigma, 12 * sigma + 1, 400_001)
    law = [
        (1 - rate) * np.exp(-(z**2) / (2 * sigma**2))
        + rate * np.exp(-((z - centre) ** 2) / (2 * sigma**2))
        for centre in (1, -1)
    ]
    mass = law[0] / law[0].sum()
    loss = np.log(law[0] / law[1])
    size, step = 1 << 17, 2e-4
    place = loss / step
    floor = np.floor(place).astype(int)
    grid = np.zeros(size)
    np.add.at(grid, floor % size, mass * (1 - (place - floor)))
    np.add.at(grid, (floor + 1) % size, mass * (place - floor))
    total = np.fft.irfft(np.fft.rfft(grid) ** rounds, size)
    losses = step * np.where(np.arange(size) < size // 2, np.arange(size), np.arange(size) - size)

    def delta(epsilon):
        gain = -np.expm1(np.minimum(epsilon - losses, 0))
        return float(total @ gain)

    composed = ComposedProfile(((SubsampledGaussian(rate, sigma), rounds),))
    for target in (1e-3, 1e-6):
        epsilon = composed.epsilon(target)
        assert delta(epsilon) <= target * (1 + 1e-3)
        assert delta(0.98 * epsilon) > target, "two per cent less would be wrong"


def test_add_or_remove_epsilon_is_below_replace_one():
    from dp_accounting.pld import privacy_loss_distribution as pld

    usual = pld.from_gaussian_mechanism(1.0, sampling_prob=0.02).self_compose(200)
    here = ComposedProfile(((SubsampledGaussian(0.02, 1.0), 200),)).epsilon(1e-5)
    assert usual.get_epsilon_for_delta(1e-5) < 0.8 * here


def test_curve_is_bounded_beyond_large_epsilon():
    one = SubsampledGaussian(0.1, 1.0)
    assert one.delta(-1e5) == 1.0
    assert one.delta(-800.0) >= one.delta(-700.0) > 0.9
    assert 0 < one.delta(1e5) == one.delta(700.0) < 1e-200


@pytest.mark.parametrize(
    ("rate", "sigma", "epsilon"),
    [(1.0, 50.0, 1.0), (1.0, 50.0, 0.7), (1.0, 20.0, 1.5), (0.9, 30.0, 0.9), (4e-6, 0.157, 210.0)],
)
def test_curve_far_out_covers_rounding(rate, sigma, epsilon):
    """Where terms with large exponents cancel; the cut may be off a little, at no cost."""
    with mpmath.workdps(60):
        g, s, e = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.mpf(epsilon)
        out = (1 - g) / g * mpmath.exp(1 / (2 * s**2))
        cut = s * (e / 2 + mpmath.asinh(out * mpmath.sinh(e / 2)))
        true = (1 - g) * (1 - mpmath.exp(e)) * mpmath.ncdf(-cut) + g * mpmath.ncdf(1 / s - cut)
        true -= g * mpmath.exp(e) * mpmath.ncdf(-1 / s - cut)
        found = mpmath.mpf(SubsampledGaussian(rate, sigma).delta(epsilon))
        assert 0 < true <= found <= true * (1 + mpmath.mpf("1e-8"))


def test_curve_at_rate_one_is_the_gaussian_mechanism():
    from incrowd.randomizers.noise import gaussian_delta

    for epsilon in (0.0, 0.5, 2.0):
        both = SubsampledGaussian(1.0, 1.4).delta(epsilon), gaussian_delta(epsilon, 0.7)
        assert both[0] == pytest.approx(both[1], rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "sigma", "rounds"), [(1.0, 0.1, 3), (0.5, 0.1, 10), (1e-6, 0.5, 100), (1.0, 90.0, 9)]
)
def test_extreme_rates_and_noises_are_composed(rate, sigma, rounds):
    one = SubsampledGaussian(rate, sigma)
    composed = ComposedProfile(((one, rounds),)).epsilon(1e-5)
    assert one.epsilon(1e-5) <= composed <= rounds * one.epsilon(1e-5 / rounds) * (1 + 1e-6)


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
def test_epsilon_inverts_the_curve_on_the_safe_side(delta):
    one = SubsampledGaussian(0.1, 1.0)
    epsilon = one.epsilon(delta)
    assert one.delta(epsilon) <= delta
    if epsilon > 0:
        assert one.delta(epsilon * (1 - 1e-5)) > delta


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("rate", [0.2, 0.7, 1.0])
def test_local_reports_delta_matches_enumeration(rate, rounds):
    """Each round is void, or randomized response, the worst of all: list all views."""
    keep = math.e / (1 + math.e)
    first = {"void": 1 - rate, "0": rate * keep, "1": rate * (1 - keep)}
    other = {"void": 1 - rate, "0": rate * (1 - keep), "1": rate * keep}
    crowd = Crowd(people=9, rate=rate, size=4)
    guarantee = LocalReports(clip=1.0, epsilon0=1.0).guarantee(crowd, rounds)
    for epsilon in (0.0, 0.4, 1.3, 2.2):
        true = sum(
            max(
                0.0,
                math.prod(first[each] for each in view)
                - math.exp(epsilon) * math.prod(other[each] for each in view),
            )
            for view in product(first, repeat=rounds)
        )
        found = guarantee.delta(epsilon)
        assert true <= found * (1 + 1e-12)
        # Losses are 0 and ±ε0, which lie on the grid: nothing is given away.
        assert found <= true + 1e-12
    if rounds == 1:
        assert guarantee.epsilon(1e-3 * rate) <= 1.0
        if rate < 1:
            assert guarantee.epsilon(min(0.99, 1.01 * rate)) == 0.0


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: SubsampledGaussian(0.0, 1.0), InvalidParameter, "rate must be above 0"),
        (lambda: SubsampledGaussian(1.1, 1.0), InvalidParameter, "rate must be above 0"),
        (lambda: SubsampledGaussian(0.1, 0.01), InvalidParameter, "sigma must be at least"),
        (lambda: SubsampledGaussian(0.1, 1e200), InvalidParameter, "sigma must be at most 1e"),
        (lambda: SubsampledGaussian(0.1, math.nan), InvalidParameter, "sigma must be a finite"),
        (lambda: SubsampledGaussian(0.1, 1.0).epsilon(0), InvalidDelta, "delta must lie"),
    ],
)
def test_curve_with_wrong_argument_raises_one_clear_line(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
