"""Certified spreads against dense powers of the walk itself, and whether the certificate bites."""

import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from incrowd import graphs
from incrowd.errors import InvalidGraph, InvalidParameter
from incrowd.graphs import spectral_bounds as module
from incrowd.graphs.propagate import Step
from incrowd.graphs.spectral_bounds import Modes, modes

ROUNDS = [0, 1, 2, 3, 7, 12, 20, 33, 64, 65, 100, 151, 400, 1000]
LAZINESS = [0.0, 0.05, 0.3, 0.5, 0.9]


def two_cliques(size: int) -> graphs.Graph:
    inside = np.array([(i, j) for i in range(size) for j in range(i)])
    u, v = np.concatenate([inside, inside + size, [[0, size]]]).T
    return graphs.from_edges(u, v)


def kite(tail: int) -> graphs.Graph:
    """A triangle on a string."""
    u = np.arange(tail + 2)
    return graphs.from_edges(np.append(u, 2), np.append(u + 1, 0))


def friendship(triangles: int) -> graphs.Graph:
    """Triangles that share one vertex: eigenvalues ±½ of high multiplicity."""
    a = 2 * np.arange(triangles) + 1
    hub = np.zeros_like(a)
    return graphs.from_edges(np.concatenate([hub, hub, a]), np.concatenate([a, a + 1, a + 1]))


def loop_at_one_end() -> graphs.Graph:
    return graphs.from_edges([0, 0, 1, 2], [0, 1, 2, 3], self_loops=True)


GRAPHS = {
    "barabasi-albert": graphs.barabasi_albert(60, 2, np.random.default_rng(1)),
    "erdos-renyi": graphs.erdos_renyi(60, 0.07, np.random.default_rng(2)).largest_component(),
    "two cliques": two_cliques(12),
    "kite": kite(20),
    "friendship": friendship(15),
    "ring 9": graphs.ring(9),
    "complete": graphs.complete(10),
    "loop": loop_at_one_end(),
    "triangle": graphs.complete(3),
    "wheel": graphs.from_edges([0] * 7 + list(range(1, 8)), [*range(1, 8), *range(2, 8), 1]),
}


@cache
def distances(graph: graphs.Graph, rounds: int, laziness: float) -> np.ndarray:
    """P_t(j, v)/π(v) − 1 for all pairs, from powers of the transition matrix less its limit.

    (P − 1πᵀ)ᵗ = Pᵗ − 1πᵀ for t ≥ 1, and has small relative errors where Pᵗ − 1πᵀ would have none.
    """
    pi = graph.stationary()
    if rounds == 0:
        return np.eye(graph.n) / pi - 1
    return np.linalg.matrix_power(graph.transition(laziness).toarray() - pi, rounds) / pi


def excess_over_bound(found: Modes, graph: graphs.Graph, rounds: int, laziness: float) -> float:
    """The largest |P_t/π − 1| − c·c, less what the dense powers themselves may be off."""
    c = found.spread(rounds, laziness)
    true = np.abs(distances(graph, rounds, laziness))
    rate = 1 - modes_of(graph).gap(laziness)
    # The powers round at most as along the slowest eigenvalue, from vertex to vertex.
    off = 1e-14 * (rounds + 1) * rate ** max(rounds - 2, 0) / graph.stationary().min()
    return float(np.max(true - np.outer(c, c) - off))


@cache
def modes_of(graph: graphs.Graph) -> Modes:
    return modes(graph)


def require_bound(found: Modes, graph: graphs.Graph, laziness: list[float]) -> None:
    for lazy in laziness:
        for rounds in ROUNDS:
            assert excess_over_bound(found, graph, rounds, lazy) <= 0, (lazy, rounds)


@pytest.mark.parametrize("count", [1, 2, 3, 8, None])
@pytest.mark.parametrize("name", GRAPHS)
def test_spread_bounds_all_pairs(name: str, count: int | None) -> None:
    for degree in (3, 32):
        require_bound(modes(GRAPHS[name], count, rounds=degree), GRAPHS[name], LAZINESS)


@pytest.mark.parametrize("count", [1, 2, 5, None])
@pytest.mark.parametrize(
    "graph", [graphs.star(20), graphs.line(15), graphs.ring(10), graphs.line(2)]
)
def test_spread_bounds_lazy_walks_on_bipartite_graphs(
    graph: graphs.Graph, count: int | None
) -> None:
    require_bound(modes(graph, count), graph, [0.05, 0.5])


@pytest.mark.parametrize("laziness", [0.0, 0.5])
@pytest.mark.parametrize("name", GRAPHS)
def test_spread_is_tight_at_worst_pair(name: str, laziness: float) -> None:
    graph = GRAPHS[name]
    for found in (modes(graph), modes(graph, min(graph.n - 1, 30))):
        rounds = 40
        c = found.spread(rounds, laziness)
        true = np.abs(distances(graph, rounds, laziness))
        # For even t the worst pair is a vertex with itself, where the spread is all but exact.
        assert np.max(c) ** 2 <= 1.1 * np.max(true)
        assert np.max(c) ** 2 >= np.max(true) * (1 - 1e-9)


