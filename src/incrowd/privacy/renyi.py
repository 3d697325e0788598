"""Rényi divergences, where they are asked for: conversion, sampling, and one exact family.

The guarantees of the library are curves δ(ε) and compose as losses, which is tighter; Rényi
divergences serve comparisons with published accountants.

* :func:`renyi_epsilon` turns divergences at several orders into an ε at one δ.
* :func:`sampled_excess` is what sampling without replacement leaves of a mechanism's moments.
* :func:`shuffled_gaussian_renyi` is the exact divergence, at all integer orders at once, of one
  shuffled data set under Gaussian noise: all hold 0 but for the victim, who holds 1 or 0. It bounds
  what the shuffled Gaussian mechanism can guarantee from *below*, and is never a guarantee.

See ``docs/theory/gaussian.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter

FloatArray = NDArray[np.float64]

_ROUNDING = 1e-12
MOST_ORDER = 2048
"""Beyond this order the coefficients would take too much memory."""
_LEAST_SIGMA, _MOST_SIGMA = 1e-6, 1e6


def renyi_epsilon(orders: Sequence[float], divergences: ArrayLike, delta: float) -> float:
    """The least ε that some order allows at this δ, rounded up and never below zero.

    A mechanism whose divergence of order λ is at most D is (ε, δ)-private with
    ε = D + (ln(1/δ) + (λ − 1)·ln(1 − 1/λ) − ln λ)/(λ − 1).
    """
    order = np.asarray(orders, np.float64)
    divergence = np.asarray(divergences, np.float64)
    if order.ndim != 1 or order.shape != divergence.shape or order.size == 0:
        raise InvalidParameter(
            f"orders and divergences must be equally many, got {order.size} and {divergence.size}"
        )
    if not (np.all(order > 1) and np.all(np.isfinite(order)) and np.all(divergence >= 0)):
        raise InvalidParameter("Rényi orders must be numbers above 1, and divergences at least 0")
    spent = (-math.log(checks.delta(delta)) - np.log(order)) / (order - 1) + np.log1p(-1 / order)
    size = np.abs(divergence) + np.abs(spent)
    found = divergence + spent + _ROUNDING * size
    return max(0.0, float(found.min()))


def sampled_excess(
    order: int,
    log_share: FloatArray,
    log_moment: Callable[[int], FloatArray],
    greatest_loss: float = math.inf,
) -> FloatArray:
    """ln(E[(P/Q)^λ] − 1) at a whole order λ ≥ 2 for a mechanism on a random sample, from above.

    A share q of the people is sampled without replacement, and one person is replaced: with M_j =
    e^{(j − 1)·D_j} the moment of order j of the mechanism, whose ``log_moment`` is given, and E the
    exponential of its greatest loss, the bound is Σ_j C(λ, j)·q^j·ζ_j, j from 2 to λ, where
    ζ_j = M_j·min{2, (E − 1)^j}, for j = 2 at most 4(M_2 − 1) ("Subsampled Rényi Differential
    Privacy and Analytical Moments Accountant", Wang, Balle, Kasiviswanathan).
    """
    from scipy.special import gammaln

    # ln(E − 1), which does not overflow for large E.
    log_top = math.inf
    if greatest_loss < math.inf:
        log_top = greatest_loss + math.log(-math.expm1(-greatest_loss))
    total = np.full(log_share.shape, -np.inf)
    for j in range(2, order + 1):
        moment = log_moment(j)
        log_zeta = moment + min(math.log(2), j * log_top)
        if j == 2:
            with np.errstate(divide="ignore"):
                less_one = moment + np.log(-np.expm1(-moment))
            log_zeta = np.minimum(log_zeta, math.log(4) + less_one)
        ways = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
        total = np.logaddexp(total, ways + j * log_share + log_zeta)
    return total


def shuffled_gaussian_renyi(orders: Sequence[int], *, n: int, sigma: float) -> FloatArray:
    """D_λ(mixture ‖ product) at whole orders λ ≥ 2: a lower bound of the mechanism, no guarantee.

    The victim's 1, shuffled among n − 1 zeros, against n zeros, each plus N(0, σ²): the likelihood
    ratio is the mean of n independent copies of X = e^{Z/σ − 1/(2σ²)}, whose moments are
    E[X^m] = e^{m(m − 1)/(2σ²)}. For values in a ball of radius C, noise σ·C and one value replaced,
    the pair at distance 2C is given by ``sigma`` = σ/2.
    """
    top = max((checks.integer(order, "a Rényi order", 2) for order in orders), default=2)
    if top > MOST_ORDER:
        raise InvalidParameter(f"a Rényi order must be at most {MOST_ORDER}, got {top}")
    if not _LEAST_SIGMA <= checks.number(sigma, "sigma") <= _MOST_SIGMA:
        raise InvalidParameter(
            f"sigma must lie between {_LEAST_SIGMA:g} and {_MOST_SIGMA:g}, got {sigma!r}",
            field="sigma",
        )
    excess = _mean_excess(_one_excess(top, sigma), checks.crowd(n))
    return np.array([np.logaddexp(0.0, excess[order]) / (order - 1) for order in orders])


def _one_excess(top: int, sigma: float) -> FloatArray:
    """ln(E[X^m] − 1) for m up to ``top``; minus infinity for 0 and 1."""
    m = np.arange(top + 1)
    grown = m * (m - 1) / (2 * sigma**2)
    with np.errstate(divide="ignore"):
        found: FloatArray = grown + np.log(-np.expm1(-grown))
    return found


def _mean_excess(one: FloatArray, n: int) -> FloatArray:
    """The same for the mean of ``n`` copies, by doubling.

    The mean of a + b copies mixes those of a and of b: with moments A and B, its own of order m is
    Σ_k Bin(m, a/(a + b))(k)·A_k·B_{m−k}. In excesses α = A − 1 and β = B − 1 that is
    Σ_k Bin(k)·(α_k + β_{m−k} + α_k·β_{m−k}), a sum of positive terms: nothing cancels, however
    small the divergence and whatever n.
    """
    found, copies = one, 1
    for bit in bin(n)[3:]:
        found, copies = _joined(found, found, 0.5), 2 * copies
        if bit == "1":
            found, copies = _joined(found, one, copies / (copies + 1)), copies + 1
    return found


def _joined(left: FloatArray, right: FloatArray, share: float) -> FloatArray:
    """Excesses of a mean of which ``share`` of the copies are on the left."""
    from scipy.special import gammaln

    m = np.arange(left.size)
    found = np.full(left.size, -np.inf)
    factorial = gammaln(m + 1.0)
    ours, theirs = m * math.log(share) - factorial, m * math.log1p(-share) - factorial
    for order in range(2, left.size):
        a, b = left[: order + 1], right[order::-1]
        terms = np.logaddexp(np.logaddexp(a, b), a + b) + ours[: order + 1] + theirs[order::-1]
        peak = terms.max()
        found[order] = factorial[order] + peak + math.log(np.exp(terms - peak).sum())
    return found
