"""Reading of records: one function for files and frames of every kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from incrowd.data.columnar import read_columnar
from incrowd.data.columns import check_columns
from incrowd.data.decimals import MARKS, is_ambiguous, usual_mark
from incrowd.data.delimited import Delimited, read_delimited, separator_name
from incrowd.data.frames import TypedColumns, read_frame
from incrowd.data.problems import Problems, listed
from incrowd.data.records import NULL_VALUES, Records
from incrowd.data.text import read_bytes
from incrowd.errors import EmptyData, InvalidParameter

_SAMPLED_ROWS = 5_000
"""Number of rows that the usual decimal mark of a file is found from."""


def read(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    null_values: Sequence[str] = NULL_VALUES,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Records:
    """Read a table of people, one per row.

    Separator, decimal mark and encoding of text are found where they are left out; ``notes`` of the
    result say what was found.

    Args:
        source: Path of a CSV, TSV, Parquet or Arrow file, perhaps compressed by gzip where it is
            text, or a frame of pandas, polars or pyarrow.
        columns: Columns that must be there. By default, every name must be that of one column.
        null_values: Texts that are no value, besides the empty one.
        separator: Character between the fields of a text file.
        decimal: Decimal mark, ``.`` or ``,``; the other one may then separate thousands.
        encoding: Encoding of a text file.

    Raises:
        FileUnreadable: for a file that is missing, damaged, or not in its encoding.
        MissingColumn: for a column that is missing or doubled, or a row of another length. All
            problems of a file are in one message.
        EmptyData: without rows.
        MissingExtra: where a library is needed that is not installed.

    """
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        raise InvalidParameter(
            f"separator {separator!r} is not one character other than a quote: write ',', ';', "
            "'\\t' or '|'",
            field="separator",
        )
    if decimal is not None and decimal not in MARKS:
        raise InvalidParameter(f"decimal {decimal!r} is not '.' or ','", field="decimal")
    nulls = (*NULL_VALUES, *null_values)
    if not isinstance(source, str | Path):
        label = f"{type(source).__module__.partition('.')[0]} frame"
        return _typed(label, read_frame(label, source), columns, nulls, decimal)
    path = Path(source)
    typed = read_columnar(path)
    if typed is not None:
        return _typed(str(path), typed, columns, nulls, decimal)
    table = read_delimited(
        str(path), read_bytes(path), wanted=columns, separator=separator, encoding=encoding
    )
    # What is stated is expected; what is found may not be.
    expected = (separator is not None or table.separator == ",") and (
        encoding is not None or (table.encoding == "utf-8" and not table.marked)
    )
    return _delimited(path, table, columns, nulls, decimal, expected=expected)


def _typed(
    source: str,
    table: TypedColumns,
    wanted: Sequence[str] | None,
    nulls: Sequence[str],
    decimal: str | None,
) -> Records:
    problems = Problems(source)
    check_columns(problems, table.names, wanted)
    problems.require_none()
    if not table.n:
        raise EmptyData(f"{source}: no rows; there must be at least one person")
    notes = [f"{Path(source).name}: {_shape(table.names, table.n)}"]
    return Records(
        source,
        table.names,
        table.n,
        table.texts,
        null_values=nulls,
        decimal=decimal,
        notes=notes,
    )


def _delimited(
    path: Path,
    table: Delimited,
    wanted: Sequence[str] | None,
    nulls: Sequence[str],
    decimal: str | None,
    *,
    expected: bool,
) -> Records:
    sample = [[each.strip() for each in cells[:_SAMPLED_ROWS]] for cells in table.columns]
    sample = [[each for each in cells if each not in nulls] for cells in sample]
    usual = decimal or usual_mark(sample)
    marked = " with a byte-order mark" if table.marked else ""
    notes = [
        f"{path.name}: separator {separator_name(table.separator)}, decimal "
        f"{'comma' if usual == ',' else 'point'}, encoding {table.encoding}{marked}, "
        f"{_shape(table.names, table.n)}"
    ]
    unclear = [
        repr(name)
        for name, cells in zip(table.names, sample, strict=True)
        if (wanted is None or name in wanted) and is_ambiguous(cells, usual)
    ]
    if unclear:
        notes.append(
            f"{path.name}: {listed(unclear)}: numbers such as 1,234 may mean 1234 or 1.234, and "
            "are left as text: state the decimal mark"
        )
    return Records(
        str(path),
        table.names,
        table.n,
        table.columns.__getitem__,
        null_values=nulls,
        decimal=decimal,
        usual_decimal=usual,
        notes=notes,
        usual=expected and not unclear and (decimal is not None or usual != ","),
    )


def _shape(names: Sequence[str], n: int) -> str:
    columns = "1 column" if len(names) == 1 else f"{len(names):,} columns"
    return f"{columns}, {'1 row' if n == 1 else f'{n:,} rows'}"
