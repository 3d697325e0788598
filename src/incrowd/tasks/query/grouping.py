"""Grouping sets: the cells that a query has one row for, and who answers for which.

A grouping set of k columns has a cell for every combination of their values and of ``no answer``,
numbered row by row with the last column fastest. Cells are shared among compute nodes in contiguous
ranges that differ by at most one in length. Both follow from the schema alone.

GROUP BY is a list of them: ROLLUP (a, b) stands for the sets (a, b), (a), (); CUBE (a, b) for all
subsets. What stands side by side in GROUP BY is multiplied out, as in SQL: one set of each, joined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.tasks.query.schema import Column

if TYPE_CHECKING:
    from incrowd.tasks.query.sql import Names, Node


@dataclass(frozen=True)
class GroupingSet:
    """The cells of one grouping set; one cell, if there is nothing to group by."""

    by: tuple[Column, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(each.name for each in self.by)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each column."""
        return tuple(each.groups or 0 for each in self.by)

    @property
    def cells(self) -> int:
        """How many combinations there are."""
        return math.prod(self.shape)

    def cell_of(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The cell of each encoded tuple."""
        found = np.zeros(len(values), np.int64)
        for column, size in zip(self.by, self.shape, strict=True):
            found *= size
            found += column.group_of(values[column.name])
        return found

    def values_of(self, cell: int) -> tuple[str, ...]:
        """The values of the columns in one cell."""
        codes = np.unravel_index(cell, self.shape) if self.by else ()
        return tuple(each.value(int(code)) for each, code in zip(self.by, codes, strict=True))

    def edges(self, targets: int) -> NDArray[np.int64]:
        """Where the range of each compute node begins, and, last, where the last one ends."""
        return np.arange(targets + 1, dtype=np.int64) * self.cells // targets

    def target_of(self, cells: NDArray[np.int64], targets: int) -> NDArray[np.int64]:
        """The compute node that answers for each of these cells."""
        owner = np.repeat(np.arange(targets), np.diff(self.edges(targets)))
        return owner[cells]


MOST_CELLS = 100_000
"""Cells of one grouping set."""
MOST_SETS = 1_000
"""Grouping sets of one query."""

Set = tuple[Column, ...]


def grouping_sets(names: Names, group: Node) -> tuple[GroupingSet, ...]:
    """The grouping sets in the order of the text; without GROUP BY, one that has no columns."""
    if group is None:
        return (GroupingSet(()),)
    for key, value in group.args.items():
        if value and key != "expressions":
            raise names.source.fail_clause(
                "GROUP BY", group, f"{key.upper()} is not answered: name columns, or write "
                "GROUPING SETS (…), ROLLUP (…) or CUBE (…)"
            )  # fmt: skip
    joined: list[Set] = [()]
    for element in group.expressions:
        choices = _choices(names, element)
        _limit(names, element, len(joined) * len(choices))
        joined = [_union(*pair) for pair in product(joined, choices)]
    found: dict[frozenset[str], GroupingSet] = {}
    for columns in joined:
        one = GroupingSet(columns)
        same, shown = frozenset(one.columns), f"grouping set ({', '.join(one.columns)})"
        if same in found:
            problem = f"{shown} is asked twice, and would be paid for twice: leave one out"
            raise names.source.fail_clause("GROUP BY", group, problem)
        if one.cells > MOST_CELLS:
            problem = (
                f"{shown} has {one.cells:,} cells, more than {MOST_CELLS:,}: group by fewer "
                "columns, or by coarser ones"
            )
            raise names.source.fail_clause("GROUP BY", group, problem)
        found[same] = one
    return tuple(found.values())


def _choices(names: Names, node: Node) -> list[Set]:
    """The sets that one element of GROUP BY stands for, of which each row takes one."""
    from sqlglot import exp

    if isinstance(node, exp.GroupingSets):
        found = list(chain.from_iterable(_choices(names, each) for each in node.expressions))
        _limit(names, node, len(found))
        return found
    if isinstance(node, exp.Rollup) and node.expressions:
        _limit(names, node, len(node.expressions) + 1)
        parts = [_together(names, each) for each in node.expressions]
        return [_union(*parts[:length]) for length in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube) and node.expressions:
        # Beyond a million millions it makes no difference how many there are.
        _limit(names, node, 2 ** min(40, len(node.expressions)))
        parts = [_together(names, each) for each in node.expressions]
        sizes = range(len(parts), -1, -1)
        return [_union(*some) for size in sizes for some in combinations(parts, size)]
    return [_together(names, node)]


def _together(names: Names, node: Node) -> Set:
    """One set: a column, or columns in brackets."""
    from sqlglot import exp

    node = node.unnest()
    listed = node.expressions if isinstance(node, exp.Tuple) else [node]
    return _union(*((_groupable(names, each.unnest()),) for each in listed))


def _groupable(names: Names, node: Node) -> Column:
    """A column whose values can be counted."""
    from sqlglot import exp

    if not isinstance(node, exp.Column):
        raise names.fail(node, "expected the name of a column to group by")
    column = names.column(node)
    if column.type == "number":
        raise names.fail(
            node, "a number has too many values to group by: declare it as integer or category"
        )
    if column.size is None:
        raise names.fail(node, "an integer without bounds has no cells: declare its low and high")
    return column


def _union(*parts: Set) -> Set:
    """The columns of all, each once, in the order in which they come."""
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def _limit(names: Names, node: Node, count: int) -> None:
    if count > MOST_SETS:
        raise names.fail(
            node, f"{count:,} grouping sets are more than {MOST_SETS:,}: list those you need"
        )
