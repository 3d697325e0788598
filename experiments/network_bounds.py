"""Central ε by several formulas, each at a total δ of 1e−6: the paper's, its sources', and ours.

Those called *printed* are the paper's, and no bounds; the others hold.
"""

from __future__ import annotations

import math
from functools import lru_cache

from experiments.paper_network_shuffle import (
    paper_all_stationary,
    paper_collision,
    paper_single,
    paper_stationary_collision,
)
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.network_shuffle.accountant import SampledProfile
from incrowd.randomizers import Generic

__all__ = [
    "DELTA",
    "all_ours",
    "all_printed",
    "closed_clones",
    "single_ours",
    "single_printed",
    "subsampling",
    "swapping",
]

DELTA = 1e-6


def all_printed(
    epsilon: float, n: int, irregularity: float, gap: float = 1.0, rounds: int = 1
) -> float:
    """Theorem 5.3; by default after endless rounds."""
    collision = paper_collision(paper_stationary_collision(n, irregularity), gap, rounds)
    return paper_all_stationary(epsilon, n, collision, DELTA / 2, DELTA / 2)


def single_printed(epsilon: float, n: int, irregularity: float) -> float:
    """Theorem 5.5 after endless rounds."""
    return paper_single(epsilon, paper_stationary_collision(n, irregularity), DELTA)


@lru_cache(maxsize=4096)
def all_ours(epsilon: float, n: int) -> float:
    """Any graph after endless rounds: the trusted shuffler."""
    return blanket_profile(Generic(epsilon=epsilon), n).epsilon(DELTA)


@lru_cache(maxsize=4096)
def single_ours(epsilon: float, n: int) -> float:
    """Any graph after endless rounds, when everybody hands in one report.

    The sample of reports is largest when the stationary law is uniform, since the chance that
    someone holds any, 1 − (1 − π)ⁿ, is concave in π.
    """
    kept = n * -math.expm1(n * math.log1p(-1 / n))
    sampled = SampledProfile(Generic(epsilon=epsilon), n, kept, 0.0)
    return min(sampled.epsilon(DELTA), all_ours(epsilon, n))


def subsampling(epsilon: float, n: int) -> float:
    """Many steps, n, that each run an ε0-randomizer on one person drawn at random, composed."""
    return _composed(math.log1p(math.expm1(epsilon) / n), n)


def swapping(epsilon: float, n: int) -> float:
    """A uniform shuffle, by the swapping argument of "Amplification by Shuffling".

    By Erlingsson, Feldman, Mironov, Raghunathan, Talwar and Thakurta: each report may be the
    victim's with chance at most e^(2 ε0)/n.
    """
    return _composed(math.log1p(math.exp(2 * epsilon) * math.expm1(epsilon) / n), n)


def _composed(step: float, times: int) -> float:
    """Advanced composition of pure steps, or their sum."""
    drift = times * step * math.tanh(step / 2)
    spread = step * math.sqrt(2 * times * math.log(1 / DELTA))
    return min(times * step, drift + spread)


def closed_clones(epsilon: float, n: int) -> float:
    """Theorem 3.1 of Feldman, McMillan and Talwar, "Hiding Among the Clones"."""
    odds = math.exp(epsilon)
    if epsilon > math.log(n / (16 * math.log(2 / DELTA))):
        return epsilon
    spread = 8 * math.sqrt(odds * math.log(4 / DELTA) / n) + 8 * odds / n
    return math.log1p((odds - 1) / (odds + 1) * spread)
