"""Many walkers: their law is Pᵗ, whoever is away and however the graph changes."""

from collections.abc import Iterator
from itertools import cycle, islice

import numba
import numpy as np
import pytest
from scipy import stats as scipy_stats

from incrowd import graphs
from incrowd.errors import InvalidGraph, InvalidParameter
from incrowd.graphs._walk_kernels import advance
from incrowd.graphs.propagate import Step

WALKERS = 40_000


def cases() -> dict[str, graphs.Graph]:
    rng = np.random.default_rng(0)
    return {
        "two": graphs.line(2),
        "line": graphs.line(6),
        "ring": graphs.ring(7),
        "star": graphs.star(6),
        "self-loop": graphs.from_edges([0, 0, 1], [0, 1, 2], 3, self_loops=True),
        "disconnected": graphs.from_edges([0, 1, 2, 3], [1, 2, 0, 4], 5),
        "hubs": graphs.barabasi_albert(15, 2, rng),
        "complete": graphs.complete(9),
    }


def p_value(positions: np.ndarray, law: np.ndarray) -> float:
    """Chi-square against ``law``; impossible places must be empty."""
    observed = np.bincount(positions, minlength=law.size)
    assert observed[law < 1e-12].sum() == 0
    possible = law >= 1e-12
    if possible.sum() == 1:
        return 1.0
    return float(scipy_stats.chisquare(observed[possible], law[possible] * observed.sum()).pvalue)


@pytest.mark.parametrize("laziness", [0.0, 0.3])
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("name", cases())
def test_walk_has_law_of_transition_power(name: str, rounds: int, laziness: float) -> None:
    graph = cases()[name]
    law = np.linalg.matrix_power(graph.transition(laziness).toarray(), rounds)
    rng = np.random.default_rng([rounds, int(10 * laziness), len(name)])
    for start in (0, graph.n - 1):
        ends = graphs.walk(graph, np.full(WALKERS, start), rounds, rng, laziness)
        assert p_value(ends, law[start]) > 1e-4
        if rounds == 2 and name == "hubs":
            # The same draws do not pass for another number of rounds.
            assert p_value(ends, graph.transition(laziness).toarray()[start] @ law) < 1e-4


def exact_law(
    each_round: list[graphs.Graph],
    start: int,
    laziness: float = 0.0,
    away: np.ndarray | None = None,
) -> np.ndarray:
    law = np.zeros((each_round[0].n, 1))
    law[start] = 1
    for t, graph in enumerate(each_round):
        law = Step(graph, laziness)(law, None if away is None else away[t])
    return law[:, 0]


@pytest.mark.parametrize("laziness", [0.0, 0.3])
@pytest.mark.parametrize("name", cases())
def test_walker_at_away_vertex_stays(name: str, laziness: float) -> None:
    graph = cases()[name]
    rng = np.random.default_rng([7, int(10 * laziness), len(name)])
    away = rng.random((4, graph.n)) < 0.4
    away[0, 0] = False
    present = np.zeros_like(away)
    for start in (0, graph.n - 1):
        ends = graphs.walk(graph, np.full(WALKERS, start), 4, rng, laziness, away=away)
        assert p_value(ends, exact_law([graph] * 4, start, laziness, away)) > 1e-4
    first, second = (
        graphs.walk(graph, np.zeros(99, int), 4, np.random.default_rng(8), away=who)
        for who in (present, None)
    )
    assert (first == second).all()


def test_walk_with_all_away_stays() -> None:
    graph = graphs.complete(30)
    ends = graphs.walk(
        graph, np.arange(30), 5, np.random.default_rng(9), away=np.ones((5, 30), dtype=bool)
    )
    assert (ends == np.arange(30)).all()


@pytest.mark.parametrize("laziness", [0.0, 0.3])
@pytest.mark.parametrize("absent", [False, True])
def test_walk_uses_graph_of_its_round(laziness: float, absent: bool) -> None:
    # Some vertices are isolated in some rounds, and in one round all of them are.
    changing = [
        graphs.star(6),
        graphs.from_edges([0, 0, 1, 4], [0, 1, 2, 5], 6, self_loops=True),
        graphs.from_edges([], [], 6),
        graphs.ring(6),
        graphs.line(6),
    ]
    rng = np.random.default_rng([10, int(10 * laziness), absent])
    away = rng.random((4, 6)) < 0.3 if absent else None
    for start in range(6):
        ends = graphs.walk(changing, np.full(WALKERS, start), 4, rng, laziness, away=away)
        assert p_value(ends, exact_law(changing[:4], start, laziness, away)) > 1e-4
    # Another order of the same graphs has another law.
    ends = graphs.walk(changing, np.zeros(WALKERS, int), 4, rng, laziness, away=away)
    assert p_value(ends, exact_law(changing[3::-1], 0, laziness, away) + 1e-9) < 1e-4


