"""The Rényi divergence of one shuffled Gaussian data set, by brute force over integer partitions.

E[(mean of n copies of X)^λ] with E[X^k] = e^{k(k−1)/(2σ²)}: the multinomial theorem, with equal
terms counted once per partition of λ, to 50 digits. And the number of terms alone, as a check.
"""

from __future__ import annotations

from collections import Counter
from math import factorial, perm, prod

import mpmath

from experiments.paper_check_in import partitions


def arrangements(parts: list[int], n: int) -> int:
    """How many of the n^λ products of copies have exactly these exponents, in any order."""
    ways = factorial(sum(parts)) // prod(factorial(part) for part in parts)
    repeats = prod(factorial(times) for times in Counter(parts).values())
    return ways * perm(n, len(parts)) // repeats


def exact_renyi(order: int, n: int, sigma: float) -> mpmath.mpf:
    with mpmath.workdps(50):
        twice = 2 * mpmath.mpf(sigma) ** 2
        total = mpmath.fsum(
            arrangements(parts, n) * mpmath.exp(sum(k * (k - 1) for k in parts) / twice)
            for parts in partitions(order)
        )
        return mpmath.log(total / mpmath.mpf(n) ** order) / (order - 1)
