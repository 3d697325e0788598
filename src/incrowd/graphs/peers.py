"""Random peers: everyone also knows a few others, drawn at random.

People who know each other form clusters, and a report takes long to leave one: on a slow-mixing
social graph a walk needs thousands of rounds before it has forgotten where it began. When every
device also knows k random others, it is a dozen: the bound :func:`~incrowd.graphs.mixing_rounds` on
a ring of 2,000 people falls from millions to 12 at k = 3. From k = 2 on, the random edges alone
connect everybody with high probability (Fenner and Frieze, "On the connectivity of random
m-orientable graphs and digraphs"). A walker takes one of them in about 2k of deg + 2k hops, so that
people who know many others need more random peers for the same effect.

What it costs: the peers must be reachable, and the degrees rise by about 2k. What it does to
privacy: who knows whom is public knowledge in every protocol that walks on a graph, the random
peers included, and they are drawn independently of all data. So a guarantee holds for the graph
that was drawn; it takes no credit for the draw.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.graphs.graph import Graph, from_edges
from incrowd.randomness import Seeds


def with_random_peers(graph: Graph, k: int, rng: np.random.Generator | int | None = None) -> Graph:
    """The graph in which everyone also knows ``k`` others, drawn uniformly for each person.

    Each vertex draws a uniform set of ``k`` distinct others. Whom it drew knows it too, and an edge
    that is drawn twice or was there before is one edge: on a large graph the degrees rise by about
    2k. Self-loops stay as they are; an isolated vertex is isolated no more. A whole number ``rng``
    is a seed; with none given, the peers are different each time.
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
    return from_edges(
        np.concatenate([u, people]), np.concatenate([v, others]), graph.n, self_loops=True
    )


def _distinct_others(
    n: int, k: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each of n people k distinct others, as pairs (person, other)."""
    if 2 * k > n - 1:
        # Whom one does *not* draw is a uniform set too, and the smaller one.
        drawn = np.ones((n, n - 1), dtype=bool)
        drawn.ravel()[_distinct(n, n - 1 - k, rng)] = False
        chosen = np.flatnonzero(drawn)
    else:
        chosen = _distinct(n, k, rng)
    people, others = np.divmod(chosen, n - 1)
    return people, others + (others >= people)


def _distinct(n: int, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """For each of n people k distinct numbers below n − 1: sorted, as person·(n − 1) + number.

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
