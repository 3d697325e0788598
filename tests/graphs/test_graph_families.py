"""Families: degrees, sizes, connectivity, laws, and refusals."""

import inspect
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats as scipy_stats

from incrowd import graphs
from incrowd.errors import InvalidCrowd, InvalidGraph, InvalidParameter
from incrowd.graphs import families

nx = pytest.importorskip("networkx")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (graphs.complete(2), nx.complete_graph(2)),
        (graphs.complete(9), nx.complete_graph(9)),
        (graphs.ring(3), nx.cycle_graph(3)),
        (graphs.ring(10), nx.cycle_graph(10)),
        (graphs.line(2), nx.path_graph(2)),
        (graphs.line(11), nx.path_graph(11)),
        (graphs.star(2), nx.star_graph(1)),
        (graphs.star(12), nx.star_graph(11)),
        (graphs.grid(1, 5), nx.grid_2d_graph(1, 5)),
        (graphs.grid(4, 6), nx.grid_2d_graph(4, 6)),
        (graphs.grid(3, 3, periodic=True), nx.grid_2d_graph(3, 3, periodic=True)),
        (graphs.grid(4, 5, periodic=True), nx.grid_2d_graph(4, 5, periodic=True)),
    ],
)
def test_fixed_families_equal_networkx(ours: graphs.Graph, theirs: "nx.Graph") -> None:
    assert ours == graphs.from_networkx(theirs)
    assert ours.is_connected


@pytest.mark.parametrize(
    ("n", "degree"),
    [
        (2, 1),
        (3, 2),
        (4, 3),
        (50, 2),
        (50, 3),
        (51, 4),
        (10, 4),
        (9, 4),
        (40, 19),
        (40, 20),
        (41, 20),
        (30, 25),
        (30, 28),
        (30, 29),
        (8, 5),
        (7, 4),
        (500, 60),
    ],
)
def test_random_regular_has_constant_degree_and_is_connected(n: int, degree: int) -> None:
    for seed in range(3):
        graph = graphs.random_regular(n, degree, rng(seed))
        assert (graph.degrees == degree).all()
        assert graph.m == n * degree // 2
        assert graph.self_loops == 0
        assert graph.is_connected
        assert graph == graphs.random_regular(n, degree, rng(seed))
    if 2 < degree < n - 2:
        assert graph != graphs.random_regular(n, degree, rng(99))


def test_random_regular_is_uniform_on_cubic_graphs_of_six() -> None:
    # 70 labelled cubic graphs on 6 vertices, all connected: 10 are K(3,3), which is bipartite.
    generator = rng(3)
    drawn = Counter(families.random_regular(6, 3, generator).indices.tobytes() for _ in range(2800))
    assert len(drawn) == 70
    assert scipy_stats.chisquare(list(drawn.values())).pvalue > 1e-3


def test_repair_by_switching_is_nearly_uniform() -> None:
    # Degree 4 on 7 vertices: the complements are the 465 labelled 2-regular graphs, of which 360
    # are rings and 105 a triangle with a square. Repair is not exact here, but must not be far off.
    generator = rng(5)
    draws = 2000
    rings = 0
    for _ in range(draws):
        u, v = families._simple_pairing(7, 4, generator)
        graph = graphs.from_edges(u, v, 7)
        assert (graph.degrees == 4).all()
        rings += families._complement(7, u, v).is_connected
    assert rings / draws == pytest.approx(360 / 465, abs=0.06)


def test_random_regular_has_expander_gap() -> None:
    # Random regular graphs have a second eigenvalue near 2√(d−1)/d; rings and lattices do not.
    graph = graphs.random_regular(2000, 8, rng(6))
    assert 1 - graph.spectral_gap() < 1.1 * 2 * math.sqrt(7) / 8


def test_random_regular_refuses_impossible_degrees() -> None:
    with pytest.raises(InvalidParameter, match="n × degree even"):
        graphs.random_regular(7, 3, rng())
    with pytest.raises(InvalidParameter, match="degree < n"):
        graphs.random_regular(4, 4, rng())
    with pytest.raises(InvalidParameter, match="never connected"):
        graphs.random_regular(6, 1, rng())
    with pytest.raises(InvalidParameter, match="degree"):
        graphs.random_regular(6, 0, rng())


def test_random_regular_raises_after_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_ATTEMPTS", 0)
    with pytest.raises(InvalidGraph, match="no connected graph of degree 3 on n = 10"):
        graphs.random_regular(10, 3, rng())
    with pytest.raises(InvalidGraph, match="no simple graph"):
        graphs.random_regular(6, 4, rng())


def test_erdos_renyi_joins_pairs_independently() -> None:
    generator = rng(7)
    n, p, draws = 5, 0.3, 4000
    counts = np.zeros((n, n))
    edges = Counter()
    for _ in range(draws):
        graph = graphs.erdos_renyi(n, p, generator)
        counts += graph.adjacency().toarray()
        edges[graph.m] += 1
    seen = counts[np.triu_indices(n, 1)]
    z = (seen - draws * p) / math.sqrt(draws * p * (1 - p))
    assert scipy_stats.chi2.sf((z**2).sum(), z.size) > 1e-3
    expected = scipy_stats.binom.pmf(np.arange(8), 10, p) * draws
    observed = np.array([edges[k] for k in range(8)], dtype=float)
    assert scipy_stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), 7) > 1e-3


