"""The sum of a random crowd: the curve against numerical integration, composition, simulation."""

import math
from functools import lru_cache
from itertools import combinations, product

import mpmath
import numpy as np
import pytest

from experiments.check_in_published import distributed_renyi
from experiments.paper_check_in import paper_distributed_renyi
from incrowd.errors import InvalidCrowd, InvalidParameter, NumericalFloor
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.renyi import renyi_epsilon
from incrowd.protocols.check_in.theorems.secure_aggregation import (
    DistributedCheckIn,
    SummedProfile,
)

LEVELS = (-1.0, 0.0, 1.0)
QUADRATURE = 1e-8
"""What the trapezoidal rule errs by, at the corners of the positive part."""


@lru_cache(maxsize=200)
def densities(values, rate, sigma, reach, points):
    """For each number of people but none, its chance and the density of the noisy sum."""
    grid, n, found = np.linspace(-reach, reach, points), len(values), []
    for k in range(1, n + 1):
        density = np.zeros(points)
        for crowd in combinations(values, k):
            density += np.exp(-((grid - sum(crowd)) ** 2) / (2 * k * sigma**2))
        density /= math.comb(n, k) * math.sqrt(2 * math.pi * k) * sigma
        found.append((math.comb(n, k) * rate**k * (1 - rate) ** (n - k), density))
    return found


def exact_delta(here, there, rate, sigma, t):
    """The hockey stick, by integration for each number of people, which is seen."""
    points, reach = 60_001, len(here) + 12 * sigma * math.sqrt(len(here))
    total = (1 - rate) ** len(here) * max(0.0, 1 - t)
    sides = (densities(values, rate, sigma, reach, points) for values in (here, there))
    for (chance, p), (_, q) in zip(*sides, strict=True):
        total += chance * np.maximum(p - t * q, 0).sum() * 2 * reach / (points - 1)
    return float(total)


def neighbours(n):
    """All data sets of n people at three levels, and what the first one may hold instead."""
    for values in product(LEVELS, repeat=n):
        for other in LEVELS:
            if other != values[0]:
                yield values, (other, *values[1:])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(("rate", "sigma"), [(0.3, 1.0), (0.8, 0.6), (1.0, 2.0), (0.05, 0.4)])
def test_summed_curve_equals_worst_of_all_data_sets(n, rate, sigma):
    profile = SummedProfile(n, rate, sigma)
    for epsilon in (-1.5, -0.2, 0.0, 0.1, 0.7, 2.0):
        t, bound = math.exp(epsilon), profile.delta(epsilon)
        worst = max(exact_delta(*pair, rate, sigma, t) for pair in neighbours(n))
        assert worst <= bound + QUADRATURE
        if worst > 1e-6:
            assert 0.98 * bound < worst, "lowered by 2 %, the bound would fall below the truth"
            assert bound == pytest.approx(worst, rel=1e-4), "the worst data set attains it"


@pytest.mark.parametrize("n", [2, 3])
def test_summed_attacks_match_quadrature(n):
    rate, sigma = 0.4, 0.8
    profile = SummedProfile(n, rate, sigma)
    loud, quiet = (1.0,) + (-1.0,) * (n - 1), (-1.0,) * n
    for epsilon in (-1.0, -0.1, 0.0, 0.3, 1.2):
        t = math.exp(epsilon)
        for found, pair in (
            (profile.forth(epsilon), (loud, quiet)),
            (profile.back(epsilon), (quiet, loud)),
        ):
            exact = exact_delta(*pair, rate, sigma, t)
            assert found.lower <= exact + QUADRATURE
            assert exact <= found.upper + QUADRATURE
            assert found.upper - found.lower < 1e-7


def exact_moment(here, there, rate, sigma, order):
    points, reach = 20_001, len(here) + 4 * order * sigma * math.sqrt(len(here)) + 40
    total = (1 - rate) ** len(here)
    sides = (densities(values, rate, sigma, reach, points) for values in (here, there))
    for (chance, p), (_, q) in zip(*sides, strict=True):
        seen = (p > 0) & (q > 1e-300)
        power = np.exp(order * np.log(p[seen]) - (order - 1) * np.log(q[seen]))
        total += chance * power.sum() * 2 * reach / (points - 1)
    return math.log(total) / (order - 1)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("order", [2, 3, 5])
