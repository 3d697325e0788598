"""Formulas printed for shuffled check-in that are no bounds, and the repaired ones, which are."""

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from check_in_enumeration import (
    paper_renyi_of_point,
    paper_shuffle_epsilon,
    paper_theorem_1,
    paper_zeta_power,
    renyi,
    view_law,
    worst_check_in,
)
from enumeration import krr_matrix
from scipy.stats import binom

from experiments.check_in_published import (
    _log_moments,
    first_cut_delta,
    renyi_divergence,
    renyi_epsilon,
)
from incrowd.errors import InvalidParameter
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.check_in import CheckIn
from incrowd.randomizers import RR, Generic

N, ROUNDS, DELTA = 10_000, 100, 1e-4


# Lemma 1 as printed: from (ε, δ) to a Rényi divergence


@pytest.mark.parametrize(("order", "truth"), [(2, 0.7353), (8, 0.9552), (32, 0.9899)])
def test_printed_conversion_understates_randomized_response(order, truth):
    """RR with ε0 = 1 is (1, 0)-private, hence (1, 1e-8)-private; its divergence is known."""
    yes = math.e / (1 + math.e)
    exact = math.log(
        yes**order * (1 - yes) ** (1 - order) + (1 - yes) ** order * yes ** (1 - order)
    )
    assert exact / (order - 1) == pytest.approx(truth, abs=5e-5)
    assert paper_renyi_of_point(1.0, 1e-8, order) < 0.6 * truth


def _everyone_else_at_zero(epsilon0: float, rate: float):
    """Both laws of (zeros, ones) when all others hold 0 and the victim 1 or 0, by adding people."""
    E = math.exp(epsilon0)
    zero, one = rate * E / (E + 1), rate / (E + 1)
    zeros = np.arange(0, int(N * zero + 14 * math.sqrt(N * zero) + 30))
    ones = np.arange(0, int(N * one + 14 * math.sqrt(N * one) + 30))
    others = binom.pmf(zeros, N - 1, zero)[:, None] * np.array(
        [binom.pmf(ones, N - 1 - each, one / (1 - zero)) for each in zeros]
    )

    def with_victim(says_zero: float, says_one: float):
        law = (1 - rate) * others
        law[1:] += rate * says_zero * others[:-1]
        law[:, 1:] += rate * says_one * others[:, :-1]
        return law.ravel()

    return with_victim(1 / (E + 1), E / (E + 1)), with_victim(E / (E + 1), 1 / (E + 1))


def _composed(P, Q, interval: float, *, up: bool) -> float:
    from dp_accounting.pld import pld_pmf

    seen = (P > 1e-40) & (Q > 1e-40)
    loss = (np.log(P[seen]) - np.log(Q[seen])) / interval
    place = (np.ceil(loss) if up else np.floor(loss)).astype(int)
    mass = np.bincount(place - place.min(), weights=P[seen])
    missing = max(0.0, 1 - float(P[seen].sum())) if up else 0.0
    one = pld_pmf.DensePLDPmf(interval, int(place.min()), mass, missing, pessimistic_estimate=up)
    return float(one.self_compose(ROUNDS).get_epsilon_for_delta(DELTA))


# ε0, rate, the published ε of the baseline and of the two approaches.
TABLE = [
    (2.0, 0.01, (0.096, 0.17, 0.049)),
    (2.0, 0.001, (0.013, 0.012, 0.024)),
    (8.0, 0.01, (9.52, 8.57, 8.18)),
    (8.0, 0.001, (3.86, 1.78, 1.58)),
]
EXACT = {(2.0, 0.01): 0.05348, (2.0, 0.001): 0.01385, (8.0, 0.01): 2.27885, (8.0, 0.001): 0.86079}


@pytest.mark.parametrize(("epsilon0", "rate", "published"), TABLE)
def test_attack_on_randomized_response_is_exact(epsilon0, rate, published):
    """Our lower bound lies between two independent compositions of one data set's own laws."""
    del published
    lower = CheckIn(RR(epsilon=epsilon0), n=N, rate=rate, rounds=ROUNDS).guarantee().lower(DELTA)
    P, Q = _everyone_else_at_zero(epsilon0, rate)
    step = lower / 20_000
    up = max(_composed(P, Q, step, up=True), _composed(Q, P, step, up=True))
    down = max(_composed(P, Q, step, up=False), _composed(Q, P, step, up=False))
    assert down * 0.995 <= lower <= up
    assert lower * 1.02 > up
    assert lower == pytest.approx(EXACT[epsilon0, rate], rel=0.01)


