"""Shuffled check-in in crowds of practical size: reference values, and what is computed how."""

import math

import numpy as np
import pytest

from incrowd.errors import NumericalFloor
from incrowd.privacy import ComposedProfile, connect_the_dots, functional
from incrowd.privacy.listed import likely_outcomes
from incrowd.privacy.mechanisms.shuffle import blanket_profile, clones_profile
from incrowd.privacy.near import NearProfile
from incrowd.privacy.thinned import Thinned, thinned
from incrowd.protocols.check_in import CheckIn
from incrowd.randomizers import KRR, RR, Gaussian, Generic, Laplace

# n = 1e4, 100 rounds, δ = 1e-4. Bounds by clones, by the blanket, and the exact ε of one data set
# of binary response, all others at 0. Losses were rounded up on a grid, by at most 2e-5 per round.
HUNDRED_ROUNDS = [
    (2.0, 0.01, 0.10176, 0.07363, 0.05348),
    (2.0, 0.001, 0.02685, 0.01918, 0.01385),
    (8.0, 0.01, 4.08180, 2.76294, 2.27885),
    (8.0, 0.001, 1.38208, 0.92406, 0.86079),
]
# One round, δ = 1e-6.
ONE_ROUND = [
    (10**5, 0.01, (9.676e-4, 2.680e-3, 9.935e-3)),
    (10**5, 0.1, (3.514e-3, 9.518e-3, 3.428e-2)),
    (10**6, 0.01, (2.552e-4, 7.317e-4, 2.771e-3)),
    (10**6, 0.1, (9.672e-4, 2.678e-3, 9.835e-3)),
]


@pytest.mark.parametrize(("epsilon0", "rate", "clones", "blanket", "exact"), HUNDRED_ROUNDS)
def test_check_in_hundred_rounds_near_reference(epsilon0, rate, clones, blanket, exact):
    """Within a percent of the reference, and not above it by more than its last digit."""
    for adaptive, reference in ((False, blanket), (True, clones)):
        protocol = CheckIn(
            Generic(epsilon=epsilon0), n=10**4, rate=rate, rounds=100, adaptive=adaptive
        )
        found = protocol.guarantee().epsilon(1e-4)
        assert reference * 0.99 <= found <= reference * 1.0005
        assert found > exact


@pytest.mark.parametrize(("n", "rate", "references"), ONE_ROUND)
def test_check_in_one_round_near_reference(n, rate, references):
    for epsilon0, reference in zip((1.0, 2.0, 4.0), references, strict=True):
        found = CheckIn(Generic(epsilon=epsilon0), n=n, rate=rate).guarantee().epsilon(1e-6)
        assert reference * 0.998 <= found <= reference * 1.001


@pytest.mark.parametrize(("epsilon0", "rate"), [(2.0, 0.005), (4.0, 0.01)])
def test_enumerated_and_transformed_bounds_agree(epsilon0, rate):
    """Two ways that share nothing but the law: every outcome, and the transform's curve."""
    profile = blanket_profile(Generic(epsilon=epsilon0), 10**4, rate)
    listed = likely_outcomes(profile.law, profile.n)
    interval = profile.deviation / 10
    followed = connect_the_dots(
        lambda epsilon: both_ways(profile.law, profile.n, epsilon), interval, profile.greatest_loss
    )
    found = [
        float(each.to_dp_accounting().self_compose(50).get_epsilon_for_delta(1e-5))
        for each in (listed.above(interval), followed)
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-3)
    for epsilon in (0.5 * interval, 20 * interval):
        bracket, other = listed.bracket(epsilon), functional(profile.law, profile.n, epsilon)
        assert bracket.lower <= other.upper
        assert other.lower <= bracket.upper
        assert bracket.upper - bracket.lower < 1e-9 * bracket.upper


def both_ways(law, n, epsilon):
    """The upper end at any real ε; the law is symmetric."""
    if epsilon >= 0:
        return functional(law, n, epsilon).upper
    return -math.expm1(epsilon) + math.exp(epsilon) * functional(law, n, -epsilon).upper


def test_enumeration_declines_many_atoms_and_large_crowds():
    assert likely_outcomes(thinned(Laplace(epsilon=1.0), 0.01).blanket(), 1000) is None
    assert likely_outcomes(thinned(Generic(epsilon=1.0), 0.1).blanket(), 10**6) is None
    assert likely_outcomes(thinned(Gaussian(epsilon=1.0, delta=1e-6), 0.1).blanket(), 100) is None


