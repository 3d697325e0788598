"""Gossip against exact projectors in rational arithmetic: docs/theory/gossip.md."""

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest

from experiments.token_gossip import Gossip
from incrowd.errors import InvalidGraph, InvalidParameter, NotANumber, NumericalFloor
from incrowd.graphs import families
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.protocols.token_walk.theorems.graph_walk import metropolis


def fractions(edges, n):
    """Metropolis-Hastings weights as fractions."""
    degree = [sum(x in edge for edge in edges) for x in range(n)]
    weights = [[F(0)] * n for _ in range(n)]
    for x, y in edges:
        weights[x][y] = weights[y][x] = F(1, 1 + max(degree[x], degree[y]))
    for x in range(n):
        weights[x][x] = 1 - sum(weights[x])
    return weights


def cube(dimension):
    n = 2**dimension
    return [(x, x ^ (1 << b)) for x in range(n) for b in range(dimension) if x < x ^ (1 << b)], n


GRAPHS = {
    "path 3": ([(0, 1), (1, 2)], 3),
    "path 6": ([(x, x + 1) for x in range(5)], 6),
    "ring 8": ([(x, (x + 1) % 8) for x in range(8)], 8),
    "star 5": ([(0, x) for x in range(1, 5)], 5),
    "grid 2x3": ([(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)], 6),
    "cube 8": cube(3),
}


def times(weights, row):
    return [sum(row[x] * weights[x][y] for x in range(len(row))) for y in range(len(row))]


def rows_seen(weights, v, rounds):
    """The rows of what v sees, as linear functions of everyone's noisy values."""
    n = len(weights)
    unit = [[F(int(x == y)) for y in range(n)] for x in range(n)]
    rows = [unit[v]]
    for w in range(n):
        row = unit[w]
        for _ in range(rounds if w != v and weights[v][w] else 0):
            rows.append(row)
            row = times(weights, row)
    return rows


def projected(rows, n):
    """The diagonal of the projector on the span of these rows, by exact orthogonalisation."""
    basis = []
    for row in rows:
        rest = row
        for other in basis:
            share = sum(a * b for a, b in zip(rest, other, strict=True))
            share /= sum(a * a for a in other)
            rest = [a - share * b for a, b in zip(rest, other, strict=True)]
        if any(rest):
            basis.append(rest)
    return [sum((b[u] ** 2 / sum(a * a for a in b) for b in basis), F(0)) for u in range(n)]


def printed(weights, u, v, rounds):
    """The sum of what single messages give away."""
    total, n = F(0), len(weights)
    for w in range(n):
        row = [F(int(w == y)) for y in range(n)]
        for _ in range(rounds if w != v and weights[v][w] else 0):
            total += row[u] ** 2 / sum(a * a for a in row)
            row = times(weights, row)
    return total


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
@pytest.mark.parametrize("name", GRAPHS)
def test_losses_equal_projector(name, rounds):
    edges, n = GRAPHS[name]
    weights = fractions(edges, n)
    found = Gossip(np.array(weights, float), rounds, 1.0).losses()
    tight = 0
    for v in range(n):
        exact = projected(rows_seen(weights, v, rounds), n)
        for u in range(n):
            if u == v:
                assert found[u, v] == 0
                continue
            assert float(exact[u]) * (1 - 1e-12) <= found[u, v] <= float(exact[u]) + 1e-7
            tight += float(exact[u]) > 0.98 * found[u, v] > 0
    assert tight, "lowered by 2 %, the losses would be too small"


@pytest.mark.parametrize(
    ("name", "u", "v", "rounds", "sum_of_messages"),
    [("path 3", 2, 0, 2, 1 / 3), ("ring 8", 3, 0, 3, 0.053), ("cube 16", 15, 0, 4, 0.12)],
)
def test_sum_over_messages_is_no_bound(name, u, v, rounds, sum_of_messages):
    """The sum is below 1, and v has reconstructed what u sent out."""
    edges, n = cube(4) if name == "cube 16" else GRAPHS[name]
    weights = fractions(edges, n)
    assert float(printed(weights, u, v, rounds)) == pytest.approx(sum_of_messages, abs=2e-3)
    assert projected(rows_seen(weights, v, rounds), n)[u] == 1
    gossip = Gossip(np.array(weights, float), rounds, 0.5)
    assert gossip.losses()[u, v] == pytest.approx(0.25)
    assert gossip.profile(u, v).shift == pytest.approx(0.5)
    assert gossip.profile(u, v).epsilon(1e-6) > GaussianProfile(
        0.5 * math.sqrt(sum_of_messages)
    ).epsilon(1e-6)


