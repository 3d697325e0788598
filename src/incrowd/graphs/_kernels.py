"""Compiled loops over graphs, imported only when first used because importing numba takes time.

They release the interpreter's lock, so that each thread can work on its own block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from incrowd.compiled import compiled

Doubles = NDArray[np.float64]


@compiled()
def step(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    stay: Doubles,
    share: Doubles,
    block: Doubles,
    out: Doubles,
) -> None:
    """Advance many laws, one per column: ``out[v] = stay[v]·block[v] + Σ share[u]·block[u]``.

    The sum is over the neighbours u of v; ``share[u]`` is the chance of moving from u to one given
    neighbour.
    """
    columns = block.shape[1]
    for v in range(indptr.size - 1):
        row = out[v]
        kept = stay[v]
        for c in range(columns):
            row[c] = kept * block[v, c]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            weight = share[u]
            if weight > 0.0:
                for c in range(columns):
                    row[c] += weight * block[u, c]


@compiled()
def overhang(
    block: Doubles,
    reference: Doubles,
    levels: Doubles,
    doubt: float,
    excess: Doubles,
    least: Doubles,
    collision: Doubles,
) -> None:
    """Compare each column of ``block`` with a reference law; adds to and lowers the outputs.

    Per column: ``excess[c, k] += Σ (P − (1 + levels[k])·reference)₊``, ``least[c]`` becomes the
    least ratio P/reference where the reference is positive, ``collision[c] += Σ P²``. ``levels``
    rise. ``doubt`` is the relative error of P, charged to the excess; the caller charges it to the
    other two.
    """
    rows, columns = block.shape
    first = (1.0 + levels[0]) * (1.0 - doubt)
    for v in range(rows):
        base = reference[v]
        for c in range(columns):
            p = block[v, c]
            collision[c] += p * p
            if base > 0.0:
                least[c] = min(least[c], p / base)
            if p > first * base:
                for k in range(levels.size):
                    over = p * (1.0 + doubt) - (1.0 + levels[k]) * base
                    if over <= 0.0:
                        break
                    excess[c, k] += over
