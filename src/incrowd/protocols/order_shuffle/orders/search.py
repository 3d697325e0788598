"""Reference orders by searching: breadth first, reverse Cuthill–McKee, and by labels.

They work on atoms, people who share all their groups, who stay together. Each function yields its
variants.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.order_shuffle.groupings.base import Incidence, IntArray

_MOST_EDGES = 30_000_000
"""Of a graph that is made for reverse Cuthill–McKee."""
_TURNS = 8
"""Most restarts of a search for the rim."""


def breadth_first(incidence: Incidence) -> Iterator[IntArray]:
    """From the person with the largest group; then from the next that was not reached."""
    search = _Search(incidence)
    search.run(search.roots, 0)
    yield incidence.spread(search.order)


def peripheral(incidence: Incidence) -> Iterator[IntArray]:
    """In each part that hangs together, from its rim."""
    search = _Search(incidence)
    begin = 0
    for root in search.roots:
        if search.level[root] >= 0:
            continue
        end = search.run(np.array([root]), begin)
        deepest = -1
        for _ in range(_TURNS):
            levels = search.level[search.order[begin:end]]
            if levels[-1] <= deepest:
                break
            deepest = int(levels[-1])
            # Of those who are farthest, the one with the smallest group, then the lowest number.
            last = np.sort(search.order[begin:end][levels == deepest])
            start = last[np.argmin(search.sizes[last])]
            search.forget(begin, end)
            search.run(np.array([start]), begin)
        begin = end
    yield incidence.spread(search.order)


class _Search:
    """The state of a breadth-first search over atoms."""

    def __init__(self, incidence: Incidence) -> None:
        count, groups = incidence.own.size, incidence.indptr.size - 1
        by_atom = incidence.matrix().T.tocsr()
        owners = np.argsort(incidence.own, kind="stable")
        owned = np.append(0, np.cumsum(np.bincount(incidence.own, minlength=groups)))
        self._graph = (
            incidence.own,
            incidence.indptr,
            incidence.atoms,
            owned,
            owners,
            by_atom.indptr.astype(np.int64),
            by_atom.indices.astype(np.int32),
        )
        weights = np.append(0, np.cumsum(incidence.weights[incidence.atoms]))
        people = weights[incidence.indptr[1:]] - weights[incidence.indptr[:-1]]
        self.sizes: IntArray = people[incidence.own]
        self.roots: IntArray = np.argsort(-self.sizes, kind="stable")
        self.order = np.empty(count, np.int64)
        self.level = np.full(count, -1, np.int64)
        self._spent = np.zeros(groups, bool)

    def run(self, roots: NDArray[Any], begin: int) -> int:
        """Search from these roots on; returns how many atoms were reached in all."""
        from incrowd.protocols.order_shuffle.orders.kernels import breadth_first as visit

        return visit(roots, *self._graph, self.order, self.level, self._spent, begin)

    def forget(self, begin: int, end: int) -> None:
        """Make unvisited what was reached last."""
        reached = self.order[begin:end]
        self.level[reached] = -1
        self._spent[self._graph[0][reached]] = False


def cuthill_mckee(incidence: Incidence) -> Iterator[IntArray]:
    """On atoms and the members of their groups, on atoms and groups, on atoms that share a group.

    The last two know of all groups that an atom is in; the last can be far larger.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    numbers = np.diff(incidence.indptr)
    count = incidence.own.size

    def searched(graph: Any) -> IntArray:
        found = reverse_cuthill_mckee(sparse.csr_array(graph, dtype=np.int8), True)
        return incidence.spread(found[found < count].astype(np.int64))

    if int(numbers[incidence.own].sum()) <= _MOST_EDGES:
        yield searched(incidence.star())
    if incidence.atoms.size <= _MOST_EDGES:
        matrix = incidence.matrix()
        yield searched(sparse.block_array([[None, matrix.T], [matrix, None]], format="csr"))
        if int((numbers**2).sum()) <= _MOST_EDGES:
            yield searched(matrix.T @ matrix)


def label(incidence: Incidence) -> Iterator[IntArray]:
    """By the first group that each person is in, and then by the last."""
    by_atom = incidence.matrix().T.tocsr()
    by_atom.sort_indices()
    first = by_atom.indices[by_atom.indptr[:-1]]
    last = by_atom.indices[by_atom.indptr[1:] - 1]
    yield incidence.spread(np.lexsort((last, first)))