def test_published_figures_are_below_the_truth():
    """Three cells of the published table are below what an attack attains."""
    below = []
    for epsilon0, rate, published in TABLE[:2]:
        guarantee = CheckIn(RR(epsilon=epsilon0), n=N, rate=rate, rounds=ROUNDS).guarantee()
        attained = guarantee.lower(DELTA)
        below += [(epsilon0, rate, figure) for figure in published if figure < attained]
    assert below == [(2.0, 0.01, 0.049), (2.0, 0.001, 0.013), (2.0, 0.001, 0.012)]


# Theorem 1


def test_closed_form_outside_range_is_below_attack():
    """Its condition asks for 472350 reports at ε0 = 8; with 140 an attack attains more."""
    formula = paper_shuffle_epsilon(8.0, 140, DELTA)
    assert formula == pytest.approx(5.674, abs=1e-3)
    assert blanket_profile(Generic(epsilon=8.0), 140).lower(DELTA) > formula


def test_theorem_1_differs_from_its_proof():
    """The printed denominator is only looser, the printed δ is smaller than the proof's."""
    epsilon0, people, delta0 = 2.0, 100, 1e-8
    epsilon, spent = paper_theorem_1(epsilon0, N, people, DELTA, delta0)
    shuffled = paper_shuffle_epsilon(epsilon0, people, DELTA)
    proven = math.log1p(people / N * math.expm1(shuffled))
    assert epsilon > proven
    E = math.exp(epsilon0)
    needed = people / N * (DELTA + (math.exp(shuffled) + 1) * (1 + 1 / (2 * E)) * people * delta0)
    assert spent < needed


@pytest.mark.parametrize("rate", [F(1, 10), F(1, 2), F(9, 10)])
@pytest.mark.parametrize(("k", "n"), [(2, 2), (2, 4), (3, 3)])
def test_repaired_theorem_1_is_a_bound(k, n, rate):
    E = F(3)
    ts = (F(21, 20), F(6, 5), F(3, 2), F(2))
    truth = worst_check_in(krr_matrix(k, E), [rate] * n, ts)
    for t in ts:
        found = first_cut_delta(math.log(E) * (1 + 1e-15), n, float(rate), math.log(t))
        assert found * (1 + 1e-9) >= float(truth[t])


def test_repaired_theorem_1_oracle_detects_understatement():
    """A crowd of one: 2 % less would be below the truth."""
    E, rate, t = F(3), F(1, 2), F(3, 2)
    truth = float(worst_check_in(krr_matrix(2, E), [rate], [t])[t])
    assert 0.98 * first_cut_delta(math.log(E), 1, 0.5, math.log(t)) < truth


def test_repaired_theorem_1_is_looser():
    ours = CheckIn(Generic(epsilon=2.0), n=1000, rate=0.05).guarantee()
    assert first_cut_delta(2.0, 1000, 0.05, 0.05) > ours.delta(0.05)


# Theorem 2


def _worst_renyi(k: int, n: int, E: F, rate: F, order: int) -> float:
    R = krr_matrix(k, E)
    return max(
        renyi(view_law(R, (0, *others), [rate] * n), view_law(R, (1, *others), [rate] * n), order)
        for others in product(range(k), repeat=n - 1)
    )


@pytest.mark.parametrize("rate", [F(1, 10), F(1, 2), F(1)])
@pytest.mark.parametrize(("k", "n"), [(2, 1), (2, 3), (3, 3)])
@pytest.mark.parametrize("E", [F(11, 10), F(3)])
def test_repaired_theorem_2_is_a_bound(k, n, rate, E):
    for order in (2, 3, 8):
        found = renyi_divergence(math.log(E) * (1 + 1e-15), n, float(rate), order)
        assert found * (1 + 1e-9) >= _worst_renyi(k, n, E, rate, order)


def test_theorem_2_with_the_printed_zeta_is_below_the_truth():
    """ζ(2)² is the printed ζ(2): squaring it once more understates small divergences."""
    n, E, rate, order = 3, F(11, 10), F(1, 2), 2
    R = krr_matrix(2, E)
    moment = float((1 - rate) ** n)
    for k in range(1, n + 1):
        shuffled = max(
            renyi(view_law(R, (0, *rest), [F(1)] * k), view_law(R, (1, *rest), [F(1)] * k), 2)
            for rest in product((0, 1), repeat=k - 1)
        )
        chance = math.comb(n, k) * float(rate**k * (1 - rate) ** (n - k))
        moment += chance * (1 + (k / n) ** 2 * paper_zeta_power(math.log(E), shuffled, 2))
    assert math.log(moment) < 0.5 * _worst_renyi(2, n, E, rate, order)


