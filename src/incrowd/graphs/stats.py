"""Statistics of a graph that bound the privacy of walks on it."""

from __future__ import annotations

import msgspec
import numpy as np

from incrowd.graphs.graph import Graph, require_no_isolated
from incrowd.graphs.spectrum import mixing_rounds

_LARGEST = 5


class GraphStats(msgspec.Struct, frozen=True, kw_only=True):
    """Result of :func:`stats`."""

    vertices: int
    edges: int
    """A self-loop counts as one."""
    self_loops: int
    degree_min: int
    degree_mean: float
    degree_median: float
    degree_max: int
    components: int
    largest_components: tuple[int, ...]
    """Sizes of the largest few components, descending."""
    connected: bool
    bipartite: bool
    gamma: float
    """Γ = n Σ π², 1 on a regular graph."""
    lambda_2: float
    """The second largest eigenvalue of the simple walk; 1 when disconnected."""
    lambda_min: float
    """The smallest eigenvalue of the simple walk; −1 when some component is bipartite."""
    spectral_gap: float
    """``1 − max(|λ₂|, |λ_min|)`` of the simple walk."""
    lazy_spectral_gap: float
    """The same for the walk that stays with probability ½."""
    eigen_residual: float
    """The larger residual of the two eigenvalues; both gaps are lowered by it."""
    mixing_rounds: int | None
    """Rounds that bring the simple walk within ¼ of π in total variation, from any start.

    An upper bound by the spectral gap, see :func:`incrowd.graphs.mixing_rounds`; none at gap 0.
    """
    lazy_mixing_rounds: int | None
    """The same for the walk that stays with probability ½."""


def stats(graph: Graph) -> GraphStats:
    """Measure ``graph``; refuse isolated vertices, where no walk is defined."""
    require_no_isolated(graph)
    count, labels = graph.components()
    sizes = np.sort(np.bincount(labels))[::-1][:_LARGEST]
    spectrum = graph.spectrum
    return GraphStats(
        vertices=graph.n,
        edges=graph.m,
        self_loops=graph.self_loops,
        degree_min=int(graph.degrees.min()),
        degree_mean=float(graph.degrees.mean()),
        degree_median=float(np.median(graph.degrees)),
        degree_max=int(graph.degrees.max()),
        components=count,
        largest_components=tuple(int(size) for size in sizes),
        connected=graph.is_connected,
        bipartite=graph.is_bipartite,
        gamma=graph.gamma,
        lambda_2=spectrum.lambda_2,
        lambda_min=spectrum.lambda_min,
        spectral_gap=graph.spectral_gap(),
        lazy_spectral_gap=graph.spectral_gap(laziness=0.5),
        eigen_residual=spectrum.residual,
        mixing_rounds=mixing_rounds(graph),
        lazy_mixing_rounds=mixing_rounds(graph, laziness=0.5),
    )
