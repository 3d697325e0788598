"""What a database driver does for the tables: the one place where the two databases differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

_ROWS_AT_ONCE: Final = 1024
"""So that a statement has fewer parameters than either database allows: 32,766 and 65,535."""


class Session(ABC):
    """The few things that a database driver does for :class:`Tables`; ``?`` marks a parameter."""

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a change; how many rows it changed."""

    @abstractmethod
    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a change once per row of parameters; how many rows were changed in all."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Everything that a query finds."""

    def insert(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert at least one row, all of one width, where ``{}`` stands.

        Many rows are one statement: it takes half the time of one for each, and between two
        statements another thread of the program may hold this one up.
        """
        marks = f"({', '.join('?' * len(rows[0]))})"
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[first : first + _ROWS_AT_ONCE]
            self.run(sql.format(", ".join([marks] * len(some))), list(chain.from_iterable(some)))
