"""The published ways to account for a check-in, repaired where they were wrong: for comparison.

"Privacy Amplification via Shuffled Check-Ins" (Liew, Hasegawa,
Takahashi) looks at the k people who take part: given k they are a uniformly random sample of the
crowd, whose reports are shuffled.

* :func:`first_cut_delta` (its Theorem 1): subsampling amplifies the curve of k shuffled reports,
  and k is averaged over. As printed it takes one k for all and a closed form outside its range.
* :func:`renyi_epsilon` (its Theorem 2): the same with Rényi divergences, which add over rounds.
  They are those of the exact pair of k shuffled reports; the conversion of a point (ε, δ) into a
  Rényi divergence that is printed points the wrong way.
* :func:`distributed_renyi`: the Rényi form of noisy sums
  (``docs/theory/distributed_check_in.md``).

The first two are upper bounds for every ε0-randomizer that all use alike; ``CheckIn`` itself uses
neither. See ``docs/theory/check_in.md``.

Invariant: no number of people is dropped. All k come in the blocks of
:func:`~incrowd.protocols.check_in.theorems.secure_aggregation.crowds_of`, one by one near the mean:
the smallest k of a block decides how well its reports hide, the largest how likely the victim is
among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidEpsilon, InvalidParameter
from incrowd.privacy import multinomial, renyi
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.check_in.theorems.secure_aggregation import SummedProfile, crowds_of
from incrowd.randomizers import Generic
from incrowd.randomizers.response import response_blanket

__all__ = ["ORDERS", "distributed_renyi", "first_cut_delta", "renyi_divergence", "renyi_epsilon"]

Doubles = NDArray[np.float64]

ORDERS = tuple(range(2, 65))
_MOST_LISTED = 600
"""Larger crowds are counted as this many: a larger crowd hides better."""
_EVERY = 32
"""Up to here each k is looked at; beyond, each is counted as the next smaller on a grid."""
_GROWTH = 1.03
_ROUND = 1e-9
_GREAT = 600.0
"""Beyond this logarithm a moment is compared with, and not added to, one."""


def first_cut_delta(epsilon0: float, n: int, rate: float, epsilon: float) -> float:
    """δ(ε) of one round: Σ_k Bin(k; n, γ)·(k/n)·δ_k(ε_k), where e^(ε_k) = 1 + (n/k)·(e^ε − 1)."""
    randomizer, crowds = Generic(epsilon=epsilon0), crowds_of(n, rate)
    if checks.number(epsilon, "epsilon") < 0:
        raise InvalidEpsilon(f"epsilon must not be negative here, got {epsilon!r}")
    if epsilon >= epsilon0:
        return 0.0
    sizes, which = _counted(crowds.fewest)
    most = np.zeros(sizes.size)
    np.maximum.at(most, which, crowds.most)
    weight = np.bincount(which, np.exp(crowds.chance) * crowds.most) / n
    # ε_k falls with k, and so does the curve with ε and with the crowd.
    grown = np.log1p(n / most * math.expm1(epsilon))
    total = sum(
        share * blanket_profile(randomizer, size).delta(at)
        for size, share, at in zip(sizes.tolist(), weight.tolist(), grown.tolist(), strict=True)
        if at < epsilon0
    )
    return min(1.0, float(total) * (1 + _ROUND))


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
    times = checks.integer(rounds, "rounds", 1)
    spent = [times * renyi_divergence(epsilon0, n, rate, order) for order in orders]
    return renyi.renyi_epsilon(orders, spent, delta)


def renyi_divergence(epsilon0: float, n: int, rate: float, order: int) -> float:
    """The Rényi divergence of one round, of an integer order of at least 2, rounded up.

    E[(p/q)^λ] = Σ_k Bin(k; n, γ)·E_k with E_0 = 1, and E_k is bounded by
    :func:`~incrowd.privacy.renyi.sampled_excess` from the divergences of k shuffled reports.
    """
    from scipy.special import logsumexp

    Generic(epsilon=epsilon0)
    crowds, top = crowds_of(n, rate), checks.integer(order, "order", 2)
    if top > ORDERS[-1]:
        raise InvalidParameter(f"order must be at most {ORDERS[-1]}, got {order}")
    sizes, which = _counted(crowds.fewest)
    # Row j − 2: the logarithm of E[(P/Q)^j] for k reports, which is (j − 1) times the divergence.
    moments = np.array([_log_moments(float(epsilon0), size) for size in sizes.tolist()]).T
    excess = renyi.sampled_excess(
        top, np.log(crowds.most / n), lambda j: moments[j - 2][which], epsilon0
    )
    log_moment = float(np.logaddexp(0.0, logsumexp(excess + crowds.chance)))
    return log_moment / (top - 1) * (1 + _ROUND) + _ROUND * 1e-4


@lru_cache(maxsize=1024)
def _log_moments(epsilon0: float, k: int) -> Doubles:
    """The logarithms of E[(P/Q)^j], j = 2, 3, …, of the worst pair of k shuffled reports."""
    from scipy.special import logsumexp

    law = response_blanket(math.exp(epsilon0), 2)
    counts, chance = multinomial.listing(np.append(law.mass, 1 - law.mass.sum()), k)
    first, second = counts[:, :2] @ law.a, counts[:, :2] @ law.b
    seen = second > 0
    weight, loss = (chance * second)[seen] / k, np.log(first[seen] / second[seen])
    found = [
        float(np.log1p(max(0.0, float(weight @ np.expm1(j * loss)))))
        if j * loss.max() < _GREAT
        else max(0.0, float(logsumexp(j * loss, b=weight)))
        for j in ORDERS
    ]
    return np.array(found) * (1 + _ROUND)


def _counted(k: Doubles) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The crowds as which so many people are counted, each once, and which of them is whose."""
    step = np.floor(np.log(np.maximum(k, _EVERY) / _EVERY) / math.log(_GROWTH))
    grid = np.minimum(np.floor(_EVERY * _GROWTH ** np.minimum(step, 1000)), _MOST_LISTED)
    sizes, which = np.unique(np.where(k <= _EVERY, k, np.minimum(grid, k)), return_inverse=True)
    return sizes.astype(np.int64), which.ravel()


def distributed_renyi(orders: Sequence[int], *, n: int, rate: float, sigma: float) -> Doubles:
    """Upper bounds of one round's Rényi divergences at whole orders λ ≥ 2, rounded up.

    ln E_k[1 + Σ_j C(λ, j)·(k/n)^j·ζ_k(j)]/(λ − 1), j from 2 to λ, where with x = 4/(ks²)
    ζ_k(2) = min{4(e^x − 1), 2e^x} and ζ_k(j) = 2e^{j(j − 1)x/2} above: the bound of
    :func:`~incrowd.privacy.renyi.sampled_excess` for each k, with k = 0 included.
    """
    from scipy.special import logsumexp

    profile = SummedProfile(n, rate, sigma)
    crowds = crowds_of(profile.n, profile.rate)
    log_share, per = np.log(crowds.most / n), 4 / (crowds.fewest * sigma**2)
    found = []
    for order in orders:
        top = checks.integer(order, "a Rényi order", 2)
        if top > renyi.MOST_ORDER:
            raise InvalidParameter(f"a Rényi order must be at most {renyi.MOST_ORDER}, got {order}")
        excess = renyi.sampled_excess(top, log_share, lambda j: j * (j - 1) / 2 * per)
        total = float(logsumexp(excess + crowds.chance))
        found.append(float(np.logaddexp(0.0, total)) / (top - 1) * (1 + _ROUND))
    return np.array(found)
