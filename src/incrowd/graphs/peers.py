"""Random peers: extra contacts of each person, drawn at random.

People who know each other form clusters, and a report takes long to leave one: on a slow-mixing
social graph a walk needs thousands of rounds before it has forgotten where it began. When every
device also knows k random others, it is a dozen: the bound :func:`~incrowd.graphs.mixing_rounds` on
a ring of 2,000 people falls from millions to 12 at k = 3. From k = 2 on, the random edges alone
connect the graph with high probability (Fenner and Frieze, "On the connectivity of random
m-orientable graphs and digraphs"). A walker takes one of them in about 2k of deg + 2k hops, so that
people with many contacts need more random peers for the same effect.

Cost: the peers must be reachable, and the degrees rise by about 2k. Privacy: the edges, random ones
included, are public in every protocol that walks on a graph, and they are drawn independently of
all data. So a guarantee holds for the drawn graph; it takes no credit for the draw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.graphs.graph import Graph, from_edges
from incrowd.randomness import Seeds


def with_random_peers(graph: Graph, k: int, rng: np.random.Generator | int | None = None) -> Graph:
    """Return the graph with ``k`` further neighbours for each vertex, drawn uniformly.

    Each vertex draws a uniform set of ``k`` distinct others. Edges are undirected, and one that is
    drawn twice or was there before is one edge: on a large graph the degrees rise by about 2k.
    Self-loops stay. A whole number ``rng`` is a seed; without it, each call draws afresh.
    """
    checks.instance(graph, Graph, "graph", "graphs.ring(5)")
    k = checks.integer(k, "k", 1)
    if k > graph.n - 1:
        raise InvalidParameter(
            f"k = {k} random peers need more than {k} people, this graph has {graph.n}: lower k"
        )
    generator = rng if isinstance(rng, np.random.Generator) else Seeds(rng).generator("peers")
    people, others = _distinct_others(graph.n, k, generator)
    u, v = graph.edges()
    ends = np.concatenate([u, people]), np.concatenate([v, others])
    return from_edges(*ends, graph.n, self_loops=True)


def _distinct_others(
    n: int, k: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw k distinct others for each of n people, as pairs (person, other)."""
    if 2 * k > n - 1:
        # The complement is a uniform set too, and the smaller one.
        drawn = np.ones((n, n - 1), dtype=bool)
        drawn.ravel()[_distinct(n, n - 1 - k, rng)] = False
        chosen = np.flatnonzero(drawn)
    else:
        chosen = _distinct(n, k, rng)
    people, others = np.divmod(chosen, n - 1)
    return people, others + (others >= people)


def _distinct(n: int, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw k distinct numbers below n − 1 for each of n people: sorted person·(n − 1) + number.

    The first k different values in a row of independent uniform draws are a uniform set. A draw
    repeats one before it with probability at most k/(n − 1) ≤ ½, so few draws must be made again.
    """
    chosen = np.empty(0, dtype=np.int64)
    missing = np.full(n, k)
    while missing.any():
        people = np.repeat(np.arange(n), missing)
        fresh = people * (n - 1) + rng.integers(n - 1, size=people.size)
        # Sorted here: np.unique hashes, which takes ten times as long on this many.
        ordered = np.sort(np.concatenate([chosen, fresh]))
        chosen = ordered[np.diff(ordered, prepend=-1) > 0]
        missing = k - np.bincount(chosen // (n - 1), minlength=n)
    return chosen
