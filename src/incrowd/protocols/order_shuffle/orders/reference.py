"""Reference orders, along which reports are laid before they are shuffled.

The order is public, found from the groups alone, and any order is as private as any other: α is
θ times the exact sensitivity of the order that is used. A less sensitive order lets θ be larger
for the same α, so that reports stay closer to where they belong. That makes the choice free: all
candidates are measured, and the least sensitive is kept.

==================  ===========================================================================
``label``           by the first group that each person is in, then by the last
``bfs``             breadth-first search from the person with the largest group, as in "A Shuffling
                    Framework for Local Differential Privacy" (Meehan, Roy Chowdhury, Chaudhuri,
                    Jha); unreached people start again, those with the largest groups first
``bfs-peripheral``  the same from people at the rim: farthest from one who is farthest
``rcm``             reverse Cuthill–McKee, on people joined with their groups' members, on the graph
                    of people and groups, and on people who share a group where that is small
``coordinate``      sorted along a line: every axis, the principal axis, and in two dimensions 16
                    directions
``hilbert``         along a Hilbert curve over the two widest principal axes
``strips``          up one strip and down the next, strips one, two or four radii wide
``best``            the least sensitive of all that apply, then made less sensitive by
                    :mod:`.refine` where that is affordable
==================  ===========================================================================

Neighbours in a search: the members of a person's own group by increasing number, then those whose
own group they are in. Ties in a sort keep people at one place together, by increasing number.

Invariant: everything here is a deterministic function of a :class:`Grouping` and of how many values
a report can take. Nothing takes a value, a seed, or the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter, located
from incrowd.protocols.order_shuffle.groupings.balls import BallGroups
from incrowd.protocols.order_shuffle.groupings.base import Grouping, Incidence, IntArray, frozen
from incrowd.protocols.order_shuffle.groupings.files import read_json
from incrowd.protocols.order_shuffle.orders import coordinates, search
from incrowd.protocols.order_shuffle.orders.refine import affordable, floor_of, refined
from incrowd.protocols.order_shuffle.theorems.sensitivity import kendall

_MEASURED = 60_000_000
"""Members of groups that measuring candidates may read, but for the first of each method."""

_SEARCHED: dict[str, Callable[[Incidence], Iterator[IntArray]]] = {
    # First, since of orders that are equally good it is the one in which neighbouring groups are
    # where those who named or numbered them have put them.
    "label": search.label,
    "bfs": search.breadth_first,
    "bfs-peripheral": search.peripheral,
    "rcm": search.cuthill_mckee,
}
_SORTED: dict[str, Callable[[BallGroups], Iterator[IntArray]]] = {
    "coordinate": coordinates.coordinate,
    "hilbert": coordinates.hilbert,
    "strips": coordinates.strips,
}
_NEEDS = {
    "coordinate": "balls around coordinates",
    "hilbert": "balls around coordinates in two dimensions or more",
    "strips": "balls around coordinates in two dimensions or more, and a radius above 0",
    "label": "squares, labels, lists or a graph",
}

METHODS = ("best", *_SORTED, *_SEARCHED)


def lacking(method: str, *, axes: int, radius: float | None) -> str | None:
    """Name the need of a method that these groups lack; none where it applies.

    ``axes``: how many coordinates places have, 0 for groups that are not balls around places.
    """
    plane = axes >= 2
    applies = {
        "coordinate": axes > 0,
        "hilbert": plane,
        "strips": plane and bool(radius),
        "label": axes == 0,
    }
    return None if applies.get(method, True) else _NEEDS[method]


@dataclass(frozen=True, eq=False)
class ReferenceOrder:
    """People in the order of their ranks, and how that order was found."""

    people: IntArray
    """σ0: the person at each rank."""
    method: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "people", frozen(_permutation(self.people)))

    @cached_property
    def ranks(self) -> IntArray:
        """The rank of each person: the inverse of the order."""
        ranks = np.empty(self.people.size, np.int64)
        ranks[self.people] = np.arange(self.people.size)
        return frozen(ranks)

    def subset(self, people: IntArray) -> ReferenceOrder:
        """Restrict the order to some of the people, renumbered as they are named."""
        return ReferenceOrder(np.argsort(self.ranks[people]), self.method)


def reference_order(
    grouping: Grouping, method: str = "best", *, values: int | None = None
) -> ReferenceOrder:
    """Find an order for these groups; ``values`` is how many values a report can take, if few."""
    if method not in METHODS:
        raise InvalidParameter(
            f"method: {method!r} is not known; {checks.did_you_mean(str(method), METHODS)}"
        )
    incidence = grouping.incidence()
    tried = METHODS[1:] if method == "best" else (method,)
    found = _least(grouping, values, _variants(grouping, incidence, tried))
    if found is None:
        needs = _NEEDS.get(method, "groups with fewer members in all")
        raise InvalidParameter(f"method {method} needs {needs}; use best", field="method")
    if method == "best" and incidence is not None and affordable(incidence):
        return _improved(grouping, incidence, found, values)
    return found


def _variants(
    grouping: Grouping, incidence: Incidence | None, methods: tuple[str, ...]
) -> Iterator[tuple[str, IntArray]]:
    placed = grouping if isinstance(grouping, BallGroups) else None
    for method in methods:
        found: Iterator[IntArray] = iter(())
        if method in _SORTED and placed is not None:
            found = _SORTED[method](placed)
        elif method == "label" and placed is not None:
            continue  # Groups around places have no names to go by.
        elif method in _SEARCHED and incidence is not None:
            found = _SEARCHED[method](incidence)
        elif method == "bfs" and placed is not None:
            found = iter((placed.breadth_first(),))
        for people in found:
            yield method, people


def _least(
    grouping: Grouping, values: int | None, variants: Iterator[tuple[str, IntArray]]
) -> ReferenceOrder | None:
    """The least sensitive of some orders, the first of several; fewer where groups are vast."""
    best: ReferenceOrder | None = None
    least, read, total = 0, 0, int(grouping.sizes.sum())
    seen: set[str] = set()
    goal = floor_of(grouping, values)
    for method, people in variants:
        # The first variant of each method is always measured.
        if method in seen and read > _MEASURED:
            continue
        seen.add(method)
        read += total
        order = ReferenceOrder(people, method)
        found = _sensitivity(grouping, order, values)
        if best is None or found < least:
            best, least = order, found
        if least <= goal:
            break
    return best


def _improved(
    grouping: Grouping, incidence: Incidence, start: ReferenceOrder, values: int | None
) -> ReferenceOrder:
    if _sensitivity(grouping, start, None) <= floor_of(grouping):
        return start
    people = refined(grouping, incidence, start.people.copy())
    better = ReferenceOrder(people, f"{start.method}, refined")
    least = _sensitivity(grouping, start, values)
    return better if _sensitivity(grouping, better, values) < least else start


def _sensitivity(grouping: Grouping, order: ReferenceOrder, values: int | None) -> int:
    return int(kendall(grouping, order.ranks, values).max())


def given_order(order: ArrayLike, n: int | None = None) -> ReferenceOrder:
    """Take an order as given: all people once, the first at rank 0."""
    found = ReferenceOrder(np.asarray(order), "given")
    if n and found.people.size != n:
        raise InvalidCrowd(
            f"the order has {found.people.size} people, but {n} take part; name each once"
        )
    return found


def read_order(path: str | Path, n: int | None = None) -> ReferenceOrder:
    """Read an order from a JSON file: a list of all people, the first at rank 0."""
    wanted = "a list of people, such as [2, 0, 1]"
    found = read_json(path, wanted)
    if not isinstance(found, list) or not found or any(type(one) is not int for one in found):
        raise InvalidParameter(f"{path}: must hold {wanted}")
    if max(map(abs, found)) >= 2**62:
        raise InvalidParameter(f"{path}: names a person beyond any crowd")
    with located(str(path)):
        return given_order(found, n)


def _permutation(people: NDArray[Any]) -> IntArray:
    """A copy, after refusing what does not name each of 0, …, n−1 once."""
    given = np.asarray(people)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
        raise InvalidParameter("an order must be a list of people, whole numbers from 0")
    order = given.astype(np.int64)
    n = order.size
    outside = (order < 0) | (order >= n)
    if outside.any():
        raise InvalidParameter(
            f"the order of {n} people has {order[np.argmax(outside)]}; people are 0 to {n - 1}"
        )
    times = np.bincount(order, minlength=n)
    if (times != 1).any():
        missing = int(np.argmin(times))
        raise InvalidParameter(
            f"the order of {n} people lacks {missing} and has {int(np.argmax(times))} more than"
            " once; name each once"
        )
    return order
