"""The compiled majority vote, imported only when first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["cast_votes"]

_Loop = TypeVar("_Loop", bound=Callable[..., Any])


def _compiled(loop: _Loop) -> _Loop:
    return cast(_Loop, numba.njit(cache=True, nogil=True)(loop))


@_compiled
def cast_votes(
    reports: NDArray[np.int64],
    neighbours: NDArray[np.int64],
    weights: NDArray[np.float64],
    found: NDArray[np.int64],
) -> None:
    """What most of each person's neighbours report, into ``found``; −1 where nobody can be asked.

    A vote for value v counts ``weights[v]``. A tie goes to the value that is met first in the list,
    that of the nearest neighbour.
    """
    people, most = neighbours.shape
    score = np.zeros(weights.size)
    for i in range(people):
        score[:] = 0.0
        best, winner = 0.0, -1
        for j in range(most):
            asked = neighbours[i, j]
            if asked >= 0:
                score[reports[asked]] += weights[reports[asked]]
        for j in range(most):
            asked = neighbours[i, j]
            if asked >= 0 and score[reports[asked]] > best:
                best, winner = score[reports[asked]], reports[asked]
        found[i] = winner