@pytest.mark.parametrize("laziness", [0.0, 0.4])
@pytest.mark.parametrize("name", ["barabasi-albert", "erdos-renyi", "two cliques", "kite"])
def test_spread_with_few_modes_is_sharp_for_long_walks(name: str, laziness: float) -> None:
    graph = GRAPHS[name]
    found = modes(graph, 12)
    for rounds in (100, 101):
        c = found.spread(rounds, laziness)
        true = np.abs(distances(graph, rounds, laziness))
        worst = np.unravel_index(true.argmax(), true.shape)
        assert np.outer(c, c)[worst] <= 1.1 * true[worst]


def test_spread_with_all_modes_equals_return_probability() -> None:
    graph = GRAPHS["barabasi-albert"]
    found = modes(graph)
    assert found.values.size == graph.n - 1
    assert found.rest_norm == 0
    for rounds in (2, 8, 30):
        back = np.diag(distances(graph, rounds, 0.0))
        np.testing.assert_allclose(found.spread(rounds) ** 2, back, rtol=1e-6)


@pytest.mark.parametrize("missed", [[0], [1], [0, 1], [0, 1, 2, 4]])
@pytest.mark.parametrize("name", GRAPHS)
def test_certificate_covers_modes_missed_by_solver(name: str, missed: list[int]) -> None:
    graph = GRAPHS[name]
    leading = module._leading(graph, min(10, graph.n - 1))
    kept = np.delete(leading, [i for i in missed if i < leading.shape[1]], axis=1)
    for degree in (3, 32):
        found = module._certified(graph, kept, degree)
        assert found.rest_norm >= abs(modes(graph).values[min(missed)]) - 1e-12
        require_bound(found, graph, LAZINESS)


def test_bound_without_certificate_fails_on_missed_mode() -> None:
    """The test above can fail: the modes alone do not bound what they leave out."""
    graph = GRAPHS["two cliques"]
    kept = module._leading(graph, 10)[:, 1:]
    found = module._certified(graph, kept, 32)
    alone = np.sqrt(found.vectors**2 @ np.abs(found.values) ** 100 / found.stationary)
    assert np.any(np.abs(distances(graph, 100, 0.0)) > np.outer(alone, alone))


def test_certified_drops_vectors_that_are_no_eigenvectors() -> None:
    graph = GRAPHS["erdos-renyi"]
    noise = np.random.default_rng(0).standard_normal((graph.n, 4))
    found = module._certified(graph, noise, 32)
    assert found.values.size == 0
    require_bound(found, graph, LAZINESS)


@pytest.mark.parametrize("name", GRAPHS)
def test_rest_weights_bound_those_of_eigenvalues(name: str) -> None:
    graph = GRAPHS[name]
    count = min(3, graph.n - 2)
    found = modes(graph, count, rounds=6)
    p, a = found.certified_rounds, found.edge
    root = np.sqrt(graph.degrees)
    values, vectors = np.linalg.eigh(graph.transition().toarray() * root[:, None] / root)
    out = np.eye(graph.n) - found.vectors @ found.vectors.T
    out -= np.sqrt(np.outer(graph.stationary(), graph.stationary()))
    shares = (vectors.T @ out) ** 2
    chebyshev = np.polynomial.chebyshev.chebval(values / a, [0] * p + [1]) ** 2
    np.testing.assert_allclose(found.rest_mass, shares.sum(axis=0), atol=1e-9)
    np.testing.assert_allclose(found.rest_power, (values / a) ** (2 * p) @ shares, atol=1e-6)
    np.testing.assert_allclose(found.rest_filtered, chebyshev @ shares, atol=1e-6)
    # And no weight is below the exact one.
    slack = 1e-13
    assert np.all(found.rest_mass >= shares.sum(axis=0) - slack)
    assert np.all(found.rest_filtered >= chebyshev @ shares - slack)


@pytest.mark.parametrize("count", [1, 2, 4, None])
@pytest.mark.parametrize("name", GRAPHS)
def test_modes_gap_is_lower_bound(name: str, count: int | None) -> None:
    graph = GRAPHS[name]
    found = modes(graph, count)
    for laziness in LAZINESS:
        values = np.sort(np.linalg.eigvals(graph.transition(laziness).toarray()).real)
        truth = 1 - max(abs(values[-2]), abs(values[0]))
        assert found.gap(laziness) <= truth + 1e-13
        if count is None:
            assert found.gap(laziness) == pytest.approx(truth, abs=1e-10)


def test_rest_norm_is_close_to_largest_omitted_eigenvalue() -> None:
    """On two random graphs that three edges join; the norms of Sᵖ alone would not show it."""
    rng = np.random.default_rng(4)
    u, v = graphs.random_regular(450, 6, rng).edges()
    ends = np.array([0, 1, 2])
    graph = graphs.from_edges(
        np.concatenate([u, u + 450, ends]), np.concatenate([v, v + 450, ends + 450])
    )
    found = modes(graph, 40)
    true = np.sort(np.abs(np.linalg.eigvalsh(module.normalised_adjacency(graph).toarray())))[::-1]
    assert true[41] - 1e-12 <= found.rest_norm <= 1.05 * true[41]
    p = found.certified_rounds
    assert np.sum(true[41:] ** (2 * p)) ** (1 / (2 * p)) > 1.1 * true[41]
    assert found.gap() == pytest.approx(1 - true[1], abs=1e-9)


