"""The variation-ratio bound as printed is below the truth: docs/theory/variation_ratio.md."""

from fractions import Fraction as F

import numpy as np
import pytest
from enumeration import attack_atoms, blanket_atoms, functional, krr_matrix, worst_delta
from variation_ratio import (
    attack_delta,
    exact_variation_ratio,
    variation_ratio_delta,
    variation_ratio_epsilon,
)

from incrowd.privacy import LocalProfile, ShuffleProfile
from incrowd.randomizers import KRR

COUNTEREXAMPLES = [
    (1000, 8.0, 16, 7.3745, 4.61e-3),
    (1000, 8.0, 128, 5.8970, 1.15e-5),
    (10_000, 8.0, 16, 6.3940, 6.66e-6),
    (10_000, 8.0, 128, 4.4365, 1.26e-6),
    (1000, 4.0, 128, 0.68709, 1.128e-6),
    (1000, 4.0, 16, 1.37486, 1.048e-6),
]


def _profile(k: int, epsilon0: float, n: int) -> ShuffleProfile:
    randomizer = KRR(categories=k, epsilon=epsilon0)
    return ShuffleProfile(randomizer.blanket(), n, LocalProfile(randomizer))


@pytest.mark.parametrize(("n", "epsilon0", "k", "claimed", "truth"), COUNTEREXAMPLES)
def test_variation_ratio_counterexamples_exceed_certified_epsilon(n, epsilon0, k, claimed, truth):
    certified = variation_ratio_epsilon(k, epsilon0, n, 1e-6)
    assert certified == pytest.approx(claimed, rel=1e-4)
    assert attack_delta(k, epsilon0, n, claimed) == pytest.approx(truth, rel=5e-3)
    assert attack_delta(k, epsilon0, n, certified) > 1.04e-6
    profile = _profile(k, epsilon0, n)
    assert profile.epsilon(1e-6) > certified
    assert profile.delta(certified) >= attack_delta(k, epsilon0, n, certified)


def test_variation_ratio_computations_agree():
    for k, n in ((2, 5), (3, 8), (6, 7)):
        exact = exact_variation_ratio(k, F(3), n, F(3, 2))
        assert variation_ratio_delta(k, np.log(3), n, np.log(1.5)) == pytest.approx(float(exact))


def test_attack_sum_equals_enumeration():
    for k, n in ((3, 6), (5, 6)):
        R = krr_matrix(k, F(3))
        exact = functional(attack_atoms(R, 0, 1, 2), n, F(3, 2))
        assert attack_delta(k, np.log(3), n, np.log(1.5)) == pytest.approx(float(exact), rel=1e-12)


def test_variation_ratio_below_enumeration_for_small_crowd():
    """ε0 = 1, k = 3, n = 8, ε = 0.8, with e^ε0 and e^ε replaced by close fractions."""
    E, t, k, n = F(271828183, 10**8), F(222554093, 10**8), 3, 8
    R = krr_matrix(k, E)
    printed = exact_variation_ratio(k, E, n, t)
    truth = worst_delta(R, n, [t], pairs=[(0, 1)])[t]
    bound = functional(blanket_atoms(R, 0, 1), n, t)
    assert float(printed) == pytest.approx(1.21e-3, rel=5e-3)
    assert float(truth) == pytest.approx(2.78e-3, rel=5e-3)
    assert float(bound) == pytest.approx(3.47e-3, rel=5e-3)
    assert printed < truth < bound
    assert _profile(k, 1.0, n).delta(0.8) >= float(truth)


@pytest.mark.parametrize("E", [F(2), F(5)])
def test_variation_ratio_below_enumeration_where_blanket_is_not(E):
    """The same comparison as in the oracle tests of the blanket: the printed bound is caught."""
    below = 0
    for k, n in ((3, 6), (4, 5), (5, 4)):
        R = krr_matrix(k, E)
        ts = [F(1), F(6, 5), F(3, 2), F(9, 5)]
        truth = worst_delta(R, n, ts, pairs=[(0, 1)])
        for t in ts:
            assert functional(blanket_atoms(R, 0, 1), n, t) >= truth[t]
            below += exact_variation_ratio(k, E, n, t) < truth[t]
    assert below > 0


def test_variation_ratio_is_exact_for_two_categories():
    """With k = 2 nothing is hidden: it is the generic bound."""
    E, n, t = F(3), 6, F(3, 2)
    assert exact_variation_ratio(2, E, n, t) == functional(
        blanket_atoms(krr_matrix(2, E), 0, 1), n, t
    )
