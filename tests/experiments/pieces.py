"""What tests of experiments share: making a quick run, and reading the tables and figures of it."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Collection, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from experiments import common

Row = dict[str, str]


def quick_run(main: Callable[[Sequence[str]], int], directory: Path) -> list[str]:
    """The files that a quick run, which ends well, says it wrote into a directory."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main(["--quick", "--out", str(directory)]) == 0
    return printed.getvalue().split()


# Tables.


def rows(text: str) -> list[Row]:
    """The rows of a markdown table by the names of its columns; no cell of a row is empty."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    columns, _, *cells = [[cell.strip() for cell in line] for line in lines]
    # A column that says more of the one before it has no name of its own.
    named = [f"{name} {at}" if columns.count(name) > 1 else name for at, name in enumerate(columns)]
    assert all(all(row) for row in cells)
    return [dict(zip(named, row, strict=True)) for row in cells]


def read_rows(path: Path) -> list[Row]:
    """The rows of a table in a file."""
    return rows(path.read_text(encoding="utf-8"))


def published(name: str) -> list[Row]:
    """The rows of a table of the documentation."""
    return read_rows(common.FIGURES / name)


def number(cell: str, beside: str = "") -> float:
    """The number in a cell, beside which only these marks may stand."""
    return float(re.sub(f"[, {beside}]", "", cell))


def same_row(row: Row, among: Sequence[Row], keys: Collection[str]) -> Row:
    """The only row among these that has the same keys, of those keys that the row has."""
    (same,) = [each for each in among if all(each[key] == row[key] for key in keys if key in row)]
    return same


# Files.


def assert_made_by(module: str, path: Path) -> None:
    """A file says which command made it, and is a drawing if its name says so."""
    assert f"python -m {module}" in path.read_text(encoding="utf-8")
    if path.suffix == ".svg":
        assert_drawing(path)


def assert_drawing(path: Path) -> None:
    """A file is an SVG drawing."""
    assert ET.fromstring(path.read_text(encoding="utf-8")).tag.endswith("svg")


def assert_light_and_dark(path: Path) -> None:
    """A drawing exchanges all its colours on a dark page, and does not depend on the date."""
    assert_drawing(path)
    text = path.read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    assert "dc:date" not in text
    body = text[text.index("<defs>") :]
    assert set(re.findall(r"#[0-9a-f]{6}\b", body)) <= set(common._DARK)
