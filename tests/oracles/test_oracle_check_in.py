"""Shuffled check-in against exact enumeration: never below the truth, no higher than it must be.

δ falls with ε, so an upper bound is asked for at an ε just below ln t, and a lower one just above.
"""

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from check_in_enumeration import (
    hockey,
    rounds_of,
    thinned_matrix,
    view_law,
    worst_check_in,
)
from enumeration import attack_law_of_matrix, blanket_atoms, functional, krr_matrix, true_delta

from incrowd.privacy import ComposedProfile
from incrowd.privacy.listed import likely_outcomes
from incrowd.privacy.mechanisms.shuffle import blanket_profile, clones_profile, distance
from incrowd.privacy.near import NearProfile
from incrowd.privacy.thinned import thinned
from incrowd.protocols.check_in import CheckIn
from incrowd.protocols.check_in.theorems.heterogeneous_rates import Band, RatesProfile, banded_law
from incrowd.randomizers import KRR, Generic

TS = (F(1, 2), F(9, 10), F(1), F(21, 20), F(6, 5), F(3, 2), F(5, 2))
RATES = (F(1, 20), F(1, 2), F(9, 10))


def _down(t: F | int) -> float:
    return math.log(t) - 4 * math.ulp(max(1.0, abs(math.log(t))))


def _up(t: F | int) -> float:
    return math.log(t) + 4 * math.ulp(max(1.0, abs(math.log(t))))


# One round


def _check_one_round(k: int, n: int, E: F, rate: F) -> list[F]:
    """Every bound against the truth; returns truth / own bound where t > 1."""
    R = krr_matrix(k, E)
    truth = worst_check_in(R, [rate] * n, TS)
    own = KRR(categories=k, epsilon=_up(E))
    named = blanket_profile(own, n, float(rate))
    generic = blanket_profile(Generic(epsilon=_up(E)), n, float(rate))
    adaptive = clones_profile(Generic(epsilon=_up(E)), n, float(rate))
    shares = []
    for t in TS:
        exact = functional(blanket_atoms(thinned_matrix(R, rate), 0, 1), n, t)
        assert named.bracket(_down(t)).upper == pytest.approx(float(exact), rel=1e-9, abs=1e-12)
        for each in (named, generic, adaptive):
            assert F(each.delta(_down(t))) >= truth[t]
        if truth[t] and t > 1:
            shares.append(truth[t] / F(named.delta(_down(t))))
    return shares


@pytest.mark.parametrize(("k", "n"), [(2, 1), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3)])
@pytest.mark.parametrize("E", [F(3, 2), F(5)])
@pytest.mark.parametrize("rate", RATES)
def test_one_round_guarantee_never_below_enumeration(k, n, E, rate):
    _check_one_round(k, n, E, rate)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "n"), [(2, 5), (3, 4), (4, 3)])
@pytest.mark.parametrize("E", [F(2), F(20)])
@pytest.mark.parametrize("rate", RATES)
def test_one_round_guarantee_never_below_enumeration_in_sweep(k, n, E, rate):
    _check_one_round(k, n, E, rate)


def test_one_round_oracle_detects_understatement():
    """Two percent less would be below the truth on these data sets."""
    assert max(_check_one_round(2, 4, F(3), F(1, 2))) > F(98, 100)
    assert max(_check_one_round(3, 3, F(3), F(9, 10))) > F(98, 100)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("k", [2, 3])
def test_lower_bounds_equal_enumeration_of_their_data_sets(k, rate):
    E, n = F(3), 4
    R = thinned_matrix(krr_matrix(k, E), rate)
    xstar = k - 1
    law = attack_law_of_matrix(R, 0, 1, xstar)
    stated = thinned(KRR(categories=k, epsilon=math.log(E)), float(rate)).attack()
    profile = blanket_profile(KRR(categories=k, epsilon=_up(E)), n, float(rate))
    assert profile.attacks
    for t in (F(21, 20), F(3, 2)):
        both = [true_delta(R, x0, x1, [xstar] * (n - 1), t) for x0, x1 in ((0, 1), (1, 0))]
        found = [functional_of(each, n, t) for each in (law, law.swapped())]
        assert max(found) == pytest.approx(float(max(both)), rel=1e-9)
        listed = [functional_of(each, n, t) for one in stated for each in (one, one.swapped())]
        assert any(value == pytest.approx(float(max(both)), rel=1e-9) for value in listed)


def functional_of(law, n: int, t: F) -> float:
    from incrowd.privacy import functional as enclosed

    found = enclosed(law, n, math.log(t))
    return (found.lower + found.upper) / 2


# Several rounds


