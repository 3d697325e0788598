"""Compiled loops over who is in which group, imported only when first used.

Breadth-first search, and the two ways to make an order less sensitive. With ranks k of a group of m
people and their median c, its sensitivity is 2·Σ|k − c| − ⌊m/2⌋. All medians are found in one
sweep along the order, adding up how many of each group have gone by; a second sweep adds the
distances. Costs are so linear in the number of (atom, group) pairs, without any sorting.

* ``measure`` and ``pull``: one step of a descent that moves everybody at once, towards the middles
  of the groups that cost most.
* ``anneal``: swaps two people at a time, and keeps a swap if the sum of e^(cost / temperature) over
  the groups falls, or grows by little. Middles stay as they are between sweeps, so that a swap is
  judged in constant time per group, never below its true cost.

What ``anneal`` draws comes from a fixed seed: the same groups always give the same order.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from incrowd.compiled import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
SmallArray = NDArray[np.int32]

_COLD = 0.05
"""By how much the sum may grow in a swap, on average, where the worst group counts as one."""
_CONTEST = 16
"""A group to improve is the worst of so many that are drawn."""
_SEED = 88172645463325252


@compiled()
def breadth_first(
    roots: IntArray,
    own: IntArray,
    indptr: IntArray,
    atoms: SmallArray,
    owners_indptr: IntArray,
    owners: IntArray,
    groups_indptr: IntArray,
    groups: SmallArray,
    order: IntArray,
    level: IntArray,
    spent: NDArray[np.bool_],
    begin: int,
) -> int:
    """Visit atoms from each root on, those of ``level`` −1 only, filling ``order`` from ``begin``.

    The neighbours of an atom are the members of its own group and then the owners of groups that
    it is in, each in increasing order. Returns where the order ends.
    """
    end = begin
    for root in roots:
        if level[root] >= 0:
            continue
        level[root] = 0
        order[end] = root
        at = end
        end += 1
        while at < end:
            atom = order[at]
            at += 1
            group = own[atom]
            if not spent[group]:
                # Once a group was looked through, all of its members were reached.
                spent[group] = True
                for e in range(indptr[group], indptr[group + 1]):
                    other = atoms[e]
                    if level[other] < 0:
                        level[other] = level[atom] + 1
                        order[end] = other
                        end += 1
            for f in range(groups_indptr[atom], groups_indptr[atom + 1]):
                named = groups[f]
                for e in range(owners_indptr[named], owners_indptr[named + 1]):
                    other = owners[e]
                    if level[other] < 0:
                        level[other] = level[atom] + 1
                        order[end] = other
                        end += 1
    return end


@compiled()
def _apart(start: int, weight: int, middle: int) -> int:
    """Σ|k − middle| over k = start, …, start + weight − 1."""
    inside = middle - start
    if inside <= 0:
        return weight * (weight - 1) // 2 - weight * inside
    if inside >= weight - 1:
        return weight * inside - weight * (weight - 1) // 2
    after = weight - 1 - inside
    return inside * (inside + 1) // 2 + after * (after + 1) // 2


@compiled()
def measure(
    order: IntArray,
    weights: IntArray,
    atom_of: IntArray,
    groups_indptr: IntArray,
    groups: SmallArray,
    sizes: IntArray,
    middles: IntArray,
    costs: IntArray,
) -> int:
    """The median rank and the sensitivity of every group; returns the largest sensitivity.

    ``order`` lists items of ``weights`` people each, and the groups of an item are those of its
    atom.
    """
    passed = np.zeros(sizes.size, np.int64)
    rank = 0
    for item in order:
        atom, weight = atom_of[item], weights[item]
        for e in range(groups_indptr[atom], groups_indptr[atom + 1]):
            group = groups[e]
            half, before = (sizes[group] + 1) // 2, passed[group]
            if before < half <= before + weight:
                middles[group] = rank + half - before - 1
            passed[group] = before + weight
        rank += weight
    costs[:] = 0
    rank = 0
    for item in order:
        atom, weight = atom_of[item], weights[item]
        for e in range(groups_indptr[atom], groups_indptr[atom + 1]):
            group = groups[e]
            costs[group] += _apart(rank, weight, middles[group])
        rank += weight
    top = 0
    for group in range(sizes.size):
        costs[group] = 2 * costs[group] - sizes[group] // 2
        top = max(top, costs[group])
    return top


@compiled()
def pull(
    order: IntArray,
    weights: IntArray,
    groups_indptr: IntArray,
    groups: SmallArray,
    middles: IntArray,
    costs: IntArray,
    top: int,
    temperature: float,
    ranks: FloatArray,
    out: FloatArray,
) -> None:
    """Put the force on each atom up or down the order into ``out``, and its middle into ``ranks``.

    A group draws its members towards its median with the force e^((cost − top) / temperature).
    """
    force = np.exp((costs - top) / temperature)
    rank = 0
    for atom in order:
        here = rank + (weights[atom] - 1) / 2.0
        total = 0.0
        for e in range(groups_indptr[atom], groups_indptr[atom + 1]):
            group = groups[e]
            if rank > middles[group]:
                total -= force[group]
            elif rank + weights[atom] - 1 < middles[group]:
                total += force[group]
        out[atom], ranks[atom] = total, here
        rank += weights[atom]


@compiled()
def _uniform(state: NDArray[np.uint64]) -> float:
    """The next number of Marsaglia's xorshift generator, in [0, 1)."""
    s = state[0]
    s ^= s << np.uint64(13)
    s ^= s >> np.uint64(7)
    s ^= s << np.uint64(17)
    state[0] = s
    return float(s >> np.uint64(11)) * 2.0**-53


