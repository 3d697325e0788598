"""E[(G₁ + … + Gₙ)₊] by listing every outcome, for crowds small enough to list.

A sum of n independent draws from a law with k atoms has one outcome per way to share n draws among
the atoms. There are C(n+k−1, k−1) of them; up to a limit this is faster than anything clever and
exact but for rounding, which is added.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from incrowd.privacy.fourier import Bracket, SumLaw

__all__ = ["outcomes", "positive_part"]

_ROUNDING = 2.0**-53 * 64
_MOST_ATOMS = 12


def outcomes(law: SumLaw) -> int:
    """How many outcomes ``positive_part`` would list; too many atoms count as endless."""
    if law.value.size > _MOST_ATOMS:
        return sys.maxsize
    return math.comb(law.n + law.value.size, law.value.size)


def positive_part(law: SumLaw) -> Bracket:
    """Enclose E[S₊] by the sum over all outcomes, each within a few roundings."""
    if law.n == 1:
        alone = float(law.mass @ np.maximum(law.value, 0.0))
        slack = _ROUNDING * float(law.mass @ law.magnitude)
        return Bracket(max(alone - slack, 0.0), alone + slack)
    counts = _shares(law.n, law.value.size)
    rest = law.n - counts.sum(axis=1)
    missing = max(0.0, 1.0 - float(law.mass.sum()))
    # Mass below the rounding of the total is no zero atom, only the rounding of the masses.
    log_missing = math.log(missing) if missing > _ROUNDING else -math.inf
    log_chance = (
        gammaln(law.n + 1)
        - gammaln(counts + 1).sum(axis=1)
        - gammaln(rest + 1)
        + counts @ np.log(law.mass)
        + np.where(rest > 0, rest * log_missing if math.isfinite(log_missing) else -np.inf, 0.0)
    )
    chance = np.exp(log_chance)
    total = float(chance @ np.maximum(counts @ law.value, 0.0))
    slack = _ROUNDING * law.n * float(chance @ (counts @ law.magnitude))
    return Bracket(max(total - slack, 0.0), total + slack)


def _shares(n: int, atoms: int) -> NDArray[np.int64]:
    """All vectors of ``atoms`` counts with a sum of at most ``n``, one per row."""
    rows = np.zeros((1, 0), np.int64)
    for _ in range(atoms):
        left = n - rows.sum(axis=1)
        copies = left + 1
        start = np.repeat(np.cumsum(copies) - copies, copies)
        last = np.arange(copies.sum()) - start
        rows = np.column_stack([np.repeat(rows, copies, axis=0), last])
    return rows
