"""Spectral gaps against closed forms, dense eigenvalues, and what mixing really does."""

import math

import numpy as np
import pytest
from scipy.sparse import linalg

from incrowd import graphs
from incrowd.errors import InvalidGraph, InvalidParameter, NumericalFloor
from incrowd.graphs import spectrum as module


def dense_eigenvalues(graph: graphs.Graph, laziness: float = 0.0) -> np.ndarray:
    """From P itself, not from its symmetric form."""
    return np.sort(np.linalg.eigvals(graph.transition(laziness).toarray()).real)


CLOSED_FORMS = {
    "complete 2": (graphs.complete(2), -1, -1),
    "complete 3": (graphs.complete(3), -1 / 2, -1 / 2),
    "complete 40": (graphs.complete(40), -1 / 39, -1 / 39),
    "complete 600": (graphs.complete(600), -1 / 599, -1 / 599),
    "ring 9": (graphs.ring(9), math.cos(2 * math.pi / 9), math.cos(8 * math.pi / 9)),
    "ring 10": (graphs.ring(10), math.cos(2 * math.pi / 10), -1),
    "ring 601": (graphs.ring(601), math.cos(2 * math.pi / 601), math.cos(600 * math.pi / 601)),
    "line 2": (graphs.line(2), -1, -1),
    "line 12": (graphs.line(12), math.cos(math.pi / 11), -1),
    "star 3": (graphs.star(3), 0, -1),
    "star 50": (graphs.star(50), 0, -1),
    "star 700": (graphs.star(700), 0, -1),
    "torus 5x7": (
        graphs.grid(5, 7, periodic=True),
        (1 + math.cos(2 * math.pi / 7)) / 2,
        (math.cos(4 * math.pi / 5) + math.cos(6 * math.pi / 7)) / 2,
    ),
    "torus 21x33": (
        graphs.grid(21, 33, periodic=True),
        (1 + math.cos(2 * math.pi / 33)) / 2,
        (math.cos(20 * math.pi / 21) + math.cos(32 * math.pi / 33)) / 2,
    ),
}


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_spectrum_equals_closed_forms(name: str) -> None:
    graph, lambda_2, lambda_min = CLOSED_FORMS[name]
    found = graph.spectrum
    assert found.lambda_2 == pytest.approx(lambda_2, abs=1e-11)
    assert found.lambda_min == pytest.approx(lambda_min, abs=1e-11)
    assert found.residual < 1e-11
    gap = 1 - max(abs(lambda_2), abs(lambda_min))
    assert graph.spectral_gap() == pytest.approx(gap, abs=1e-11)
    lazy = 1 - max(abs(0.5 + 0.5 * lambda_2), abs(0.5 + 0.5 * lambda_min))
    assert graph.spectral_gap(laziness=0.5) == pytest.approx(lazy, abs=1e-11)


def test_spectrum_of_disconnected_or_bipartite_graph_is_exact() -> None:
    assert graphs.ring(10).spectral_gap() == 0
    assert graphs.ring(10).spectrum.lambda_min == -1
    disconnected = graphs.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3], 6)
    assert disconnected.spectrum.lambda_2 == 1
    assert disconnected.spectral_gap() == disconnected.spectral_gap(0.5) == 0
    assert disconnected.spectrum.lambda_min == pytest.approx(-0.5)
    part_bipartite = graphs.from_edges([0, 1, 2, 3], [1, 2, 0, 4], 5)
    assert (part_bipartite.spectrum.lambda_2, part_bipartite.spectrum.lambda_min) == (1, -1)
    assert not part_bipartite.is_bipartite


def test_spectrum_of_single_vertex_has_gap_one() -> None:
    loop = graphs.from_edges([0], [0], 1, self_loops=True)
    assert loop.spectral_gap() == 1
    assert graphs.mixing_rounds(loop) == 0
    with pytest.raises(InvalidGraph):
        graphs.from_edges([], [], 1).spectral_gap()


def test_self_loop_ends_periodicity() -> None:
    graph = graphs.from_edges([0, 0], [0, 1], 2, self_loops=True)
    # P = [[½, ½], [1, 0]] has the eigenvalues 1 and −½.
    assert graph.spectrum.lambda_2 == pytest.approx(-0.5)
    assert graph.spectrum.lambda_min == pytest.approx(-0.5)