@compiled()
def anneal(
    order: IntArray,
    people_indptr: IntArray,
    people: IntArray,
    atom_of: IntArray,
    indptr: IntArray,
    atoms: SmallArray,
    groups_indptr: IntArray,
    groups: SmallArray,
    sizes: IntArray,
    swaps: int,
    sweeps: int,
    hot: float,
    cold: float,
    tidy: float,
    goal: int,
) -> IntArray:
    """The least sensitive order of people that some swaps lead to, from one that is given.

    The temperature falls from ``hot`` to ``cold``, as shares of the largest sensitivity, and
    ``tidy`` is how much the sum of all sensitivities counts, in units of the largest. It stops when
    that is no more than ``goal``. The given order is used up.
    """
    n, count = order.size, sizes.size
    ones = np.ones(n, np.int64)
    middles, costs = np.empty(count, np.int64), np.empty(count, np.int64)
    rank = np.empty(n, np.int64)
    for k in range(n):
        rank[order[k]] = k
    kept = order.copy()
    least = measure(order, ones, atom_of, groups_indptr, groups, sizes, middles, costs)
    change, touched = np.zeros(count, np.int64), np.empty(2 * count, np.int64)
    state = np.array([_SEED], np.uint64)
    for sweep in range(sweeps):
        top = measure(order, ones, atom_of, groups_indptr, groups, sizes, middles, costs)
        if top < least:
            least = top
            kept[:] = order
        if least <= goal:
            break
        temperature = top * hot * (cold / hot) ** (sweep / sweeps)
        reach = 4 * top // sizes.max() + 2
        for _ in range(swaps // sweeps):
            if _uniform(state) < 0.5:
                worst = int(_uniform(state) * count)
                for _ in range(_CONTEST - 1):
                    other = int(_uniform(state) * count)
                    if costs[other] > costs[worst]:
                        worst = other
                inside = indptr[worst + 1] - indptr[worst]
                atom = atoms[indptr[worst] + int(_uniform(state) * inside)]
                inside = people_indptr[atom + 1] - people_indptr[atom]
                a = rank[people[people_indptr[atom] + int(_uniform(state) * inside)]]
                b = a + int((middles[worst] - a) * _uniform(state) * 1.2)
            else:
                a = int(_uniform(state) * n)
                b = a + int((2.0 * _uniform(state) - 1.0) * reach)
            if b < 0 or b >= n or b == a:
                continue
            one, two = order[a], order[b]
            k = 0
            for atom, old, new in ((atom_of[one], a, b), (atom_of[two], b, a)):
                for e in range(groups_indptr[atom], groups_indptr[atom + 1]):
                    group = groups[e]
                    # A group of both is listed twice, and comes out unchanged.
                    change[group] += 2 * (abs(new - middles[group]) - abs(old - middles[group]))
                    touched[k] = group
                    k += 1
            growth = 0.0
            for i in range(k):
                group = touched[i]
                if change[group]:
                    before = (costs[group] - top) / temperature
                    growth += math.exp(before + change[group] / temperature) - math.exp(before)
                    growth += tidy * change[group] / top
            better = growth <= 0.0 or _uniform(state) < math.exp(-growth / _COLD)
            if better:
                order[a], order[b] = two, one
                rank[one], rank[two] = b, a
            for i in range(k):
                if better:
                    costs[touched[i]] += change[touched[i]]
                change[touched[i]] = 0
    top = measure(order, ones, atom_of, groups_indptr, groups, sizes, middles, costs)
    if top < least:
        kept[:] = order
    return kept
