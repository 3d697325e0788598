"""Gaussian curves, the shuffled pair and Rényi divergences: known values, limits, refusals."""

import math

import numpy as np
import pytest

from incrowd.errors import InvalidParameter
from incrowd.privacy import ComposedProfile
from incrowd.privacy.gaussian import GaussianProfile, ShuffledGaussianPair
from incrowd.privacy.renyi import renyi_epsilon, shuffled_gaussian_renyi

ORDERS = [2, 4, 8, 16, 32, 64]
OF_60000 = {
    0.5: (8.9290374e-4, 1.88317035e-3, 4.99790021, 20.99790016, 52.99790016, 116.99790016),
    0.86: (4.77566239e-5, 9.55219634e-5, 1.91078861e-4, 4.37217743e-3, 10.63121546, 32.26453077),
    1.0: (2.86376204e-5, 5.72771198e-5, 1.14561761e-4, 2.29153649e-4, 4.99790016, 20.99790016),
    2.0: (4.73374574e-6, 9.46749997e-6, 1.89350339e-5, 3.78702035e-5, 7.57409503e-5, 1.51484074e-4),
}


@pytest.mark.parametrize("sigma", OF_60000)
def test_shuffled_renyi_of_large_crowd_near_reference(sigma):
    found = shuffled_gaussian_renyi(ORDERS, n=60_000, sigma=sigma)
    np.testing.assert_allclose(found, OF_60000[sigma], rtol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 9, 10**6, 10**12])
@pytest.mark.parametrize("sigma", [0.2, 1.0, 100.0])
def test_shuffled_renyi_of_order_two_equals_closed_form(n, sigma):
    (found,) = shuffled_gaussian_renyi([2], n=n, sigma=sigma)
    assert found == pytest.approx(math.log1p(math.expm1(1 / sigma**2) / n), rel=1e-11)


@pytest.mark.parametrize("n", [10, 60_000, 10**6])
def test_shuffled_renyi_at_large_orders_near_single_report_limit(n):
    orders, sigma = [256, 512], 0.86
    found = shuffled_gaussian_renyi(orders, n=n, sigma=sigma)
    limit = [order / (2 * sigma**2) - math.log(n) for order in orders]
    np.testing.assert_allclose(found, limit, atol=1e-6)
    alone = shuffled_gaussian_renyi(orders, n=1, sigma=sigma)
    np.testing.assert_allclose(alone, [order / (2 * sigma**2) for order in orders], rtol=1e-12)
    assert np.all(found < alone), "shuffling never hurts"


def test_shuffled_renyi_of_crowd_below_order_is_finite():
    found = shuffled_gaussian_renyi(range(2, 65), n=5, sigma=2.0)
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) > 0), "divergences grow with the order"


def test_renyi_epsilon_is_just_above_exact_gaussian():
    """Of one Gaussian, where the exact curve is known: never below it, and not far above."""
    shift = 0.5
    orders = np.geomspace(1.1, 500, 400)
    found = renyi_epsilon(orders, orders * shift**2 / 2, 1e-6)
    exact = GaussianProfile(shift).epsilon(1e-6)
    assert exact < found < 1.1 * exact
    assert renyi_epsilon([2.0], [0.0], 0.5) == 0.0, "never negative"


@pytest.mark.parametrize(
    ("orders", "divergences"),
    [
        ([1.0], [0.1]),
        ([math.nan], [0.1]),
        ([math.inf], [0.1]),
        ([2.0], [math.nan]),
        ([2.0], [-0.1]),
        ([2.0, 3.0], [0.1]),
        ([], []),
    ],
)
def test_renyi_epsilon_refuses_invalid_input(orders, divergences):
    with pytest.raises(InvalidParameter):
        renyi_epsilon(orders, divergences, 1e-6)


