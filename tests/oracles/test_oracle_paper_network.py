"""What the paper on network shuffling prints, against exact values: the known counterexamples.

docs/theory/network_shuffle.md says what is wrong with each formula and what holds instead.
"""

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from network_enumeration import (
    Views,
    connected_graphs,
    delta,
    graph_of,
    labels_of,
    pendant,
    pendant_delta,
    pendant_gap,
    pendant_single_delta,
    pendant_stationary_collision,
    position_laws,
    worst_delta,
)

from experiments.paper_network_shuffle import (
    paper_all_stationary,
    paper_all_symmetric,
    paper_collision,
    paper_count_norm,
    paper_single,
    paper_single_approximate,
    paper_single_simplified,
    paper_stationary_collision,
)


def _collision(law):
    return sum(p * p for p in law)


def _stationary(graph):
    ends = sum(len(row) for row in graph)
    return [F(len(row), ends) for row in graph]


def _gap(graph):
    n = len(graph)
    S = np.zeros((n, n))
    for u, row in enumerate(graph):
        for v in row:
            S[u, v] = 1 / math.sqrt(len(graph[u]) * len(graph[v]))
    values = np.sort(np.linalg.eigvalsh(S))
    return float(1 - max(abs(values[0]), abs(values[-2])))


# As printed


@pytest.mark.parametrize(
    ("epsilon0", "every", "single"),
    [
        (0.2, 0.06905, 0.02123),
        (0.5, 0.37065, 0.08405),
        (1.0, 2.7782, 0.36891),
        (1.5, 18.460, 1.25143),
        (2.0, 168.84, 3.9524),
    ],
)
def test_printed_formulas_at_size_of_facebook(epsilon0, every, single):
    """Values worked out by hand from the statements, n = 22,470 and Γ = 5.0064."""
    n, at = 22_470, 1e-6
    collision = paper_stationary_collision(n, 5.0064)
    assert paper_all_stationary(epsilon0, n, collision, at, at) == pytest.approx(every, rel=2e-4)
    assert paper_single(epsilon0, collision, at) == pytest.approx(single, rel=2e-4)


def test_symmetric_is_stationary_when_all_places_are_equal():
    args = (0.5, 1000, 1e-3)
    assert paper_all_symmetric(*args, 1.0, 1e-6, 1e-6) == paper_all_stationary(*args, 1e-6, 1e-6)
    assert paper_all_symmetric(*args, 2.0, 1e-6, 1e-6) > paper_all_stationary(*args, 1e-6, 1e-6)


# Equation (7): how fast the collision probability falls

FRIENDS = graph_of(21, [(0, v) for v in range(1, 21)] + [(2 * i + 1, 2 * i + 2) for i in range(10)])
"""Ten triangles that share vertex 0."""


def test_collision_bound_fails_on_a_graph_of_friends():
    gap = _gap(FRIENDS)
    assert gap == pytest.approx(1 / 2, abs=1e-12)
    pi = _collision(_stationary(FRIENDS))
    excess = [float(_collision(position_laws(FRIENDS, t)[0]) - pi) for t in (10, 20)]
    assert excess[0] == pytest.approx(3.9107e-4, rel=1e-4)
    printed = [paper_collision(0.0, gap, t) for t in (10, 20)]
    assert printed[0] == pytest.approx(9.5367e-7, rel=1e-4)
    assert excess[0] / printed[0] == pytest.approx(410, rel=1e-2)
    assert excess[1] / printed[1] == pytest.approx(4.19e5, rel=1e-2)
    assert _collision(position_laws(FRIENDS, 1)[1]) == F(1, 2)
    assert paper_collision(float(pi), gap, 1) == pytest.approx(0.3833, abs=1e-4)


def _collision_bound(law_of_rest, gap, rounds, start):
    """The bound that holds: eigenvectors are orthogonal when weighted by π."""
    pi = [float(p) for p in law_of_rest]
    squares = sum(p * p for p in pi)
    spread = max(0.0, sum(p**3 for p in pi) - squares**2)
    far, decay = 1 / pi[start] - 1, (1 - gap) ** rounds
    return squares + 2 * decay * math.sqrt(far * spread) + decay**2 * max(pi) * far


def test_collision_bound_that_holds():
    printed_fails = 0
    for graph in (*connected_graphs(4), *connected_graphs(5), FRIENDS):
        gap, pi = _gap(graph), _stationary(graph)
        for rounds in (1, 2, 3, 6, 10):
            laws = position_laws(graph, rounds)
            for start in range(min(6, len(graph))):
                truth = float(_collision(laws[start]))
                assert truth <= _collision_bound(pi, gap, rounds, start) + 1e-12
                printed_fails += truth > paper_collision(float(_collision(pi)), gap, rounds) + 1e-12
    assert printed_fails > 20


def test_collision_bound_holds_on_regular_graphs():
    for graph in (*connected_graphs(4), *connected_graphs(5)):
        if len({len(row) for row in graph}) == 1:
            n, gap = len(graph), _gap(graph)
            for rounds in (1, 2, 5):
                truth = float(_collision(position_laws(graph, rounds)[0]))
                assert truth <= paper_collision(1 / n, gap, rounds) + 1e-12


# Lemma 5.1: how many reports lie together