def test_renyi_form_never_below_quadrature(n, order):
    rate, sigma = 0.3, 2.0
    (bound,) = distributed_renyi([order], n=n, rate=rate, sigma=sigma)
    worst = max(exact_moment(*pair, rate, sigma, order) for pair in neighbours(n))
    assert worst <= bound


def test_printed_renyi_form_is_below_truth():
    """Without the rounds that nobody attends the "divergence" is negative."""
    printed = paper_distributed_renyi(2, 10, 0.01, 2.0)
    assert printed < -2
    worst = exact_moment((1.0, -1.0, -1.0), (-1.0, -1.0, -1.0), 0.1, 2.0, 2)
    assert paper_distributed_renyi(2, 3, 0.1, 2.0) < 0 < worst
    # With the bracket closed too early, what remains is beyond anything, amplified or not.
    (bound,) = distributed_renyi([3], n=10, rate=0.5, sigma=1.0)
    assert paper_distributed_renyi(3, 10, 0.5, 1.0) > 100 * bound


def test_renyi_form_at_rate_one_is_gaussian():
    """At rate 1 the formula has one term; the blocks of a large crowd change it little."""
    n, sigma, order = 50, 3.0, 4
    x = 4 / (n * sigma**2)
    terms = [
        math.comb(order, 2) * min(4 * math.expm1(x), 2 * math.exp(x)),
        *(2 * math.comb(order, j) * math.exp(j * (j - 1) * x / 2) for j in (3, 4)),
    ]
    (found,) = distributed_renyi([order], n=n, rate=1.0, sigma=sigma)
    assert found == pytest.approx(math.log1p(sum(terms)) / (order - 1), rel=1e-8)


def plain_renyi(order, n, rate, sigma):
    """The formula as it stands, k by k."""
    total = (1 - rate) ** n
    for k in range(1, n + 1):
        x, q = 4 / (k * sigma**2), k / n
        moment = 1 + q**2 * math.comb(order, 2) * min(4 * math.expm1(x), 2 * math.exp(x))
        for j in range(3, order + 1):
            moment += 2 * q**j * math.comb(order, j) * math.exp(j * (j - 1) * x / 2)
        total += math.comb(n, k) * rate**k * (1 - rate) ** (n - k) * moment
    return math.log(total) / (order - 1)


@pytest.mark.parametrize(("n", "rate"), [(10, 0.01), (60, 0.5), (400, 0.1)])
def test_renyi_form_equals_direct_sum(n, rate):
    found = distributed_renyi([2, 3, 6], n=n, rate=rate, sigma=2.0)
    plain = np.array([plain_renyi(order, n, rate, 2.0) for order in (2, 3, 6)])
    np.testing.assert_allclose(found, plain, rtol=1e-6)
    assert np.all(found >= plain * (1 - 1e-10))


@pytest.mark.parametrize(("n", "rate"), [(200_000, 0.02), (1_000_000, 1e-5)])
def test_crowd_blocks_lose_little(n, rate):
    """The bound with all k in blocks against the one k by k, over everything that matters."""
    from scipy.special import log_ndtr
    from scipy.stats import binom

    sigma, epsilon = 1.0, 0.002
    k = np.arange(max(1, int(n * rate - 12 * math.sqrt(n * rate))), int(n * rate * 2 + 60))
    q, shift = k / n, 2 / (sigma * np.sqrt(k))
    inner = np.log1p(math.expm1(epsilon) / q)
    upper, lower = log_ndtr(shift / 2 - inner / shift), log_ndtr(-shift / 2 - inner / shift)
    exact = float(binom.pmf(k, n, rate) @ (q * (np.exp(upper) - np.exp(inner + lower))))
    found = SummedProfile(n, rate, sigma).delta(epsilon)
    assert exact <= found * (1 + 1e-12)
    assert found == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(("n", "rate"), [(10**6, 0.1), (10**9, 0.5), (10**12, 0.1)])
