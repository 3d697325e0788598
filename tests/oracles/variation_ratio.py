"""The printed variation-ratio bound and an exact attack on k-ary randomized response.

The bound is kept here, away from the library, because it is false for three or more categories
(docs/theory/variation_ratio.md). Both sides are plain sums of multinomial probabilities.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, xlogy


def exact_variation_ratio(k: int, E: Fraction, n: int, t: Fraction) -> Fraction:
    """The variation-ratio δ of k-RR in rational arithmetic: only the counts of 0 and 1 are seen."""
    r = 1 / (E + k - 1)
    hidden = 1 - r - E * r

    def others(zeros: int, ones: int) -> Fraction:
        if zeros < 0 or ones < 0 or zeros + ones > n - 1:
            return Fraction(0)
        ways = comb(n - 1, zeros) * comb(n - 1 - zeros, ones)
        return ways * r ** (zeros + ones) * (1 - 2 * r) ** (n - 1 - zeros - ones)

    total = Fraction(0)
    for zeros in range(n + 1):
        for ones in range(n + 1 - zeros):
            left, right = others(zeros - 1, ones), others(zeros, ones - 1)
            same = hidden * others(zeros, ones)
            P, Q = E * r * left + r * right + same, r * left + E * r * right + same
            total += max(Fraction(0), P - t * Q)
    return total


def _log_multinomial(counts: list[np.ndarray], chances: list[float]) -> np.ndarray:
    total = np.asarray(sum(counts), dtype=float)
    value = gammaln(total + 1)
    for count, chance in zip(counts, chances, strict=True):
        value = value - gammaln(count + 1.0) + xlogy(count, chance)
    return value


def _reach(n: int, chance: float, sds: float) -> tuple[int, int]:
    spread = sds * np.sqrt(n * chance * (1 - chance)) + sds
    return max(0, int(n * chance - spread)), min(n, int(n * chance + 1.5 * spread) + 1)


def variation_ratio_delta(k: int, epsilon0: float, n: int, epsilon: float) -> float:
    """The variation-ratio δ of k-RR in double precision, for large n."""
    E, t = np.exp(epsilon0), np.exp(epsilon)
    r = 1 / (E + k - 1)
    low, high = _reach(n - 1, r, 12)
    zeros, ones = np.meshgrid(np.arange(low, high + 2), np.arange(low, high + 2), indexing="ij")

    def others(zeros: np.ndarray, ones: np.ndarray) -> np.ndarray:
        rest = n - 1 - zeros - ones
        valid = (zeros >= 0) & (ones >= 0) & (rest >= 0)
        counts = [np.where(valid, each, 0) for each in (zeros, ones, rest)]
        return np.where(valid, np.exp(_log_multinomial(counts, [r, r, 1 - 2 * r])), 0.0)

    left, right = others(zeros - 1, ones), others(zeros, ones - 1)
    same = (1 - r - E * r) * others(zeros, ones)
    P, Q = E * r * left + r * right + same, r * left + E * r * right + same
    return float(np.maximum(0.0, P - t * Q).sum())


def variation_ratio_epsilon(k: int, epsilon0: float, n: int, delta: float) -> float:
    """The ε that the variation-ratio bound certifies at this δ."""

    def excess(epsilon: float) -> float:
        return np.log(max(variation_ratio_delta(k, epsilon0, n, epsilon), 1e-300) / delta)

    return float(brentq(excess, 0.0, epsilon0, xtol=1e-10))


def attack_delta(k: int, epsilon0: float, n: int, epsilon: float) -> float:
    """The true δ of k-RR (k ≥ 3) when all others hold the value 2, summed from below.

    Each term ``(ΣG)₊·Pr`` is non-negative, so cutting the sum off can only lower it.
    """
    E, t = np.exp(epsilon0), np.exp(epsilon)
    z = E + k - 1
    low, high = _reach(n, 1 / z, 9)
    first, last = _reach(n, (k - 3) / z, 7) if k > 3 else (0, 0)
    ones, common = np.meshgrid(np.arange(low, high + 1), np.arange(first, last + 1), indexing="ij")
    chances = [1 / z, 1 / z, (k - 3) / z, E / z]
    total = 0.0
    for zeros in range(low, high + 1):
        rest = n - zeros - ones - common
        height = zeros * (E - t) + ones * (1 - E * t) + (common + rest / E) * (1 - t)
        use = (height > 0) & (rest >= 0)
        counts = [np.full(use.sum(), zeros), ones[use], common[use], rest[use]]
        total += float(height[use] @ np.exp(_log_multinomial(counts, chances)))
    return total / n
