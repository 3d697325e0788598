"""Many walkers: their law is Pᵗ."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from incrowd import graphs
from incrowd.errors import GraphInvalid, InvalidParameter

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
def test_law_is_the_power_of_the_transition(name: str, rounds: int, laziness: float) -> None:
    graph = cases()[name]
    law = np.linalg.matrix_power(graph.transition(laziness).toarray(), rounds)
    rng = np.random.default_rng([rounds, int(10 * laziness), len(name)])
    for start in (0, graph.n - 1):
        ends = graphs.walk(graph, np.full(WALKERS, start), rounds, rng, laziness)
        assert p_value(ends, law[start]) > 1e-4
        if rounds == 2 and name == "hubs":
            # The same draws do not pass for another number of rounds.
            assert p_value(ends, graph.transition(laziness).toarray()[start] @ law) < 1e-4


def test_stationary_walkers_stay_stationary() -> None:
    graph = graphs.barabasi_albert(12, 2, np.random.default_rng(1))
    rng = np.random.default_rng(2)
    pi = graph.stationary()
    ends = graphs.walk(graph, rng.choice(graph.n, WALKERS, p=pi), 20, rng)
    assert p_value(ends, pi) > 1e-4


def test_walkers_are_independent() -> None:
    # Two walkers on a triangle from the same start meet after one round half of the time.
    rng = np.random.default_rng(3)
    ends = graphs.walk(graphs.ring(3), np.zeros(WALKERS, dtype=int), 1, rng).reshape(-1, 2)
    met = int((ends[:, 0] == ends[:, 1]).sum())
    assert scipy_stats.binomtest(met, len(ends), 0.5).pvalue > 1e-4


def test_trivial_walks() -> None:
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


def test_repeatable() -> None:
    graph = graphs.complete(50)
    first, second = (
        graphs.walk(graph, np.arange(50), 7, np.random.default_rng(5), 0.2) for _ in range(2)
    )
    assert (first == second).all()


def test_refusals() -> None:
    rng = np.random.default_rng(6)
    graph = graphs.from_edges([0], [1], 3)
    assert set(graphs.walk(graph, [0, 1], 1, rng).tolist()) == {0, 1}
    with pytest.raises(GraphInvalid, match="vertex 2 is isolated"):
        graphs.walk(graph, [0, 2], 1, rng)
    for starts in ([3], [-1], [0.5], [[0]], ["0"]):
        with pytest.raises(InvalidParameter, match="starts"):
            graphs.walk(graph, starts, 1, rng)
    with pytest.raises(InvalidParameter, match="rounds"):
        graphs.walk(graph, [0], -1, rng)
    with pytest.raises(InvalidParameter, match="laziness"):
        graphs.walk(graph, [0], 1, rng, laziness=1.1)