def test_binomial_chances_stay_within_allowance(n, rate):
    from scipy.stats import binom

    middle, spread = n * rate, math.sqrt(n * rate * (1 - rate))
    for deviations in (-9, -1, 0, 4, 9):
        k = round(middle + deviations * spread)
        with mpmath.workdps(50):
            ways = mpmath.loggamma(n + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(n - k + 1)
            p = mpmath.mpf(rate)
            exact = mpmath.exp(ways + k * mpmath.log(p) + (n - k) * mpmath.log(1 - p))
            assert abs(binom.pmf(k, n, rate) / exact - 1) < 1e-9


@pytest.mark.parametrize("rounds", [1, 10, 100])
def test_guarantee_at_rate_one_equals_gaussian_mechanism(rounds):
    n, sigma = 100, 2.0
    guarantee = DistributedCheckIn(n, 1.0, rounds, sigma).guarantee()
    exact = GaussianProfile(2 / (sigma * math.sqrt(n)) * math.sqrt(rounds)).epsilon(1e-6)
    assert exact * (1 - 1e-9) <= guarantee.epsilon(1e-6) <= 1.002 * exact
    assert 0.99 * exact <= guarantee.lower(1e-6) <= exact * (1 + 1e-9)


def test_guarantee_of_million_people_matches_known_value():
    guarantee = DistributedCheckIn(10**6, 0.1, 100_000, 1.0).guarantee()
    assert guarantee.epsilon(1e-6) == pytest.approx(0.83627, rel=1e-3)
    orders = range(2, 65)
    levels = distributed_renyi(orders, n=10**6, rate=0.1, sigma=1.0)
    assert renyi_epsilon(orders, 100_000 * levels, 1e-6) > guarantee.epsilon(1e-6)


def test_lower_and_upper_bound_are_close():
    guarantee = DistributedCheckIn(10_000, 0.1, 100, 1.0).guarantee()
    lower, upper = guarantee.lower(1e-6), guarantee.epsilon(1e-6)
    assert 0.97 * upper < lower < upper


def test_guarantee_names_view_theorem_and_assumptions():
    protocol = DistributedCheckIn(n=1_000, rate=0.1, rounds=10, sigma=1.0, clip=0.5)
    guarantee = protocol.guarantee()
    assert guarantee.view == {"curator"}
    assert any("secure aggregation" in each for each in guarantee.assumptions)
    alone = protocol.guarantee("everyone")
    assert alone.epsilon(1e-6) > 5 * guarantee.epsilon(1e-6)
    fewer = protocol.guarantee(colluders=500)
    assert guarantee.epsilon(1e-6) < fewer.epsilon(1e-6) < alone.epsilon(1e-6)
    assert fewer.epsilon(1e-6) == DistributedCheckIn(500, 0.1, 10, 1.0).guarantee().epsilon(1e-6)


def test_guarantee_refuses_too_many_rounds_for_delta():
    with pytest.raises(NumericalFloor):
        DistributedCheckIn(1_000, 0.1, 10**6, 10.0).guarantee().epsilon(1e-9)


@pytest.mark.parametrize(
    ("n", "rate", "rounds", "sigma", "message"),
    [
        (9, 1, 45, 0.0109, "a round gives away more than can be composed: raise sigma"),
        (16, 1, 51_855, 0.01266, "a round gives away more than can be composed: raise sigma"),
        (100, 0.5, 100_000, 0.01, r"need a grid of \d\d,\d+,\d+ points"),
    ],
)
def test_guarantee_refuses_too_small_noise_for_rounds(n, rate, rounds, sigma, message):
    guarantee = DistributedCheckIn(n=n, rate=rate, rounds=rounds, sigma=sigma).guarantee()
    with pytest.raises(NumericalFloor, match=message):
        guarantee.epsilon(1e-6)


def test_attack_on_huge_losses_raises_no_warning():
    guarantee = DistributedCheckIn(n=44, rate=3.28e-5, rounds=247, sigma=0.0229).guarantee()
    assert 4000 < guarantee.lower(2e-9) <= guarantee.epsilon(2e-9) == math.inf


def test_parameters_given_as_floats_become_integers():
    protocol = DistributedCheckIn(n=3.0, rate=1, rounds=5.0, sigma=1.0)
    assert protocol == DistributedCheckIn(n=3, rate=1.0, rounds=5, sigma=1.0)
    assert protocol.simulate(np.ones((3, 2)), seed=1).shape == (5, 2)
    assert protocol.guarantee(colluders=1.0).epsilon(1e-5) > protocol.guarantee().epsilon(1e-5)


def test_simulate_clips_long_vectors():
    protocol = DistributedCheckIn(n=2, rate=1.0, rounds=2, sigma=1.0)
    for size in (1e200, 1e-200):
        rows = np.array([[3.0, 4.0], [0.0, 1.0]]) * size
        means = protocol.simulate(rows, seed=1) - protocol.simulate(np.zeros((2, 2)), seed=1)
        truth = [0.3, 0.9] if size > 1 else [0.0, 0.0]
        np.testing.assert_allclose(means, [truth, truth], rtol=1e-12, atol=1e-12)


def test_simulated_means_have_stated_noise():
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(400, 3)) * 5
    protocol = DistributedCheckIn(n=400, rate=1.0, rounds=3_000, sigma=2.0, clip=1.0)
    means = protocol.simulate(vectors, seed=7)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    truth = (vectors / np.maximum(norms, 1.0)).mean(axis=0)
    error = protocol.cost(3).expected_error
    assert error == pytest.approx(2.0 / 20)
    assert np.abs(means.mean(axis=0) - truth).max() < 5 * error / math.sqrt(3_000)
    np.testing.assert_allclose(means.std(axis=0), error, rtol=0.05)
    np.testing.assert_array_equal(means, protocol.simulate(vectors, seed=7))