@pytest.mark.parametrize("solver", ["dense", "lanczos"])
@pytest.mark.parametrize("laziness", [0.0, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_spectrum_equals_dense_eigenvalues(
    seed: int, laziness: float, solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DENSE", 10**6 if solver == "dense" else 0)
    rng = np.random.default_rng(seed)
    graph = graphs.erdos_renyi(150, 0.03, rng).largest_component()
    values = dense_eigenvalues(graph, laziness)
    truth = 1 - max(abs(values[-2]), abs(values[0]))
    gap = graph.spectral_gap(laziness)
    assert gap == pytest.approx(truth, abs=1e-10)
    assert gap <= truth + 1e-12
    simple = dense_eigenvalues(graph)
    assert graph.spectrum.lambda_2 == pytest.approx(simple[-2], abs=1e-10)
    assert graph.spectrum.lambda_min == pytest.approx(simple[0], abs=1e-10)


def test_spectrum_repeats() -> None:
    first, second = (graphs.random_regular(900, 6, np.random.default_rng(1)) for _ in range(2))
    assert first.spectrum == second.spectrum


@pytest.mark.parametrize("n", [3000, 3001])
def test_spectrum_of_slow_graph_falls_back_to_shift_and_invert(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RESTARTS", 2)
    found = graphs.ring(n).spectrum
    assert 1 - found.lambda_2 == pytest.approx(1 - math.cos(2 * math.pi / n), rel=1e-6)
    odd = n % 2
    assert 1 + found.lambda_min == pytest.approx(odd * (1 - math.cos(math.pi / n)), rel=1e-6)
    assert found.residual < 1e-12


def test_spectrum_raises_without_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    def stall(*_: object, **__: object) -> None:
        raise linalg.ArpackNoConvergence("stalled", [], [])

    monkeypatch.setattr(linalg, "eigsh", stall)
    with pytest.raises(NumericalFloor, match="second eigenvalue of this walk on 1001 vertices"):
        _ = graphs.ring(1001).spectrum


def total_variation(graph: graphs.Graph, rounds: int, laziness: float) -> float:
    law = np.linalg.matrix_power(graph.transition(laziness).toarray(), rounds)
    return float(0.5 * np.abs(law - graph.stationary()).sum(axis=1).max())


@pytest.mark.parametrize("laziness", [0.0, 0.5])
@pytest.mark.parametrize("distance", [0.25, 0.01])
def test_mixing_rounds_is_upper_bound(laziness: float, distance: float) -> None:
    rng = np.random.default_rng(5)
    for graph in (
        graphs.complete(20),
        graphs.ring(15),
        graphs.random_regular(40, 4, rng),
        graphs.barabasi_albert(60, 3, rng),
    ):
        rounds = graphs.mixing_rounds(graph, laziness, distance)
        assert rounds is not None
        assert total_variation(graph, rounds, laziness) <= distance
        start = 0.5 * math.sqrt(1 / graph.stationary().min() - 1)
        rate = 1 - graph.spectral_gap(laziness)
        assert start * rate**rounds <= distance < start * rate ** (rounds - 1)


def test_mixing_rounds_of_lazy_star_is_near_exact() -> None:
    star = graphs.star(30)
    assert graphs.mixing_rounds(star) is None
    rounds = graphs.mixing_rounds(star, 0.5)
    assert rounds is not None
    assert total_variation(star, rounds, 0.5) <= 0.25 < total_variation(star, 1, 0.5)
    with pytest.raises(InvalidParameter):
        graphs.mixing_rounds(star, laziness=-0.1)
    with pytest.raises(InvalidParameter):
        star.spectral_gap(laziness=2)


def test_gap_falls_with_excess_laziness() -> None:
    graph = graphs.complete(10)
    assert graph.spectral_gap(1.0) == 0
    assert graph.spectral_gap(0.9) == pytest.approx(0.1 * (1 + 1 / 9))
    # Laziness 1/n makes one step of the complete graph uniform.
    assert graph.spectral_gap(0.1) == pytest.approx(1)
