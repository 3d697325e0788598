"""Independent random walkers, at the scale of a population.

In each round a walker stays with probability ``laziness`` and otherwise moves to a uniform
neighbour: one row of :meth:`Graph.transition`. A vertex that is *away* in a round keeps its
walkers, and may still receive others. The graph may change from round to round.

``incrowd.graphs.propagate`` computes the law of one walker's end exactly; walkers are independent.
Two words drawn from the generator fix the whole walk, so that it depends on the seed alone and
never on the number of threads (see :mod:`incrowd.graphs._walk_kernels`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidGraph, InvalidParameter
from incrowd.graphs.graph import Graph


def walk(
    graph: Graph | Sequence[Graph],
    starts: ArrayLike,
    rounds: int,
    rng: np.random.Generator,
    laziness: float = 0.0,
    *,
    away: NDArray[np.bool_] | None = None,
) -> NDArray[np.int32]:
    """Return the vertices of walkers from ``starts`` after ``rounds`` rounds.

    A sequence of graphs on the same vertices is used one per round; a walker stays for a round in
    which its vertex has no neighbour, or is away (``away[t, v]``). A start without any neighbour in
    any round is refused. A neighbour is picked by a 64-bit random word: the law of one hop from a
    vertex of degree d is within d·2⁻⁶³ of the exact one, in total variation.
    """
    rounds = checks.integer(rounds, "rounds", 0)
    lazy = checks.probability(laziness, "laziness")
    each_round = _each_round(graph, rounds)
    n = each_round[0].n
    at = _vertices(starts, n)
    absent = _absent(away, rounds, n)
    _require_neighbours(at, each_round)
    checks.instance(rng, np.random.Generator, "rng", "np.random.default_rng(7)")
    if rounds == 0 or lazy == 1 or at.size == 0:
        return at
    from incrowd.graphs._walk_kernels import advance

    keys = rng.integers(2**64, size=2, dtype=np.uint64)
    stay = np.uint64(math.ldexp(lazy, 64))
    length = rounds if isinstance(graph, Graph) else 1
    for first in range(0, rounds, length):
        now = each_round[first // length]
        if now.indices.size == 0:
            continue
        # Half the bytes per row, so that the cache holds twice as many of them.
        rows = now.indptr.astype(np.uint32) if now.indices.size < 2**32 else now.indptr
        apart = None if absent is None else absent[first : first + length]
        advance(rows, now.indices, at, first, length, keys[0], keys[1], stay, apart)
    return at


def _each_round(graph: Graph | Sequence[Graph], rounds: int) -> list[Graph]:
    """One graph for all rounds, or one per walked round, at least one."""
    if isinstance(graph, Graph):
        return [graph]
    if not isinstance(graph, Sequence) or not graph:
        raise InvalidParameter(
            f"graph must be a Graph, or a sequence of them with one per round, got {graph!r}",
            field="graph",
        )
    for t, each in enumerate(graph):
        checks.instance(each, Graph, f"graph[{t}]", "graphs.ring(5)")
        if each.n != graph[0].n:
            raise InvalidGraph(
                f"the graph of round {t} has {each.n} vertices, the first one has {graph[0].n}:"
                " all rounds need the same people (from_edges takes n)"
            )
    if rounds > len(graph):
        raise InvalidParameter(
            f"{rounds} rounds need {rounds} graphs, got {len(graph)}: give one graph per round"
        )
    return list(graph[: max(rounds, 1)])


def _vertices(starts: ArrayLike, n: int) -> NDArray[np.int32]:
    begun = np.asarray(starts)
    if begun.ndim != 1 or (begun.size and begun.dtype.kind not in "iu"):
        raise InvalidParameter("starts must be a one-dimensional array of vertices")
    if begun.size and not (begun.min() >= 0 and begun.max() < n):
        raise InvalidParameter(f"starts must be vertices from 0 to {n - 1}")
    return begun.astype(np.int32)


def _absent(away: Any, rounds: int, n: int) -> NDArray[np.bool_] | None:
    if away is None:
        return None
    absent = np.asarray(away)
    if absent.dtype != np.bool_ or absent.shape != (rounds, n):
        raise InvalidParameter(
            f"away must hold a truth value for each round and vertex, in shape {(rounds, n)}; it"
            f" has shape {absent.shape} of {absent.dtype}"
        )
    return np.ascontiguousarray(absent)


def _require_neighbours(at: NDArray[np.int32], each_round: list[Graph]) -> None:
    stuck = at
    for graph in each_round:
        stuck = stuck[graph.degrees[stuck] == 0]
        if stuck.size == 0:
            return
    raise InvalidGraph(
        f"vertex {stuck[0]} is isolated, so no walk can start there:"
        " keep the largest component (Graph.largest_component())"
    )