def test_empty_round_has_nan_mean():
    means = DistributedCheckIn(n=3, rate=0.01, rounds=50, sigma=1.0).simulate(np.ones((3, 2)), 1)
    assert np.isnan(means).any()
    assert means.shape == (50, 2)


def test_cost_counts_expected_vectors():
    cost = DistributedCheckIn(n=100, rate=0.25, rounds=40, sigma=1.0).cost(16)
    assert (cost.messages_per_person, cost.bytes_per_person) == (10.0, 1280.0)


@pytest.mark.parametrize(
    "change",
    [
        {"n": 0},
        {"n": 10**13},
        {"rate": 0.0},
        {"rate": 1.1},
        {"rate": math.nan},
        {"rounds": 0},
        {"rounds": 2.5},
        {"n": True},
        {"sigma": 0.0},
        {"sigma": math.inf},
        {"clip": 0.0},
        {"clip": 1e-320},
    ],
)
def test_distributed_check_in_rejects_invalid_parameters(change):
    sound = {"n": 10, "rate": 0.5, "rounds": 2, "sigma": 1.0, "clip": 1.0}
    with pytest.raises(InvalidParameter):
        DistributedCheckIn(**(sound | change))


def test_guarantee_rejects_colluders_without_remainder():
    with pytest.raises(InvalidCrowd):
        DistributedCheckIn(10, 0.5, 1, 1.0).guarantee(colluders=10)
    with pytest.raises(InvalidParameter):
        DistributedCheckIn(n=3, rate=0.5, rounds=1, sigma=1.0).simulate(np.ones((2, 2)), 1)
    with pytest.raises(InvalidParameter):
        distributed_renyi([1], n=10, rate=0.5, sigma=1.0)
    with pytest.raises(InvalidParameter, match="order must be at most 2048"):
        distributed_renyi([10**9], n=10, rate=0.5, sigma=1.0)
