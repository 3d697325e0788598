"""What a Hamming shuffle keeps of a set: docs/theory/preservation.md."""

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import hypergeom

from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.theorems.preservation import (
    hamming_preservation,
    log_hamming_preservation,
    tolerated,
)
from tests.oracles.order_enumeration import losing_permutations


def kept_weight(total, lost, x):
    """U_(N, j), term by term, each from the one before."""
    term = math.factorial(total) * (x**0)
    found = term
    for q in range(total - lost):
        term = term * x * (total - lost - q) / ((q + 1) * (total - q))
        found += term
    return found


def law_of_losses(n, size, x):
    """The chance to lose j, for all j, in whatever numbers x is given."""
    everything = kept_weight(n, 0, x)
    return [
        math.comb(size, j)
        * math.comb(n - size, j)
        * kept_weight(size, j, x)
        * kept_weight(n - size, j, x)
        / everything
        for j in range(min(size, n - size) + 1)
    ]


def test_law_of_losses_sums_to_one():
    for n, size, x in itertools.product((1, 2, 5, 9, 30), (1, 2, 7), (F(0), F(1, 7), F(5))):
        if size <= n:
            assert sum(law_of_losses(n, size, x)) == 1


def test_law_of_losses_equals_counted_permutations():
    for n in range(1, 11):
        for size, q in itertools.product(range(1, n + 1), (F(1, 2), F(1, 9))):
            law = law_of_losses(n, size, 1 / q - 1)
            weights = [math.comb(n, h) * derangements(h) * q**h for h in range(n + 1)]
            for losses in range(size):
                counts = losing_permutations(n, size, losses)
                truth = sum(q**h * count for h, count in enumerate(counts)) / sum(weights)
                assert truth == sum(law[losses + 1 :])


def derangements(n):
    return sum((-1) ** i * math.factorial(n) // math.factorial(i) for i in range(n + 1))


def log_truth(n, size, losses, theta):
    mp.dps = 60
    x = mp.expm1(mpf(theta))
    law = law_of_losses(n, size, x)
    rest = mp.fsum(law[losses + 1 :])
    return mp.log(rest) if rest else -mp.inf


@pytest.mark.parametrize("theta", [0.0, 1e-9, 0.3, 2.0, 4.0, 5.298, 8.0, 30.0])
def test_delta_is_just_above_truth_in_many_digits(theta):
    for size, eta in [(10, 1), (10, "0.9"), (60, 0.5), (100, 0.9), (100, 0.01), (190, 0.97)]:
        truth = log_truth(200, size, tolerated(size, eta), theta)
        found = log_hamming_preservation(200, size, eta, theta)
        if truth == -mp.inf:
            assert found == -math.inf
            continue
        assert truth <= found
        assert found <= truth + 1e-10 * max(1, abs(truth))
        if truth > -700:
            delta = hamming_preservation(200, size, eta, theta)
            assert delta >= mp.exp(truth)
            assert delta <= mp.exp(truth) * (1 + 1e-9)
            assert 0.98 * delta < mp.exp(truth)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "eta", "theta"), [(300, 0.9, 7.0), (1000, 0.8, 6.5)])
def test_delta_is_just_above_truth_among_two_thousand(size, eta, theta):
    truth = log_truth(2000, size, tolerated(size, eta), theta)
    found = log_hamming_preservation(2000, size, eta, theta)
    assert truth <= found <= truth + 1e-8


def test_uniform_shuffle_loses_like_urn():
    n, size = 10**6, 10**5
    for eta in (0.1, 0.0999, 0.101):
        losses = tolerated(size, eta)
        truth = hypergeom.logsf(losses, n, n - size, size)
        found = log_hamming_preservation(n, size, eta, 0.0)
        assert found == pytest.approx(truth, rel=1e-6, abs=1e-6)


def test_delta_of_million_follows_law_of_large_numbers():
    """As many stay as the law of large numbers says: a share x/n is at home, others are uniform."""
    n, size, theta = 10**6, 10**5, 13.0
    home = math.expm1(theta) / n
    lost = (1 - home) * (n - size) / n
    for slack, low, high in [(0.02, 1 - 1e-9, 1.0), (-0.02, 0.0, 1e-9)]:
        delta = hamming_preservation(n, size, round(1 - lost + slack, 6), theta)
        assert low <= delta <= high


def test_delta_falls_with_theta_and_rises_with_eta():
    thetas = np.linspace(0, 12, 25)
    for eta in (0.3, 0.6, 0.9):
        deltas = [log_hamming_preservation(500, 40, eta, t) for t in thetas.tolist()]
        assert all(a >= b - 1e-9 for a, b in itertools.pairwise(deltas))
    etas = [log_hamming_preservation(500, 40, F(i, 40), 4.0) for i in range(1, 41)]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(etas))


def test_losses_that_are_tolerated_are_exact():
    assert tolerated(10, 0.9) == 1, "(1 − 0.9)·10 is less than one as a double"
    assert tolerated(10, "0.9") == tolerated(10, F(9, 10)) == tolerated(10, np.float64(0.9)) == 1
    assert tolerated(3, 0.5) == 1
    assert tolerated(7, 1) == 0
    assert tolerated(7, 0) == 7
    assert tolerated(1000, 0.999) == 1
    for size in range(1, 60):
        for part in range(101):
            kept = size - tolerated(size, part / 100)
            assert 100 * kept >= part * size > 100 * (kept - 1)


def test_delta_is_zero_without_possible_loss():
    assert hamming_preservation(10, 4, 0, 1.0) == 0.0
    assert hamming_preservation(10, 10, 1, 0.0) == 0.0
    assert hamming_preservation(10, 9, 0.8, 0.0) == 0.0, "only one can come from outside"
    assert hamming_preservation(10, 4, 1, math.inf) == 0.0
    assert hamming_preservation(10**6, 10**5, 0.9, 20.0) == 5e-324, "too little for a double"
    assert log_hamming_preservation(10**6, 10**5, 0.9, 1e6) < -1e7


@pytest.mark.parametrize("eta", [-0.1, 1.1, math.nan, "much", True, "1/0"])
def test_tolerated_rejects_impossible_shares(eta):
    with pytest.raises(InvalidParameter, match="eta must be a share"):
        tolerated(5, eta)


def test_preservation_rejects_impossible_sets_and_theta():
    with pytest.raises(InvalidCrowd, match="size must be at most n = 5"):
        hamming_preservation(5, 6, 1, 1.0)
    with pytest.raises(InvalidParameter, match="theta"):
        hamming_preservation(5, 3, 1, -1.0)
    with pytest.raises(InvalidParameter, match="theta"):
        hamming_preservation(5, 3, 1, math.nan)
