"""How well walks have mixed, against dense matrix powers."""

from __future__ import annotations

import numpy as np
import pytest

from incrowd import graphs
from incrowd.errors import BudgetInfeasible, InvalidGraph, InvalidParameter
from incrowd.protocols.network_shuffle.theorems import routes
from incrowd.protocols.network_shuffle.theorems.mixing import SLACKS, measure, measure_colluding
from incrowd.protocols.network_shuffle.theorems.walk import Walk


def dense(graph, laziness=0.0, away=None):
    """The transition matrix; whoever is away, or alone, keeps what they hold."""
    adjacency = graph.adjacency().toarray()
    degree = adjacency.sum(axis=1)
    keep = degree == 0
    if away is not None:
        keep = keep | away
    matrix = (
        laziness * np.eye(graph.n) + (1 - laziness) * adjacency / np.maximum(degree, 1)[:, None]
    )
    matrix[keep] = np.eye(graph.n)[keep]
    return matrix


def compare(laws, reference, slacks=SLACKS):
    """Excess and separation of each row of ``laws``, directly from their definitions."""
    excess = np.array(
        [[np.maximum(row - (1 + k) * reference, 0).sum() for k in slacks] for row in laws]
    )
    support = reference > 0
    separation = 1 - (laws[:, support] / reference[support]).min(axis=1)
    return excess, separation


def check(mixing, members, laws, reference):
    excess, separation = compare(laws[members], reference)
    assert mixing.excess[members, 0] == pytest.approx(excess, abs=1e-12)
    assert mixing.separation[members, 0] == pytest.approx(np.clip(separation, 0, 1), abs=1e-9)
    assert mixing.collision[members] == pytest.approx((laws[members] ** 2).sum(axis=1))
    # Never on the unsafe side.
    assert (mixing.excess[members, 0] >= excess * (1 - 1e-15)).all()


@pytest.mark.parametrize("laziness", [0.0, 0.3])
@pytest.mark.parametrize("rounds", [0, 1, 2, 7, 30])
def test_measure_matches_propagated_laws_on_one_graph(laziness, rounds):
    graph = graphs.barabasi_albert(40, 3, np.random.default_rng(1))
    mixing = measure(Walk((graph,), laziness), [rounds])[rounds]
    laws = np.linalg.matrix_power(dense(graph, laziness), rounds)
    check(mixing, np.arange(40), laws, graph.stationary())


def test_measure_of_many_rounds_matches_single_measures():
    graph = graphs.barabasi_albert(70, 2, np.random.default_rng(2))
    walk = Walk((graph,), 0.1)
    together = measure(walk, range(12))
    for rounds in (0, 3, 11):
        alone = measure(walk, [rounds])[rounds]
        assert np.array_equal(together[rounds].excess, alone.excess)
        assert np.array_equal(together[rounds].separation, alone.separation)


def test_measure_matches_laws_with_changing_graphs_and_absences():
    rng = np.random.default_rng(3)
    sequence = tuple(
        graphs.erdos_renyi(30, 0.25, np.random.default_rng(seed)) for seed in (1, 2, 3)
    )
    away = rng.random((6, 30)) < 0.2
    silent = np.zeros(30, bool)
    silent[[4, 9]] = True
    walk = Walk(sequence, 0.1, away, silent)
    mixing = measure(walk, [6])[6]
    # Who is away in the first round drops the own report.
    laws = np.where(away[0][:, None], 0.0, np.eye(30))
    start = np.where(silent | away[0], 0, np.maximum(sequence[0].degrees, 1)).astype(float)
    reference = start / start.sum()
    for number in range(6):
        matrix = dense(sequence[number % 3], 0.1, away[number])
        laws, reference = laws @ matrix, reference @ matrix
    assert mixing.unseen == pytest.approx(laws[:, silent].sum(axis=1))
    laws[:, silent], reference[silent] = 0, 0
    assert mixing.absent.tolist() == away[0].tolist()
    check(mixing, np.arange(30), laws, reference)


def test_crowds_are_components_and_bipartite_sides():
    # A triangle, a path of four (two sides of two), and someone alone.
    graph = graphs.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 6], 8)
    walk = Walk((graph,))
    assert len(set(walk.crowds[:3])) == 1
    assert walk.crowds[3] == walk.crowds[5] != walk.crowds[4] == walk.crowds[6]
    assert np.count_nonzero(walk.crowds == walk.crowds[7]) == 1
    mixing = measure(walk, [40])[40]
    assert (mixing.separation[:7, 0] < 1e-3).all()
    assert (mixing.excess[7] == 1).all()
    lazy = Walk((graph,), 0.5)
    assert lazy.crowds[3] == lazy.crowds[4]


