"""E[(G₁ + … + Gₙ)₊] by listing every outcome, for crowds small enough to list.

A sum of n independent draws from a law with k atoms has one outcome per way to share n draws among
the atoms. There are C(n+k−1, k−1) of them; up to a limit this is faster than anything clever and
exact but for rounding, which is added. Where few of many draws are expected to be anything but
zero, outcomes with far more of them are left out, and what they could add is charged.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from incrowd.privacy.fourier import Bracket, SumLaw

FloatArray = NDArray[np.float64]

_ROUNDING = 2.0**-53 * 64
_MOST_ATOMS = 12


def outcomes(law: SumLaw) -> int:
    """How many outcomes ``positive_part`` would list; too many atoms count as endless."""
    if law.value.size > _MOST_ATOMS:
        return sys.maxsize
    return math.comb(_most(law.n, _expected(law)) + law.value.size, law.value.size)


def _expected(law: SumLaw) -> float:
    """How many draws are expected not to be zero."""
    return law.n * min(1.0, float(law.mass.sum()))


def _most(n: int, expected: float) -> int:
    """More draws than this are not zero with a probability far below any that is asked for."""
    return min(n, math.ceil(expected + 40 * math.sqrt(expected) + 40))


def _left_out(n: int, expected: float, most: int) -> float:
    """At most E[K; K > most] for K binomial with this mean, by Chernoff's inequality."""
    if most >= n:
        return 0.0
    # E[K; K > k] = mean · Pr[one draw fewer ≥ k], and Pr[K ≥ k] ≤ e^(k − m)·(m/k)^k for k > m.
    log_chance = most - expected + most * math.log(max(expected, 1e-300) / most)
    return expected * math.exp(max(-700.0, log_chance))


def positive_part(law: SumLaw) -> Bracket:
    """Enclose E[S₊] by the sum over all outcomes, each within a few roundings."""
    if law.n == 1:
        alone = float(law.mass @ np.maximum(law.value, 0.0))
        slack = _ROUNDING * float(law.mass @ law.magnitude)
        return Bracket(max(alone - slack, 0.0), alone + slack)
    expected = _expected(law)
    most = _most(law.n, expected)
    counts, chance = _all_outcomes(law.n, most, law.mass.tobytes())
    value = _combined(counts, law.value)
    total = float(np.sum(chance * np.maximum(value, 0.0)))
    # Chances carry the rounding of logarithms of the size of n·log n; values that of their terms,
    # which matters only where a value may be positive.
    doubt = _ROUNDING * _combined(counts, law.magnitude)
    slack = _ROUNDING * law.n * math.log(law.n + 2) * total
    slack += float(np.where(value > -doubt, chance * doubt, 0.0).sum())
    beyond = float(law.magnitude.max(initial=0.0)) * _left_out(law.n, expected, most)
    return Bracket(max(total - slack, 0.0), total + slack + beyond)


@lru_cache(maxsize=16)
def _all_outcomes(n: int, most: int, masses: bytes) -> tuple[FloatArray, FloatArray]:
    """Counts, a row per atom, at most so many in all, and chances; kept, as a curve asks often."""
    mass = np.frombuffer(masses)
    counts = _shares(most, mass.size)
    rest = n - counts.sum(axis=1)
    missing = max(0.0, 1.0 - float(mass.sum()))
    # Mass below the rounding of the total is no zero atom, only the rounding of the masses.
    log_missing = math.log(missing) if missing > _ROUNDING else -math.inf
    log_chance = (
        gammaln(n + 1)
        - gammaln(counts + 1).sum(axis=1)
        - gammaln(rest + 1)
        + counts @ np.log(mass)
        + np.where(rest > 0, rest * log_missing if math.isfinite(log_missing) else -np.inf, 0.0)
    )
    likely = log_chance > -np.inf
    return np.ascontiguousarray(counts[likely].T, np.float64), np.exp(log_chance[likely])


def _combined(counts: FloatArray, atoms: FloatArray) -> FloatArray:
    """Σ count·atom for every outcome, without BLAS, whose threads cost more than they save here."""
    total = counts[0] * atoms[0]
    for row, atom in zip(counts[1:], atoms[1:], strict=True):
        total += row * atom
    return np.asarray(total)


def listing(mass: FloatArray, n: int) -> tuple[NDArray[np.int64], FloatArray]:
    """All outcomes of n draws from a law of total mass one: counts per atom, and their chances."""
    free = _shares(n, mass.size - 1)
    counts = np.column_stack([free, n - free.sum(axis=1)])
    log_chance = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1) + counts @ np.log(mass)
    return counts, np.exp(log_chance)


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
