"""Mallows laws: permutations that keep close to the identity, and how they move what they permute.

A permutation τ of n ranks has a chance proportional to e^(−θ·d(τ)), with d its number of inversions
(Kendall) or of moved ranks (Hamming). θ = 0 is uniform, θ = ∞ the identity.

*Kendall.* Rank i (from 0) is put into the list of ranks before it so that v_i of them stand after
it. Every list comes from one choice of *codes* v_i in {0, …, i}, and Σ v_i is its number of
inversions: codes are independent, truncated geometric numbers. With U uniform in [0, 1)

    v_i = min(i, ⌊−log1p(U·expm1(−(i + 1)θ))/θ⌋),

and the list is written in a compiled loop in n·log n steps.

*Hamming.* See :mod:`.hamming`.

Uniform doubles are multiples of 2⁻⁵³: the chance of a code is right to about 2⁻⁵¹, and codes rarer
than 2⁻⁵³ do not come out. ``exact=True`` draws without floating point (:mod:`.exact`).

Proof: ``docs/theory/mallows.md``.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.samplers.exact import exact_codes
from incrowd.protocols.order_shuffle.samplers.hamming import checked_theta

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_MOST: Final = 2**31 - 1
_UNIFORM: Final = 2.0**-60
"""Below this n·θ no chance differs from a uniform one by as much as a double can tell."""
_FEW_MOVES: Final = 40
"""Up to this many inversions per rank, moving them in memory beats the tree."""


def kendall_permutation(
    n: int, theta: float, rng: np.random.Generator, *, exact: bool = False
) -> IntArray:
    """A permutation with chance ∝ e^(−θ·inversions)."""
    n, theta = _crowd(n), checked_theta(theta)
    if math.isinf(theta):
        return np.arange(n)
    if theta == 0:
        # Drawn from whole random numbers without rounding.
        return rng.permutation(n)
    return arranged(kendall_codes(n, theta, rng, exact=exact))


def kendall_codes(
    n: int, theta: float, rng: np.random.Generator, *, exact: bool = False
) -> IntArray:
    """Independent codes, the i-th (from 0) in {0, …, i} with chance ∝ e^(−θ·code)."""
    n, theta = _crowd(n), checked_theta(theta)
    if math.isinf(theta):
        return np.zeros(n, dtype=np.int64)
    sizes = np.arange(1, n + 1, dtype=np.int64)
    if theta == 0 or (n * theta < _UNIFORM and not exact):
        return np.asarray(rng.integers(sizes), dtype=np.int64)
    if exact:
        return exact_codes(n, theta, rng)
    drawn: FloatArray = np.expm1(-theta * sizes)
    drawn *= rng.random(n)
    np.log1p(drawn, out=drawn)
    drawn /= -theta
    # Rounding may reach the end of the range.
    np.minimum(drawn, sizes - 1, out=drawn)
    return drawn.astype(np.int64)


def arranged(codes: ArrayLike) -> IntArray:
    """The list in which ``codes[i]`` of the ranks before i stand after i; inversions: Σ codes."""
    from incrowd.protocols.order_shuffle.samplers.kernels import fill_slots, insert

    given = np.asarray(codes)
    if given.ndim != 1 or given.size > _MOST:
        raise InvalidParameter(f"codes must be one list of at most {_MOST} whole numbers")
    if np.any(given < 0) or np.any(given > np.arange(given.size)):
        first = int(np.argmax((given < 0) | (given > np.arange(given.size))))
        raise InvalidParameter(f"code {first} must be 0 to {first}, got {given[first]}")
    small = given.astype(np.int32)
    reverse = np.empty(given.size, dtype=np.int32)
    few = int(given.sum(dtype=np.int64)) <= _FEW_MOVES * given.size
    (insert if few else fill_slots)(small, reverse)
    return reverse[::-1].astype(np.int64)


def conjugated(order: ArrayLike, tau: ArrayLike) -> IntArray:
    """Whose report each person's place gets: ``sources[order[k]] = order[tau[k]]``.

    The reports are laid along ``order``, permuted by ``tau`` and put back: ``z = y[sources]``.
    """
    people, ranks = np.asarray(order, dtype=np.int64), np.asarray(tau, dtype=np.int64)
    if people.shape != ranks.shape or people.ndim != 1:
        raise InvalidCrowd(
            f"an order of {people.size} people cannot be shuffled by {ranks.size} ranks"
        )
    sources = np.empty_like(people)
    sources[people] = people[ranks]
    return sources


def _crowd(n: int) -> int:
    if checks.crowd(n) > _MOST:
        raise InvalidCrowd(
            f"n must be at most {_MOST} people to be shuffled at once, got {n}", field="n"
        )
    return int(n)
