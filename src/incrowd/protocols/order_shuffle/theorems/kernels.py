"""The compiled loops over groups and over losses, imported only when first used.

* Members of groups: sums of distances from the median rank, found by partition in linear time, and
  sensitivities to few values, from sorted ranks.
* The chance to lose people of a set: both sums run over terms that are positive and log-concave, so
  that they are taken from their largest term outwards, by the ratios of neighbours, until what is
  left is below a geometric series that does not count. What that leaves out, and all rounding, is
  added to the result.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from incrowd.compiled import compiled

IntArray = NDArray[np.int64]

_UNIT = 2.0**-53
_NEGLIGIBLE = 2.0**-60
_ROUNDING = 16 * _UNIT
"""More than the share by which the logarithm of a factorial, or of x, or a sum of them is off."""


@compiled()
def spreads(indptr: IntArray, members: IntArray, ranks: IntArray, out: IntArray) -> None:
    """Put the sum of |rank − median| over the members of each group into ``out``."""
    for group in range(out.size):
        size = indptr[group + 1] - indptr[group]
        half = size // 2
        held = np.partition(ranks[members[indptr[group] : indptr[group + 1]]], half)
        # Of an odd number the middle one stands at ``half``, and counts for nothing.
        out[group] = held[half + size % 2 :].sum() - held[:half].sum()


@compiled()
def few_valued(
    indptr: IntArray, members: IntArray, ranks: IntArray, values: int, out: IntArray
) -> None:
    """Put the sensitivity of each group to reports of three or more values into ``out``.

    One value, that of the gaps, is held by e members, and the m − e others share the rest evenly;
    e grows as long as that separates more pairs than it takes away at the gaps in the middle.
    """
    for group in range(out.size):
        held = np.sort(ranks[members[indptr[group] : indptr[group + 1]]])
        size = held.size
        share, over = size // (values - 1), size % (values - 1)
        same = (values - 1) * (share * (share - 1) // 2) + over * share
        total = size * (size - 1) // 2 - same
        for r in range(1, size):
            total += 2 * (held[r] - held[r - 1] - 1) * min(r, size - r)
        e = 0
        while True:
            gained = (size - e + values - 2) // (values - 1) - 1 - e
            first, last = (size - e + 1) // 2, (size + e) // 2
            taken = held[last] - held[first - 1] - (last - first + 1) if first <= last else 0
            if gained <= taken:
                break
            total += gained - taken
            e += 1
        out[group] = total


@compiled()
def spans(indptr: IntArray, members: IntArray, ranks: IntArray, out: IntArray) -> None:
    """Put the last rank less the first, of each group, into ``out``."""
    for group in range(out.size):
        held = ranks[members[indptr[group] : indptr[group + 1]]]
        out[group] = held.max() - held.min()


@compiled()
def _log_factorial(n: int) -> float:
    return math.lgamma(n + 1.0)


@compiled()
def _log_ways(total: int, chosen: int) -> float:
    return _log_factorial(total) - _log_factorial(chosen) - _log_factorial(total - chosen)


@compiled()
def _log_sum(total: int, lost: int, x: float) -> tuple[float, float]:
    """The logarithm of Σ_q C(N − j, q)·x^q·(N − q)!, q = 0 … N − j, and how far it may be off.

    Terms that are left out are part of that.
    """
    kept = total - lost
    if x == 0.0:
        return _log_factorial(total), _ROUNDING * (_log_factorial(total) + 1.0)
    # The ratio of a term to the one before falls with q: the largest is where it passes one.
    start, end = 0, kept
    while start < end:
        q = (start + end) // 2
        if x * ((kept - q) / (q + 1.0) / (total - q)) > 1.0:
            start = q + 1
        else:
            end = q
    log_x = math.log(x)
    peak = _log_ways(kept, start) + start * log_x + _log_factorial(total - start)
    off = start * (abs(log_x) + 1.0) + 4.0 * _log_factorial(total) + 1.0
    sum_, term, q = 1.0, 1.0, start
    while q < kept:
        ratio = x * ((kept - q) / (q + 1.0) / (total - q))
        term *= ratio
        sum_ += term
        q += 1
        if ratio < 1.0 and term * ratio <= _NEGLIGIBLE * (1.0 - ratio):
            break
    steps = q - start
    term, q = 1.0, start
    while q > 0:
        ratio = (total - q + 1.0) / x * (q / (kept - q + 1.0))
        term *= ratio
        sum_ += term
        q -= 1
        if ratio < 1.0 and term * ratio <= _NEGLIGIBLE * (1.0 - ratio):
            break
    steps += start - q
    return peak + math.log(sum_), _ROUNDING * (off + steps) + 2 * _NEGLIGIBLE


@compiled()
def _log_term(n: int, size: int, lost: int, x: float) -> tuple[float, float]:
    """The logarithm of C(l, j)·C(n − l, j)·U_(l, j)·U_(n − l, j), and how far it may be off."""
    value, off = 0.0, 0.0
    for part in (size, n - size):
        log_sum, doubt = _log_sum(part, lost, x)
        value += _log_ways(part, lost) + log_sum
        off += doubt + _ROUNDING * (4.0 * _log_factorial(part) + abs(log_sum) + 1.0)
    return value, off


@compiled()
def log_lost(n: int, size: int, least: int, x: float) -> float:
    """The logarithm of the chance to lose at least so many of a set, rounded up.

    0 < ``least`` ≤ min(size, n − size), and 0 ≤ ``x`` = e^θ − 1 ≤ 1e304.
    """
    most = min(size, n - size)
    start, end = least, most
    while start < end:
        lost = (start + end) // 2
        if _log_term(n, size, lost + 1, x)[0] > _log_term(n, size, lost, x)[0]:
            start = lost + 1
        else:
            end = lost
    peak, off = _log_term(n, size, start, x)
    sum_, steps = 1.0, 0
    for way in (1, -1):
        lost, before = start, peak
        while least <= lost + way <= most:
            lost += way
            value, doubt = _log_term(n, size, lost, x)
            off = max(off, doubt)
            steps += 1
            term, ratio = math.exp(value - peak), math.exp(value - before + 2.0 * off)
            sum_ += term
            before = value
            if ratio < 1.0 and term * ratio <= _NEGLIGIBLE * (1.0 - ratio):
                break
    everything, doubt = _log_sum(n, 0, x)
    value = peak + math.log(sum_) - everything
    rounding = _ROUNDING * (abs(peak) + abs(everything) + steps + 4.0) + 4 * _NEGLIGIBLE
    return min(0.0, value + off + doubt + rounding)
