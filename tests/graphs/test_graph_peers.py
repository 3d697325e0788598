"""Random peers: the law of the draw, what is kept, and what it does to mixing."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats as scipy_stats

from incrowd import graphs
from incrowd.errors import InvalidParameter


def nobody(n: int) -> graphs.Graph:
    return graphs.from_edges([], [], n)


def joined(graph: graphs.Graph) -> frozenset[tuple[int, int]]:
    u, v = graph.edges()
    return frozenset(zip(u.tolist(), v.tolist(), strict=True))


def every_draw(n: int, k: int) -> Counter[frozenset[tuple[int, int]]]:
    """How many of the equally likely draws of all people end in each graph."""
    sets = [list(combinations([w for w in range(n) if w != v], k)) for v in range(n)]
    return Counter(
        frozenset((min(v, w), max(v, w)) for v, drawn in enumerate(draw) for w in drawn)
        for draw in product(*sets)
    )


@pytest.mark.parametrize(("n", "k"), [(3, 1), (4, 1), (4, 2), (5, 1)])
def test_random_peers_graph_has_enumerated_law(n: int, k: int) -> None:
    law = every_draw(n, k)
    rng = np.random.default_rng([n, k])
    draws = 2_000
    seen = Counter(joined(graphs.with_random_peers(nobody(n), k, rng)) for _ in range(draws))
    assert set(seen) <= set(law)
    observed = [seen[each] for each in law]
    expected = np.array(list(law.values())) * draws / sum(law.values())
    assert scipy_stats.chisquare(observed, expected).pvalue > 1e-4


def test_random_peers_law_holds_where_draws_repeat() -> None:
    # Too many graphs to count each: by their degrees, and by each edge.
    n, k, draws = 5, 2, 3_000

    def kind(edges: frozenset[tuple[int, int]]) -> tuple[int, ...]:
        return tuple(sorted(np.bincount(np.array(list(edges)).ravel(), minlength=n).tolist()))

    law: Counter[tuple[int, ...]] = Counter()
    for edges, ways in every_draw(n, k).items():
        law[kind(edges)] += ways
    rng = np.random.default_rng(11)
    drawn = [joined(graphs.with_random_peers(nobody(n), k, rng)) for _ in range(draws)]
    seen = Counter(map(kind, drawn))
    assert set(seen) <= set(law)
    expected = np.array(list(law.values())) * draws / sum(law.values())
    assert scipy_stats.chisquare([seen[each] for each in law], expected).pvalue > 1e-4
    for pair in combinations(range(n), 2):
        count = sum(pair in edges for edges in drawn)
        assert scipy_stats.binomtest(count, draws, 0.75).pvalue > 1e-4


def test_random_peers_edge_count_is_near_mean() -> None:
    # Two people are joined unless neither drew the other.
    n, k = 400, 5
    edges = graphs.with_random_peers(nobody(n), k, np.random.default_rng(1)).m
    pairs, chance = n * (n - 1) / 2, 1 - (1 - k / (n - 1)) ** 2
    # The draws of one person repel each other, which makes the binomial deviation an upper bound.
    assert abs(edges - pairs * chance) < 5 * np.sqrt(pairs * chance * (1 - chance))


@pytest.mark.parametrize("k", [1, 2, 10, 15, 28])
def test_random_peers_give_degree_at_least_k(k: int) -> None:
    graph = graphs.with_random_peers(nobody(30), k, 2)
    assert graph.degrees.min() >= k
    assert graph.self_loops == 0


def test_random_peers_with_all_others_give_complete_graph() -> None:
    assert graphs.with_random_peers(graphs.ring(9), 8, 3) == graphs.complete(9)
    assert graphs.with_random_peers(nobody(2), 1, 3) == graphs.line(2)


def test_random_peers_keep_edges_and_loops() -> None:
    graph = graphs.from_edges([0, 1, 1, 5], [1, 2, 1, 5], 40, self_loops=True)
    more = graphs.with_random_peers(graph, 2, 4)
    assert joined(graph) < joined(more)
    assert more.self_loops == 2
    assert more.degrees.min() >= 2


def test_random_peers_repeat_with_seed_or_generator() -> None:
    ring = graphs.ring(50)
    assert graphs.with_random_peers(ring, 3, 5) == graphs.with_random_peers(ring, 3, 5)
    assert graphs.with_random_peers(ring, 3, 5) != graphs.with_random_peers(ring, 3, 6)
    assert graphs.with_random_peers(ring, 3) != graphs.with_random_peers(ring, 3)
    first, second = (graphs.with_random_peers(ring, 3, np.random.default_rng(7)) for _ in range(2))
    assert first == second


def test_random_peers_raise_degrees_by_twice_k() -> None:
    graph = graphs.with_random_peers(graphs.ring(20_000), 4, 8)
    assert graph.degrees.mean() == pytest.approx(2 + 8, rel=1e-3)


def test_random_peers_make_slow_graph_mix_fast() -> None:
    ring = graphs.ring(2_001)
    peers = graphs.with_random_peers(ring, 3, 9)
    assert peers.spectral_gap() > 0.25
    assert ring.spectral_gap() < 1e-5
    assert (graphs.mixing_rounds(peers) or 0) < 20
    # Islands of ten people each, and hermits.
    u, v = np.triu_indices(10, 1)
    island = 10 * np.arange(150)[:, None]
    apart = graphs.from_edges((island + u).ravel(), (island + v).ravel(), 1_600)
    assert apart.components()[0] == 250
    assert graphs.with_random_peers(apart, 3, 10).spectral_gap() > 0.1


def test_random_peers_refuse_invalid_input() -> None:
    for k in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter, match="k must be a whole number ≥ 1"):
            graphs.with_random_peers(graphs.ring(5), k, 1)
    with pytest.raises(InvalidParameter, match="k = 5 random peers need more than 5 people"):
        graphs.with_random_peers(graphs.ring(5), 5, 1)
    with pytest.raises(InvalidParameter, match="k = 1 random peers"):
        graphs.with_random_peers(nobody(1), 1, 1)
    with pytest.raises(InvalidParameter, match="graph must be a Graph"):
        graphs.with_random_peers("ring", 1, 1)
    for seed in (-1, "seed"):
        with pytest.raises(InvalidParameter, match="seed"):
            graphs.with_random_peers(graphs.ring(5), 1, seed)
