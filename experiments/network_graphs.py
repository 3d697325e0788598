"""The graphs of the experiments on network shuffling, and what the paper prints of them.

The real graphs are those of the paper (largest components): read from the directory that the
environment variable ``INCROWD_DATA`` names, one ``NAME/edges.npz`` each. Quick runs use small
random graphs in their place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from incrowd import graphs
from incrowd.graphs import Graph

__all__ = ["GOOGLE", "PRINTED", "Printed", "data", "one_sided", "small", "small_one_sided"]

PEER_SEED = 0
"""Random peers are drawn with the seed that the library uses for a graph file."""


@dataclass(frozen=True)
class Printed:
    """What Table 4 of the paper says of a graph."""

    title: str
    n: int
    irregularity: float
    """Γ, as printed."""


PRINTED: Mapping[str, Printed] = {
    "facebook_page": Printed("Facebook", 22_470, 5.0064),
    "twitch_de": Printed("Twitch", 9_498, 7.5840),
    "deezer_europe": Printed("Deezer", 28_281, 3.5633),
    "enron_email": Printed("Enron", 33_696, 36.866),
}
GOOGLE = Printed("Google", 855_802, 20.642)
"""Drawn from its printed numbers: the graph itself is not among the data."""


def data(name: str) -> Graph:
    """One of the real graphs."""
    return graphs.load(_file(name))


def one_sided(name: str) -> NDArray[np.float64]:
    """How many edges each vertex has to itself and to vertices of higher number.

    The self-loops of the original file count once; the walk has none.
    """
    with np.load(_file(name)) as stored:
        counts = np.bincount(stored["u"], minlength=int(stored["n"])).astype(np.float64)
        if "self_loops" in stored:
            np.add.at(counts, stored["self_loops"], 1.0)
    return counts


def _file(name: str) -> Path:
    directory = os.environ.get("INCROWD_DATA")
    if not directory:
        raise FileNotFoundError(
            "set INCROWD_DATA to the directory of the data sets, or run with --quick"
        )
    return Path(directory) / name / "edges.npz"


_SMALL: Mapping[str, Callable[[np.random.Generator], Graph]] = {
    "twitch_de": lambda rng: graphs.barabasi_albert(50, 4, rng),
    "deezer_europe": lambda rng: _two_towns(graphs.barabasi_albert(20, 3, rng)),
}


def small(name: str) -> Graph:
    """A small random graph in place of a real one."""
    return _SMALL[name](np.random.default_rng(7))


def small_one_sided(name: str) -> NDArray[np.float64]:
    """The same count on the small graph."""
    graph = small(name)
    u, v = graph.edges()
    return np.bincount(np.minimum(u, v), minlength=graph.n).astype(np.float64)


def _two_towns(graph: Graph) -> Graph:
    """Two copies of a graph that one edge connects: walks are slow to change sides."""
    u, v = graph.edges()
    n = graph.n
    return graphs.from_edges(
        np.concatenate([u, u + n, [0]]), np.concatenate([v, v + n, [n]]), 2 * n
    )


@lru_cache(maxsize=2)
def with_peers(load: Callable[[str], Graph], name: str, peers: int) -> Graph:
    """A graph in which everyone also knows so many random others."""
    graph = load(name)
    return graphs.with_random_peers(graph, peers, PEER_SEED) if peers else graph