@pytest.mark.parametrize(("k", "n", "rate"), [(2, 3, F(1, 2)), (2, 4, F(1, 10)), (3, 2, F(1, 3))])
def test_two_round_guarantee_never_below_enumeration(k, n, rate):
    E = F(4)
    truth = worst_check_in(krr_matrix(k, E), [rate] * n, TS, rounds=2)
    for randomizer in (KRR(categories=k, epsilon=_up(E)), Generic(epsilon=_up(E))):
        guarantee = CheckIn(randomizer, n=n, rate=float(rate), rounds=2).guarantee()
        for t in TS:
            assert F(guarantee.delta(_down(t))) >= truth[t]


def _pair(k: int, n: int, E: F, rate: F) -> list[tuple[F, F]]:
    """The pair behind the bound: densities at n draws of the common blanket, in order."""
    atoms = blanket_atoms(thinned_matrix(krr_matrix(k, E), rate), 0, 1)
    void = 1 - sum(mass for _, _, mass in atoms)
    pair = []
    for draws in product([*atoms, (F(0), F(0), void)], repeat=n):
        chance = math.prod((mass for _, _, mass in draws), start=F(1))
        pair.append(
            (chance * sum(a for a, _, _ in draws) / n, chance * sum(b for _, b, _ in draws) / n)
        )
    merged: dict[F, F] = {}
    for p, q in pair:
        if q:
            merged[p / q] = merged.get(p / q, F(0)) + q
    return [(ratio * q, q) for ratio, q in merged.items()]


@pytest.mark.parametrize("rate", [F(1, 20), F(1, 2)])
def test_two_round_guarantee_is_as_tight_as_pair(rate):
    """Within a percent of composing the pair by hand, never below it, and 2 % less would be."""
    k, n, E = 2, 3, F(6)
    pair = _pair(k, n, E, rate)
    composed = ComposedProfile(
        ((blanket_profile(KRR(categories=k, epsilon=_up(E)), n, float(rate)), 2),)
    )
    for t in (F(11, 10), F(3, 2), F(2)):
        exact = sum(
            (max(F(0), p * r - t * q * s) for (p, q), (r, s) in product(pair, repeat=2)), F(0)
        )
        upper = F(composed.delta(_down(t)))
        assert exact <= upper <= exact * F(101, 100)
        assert upper * F(98, 100) < exact


@pytest.mark.parametrize("rate", [F(1, 20), F(1, 2)])
def test_two_round_lower_bounds_never_above_enumeration(rate):
    k, n, E = 2, 3, F(6)
    guarantee = CheckIn(
        KRR(categories=k, epsilon=_down(E)), n=n, rate=float(rate), rounds=2
    ).guarantee()
    R = krr_matrix(k, E)
    for delta in (0.1, 0.02, 1e-3):
        low = guarantee.lower(delta)
        t = F(math.exp(low)) * (1 - F(1, 10**9))
        truth = max(
            hockey(
                rounds_of(view_law(R, (x0, *[star] * (n - 1)), [rate] * n), 2),
                rounds_of(view_law(R, (x1, *[star] * (n - 1)), [rate] * n), 2),
                t,
            )
            for x0, x1 in ((0, 1), (1, 0))
            for star in (0, 1)
        )
        if low > 0:
            assert truth * (1 + F(1, 10**6)) >= F(delta)
            assert hockeys_fall(R, n, rate, F(math.exp(low * 1.02))) < delta * 1.001


def hockeys_fall(R, n, rate, t):
    """The largest δ that any attack with equal others attains over two rounds."""
    return max(
        hockey(
            rounds_of(view_law(R, (x0, *[star] * (n - 1)), [rate] * n), 2),
            rounds_of(view_law(R, (1 - x0, *[star] * (n - 1)), [rate] * n), 2),
            t,
        )
        for x0 in (0, 1)
        for star in (0, 1)
    )


# Outcomes that are listed


