"""Displacement of ranks by a Mallows permutation: the law of τ(k) − k, and its mean size.

*Finite n, exactly.* With l larger ranks before the one at place k and r = j − k + l smaller ones
behind it,

    Pr[τ(k) = j] = Σ_l q^(rl + r + l)·[j, r]·[n − 1 − j, l]·[k]!·[n − 1 − k]!/[n]!

for q = e^−θ, in q-factorials [m]! and q-binomials [m, r], ranks from 0.

*No end in sight* (n → ∞). D = r − l with Pr[r, l] = (1 − q)·(q)_∞·q^(rl + r + l)/((q)_r·(q)_l),
and (q)_m = (1 − q)⋯(1 − q^m). For small θ it is a logistic law of scale 1/θ, with
E|D| = 2 ln 2/θ − 1/4 − 5θ/96 + ….

*Small θ ~ β/n.* E|D|/n tends to I(β) = ∬|x − y|·u(x, y) over the unit square, with the density

    u(x, y) = (β/2)·sinh(β/2)/(e^(β/4)·cosh(β(x − y)/2) − e^(−β/4)·cosh(β(x + y − 1)/2))².

I(β) = 2 ln 2/β − (π²/3 − 2 ln² 2)/β² up to terms that vanish exponentially: the second term is
what the two ends of the order take away.

Proofs, and what is a limit only: ``docs/theory/mallows.md``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.order_shuffle.samplers.hamming import checked_theta, expected_moved

FloatArray = NDArray[np.float64]

_SUMMED: Final = 128
"""Crowds up to this size are summed exactly."""
_FAR: Final = 40.0
"""Ends of the order that are so many 1/θ apart do not feel each other: e^−40."""
_NEGLIGIBLE: Final = 45.0
"""Terms of a series below e^−45 are left out."""
_SMALL: Final = 0.05
_SLIGHT: Final = 1e-4
_NODES: Final = 64
_LOGISTIC: Final = 2 * math.log(2)
_ENDS: Final = math.pi**2 / 3 - 2 * math.log(2) ** 2
_LEAST_LAW: Final = 1e-3


@lru_cache(maxsize=256)
def expected_displacement(n: int, theta: float, distance: str = "kendall") -> float:
    """The mean of |τ(k) − k| over the ranks k and the draws of τ.

    Hamming, and Kendall for n ≤ 128 or θ ≥ 5/16: exact up to rounding. Otherwise a limit law with
    its first corrections, which is within 0.1 % of the truth.
    """
    n, theta = checks.crowd(n), checked_theta(theta)
    if distance == "hamming":
        # A moved rank goes anywhere else with equal chances, (n + 1)/3 away in the mean.
        return expected_moved(n, theta) / n * (n + 1) / 3
    if distance != "kendall":
        raise InvalidParameter(
            f"distance must be kendall or hamming, got {distance!r}", field="distance"
        )
    if math.isinf(theta):
        return 0.0
    if n <= _SUMMED:
        return _mean_of(rank_law(n, theta))
    if theta * _SUMMED >= _FAR:
        # Each end adds the same to the sum over ranks, however many there are between.
        return (_SUMMED * _mean_of(rank_law(_SUMMED, theta)) + (n - _SUMMED) * _bulk(theta)) / n
    beta = n * theta
    if beta == 0:
        return (n - 1 / n) / 3
    lattice = _bulk(theta) - _LOGISTIC / theta
    # Ranks are whole numbers: that counts in the middle, and not where all is nearly uniform.
    return n * _share(beta) + lattice * _langevin(beta / 2)


def rank_law(n: int, theta: float) -> FloatArray:
    """Pr[τ(k) = j] for all k and j, exactly: time n³, for n up to some hundreds."""
    n, theta = checks.crowd(n), checked_theta(theta)
    if math.isinf(theta):
        return np.eye(n)
    logs = _log_factorials(n, theta)
    k, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    law = np.zeros((n, n))
    for larger in range(n):
        smaller = j - k + larger
        possible = (larger <= np.minimum(k, n - 1 - j)) & (smaller >= 0)
        place, rank = np.nonzero(possible)
        less = rank - place + larger
        law[place, rank] += np.exp(
            -theta * (less * larger + less + larger)
            + logs[rank]
            - logs[less]
            - logs[rank - less]
            + logs[n - 1 - rank]
            - logs[larger]
            - logs[n - 1 - rank - larger]
            + logs[place]
            + logs[n - 1 - place]
            - logs[n]
        )
    return law


def displacement_law(theta: float) -> FloatArray:
    """Pr[|τ(k) − k| = d] for d = 0, 1, … far from both ends of a long order, for θ ≥ 0.001.

    What is left out beyond the last d weighs less than 1e-18.
    """
    if checked_theta(theta) < _LEAST_LAW:
        raise InvalidParameter(
            f"theta must be at least {_LEAST_LAW} here, got {theta!r}: below, the displacement is"
            " logistic with scale 1/theta",
            field="theta",
        )
    if math.isinf(theta):
        return np.ones(1)
    reach = int(_NEGLIGIBLE / theta) + 20
    powers = np.log(-np.expm1(-theta * np.arange(1.0, 2 * reach)))
    upto = np.concatenate([[0.0], np.cumsum(powers)])
    front = float(powers.sum()) + math.log(-math.expm1(-theta))
    law = np.zeros(reach + 1)
    smaller = np.arange(reach + 1)
    for larger in range(reach + 1):
        chance = np.exp(
            front - theta * (smaller * larger + smaller + larger) - upto[smaller] - upto[larger]
        )
        away = np.abs(smaller - larger)
        law += np.bincount(away, weights=chance, minlength=reach + 1)
    return law


def _mean_of(law: FloatArray) -> float:
    ranks = np.arange(len(law))
    return float((law * np.abs(ranks[:, None] - ranks)).sum() / len(law))


def _log_factorials(n: int, theta: float) -> FloatArray:
    """The logarithm of [m]! for m = 0, …, n."""
    i = np.arange(1.0, n + 1)
    if theta < 1e-300:
        return np.asarray(gammaln(np.arange(n + 1) + 1.0))
    steps = np.log(np.expm1(-theta * i) / math.expm1(-theta))
    return np.concatenate([[0.0], np.cumsum(steps)])


@lru_cache(maxsize=64)
def _bulk(theta: float) -> float:
    """E|D| far from both ends."""
    if theta < _SMALL:
        return _LOGISTIC / theta - 0.25 - 5 * theta / 96
    law = displacement_law(theta)
    return float(law @ np.arange(law.size))


def _share(beta: float) -> float:
    """I(β)."""
    if beta < _SLIGHT:
        return 1 / 3 - beta / 30
    if beta > _FAR:
        return _LOGISTIC / beta - _ENDS / beta**2
    # Over s = |x − y| and m = |x + y − 1|, where the density is smooth.
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    nodes, weights = (nodes + 1) / 2, weights / 2
    s = nodes[:, None]
    m = (1 - s) * nodes
    base = math.exp(beta / 4) * np.cosh(beta * s / 2) - math.exp(-beta / 4) * np.cosh(beta * m / 2)
    density = beta / 2 * math.sinh(beta / 2) / base**2
    return float(2 * weights @ (s * (1 - s) * density) @ weights)


def _langevin(y: float) -> float:
    """The difference of coth y and 1/y."""
    return y / 3 if y < 1e-3 else 1 / math.tanh(y) - 1 / y
