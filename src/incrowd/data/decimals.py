"""Decimal marks: which texts are numbers, and the same numbers with a decimal point.

A text is evidence for a mark if it is a number under that mark alone: ``1,5``, ``0,123`` and
``1.234,5`` for the comma, ``1.5``, ``1,234.5`` and ``1,234,567`` for the point. Whole numbers,
``1,234`` and ``1.234`` are numbers under both. The mark of a column is the one with more evidence
in it, else the usual one of its file, else unknown. Then texts stay as they are, since ``1,234``
might be either 1234 or 1.234.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_GRAMMAR = (
    r"[+-]?(?:(?:[1-9][0-9]{{0,2}}(?:{group}[0-9]{{3}})+|[0-9]+)(?:{mark}[0-9]*)?|{mark}[0-9]+)"
    r"(?:[eE][+-]?[0-9]+)?"
)
_NUMBERS = {
    ".": re.compile(_GRAMMAR.format(mark=r"\.", group=",")),
    ",": re.compile(_GRAMMAR.format(mark=",", group=r"\.")),
}
MARKS = tuple(_NUMBERS)
"""Decimal marks."""


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point."""
    return _NUMBERS["."].fullmatch(text) is not None


def usual_mark(columns: Iterable[Sequence[str]]) -> str | None:
    """Decimal mark that more columns of a file have; None where none has any, or as many."""
    found = [_evident(set(each)) for each in columns]
    commas, points = found.count(","), found.count(".")
    return None if commas == points else "," if commas > points else "."


def is_ambiguous(texts: Iterable[str], usual: str | None) -> bool:
    """Whether these texts are numbers such as 1,234 whose mark cannot be known."""
    distinct = set(texts)
    return (
        usual is None
        and any("," in each for each in distinct)
        and _evident(distinct) is None
        and _are_numbers(distinct, *MARKS)
    )


def with_points(
    texts: Sequence[str], stated: str | None = None, usual: str | None = None
) -> Sequence[str]:
    """The same texts, where they are numbers with a decimal point and without groups of digits.

    Args:
        texts: Cells of one column; most of them must be numbers, else all stay as they are.
        stated: Decimal mark that was stated, which no evidence changes.
        usual: Decimal mark of a column without evidence.

    """
    distinct = set(texts)
    if "," not in (stated, usual) and not any(
        "," in each or each.count(".") > 1 for each in distinct
    ):
        return texts
    mark = stated or _evident(distinct) or usual
    if mark is None or not _are_numbers(distinct, mark):
        return texts
    group = MARKS[1 - MARKS.index(mark)]
    written = {
        each: each.replace(group, "").replace(mark, ".")
        for each in distinct
        if "," in each or (mark == "," and "." in each)
        if _NUMBERS[mark].fullmatch(each)
    }
    return [written.get(each, each) for each in texts] if written else texts


def floats(texts: Sequence[str]) -> NDArray[np.float64]:
    """The number of each text; NaN where it is none."""
    return np.fromiter((_float(each) for each in texts), np.float64, len(texts))


def _float(text: str) -> float:
    return float(text) if is_number(text) else math.nan


def _evident(distinct: set[str]) -> str | None:
    """Decimal mark with more evidence among texts that mostly are numbers."""
    if not _are_numbers(distinct, *MARKS):
        return None
    point, comma = (
        {each for each in distinct if pattern.fullmatch(each)} for pattern in _NUMBERS.values()
    )
    only_point, only_comma = len(point - comma), len(comma - point)
    return None if only_point == only_comma else "," if only_comma > only_point else "."


def _are_numbers(distinct: set[str], *marks: str) -> bool:
    """Whether more than half of the texts that are not empty are numbers under one of the marks."""
    patterns = [_NUMBERS[mark] for mark in marks]
    there = [each for each in distinct if each]
    numbers = sum(any(each.fullmatch(text) for each in patterns) for text in there)
    return 2 * numbers > len(there)
