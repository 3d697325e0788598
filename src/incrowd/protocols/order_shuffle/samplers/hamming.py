"""The Hamming–Mallows law: chances proportional to e^(−θ·moved), whatever the reference order.

Moved ranks are those with τ(k) ≠ k. Since e^(−θ·moved) = e^(−θn)·(1 + x)^fixed with x = e^θ − 1,
and (1 + x)^fixed = Σ x^|S| over the sets S of fixed ranks, the law is a mixture: *pin* a uniform
set of q ranks, with chances ∝ C(n, q)·x^q·(n − q)! ∝ x^q/q!, and permute the others uniformly. The
number of pinned ranks is Poisson of mean e^θ − 1, given that it is at most n. No term is negative,
and no derangement has to be found. Proof: ``docs/theory/mallows.md``.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.order_shuffle.samplers.exact import exact_pinned

_DEVIATIONS: Final = 13.0
_TAIL: Final = 90.0
"""Numbers of pinned ranks beyond so many deviations, and so many more, weigh less than e^−80."""


def hamming_permutation(
    n: int, theta: float, rng: np.random.Generator, *, exact: bool = False
) -> NDArray[np.int64]:
    """A permutation with chance ∝ e^(−θ·moved), moved = #{k: τ(k) ≠ k}."""
    n, theta = checks.crowd(n), checked_theta(theta)
    if theta == 0:
        return rng.permutation(n)
    tau = np.arange(n)
    if math.isinf(theta):
        return tau
    pinned = exact_pinned(n, theta, rng) if exact else _draw(n, theta, rng)
    # Both draws are of whole random numbers, without rounding.
    free = rng.choice(n, n - pinned, replace=False, shuffle=False)
    tau[free] = rng.permutation(free)
    return tau


def expected_moved(n: int, theta: float) -> float:
    """The mean number of moved ranks: with j not pinned, j − 1 of them, and none if j is 0."""
    n, theta = checks.crowd(n), checked_theta(theta)
    if math.isinf(theta):
        return 0.0
    if theta == 0:
        return n - 1.0
    lowest, weights = _pinned(n, theta)
    free = n - lowest - np.arange(weights.size)
    return float(weights @ np.maximum(free - 1, 0) / weights.sum())


def checked_theta(theta: float) -> float:
    """θ as a number of at least 0, infinity included."""
    if theta == math.inf:
        return math.inf
    if checks.number(theta, "theta") < 0:
        raise InvalidParameter(
            f"theta must be at least 0 (inf moves nobody), got {theta!r}", field="theta"
        )
    return float(theta)


def _draw(n: int, theta: float, rng: np.random.Generator) -> int:
    lowest, weights = _pinned(n, theta)
    upto = np.cumsum(weights)
    found = int(np.searchsorted(upto, rng.random() * upto[-1], side="right"))
    return lowest + min(found, weights.size - 1)


def _pinned(n: int, theta: float) -> tuple[int, NDArray[np.float64]]:
    """The least number of pinned ranks, and the weights from there on, for 0 < θ < ∞."""
    log_mean = theta + math.log(-math.expm1(-theta))
    mode = n if log_mean >= math.log(n) else int(math.exp(log_mean))
    width = int(_DEVIATIONS * math.sqrt(mode) + _TAIL)
    lowest, highest = max(0, mode - width), min(n, mode + width)
    # Each weight is mean/q times the one before; summed from the mode, logarithms stay small.
    steps = log_mean - np.log(np.arange(lowest + 1.0, highest + 1))
    below, above = steps[: mode - lowest], steps[mode - lowest :]
    logs = np.concatenate([-np.cumsum(below[::-1])[::-1], [0.0], np.cumsum(above)])
    return lowest, np.exp(logs)