def test_count_norm_fails_for_two_people():
    """‖L‖ is never below √2, and the bound is 1.32."""
    assert paper_count_norm(2, 1 / 2, 0.95) < math.sqrt(2)


@pytest.mark.parametrize("claimed", [0.9, 0.95])
def test_count_norm_fails_for_a_crowd(claimed):
    """Exact mean and variance of ‖L‖² for uniform places, then Cantelli's inequality.

    ‖L‖² = n + 2·(pairs that meet). Pairs meet with chance 1/n, and pairwise independently.
    """
    n = 2000
    pairs = math.comb(n, 2)
    mean = n + 2 * pairs / n
    variance = 4 * pairs * (1 / n) * (1 - 1 / n)
    below = mean - paper_count_norm(n, 1 / n, claimed) ** 2
    assert below > 0
    exceeds = 1 - variance / (variance + below**2)
    assert exceeds > 0.98 > claimed


def test_count_mean_and_variance_match_formula():
    """What the test above takes for granted, by enumeration of four walks on four places."""
    n = 4
    squares = [sum(v.count(i) ** 2 for i in range(n)) for v in product(range(n), repeat=n)]
    mean = F(sum(squares), n**n)
    assert mean == n + n * (n - 1) * F(1, n)
    variance = F(sum(s * s for s in squares), n**n) - mean**2
    assert variance == 4 * math.comb(n, 2) * F(1, n) * (1 - F(1, n))


def test_count_norm_that_holds():
    """With the n diagonal pairs the lemma is true at every δ, by enumeration."""
    n = 5
    norms = [math.sqrt(sum(v.count(i) ** 2 for i in range(n))) for v in product(range(n), repeat=n)]
    fails = 0
    for at in (0.01, 0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99):
        whole = math.sqrt(n + (n * n - n) / n) + math.sqrt(n * math.log(1 / at))
        assert sum(norm > whole for norm in norms) <= at * len(norms)
        fails += sum(norm > paper_count_norm(n, 1 / n, at) for norm in norms) > at * len(norms)
    assert fails > 0


# Theorem 5.3 with equation (7): a victim who hangs on one vertex of a complete graph


def test_pendant_attack_equals_enumeration():
    """m = 3 is the paw; there every number can be listed."""
    graph = pendant(3)
    assert _gap(graph) == pytest.approx(pendant_gap(3))
    assert _gap(pendant(9)) == pytest.approx(pendant_gap(9))
    assert float(_collision(_stationary(pendant(9)))) == pytest.approx(
        pendant_stationary_collision(9)
    )
    for E, t in product((F(2), F(3)), (F(1), F(9, 8), F(3, 2), F(2))):
        views = Views(labels_of(graph, 1), E)
        same = delta(views.law((1, 1, 1, 0)), views.law((1, 1, 1, 1)), t)
        assert pendant_delta(3, E, t) == same <= worst_delta(graph, E, 1, F(0), "all", 3, t)
        single = worst_delta(graph, E, 1, F(0), "single", 3, t)
        assert 0 <= pendant_single_delta(3, E, t) <= single


def _pendant_claims(m, epsilon0, at):
    """The printed ε of both protocols after one round, with equation (7)."""
    collision = paper_collision(pendant_stationary_collision(m), pendant_gap(m), 1)
    every = paper_all_stationary(epsilon0, m + 1, collision, at, at)
    return every, paper_single(epsilon0, collision, at)


@pytest.mark.parametrize(
    ("m", "epsilon0", "claimed", "truth"),
    [(10**5, 0.5, 0.1508, 0.1261), (10**7, 1.0, 0.1085, 0.330)],
)
def test_printed_all_mode_bound_is_below_truth(m, epsilon0, claimed, truth):
    every, single = _pendant_claims(m, epsilon0, 1e-6)
    assert every == pytest.approx(claimed, abs=1e-4)
    exact = pendant_delta(m, math.exp(epsilon0), math.exp(every))
    assert exact == pytest.approx(truth, abs=1e-3)
    assert exact > 1e4 * 2e-6
    # The formula for one report each is sound, but not with this collision probability.
    assert pendant_single_delta(m, math.exp(epsilon0), math.exp(single)) > 1e4 * 1e-6


@pytest.mark.parametrize("epsilon0", [0.5, 1.0])
def test_printed_single_mode_bound_holds_with_true_collision(epsilon0):
    """All of the victim's walk sits at one vertex: Σ P² = 1, and the claim is weaker than ε0."""
    assert paper_single(epsilon0, 1.0, 1e-6) > epsilon0


# Theorem 5.5, the short form for ε0 ≤ 1


def test_simplified_bound_holds_up_to_an_eighth():
    for epsilon0, collision in product((0.01, 0.05, 0.125), (1e-5, 1e-3, 0.1)):
        short = paper_single_simplified(epsilon0, collision, 1e-6)
        assert short >= paper_single_approximate(epsilon0, collision, 1e-6)


@pytest.mark.parametrize(("epsilon0", "factor"), [(0.2, 2.4), (0.5, 146), (1.0, 2.2e5)])
def test_simplified_bound_fails_beyond_an_eighth(epsilon0, factor):
    for collision in (1e-7, 1e-3):
        short = paper_single_simplified(epsilon0, collision, 1e-6)
        assert paper_single_approximate(epsilon0, collision, 1e-6) > factor * short
