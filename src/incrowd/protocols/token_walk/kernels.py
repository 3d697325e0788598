"""Compiled loops over walks, imported on first use: importing numba takes time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from incrowd.compiled import compiled

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

_LANES = 128  # observers that are followed together: their view of everyone stays in the cache


@compiled()
def accumulate(indptr: _Ints, weights: _Floats) -> _Floats:
    """Return the running sums of weights within each row."""
    upto = np.empty_like(weights)
    for row in range(indptr.size - 1):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += weights[entry]
            upto[entry] = total
    return upto


@compiled()
def follow(
    indptr: _Ints, indices: _Ints, upto: _Floats, at: int, draws: _Floats, path: _Ints
) -> int:
    """Write the holder before each draw into ``path``; return the holder after the last.

    ``upto`` are accumulated weights; the next holder is the first one above the draw.
    """
    for step in range(draws.size):
        path[step] = at
        low, high = indptr[at], indptr[at + 1] - 1
        wanted = draws[step] * upto[high]
        while low < high:
            middle = (low + high) >> 1
            if upto[middle] > wanted:
                high = middle
            else:
                low = middle + 1
        at = indices[low]
    return at


@compiled()
def first_visits(path: _Ints, visits: _Ints, cap: int) -> NDArray[np.bool_]:
    """Tell which visits are among the first ``cap`` of their person; ``visits`` counts on."""
    among = np.empty(path.size, dtype=np.bool_)
    for step in range(path.size):
        visits[path[step]] += 1
        among[step] = visits[path[step]] <= cap
    return among


@compiled()
def _share(
    order: _Ints, first: _Ints, observer: int, place: int, begun: int, steps: int, published: bool
) -> float:
    """One over the length of the stretch after ``begun``; 0 where the stretch is never seen.

    ``place`` is that of the observer's next visit in ``order``.
    """
    visited = place < first[observer + 1]
    if not visited and not published:
        return 0.0
    return 1.0 / max((order[place] if visited else steps) - begun - 1, 1)


@compiled()
def observe_all(
    path: NDArray[np.int32], order: _Ints, first: _Ints, published: bool, out: _Floats
) -> None:
    """Add to ``out[v, u]`` the loss Σ k²/m of u towards v over the stretches between v's visits.

    ``order[first[v] : first[v + 1]]`` are the visits of v, increasing; where the result is
    ``published`` everyone visits once more after the last step. A stretch of m steps with k of u
    adds 1/m, 3/m, 5/m, …. Many observers are followed together, so that each step is a short loop
    without branches over their view of its holder.
    """
    n, steps = out.shape[0], path.size
    before = np.empty(steps)  # when the holder of a step had the token last
    latest = np.full(n, -1.0)
    for t in range(steps):
        before[t] = latest[path[t]]
        latest[path[t]] = t
    lanes = min(n, _LANES)
    for begin in range(0, n, lanes):
        many = min(lanes, n - begin)
        seen, weight = np.zeros((n, lanes)), np.zeros((n, lanes))
        last, share = np.full(lanes, -1.0), np.zeros(lanes)
        coming = np.zeros(lanes, np.int64)
        for lane in range(many):
            v = begin + lane
            coming[lane] = first[v]
            share[lane] = _share(order, first, v, coming[lane], -1, steps, published)
        for t in range(steps):
            u = path[t]
            heavier, added, previous = weight[u], seen[u], before[t]
            for lane in range(lanes):
                # 1, 3, 5, … times the share, within a stretch of this observer.
                odd = heavier[lane] + 2.0 if previous > last[lane] else 1.0
                heavier[lane] = odd
                added[lane] += odd * share[lane]
            lane = u - begin
            if 0 <= lane < many:
                last[lane] = t
                coming[lane] += 1
                share[lane] = _share(order, first, u, coming[lane], t, steps, published)
        for lane in range(many):
            for u in range(n):
                out[begin + lane, u] += seen[u, lane]
            out[begin + lane, begin + lane] = 0.0
