"""The published ways to account for a check-in, repaired where they were wrong: for comparison.

"Privacy Amplification via Shuffled Check-Ins" (Liew, Hasegawa,
Takahashi) looks at the k people who take part: given k they are a uniformly random sample of the
crowd, whose reports are shuffled.

* :func:`first_cut_delta` (its Theorem 1): subsampling amplifies the curve of k shuffled reports,
  and k is averaged over. As printed it takes one k for all and a closed form outside its range.
* :func:`renyi_epsilon` (its Theorem 2): the same with Rényi divergences, which add over rounds.
  They are those of the exact pair of k shuffled reports; the conversion of a point (ε, δ) into a
  Rényi divergence that is printed points the wrong way.

Both are upper bounds for every ε0-randomizer that all use alike; ``CheckIn`` itself uses neither.
See ``docs/theory/check_in.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy import multinomial
from incrowd.protocols.trusted_shuffle.privacy import blanket_profile
from incrowd.randomizers import Generic
from incrowd.randomizers.response import response_blanket

__all__ = ["ORDERS", "first_cut_delta", "renyi_divergence", "renyi_epsilon"]

Doubles = NDArray[np.float64]

ORDERS = tuple(range(2, 65))
_MOST_LISTED = 600
"""Larger crowds are counted as this many: a larger crowd hides better."""
_EVERY = 32
"""Up to here each k is looked at; beyond, each is counted as the next smaller on a grid."""
_GROWTH = 1.03
_TAIL = 1e-18
_ROUND = 1e-9


def first_cut_delta(epsilon0: float, n: int, rate: float, epsilon: float) -> float:
    """δ(ε) of one round: Σ_k Bin(k; n, γ)·(k/n)·δ_k(ε_k), where e^(ε_k) = 1 + (n/k)·(e^ε − 1)."""
    from scipy.stats import binom

    randomizer = Generic(epsilon=epsilon0)
    first, last = int(binom.ppf(_TAIL, n, rate)), min(n, int(binom.isf(_TAIL, n, rate)))
    total = float(binom.cdf(first - 1, n, rate) + binom.sf(last, n, rate))
    for crowd, block in groupby(range(max(first, 1), last + 1), _counted):
        ks = np.array(list(block))
        # ε_k falls with k, and so does the curve with ε and with the crowd.
        grown = math.log1p(n / float(ks[-1]) * math.expm1(epsilon))
        if grown < epsilon0:
            weight = float(binom.pmf(ks, n, rate) @ ks) / n
            total += weight * blanket_profile(randomizer, crowd).delta(grown)
    return total * (1 + _ROUND)


def renyi_epsilon(
    epsilon0: float,
    n: int,
    rate: float,
    rounds: int,
    delta: float,
    orders: Sequence[int] = ORDERS,
) -> float:
    """ε at this δ over all rounds: the best order's divergence, converted once at the end."""
    checks.delta(delta)
    found = math.inf
    for order in orders:
        spent = rounds * renyi_divergence(epsilon0, n, rate, order)
        paid = (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)
        found = min(found, spent + paid)
    return max(0.0, found * (1 + _ROUND))


def renyi_divergence(epsilon0: float, n: int, rate: float, order: int) -> float:
    """The Rényi divergence of one round, of an integer order of at least 2, rounded up.

    E[(p/q)^λ] = Σ_k Bin(k; n, γ)·E_k, and E_k ≤ 1 + Σ_j C(λ, j)·(k/n)^j·ζ_k(j)^j by "Subsampled
    Rényi Differential Privacy and Analytical Moments Accountant" (Wang, Balle, Kasiviswanathan),
    where ζ_k(2)² = min{4(e^ε(2) − 1), e^ε(2)·min{2, (E − 1)²}} and, for j > 2,
    ζ_k(j)^j = e^((j − 1)ε(j))·min{2, (E − 1)^j}, with ε(j) the divergence of k shuffled reports.
    """
    from scipy.special import gammaln, logsumexp
    from scipy.stats import binom

    if checks.integer(order, "order", 2) > ORDERS[-1]:
        raise InvalidParameter(f"order must be at most {ORDERS[-1]}, got {order}")
    k = np.arange(1, n + 1)
    counted, which = np.unique([_counted(each) for each in k.tolist()], return_inverse=True)
    # Row j − 2: the logarithm of E[(P/Q)^j] for k reports, which is (j − 1)·ε(j).
    moments = np.array([_log_moments(epsilon0, int(each)) for each in counted]).T
    top = math.expm1(epsilon0)
    terms = [np.zeros(n)]
    for j in range(2, order + 1):
        least = math.log(min(2.0, top**j))
        log_zeta = moments[j - 2] + least
        if j == 2:
            log_zeta = np.minimum(log_zeta, np.log(4 * np.expm1(moments[0])))
        choose = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
        terms.append(choose + j * np.log(k / n) + log_zeta[which.ravel()])
    each = binom.logpmf(k, n, rate) + logsumexp(np.array(terms), axis=0)
    log_moment = float(logsumexp(np.append(each, n * math.log1p(-rate) if rate < 1 else -np.inf)))
    return max(0.0, log_moment) / (order - 1) * (1 + _ROUND) + _ROUND * 1e-4


@lru_cache(maxsize=1024)
def _log_moments(epsilon0: float, k: int) -> Doubles:
    """The logarithms of E[(P/Q)^j], j = 2, 3, …, of the worst pair of k shuffled reports."""
    law = response_blanket(math.exp(epsilon0), 2)
    counts, chance = multinomial.listing(np.append(law.mass, 1 - law.mass.sum()), k)
    first, second = counts[:, :2] @ law.a, counts[:, :2] @ law.b
    seen = second > 0
    weight, loss = (chance * second)[seen] / k, np.log(first[seen] / second[seen])
    powers = [float(weight @ np.expm1(j * loss)) for j in ORDERS]
    return np.log1p(np.maximum(powers, 0.0)) * (1 + _ROUND)


def _counted(k: int) -> int:
    """The crowd as which k people are counted."""
    if k <= _EVERY:
        return k
    step = math.floor(math.log(k / _EVERY) / math.log(_GROWTH))
    return min(_MOST_LISTED, k, math.floor(_EVERY * _GROWTH**step))
