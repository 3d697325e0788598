"""SQL read into a plan.

The subset is the aggregate that can be computed cell by cell between strangers::

    SELECT g, …, COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x), MAX(x), VARIANCE(x), …
    FROM t
    [WHERE comparisons of a column and a literal, BETWEEN, IN, AND, OR, NOT]
    [GROUP BY columns, GROUPING SETS (…), ROLLUP (…), CUBE (…)]

ROLLUP (a, b) stands for the grouping sets (a, b), (a), (); CUBE (a, b) for all subsets. What stands
side by side in GROUP BY is multiplied out, as in SQL: one set of each, joined. Everything else is
refused, in one line that names its place. A grouping set that is asked twice is refused as well,
because everybody would pay for it twice.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, combinations, product
from typing import Any

from sqlglot import exp

from incrowd.checks import did_you_mean
from incrowd.errors import InvalidQuery
from incrowd.tasks.query import plan
from incrowd.tasks.query.schema import Column
from incrowd.tasks.query.source import Node, Source

MOST_CELLS = 100_000
"""Cells of one grouping set."""
MOST_SETS = 1_000
"""Grouping sets of one query."""
_LONGEST_NUMBER = 40
_KNOWN = ("AVG", "COUNT", "MAX", "MIN", "SUM", "VARIANCE")
_FUNCTIONS: dict[type, plan.Function] = {
    exp.Count: "COUNT", exp.Sum: "SUM", exp.Avg: "AVG",
    exp.Min: "MIN", exp.Max: "MAX", exp.Variance: "VAR",
}  # fmt: skip
_TESTS: dict[type, tuple[plan.Operator, plan.Operator]] = {
    exp.EQ: ("=", "="), exp.NEQ: ("<>", "<>"), exp.LT: ("<", ">"), exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"), exp.GTE: (">=", "<="),
}  # fmt: skip
"""Comparisons, and the same with their sides exchanged."""
_REFUSED = {
    "distinct": ("DISTINCT", "every cell has one row anyway: leave it out"),
    "joins": ("JOIN", "a person has one tuple of one table: ask about one table"),
    "laterals": ("LATERAL", "a person has one tuple of one table: ask about one table"),
    "having": ("HAVING", "cells are not filtered by their result: leave it out, filter the answer"),
    "qualify": ("QUALIFY", "cells are not filtered by their result: leave it out"),
    "order": ("ORDER BY", "rows come by grouping set and cell: leave it out, sort the answer"),
    "limit": ("LIMIT", "every cell is answered: leave it out, cut the answer"),
    "offset": ("OFFSET", "every cell is answered: leave it out, cut the answer"),
    "sample": ("SAMPLE", "sampling is a setting of the protocol: leave it out"),
    "locks": ("FOR", "there is nothing to lock: leave it out"),
    "windows": ("WINDOW", "there are no windows: leave it out"),
}
"""Clauses outside the subset: their keywords, and what to do about them."""
Columns = tuple[Column, ...]


def parse(sql: str, table: str, columns: Columns) -> plan.Plan:
    """Read the query over these columns; refuse what is not in the subset."""
    try:
        return _planned(Source(sql, columns, (table,)), table)
    except RecursionError as error:
        raise InvalidQuery("query: nested too deeply: write it with fewer brackets") from error


def _planned(source: Source, table: str) -> plan.Plan:
    select = source.parsed()
    if not isinstance(select, exp.Select):
        keyword = type(select).__name__.upper()
        raise source.fail_clause(keyword, None, "queries are not combined: ask them one by one")
    source = replace(source, tables=(table, _alias(source, select, table)))
    for key, value in select.args.items():
        if value and key not in ("expressions", "from", "from_", "where", "group"):
            keyword, problem = _REFUSED.get(key, (key.strip("_").upper(), "leave it out"))
            raise source.fail_clause(keyword, value, problem)
    where: Any = select.args.get("where")
    condition = None if where is None else _condition(source, where.this)
    sets = _grouping_sets(source, select.args.get("group"))
    grouped = {name for each in sets for name in each.columns}
    items: dict[str, plan.Item] = {}
    for node in select.expressions:
        item = _item(source, node, grouped)
        if items.setdefault(item.name.casefold(), item) is not item:
            raise source.fail(node, f"a second column {item.name!r}: rename it with AS")
    if not any(isinstance(each.shows, plan.Aggregate) for each in items.values()):
        raise source.fail(select.expressions[0], "nothing is aggregated: add COUNT(*) or another")
    return plan.Plan(tuple(items.values()), sets, condition)


def _alias(source: Source, select: Node, table: str) -> str:
    """Name of the table in this query, once the query is about the one table there is."""
    clause = select.args.get("from_") or select.args.get("from")
    if clause is None:
        raise source.fail(select, f"FROM is missing: add FROM {table}")
    named: Any = clause.this
    if not isinstance(named, exp.Table) or not isinstance(named.this, exp.Identifier):
        raise source.fail_clause("FROM", clause, f"subqueries are not answered: ask FROM {table}")
    for key, value in named.args.items():
        if value and key not in ("this", "alias"):
            problem = f"expected a table and nothing else: write FROM {table}"
            raise source.fail(named, _REFUSED["joins"][1] if key == "joins" else problem)
    if named.name.casefold() != table.casefold():
        raise source.fail(named, f"unknown table; did you mean {table}?")
    alias = named.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise source.fail(named, f"columns are not renamed here: write FROM {table}")
    return str(named.alias or table)


def _item(source: Source, node: Node, grouped: set[str]) -> plan.Item:
    alias = node.alias if isinstance(node, exp.Alias) else ""
    shown: Any = node.this if isinstance(node, exp.Alias) else node
    if isinstance(shown, exp.Column) and not isinstance(shown.this, exp.Star):
        column = source.column(shown)
        if column.name not in grouped:
            problem = "is neither grouped nor aggregated: add it to GROUP BY, or aggregate it"
            raise source.fail(shown, problem)
        return plan.Item(alias or column.name, column)
    function = _function(source, shown)
    if isinstance(shown.this, exp.Star):
        return plan.Item(alias or "COUNT(*)", plan.Aggregate("COUNT", None))
    column = source.column(_argument(source, shown))
    if not column.numeric and function != "COUNT":
        problem = "is a category: declare it as integer or number to compute this"
        raise source.fail(shown, f"{column.name} {problem}")
    called = "VARIANCE" if function == "VAR" else function
    # No value is missing, so that values and tuples are as many.
    counted = None if function == "COUNT" else column
    return plan.Item(alias or f"{called}({column.name})", plan.Aggregate(function, counted))


def _function(source: Source, node: Node) -> plan.Function:
    if isinstance(node, exp.Anonymous) and node.name.upper() in ("VAR", "VAR_SAMP"):
        return "VAR"
    if (found := _FUNCTIONS.get(type(node))) is not None:
        return found
    if isinstance(node, exp.Func) and not isinstance(node, exp.And | exp.Or | exp.Case | exp.Cast):
        raise source.fail(node, f"unknown function; known: {', '.join(_KNOWN)}")
    wanted = f"a grouped column or one of {', '.join(_KNOWN)} of a column"
    raise source.fail(node, f"expected {wanted}: compute the rest from the answer")


def _argument(source: Source, call: Node) -> Any:
    if isinstance(call, exp.Anonymous):
        given = list(call.expressions)
    else:
        rest = [value for key, value in call.args.items() if key not in ("this", "big_int")]
        given = [call.this, *(each for each in rest if each)]
    if len(given) == 1 and isinstance(given[0], exp.Column):
        return given[0]
    problem = "have people compute expressions into a column of their data"
    if given and isinstance(given[0], exp.Distinct):
        problem = "DISTINCT values are not counted; group by the column instead"
    elif isinstance(call, exp.Count):
        problem = "write COUNT(*) to count tuples"
    raise source.fail(call, f"expected one column: {problem}")


def _condition(source: Source, node: Node) -> plan.Condition:
    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(_condition(source, each) for each in node.flatten())
        return plan.Joined(isinstance(node, exp.And), parts)
    if isinstance(node, exp.Not):
        return plan.Opposite(_condition(source, node.this))
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        column = source.column(node.this)
        low, high = (_literal(source, column, node.args[end]) for end in ("low", "high"))
        ends = plan.Compare(column, ">=", low), plan.Compare(column, "<=", high)
        return plan.Joined(True, ends)
    if isinstance(node, exp.In) and node.expressions:
        column = source.column(node.this)
        equal = tuple(_compared(source, column, "=", each) for each in node.expressions)
        return plan.Joined(False, equal)
    return _comparison(source, node)


def _comparison(source: Source, node: Node) -> plan.Condition:
    if isinstance(node, exp.Is):
        raise source.fail(node, "a missing value matches no condition: leave this one out")
    if type(node) not in _TESTS:
        remedy = "have people compute anything else into a column of their data"
        wanted = "a comparison of a column and a literal, BETWEEN or IN"
        raise source.fail(node, f"expected {wanted}: {remedy}")
    left, right, (test, mirrored) = node.this.unnest(), node.expression.unnest(), _TESTS[type(node)]
    if not isinstance(left, exp.Column):
        left, right, test = right, left, mirrored
    if not isinstance(left, exp.Column):
        raise source.fail(node, "expected a column on one side of the comparison")
    return _compared(source, source.column(left), test, right)


def _compared(source: Source, column: Column, test: plan.Operator, node: Node) -> plan.Compare:
    literal = _literal(source, column, node)
    if column.type == "category" and test in ("=", "<>") and literal not in column.values:
        hint = did_you_mean(literal, column.values)
        raise source.fail(node, f"is no value of {column.name}; {hint}")
    return plan.Compare(column, test, literal)


def _literal(source: Source, column: Column, node: Node) -> str:
    node = node.unnest()
    sign, bare = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    if not isinstance(bare, exp.Literal):
        raise source.fail(node, f"expected a literal to compare {column.name} with")
    text = f"{sign}{bare.this}"
    if column.type == "category":
        if not bare.is_string or sign:
            raise source.fail(node, f"{column.name} is a category: compare it with a 'text'")
        return str(bare.this)
    if bare.is_string:
        kind = "an integer" if column.type == "integer" else "a number"
        raise source.fail(node, f"{column.name} is {kind}: leave out the quotes")
    # A large exponent would be a whole number of as many digits.
    held = len(text) <= _LONGEST_NUMBER and math.isfinite(float(text))
    if held and float(text) == 0:
        held = not any(digit in "123456789" for digit in text.lower().split("e")[0])
    if not held:
        raise source.fail(node, "no number that a double can hold")
    return text


def _grouping_sets(source: Source, group: Node) -> tuple[plan.GroupingSet, ...]:
    if group is None:
        return (plan.GroupingSet(()),)
    for key, value in group.args.items():
        if value and key != "expressions":
            remedy = "name columns, or write GROUPING SETS (…), ROLLUP (…) or CUBE (…)"
            problem = f"{key.upper()} is not answered: {remedy}"
            raise source.fail_clause("GROUP BY", group, problem)
    joined: list[Columns] = [()]
    for element in group.expressions:
        choices = _choices(source, element)
        _limit(source, element, len(joined) * len(choices))
        joined = [_union(*pair) for pair in product(joined, choices)]
    found: dict[frozenset[str], plan.GroupingSet] = {}
    for columns in joined:
        one = plan.GroupingSet(columns)
        same, shown = frozenset(one.columns), f"grouping set ({', '.join(one.columns)})"
        if same in found:
            problem = f"{shown} is asked twice, and would be paid for twice: leave one out"
            raise source.fail_clause("GROUP BY", group, problem)
        if one.cells > MOST_CELLS:
            problem = f"{shown} has {one.cells:,} cells, more than {MOST_CELLS:,}"
            remedy = "group by fewer columns, or by coarser ones"
            raise source.fail_clause("GROUP BY", group, f"{problem}: {remedy}")
        found[same] = one
    return tuple(found.values())


def _choices(source: Source, node: Node) -> list[Columns]:
    if isinstance(node, exp.GroupingSets):
        found = list(chain.from_iterable(_choices(source, each) for each in node.expressions))
        _limit(source, node, len(found))
        return found
    if isinstance(node, exp.Rollup) and node.expressions:
        _limit(source, node, len(node.expressions) + 1)
        parts = [_together(source, each) for each in node.expressions]
        return [_union(*parts[:length]) for length in range(len(parts), -1, -1)]
    if isinstance(node, exp.Cube) and node.expressions:
        # Beyond a million millions it makes no difference how many there are.
        _limit(source, node, 2 ** min(40, len(node.expressions)))
        parts = [_together(source, each) for each in node.expressions]
        sizes = range(len(parts), -1, -1)
        return [_union(*some) for size in sizes for some in combinations(parts, size)]
    return [_together(source, node)]


def _together(source: Source, node: Node) -> Columns:
    node = node.unnest()
    listed = node.expressions if isinstance(node, exp.Tuple) else [node]
    return _union(*((_groupable(source, each.unnest()),) for each in listed))


def _groupable(source: Source, node: Node) -> Column:
    if not isinstance(node, exp.Column):
        raise source.fail(node, "expected the name of a column to group by")
    column = source.column(node)
    if column.type == "number":
        problem = "a number has too many values to group by: declare it as integer or category"
        raise source.fail(node, problem)
    if column.size is None:
        raise source.fail(node, "an integer without bounds has no cells: declare its low and high")
    return column


def _union(*parts: Columns) -> Columns:
    return tuple(dict.fromkeys(chain.from_iterable(parts)))


def _limit(source: Source, node: Node, count: int) -> None:
    if count > MOST_SETS:
        problem = f"{count:,} grouping sets are more than {MOST_SETS:,}: list those you need"
        raise source.fail(node, problem)
