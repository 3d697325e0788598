"""The text of a query: what stands in it, and the place of everything that is refused.

Names, literals and calls know their place in the text; everything else stands where the first of
those inside it does, and a clause where its keyword does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from incrowd.checks import did_you_mean
from incrowd.errors import InvalidQuery
from incrowd.tasks.query.schema import Column

Node = Any
"""A part of a parsed query; the parser's name of their common type differs by its version."""

_LONGEST = 20_000
"""Characters of a query: a device parses what strangers send."""
_SHOWN = 40
_DIALECT = "duckdb"
_SHAPE = "SELECT … FROM … WHERE … GROUP BY …"


@dataclass(frozen=True)
class Source:
    """One query as it was written, with the columns and the names of its table."""

    sql: str
    columns: tuple[Column, ...]
    tables: tuple[str, ...]

    def parsed(self) -> Node:
        """Parse the one statement; refuse other text where it ceases to be SQL."""
        if not isinstance(self.sql, str) or len(self.sql) > _LONGEST:
            raise InvalidQuery(f"query: expected SQL of at most {_LONGEST:,} characters")
        try:
            tokens = sqlglot.tokenize(self.sql, dialect=_DIALECT)
            if tokens and tokens[0].text.upper() != "SELECT":
                first = f"{self.place(tokens[0].start)}: {tokens[0].text[:_SHOWN]}"
                raise InvalidQuery(f"query: {first}: expected {_SHAPE}")
            statements = [each for each in sqlglot.parse(self.sql, dialect=_DIALECT) if each]
        except ParseError as error:
            raise self._unreadable(error.errors[0]) from error
        except SqlglotError as error:
            at = max(self.sql.rfind(mark) for mark in ("'", '"', "/*", "$"))
            problem = "not SQL: is a quotation mark missing?"
            raise InvalidQuery(f"query: {self.place(max(0, at))}: {problem}") from error
        if not statements:
            raise InvalidQuery(f"query: line 1, column 1: empty; write {_SHAPE}")
        if len(statements) > 1:
            problem = "a second statement: ask one query at a time"
            raise self.fail_clause("SELECT", statements[1], problem)
        return statements[0]

    def column(self, node: Node) -> Column:
        """Look up the column that a node names; refuse anything else."""
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            raise self.fail(node, "expected the name of a column")
        if node.table and node.table.casefold() not in {each.casefold() for each in self.tables}:
            raise self.fail(node, f"unknown table; {did_you_mean(node.table, set(self.tables))}")
        for each in self.columns:
            if each.name.casefold() == node.name.casefold():
                return each
        hint = did_you_mean(node.name, (each.name for each in self.columns))
        raise self.fail(node, f"unknown column; {hint}")

    def fail(self, node: Node, problem: str) -> InvalidQuery:
        """Make the error to raise about a part of the query."""
        if (found := self._span(node)) is None:
            return InvalidQuery(f"query: {problem}")
        return InvalidQuery(f"query: {self.place(found[0])}: {self._text(*found)}: {problem}")

    def fail_clause(self, keyword: str, node: Node, problem: str) -> InvalidQuery:
        """Make the error to raise about a clause, by the keyword that stands before its content."""
        spans = [self._span(each) for each in (node if isinstance(node, list) else [node])]
        before = min((begin for begin, _ in filter(None, spans)), default=len(self.sql))
        written = re.compile(rf"\b{keyword}\b".replace(" ", r"\s+"), re.IGNORECASE)
        found = [each.start() for each in written.finditer(self.sql) if each.start() <= before]
        at = found[-1] if found else before
        return InvalidQuery(f"query: {self.place(at)}: {keyword}: {problem}")

    def place(self, at: int) -> str:
        """Line and column of a position in the text."""
        before = self.sql[:at]
        return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"

    def _span(self, node: Node) -> tuple[int, int] | None:
        if not hasattr(node, "walk"):
            return None
        known = [each.meta for each in node.walk() if "start" in each.meta]
        if known:
            return min(each["start"] for each in known), max(each["end"] for each in known) + 1
        # Only bare words do not know their place.
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
        line, text = int(error["line"]), _one_line(str(error["highlight"]))
        # The parser counts the columns of a word to its last letter.
        column = max(1, int(error["col"]) - max(0, len(text) - 1))
        near = f" near {text!r}" if text else ""
        return InvalidQuery(f"query: line {line}, column {column}: not SQL{near}: write {_SHAPE}")


def _one_line(text: str) -> str:
    return " ".join(re.sub(r"\x1b\[\d*m", "", text).split())
