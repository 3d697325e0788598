"""Communication graph: immutable, undirected, in compressed sparse row form.

Row ``v`` of the structure, ``indices[indptr[v]:indptr[v + 1]]``, lists the neighbours of vertex
``v`` in increasing order; vertices are 0, …, n−1. A walker at v moves to a uniform entry of its
row, so the transition matrix is P = D⁻¹A. P is reversible, and on a connected graph its stationary
law is π(v) = deg(v) / Σ deg, which is deg(v) / 2m without self-loops.

Policy for input that is not a simple undirected graph, the same for every constructor and file:

* direction is ignored: (u, v) and (v, u) are one edge;
* multi-edges are merged, and weights are ignored: a pair is either joined or not;
* self-loops are dropped unless ``self_loops=True``: ``laziness`` is the way to stay. A kept
  self-loop is one entry of its row and adds **one** to the degree: the walker stays with
  probability 1/deg(v).

Invariants, checked on construction: rows strictly increasing, structure symmetric, arrays
read-only. Labels are names beside the structure: graphs of equal structure are equal. Isolated
vertices are allowed in a ``Graph``, since a random family may draw them; functions that need a walk
refuse them through :func:`require_no_isolated`.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.data.people import Names, align, require_distinct
from incrowd.errors import GraphMalformed, InvalidCrowd, InvalidGraph

if TYPE_CHECKING:
    from scipy import sparse

    from incrowd.graphs.spectrum import Spectrum

_MAX_VERTICES = 2**31 - 1
_NAMED = 5
"""Number of offending vertices that an error names."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph; build one with :func:`from_edges`, ``load`` or a family."""

    n: int
    """Number of vertices."""
    indptr: NDArray[np.int64]
    """Starts of the rows; ``n + 1`` entries."""
    indices: NDArray[np.int32]
    """Neighbours, row after row."""
    labels: NDArray[np.str_] | None = None
    """Names of the vertices, each once; None where they are numbered alone, as the rows of data."""
    notes: tuple[str, ...] = ()
    """Sentences about what was found in the file."""

    def __post_init__(self) -> None:
        _require_size(self.n)
        if self.labels is not None:
            object.__setattr__(self, "labels", _names(self.labels, self.n))
        indptr = _whole(self.indptr, "indptr", 0).astype(np.int64)
        indices = _whole(self.indices, "indices", 0, self.n).astype(np.int32)
        ends = indptr.shape == (self.n + 1,) and (indptr[0], indptr[-1]) == (0, indices.size)
        if not ends or (np.diff(indptr) < 0).any():
            raise GraphMalformed(
                f"indptr must rise from 0 to len(indices) = {indices.size} in n + 1 = {self.n + 1}"
                " entries; use from_edges to build a graph from pairs"
            )
        object.__setattr__(self, "n", int(self.n))
        object.__setattr__(self, "indptr", _frozen(indptr))
        object.__setattr__(self, "indices", _frozen(indices))
        starts_row = np.zeros(indices.size + 1, dtype=bool)
        starts_row[indptr] = True
        if not ((np.diff(indices) > 0) | starts_row[1:-1]).all():
            raise GraphMalformed("rows of indices must be strictly increasing; use from_edges")
        mirrored = self.adjacency().tocsc()
        if not (
            np.array_equal(mirrored.indptr, indptr) and np.array_equal(mirrored.indices, indices)
        ):
            raise GraphMalformed(
                "the structure is not symmetric: some v lists w but w does not list v; use"
                " from_edges, which ignores direction"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        same_rows = self.n == other.n and np.array_equal(self.indptr, other.indptr)
        return same_rows and np.array_equal(self.indices, other.indices)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Graph(n={self.n}, m={self.m})"

    @cached_property
    def _hash(self) -> int:
        return hash((self.n, self.indptr.tobytes(), self.indices.tobytes()))

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """Entries per row: the number of neighbours, plus one where a self-loop was kept."""
        return _frozen(np.diff(self.indptr))

    @cached_property
    def self_loops(self) -> int:
        """Number of vertices with a self-loop."""
        return int(np.count_nonzero(self._rows() == self.indices))

    @property
    def m(self) -> int:
        """Number of edges, each self-loop counted as one."""
        return (self.indices.size + self.self_loops) // 2

    def neighbours(self, v: int) -> NDArray[np.int32]:
        """Return the neighbours of ``v``, increasing (a read-only view)."""
        if not 0 <= v < self.n:
            raise InvalidGraph(f"vertex {v} is not one of 0 to {self.n - 1}")
        return self.indices[self.indptr[v] : self.indptr[v + 1]]

    def edges(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return each edge once, as arrays ``u`` ≤ ``v``, in increasing order."""
        rows = self._rows()
        once = rows <= self.indices
        return rows[once], self.indices[once]

    def adjacency(self) -> sparse.csr_array[Any]:
        """Return the 0/1 adjacency matrix A, as doubles."""
        from scipy import sparse

        ones = np.ones(self.indices.size)
        return sparse.csr_array((ones, self.indices, self.indptr), shape=(self.n, self.n))

    def transition(self, laziness: float = 0.0) -> sparse.csr_array[Any]:
        """Return P = ℓI + (1 − ℓ)D⁻¹A, where ℓ = ``laziness`` is the chance to stay in a round."""
        from scipy import sparse

        stay = checks.probability(laziness, "laziness")
        require_no_isolated(self)
        moves = np.repeat(1.0 / self.degrees, self.degrees)
        simple = sparse.csr_array((moves, self.indices, self.indptr), shape=(self.n, self.n))
        if stay == 0:
            return simple
        return sparse.csr_array(stay * sparse.eye_array(self.n) + (1 - stay) * simple)

    def stationary(self) -> NDArray[np.float64]:
        """Return π = degrees / Σ degrees, the stationary law.

        It is the limit of the walk only on a connected graph, lazy or not bipartite.
        """
        if self.indices.size == 0:
            raise InvalidGraph(
                f"a graph of {self.n} vertices and no edge has no walk, so no stationary law"
            )
        return np.asarray(self.degrees / self.indices.size, dtype=np.float64)

    @cached_property
    def gamma(self) -> float:
        """Irregularity Γ = n Σ π(v)²: 1 on a regular graph, more where hubs attract walkers.

        Σ π² is the chance that two independent stationary walkers meet; Γ compares it with 1/n.
        """
        return float(self.n * np.sum(self.stationary() ** 2))

    @cached_property
    def _components(self) -> tuple[int, NDArray[np.int32]]:
        from scipy.sparse import csgraph

        count, labels = csgraph.connected_components(self.adjacency(), directed=False)
        return int(count), _frozen(labels)

    def components(self) -> tuple[int, NDArray[np.int32]]:
        """Return the number of connected components, and the component of each vertex."""
        return self._components

    @property
    def is_connected(self) -> bool:
        """Whether each vertex can be reached from each other one."""
        return self.components()[0] == 1

    @cached_property
    def _cover(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Components of each vertex, and of its copy, in the double cover.

        The double cover has two copies of each vertex, and joins v to the other copy of each
        neighbour. A walk of odd length from v to v joins the two copies of v. So a component is
        bipartite exactly when its vertices and their copies fall into different components there.
        """
        from scipy import sparse
        from scipy.sparse import csgraph

        forward = self.adjacency()
        cover = sparse.block_array([[None, forward], [forward, None]], format="csr")
        _, labels = csgraph.connected_components(cover, directed=False)
        return labels[: self.n], labels[self.n :]

    @cached_property
    def bipartite_components(self) -> NDArray[np.bool_]:
        """Whether each component has a colouring by two colours in which every edge joins both."""
        vertex, copy = self._cover
        count, component = self.components()
        split = np.ones(count, dtype=bool)
        split[component[vertex == copy]] = False
        return _frozen(split)

    @cached_property
    def sides(self) -> NDArray[np.bool_]:
        """Side of each vertex in its bipartite component; false elsewhere."""
        vertex, copy = self._cover
        return _frozen(np.asarray(vertex > copy))

    @property
    def is_bipartite(self) -> bool:
        """Whether all components are bipartite."""
        return bool(self.bipartite_components.all())

    def subgraph(self, vertices: ArrayLike) -> Graph:
        """Return the graph on these vertices alone; vertex ``i`` is the i-th smallest of them."""
        return self._among(np.unique(_whole(vertices, "vertices", 0, self.n)))

    def aligned(self, names: Names) -> Graph:
        """Return the graph with its vertices in the order of these names.

        Vertices without labels are called by their numbers, so that numbers are never taken for
        rows of data whose people have other names.

        Raises:
            UnmatchedPeople: for a name that is not that of exactly one vertex, or a vertex that
                is not named; lists them.

        """
        labels = np.arange(self.n).astype(np.str_) if self.labels is None else self.labels
        order = align(names, labels)
        return replace(self._among(order), labels=labels[order])

    def _among(self, vertices: NDArray[Any]) -> Graph:
        """The graph on these vertices, in this order."""
        rows = _from_rows(self.adjacency()[vertices][:, vertices])
        return rows if self.labels is None else replace(rows, labels=self.labels[vertices])

    def largest_component(self) -> Graph:
        """Return the component with the most vertices, which keep their order; the first on a tie.

        Its vertices are, with ``count, labels = graph.components()``,
        ``np.flatnonzero(labels == np.bincount(labels).argmax())``.
        """
        count, labels = self.components()
        if count == 1:
            return self
        return self.subgraph(np.flatnonzero(labels == np.bincount(labels).argmax()))

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues of the simple walk that bound its mixing time."""
        from incrowd.graphs.spectrum import spectrum

        return spectrum(self)

    def spectral_gap(self, laziness: float = 0.0) -> float:
        """Return ``1 − max(|λ₂|, |λ_min|)``; 0 when disconnected, or bipartite and not lazy."""
        return self.spectrum.gap(laziness)

    def _rows(self) -> NDArray[np.int32]:
        return np.repeat(np.arange(self.n, dtype=np.int32), self.degrees)


def from_edges(
    u: ArrayLike, v: ArrayLike, n: int | None = None, *, self_loops: bool = False
) -> Graph:
    """Build the graph that joins ``u[i]`` and ``v[i]`` for each i.

    ``n`` is by default the largest id + 1. Direction is ignored and multi-edges are merged;
    self-loops are dropped unless ``self_loops``.
    """
    from scipy import sparse

    if n is not None:
        _require_size(n)
    first, second = _whole(u, "u", 0, n), _whole(v, "v", 0, n)
    if first.shape != second.shape:
        raise GraphMalformed(f"u has {first.size} entries but v has {second.size}")
    if n is None:
        if first.size == 0:
            raise GraphMalformed("no edges: state n, the number of vertices")
        n = int(max(first.max(), second.max())) + 1
        _require_size(n)
    if not self_loops:
        proper = first != second
        first, second = first[proper], second[proper]
    ends = (np.concatenate([first, second]), np.concatenate([second, first]))
    return _from_rows(sparse.coo_array((np.ones(ends[0].size), ends), shape=(n, n)).tocsr())


def from_scipy(matrix: Any, *, self_loops: bool = False) -> Graph:
    """Build the graph of the nonzero entries of a square matrix, sparse or dense.

    Only the pattern counts: weights and direction are ignored, so a matrix that stores one triangle
    and one that stores both give the same graph. Stored zeros are no edges.
    """
    from scipy import sparse

    try:
        entries = sparse.coo_array(matrix)
    except (TypeError, ValueError) as error:
        raise GraphMalformed(f"not a matrix: {error}") from None
    if len(entries.shape) != 2 or entries.shape[0] != entries.shape[1]:
        raise GraphMalformed(f"an adjacency matrix is square, this one has shape {entries.shape}")
    stored = entries.data != 0
    return from_edges(
        entries.row[stored], entries.col[stored], int(entries.shape[0]), self_loops=self_loops
    )


def from_networkx(graph: Any, *, self_loops: bool = False) -> Graph:
    """Convert a networkx graph; vertex ``i`` is the i-th node of ``graph.nodes``."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    ends = np.array([(number[a], number[b]) for a, b in graph.edges()], np.int64).reshape(-1, 2)
    return from_edges(ends[:, 0], ends[:, 1], len(number), self_loops=self_loops)


def connected_part(graph: Graph, n: int) -> NDArray[np.intp]:
    """Return ``n`` connected vertices, increasing; ``graph.subgraph`` makes a graph of them.

    Grown from the vertex of highest degree, always by the vertex with the most neighbours among
    those already taken; the smallest number wins a tie, so that the result is unique.
    """
    checks.instance(graph, Graph, "graph", "graphs.ring(5)")
    n = checks.crowd(n)
    if n > graph.n:
        raise InvalidCrowd(f"a graph of {graph.n} people has no part of {n}: take fewer")
    taken = np.zeros(graph.n, dtype=bool)
    inside = np.zeros(graph.n, dtype=np.int64)
    # Entries grow stale when a vertex gains neighbours; the newest one of a vertex comes first.
    waiting = [(0, int(graph.degrees.argmax()))]
    for size in range(n):
        while waiting and taken[waiting[0][1]]:
            heapq.heappop(waiting)
        if not waiting:
            raise InvalidGraph(
                f"no {n} people of this graph hang together where most do: from the person who "
                f"knows most, only {size} can be reached"
            )
        vertex = heapq.heappop(waiting)[1]
        taken[vertex] = True
        for other in graph.neighbours(vertex).tolist():
            if not taken[other]:
                inside[other] += 1
                heapq.heappush(waiting, (-int(inside[other]), other))
    return np.flatnonzero(taken)


def require_no_isolated(graph: Graph, where: str = "the graph") -> None:
    """Refuse a graph with isolated vertices, on which no walk is defined."""
    isolated = np.flatnonzero(graph.degrees == 0)
    if isolated.size == 0:
        return
    named = ", ".join(map(str, isolated[:_NAMED])) + (", …" if isolated.size > _NAMED else "")
    what = "1 isolated vertex" if isolated.size == 1 else f"{isolated.size} isolated vertices"
    raise InvalidGraph(
        f"{where} has {what} ({named}), where no walk can go: keep the largest component"
        " (--largest-component, or load with allow_isolated=True and call largest_component())"
    )


def _from_rows(matrix: sparse.csr_array[Any]) -> Graph:
    # A symmetric matrix without repeated entries.
    matrix.sort_indices()
    return Graph(int(matrix.shape[0]), matrix.indptr.astype(np.int64), matrix.indices)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _names(labels: Any, n: int) -> NDArray[np.str_]:
    """Names of n vertices, checked to differ."""
    names = np.array(labels)
    if names.dtype.kind != "U" or names.shape != (n,):
        raise GraphMalformed(f"labels must be {n} texts, one for each vertex", field="labels")
    require_distinct(names.tolist(), "labels")
    return _frozen(names)


def _require_size(n: int) -> None:
    checks.crowd(n, "n")
    if n > _MAX_VERTICES:
        raise GraphMalformed(
            f"n = {n} is more than the {_MAX_VERTICES} vertices a graph can have", field="n"
        )


def _whole(values: ArrayLike, name: str, least: int, below: int | None = None) -> NDArray[Any]:
    """A one-dimensional array of integers in ``[least, below)``."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise GraphMalformed(
            f"{name} must be one-dimensional, it has shape {array.shape}", field=name
        )
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise GraphMalformed(f"{name} must hold integers, not {array.dtype}", field=name)
    wrong = array < least
    if below is not None:
        wrong |= array >= below
    if wrong.any():
        at = int(wrong.argmax())
        limits = f"≥ {least}" if below is None else f"from {least} to {below - 1}"
        raise GraphMalformed(f"{name}[{at}] = {array[at]} is out of range: ids are {limits}")
    return array.astype(np.int64)
