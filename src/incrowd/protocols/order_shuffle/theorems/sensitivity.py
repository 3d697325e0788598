"""Sensitivity of distances between permutations to the order inside each group, exactly.

A Mallows shuffle draws τ with a weight e^(−θ·d(τ)). If the reports of one group change places, the
number d changes by at most the *sensitivity* Δ of that group, and α = θ·Δ is guaranteed about
their order. With the sorted ranks k_1 < … < k_m of the group in the reference order, and
A = Σ|k_i − median| (the sum of distances from the middle rank):

* Kendall (inversions), reports of any number of values: Δ = 2A − ⌊m/2⌋, which is
  m(m−1)/2 + 2·Σ_r (k_(r+1) − k_r − 1)·min(r, m−r). Exact.
* Kendall, reports of two values: Δ = A. Exact.
* Kendall, v ≥ 3 values: Δ = max_e [P(e) + Σ_r (k_(r+1) − k_r − 1)·min(2r, 2(m−r), m−e)], where one
  value is held by e members, the v − 1 others share the rest evenly, and P(e) counts the pairs of
  different values. Exact for odd v, for v > m and for neighbouring ranks; else never below it.
* Hamming (who moved): Δ = m, and at most 2⌊m/2⌋ for two values; the reference order is irrelevant.

All are proven on ``docs/theory/order.md``. The bound by the width ω alone, ω(ω+1)/2
("A Shuffling Framework for Local Differential Privacy", Meehan, Roy Chowdhury, Chaudhuri, Jha), is
here for comparison. Invariant: a group of one person, whose order cannot change, has Δ = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter

if TYPE_CHECKING:
    from incrowd.protocols.order_shuffle.groupings import Grouping

IntArray = NDArray[np.int64]


def kendall(grouping: Grouping, ranks: NDArray[Any], values: int | None = None) -> IntArray:
    """Return the largest change of inversions by a change of order inside each group.

    Args:
        grouping: The groups.
        ranks: The place of each person in the reference order.
        values: The number of values that a report can take; none for any number.

    """
    from incrowd.protocols.order_shuffle.theorems.kernels import few_valued, spreads

    few = _values(values)
    if few is not None and few > 2:
        # More values than people are as good as any number, and any number fits the loop.
        return _over_groups(few_valued, grouping, ranks, min(few, grouping.n + 2))
    spread = _over_groups(spreads, grouping, ranks)
    return spread if few == 2 else 2 * spread - grouping.sizes // 2


def hamming(grouping: Grouping, values: int | None = None) -> IntArray:
    """Return the largest change in the number of moved people by a change of order in a group."""
    sizes = grouping.sizes
    return sizes // 2 * 2 if _values(values) == 2 else np.where(sizes > 1, sizes, 0)


def widths(grouping: Grouping, ranks: NDArray[Any]) -> IntArray:
    """Return the last rank less the first, of each group."""
    from incrowd.protocols.order_shuffle.theorems.kernels import spans

    return _over_groups(spans, grouping, ranks)


def paper_sensitivity(width: int) -> int:
    """Bound Kendall's sensitivity by the width alone: as if all between were members."""
    whole = checks.integer(width, "width", 0)
    return whole * (whole + 1) // 2


def _values(values: int | None) -> int | None:
    return None if values is None else checks.integer(values, "values", 2)


def _over_groups(
    loop: Callable[..., None], grouping: Grouping, ranks: NDArray[Any], *more: int
) -> IntArray:
    places, found = _ranks(ranks, grouping.n), np.empty(grouping.count, np.int64)
    for first, indptr, members in grouping.blocks():
        loop(indptr, members, places, *more, found[first : first + indptr.size - 1])
    return found


def _ranks(ranks: NDArray[Any], n: int) -> IntArray:
    """Ranks as they are, after refusing those that are no order: Δ would be wrong in silence."""
    given = np.asarray(ranks)
    if given.shape == (n,) and np.issubdtype(given.dtype, np.integer):
        places = np.ascontiguousarray(given, np.int64)
        if not n or (
            places.min() >= 0 and places.max() < n and np.bincount(places, minlength=n).max() == 1
        ):
            return places
    raise InvalidParameter(
        f"ranks must hold each of 0 … {n - 1} once, the place of every person in the order: use "
        "those of a reference order of the same people"
    )
