"""Orders made less sensitive: a descent of all people at once, then swaps of two.

The sensitivity of a group is 2·Σ|k − c| − ⌊m/2⌋, with the ranks k of its m members and their
median c, and never below m(m − 1)/2. Least is the order with the smallest maximum over groups; to
find it is NP-hard (``docs/theory/order.md``), and any order is as private, so that what is found is
measured and kept if it is better.

The maximum is smoothed to a sum of e^(cost / temperature). Each step of the descent moves everyone
along the slope of that sum, with momentum, and ranks all people anew; where that does more harm
than good the step is halved, from the best order so far. A simulated annealing by swaps follows; it
also counts the sum of all costs a little, lest groups that are far from the worst be scattered.
Both stop when the largest sensitivity is m(m − 1)/2 of the largest group, which nothing can beat.

Invariants: a function of the groups alone, without outside randomness or a look at the clock: work
is bounded by counting (atom, group) pairs. The result is never more sensitive than what is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.order_shuffle.groupings.base import Grouping, Incidence, IntArray

_ByAtom = tuple[IntArray, NDArray[np.int32], IntArray]
"""First group of each atom, those groups, and the number of people of each group."""

_DESCENT_VISITS = 800_000_000
"""Pairs of atom and group that a descent may visit, three times per step: some seconds."""
_STEPS = 120
_FEWEST_STEPS = 5
_SWAP_VISITS = 150_000_000
_SWAPS_EACH = 1000
_SWEEPS = 200
_FALLING = 0.05
"""The temperature of the descent, as a share of the largest sensitivity."""
_HOT, _COLD = 0.03, 0.005
_TIDY = 0.5
"""Addition of a group as costly as the worst to that sum, so that others are not scattered."""
_FIRST_STEP, _LAST_STEP = 0.3, 0.004
_MOMENTUM = 0.9
_HARM = 1.3


def floor_of(grouping: Grouping, values: int | None = None) -> int:
    """Lower bound for all orders: the sensitivity of the largest group with no others in between.

    With two values that is ⌊m²/4⌋; with more, but not any number, that serves as well.
    """
    size = grouping.largest
    return size * (size - 1) // 2 if values is None else size**2 // 4


def affordable(incidence: Incidence | None) -> bool:
    """Whether a descent can take some steps."""
    return incidence is not None and (3 * _FEWEST_STEPS * incidence.atoms.size <= _DESCENT_VISITS)


def refined(grouping: Grouping, incidence: Incidence, people: IntArray) -> IntArray:
    """An order of people that is at most as sensitive as the given one."""
    matrix = incidence.matrix().T.tocsr()
    atom_of = np.empty(grouping.n, np.int64)
    atom_of[incidence.people] = np.repeat(np.arange(incidence.own.size), incidence.weights)
    sizes = np.bincount(
        np.repeat(np.arange(incidence.indptr.size - 1), np.diff(incidence.indptr)),
        weights=incidence.weights[incidence.atoms],
    ).astype(np.int64)
    by_atom = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), sizes
    descent = _descent(incidence, atom_of, by_atom, people, floor_of(grouping))
    return _swapped(incidence, atom_of, by_atom, descent, floor_of(grouping))


def _descent(
    incidence: Incidence, atom_of: IntArray, by_atom: _ByAtom, people: IntArray, goal: int
) -> IntArray:
    from incrowd.protocols.order_shuffle.orders.kernels import measure, pull

    groups_indptr, groups, sizes = by_atom
    weights, count = incidence.weights, incidence.own.size
    middles, costs = np.empty(sizes.size, np.int64), np.empty(sizes.size, np.int64)

    def measured(order: IntArray, each: IntArray, atoms: IntArray) -> int:
        return measure(order, each, atoms, *by_atom, middles, costs)

    ones = np.ones(people.size, np.int64)
    given = measured(people, ones, atom_of)
    # Atoms in the order of their first person; what is given may hold those of an atom apart.
    firsts = np.unique(atom_of[people], return_index=True)[1]
    order: IntArray = np.argsort(firsts, kind="stable")
    atoms = np.arange(count)
    ranks, force, speed = np.empty(count), np.empty(count), np.zeros(count)
    least, best = given, order
    step, kept = _FIRST_STEP, False
    for _ in range(min(_STEPS, _DESCENT_VISITS // (3 * groups.size))):
        top = measured(order, weights, atoms)
        if top < least:
            least, best, kept = top, order, True
        elif top > _HARM * least and order is not best:
            step /= 2
            order, speed = best, np.zeros(count)
            top = measured(order, weights, atoms)
        if top <= goal or step < _LAST_STEP:
            break
        heat = _FALLING * top
        pull(order, weights, groups_indptr, groups, middles, costs, top, heat, ranks, force)
        greatest = float(np.abs(force).max())
        if greatest == 0:
            break
        speed = _MOMENTUM * speed + (1 - _MOMENTUM) * force / greatest
        far = step * 2 * top / int(sizes.max())
        order = np.argsort(ranks + far * speed / np.abs(speed).max(), kind="stable")
        step *= 0.98
    return incidence.spread(best) if kept else people


def _swapped(
    incidence: Incidence, atom_of: IntArray, by_atom: _ByAtom, people: IntArray, goal: int
) -> IntArray:
    from incrowd.protocols.order_shuffle.orders.kernels import anneal

    sweep = 2 * int(np.diff(by_atom[0]) @ incidence.weights)
    swap = max(1, 2 * sweep // people.size)
    swaps = min(_SWAPS_EACH * people.size, _SWAP_VISITS // swap)
    sweeps = min(_SWEEPS, swaps * swap // sweep)
    if sweeps < 2:
        return people
    atoms = incidence.people_indptr, incidence.people, atom_of, incidence.indptr, incidence.atoms
    start = people.copy()
    found: Any = anneal(start, *atoms, *by_atom, swaps, sweeps, _HOT, _COLD, _TIDY, goal)
    return np.asarray(found, np.int64)