def test_loss_is_zero_before_any_message():
    gossip = Gossip(metropolis(families.ring(12)), 2, 1.0)
    assert gossip.losses()[5, 0] == 0
    assert gossip.profile(5, 0).epsilon(1e-6) < 1e-4


def test_losses_grow_with_rounds():
    weights = metropolis(families.grid(4, 4))
    losses = [Gossip(weights, rounds, 1.0).losses() for rounds in (1, 2, 3, 6)]
    for fewer, more in itertools.pairwise(losses):
        assert np.all(fewer <= more + 2e-8)


def test_view_is_normal_with_stated_shift():
    """The best linear test of v attains the loss: its mean shift in its own standard deviations."""
    edges, n = GRAPHS["grid 2x3"]
    weights = fractions(edges, n)
    u, v, rounds = 5, 0, 3
    rows = np.array(rows_seen(weights, v, rounds), float)
    test = np.linalg.pinv(rows @ rows.T, rcond=1e-12) @ rows[:, u] @ rows
    attained = test[u] ** 2 / (test @ test)
    found = Gossip(np.array(weights, float), rounds, 1.0).losses()[u, v]
    assert attained == pytest.approx(found, rel=1e-6)


def test_gossip_converges_to_mean():
    rng = np.random.default_rng(2)
    weights = metropolis(families.random_regular(60, 4, rng))
    values = rng.random((60, 2))
    gossip = Gossip(weights, 80, 1.0)
    assert gossip.simulate(values, 0.0, rng) == pytest.approx(np.tile(values.mean(axis=0), (60, 1)))
    noisy = gossip.simulate(values[:, 0], 0.5, rng)
    assert noisy == pytest.approx(np.full(60, noisy.mean()), abs=1e-6)
    assert abs(noisy.mean() - values[:, 0].mean()) < 5 * 0.5 / math.sqrt(60)
    one = Gossip(weights, 1, 1.0).simulate(values, 0.0, rng)
    assert one == pytest.approx(weights.toarray() @ values)


def test_gossip_rejects_invalid_arguments():
    weights = metropolis(families.ring(5))
    for arguments, text in (
        ((weights, 0, 1.0), "rounds"),
        ((weights, 2, 0.0), "mu"),
        ((families.ring(5), 2, 1.0), "square matrix of chances"),
    ):
        with pytest.raises(InvalidParameter, match=text):
            Gossip(*arguments)
    with pytest.raises(InvalidGraph, match="parts"):
        Gossip(np.eye(3), 2, 1.0)
    gossip = Gossip(weights, 2, 1.0)
    for pair, text in (((1, 1), "two different"), ((0, 5), "not one of")):
        with pytest.raises(InvalidParameter, match=text):
            gossip.profile(*pair)
    with pytest.raises(InvalidParameter, match="one row for each"):
        gossip.simulate(np.zeros(4), 1.0, np.random.default_rng(0))
    with pytest.raises(InvalidParameter, match="must be numbers"):
        gossip.simulate(["a"] * 5, 1.0, np.random.default_rng(0))
    with pytest.raises(NotANumber, match="finite"):
        gossip.simulate(np.full(5, np.nan), 1.0, np.random.default_rng(0))
    with pytest.raises(InvalidParameter, match="sigma"):
        gossip.simulate(np.zeros(5), -1.0, np.random.default_rng(0))


def test_losses_reject_cases_decided_by_rounding():
    """Two leaves behind one neighbour, whose weights differ by next to nothing."""
    weights = np.zeros((4, 4))
    for x, y, w in ((0, 1, 0.3), (1, 2, 0.2), (1, 3, 0.2 + 1e-9)):
        weights[x, y] = weights[y, x] = w
    weights += np.diag(1 - weights.sum(axis=1))
    with pytest.raises(NumericalFloor, match="rounding"):
        Gossip(weights, 6, 1.0).losses()
