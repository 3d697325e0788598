"""GROUP BY as a list of grouping sets.

ROLLUP (a, b) stands for the sets (a, b), (a), (); CUBE (a, b) for all subsets. What stands side by
side in GROUP BY is multiplied out, as in SQL: one set of each, joined.
"""

from __future__ import annotations

from itertools import chain, combinations, product

from incrowd.tasks.query.grouping import GroupingSet
from incrowd.tasks.query.names import Names
from incrowd.tasks.query.schema import Column
from incrowd.tasks.query.source import Node

__all__ = ["MOST_CELLS", "MOST_SETS", "grouping_sets"]

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