def test_enumeration_declines_frequent_reports_of_large_crowd():
    """Two kinds of reports have few outcomes, but each is a long sum."""
    law, _ = RR(epsilon=1.0).attack()
    assert likely_outcomes(law, 10**5).slack < 1e-6
    assert likely_outcomes(law, 10**8) is None


def test_enumeration_refuses_too_fine_grid():
    outcomes = likely_outcomes(thinned(Generic(epsilon=8.0), 0.001).blanket(), 10**4)
    with pytest.raises(NumericalFloor, match="grid points"):
        outcomes.above(1e-9)


def test_composition_at_tiny_rate_is_bounded():
    """A rate of one in a million: nearly every round is empty of losses."""
    guarantee = CheckIn(RR(epsilon=4.0), n=10**4, rate=1e-6, rounds=1000).guarantee()
    lower, upper = guarantee.lower(1e-6), guarantee.epsilon(1e-6)
    assert 0 < lower <= upper < 0.03
    assert guarantee.delta(upper) <= 1e-6


def test_composition_with_overflowing_losses_brackets_epsilon():
    """Hundreds of rounds in a crowd of two: e^ε overflows, and no attack is made up from it."""
    guarantee = CheckIn(RR(epsilon=8.0), n=2, rate=0.94, rounds=200).guarantee()
    lower, upper = guarantee.lower(5e-6), guarantee.epsilon(5e-6)
    assert lower <= upper < math.inf


def test_rate_one_equals_plain_shuffling():
    one = blanket_profile(KRR(categories=4, epsilon=1.0), 500, 1.0)
    assert one.law.mass.size == KRR(categories=4, epsilon=1.0).blanket().mass.size
    assert thinned(RR(epsilon=1.0), 1.0) == RR(epsilon=1.0)


@pytest.mark.parametrize("profile_of", [blanket_profile, clones_profile])
def test_epsilon_falls_with_rate_and_crowd(profile_of):
    """Losing reports at random is a lower rate: it only helps."""
    found = [
        profile_of(Generic(epsilon=2.0), 2000, rate).epsilon(1e-6) for rate in (0.3, 0.1, 0.02)
    ]
    assert found == sorted(found, reverse=True)
    assert profile_of(Generic(epsilon=2.0), 4000, 0.1).epsilon(1e-6) < found[1]


def test_subsampled_randomizer_keeps_assumption_and_scales_delta():
    gaussian = Gaussian(epsilon=1.0, delta=1e-6)
    found = Thinned(epsilon=1.0, inner=gaussian, rate=0.25)
    assert found.delta == 0.25e-6
    assert found.assumption == gaussian.assumption
    assert found.local_delta(0.5) == 0.25 * gaussian.local_delta(0.5)
    assert found.local_delta(-1.0) >= -math.expm1(-1.0)


# Randomizers with a δ0


def test_local_delta_costs_about_twice_its_distance_per_round():
    pure, impure = (Generic(epsilon=2.0, delta=delta0) for delta0 in (0.0, 1e-12))
    one = blanket_profile(impure, 10**4, 0.1)
    assert isinstance(one, NearProfile)
    for rounds in (1, 10, 100):
        base = ComposedProfile(((one.base, rounds),))
        found = ComposedProfile(((one, rounds),))
        for epsilon in (0.05, 0.2):
            extra = found.delta(epsilon) - base.delta(epsilon)
            assert extra <= 2.5 * rounds * one.distance + 1e-13 * rounds
            assert extra >= 0.9 * one.distance
        epsilon = found.epsilon(1e-6)
        assert base.epsilon(1e-6) <= epsilon < 1.01 * base.epsilon(1e-6)
        assert found.delta(epsilon) <= 1e-6 * (1 + 1e-9)
    assert blanket_profile(pure, 10**4, 0.1).epsilon(1e-6) == one.base.epsilon(1e-6)


def test_large_local_delta_leaves_local_guarantee():
    randomizer = Generic(epsilon=2.0, delta=1e-4)
    profile = blanket_profile(randomizer, 10**4, 0.1)
    assert profile.epsilon(2e-5) == profile.cap.epsilon(2e-5) < 2.0
    assert math.isinf(profile.epsilon(0.9e-5))
    assert profile.delta(3.0) == pytest.approx(1e-5, rel=1e-9)
    assert math.isinf(profile.greatest_loss)
    assert np.isfinite(profile.interval)
