"""Delimited text: a header, then one person per row.

Nobody is dropped in silence, because that would change both the answer and the guarantee: a row
with more or fewer fields than the header is refused, and in a file of one column a blank line is a
person without a value. Only blank lines at the end of the file mean nothing. All problems of a file
are raised together.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from incrowd.data.columns import check_columns
from incrowd.data.problems import Problems
from incrowd.data.text import SAMPLED_LINES, UNDECODED, decode, find_separator, has_mark
from incrowd.errors import EmptyData, FileUnreadable, MissingColumn


@dataclass(frozen=True)
class Delimited:
    """Cells of a file as they are written, column by column, and its dialect."""

    names: tuple[str, ...]
    columns: Sequence[Sequence[str]]
    n: int
    separator: str
    encoding: str
    marked: bool
    """Whether a byte-order mark opens the file."""


def read_delimited(
    source: str,
    content: bytes,
    *,
    wanted: Sequence[str] | None = None,
    separator: str | None = None,
    encoding: str | None = None,
) -> Delimited:
    """Read a table of text.

    Args:
        source: Name of the file, for errors.
        content: Its bytes.
        wanted: Columns that must be there, once each; by default each column has its own name.
        separator: Character between fields; found where it is left out.
        encoding: Encoding; found where it is left out.

    """
    text, encoding = decode(source, content, encoding)
    lines = io.StringIO(text, newline="")
    if separator is None:
        separator = find_separator(list(islice(lines, SAMPLED_LINES))) or ","
        lines.seek(0)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    problems = Problems(source)
    rows: list[list[str]] = []
    names: tuple[str, ...] = ()
    try:
        header = next(reader, None)
        if not header:
            raise EmptyData(
                f"{source}: {'the file is empty' if header is None else 'the first line is blank'}"
                "; it needs a header and one line per person"
            )
        names = tuple(name.strip() for name in header)
        if undecoded := UNDECODED.search(text):
            _check_bytes(problems, "the header", names, names, encoding)
        check_columns(problems, names, wanted)
        for number, line, row in _people(reader):
            # In a file of one column the csv reader makes no fields of a blank line.
            fields = row or [""] * (len(names) == 1)
            if len(fields) != len(names):
                problems.add(
                    MissingColumn,
                    f"row {number} (line {line}) has {len(fields)} fields where the header has "
                    f"{len(names)}",
                    f"complete the row, and quote values that contain {separator_name(separator)}",
                )
            elif undecoded:
                _check_bytes(problems, f"row {number} (line {line})", fields, names, encoding)
            rows.append(fields)
    except csv.Error as error:
        problems.add(
            FileUnreadable,
            f"line {reader.line_num}: not valid CSV: {error}",
            'close every quote, and double those inside of quotes ("")',
        )
    problems.require_none()
    if not rows:
        raise EmptyData(f"{source}: no rows after the header; there must be at least one person")
    columns = list(zip(*rows, strict=True))
    return Delimited(names, columns, len(rows), separator, encoding, has_mark(content))


def separator_name(separator: str) -> str:
    """Separator in words, as in a sentence."""
    return {"\t": "a tab", " ": "a space"}.get(separator, f"'{separator}'")


def _people(rows: Any) -> Iterator[tuple[int, int, list[str]]]:
    """The rows with their numbers and lines, up to the last one that is not blank."""
    blank: list[tuple[int, int, list[str]]] = []
    for number, row in enumerate(rows, 1):
        blank.append((number, rows.line_num, row))
        if row:
            yield from blank
            blank.clear()


def _check_bytes(
    problems: Problems, place: str, fields: Sequence[str], names: Sequence[str], encoding: str
) -> None:
    for name, field in zip(names, fields, strict=True):
        if wrong := UNDECODED.search(field):
            byte = ord(wrong.group()) - 0xDC00
            problems.add(
                FileUnreadable,
                f"{place}, column {name.encode('ascii', 'replace').decode()!r}: byte "
                f"0x{byte:02x} is not {encoding}",
                "save the file as UTF-8, or state its encoding",
            )
