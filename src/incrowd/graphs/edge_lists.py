"""Edge lists: text with one edge per line, its ends in the first two columns.

Separator and encoding are found as those of data. Labels are all whole numbers ≥ 0 or all names,
and vertex ``i`` is the i-th smallest label, by number or by code point. Where the people are known
by name, all labels are names, as they are written: ``007`` is not ``7``. Lines that begin with
``#`` or ``%`` are comments.

A header is never an edge. The first line is one

* where the people are known: if it names none of them;
* else, if whole numbers stand in the line below and none in it;
* else, if both of its words are usual titles, such as ``person,friend``, and name no vertex below;
* else, if a further column holds numbers in every line but the first.

A first line of two names that stand nowhere else, above edges that hang together, may be either a
header or a pair of people. It is refused rather than guessed.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.data.decimals import is_number
from incrowd.data.people import Names
from incrowd.data.problems import Problems
from incrowd.data.text import SAMPLED_LINES, UNDECODED, decode, find_separator, read_bytes
from incrowd.errors import EmptyData, GraphMalformed

_TITLES = re.compile(
    r"(source|target|src|dst|from|to|sender|receiver|follower|followee|person|people|friend|"
    r"neighbou?r|contact|colleague|peer|partner|member|participant|id|name|node|vertex|user)"
    r"([ _-]?(id|name|[0-9]+|[ab]))?",
    re.IGNORECASE,
)
_COMMENTS = ("#", "%")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+)")
_DIGITS = 20

Row = tuple[int, list[str]]
"""Line number and fields."""


@dataclass(frozen=True)
class EdgeList:
    """Ends of each edge by number, names of the vertices, and what was found in the file."""

    u: NDArray[np.intp]
    v: NDArray[np.intp]
    n: int
    labels: NDArray[np.str_] | None
    """None where the file numbers its vertices 0, …, n−1."""
    notes: tuple[str, ...]


def read_edge_list(path: Path, separator: str | None, people: Names | None = None) -> EdgeList:
    """Read an edge list.

    Args:
        path: The file.
        separator: Separator where none is found; None is any white space.
        people: Names of the people, where they are known.

    """
    text, encoding = decode(str(path), read_bytes(path, "graph"))
    if wrong := UNDECODED.search(text):
        line = text.count("\n", 0, wrong.start()) + 1
        byte = ord(wrong.group()) - 0xDC00
        raise GraphMalformed(
            f"{path}, line {line}: byte 0x{byte:02x} is not {encoding}: save the file as UTF-8"
        )
    problems = Problems(str(path))
    rows = _rows(path, problems, text, separator)
    problems.require_none()
    if not rows:
        raise EmptyData(f"{path}: no edges in the file")
    notes = [] if encoding == "utf-8" else [f"{path.name}: encoding {encoding}"]
    titles: list[str] = []
    if _is_header(path, rows, people):
        titles = rows.pop(0)[1]
        notes.append(f"{path.name}: the first line ({', '.join(titles)}) is the header")
    if not rows:
        raise EmptyData(f"{path}: no edges in the file")
    further = len(rows[0][1]) - 2
    if further:
        named = f" ({', '.join(titles[2:])})" if titles else ""
        notes.append(
            f"{path.name}: edges are in the first two columns; {further} further "
            f"{'column is' if further == 1 else 'columns are'} ignored{named}"
        )
    ends = _ends(problems, rows, people is not None)
    distinct, codes = np.unique(ends, return_inverse=True)
    u, v = codes.reshape(-1, 2).T
    numbered = distinct.dtype.kind == "i" and distinct[-1] == distinct.size - 1
    labels = None if numbered else distinct.astype(np.str_)
    return EdgeList(u, v, distinct.size, labels, tuple(notes))


def _rows(path: Path, problems: Problems, text: str, separator: str | None) -> list[Row]:
    """The lines other than comments, each with as many fields as the first, two at least."""
    # Line ends inside quotes are kept for the csv reader, which counts lines itself.
    lines = list(io.StringIO(text, newline=""))
    plain = (line for line in lines if line.strip() and not line.startswith(_COMMENTS))
    sample = [line for line, _ in zip(plain, range(SAMPLED_LINES), strict=False)]
    # Words may be separated by several spaces and tabs: a separator must then fit all lines.
    found = find_separator(sample, least=0.0 if separator else 1.0) or separator
    rows: list[Row] = []
    width = 0
    try:
        for number, fields in _split(lines, found):
            if not any(fields) or fields[0].startswith(_COMMENTS):
                continue
            width = width or max(2, len(fields))
            if problem := _wrong(fields, width, words=found is None):
                problems.add(
                    GraphMalformed,
                    f"line {number}: {problem[0]}: {_cut(' | '.join(fields))}",
                    problem[1],
                )
            rows.append((number, fields))
    except csv.Error as error:
        raise GraphMalformed(f"{path}: not a table of text ({error})") from None
    return rows


def _split(lines: Sequence[str], separator: str | None) -> Iterator[Row]:
    if separator is None:
        yield from ((number, line.split()) for number, line in enumerate(lines, 1))
    else:
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
        yield from ((reader.line_num, [field.strip() for field in row]) for row in reader)


def _wrong(fields: Sequence[str], width: int, *, words: bool) -> tuple[str, str] | None:
    """What is wrong with a line, and its cure."""
    if len(fields) != width or not all(fields[:2]):
        wanted = "two vertices" if width == 2 else f"{width} fields as in the first line"
        return f"expected {wanted}, found {len(fields)} fields", "write two vertices in each line"
    if words and not (
        all(is_number(each) or each.startswith("{") for each in fields[2:])
        or all(_is_integer(each) or _TITLES.fullmatch(each) for each in fields[:2])
    ):
        return (
            f"expected two vertices, found {len(fields)} words",
            "names that contain spaces need commas between them, in a .csv file",
        )
    return None


def _is_header(path: Path, rows: Sequence[Row], people: Names | None) -> bool:
    """Whether the first row holds titles and not vertices."""
    line, titles = rows[0]
    pair, below = titles[:2], rows[1:]
    if people is not None:
        return bool(below) and not set(pair) & set(people)
    if any(map(_is_integer, pair)):
        return False
    if below and all(map(_is_integer, below[0][1][:2])):
        return True
    degrees = Counter(each for _, fields in below for each in fields[:2])
    if any(each in degrees for each in pair):
        return False
    if all(map(_TITLES.fullmatch, pair)) or _is_above_numbers(rows):
        return True
    # A pair that stands alone among other such pairs is nothing special.
    alone = any(degrees[fields[0]] == degrees[fields[1]] == 1 for _, fields in below)
    if below and not alone:
        raise GraphMalformed(
            f"{path}, line {line}: {_cut(pair[0])!r} and {_cut(pair[1])!r} stand in no other line: "
            "put # in front if they are the header, or move the line down if they are two people"
        )
    return False


def _is_above_numbers(rows: Sequence[Row]) -> bool:
    """Whether a further column holds numbers in every row but the first."""
    (_, titles), *below = rows
    return bool(below) and any(
        not is_number(titles[column]) and all(is_number(fields[column]) for _, fields in below)
        for column in range(2, len(titles))
    )


def _ends(problems: Problems, rows: Sequence[Row], named: bool) -> NDArray[Any]:
    """Both ends of every edge, one edge after the other: all integers, or all names."""
    numeric = not named and all(map(_is_integer, rows[0][1][:2]))
    check = _check_number if numeric else None if named else _check_name
    found = [label for _, fields in rows for label in fields[:2]]
    if check is not None:
        for place, label in enumerate(found):
            check(problems, rows[place // 2][0], label)
    problems.require_none()
    return np.array([int(each) for each in found], np.int64) if numeric else np.array(found)


def _is_integer(label: str) -> bool:
    return _INTEGER.fullmatch(label) is not None


def _check_number(problems: Problems, line: int, label: str) -> None:
    if not _is_integer(label):
        problems.add(
            GraphMalformed,
            f"line {line}: {_cut(label)!r} is not a whole number, as the first edge has",
            "vertices are all whole numbers, or all names",
        )
    elif len(label) > _DIGITS or not 0 <= int(label) < 2**63:
        problems.add(
            GraphMalformed,
            f"line {line}: vertex {_cut(label)} is out of range",
            "numbers go from 0 to 2^63 − 1",
        )


def _check_name(problems: Problems, line: int, label: str) -> None:
    if _DECIMAL.fullmatch(label):
        problems.add(
            GraphMalformed,
            f"line {line}: {_cut(label)!r} is a decimal number",
            "vertices are whole numbers or names",
        )


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"
