"""Token walks of practical size: reference values, very long walks, and what is refused."""

import math

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import binom

from incrowd.errors import InvalidCrowd, InvalidParameter, NumericalFloor
from incrowd.privacy import ComposedProfile, LocalProfile
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.repeated import RepeatedProfile
from incrowd.privacy.sampled import RevealedProfile, SampledProfile
from incrowd.protocols.token_walk.theorems.hidden_path import HiddenWalkProfile
from incrowd.protocols.token_walk.theorems.public_path import (
    CuratorSumProfile,
    LocalWalkProfile,
    PublicWalkProfile,
)
from incrowd.protocols.token_walk.theorems.visit_counts import visits
from incrowd.randomizers import KRR, Laplace

# One contribution is (1, 1e-6)-private; T = 100n.
MU = 1 / 4.22467888932682
# n, hidden at δ = 1e-6 and 2.66e-4, local at δ = 1e-6.
HIDDEN = [
    (20, 2.8178, 1.9732, 14.058),
    (100, 1.1248, 0.7456, 14.080),
    (1000, 0.3244, 0.1968, 14.085),
    (10_000, 0.09464, 0.0508, 14.086),
]
# By Rényi divergences, for comparison: the path known, δ = 1e-6.
RENYI = [(20, 4.1667), (100, 1.7986), (1000, 0.7984)]


@pytest.mark.parametrize(("n", "small", "large", "local"), HIDDEN)
def test_hidden_epsilon_matches_table_at_hundred_visits(n, small, large, local):
    profile = HiddenWalkProfile(GaussianProfile(MU), n, 100 * n)
    for delta, reference in ((1e-6, small), (2.66e-4, large)):
        found = profile.epsilon(delta)
        # The references count the observer's own steps among those of others.
        assert (1 - 1 / n) * reference * 0.998 <= found <= (1 - 0.4 / n) * 1.001 * reference
        assert 0.8 * found < profile.lower(delta) <= found
        assert profile.delta(found) <= delta
    seen = LocalWalkProfile(GaussianProfile(MU), n, 100 * n)
    assert seen.epsilon(1e-6) == pytest.approx(local, abs=1e-3)
    assert seen.lower(1e-6) == pytest.approx(seen.epsilon(1e-6), rel=1e-3)
    assert CuratorSumProfile(MU, n, 100 * n).epsilon(1e-6) < profile.epsilon(1e-6)


@pytest.mark.parametrize(("n", "reference"), RENYI)
def test_public_path_beats_divergence_bound(n, reference):
    found = PublicWalkProfile(MU, n, 100 * n)
    assert found.lower(1e-6) < found.epsilon(1e-6) < 0.95 * reference
    assert found.epsilon(1e-6) > HiddenWalkProfile(GaussianProfile(MU), n, 100 * n).epsilon(1e-6)


