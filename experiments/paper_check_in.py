"""What the paper on shuffled check-in prints, for comparison only.

*Privacy Amplification via Shuffled Check-Ins*, by Seng Pei Liew,
Satoshi Hasegawa and Tsubasa Takahashi. Its upper bounds turn one point (ε, δ) of a privacy curve
into a Rényi divergence by a lemma that holds only in the opposite direction, so that neither its
table nor its figures are bounds; several displays have slips besides. What holds instead is proven
in ``docs/theory/check_in.md``, ``docs/theory/gaussian.md`` and
``docs/theory/distributed_check_in.md``. The library never uses a formula of this module.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "TABLE_2",
    "Printed",
    "paper_distributed_renyi",
    "paper_gaussian_delta",
    "paper_lemma_1",
    "paper_optimistic_renyi",
    "paper_partition_sum",
    "paper_without_replacement_renyi",
    "partitions",
]


@dataclass(frozen=True)
class Printed:
    """One row of the paper's Table 2: an ε0, a rate, and the ε of three approaches."""

    epsilon0: float
    rate: float
    baseline: float
    approach_1: float
    approach_2: float


TABLE_2 = (
    Printed(2.0, 1e-2, 0.096, 0.17, 0.049),
    Printed(2.0, 1e-3, 0.013, 0.012, 0.024),
    Printed(8.0, 1e-2, 9.52, 8.57, 8.18),
    Printed(8.0, 1e-3, 3.86, 1.78, 1.58),
)
"""As printed: n = 10⁴ people, 100 rounds, δ = 10⁻⁴. "δ0 = 1/δ²" must mean δ² = 10⁻⁸."""


def paper_lemma_1(epsilon: float, delta: float, order: float) -> float:
    """Lemma 1, equation (2): "(ε, δ)-DP implies Rényi DP of this level". False.

    The level is the *smallest* divergence that is compatible with one point of the curve: the
    cited theorem is the converse. With δ > 0 no divergence is finite in general; with δ = 0 the
    lemma says that the divergence of every ε-private mechanism is zero (docs/theory/check_in.md).
    """
    if delta == 0:
        return 0.0
    beyond = np.geomspace(delta * 1e-9, 1 - delta, 200_001)[:-1]
    r = delta + beyond
    # r is the chance of an event, and (r − δ)/e^ε the least that its other chance can be.
    first = order * np.log(r) + (1 - order) * np.log(beyond)
    second = order * np.log1p(-r) + (1 - order) * np.log(math.exp(epsilon) - beyond)
    return epsilon + float(np.logaddexp(first, second).min()) / (order - 1)


def paper_gaussian_delta(epsilon: float, sigma: float) -> float:
    """Section 4: ``δ(ε) ≤ 1.25 e^(−ε²σ²/2)`` for Gaussian noise and sensitivity 1. False.

    At ε = 8 and σ = 0.5 the exact value is 4.954e−4 and the printed one 4.193e−4; and with one
    vector of norm up to C replaced by another the sensitivity is 2C (docs/theory/gaussian.md).
    """
    return 1.25 * math.exp(-((epsilon * sigma) ** 2) / 2)


def partitions(total: int, largest: int | None = None) -> Iterator[list[int]]:
    """Every way to write ``total`` as a sum of positive whole numbers, the largest first."""
    if total == 0:
        yield []
        return
    for first in range(min(total, largest or total), 0, -1):
        for rest in partitions(total - first, first):
            yield [first, *rest]


def paper_partition_sum(order: int, n: int, sigma: float) -> float:
    """Algorithm 2: the lower bound of equation (6) by integer partitions. As printed, wrong.

    The exponent lacks 1/(2σ²), the number of permutations lacks (n − r)! for the zeros, and what is
    returned is the sum itself, not its logarithm divided by λ − 1 (docs/theory/gaussian.md).
    """
    found = 0.0
    for parts in partitions(order):
        ways = math.factorial(order) / math.prod(math.factorial(part) for part in parts)
        repeats = math.prod(math.factorial(times) for times in Counter(parts).values())
        power = math.exp(sum(part**2 for part in parts) - order / (2 * sigma**2))
        found += power / n**order * ways * math.factorial(n) / repeats
    return found


def paper_distributed_renyi(order: int, n: int, rate: float, sigma: float) -> float:
    """Theorem 4 as printed: the sum begins at k = 1, and a bracket closes too early.

    Without the rounds in which nobody comes the "moment" is below one, and its logarithm negative:
    no bound at all (docs/theory/distributed_check_in.md).
    """
    total = 0.0
    for k in range(1, n + 1):
        chance = math.comb(n, k) * rate**k * (1 - rate) ** (n - k)
        total += chance * math.exp((order - 1) * _printed_bracket(order, n, k, sigma))
    return math.log(total) / (order - 1)


def _printed_bracket(order: int, n: int, k: int, sigma: float) -> float:
    x, q = 4 / (k * sigma**2), k / n
    smaller = min(4 * math.expm1(x), 2 * math.exp(x))
    head = math.log(1 + q**2 * math.comb(order, 2)) * smaller
    tail = sum(
        2 * q**j * math.comb(order, j) * math.exp(j * (j - 1) * x / 2) for j in range(3, order + 1)
    )
    return head / (order - 1) + tail


def paper_without_replacement_renyi(
    orders: Sequence[int], n: int, k: int, sigma: float
) -> NDArray[np.float64]:
    """The bound of one round with a fixed crowd of k out of n, which Figure 5 compares with.

    "Subsampled Rényi Differential Privacy and Analytical Moments Accountant" (Wang, Balle,
    Kasiviswanathan), Gaussian noise of variance kσ² on a sum that moves by 2; sound.
    """
    return _subsampled(orders, k / n, [2 * j / (k * sigma**2) for j in range(max(orders) + 1)])


def paper_optimistic_renyi(
    orders: Sequence[int], n: int, m: int, divergences: Sequence[float]
) -> NDArray[np.float64]:
    """Theorem 5: m of n people without replacement, shuffled. An estimate, never a bound.

    ``divergences`` are those of the shuffled pair at orders 0, 1, 2, …, which bound the mechanism's
    own from below; they are put where the theorem needs an upper bound. The result is neither.
    """
    return _subsampled(orders, m / n, divergences)


def _subsampled(
    orders: Sequence[int], rate: float, divergences: Sequence[float]
) -> NDArray[np.float64]:
    """ln(1 + Σ_j C(λ, j)·γ^j·ζ(j))/(λ − 1) from the divergences of the mechanism at each order."""
    from scipy.special import gammaln, logsumexp

    level = np.asarray(divergences)
    found = []
    for order in orders:
        j = np.arange(2, order + 1)
        ways = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
        term = math.log(2) + (j - 1) * level[2 : order + 1]
        term[0] = min(math.log(4) + math.log(math.expm1(level[2])), math.log(2) + level[2])
        found.append(np.logaddexp(0.0, logsumexp(ways + j * math.log(rate) + term)) / (order - 1))
    return np.array(found)
