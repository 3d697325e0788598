"""The compiled loops of walks, imported only when first used because importing numba takes time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

_Loop = TypeVar("_Loop", bound=Callable[..., Any])


def _compiled(loop: _Loop) -> _Loop:
    return cast(_Loop, numba.njit(cache=True, nogil=True)(loop))


@_compiled
def accumulate(indptr: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of each row, added up from its left."""
    upto = np.empty_like(weights)
    for row in range(indptr.size - 1):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += weights[entry]
            upto[entry] = total
    return upto


@_compiled
def follow(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    upto: NDArray[np.float64],
    at: int,
    draws: NDArray[np.float64],
    path: NDArray[np.int64],
) -> int:
    """Write down whoever holds the token before each of these draws; returns who does after.

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


@_compiled
def first_visits(path: NDArray[np.int64], visits: NDArray[np.int64], cap: int) -> NDArray[np.bool_]:
    """Whether each visit is among the first ``cap`` of its person; counts go on in ``visits``."""
    among = np.empty(path.size, dtype=np.bool_)
    for step in range(path.size):
        visits[path[step]] += 1
        among[step] = visits[path[step]] <= cap
    return among
