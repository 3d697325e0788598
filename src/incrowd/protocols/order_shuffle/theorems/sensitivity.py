"""How sensitive a distance between permutations is to the order inside each group, exactly.

A Mallows shuffle draws τ with a weight e^(−θ·d(τ)). If the reports of one group change places, the
number d changes by at most the *sensitivity* Δ of that group, and α = θ·Δ is what is promised about
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

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter

if TYPE_CHECKING:
    from incrowd.protocols.order_shuffle.groupings import Grouping

IntArray = NDArray[np.int64]


def kendall(grouping: Grouping, ranks: NDArray[Any], values: int | None = None) -> IntArray:
    """By how much a change of order inside each group can change the number of inversions.

    ``ranks`` are the places of all people in the reference order; ``values`` is how many different
    values a report can take, none for any number.
    """
    from incrowd.protocols.order_shuffle.theorems.kernels import few_valued, spreads

    few = _values(values)
    if few is not None and few > 2:
        # More values than people are as good as any number, and any number fits the loop.
        return _over_groups(few_valued, grouping, ranks, min(few, grouping.n + 2))[1]
    sizes, spread = _over_groups(spreads, grouping, ranks)
    return spread if few == 2 else 2 * spread - sizes // 2


def hamming(grouping: Grouping, values: int | None = None) -> IntArray:
    """By how much a change of order inside each group can change the number of those who moved."""
    few = _values(values)
    sizes = np.concatenate(
        [np.zeros(0, np.int64), *(np.diff(indptr) for indptr, _ in _blocks(grouping))]
    )
    return sizes // 2 * 2 if few == 2 else np.where(sizes > 1, sizes, 0)


def widths(grouping: Grouping, ranks: NDArray[Any]) -> IntArray:
    """The last rank less the first, of each group."""
    from incrowd.protocols.order_shuffle.theorems.kernels import spans

    return _over_groups(spans, grouping, ranks)[1]


def paper_sensitivity(width: int) -> int:
    """The bound on Kendall's sensitivity by the width alone: as if all between were members."""
    whole = checks.integer(width, "width", 0)
    return whole * (whole + 1) // 2


def _values(values: int | None) -> int | None:
    return None if values is None else checks.integer(values, "values", 2)


def _blocks(grouping: Grouping) -> Iterator[tuple[IntArray, IntArray]]:
    for block in grouping.blocks():
        yield np.asarray(block.indptr, np.int64), np.asarray(block.members, np.int64)


def _over_groups(
    loop: Callable[..., None], grouping: Grouping, ranks: NDArray[Any], *more: int
) -> tuple[IntArray, IntArray]:
    """The size of every group, and what the loop finds for it."""
    places = _ranks(ranks, grouping.n)
    sizes, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for indptr, members in _blocks(grouping):
        here = np.empty(indptr.size - 1, np.int64)
        loop(indptr, members, places, *more, here)
        sizes.append(np.diff(indptr))
        found.append(here)
    return np.concatenate(sizes), np.concatenate(found)


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