def weighted_shifts(n, steps, count, rate, rng):
    """W of random walks, drawn so that large ones are likely, and weights that undo it.

    Cycles (m, k) are drawn with chances times e^(rate·k²/m)·ρ^(m + 1), which add up to one.
    """
    m = np.arange(16 * n)[:, None]
    k = np.arange(60)[None, :]
    plain = np.exp(m * math.log1p(-1 / n)) / n * binom.pmf(k, m, 1 / (n - 1))
    grown = plain * np.exp(rate * np.minimum(k, m) ** 2 / np.maximum(m, 1))
    low, high = 0.5, 1.0
    for _ in range(60):
        rho = (low + high) / 2
        low, high = (low, rho) if (grown * rho ** (m + 1)).sum() > 1 else (rho, high)
    tilted = grown * rho ** (m + 1)
    longer = np.append(tilted.sum(axis=1)[::-1].cumsum()[::-1], 0.0)
    places = np.searchsorted(tilted.cumsum(), rng.random((count, 3 * steps // n + 60)))
    places = np.minimum(places, tilted.size - 1)
    cycle_m, cycle_k = places // 60, places % 60
    ends = np.cumsum(cycle_m + 1, axis=1)
    assert np.all(ends[:, -1] > steps)
    whole = ends <= steps
    squared = (cycle_k**2 / np.maximum(cycle_m, 1) * whole).sum(axis=1)
    age = steps - np.where(whole, ends, 0).max(axis=1)
    log_weight = -rate * squared - (steps - age) * math.log(rho)
    return squared, log_weight + age * math.log1p(-1 / n) - np.log(longer[age])


@pytest.mark.parametrize(("n", "rate", "exact"), [(20, 0.5, 3.810), (100, 2.5, 1.584)])
def test_public_path_never_below_simulated_walks(n, rate, exact):
    """Estimates of the exact average, which the bound must exceed: not by much, and never less."""
    bound = PublicWalkProfile(MU, n, 100 * n).epsilon(1e-6)
    squared, log_weight = weighted_shifts(n, 100 * n, 10_000, rate, np.random.default_rng(11))
    assert np.exp(log_weight).mean() < 2
    shift = MU * np.sqrt(np.maximum(squared, 1e-12))

    def estimate(epsilon):
        upper, lower = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
        each = np.exp(log_ndtr(upper)) - np.exp(epsilon + log_ndtr(lower))
        each = np.maximum(each, 0.0) * np.exp(log_weight)
        return each.mean(), each.std() / math.sqrt(each.size)

    mean, error = estimate(bound)
    assert mean + 4 * error < 1e-6
    # Where the exact curve has this δ: the bound is a few per cent above.
    mean, error = estimate(exact)
    assert mean == pytest.approx(1e-6, abs=5 * error + 0.01e-6)
    assert error < 0.05e-6
    assert exact < bound < 1.04 * exact


def test_histogram_epsilon_matches_table():
    profile = HiddenWalkProfile(LocalProfile(KRR(categories=10, epsilon=1.0)), 4000, 400_000)
    assert 0.448 < profile.epsilon(1e-6) < 0.4491 * 1.001
    assert 0.25 < profile.lower(1e-6) < profile.epsilon(1e-6)


@pytest.mark.parametrize(("epsilon", "sigma"), [(1.0, 1.4704), (10.0, 0.8520)])
def test_sgd_noise_matches_table(epsilon, sigma):
    """Gradients of norm 1, one replaced: n = 2000, T = 20000, δ = 1e-6."""
    found = [
        HiddenWalkProfile(GaussianProfile(2 / scaled), 2000, 20_000).epsilon(1e-6)
        for scaled in (sigma * 1.001, sigma * 0.99)
    ]
    assert found[0] <= epsilon < found[1]


# Two ways to compose


@pytest.mark.parametrize(
    ("one", "rate", "rounds"),
    [
        (GaussianProfile(MU), 1 / 19, 2000),
        (GaussianProfile(MU), 1 / 999, 100_000),
        (GaussianProfile(2.0), 1 / 99, 50),
        (GaussianProfile(0.5), 1.0, 30),
        (LocalProfile(KRR(categories=4, epsilon=2.0)), 1 / 50, 300),
        (LocalProfile(Laplace(epsilon=1.0)), 1 / 50, 300),
    ],
)
def test_inversion_agrees_with_convolution(one, rate, rounds):
    sampled = SampledProfile(one, rate)
    inverted, convolved = RepeatedProfile(sampled, rounds), ComposedProfile(((sampled, rounds),))
    for delta in (1e-7, 1e-5):
        assert inverted.epsilon(delta) == pytest.approx(convolved.epsilon(delta), rel=1e-3)
    epsilon = convolved.epsilon(1e-5)
    for at in (epsilon, 0.5 * epsilon, -0.3 * epsilon):
        assert inverted.delta(at) == pytest.approx(convolved.delta(at), rel=5e-3)
    assert convolved.lower(1e-5) <= epsilon


def test_gaussian_steps_compose_to_one_gaussian():
    """Without sampling the answer is known exactly, for any number of steps."""
    for rounds in (2, 100, 10**8):
        one = SampledProfile(GaussianProfile(1 / math.sqrt(rounds)), 1.0)
        found, exact = RepeatedProfile(one, rounds), GaussianProfile(1.0)
        for delta in (1e-12, 1e-3):
            assert found.epsilon(delta) >= exact.epsilon(delta) * (1 - 1e-9)
            assert found.epsilon(delta) == pytest.approx(exact.epsilon(delta), rel=5e-4)


@pytest.mark.parametrize("n", [3, 1000, 10**6])
def test_very_long_walks_have_finite_epsilon(n):
    """A hundred million steps, at a δ far below what convolving them could certify."""
    steps = 10**8
    for one in (GaussianProfile(0.01), LocalProfile(KRR(categories=4, epsilon=0.05))):
        profile = HiddenWalkProfile(one, n, steps)
        found = profile.epsilon(1e-10)
        assert math.isfinite(found)
        assert profile.lower(1e-10) <= found
    for known in (PublicWalkProfile(0.01, n, steps), CuratorSumProfile(0.01, n, steps)):
        assert known.lower(1e-6) <= known.epsilon(1e-6)
    assert LocalWalkProfile(GaussianProfile(0.01), n, steps).epsilon(1e-6) > 0


@pytest.mark.parametrize("steps", [1, 2, 3, 10])
@pytest.mark.parametrize("n", [3, 10**6])
def test_very_short_walks_have_decreasing_epsilon(n, steps):
    profile = HiddenWalkProfile(GaussianProfile(1.0), n, steps)
    found = [profile.epsilon(delta) for delta in (1e-9, 1e-6, 1e-2)]
    assert found == sorted(found, reverse=True)
    assert profile.lower(1e-6) <= found[1]


def test_epsilon_is_ordered_by_steps_colluders_publication_and_view():
    """More steps, more colluders, a published end and fewer people never help."""
    mu, n, steps = 0.5, 50, 500
    base = PublicWalkProfile(mu, n, steps).epsilon(1e-5)
    assert PublicWalkProfile(mu, n, steps, published=True).epsilon(1e-5) > base
    assert PublicWalkProfile(mu, n, steps, colluders=3).epsilon(1e-5) > base
    assert PublicWalkProfile(mu, n, 2 * steps).epsilon(1e-5) > base
    one = GaussianProfile(mu)
    hidden = HiddenWalkProfile(one, n, steps).epsilon(1e-5)
    assert hidden < base < LocalWalkProfile(one, n, steps).epsilon(1e-5)
    assert HiddenWalkProfile(one, n, steps, colluders=5).epsilon(1e-5) > hidden
    capped = LocalWalkProfile(one, n, steps, cap=3).epsilon(1e-5)
    assert capped <= GaussianProfile(mu * math.sqrt(3)).epsilon(1e-5) * (1 + 1e-6)


def test_curves_satisfy_symmetry_below_zero():
    """δ(−ε) = 1 − e^(−ε) + e^(−ε)·δ(ε) for all of them."""
    one = GaussianProfile(0.5)
    for profile in (
        SampledProfile(one, 0.1),
        RevealedProfile(one, 0.1),
        RepeatedProfile(SampledProfile(one, 0.1), 20),
        PublicWalkProfile(0.5, 10, 100),
        CuratorSumProfile(0.5, 10, 100),
        LocalWalkProfile(one, 10, 100),
    ):
        expected = -math.expm1(-0.2) + math.exp(-0.2) * profile.delta(0.2)
        assert profile.delta(-0.2) == pytest.approx(expected, rel=1e-9)


def test_visits_match_binomial():
    for steps, chance in ((1, 0.5), (7, 1 / 3), (2000, 1 / 20), (10**8, 1e-6), (10**6, 0.5)):
        found = visits(steps, chance)
        exact = binom.pmf(found.count, steps, chance)
        assert np.all(found.chance >= exact * (1 - 1e-9))
        kept = exact > 1e-30
        assert found.chance[kept] == pytest.approx(exact[kept], rel=1e-6)
        assert found.chance.sum() == pytest.approx(1, abs=1e-8)
        assert found.beyond < 1e-40


def test_profiles_reject_invalid_arguments():
    one = GaussianProfile(1.0)
    with pytest.raises(InvalidCrowd, match="hide each other"):
        HiddenWalkProfile(one, 2, 10)
    with pytest.raises(InvalidCrowd, match="colluders"):
        PublicWalkProfile(1.0, 4, 10, colluders=3)
    with pytest.raises(InvalidParameter, match="steps"):
        HiddenWalkProfile(one, 10, 0)
    with pytest.raises(InvalidParameter, match="rate"):
        SampledProfile(one, 0.0)
    with pytest.raises(InvalidParameter, match="shift"):
        CuratorSumProfile(0.0, 10, 10)
    with pytest.raises(InvalidParameter, match="cap"):
        LocalWalkProfile(one, 10, 10, cap=-1)
    with pytest.raises(NumericalFloor, match="more noise"):
        HiddenWalkProfile(GaussianProfile(200.0), 10, 1000).epsilon(1e-6)