def test_theorem_2_without_the_empty_round_is_below_the_truth():
    """The proof's sum starts at k = 1; at a low rate most rounds are empty."""
    n, E, rate = 3, F(3), F(1, 10)
    whole = math.exp(renyi_divergence(math.log(E), n, float(rate), 2))
    assert math.log(whole - float((1 - rate) ** n)) < 0 < _worst_renyi(2, n, E, rate, 2)


def test_renyi_epsilon_never_below_guarantee():
    found = renyi_epsilon(2.0, 300, 0.05, 10, 1e-5)
    assert found > CheckIn(Generic(epsilon=2.0), n=300, rate=0.05, rounds=10).guarantee().epsilon(
        1e-5
    )


# What they are asked for


def _k_by_k(epsilon0, n, rate, order):
    """The bound as it stands, for crowds small enough to list."""
    top, total = math.expm1(epsilon0), 0.0
    for k in range(1, n + 1):
        moments = np.exp(_log_moments(epsilon0, k))
        for j in range(2, order + 1):
            zeta = moments[j - 2] * min(2.0, top**j)
            zeta = min(zeta, 4 * (moments[0] - 1)) if j == 2 else zeta
            total += binom.pmf(k, n, rate) * math.comb(order, j) * (k / n) ** j * zeta
    return math.log1p(total) / (order - 1)


@pytest.mark.parametrize(("epsilon0", "rate"), [(0.1, 0.5), (1.0, 0.1), (3.0, 1.0)])
def test_renyi_form_equals_direct_sum(epsilon0, rate):
    for order in (2, 5, 30):
        found = renyi_divergence(epsilon0, 30, rate, order)
        assert found == pytest.approx(_k_by_k(epsilon0, 30, rate, order), rel=1e-5)
        assert found >= _k_by_k(epsilon0, 30, rate, order) * (1 - 1e-10)


def test_renyi_form_handles_large_crowds_and_epsilons():
    """A million people take no more than their blocks; nothing overflows."""
    assert 0 < first_cut_delta(1.0, 10**9, 1e-3, 1e-3) < 1e-3
    assert 0 < renyi_divergence(1.0, 10**9, 1e-3, 8) < 1e-5
    assert renyi_divergence(12.0, 50, 0.5, 64) == pytest.approx(12.0, rel=0.2)
    assert first_cut_delta(1.0, 50, 0.5, 1e5) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: first_cut_delta(math.nan, 10, 0.5, 0.1),
        lambda: first_cut_delta(1e5, 10, 0.5, 0.1),
        lambda: first_cut_delta(1.0, 10, 1.5, 0.1),
        lambda: first_cut_delta(1.0, 10, math.nan, 0.1),
        lambda: first_cut_delta(1.0, 10, 0.5, -0.1),
        lambda: first_cut_delta(1.0, 10, 0.5, math.nan),
        lambda: first_cut_delta(1.0, 2.5, 0.5, 0.1),
        lambda: renyi_divergence(1.0, 0, 0.5, 2),
        lambda: renyi_divergence(1.0, 10**14, 0.5, 2),
        lambda: renyi_divergence(1.0, 10, 0.0, 2),
        lambda: renyi_divergence(-1.0, 10, 0.5, 2),
        lambda: renyi_divergence(1.0, 10, 0.5, 2.5),
        lambda: renyi_divergence(1.0, 10, 0.5, 65),
        lambda: renyi_epsilon(1.0, 10, 0.5, 0, 1e-5),
        lambda: renyi_epsilon(1.0, 10, 0.5, math.nan, 1e-5),
        lambda: renyi_epsilon(1.0, 10, 0.5, 2, math.nan),
        lambda: renyi_epsilon(1.0, 10, 0.5, 2, 1e-5, orders=()),
        lambda: renyi_epsilon(1.0, 10, 0.5, 2, 1e-5, orders=(1, 2)),
    ],
)
def test_published_bounds_reject_invalid_parameters(call):
    with pytest.raises(InvalidParameter):
        call()
