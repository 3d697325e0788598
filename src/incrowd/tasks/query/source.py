"""The text of a query, and where in it something stands, for messages of one line.

Names, literals and calls know their place in the text; everything else stands where the first of
those inside it does, and a clause where its keyword does.
"""

from __future__ import annotations

import re
from typing import Any

from incrowd.errors import InvalidQuery, MissingExtra

__all__ = ["Node", "Source"]

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