# δ = 1e−6; forth and back. Beside: a fine lattice convolution gives 0.857986 and 0.486425 at
# n = 100, and 0.1717287 and 0.1494310 at n = 1000.
ALLOCATION = [
    (100, 1.0, 0.85799, 0.48643, 3e-4),
    (1_000, 1.0, 0.17173, 0.14943, 1e-4),
    (60_000, 1.0, 0.017221, 0.017037, 1e-4),
    (60_000, 2.0, 0.006417, 0.0064126, 1e-4),
    (60_000, 4.0, 0.0028297, 0.0028295, 1e-4),
    pytest.param(60_000, 0.43, 2.3181, 0.14794, 1e-4, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("n", "sigma", "forth", "back", "rel"), ALLOCATION)
def test_shuffled_pair_near_random_allocation_reference(n, sigma, forth, back, rel):
    pair = ShuffledGaussianPair(n, sigma)
    for expected, direction in ((forth, "forth"), (back, "back")):
        found = pair.epsilon(1e-6, direction)
        assert found.lower < found.upper < found.lower * (1 + rel)
        assert found.lower * (1 - rel) < expected < found.upper * (1 + rel)


def test_shuffled_pair_of_one_person_equals_gaussian():
    pair, alone = ShuffledGaussianPair(1, 1.0), GaussianProfile(1.0)
    for epsilon in (0.0, 1.0, 3.0):
        found = pair.delta(epsilon)
        assert found.lower <= alone.delta(epsilon) <= found.upper


def test_renyi_conversion_of_shuffled_pair_is_far_above_exact():
    """Why the library composes losses: the pair's own divergences, converted, lose 20 times."""
    orders = range(2, 40)
    converted = renyi_epsilon(orders, shuffled_gaussian_renyi(orders, n=60_000, sigma=1.0), 1e-6)
    exact = ShuffledGaussianPair(60_000, 1.0).epsilon(1e-6)
    assert converted > 20 * exact.upper


def test_gaussian_profile_composes_to_gaussian():
    """T rounds of a shift are one of √T times the shift: exact, from above and from below."""
    one = GaussianProfile(0.1)
    many = ComposedProfile(((one, 100),))
    exact = GaussianProfile(1.0).epsilon(1e-6)
    assert exact <= many.epsilon(1e-6) <= 1.002 * exact
    assert 0.99 * exact <= many.lower(1e-6) <= exact
    assert one.lower(1e-6) <= one.epsilon(1e-6) <= one.lower(1e-6) * (1 + 1e-6)


@pytest.mark.parametrize("shift", [0.0, -1.0, math.inf, math.nan, 1e9])
def test_gaussian_profile_refuses_invalid_shift(shift):
    with pytest.raises(InvalidParameter):
        GaussianProfile(shift)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.inf, math.nan, 1e-9, 1e300])
def test_gaussian_profile_refuses_invalid_sigma(sigma):
    with pytest.raises(InvalidParameter, match="sigma must"):
        GaussianProfile.replacing(sigma)
    with pytest.raises(InvalidParameter, match="sigma must"):
        shuffled_gaussian_renyi([2], n=10, sigma=sigma)


def test_huge_gaussian_shift_attack_is_finite():
    (losses,) = GaussianProfile(300.0).attained()
    assert np.isfinite(losses.mass).all()
    assert losses.mass.sum() <= 1 + 1e-12


@pytest.mark.parametrize(("n", "sigma"), [(0, 1.0), (10, 0.1), (10, math.nan), (10**11, 1.0)])
def test_shuffled_pair_refuses_invalid_parameters(n, sigma):
    with pytest.raises(InvalidParameter):
        ShuffledGaussianPair(n, sigma)
    with pytest.raises(InvalidParameter):
        ShuffledGaussianPair(10, 1.0).delta(-0.1)


@pytest.mark.parametrize(("orders", "sigma"), [([1], 1.0), ([2.5], 1.0), ([10**6], 1.0)])
def test_shuffled_renyi_refuses_invalid_orders(orders, sigma):
    with pytest.raises(InvalidParameter):
        shuffled_gaussian_renyi(orders, n=10, sigma=sigma)
