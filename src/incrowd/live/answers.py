"""People's answers, kept apart from everything that decides, logs or counts.

An answer is a :class:`Secret`: however it is printed, formatted or caught in a traceback, it reads
``<secret>``. Answers come from a file that only its owner can read, or from standard input, never
from the command line, which other users of the machine can see. The one reader of their content is
the transaction in which a device begins (``member``): by then it has joined, the start is
confirmed, and its ledger has the line. A column without an answer is as good as one with it.
"""

from __future__ import annotations

import csv
import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Final, NoReturn, TextIO

from incrowd.errors import FileUnreadable, MissingColumn

STANDARD_INPUT: Final = Path("-")
_BY_NAME: Final = "device"
_HIDDEN: Final = "<secret>"


class Secret:
    """A text that only :meth:`reveal` shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __repr__(self) -> str:
        return _HIDDEN

    def __str__(self) -> str:
        return _HIDDEN

    def __format__(self, specification: str) -> str:
        return format(_HIDDEN, specification)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is neither copied nor stored")


@dataclass(frozen=True)
class Answers:
    """One owner's answers by column."""

    row: Mapping[str, Secret]

    def read(self, columns: Iterable[str]) -> list[Secret | None]:
        """The answers in these columns, none where there is no answer."""
        return [self.row.get(column) for column in columns]


@dataclass(frozen=True)
class AnswerBook:
    """Everybody's answers by device; a single row without a name belongs to every device."""

    rows: Mapping[str, Answers]

    def of(self, name: str) -> Answers:
        """The answers of one device; empty where it has none."""
        return self.rows.get(name, self.rows.get("", Answers({})))

    @classmethod
    def read(cls, path: Path) -> AnswerBook:
        """A table with a row per device, named in the column ``device``, or with a single row.

        Args:
            path: A CSV file of mode 0600, or ``-`` for standard input.

        Raises:
            FileUnreadable: It cannot be read, or others can read it.
            MissingColumn: Rows without a device of their own.

        """
        if path == STANDARD_INPUT:
            # Whatever bytes an answer consists of, reading it must not fail.
            with TextIOWrapper(
                sys.stdin.buffer, encoding="utf-8-sig", errors="replace", newline=""
            ) as file:
                return cls._of(_table(file, "standard input"), "standard input")
        try:
            with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
                mode = os.fstat(file.fileno()).st_mode
                if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise FileUnreadable(
                        f"{path} holds answers that others can read: run 'chmod 600 {path}'"
                    )
                table = _table(file, str(path))
        except OSError as error:
            raise FileUnreadable(f"cannot read the answers in {path}: {error.strerror}") from None
        return cls._of(table, str(path))

    @classmethod
    def _of(cls, table: Sequence[Mapping[str, str | None]], source: str) -> AnswerBook:
        if len(table) == 1 and _BY_NAME not in table[0]:
            return cls({"": _answers(table[0])})
        if any(_BY_NAME not in row for row in table):
            raise MissingColumn(
                f"{source} has several rows and no column {_BY_NAME!r}: name each row's device "
                "there"
            )
        rows = {row[_BY_NAME] or "": _answers(row) for row in table}
        if "" in rows or len(rows) < len(table):
            raise MissingColumn(f"{source}: every row needs the name of a device of its own")
        return cls(rows)


def _table(file: TextIO, source: str) -> list[dict[str, str | None]]:
    try:
        return list(csv.DictReader(file))
    except csv.Error:
        # The error itself could quote what is in the table.
        raise FileUnreadable(f"the answers in {source} are not a table of CSV") from None


def _answers(row: Mapping[str, str | None]) -> Answers:
    # Cells beyond the header come as a list under no name; an empty cell is no answer.
    return Answers(
        {
            column: Secret(cell)
            for column, cell in row.items()
            if isinstance(column, str) and isinstance(cell, str) and cell and column != _BY_NAME
        }
    )
