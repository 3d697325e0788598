"""The compiled loop over a path, imported only when first used: importing numba takes time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

_Loop = TypeVar("_Loop", bound=Callable[..., Any])


def _compiled(loop: _Loop) -> _Loop:
    return cast(_Loop, numba.njit(cache=True, nogil=True)(loop))


_TOGETHER = 128
"""Observers that are followed at once: what they have seen of everyone stays in the cache."""
_ROOM = 1 << 31
"""More than the visits of anyone; the number of a stretch and a count share one word."""


@_compiled
def observe(
    path: NDArray[np.int32],
    visits: NDArray[np.int64],
    reads: bool,
    count: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Add to ``out[u]`` what one observer sees of u in the stretches that end at its ``visits``.

    A stretch of m steps with k of u adds k²/m, as 1/m, 3/m, 5/m, …; where contributions read the
    token it adds k. ``count`` is room for each person, and starts at zero.
    """
    start = 0
    for j in range(visits.size):
        end = visits[j]
        if reads:
            for t in range(start, end):
                out[path[t]] += 1.0
        else:
            # A count of an earlier stretch is below that of any in this one.
            none, share = j * _ROOM, 1.0 / max(end - start, 1)
            for t in range(start, end):
                u = path[t]
                k = max(count[u] - none, 0)
                out[u] += (2 * k + 1) * share
                count[u] = none + k + 1
        start = end + 1


@_compiled
def _share(
    order: NDArray[np.int64],
    first: NDArray[np.int64],
    observer: int,
    place: int,
    begun: int,
    steps: int,
    published: bool,
    reads: bool,
) -> float:
    """What one contribution counts in the stretch after ``begun``; nothing where it is not seen.

    ``place`` is that of the observer's next visit in ``order``.
    """
    visited = place < first[observer + 1]
    if not visited and not published:
        return 0.0
    length = (order[place] if visited else steps) - begun - 1
    return 1.0 if reads else 1.0 / max(length, 1)


@_compiled
def observe_all(
    path: NDArray[np.int32],
    order: NDArray[np.int64],
    first: NDArray[np.int64],
    published: bool,
    reads: bool,
    out: NDArray[np.float64],
) -> None:
    """The same for every observer: row v of ``out`` is what v sees.

    ``order[first[v] : first[v + 1]]`` are the visits of v, increasing; where the result is
    ``published`` everyone visits once more after the last step. Many observers are followed at
    once, so that each step is a short loop without branches over what they have seen of its holder.
    """
    n, steps = out.shape[0], path.size
    before = np.empty(steps)  # when the holder of a step had the token last
    latest = np.full(n, -1.0)
    for t in range(steps):
        before[t] = latest[path[t]]
        latest[path[t]] = t
    lanes = min(n, _TOGETHER)
    more = 0.0 if reads else 2.0
    for begin in range(0, n, lanes):
        many = min(lanes, n - begin)
        seen, weight = np.zeros((n, lanes)), np.zeros((n, lanes))
        last, share = np.full(lanes, -1.0), np.zeros(lanes)
        coming = np.zeros(lanes, np.int64)
        for lane in range(many):
            v = begin + lane
            coming[lane] = first[v]
            share[lane] = _share(order, first, v, coming[lane], -1, steps, published, reads)
        for t in range(steps):
            u = path[t]
            heavier, added, previous = weight[u], seen[u], before[t]
            for lane in range(lanes):
                # 1, 3, 5, … times the share, within a stretch of this observer.
                odd = heavier[lane] + more if previous > last[lane] else 1.0
                heavier[lane] = odd
                added[lane] += odd * share[lane]
            lane = u - begin
            if 0 <= lane < many:
                last[lane] = t
                coming[lane] += 1
                share[lane] = _share(order, first, u, coming[lane], t, steps, published, reads)
        for lane in range(many):
            for u in range(n):
                out[begin + lane, u] += seen[u, lane]
            out[begin + lane, begin + lane] = 0.0
