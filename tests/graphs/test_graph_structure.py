"""The graph itself: construction, policy for awkward input, structure, walks' basic quantities."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from incrowd import graphs
from incrowd.errors import GraphMalformed, InvalidCrowd, InvalidGraph, InvalidParameter

nx = pytest.importorskip("networkx")

PETERSEN = nx.petersen_graph()


def awkward() -> dict[str, graphs.Graph]:
    return {
        "one vertex": graphs.from_edges([], [], 1),
        "one vertex, self-loop": graphs.from_edges([0], [0], 1, self_loops=True),
        "two": graphs.line(2),
        "line": graphs.line(7),
        "ring, even": graphs.ring(8),
        "ring, odd": graphs.ring(9),
        "star": graphs.star(6),
        "bipartite": graphs.from_networkx(nx.complete_bipartite_graph(3, 5)),
        "disconnected": graphs.from_edges([0, 1, 2, 3, 4], [1, 2, 0, 4, 5], 6),
        "disconnected, isolated": graphs.from_edges([0, 3], [1, 4], 6),
        "self-loop": graphs.from_edges([0, 1, 1], [1, 2, 1], 3, self_loops=True),
        "multi-edge": graphs.from_edges([0, 1, 0, 1], [1, 0, 1, 2], 3),
        "hub of degree n-1": graphs.from_networkx(nx.wheel_graph(9)),
    }


@pytest.fixture(params=list(awkward()))
def graph(request: pytest.FixtureRequest) -> graphs.Graph:
    return awkward()[request.param]


def as_networkx(graph: graphs.Graph) -> "nx.Graph":
    made = nx.Graph()
    made.add_nodes_from(range(graph.n))
    made.add_edges_from(zip(*(each.tolist() for each in graph.edges()), strict=True))
    return made


class TestAwkward:
    def test_structure_agrees_with_networkx(self, graph: graphs.Graph) -> None:
        reference = as_networkx(graph)
        assert graph.m == reference.number_of_edges()
        assert graph.self_loops == nx.number_of_selfloops(reference)
        for v in range(graph.n):
            assert graph.neighbours(v).tolist() == sorted(reference[v])
        assert graph.degrees.tolist() == [len(reference[v]) for v in range(graph.n)]
        assert (graph.adjacency().toarray() == nx.to_numpy_array(reference)).all()

    def test_components_agree_with_networkx(self, graph: graphs.Graph) -> None:
        reference = as_networkx(graph)
        count, labels = graph.components()
        ours = {frozenset(np.flatnonzero(labels == c).tolist()) for c in range(count)}
        assert ours == {frozenset(part) for part in nx.connected_components(reference)}
        assert graph.is_connected == nx.is_connected(reference)
        largest = graph.largest_component()
        assert largest.n == max(map(len, nx.connected_components(reference)))
        assert largest.is_connected

    def test_bipartite_agrees_with_networkx(self, graph: graphs.Graph) -> None:
        reference = as_networkx(graph)
        assert graph.is_bipartite == nx.is_bipartite(reference)
        count, labels = graph.components()
        for c in range(count):
            part = reference.subgraph(np.flatnonzero(labels == c).tolist())
            assert graph.bipartite_components[c] == nx.is_bipartite(part)

    def test_stationary_law_is_invariant_under_walk(self, graph: graphs.Graph) -> None:
        if (graph.degrees == 0).any():
            with pytest.raises(InvalidGraph):
                graph.transition()
            return
        pi = graph.stationary()
        assert pi.sum() == pytest.approx(1)
        for laziness in (0.0, 0.3, 1.0):
            step = graph.transition(laziness).toarray()
            assert step.sum(axis=1) == pytest.approx(np.ones(graph.n))
            assert pi @ step == pytest.approx(pi)
            kept = laziness + (1 - laziness) * (
                graph.adjacency().diagonal() / np.maximum(graph.degrees, 1)
            )
            assert step.diagonal() == pytest.approx(kept)
        assert graph.gamma == pytest.approx(graph.n * (pi**2).sum())
        assert graph.gamma >= 1 - 1e-12

    def test_graph_equals_rebuild_from_edges_or_matrix(self, graph: graphs.Graph) -> None:
        u, v = graph.edges()
        again = graphs.from_edges(v, u, graph.n, self_loops=True)
        assert again == graph
        assert hash(again) == hash(graph)
        assert graphs.from_scipy(graph.adjacency(), self_loops=True) == graph
        assert graphs.from_scipy(sparse.triu(graph.adjacency()), self_loops=True) == graph


@pytest.mark.parametrize("seed", range(20))
def test_bipartite_and_components_agree_on_random_graphs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = graphs.erdos_renyi(40, 0.03, rng)
    reference = as_networkx(graph)
    assert graph.is_bipartite == nx.is_bipartite(reference)
    count, labels = graph.components()
    assert count == nx.number_connected_components(reference)
    for c in range(count):
        part = reference.subgraph(np.flatnonzero(labels == c).tolist())
        assert graph.bipartite_components[c] == nx.is_bipartite(part)


def test_self_loops_are_dropped_or_counted_once() -> None:
    ends = [0, 1, 1, 1], [1, 2, 1, 1]
    dropped = graphs.from_edges(*ends, 3)
    assert (dropped.m, dropped.self_loops, dropped.degrees.tolist()) == (2, 0, [1, 2, 1])
    kept = graphs.from_edges(*ends, 3, self_loops=True)
    assert (kept.m, kept.self_loops, kept.degrees.tolist()) == (3, 1, [1, 3, 1])
    assert kept.transition().toarray()[1] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert kept.stationary() == pytest.approx([0.2, 0.6, 0.2])
    assert dropped != kept
    loops = nx.Graph([(0, 0), (0, 1)])
    assert graphs.from_networkx(loops).self_loops == 0
    assert graphs.from_networkx(loops, self_loops=True).self_loops == 1


def test_gamma_of_star_has_closed_form() -> None:
    # The hub holds half of the edge ends: π = ½ there and 1/2(n−1) on each leaf.
    assert graphs.star(11).gamma == pytest.approx(11 * (0.25 + 10 / 400))
    assert graphs.ring(11).gamma == pytest.approx(1)


def test_graph_arrays_are_read_only() -> None:
    graph = graphs.ring(5)
    for array in (graph.indices, graph.indptr, graph.degrees, graph.neighbours(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.n = 6  # type: ignore[misc]


def test_graph_copies_input_arrays() -> None:
    indptr, indices = np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32)
    graph = graphs.Graph(2, indptr, indices)
    indices[0] = 0
    assert graph == graphs.line(2)


def test_from_networkx_keeps_node_order_and_ignores_direction() -> None:
    directed = nx.MultiDiGraph([("c", "a"), ("a", "c"), ("c", "b"), ("c", "b")])
    graph = graphs.from_networkx(directed)
    assert list(directed.nodes) == ["c", "a", "b"]
    assert graph == graphs.star(3)


def test_from_scipy_ignores_weights_and_stored_zeros() -> None:
    matrix = sparse.coo_array(([2.5, 0.0, -1.0], ([0, 0, 2], [1, 2, 1])), shape=(3, 3))
    assert graphs.from_scipy(matrix) == graphs.line(3)
    assert graphs.from_scipy(np.array([[0, 1], [0, 0]])) == graphs.line(2)


def test_from_edges_takes_n_from_largest_id() -> None:
    assert graphs.from_edges([0, 1], [1, 2]) == graphs.line(3)
    assert graphs.from_edges([0, 1], [1, 2], 4).degrees.tolist() == [1, 2, 1, 0]


@pytest.mark.parametrize(
    ("u", "v", "n", "message"),
    [
        ([0, 3], [1, 1], 3, r"u\[1\] = 3 is out of range: ids are from 0 to 2"),
        ([0, 1], [1, -1], 3, r"v\[1\] = -1 is out of range"),
        ([0, 1], [1, -1], None, r"v\[1\] = -1 is out of range: ids are ≥ 0"),
        ([0, 1], [1], 3, "u has 2 entries but v has 1"),
        ([0.0], [1.0], 3, "u must hold integers, not float64"),
        ([[0]], [[1]], 3, "one-dimensional"),
        ([], [], None, "state n"),
        (["0"], ["1"], 2, "integers"),
        ([0], [2**31], None, "more than the 2147483647 vertices"),
    ],
)
def test_from_edges_refuses_malformed_edges(u: list, v: list, n: int | None, message: str) -> None:
    with pytest.raises(GraphMalformed, match=message):
        graphs.from_edges(u, v, n)


@pytest.mark.parametrize(
    ("indptr", "indices", "message"),
    [
        ([0, 1, 2], [1], "indptr must rise"),
        ([0, 1], [1, 0], "indptr must rise"),
        ([0, 2, 1, 2], [1, 0], "indptr must rise"),
        ([1, 1, 2], [1, 0], "indptr must rise"),
        ([0, 2, 3, 4], [2, 1, 0, 0], "strictly increasing"),
        ([0, 2, 4], [1, 1, 0, 0], "strictly increasing"),
        ([0, 1, 1], [1], "not symmetric"),
        ([0, 1, 2], [1, 2], "out of range"),
    ],
)
def test_graph_refuses_malformed_structure(indptr: list, indices: list, message: str) -> None:
    n = 3 if len(indptr) == 4 else 2
    with pytest.raises(GraphMalformed, match=message):
        graphs.Graph(n, np.array(indptr), np.array(indices))


def test_constructors_refuse_malformed_input() -> None:
    with pytest.raises(InvalidCrowd):
        graphs.from_edges([], [], 0)
    with pytest.raises(GraphMalformed, match="square"):
        graphs.from_scipy(sparse.coo_array(np.ones((2, 3))))
    with pytest.raises(InvalidGraph, match="vertex 5 is not one of 0 to 4"):
        graphs.ring(5).neighbours(5)
    with pytest.raises(InvalidGraph, match="not one of"):
        graphs.ring(5).neighbours(-1)
    with pytest.raises(GraphMalformed, match="out of range"):
        graphs.ring(5).subgraph([0, 5])
    with pytest.raises(InvalidGraph, match="no stationary law"):
        graphs.from_edges([], [], 3).stationary()
    with pytest.raises(InvalidParameter, match="laziness"):
        graphs.ring(5).transition(1.5)


def test_isolated_vertices_are_named_in_error() -> None:
    graphs.require_no_isolated(graphs.ring(4))
    with pytest.raises(InvalidGraph, match=r"1 isolated vertex \(2\).*--largest-component"):
        graphs.require_no_isolated(graphs.from_edges([0], [1], 3))
    with pytest.raises(InvalidGraph, match=r"8 isolated vertices \(2, 3, 4, 5, 6, …\)"):
        graphs.require_no_isolated(graphs.from_edges([0], [1], 10))
    for refuses in (graphs.stats, lambda g: g.spectrum, lambda g: g.spectral_gap()):
        with pytest.raises(InvalidGraph, match="isolated"):
            refuses(graphs.from_edges([0], [1], 3))


def test_largest_component_takes_first_on_tie_and_keeps_order() -> None:
    graph = graphs.from_edges([5, 4, 0, 1, 7], [4, 3, 1, 2, 6], 8)
    largest = graph.largest_component()
    assert largest == graphs.line(3)
    assert graphs.ring(6).largest_component() == graphs.ring(6)
    wheel = graphs.from_networkx(nx.wheel_graph(6))
    assert wheel.subgraph([5, 0, 1]) == graphs.complete(3)


def test_petersen_graph_has_known_structure() -> None:
    graph = graphs.from_networkx(PETERSEN)
    assert (graph.n, graph.m, graph.gamma) == (10, 15, pytest.approx(1))
    assert repr(graph) == "Graph(n=10, m=15)"
    # The adjacency eigenvalues are 3, 1 and −2.
    assert graph.spectral_gap() == pytest.approx(1 / 3)
