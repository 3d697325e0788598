"""People by name: each named once, and joined across files by name and never by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from incrowd.data.problems import Problems, listed
from incrowd.errors import UnmatchedPeople

_MOST_ROWS = 5

Names = Sequence[str] | NDArray[np.str_]
"""Names of people in an order."""


def require_distinct(names: Iterable[str], source: str) -> None:
    """Refuse names of people that are empty or used twice; rows are counted from 1."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(names, 1):
        rows[name].append(row)
    problems = Problems(source)
    for row in rows.pop("", ()):
        problems.add(UnmatchedPeople, f"row {row:,} has no name", "give every person a name")
    for name, found in rows.items():
        if len(found) > 1:
            shown = ", ".join(f"{each:,}" for each in found[:_MOST_ROWS])
            more = ", …" if len(found) > _MOST_ROWS else ""
            problems.add(
                UnmatchedPeople,
                f"{name!r} stands in rows {shown}{more}",
                "give every person a name of their own",
            )
    problems.require_none()


def align(
    names: Names,
    other: Names,
    *,
    this: str = "the data",
    that: str = "the graph",
) -> NDArray[np.intp]:
    """Positions in ``other`` of these names, in their order: ``other[align(names, other)]``.

    Args:
        names: People in the wanted order, each once.
        other: The same people in another order, each once.
        this: Source of ``names``, for errors.
        that: Source of ``other``, for errors.

    Raises:
        UnmatchedPeople: for a name that is empty, doubled, or on one side alone.

    """
    wanted, there = [str(each) for each in names], [str(each) for each in other]
    require_distinct(wanted, this)
    require_distinct(there, that)
    position = {name: place for place, name in enumerate(there)}
    known = set(wanted)
    left = [repr(name) for name in wanted if name not in position]
    right = [repr(name) for name in there if name not in known]
    if left or right:
        told = [
            f"{_people(len(alone))} of {here} not in {away} ({listed(alone)})"
            for alone, here, away in ((left, this, that), (right, that, this))
            if alone
        ]
        raise UnmatchedPeople(
            f"{'; '.join(told)}: people are joined by name, so correct the names, or take out "
            "those who are in one of the two alone"
        )
    return np.array([position[name] for name in wanted], np.intp)


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"
