"""``incrowd init``: write a survey file for a table of one's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from incrowd.cli.options import named_by_flag
from incrowd.cli.outcome import check_inputs
from incrowd.cli.output import Format, FormatOption, emit, note, write_text
from incrowd.data import ColumnDescription, Description, describe, read
from incrowd.errors import EmptyData
from incrowd.report.terminal import facts_table
from incrowd.survey.draft import draft

if TYPE_CHECKING:
    from rich.console import Console


def init(
    file: Annotated[
        Path, typer.Argument(help="A table, one person per row: CSV, TSV, Parquet or Arrow.")
    ],
    output: Annotated[Path, typer.Option(help="File to write.")] = Path("survey.toml"),
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to ask about, separated by commas; by default all that fit."),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(help="Column that identifies people; by default one whose values differ."),
    ] = None,
    separator: Annotated[
        str | None, typer.Option(help="Character between fields; found by default.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Decimal mark, . or ,; found by default.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of the text; found by default.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    format: FormatOption = Format.table,
) -> None:
    """Write a survey file for a table of your own.

    It asks about each column that can be asked about. Categories and bounds are taken from the data
    and marked: review them before others see them.
    """
    check_inputs([file], output=output)
    stated = {"separator": separator, "decimal": decimal, "encoding": encoding}
    with named_by_flag(stated):
        records = read(file, separator=separator, decimal=decimal, encoding=encoding)
    wanted = None if columns is None else [each.strip() for each in columns.split(",")]
    found = describe(records, wanted, person)
    if not found.questions:
        left = "; ".join(f"{each.name!r}: {each.reason}" for each in found.columns if each.reason)
        raise EmptyData(
            f"{file}: no column can be asked about{f' ({left})' if left else ''}: name others with "
            "--columns, or write the survey by hand"
        )
    named = Path(os.path.relpath(file, output.parent)).as_posix()
    dialect = {key: value for key, value in stated.items() if value is not None}
    text = draft(found, named, file.name.partition(".")[0], dialect)
    how = "name another file with --output, or replace it with --force"
    write_text(output, text, "survey", replace=force, how=how)
    for each in records.notes:
        note(each)
    payload: dict[str, Any] = {
        "survey": str(output),
        "data": str(file),
        "people": records.n,
        "person": found.person,
        "null_values": list(found.null_values),
        "columns": [
            {"name": each.name, "kind": each.kind, "missing": each.missing, "found": _told(each)}
            for each in found.columns
        ],
        "next": [f"incrowd check {output}", f"incrowd run {output}"],
    }
    emit(payload, lambda console: _render(console, payload, found), format)


def _told(column: ColumnDescription) -> str:
    if column.bounds is not None:
        return f"bounds {column.bounds[0]:f} to {column.bounds[1]:f}"
    if column.kind == "histogram":
        return f"{len(column.categories)} categories"
    return column.reason or "identifies people"


def _render(console: Console, payload: dict[str, Any], found: Description) -> None:
    rows = []
    for each in payload["columns"]:
        asked = "not asked" if each["kind"] == "none" else each["kind"]
        gaps = f", {each['missing']:,} without an answer" if each["missing"] else ""
        rows.append((each["name"], f"{asked}: {each['found']}{gaps}"))
    if found.null_values:
        rows.append(("no answer", ", ".join(found.null_values)))
    console.print(facts_table([("people", f"{payload['people']:,}"), *rows]))
    console.print(f"Written: {payload['survey']}. Review the lines marked 'public: review', then:")
    for each in payload["next"]:
        console.print(f"  {each}", markup=False)
