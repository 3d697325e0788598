"""Walks beyond the complete graph: who learns how much of whom, by how far apart they are.

On a graph that everyone knows a token comes back to neighbours sooner than to strangers, and what
was added in between is what hides a contribution. For pairs of people at the same distance: the
realised loss Σ k²/m of simulated walks, per contribution (1: as if the contribution were seen
alone), what that is in ε, and E[1/τ], with τ the steps until the other has the token: the
first-order loss of steps that read the token (``docs/theory/token_graph.md``).

The real graphs are parts of those that the environment variable ``INCROWD_DATA`` names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments.network_graphs import data
from experiments.token_losses import first_hit, loss_epsilon
from incrowd import graphs
from incrowd.graphs import Graph
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.simulate import paths
from incrowd.protocols.token_walk.theorems.conditional_on_path import path_losses
from incrowd.protocols.token_walk.theorems.graph_walk import metropolis
from incrowd.randomizers import Gaussian
from incrowd.randomness import Seeds

__all__ = [
    "CONTRIBUTIONS",
    "DELTA",
    "ENOUGH",
    "GRAPHS",
    "NOISE",
    "WALKS",
    "ByDistance",
    "by_distance",
]

FloatArray = NDArray[np.float64]

CONTRIBUTIONS, WALKS, DELTA = 100, 5, 1e-6
NOISE = Gaussian(epsilon=1.0, delta=DELTA)
ENOUGH = 100
"""Pairs at one distance from which their mean is shown."""
_OBSERVERS = 24
"""People for whom E[1/τ] is computed."""
_PART = 800


def _part(name: str) -> Graph:
    whole = data(name)
    return whole.subgraph(graphs.connected_part(whole, _PART))


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "ring of 400": lambda: graphs.ring(400),
    "grid of 20 × 20": lambda: graphs.grid(20, 20),
    "random 8-regular, 400": lambda: graphs.random_regular(400, 8, np.random.default_rng(1)),
    f"Facebook, {_PART} people": lambda: _part("facebook_page"),
    f"Twitch, {_PART} people": lambda: _part("twitch_de"),
}
"""Those of the table and the figure."""


@dataclass(frozen=True)
class ByDistance:
    """What is learnt over one distance: all numbers but the pairs are per ordered pair."""

    distance: int
    pairs: int
    share: float
    """The mean of Σ k²/m over contributions."""
    epsilon: float
    """The mean ε."""
    greatest: float
    """The greatest ε."""
    hit: float
    """The mean of E[1/τ]."""


@lru_cache(maxsize=8)
def by_distance(name: str) -> tuple[ByDistance, ...]:
    """All distances on one of the graphs."""
    graph = GRAPHS[name]()
    steps = CONTRIBUTIONS * graph.n
    protocol = TokenWalk(NOISE, topology="graph", graph=graph, steps=steps, cap=steps)
    apart = _distances(graph)
    found = np.zeros((2, int(apart.max()) + 1))
    cells, greatest = apart.ravel(), np.zeros(found.shape[1])
    for seed in range(WALKS):
        path = np.concatenate(list(paths(protocol, Seeds(seed))))
        losses = path_losses(path, graph.n)
        share = losses / np.maximum(np.bincount(path, minlength=graph.n), 1)[:, None]
        found[0] += np.bincount(cells, weights=share.ravel())
        found[1] += np.bincount(cells, weights=_epsilons(losses).ravel())
        np.maximum.at(greatest, cells, losses.ravel())
    pairs = np.bincount(cells)
    hits, seen = _hits(graph, apart)
    worst = loss_epsilon(greatest, 1 / NOISE.sigma, DELTA)
    return tuple(
        ByDistance(
            distance,
            int(pairs[distance]),
            float(found[0, distance] / (WALKS * pairs[distance])),
            float(found[1, distance] / (WALKS * pairs[distance])),
            float(worst[distance]),
            float(hits[distance] / seen[distance]) if seen[distance] else float("nan"),
        )
        for distance in range(1, found.shape[1])
    )


def _epsilons(losses: FloatArray) -> FloatArray:
    """ε of each loss, by interpolation: for means."""
    some = losses > 0
    grid = np.geomspace(losses[some].min(), losses.max(), 400)
    known = np.log(loss_epsilon(grid, 1 / NOISE.sigma, DELTA))
    found = np.zeros(losses.shape)
    found[some] = np.exp(np.interp(np.log(losses[some]), np.log(grid), known))
    return found


def _distances(graph: Graph) -> NDArray[np.int64]:
    from scipy.sparse.csgraph import shortest_path

    return np.asarray(shortest_path(graph.adjacency(), unweighted=True)).astype(np.int64)


def _hits(graph: Graph, apart: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Sums of E[1/τ] over some observers, and the number of pairs, by distance."""
    weights = metropolis(graph)
    hits, seen = (np.zeros(int(apart.max()) + 1) for _ in range(2))
    chosen = np.random.default_rng(2).choice(graph.n, min(_OBSERVERS, graph.n), replace=False)
    for observer in chosen.tolist():
        np.add.at(hits, apart[:, observer], first_hit(weights, observer))
        np.add.at(seen, apart[:, observer], 1)
    return hits, seen