def test_modes_by_lanczos_and_dense_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.barabasi_albert(300, 3, np.random.default_rng(5))
    dense = modes(graph, 12)
    monkeypatch.setattr(module, "_DENSE", 0)
    sparse = modes(graph, 12)
    np.testing.assert_allclose(sparse.values, dense.values, atol=1e-12)
    np.testing.assert_allclose(sparse.spread(70), dense.spread(70), rtol=1e-6)


def test_modes_of_stalled_solver_still_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_DENSE", 0)
    monkeypatch.setattr(module, "_RESTARTS", 1)
    graph = graphs.ring(301)
    found = modes(graph, 20)
    assert found.values.size < 20
    assert excess_over_bound(found, graph, 5000, 0.0) <= 0


def test_spread_bounds_slow_walk_for_thousands_of_rounds() -> None:
    graph = GRAPHS["kite"]
    found = modes(graph, 4)
    for rounds in (5_000, 20_000):
        true = np.abs(distances(graph, rounds, 0.0))
        bound = np.max(found.spread(rounds)) ** 2
        assert np.max(true) <= bound * (1 + 1e-6)
        assert bound <= 1.01 * np.max(true) + 1e-9
    assert np.max(found.spread(10**12)) < 1e-100


def test_spread_is_at_most_that_at_start() -> None:
    for name, graph in GRAPHS.items():
        found = modes(graph, 1)
        start = np.sqrt(1 / graph.stationary() - 1)
        for rounds in (0, 1, 5):
            assert np.all(found.spread(rounds) <= start * (1 + 1e-12)), name
        np.testing.assert_allclose(found.spread(0), start, rtol=1e-12)


def test_modes_of_single_vertex() -> None:
    found = modes(graphs.from_edges([0], [0], 1, self_loops=True))
    assert found.gap() == pytest.approx(1)
    assert found.spread(3) == pytest.approx(0, abs=1e-15)


def test_modes_refuses_invalid_input() -> None:
    with pytest.raises(InvalidGraph, match="2 components"):
        modes(graphs.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]))
    with pytest.raises(InvalidGraph, match="isolated"):
        modes(graphs.from_edges([0], [1], 3))
    star = modes(graphs.star(8))
    assert star.gap() == 0
    assert star.gap(0.5) == pytest.approx(0.5)
    with pytest.raises(InvalidGraph, match="bipartite"):
        star.spread(10)
    triangle = modes(graphs.complete(3))
    for wrong in (-1, 0.5, 10**13):
        with pytest.raises(InvalidParameter, match="rounds"):
            triangle.spread(wrong)  # type: ignore[arg-type]
    for lazy in (-0.1, 1.0, 1.5):
        with pytest.raises(InvalidParameter, match="laziness"):
            triangle.spread(3, lazy)
    with pytest.raises(InvalidParameter, match="count"):
        modes(graphs.complete(3), 0)
    with pytest.raises(InvalidParameter, match="rounds"):
        modes(graphs.complete(3), rounds=0)


def test_modes_reports_progress_and_repeats() -> None:
    graph = graphs.barabasi_albert(500, 4, np.random.default_rng(6))
    seen: list[tuple[int, int]] = []
    first = modes(graph, 10, 8, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 16) for i in range(1, 17)]
    second = modes(graph, 10, 8)
    np.testing.assert_array_equal(first.spread(50), second.spread(50))
    assert first.least_rounds == 2 * first.certified_rounds <= 16
    assert "count=10" in repr(first)
    with pytest.raises(ValueError, match="read-only"):
        first.vectors[0, 0] = 1


@pytest.mark.slow
@pytest.mark.skipif("INCROWD_DATA" not in os.environ, reason="INCROWD_DATA is not set")
def test_modes_bound_walks_on_real_graph() -> None:
    graph = graphs.load(Path(os.environ["INCROWD_DATA"]) / "twitch_de" / "edges.npz")
    found = modes(graph)
    assert found.gap() == pytest.approx(graph.spectral_gap(), abs=1e-9)
    assert found.gap() <= graph.spectral_gap() + 1e-11
    pi, rounds = graph.stationary(), 60
    c = found.spread(rounds)
    starts = np.concatenate([np.argsort(-c)[:16], np.arange(0, graph.n, 600)])
    block = np.zeros((graph.n, starts.size))
    block[starts, np.arange(starts.size)] = 1
    step = Step(graph)
    for _ in range(rounds):
        block = step(block)
    true = np.abs(block / pi[:, None] - 1)
    assert np.all(true <= np.outer(c, c[starts]) + 1e-9)
    assert math.isclose(np.max(c) ** 2, true.max(), rel_tol=0.1)
