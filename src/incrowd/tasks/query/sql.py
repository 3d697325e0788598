"""SQL as a plan: what is shown, which cells there are, and which tuples count.

The subset is the aggregate that can be computed cell by cell between strangers::

    SELECT g, …, COUNT(*), COUNT(x), SUM(x), AVG(x), MIN(x), MAX(x), VARIANCE(x), …
    FROM t
    [WHERE comparisons of a column and a literal, BETWEEN, IN, AND, OR, NOT]
    [GROUP BY columns, GROUPING SETS (…), ROLLUP (…), CUBE (…)]

Everything else is refused, in one line that names its place. Names, literals and calls know their
place in the text; everything else stands where the first of those inside it does, and a clause
where its keyword does. A grouping set that is asked twice is refused as well, because everybody
would pay for it twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from incrowd.checks import did_you_mean
from incrowd.errors import InvalidQuery, MissingExtra
from incrowd.tasks.query.conditions import Condition, condition_of
from incrowd.tasks.query.grouping import GroupingSet, grouping_sets
from incrowd.tasks.query.schema import Column

Node = Any
"""A part of a parsed query. What the parser calls their common type differs by its version."""

_LONGEST = 20_000
"""Characters of a query; nobody writes more, and a device parses what strangers send."""
_SHOWN = 40
_DIALECT = "duckdb"
_SHAPE = "SELECT … FROM … WHERE … GROUP BY …"


class Source:
    """One query as it was written."""

    def __init__(self, sql: str) -> None:
        self.sql = sql

    def parsed(self) -> Node:
        """The one statement; what is no SQL is refused where it ceases to be."""
        try:
            import sqlglot
            from sqlglot.errors import ParseError, SqlglotError
        except ImportError as error:
            raise MissingExtra("queries need sqlglot: pip install 'incrowd[sql]'") from error
        if not isinstance(self.sql, str) or len(self.sql) > _LONGEST:
            raise InvalidQuery(f"query: expected SQL of at most {_LONGEST:,} characters")
        try:
            tokens = sqlglot.tokenize(self.sql, dialect=_DIALECT)
            if tokens and tokens[0].text.upper() != "SELECT":
                raise InvalidQuery(
                    f"query: {self.place(tokens[0].start)}: {tokens[0].text[:_SHOWN]}: "
                    f"expected {_SHAPE}"
                )
            statements = [each for each in sqlglot.parse(self.sql, dialect=_DIALECT) if each]
        except ParseError as error:
            raise self._unreadable(error.errors[0]) from error
        except SqlglotError as error:
            at = max(self.sql.rfind(mark) for mark in ("'", '"', "/*", "$"))
            raise InvalidQuery(
                f"query: {self.place(max(0, at))}: not SQL: is a quotation mark missing?"
            ) from error
        except RecursionError as error:
            raise InvalidQuery("query: nested too deeply: write it with fewer brackets") from error
        if not statements:
            raise InvalidQuery(f"query: line 1, column 1: empty; write {_SHAPE}")
        if len(statements) > 1:
            problem = "a second statement: ask one query at a time"
            raise self.fail_clause("SELECT", statements[1], problem)
        return statements[0]

    def fail(self, node: Node, problem: str) -> InvalidQuery:
        """The error to raise about a part of the query."""
        found = None if node is None else self.span(node)
        if found is None:
            return InvalidQuery(f"query: {problem}")
        begin, end = found
        return InvalidQuery(f"query: {self.place(begin)}: {self._text(begin, end)}: {problem}")

    def fail_clause(self, keyword: str, node: Node, problem: str) -> InvalidQuery:
        """The error to raise about a clause, by the keyword that stands before its content."""
        spans = [self.span(each) for each in (node if isinstance(node, list) else [node])]
        before = min((begin for begin, _ in filter(None, spans)), default=len(self.sql))
        written = re.compile(rf"\b{keyword}\b".replace(" ", r"\s+"), re.IGNORECASE)
        found = [each.start() for each in written.finditer(self.sql) if each.start() <= before]
        at = found[-1] if found else before
        return InvalidQuery(f"query: {self.place(at)}: {keyword}: {problem}")

    def place(self, at: int) -> str:
        """The line and column of a position in the text."""
        before = self.sql[:at]
        return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"

    def span(self, node: Node) -> tuple[int, int] | None:
        """Where a part begins and ends, or none if nothing in it knows."""
        if not hasattr(node, "walk"):
            return None
        known = [each.meta for each in node.walk() if "start" in each.meta]
        if known:
            return min(each["start"] for each in known), max(each["end"] for each in known) + 1
        # Only bare words do not know.
        text = re.search(r"\b(TRUE|FALSE|NULL)\b", self.sql, re.IGNORECASE)
        return text.span() if text else None

    def _text(self, begin: int, end: int) -> str:
        # The brackets of a call stand behind the last thing that knows its place.
        while self.sql.count("(", begin, end) > self.sql.count(")", begin, end):
            closing = self.sql.find(")", end)
            if closing < 0:
                break
            end = closing + 1
        text = _one_line(self.sql[begin:end])
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

    def _unreadable(self, error: dict[str, Any]) -> InvalidQuery:
        line, column = int(error["line"]), int(error["col"])
        text = _one_line(str(error["highlight"]))
        # The parser counts the columns of a word to its last letter.
        where = f"line {line}, column {max(1, column - max(0, len(text) - 1))}"
        near = f" near {text!r}" if text else ""
        return InvalidQuery(f"query: {where}: not SQL{near}: write {_SHAPE}")


def _one_line(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[\d*m", "", text).split())


@dataclass(frozen=True)
class Names:
    """The columns of the table, what the table is called, and the text that names them."""

    source: Source
    columns: tuple[Column, ...]
    tables: tuple[str, ...]

    def column(self, node: Node) -> Column:
        """The column that a node names; refuses anything else."""
        from sqlglot import exp

        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise self.fail(node, "expected the name of a column")
        if node.table and node.table.casefold() not in {each.casefold() for each in self.tables}:
            raise self.fail(node, f"unknown table; {did_you_mean(node.table, set(self.tables))}")
        wanted = node.name.casefold()
        for each in self.columns:
            if each.name.casefold() == wanted:
                return each
        hint = did_you_mean(node.name, (each.name for each in self.columns))
        raise self.fail(node, f"unknown column; {hint}")

    def fail(self, node: Node, problem: str) -> InvalidQuery:
        """The error to raise about a part of the query."""
        return self.source.fail(node, problem)


Function = Literal["COUNT", "SUM", "AVG", "MIN", "MAX", "VAR"]
"""What a cell can be asked for."""

_KNOWN = ("AVG", "COUNT", "MAX", "MIN", "SUM", "VARIANCE")
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
"""Clauses that are no part of the subset: their keywords, and what to do about them."""


@dataclass(frozen=True)
class Aggregate:
    """A function of the tuples of a cell; without a column it counts them."""

    function: Function
    column: Column | None


@dataclass(frozen=True)
class Item:
    """One column of the answer: what it is called, and a grouping column or an aggregate."""

    name: str
    shows: Column | Aggregate


@dataclass(frozen=True)
class Parsed:
    """A query in the subset."""

    items: tuple[Item, ...]
    sets: tuple[GroupingSet, ...]
    where: Condition | None

    @property
    def aggregates(self) -> tuple[tuple[str, Aggregate], ...]:
        """The aggregates with their names, in order."""
        return tuple(
            (each.name, each.shows) for each in self.items if isinstance(each.shows, Aggregate)
        )


def parse(sql: str, table: str, columns: tuple[Column, ...]) -> Parsed:
    """The query over these columns; refuses what is not in the subset."""
    source = Source(sql)
    select = source.parsed()
    try:
        return _planned(source, select, table, columns)
    except RecursionError as error:
        raise source.fail(None, "nested too deeply: write it with fewer brackets") from error


def _planned(source: Source, select: Node, table: str, columns: tuple[Column, ...]) -> Parsed:
    from sqlglot import exp

    if not isinstance(select, exp.Select):
        keyword = type(select).__name__.upper()
        raise source.fail_clause(keyword, None, "queries are not combined: ask them one by one")
    names = _from(source, select, table, columns)
    for key, value in select.args.items():
        if value and key not in ("expressions", "from", "from_", "where", "group"):
            keyword, problem = _REFUSED.get(key, (key.strip("_").upper(), "leave it out"))
            raise source.fail_clause(keyword, value, problem)
    where = select.args.get("where")
    condition = None if where is None else condition_of(names, where.this)
    sets = grouping_sets(names, select.args.get("group"))
    grouped = {name for each in sets for name in each.columns}
    items = tuple(_item(names, each, grouped) for each in select.expressions)
    seen: set[str] = set()
    for item, node in zip(items, select.expressions, strict=True):
        if item.name.casefold() in seen:
            raise source.fail(node, f"a second column {item.name!r}: rename it with AS")
        seen.add(item.name.casefold())
    if not any(isinstance(each.shows, Aggregate) for each in items):
        raise source.fail(select.expressions[0], "nothing is aggregated: add COUNT(*) or another")
    return Parsed(items, sets, condition)


def _from(source: Source, select: Node, table: str, columns: tuple[Column, ...]) -> Names:
    """The names that the query may use, once it is about the one table there is."""
    from sqlglot import exp

    clause = select.args.get("from_") or select.args.get("from")
    if clause is None:
        raise source.fail(select, f"FROM is missing: add FROM {table}")
    named: Any = clause.this
    if not isinstance(named, exp.Table) or not isinstance(named.this, exp.Identifier):
        raise source.fail_clause("FROM", clause, f"subqueries are not answered: ask FROM {table}")
    for key, value in named.args.items():
        if value and key not in ("this", "alias"):
            problem = f"expected a table and nothing else: write FROM {table}"
            if key == "joins":
                problem = _REFUSED["joins"][1]
            raise source.fail(named, problem)
    if named.name.casefold() != table.casefold():
        raise source.fail(named, f"unknown table; did you mean {table}?")
    alias = named.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise source.fail(named, f"columns are not renamed here: write FROM {table}")
    return Names(source, columns, (table, named.alias or table))


def _item(names: Names, node: Node, grouped: set[str]) -> Item:
    from sqlglot import exp

    alias = node.alias if isinstance(node, exp.Alias) else ""
    shown: Any = node.this if isinstance(node, exp.Alias) else node
    if isinstance(shown, exp.Column) and not isinstance(shown.this, exp.Star):
        column = names.column(shown)
        if column.name not in grouped:
            raise names.fail(
                shown, "is neither grouped nor aggregated: add it to GROUP BY, or aggregate it"
            )
        return Item(alias or column.name, column)
    function = _function(names, shown)
    if isinstance(shown.this, exp.Star):
        return Item(alias or "COUNT(*)", Aggregate("COUNT", None))
    column = names.column(_argument(names, shown))
    if not column.numeric and function != "COUNT":
        raise names.fail(
            shown, f"{column.name} is a category: declare it as integer or number to compute this"
        )
    called = "VARIANCE" if function == "VAR" else function
    # No value is missing, so that values and tuples are as many.
    counted = None if function == "COUNT" else column
    return Item(alias or f"{called}({column.name})", Aggregate(function, counted))


def _function(names: Names, node: Node) -> Function:
    """Which of the known functions is called."""
    from sqlglot import exp

    known: dict[type, Function] = {
        exp.Count: "COUNT",
        exp.Sum: "SUM",
        exp.Avg: "AVG",
        exp.Min: "MIN",
        exp.Max: "MAX",
        exp.Variance: "VAR",
    }
    if isinstance(node, exp.Anonymous) and node.name.upper() in ("VAR", "VAR_SAMP"):
        return "VAR"
    found = known.get(type(node))
    if found is not None:
        return found
    if isinstance(node, exp.Func) and not isinstance(node, exp.And | exp.Or | exp.Case | exp.Cast):
        raise names.fail(node, f"unknown function; known: {', '.join(_KNOWN)}")
    raise names.fail(
        node, f"expected a grouped column or one of {', '.join(_KNOWN)} of a column: compute the "
        "rest from the answer"
    )  # fmt: skip


def _argument(names: Names, call: Node) -> Any:
    """The one column that a function is called with."""
    from sqlglot import exp

    if isinstance(call, exp.Anonymous):
        given = list(call.expressions)
    else:
        rest = [value for key, value in call.args.items() if key not in ("this", "big_int")]
        given = [call.this, *(each for each in rest if each)]
    if len(given) == 1 and isinstance(given[0], exp.Column):
        return given[0]
    problem = "expected one column: "
    if given and isinstance(given[0], exp.Distinct):
        problem += "DISTINCT values are not counted; group by the column instead"
    elif isinstance(call, exp.Count):
        problem += "write COUNT(*) to count tuples"
    else:
        problem += "have people compute expressions into a column of their data"
    raise names.fail(call, problem)