def test_walk_on_repeated_graph_equals_walk_on_it() -> None:
    graph, rng = graphs.complete(40), np.random.default_rng
    starts = np.arange(40).repeat(60)
    away = rng(11).random((6, 40)) < 0.2
    for who in (None, away):
        assert (
            graphs.walk([graph] * 6, starts, 6, rng(12), 0.1, away=who)
            == graphs.walk(graph, starts, 6, rng(12), 0.1, away=who)
        ).all()


def test_walk_from_hub_reaches_leaves_uniformly() -> None:
    # From a hub the leaf is uniform, also among many.
    ends = graphs.walk(graphs.star(5_000), np.zeros(200_000, int), 1, np.random.default_rng(13))
    law = np.r_[0.0, np.full(4_999, 1 / 4_999)]
    assert p_value(ends, law) > 1e-4


def test_walk_keeps_stationary_law() -> None:
    graph = graphs.barabasi_albert(12, 2, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    pi = graph.stationary()
    ends = graphs.walk(graph, rng.choice(graph.n, WALKERS, p=pi), 20, rng)
    assert p_value(ends, pi) > 1e-4


@pytest.mark.parametrize("apart", [1, 2, 1024, 20_000])
def test_walk_moves_walkers_independently(apart: int) -> None:
    # Two walkers on a triangle from the same start meet after one round half of the time.
    rng = np.random.default_rng(3)
    ends = graphs.walk(graphs.ring(3), np.zeros(WALKERS, dtype=int), 1, rng)
    met = int((ends[apart:] == ends[:-apart]).sum())
    assert scipy_stats.binomtest(met, WALKERS - apart, 0.5).pvalue > 1e-4


def test_walk_draws_rounds_independently() -> None:
    # Two rounds on a complete graph with self-loops, followed step by step: all pairs alike.
    loops = graphs.from_edges(*np.triu_indices(5), 5, self_loops=True)
    rng = np.random.default_rng(14)
    home = np.zeros(WALKERS, int)
    first = graphs.walk(loops, home, 1, np.random.default_rng(15))
    second = graphs.walk(loops, home, 2, np.random.default_rng(15))
    assert p_value(5 * first + second, np.full(25, 1 / 25)) > 1e-4
    again = graphs.walk(loops, first, 1, rng)
    assert p_value(5 * first + again, np.full(25, 1 / 25)) > 1e-4


def test_walk_of_trivial_cases_is_exact() -> None:
    graph = graphs.ring(5)
    rng = np.random.default_rng(4)
    starts = np.arange(5)
    assert graphs.walk(graph, starts, 0, rng).tolist() == [0, 1, 2, 3, 4]
    assert graphs.walk(graph, starts, 9, rng, laziness=1.0).tolist() == [0, 1, 2, 3, 4]
    assert graphs.walk(graph, [], 9, rng).size == 0
    assert graphs.walk(graphs.line(2), [0, 1, 0], 3, rng).tolist() == [1, 0, 1]
    assert starts.tolist() == [0, 1, 2, 3, 4]
    loop = graphs.from_edges([0], [0], 1, self_loops=True)
    assert graphs.walk(loop, [0, 0], 4, rng).tolist() == [0, 0]


def test_walk_repeats_with_equal_seed() -> None:
    graph = graphs.complete(50)
    first, second = (
        graphs.walk(graph, np.arange(50), 7, np.random.default_rng(5), 0.2) for _ in range(2)
    )
    assert (first == second).all()


def test_walk_advances_generator_in_each_call() -> None:
    graph, rng = graphs.complete(50), np.random.default_rng(5)
    first, second = (graphs.walk(graph, np.arange(50), 7, rng) for _ in range(2))
    assert (first != second).any()


@pytest.fixture
def threads() -> Iterator[int]:
    before = numba.get_num_threads()
    yield before
    numba.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="there is one thread only")