@pytest.mark.parametrize("rate", RATES)
def test_enumerated_losses_enclose_pair(rate):
    k, n, E = 3, 3, F(3)
    pair = _pair(k, n, E, rate)
    law = thinned(KRR(categories=k, epsilon=math.log(E)), float(rate)).blanket()
    outcomes = likely_outcomes(law, n)
    assert outcomes.first.sum() == pytest.approx(1, abs=1e-12)
    above, below = outcomes.above(0.01), outcomes.below(0.01)
    for t in TS:
        exact = float(sum((max(F(0), p - t * q) for p, q in pair), F(0)))
        for found, sign in ((above, 1), (below, -1)):
            losses = found.interval * (found.first + np.arange(found.mass.size))
            curve = float(found.mass @ np.maximum(-np.expm1(math.log(t) - losses), 0))
            curve += found.infinite
            assert sign * (curve - exact) >= -1e-13
            assert curve == pytest.approx(exact, abs=0.011)
    heights = above.heights()
    losses = above.interval * (above.first + np.arange(above.mass.size))
    for place in (0, heights.size // 2, heights.size - 1):
        direct = float(above.mass @ np.maximum(-np.expm1(losses[place] - losses), 0))
        assert heights[place] == pytest.approx(direct + above.infinite, abs=1e-13)


# Randomizers with a δ0 of their own


def impure_matrix(k: int, E: F, delta0: F) -> tuple[tuple[F, ...], ...]:
    """Randomized response that with probability δ0 says the truth beyond doubt: k more answers."""
    R = krr_matrix(k, E)
    return tuple(
        (*((1 - delta0) * each for each in row), *(delta0 * (x == y) for y in range(k)))
        for x, row in enumerate(R)
    )


@pytest.mark.parametrize(("k", "n"), [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("delta0", [F(1, 1000), F(1, 50)])
@pytest.mark.parametrize("rate", [F(1, 2), F(1)])
def test_impure_guarantee_never_below_enumeration(k, n, delta0, rate):
    E = F(3)
    truth = worst_check_in(impure_matrix(k, E, delta0), [rate] * n, TS)
    randomizer = Generic(epsilon=_up(E), delta=float(delta0) * (1 + 1e-12))
    twice = worst_check_in(impure_matrix(k, E, delta0), [rate] * n, TS, rounds=2) if k == 2 else {}
    for profile in (blanket_profile, clones_profile):
        one = profile(randomizer, n, float(rate))
        assert isinstance(one, NearProfile)
        two = ComposedProfile(((one, 2),))
        for t in TS:
            assert F(one.delta(_down(t))) >= truth[t]
            assert F(two.delta(_down(t))) >= twice.get(t, 0)
        for delta in (0.3, 0.1):
            found = one.epsilon(delta)
            assert one.delta(found) <= delta * (1 + 1e-9)


def test_guarantee_without_delta0_charge_is_below_truth():
    """Without it the bound falls below the truth."""
    E, n, delta0, rate = F(3), 2, F(1, 50), F(1)
    truth = worst_check_in(impure_matrix(2, E, delta0), [rate] * n, [F(5, 2), F(3)])
    pure = blanket_profile(Generic(epsilon=_up(E)), n)
    assert any(F(pure.delta(_down(t))) < truth[t] for t in truth)
    # Alone the curve is exact: an impure randomizer of this kind is the worst.
    alone = worst_check_in(impure_matrix(2, E, delta0), [rate], TS)
    local = Generic(epsilon=_up(E), delta=float(delta0) * (1 + 1e-12))
    for t in TS:
        assert F(local.local_delta(_down(t))) >= alone[t]
        assert local.local_delta(_down(t)) == pytest.approx(float(alone[t]), rel=1e-9)


def _close_pair(P, Q, E: F):
    """The ε0-close pair of the proof, for two laws on the same answers."""
    P, Q = list(P), list(Q)
    for y, (p, q) in enumerate(zip(P, Q, strict=True)):
        if p > E * q:
            moved = (p - E * q) / (1 + E)
            P[y], Q[y] = p - moved, q + moved
        elif q > E * p:
            moved = (q - E * p) / (1 + E)
            P[y], Q[y] = p + moved, q - moved
    # Masses are made equal again where that brings the two closer still.
    for y in range(len(P)):
        short = (sum(Q) - sum(P)) / 2
        if short > 0 and Q[y] > P[y]:
            moved = min(short, (Q[y] - P[y]) / 2)
            P[y], Q[y] = P[y] + moved, Q[y] - moved
        elif short < 0 and P[y] > Q[y]:
            moved = min(-short, (P[y] - Q[y]) / 2)
            P[y], Q[y] = P[y] - moved, Q[y] + moved
    return P, Q


def test_close_pair_keeps_sums_and_stays_within_delta0():
    """Sums and maxima are kept, both stay within δ0/(1 + E), and others miss little of them."""
    import random

    rng = random.Random(5)
    E = F(2)
    for _ in range(200):
        rows = []
        for _ in range(3):
            weights = [F(rng.choice([0, 1, 2, 5, 9])) for _ in range(4)]
            weights[rng.randrange(4)] += 1
            rows.append([w / sum(weights) for w in weights])
        delta0 = max(
            sum(max(F(0), p - E * q) for p, q in zip(a, b, strict=True)) for a in rows for b in rows
        )
        P, Q = _close_pair(rows[0], rows[1], E)
        assert sum(P) == sum(Q) == 1
        assert all(0 <= p <= E * q and q <= E * p for p, q in zip(P, Q, strict=True))
        for new, old in ((P, rows[0]), (Q, rows[1])):
            assert sum(abs(x - y) for x, y in zip(new, old, strict=True)) / 2 <= delta0 / (1 + E)
        for p, q, r, s in zip(P, Q, rows[0], rows[1], strict=True):
            assert p + q == r + s
            assert max(p, q) <= max(r, s)
        other = rows[2]
        missed = sum(max(F(0), (p + q) / (2 * E) - o) for p, q, o in zip(P, Q, other, strict=True))
        assert missed <= delta0 / E
        missed = sum(max(F(0), max(p, q) / E - o) for p, q, o in zip(P, Q, other, strict=True))
        assert missed <= 2 * delta0 / E


def test_distance_matches_closed_form():
    randomizer = Generic(epsilon=math.log(3), delta=1e-6)
    assert distance(randomizer, 5, adaptive=False) == pytest.approx(1e-6 * (1 / 4 + 8 / 3))
    assert distance(randomizer, 5, adaptive=True) == pytest.approx(1e-6 * (1 / 4 + 4 / 3))


# Different rates

UNEQUAL = [
    (F(1, 2), F(1, 4)),
    (F(1, 10), F(1, 2), F(1, 2)),
    (F(1, 4), F(1, 3), F(1, 2)),
    (F(1), F(1, 2), F(1, 2)),
    (F(1, 2), F(1), F(1)),
    (F(1, 10), F(1, 2), F(1)),
]


@pytest.mark.parametrize("rates", UNEQUAL, ids=str)
@pytest.mark.parametrize("k", [2, 3])
def test_rates_guarantee_never_below_enumeration(rates, k):
    """Every person's curve against the truth of their own record, and the worst against all."""
    E = F(3)
    R = krr_matrix(k, E)
    for randomizer in (KRR(categories=k, epsilon=_up(E)), Generic(epsilon=_up(E))):
        for adaptive in (False, True):
            profile = RatesProfile(
                randomizer, np.array([float(r) for r in rates]), 1, adaptive=adaptive
            )
            for victim in range(len(rates)):
                truth = worst_check_in(R, rates, TS, victim=victim)
                own = profile.person(victim)
                for t in TS:
                    assert F(own.delta(_down(t))) >= truth[t]
                    assert F(profile.delta(_down(t))) >= truth[t]


@pytest.mark.parametrize("rates", UNEQUAL[:4], ids=str)
def test_band_curves_never_below_enumeration(rates):
    """Not only the band that is chosen: each is proven on its own."""
    E = F(3)
    R = krr_matrix(2, E)
    profile = RatesProfile(Generic(epsilon=_up(E)), np.array([float(r) for r in rates]), 1)
    assert profile.bands
    for victim, rate in enumerate(rates):
        truth = worst_check_in(R, rates, TS, victim=victim)
        for band in profile.bands:
            one = profile._one_round(float(rate), band)
            for t in TS:
                assert F(one.delta(_down(t))) >= truth[t]


def test_rates_guarantee_of_two_rounds_never_below_enumeration():
    E, rates = F(3), (F(1, 4), F(1, 2), F(1, 2))
    R = krr_matrix(2, E)
    profile = RatesProfile(Generic(epsilon=_up(E)), np.array([float(r) for r in rates]), 2)
    for victim in range(3):
        truth = worst_check_in(R, rates, TS, rounds=2, victim=victim)
        for t in TS:
            assert F(profile.person(victim).delta(_down(t))) >= truth[t]


def test_oracle_detects_band_of_single_rate():
    """A victim who comes more often than the others: 2 % less would be below the truth."""
    E, n, t = F(20), 3, F(3)
    rates = (F(9, 10), F(1, 20), F(1, 20))
    truth = worst_check_in(krr_matrix(2, E), rates, [t])[t]
    law = banded_law(KRR(categories=2, epsilon=math.log(E)).blanket(), 0.9, Band(0.05, 0.05, n))
    assert float(truth) <= functional_of(law, n, t) * (1 + 1e-9)
    assert float(truth) > 0.98 * functional_of(law, n, t)


def test_worst_rate_exceeds_mean_rate_curve():
    """Taking everyone at the mean rate would guarantee too much."""
    E, t = F(5), F(6, 5)
    rates = (F(9, 10), F(1, 10), F(1, 10))
    truth = worst_check_in(krr_matrix(2, E), rates, [t])[t]
    mean = blanket_profile(Generic(epsilon=_up(E)), 3, float(sum(rates) / 3))
    assert F(mean.delta(_down(t))) < truth
