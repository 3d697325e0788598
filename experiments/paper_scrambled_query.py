"""What the paper on scramblers prints, as it is printed: for comparison only.

"Mitigating Leakage from Data Dependent Communications in Decentralized Computing using Differential
Privacy" (Ladjel, Anciaux, Bellet, Scerri). Theorem 2 holds. Theorem 3 and the form of Bennett's
inequality in Lemma 3 state less than is given away (``docs/theory/scrambler.md``); Theorem 4, taken
literally, is negative, because its a = 1 − e^ε is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import binom

__all__ = [
    "paper_bennett_delta",
    "paper_bennett_epsilon",
    "paper_kmeans",
    "paper_theorem_3",
    "paper_theorem_4_delta",
]

FloatArray = NDArray[np.float64]

_GRID, _AT_ONCE = 1e-4, 500


def paper_theorem_3(targets: int, sampling: float, sources: int, dummies: int) -> float:
    """ε of a capped scrambler.

    It weighs numbers of dummies as if the cap changed nothing, and lacks a division by n − k. Lies
    go to one of the other targets here.
    """
    keep, lie = 1 - sampling, sampling / (targets - 1)
    k = np.arange(dummies + 1)
    weight = _log_choose(dummies, k) + _log_choose(sources - 1, k) + k * math.log(keep / lie)
    above = logsumexp(weight, b=keep + k * lie**2 / keep)
    below = logsumexp(weight, b=lie + k * lie**2 / keep)
    return float(above - below)


def _log_choose(n: int, k: NDArray[np.int64]) -> FloatArray:
    with np.errstate(divide="ignore"):
        ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(np.maximum(n - k, 0) + 1)
    return np.where(k > n, -np.inf, ways)


def paper_theorem_4_delta(
    epsilon: float, targets: int, sampling: float, sources: int, dummies: int
) -> float:
    """δ by Theorem 4, with its a = 1 − e^ε: negative, so that every δ would do."""
    a = 1 - math.exp(epsilon)
    b = (1 - sampling) * targets * (1 + math.exp(epsilon)) - 2 * sampling * a
    m = np.arange(1, sources + 1)
    terms = m + dummies
    chance = binom.pmf(m, sources, sampling)
    bound = b**2 / (4 * a) * np.exp(-2 * terms * a**2 / b**2)
    return float(np.sum(m / terms * chance * bound) / (sampling * sources))


def paper_bennett_delta(
    epsilon: FloatArray, targets: int, sampling: float, sources: int, dummies: int
) -> FloatArray:
    """δ by Bennett's inequality as Lemma 3 has it, with a factor 1/(a·(m + d)) too many.

    The largest value of a term is the right one here, where Lemma 5 has a wrong sign, so that this
    factor alone makes the difference. ε must be below that of one message alone.
    """
    odds = np.exp(epsilon)[:, None]
    a = odds - 1
    top = (1 - sampling) * targets - sampling * a
    square = sampling * (2 - sampling) * a**2 + (1 - sampling) ** 2 * targets * (1 + odds**2)
    u = a * top / square
    phi = (1 + u) * np.log1p(u) - u
    others = np.arange(sources) if sampling else np.zeros(1)
    terms = others + dummies + 1
    bound = top / (a * terms * np.log1p(u)) * np.exp(-terms * square / top**2 * phi)
    found: FloatArray = (bound / terms) @ binom.pmf(others, sources - 1, sampling)
    return found


def paper_bennett_epsilon(
    targets: int, sampling: float, sources: int, dummies: int, delta: float
) -> float | None:
    """The first ε of a fine grid with that δ; none below the ε0 of one message alone."""
    local = math.log1p((1 - sampling) * targets / sampling) if sampling else 10.0
    grid = np.arange(_GRID, local - _GRID, _GRID)
    for first in range(0, grid.size, _AT_ONCE):
        some = grid[first : first + _AT_ONCE]
        within = paper_bennett_delta(some, targets, sampling, sources, dummies) <= delta
        if within.any():
            return float(some[within.argmax()])
    return None


def paper_kmeans(epsilon: float, iterations: int) -> float:
    """ε of all iterations from that of one scrambler: later routes depend on everybody's tuple."""
    return iterations * epsilon
