"""Columns of a data file, as the text that is written there.

Data are comma-separated values with a header, in UTF-8, perhaps compressed (``.gz``), one person
per row. What a value may be is the task's business: it parses, and names the row of what it
refuses. Nobody is dropped in silence, because that would change both the answer and the promise: a
row with more or fewer fields than the header is refused, and in a file of one column a blank line
is a person without a value. Only blank lines at the end of the file mean nothing.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from incrowd.errors import EmptyData, FileUnreadable, InvalidParameter, MissingColumn

_OTHER_SEPARATORS = {";": "';'", "\t": "tabs"}


def read_columns(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """The cells of these columns, without the spaces around them; row 1 is the first person."""
    cells = list(
        _cells(path, lambda header: [position_of(path, column, header) for column in columns])
    )
    if not cells:
        raise EmptyData(f"{path}: no rows after the header; a survey needs at least one person")
    return cells


def read_numbers(path: Path) -> tuple[float, ...]:
    """The numbers of a file that holds nothing else, one per line; blank ones may end it."""
    try:
        lines = path.read_text("utf-8-sig").rstrip().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise FileUnreadable(f"{path}: cannot read the numbers: {reason}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(float(line))
        except ValueError:
            raise InvalidParameter(
                f"{path}: line {number}: {line.strip()!r} is not a number: write one per line"
            ) from None
    if not found:
        raise EmptyData(f"{path}: the file is empty; write one number per line")
    return tuple(found)


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """All columns: their names, and the cells of every person."""
    names: list[str] = []

    def everything(header: list[str]) -> list[int]:
        names.extend(name.strip() for name in header)
        return [position_of(path, name, header) for name in names]

    cells = list(_cells(path, everything))
    if not cells:
        raise EmptyData(f"{path}: no rows after the header; there must be at least one person")
    return names, cells


def _cells(path: Path, wanted: Callable[[list[str]], list[int]]) -> Iterator[list[str]]:
    """The cells at the positions that are wanted of this header, row after row."""
    try:
        with _open(path) as stream:
            rows = csv.reader(stream, strict=True)
            try:
                header = next(rows, None) or []
                positions = wanted(header)
                for number, line, row in _people(rows):
                    fields = row or [""] * (len(header) == 1)
                    if len(fields) != len(header):
                        raise MissingColumn(
                            f"{path}: row {number} (line {line}) has {len(fields)} fields where "
                            f"the header has {len(header)}: complete the row, and quote values "
                            "that contain a comma"
                        )
                    yield [fields[position].strip() for position in positions]
            except csv.Error as error:
                raise FileUnreadable(
                    f"{path}: line {rows.line_num}: not valid CSV: {error}"
                ) from error
    except UnicodeDecodeError as error:
        raise FileUnreadable(
            f"{path}: not UTF-8 text (byte 0x{error.object[error.start]:02x}); convert it to UTF-8"
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileUnreadable(f"{path}: cannot read the data: {reason}") from error


def _people(rows: Any) -> Iterator[tuple[int, int, list[str]]]:
    """The rows with their numbers and lines, up to the last one that is not blank."""
    blank: list[tuple[int, int, list[str]]] = []
    for number, row in enumerate(rows, 1):
        blank.append((number, rows.line_num, row))
        if row:
            yield from blank
            blank.clear()


def _open(path: Path) -> TextIO:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    # The signature that spreadsheets put in front would become part of the first column's name.
    stream: TextIO = opener(path, "rt", encoding="utf-8-sig", newline="")
    return stream


def position_of(path: Path, column: str, header: Sequence[str]) -> int:
    """Where a column stands; refuses one that is not there, or twice."""
    if not header:
        raise EmptyData(f"{path}: the file is empty; it needs a header and one line per person")
    names = [name.strip() for name in header]
    for separator, shown in _OTHER_SEPARATORS.items():
        if len(names) == 1 and separator in names[0] and names[0] != column:
            raise MissingColumn(
                f"{path}: no column {column!r}; the header looks separated by {shown}: "
                "save the file with commas"
            )
    if names.count(column) != 1:
        wrong = "more than one" if column in names else "no"
        raise MissingColumn(f"{path}: {wrong} column {column!r}; the file has {', '.join(names)}")
    return names.index(column)