def test_complete_graph_with_loops_mixes_in_one_round():
    u, v = np.triu_indices(9)
    graph = graphs.from_edges(u, v, 9, self_loops=True)
    mixing = measure(Walk((graph,)), [1])[1]
    assert mixing.excess[:, 0, 1:].max() == 0
    assert mixing.separation.max() < 1e-14


@pytest.mark.parametrize("laziness", [0.0, 0.25])
def test_measure_colluding_matches_law_of_labels(laziness):
    graph = graphs.barabasi_albert(18, 2, np.random.default_rng(5))
    watched = np.zeros(18, bool)
    watched[[3, 11]] = True
    rounds = 5
    mixing = measure_colluding(Walk((graph,), laziness), rounds, np.flatnonzero(watched))
    matrix = dense(graph, laziness)
    start = np.where(watched, 0, graph.degrees).astype(float)
    laws = np.vstack([np.eye(18), start / start.sum()])
    labels = []
    for _ in range(rounds):
        # The label (round, last honest holder).
        labels.append(laws * np.where(watched, 0, matrix[:, watched].sum(axis=1)))
        laws = laws @ matrix
        laws[:, watched] = 0
    assert (mixing.crowds < 0).tolist() == watched.tolist()
    honest = np.flatnonzero(~watched)
    for level, cut in enumerate(mixing.cuts):
        seen = sum((label.sum(axis=1) for label in labels[:cut]), np.zeros(19))
        later = np.hstack([*labels[cut:], laws])
        excess, separation = compare(later[honest], later[18])
        assert mixing.excess[honest, level] == pytest.approx(
            np.minimum(1, seen[honest, None] + excess), abs=1e-12
        )
        assert mixing.separation[honest, level] == pytest.approx(
            np.clip(separation, 0, 1), abs=1e-9
        )


@pytest.mark.parametrize("route", ["spectral", "gap"])
@pytest.mark.parametrize("laziness", [0.0, 0.4])
def test_spectral_and_gap_routes_never_below_exact(route, laziness):
    graph = graphs.barabasi_albert(60, 2, np.random.default_rng(6))
    walk = Walk((graph,), laziness)
    for rounds in (64, 80, 130):
        exact = measure(walk, [rounds])[rounds]
        if route == "spectral":
            other = routes._from_modes(routes._certified(graph), walk, rounds)
        else:
            other = routes._from_gap(walk, rounds)
        assert other.route == route
        assert (other.excess >= exact.excess - 1e-12).all()
        assert (other.separation >= exact.separation - 1e-12).all()
        assert (other.collision >= exact.collision - 1e-12).all()


def test_mix_chooses_route_by_work(monkeypatch):
    graph = graphs.barabasi_albert(60, 2, np.random.default_rng(7))
    walk = Walk((graph,))
    assert routes.mix(walk, 100).route == "exact"
    monkeypatch.setattr(routes, "_BEARABLE", 60 * graph.indices.size * 40)
    assert routes.mix(walk, 101).route == "spectral"
    monkeypatch.setattr(routes, "_BEARABLE", 1)
    mixing = routes.mix(walk, 102)
    assert mixing.route == "gap"
    assert "Lanczos" in mixing.assumptions[0]
    # A walk that has no stationary law to come to is followed exactly, however long that takes.
    assert routes.mix(Walk((graphs.ring(8),)), 103).route == "exact"


def test_fewest_rounds_is_first_that_is_enough():
    graph = graphs.barabasi_albert(50, 3, np.random.default_rng(8))
    walk = Walk((graph,))

    def enough(mixing):
        return bool(mixing.separation.max() < 0.01)

    found = routes.fewest_rounds(walk, enough)
    assert enough(measure(walk, [found])[found])
    assert not enough(measure(walk, [found - 1])[found - 1])
    with pytest.raises(BudgetInfeasible, match="never mix"):
        routes.fewest_rounds(walk, lambda mixing: False)


def test_walk_rejects_mismatched_graphs_and_absences():
    with pytest.raises(InvalidGraph, match="same people"):
        Walk((graphs.ring(4), graphs.ring(5)))
    with pytest.raises(InvalidGraph, match="at least one"):
        Walk(())
    with pytest.raises(InvalidParameter, match="away"):
        Walk((graphs.ring(4),), 0.0, np.zeros((3, 5), bool))
