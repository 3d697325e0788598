"""Exact laws of many walks, round by round.

A block holds the laws of some walkers, one per column: ``block[v, c]`` is the chance that walker c
is at v. One round costs one pass over the edges per column, so the laws of all n walkers after t
rounds cost n·t·2m multiplications, in blocks that fit the cache, on all cores. All numbers are sums
of products of non-negative doubles: their *relative* error is at most :func:`relative_error`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidGraph
from incrowd.graphs.graph import Graph

Doubles = NDArray[np.float64]

BLOCK = 32
"""Columns per block: a row of a block fills whole cache lines, and a block fits the cache."""


class Step:
    """One round on one graph: stay with chance ``laziness``, else move to a uniform neighbour."""

    def __init__(self, graph: Graph, laziness: float = 0.0) -> None:
        lazy = checks.probability(laziness, "laziness")
        stuck = graph.degrees == 0
        self.graph = graph
        # An isolated vertex keeps its walkers.
        self._stay = np.where(stuck, 1.0, lazy)
        self._share = np.where(stuck, 0.0, (1 - lazy) / np.maximum(graph.degrees, 1))

    def __call__(self, block: Doubles, away: NDArray[np.bool_] | None = None) -> Doubles:
        """Return the laws after this round; vertices that are ``away`` keep their walkers."""
        from incrowd.graphs._kernels import step

        if block.shape[0] != self.graph.n:
            raise InvalidGraph(
                f"a block of laws on {block.shape[0]} vertices does not fit a graph of "
                f"{self.graph.n}"
            )
        stay, share = self._stay, self._share
        if away is not None:
            stay, share = np.where(away, 1.0, stay), np.where(away, 0.0, share)
        out = np.empty_like(block)
        step(self.graph.indptr, self.graph.indices, stay, share, block, out)
        return out


def blocks(starts: NDArray[np.int64], n: int) -> Iterator[tuple[slice, Doubles]]:
    """Yield blocks of walkers at ``starts``, with the slice of ``starts`` that each covers."""
    for begin in range(0, starts.size, BLOCK):
        part = slice(begin, min(begin + BLOCK, starts.size))
        chosen = starts[part]
        block = np.zeros((n, chosen.size))
        block[chosen, np.arange(chosen.size)] = 1.0
        yield part, block


def over_blocks(
    task: Callable[[slice, Doubles], None],
    starts: NDArray[np.int64],
    n: int,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Call ``task`` with each of the :func:`blocks`, on all cores.

    Blocks must be independent. ``progress`` receives the blocks done and their total.
    """
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    total, done = -(-starts.size // BLOCK), 0
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[None]] = deque()

        def settle(most: int) -> None:
            nonlocal done
            while len(waiting) > most:
                waiting.popleft().result()
                done += 1
                if progress is not None:
                    progress(done, total)

        for part, block in blocks(starts, n):
            waiting.append(pool.submit(task, part, block))
            # Few blocks exist at a time: each is as large as the graph is.
            settle(2 * (workers or 1))
        settle(0)


def relative_error(graph: Graph, rounds: int) -> float:
    """Bound the relative rounding error of every entry after this many rounds."""
    # Per round: one rounding for each share, product and addition along the longest row; and as
    # much again for the law that the walk began with.
    return 1.01 * (rounds + 1) * (int(graph.degrees.max(initial=0)) + 4) * 2.0**-53
