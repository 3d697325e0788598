"""The names that a query may use, found as SQL finds them: without regard to case."""

from __future__ import annotations

from dataclasses import dataclass

from incrowd.checks import did_you_mean
from incrowd.errors import InvalidQuery
from incrowd.tasks.query.schema import Column
from incrowd.tasks.query.source import Node, Source

__all__ = ["Names"]


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