@pytest.mark.parametrize(("n", "p"), [(3000, 0.002), (400, 0.5), (100_000, 1e-5), (300, 0.99)])
def test_erdos_renyi_edge_count_is_near_mean(n: int, p: float) -> None:
    graph = graphs.erdos_renyi(n, p, rng(8))
    pairs = n * (n - 1) / 2
    assert abs(graph.m - pairs * p) < 5 * math.sqrt(pairs * p * (1 - p))
    u, v = graph.edges()
    assert u.min() < n / 10
    assert v.max() >= n - n // 10


def test_erdos_renyi_at_extremes_is_complete_or_empty() -> None:
    assert graphs.erdos_renyi(12, 1.0, rng()) == graphs.complete(12)
    assert graphs.erdos_renyi(12, 0.0, rng()).m == 0
    assert graphs.erdos_renyi(1, 0.5, rng()).n == 1
    assert graphs.erdos_renyi(1000, 1e-18, rng()).m == 0
    assert graphs.erdos_renyi(50, 0.2, rng(1)) == graphs.erdos_renyi(50, 0.2, rng(1))
    with pytest.raises(InvalidParameter, match="p must lie"):
        graphs.erdos_renyi(5, 1.1, rng())


def test_pair_numbering_is_exact() -> None:
    u, v = families._pairs(np.arange(6))
    assert list(zip(u.tolist(), v.tolist(), strict=True)) == [
        *((0, 1), (0, 2), (1, 2)),
        *((0, 3), (1, 3), (2, 3)),
    ]
    # Doubles cannot hold these numbers, of the first and last pair of each row.
    rows = rng(13).integers(10**8, 2**31, size=20_000)
    u, v = families._pairs(np.concatenate([rows * (rows - 1) // 2, rows * (rows + 1) // 2 - 1]))
    assert (v == np.concatenate([rows, rows])).all()
    assert (u == np.concatenate([0 * rows, rows - 1])).all()


def test_erdos_renyi_draws_further_batches_when_short() -> None:
    class Short:
        """Draws one joined pair at a time far from the end, to force many batches."""

        def __init__(self) -> None:
            self.calls = 0

        def geometric(self, p: float, size: int) -> np.ndarray:
            self.calls += 1
            return np.ones(size, dtype=np.int64)

    short = Short()
    assert graphs.erdos_renyi(100, 0.01, short) == graphs.complete(100)  # type: ignore[arg-type]
    assert short.calls > 1


@pytest.mark.parametrize(("n", "edges"), [(2, 1), (5, 4), (50, 1), (200, 3), (400, 10)])
def test_barabasi_albert_is_connected_with_exact_edge_count(n: int, edges: int) -> None:
    graph = graphs.barabasi_albert(n, edges, rng(9))
    assert graph.m == edges * (n - edges)
    assert graph.is_connected
    # A newcomer brings exactly ``edges`` edges to earlier vertices.
    _, v = graph.edges()
    assert (np.bincount(v, minlength=n)[edges + 1 :] == edges).all()
    assert graph == graphs.barabasi_albert(n, edges, rng(9))


def test_barabasi_albert_attaches_in_proportion_to_degree() -> None:
    # One edge each: vertex 3 joins the path 1-0-2 or 0-1-2, whose middle has half of the degree.
    generator = rng(10)
    draws, middle = 2000, 0
    for _ in range(draws):
        graph = graphs.barabasi_albert(4, 1, generator)
        before = graph.subgraph([0, 1, 2]).degrees
        middle += before[graph.neighbours(3)[0]] == 2
    assert scipy_stats.binomtest(middle, draws, 0.5).pvalue > 1e-3
    # The tail is heavy: the hubs of a random graph of this size have no such degrees.
    big = graphs.barabasi_albert(5000, 2, rng(11))
    assert big.degrees.max() > 25 * big.degrees.mean()
    with pytest.raises(InvalidParameter, match="n > 5"):
        graphs.barabasi_albert(5, 5, rng())


def test_geometric_joins_exactly_pairs_within_radius() -> None:
    n, radius = 300, 0.11
    graph = graphs.geometric(n, radius, rng(12))
    points = rng(12).random((n, 2))
    near = np.linalg.norm(points[:, None] - points[None], axis=2) <= radius
    np.fill_diagonal(near, False)
    assert (graph.adjacency().toarray() == near).all()
    assert graphs.geometric(20, 2.0, rng()) == graphs.complete(20)
    assert graphs.geometric(5, 1e-12, rng()).m == 0
    with pytest.raises(InvalidParameter, match="radius"):
        graphs.geometric(5, 0.0, rng())
    with pytest.raises(InvalidParameter, match="radius"):
        graphs.geometric(5, math.nan, rng())


@pytest.mark.parametrize(
    ("family", "arguments"),
    [
        ("complete", (1,)),
        ("ring", (2,)),
        ("line", (1,)),
        ("star", (1,)),
        ("grid", (1, 1)),
        ("ring", (2.5,)),
        ("ring", (math.nan,)),
    ],
)
def test_families_refuse_too_few_vertices(family: str, arguments: tuple) -> None:
    with pytest.raises(InvalidCrowd):
        graphs.FAMILIES[family](*arguments)


def test_periodic_grid_refuses_sides_below_three() -> None:
    with pytest.raises(InvalidParameter, match=r"rows of a periodic grid must be .* ≥ 3"):
        graphs.grid(2, 5, periodic=True)
    torus = graphs.grid(3, 7, periodic=True)
    assert (torus.degrees == 4).all()


def test_families_registry_is_complete() -> None:
    written = {
        name
        for name, each in vars(families).items()
        if inspect.isfunction(each) and each.__module__ == families.__name__
    }
    assert set(graphs.FAMILIES) == {name for name in written if not name.startswith("_")}
    assert set(graphs.FAMILIES) <= set(graphs.__all__)