def test_walk_is_independent_of_thread_count() -> None:
    graph = graphs.random_regular(500, 4, np.random.default_rng(16))
    starts = np.random.default_rng(17).integers(500, size=10_001)
    away = np.random.default_rng(18).random((5, 500)) < 0.1
    graph_of_round = list(islice(cycle([graph, graphs.ring(500)]), 5))
    ends = []
    for count in (1, 2, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(count)
        rng = np.random.default_rng(19)
        ends.append(
            [
                graphs.walk(graph, starts, 5, rng),
                graphs.walk(graph, starts, 5, rng, 0.3, away=away),
                graphs.walk(graph_of_round, starts, 5, rng, 0.3, away=away),
            ]
        )
    for other in ends[1:]:
        assert np.array_equal(ends[0], other)


def test_walk_first_round_is_independent_of_later_walkers() -> None:
    # Walker i draws by its number alone, so those who come after it change nothing.
    graph = graphs.complete(60)
    starts = np.arange(5_000) % 60
    many = graphs.walk(graph, starts, 1, np.random.default_rng(20))
    few = graphs.walk(graph, starts[:1_500], 1, np.random.default_rng(20))
    assert (many[:1_500] == few).all()


def test_advance_takes_wide_row_pointers() -> None:
    # A graph of more than 2³² entries keeps its 64-bit rows: same loop, same walk.
    graph = graphs.barabasi_albert(300, 3, np.random.default_rng(21))
    keys = np.array([22, 23], dtype=np.uint64)
    ends = []
    for rows in (graph.indptr, graph.indptr.astype(np.uint32)):
        at = np.arange(300, dtype=np.int32)
        advance(rows, graph.indices, at, 0, 9, keys[0], keys[1], np.uint64(2**62), None)
        ends.append(at)
    assert (ends[0] == ends[1]).all()


def test_walk_refuses_invalid_input() -> None:
    rng = np.random.default_rng(6)
    graph = graphs.from_edges([0], [1], 3)
    assert set(graphs.walk(graph, [0, 1], 1, rng).tolist()) == {0, 1}
    with pytest.raises(InvalidGraph, match="vertex 2 is isolated"):
        graphs.walk(graph, [0, 2], 1, rng)
    for starts in ([3], [-1], [0.5], [[0]], ["0"]):
        with pytest.raises(InvalidParameter, match="starts"):
            graphs.walk(graph, starts, 1, rng)
    with pytest.raises(InvalidParameter, match="rounds"):
        graphs.walk(graph, [0], -1, rng)
    with pytest.raises(InvalidParameter, match="laziness"):
        graphs.walk(graph, [0], 1, rng, laziness=1.1)
    with pytest.raises(InvalidParameter, match="rng must be a Generator"):
        graphs.walk(graph, [0], 1, 7)
    for away in (np.zeros((2, 3), bool), np.zeros(3, bool), np.zeros((1, 3))):
        with pytest.raises(InvalidParameter, match=r"away must hold .* in shape \(1, 3\)"):
            graphs.walk(graph, [0], 1, rng, away=away)


def test_walk_refuses_inconsistent_graph_sequences() -> None:
    rng = np.random.default_rng(24)
    ring = graphs.ring(5)
    with pytest.raises(InvalidParameter, match="3 rounds need 3 graphs, got 2"):
        graphs.walk([ring, ring], [0], 3, rng)
    with pytest.raises(InvalidGraph, match="graph of round 1 has 4 vertices, the first one has 5"):
        graphs.walk([ring, graphs.ring(4)], [0], 1, rng)
    with pytest.raises(InvalidParameter, match=r"graph\[1\] must be a Graph"):
        graphs.walk([ring, "ring"], [0], 2, rng)
    for nothing in ([], None, 5):
        with pytest.raises(InvalidParameter, match="graph must be a Graph, or a sequence"):
            graphs.walk(nothing, [0], 0, rng)
    joined, apart = graphs.from_edges([0], [1], 3), graphs.from_edges([1], [2], 3)
    assert graphs.walk([joined, apart], [2], 2, rng).tolist() == [1]
    with pytest.raises(InvalidGraph, match="vertex 2 is isolated"):
        graphs.walk([joined, apart], [2], 1, rng)
    assert graphs.walk([joined, apart], [0, 1], 0, rng).tolist() == [0, 1]
