"""Families of graphs, fixed and random, by name in :data:`FAMILIES`.

Random families take a generator. ``erdos_renyi`` and ``geometric`` may be disconnected and hold
isolated vertices: take ``largest_component()`` where a walk is needed. All others are connected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidGraph, InvalidParameter
from incrowd.graphs.graph import Graph, from_edges

_EXACT_DEGREE = 3
"""Up to this degree a random pairing is simple often enough for rejection sampling."""
_ATTEMPTS = 1000


def complete(n: int) -> Graph:
    """Make a complete graph."""
    n = checks.crowd(n, at_least=2)
    others = np.arange(n - 1, dtype=np.int32)
    indices = others + (others >= np.arange(n, dtype=np.int32)[:, None])
    return Graph(n, np.arange(n + 1, dtype=np.int64) * (n - 1), indices.ravel())


def ring(n: int) -> Graph:
    """Make a cycle: all vertices have two neighbours."""
    n = checks.crowd(n, at_least=3)
    vertices = np.arange(n)
    return from_edges(vertices, (vertices + 1) % n, n)


def line(n: int) -> Graph:
    """Make a path: a ring with one edge cut."""
    n = checks.crowd(n, at_least=2)
    return from_edges(np.arange(n - 1), np.arange(1, n), n)


def star(n: int) -> Graph:
    """Make a star with vertex 0 as the hub of the n − 1 others."""
    n = checks.crowd(n, at_least=2)
    return from_edges(np.zeros(n - 1, dtype=np.int64), np.arange(1, n), n)


def grid(rows: int, columns: int, periodic: bool = False) -> Graph:
    """Make a lattice of ``rows`` by ``columns``, a torus if ``periodic``, numbered row by row."""
    least, of_what = (3, " of a periodic grid") if periodic else (1, "")
    rows = checks.integer(rows, f"rows{of_what}", least)
    columns = checks.integer(columns, f"columns{of_what}", least)
    n = checks.crowd(rows * columns, "rows × columns", at_least=2)
    place = np.arange(n).reshape(rows, columns)
    right, below = np.roll(place, -1, axis=1), np.roll(place, -1, axis=0)
    ends = [(place, right), (place, below)]
    if not periodic:
        ends = [(place[:, :-1], right[:, :-1]), (place[:-1], below[:-1])]
    u, v = (np.concatenate([pair[side].ravel() for pair in ends]) for side in (0, 1))
    return from_edges(u, v, n)


def random_regular(n: int, degree: int, rng: np.random.Generator) -> Graph:
    """Draw a connected graph in which all vertices have ``degree`` neighbours.

    The pairing model: each vertex brings ``degree`` half-edges, which are matched at random. Up to
    degree 3 the matching is drawn again until it is a simple connected graph: exactly uniform.
    Above, loops and double edges are repaired by random switches of two edges, which keeps all
    degrees and is close to uniform when ``degree`` is small against n. Degree 2 is a ring in random
    order; a degree of n/2 or more is the complement of a regular graph.
    """
    n = checks.crowd(n, at_least=2)
    degree = checks.integer(degree, "degree", 1)
    if degree >= n or n * degree % 2:
        raise InvalidParameter(
            f"no graph on n = {n} vertices has degree {degree} everywhere: it needs degree < n and"
            " n × degree even"
        )
    if degree == 1 and n > 2:
        raise InvalidParameter(f"degree 1 on n = {n} vertices is never connected: use degree ≥ 2")
    if degree == 2:
        order = rng.permutation(n)
        return from_edges(order, np.roll(order, -1), n)
    if 2 * degree >= n:
        # Degree n/2 or more on each vertex makes a graph connected (Dirac).
        return _complement(n, *_simple_pairing(n, n - 1 - degree, rng))
    for _ in range(_ATTEMPTS):
        graph = from_edges(*_simple_pairing(n, degree, rng), n)
        if graph.is_connected:
            return graph
    raise InvalidGraph(
        f"no connected graph of degree {degree} on n = {n} vertices in {_ATTEMPTS} draws: raise"
        " the degree"
    )


def erdos_renyi(n: int, p: float, rng: np.random.Generator) -> Graph:
    """Draw G(n, p): each pair is joined with probability ``p``. It may be disconnected.

    The gaps between joined pairs, listed in a row, are geometric: time is linear in the edges.
    """
    n = checks.crowd(n)
    p = checks.probability(p, "p")
    pairs = n * (n - 1) // 2
    if p == 0 or pairs == 0:
        return from_edges([], [], n)
    batch = int(pairs * p + 6 * np.sqrt(pairs * p)) + 16
    drawn: list[NDArray[np.int64]] = []
    last = -1
    while last < pairs:
        drawn.append(last + np.cumsum(np.minimum(rng.geometric(p, size=batch), pairs + 1)))
        last = int(drawn[-1][-1])
    joined = np.concatenate(drawn)
    return from_edges(*_pairs(joined[joined < pairs]), n)


def barabasi_albert(n: int, edges: int, rng: np.random.Generator) -> Graph:
    """Draw by preferential attachment: each newcomer joins ``edges`` people by their degree.

    It starts as a star of ``edges`` + 1 vertices and ends with ``edges`` × (n − ``edges``) edges,
    connected. A newcomer's friends are drawn one by one and redrawn on repetition.
    """
    n = checks.crowd(n, at_least=2)
    edges = checks.integer(edges, "edges", 1)
    if edges >= n:
        raise InvalidParameter(f"edges = {edges} per newcomer need n > {edges}, got n = {n}")
    # Each vertex stands in this list once per edge end, so a uniform entry is a draw by degree.
    # Every draw depends on the ones before it, hence the loop.
    ends = [end for friend in range(1, edges + 1) for end in (0, friend)]
    draws = iter(rng.random(edges * (n - edges - 1)).tolist())
    for newcomer in range(edges + 1, n):
        size = len(ends)
        friends: list[int] = []
        for _ in range(edges):
            friend = ends[int(next(draws) * size)]
            while friend in friends:
                friend = ends[int(rng.random() * size)]
            friends.append(friend)
        for friend in friends:
            ends += (newcomer, friend)
    pairs = np.array(ends).reshape(-1, 2)
    return from_edges(pairs[:, 0], pairs[:, 1], n)


def geometric(n: int, radius: float, rng: np.random.Generator) -> Graph:
    """Draw points in the unit square, joined within ``radius``. It may be disconnected."""
    from scipy.spatial import KDTree

    n = checks.crowd(n)
    radius = checks.number(radius, "radius")
    if radius <= 0:
        raise InvalidParameter(f"radius must be positive, got {radius!r}", field="radius")
    pairs = KDTree(rng.random((n, 2))).query_pairs(radius, output_type="ndarray")
    return from_edges(pairs[:, 0], pairs[:, 1], n)


_FIXED = (complete, ring, line, star, grid)
_RANDOM = (random_regular, erdos_renyi, barabasi_albert, geometric)
FAMILIES: dict[str, Callable[..., Graph]] = {each.__name__: each for each in _FIXED + _RANDOM}
"""Graph families by name."""

Ends = tuple[NDArray[Any], NDArray[Any]]


def _pairs(numbers: NDArray[np.int64]) -> Ends:
    """Ends of the pairs with these numbers, in the order (0,1), (0,2), (1,2), (0,3) and on."""
    # The larger end v is the last with v(v−1)/2 ≤ number. At equality the root rounds to v itself
    # for all v < 2³¹, just below the next row it may round up to it.
    v = ((1 + np.sqrt(1 + 8 * numbers.astype(np.float64))) / 2).astype(np.int64)
    v -= v * (v - 1) // 2 > numbers
    return numbers - v * (v - 1) // 2, v


def _simple_pairing(n: int, degree: int, rng: np.random.Generator) -> Ends:
    """Draw a simple graph with this degree everywhere, perhaps disconnected."""
    half_edges = np.repeat(np.arange(n), degree)
    for _ in range(_ATTEMPTS):
        u, v = rng.permutation(half_edges).reshape(2, -1)
        bad = _repeated_or_loop(n, u, v)
        if bad.size == 0 or (degree > _EXACT_DEGREE and _repair(n, u, v, bad, rng)):
            return u, v
    raise InvalidGraph(
        f"no simple graph of degree {degree} on n = {n} vertices in {_ATTEMPTS} draws"
    )


def _keys(n: int, u: NDArray[Any], v: NDArray[Any]) -> NDArray[np.int64]:
    """One number per unordered pair."""
    return np.asarray(np.minimum(u, v) * n + np.maximum(u, v), dtype=np.int64)


def _repeated_or_loop(n: int, u: NDArray[Any], v: NDArray[Any]) -> NDArray[np.int64]:
    """Positions of loops, and of all but the first copy of each pair."""
    _, first = np.unique(_keys(n, u, v), return_index=True)
    bad = np.ones(u.size, dtype=bool)
    bad[first] = False
    return np.flatnonzero(bad | (u == v))


def _repair(
    n: int, u: NDArray[Any], v: NDArray[Any], bad: NDArray[np.int64], rng: np.random.Generator
) -> bool:
    """Switch bad edges with random others, in place, until none is left; return success.

    A switch turns (a, b), (c, d) into (a, d), (c, b), and is made only if both are new proper
    edges, so that it never makes another edge bad.
    """
    keys, counts = np.unique(_keys(n, u, v), return_counts=True)
    changed: dict[int, int] = {}

    def key(a: int, b: int) -> int:
        return min(a, b) * n + max(a, b)

    def copies(pair: int) -> int:
        at = int(np.searchsorted(keys, pair))
        stored = int(counts[at]) if at < keys.size and keys[at] == pair else 0
        return stored + changed.get(pair, 0)

    for position in bad.tolist():
        for other in rng.integers(u.size, size=_ATTEMPTS).tolist():
            a, b, c, d = int(u[position]), int(v[position]), int(u[other]), int(v[other])
            if rng.random() < 0.5:
                c, d = d, c
            new = key(a, d), key(c, b)
            if a == d or c == b or new[0] == new[1] or copies(new[0]) or copies(new[1]):
                continue
            for pair, change in ((key(a, b), -1), (key(c, d), -1), (new[0], 1), (new[1], 1)):
                changed[pair] = changed.get(pair, 0) + change
            u[position], v[position], u[other], v[other] = a, d, c, b
            break
        else:
            return False
    return True


def _complement(n: int, u: NDArray[Any], v: NDArray[Any]) -> Graph:
    """Graph of exactly the pairs that these edges do not join."""
    joined = ~np.eye(n, dtype=bool)
    joined[u, v] = joined[v, u] = False
    rows, columns = np.nonzero(np.triu(joined))
    return from_edges(rows, columns, n)
