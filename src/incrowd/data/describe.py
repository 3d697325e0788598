"""Description of a table: which columns a survey could ask about, and by which kind of question.

A column of a few texts is a histogram, one of numbers a mean. Whole numbers are categories too
where there are few of them and several people have each. Categories are in natural order and
bounds are wide and round, so that a published survey tells little of the people; both are taken
from the data all the same, and to be reviewed before they are published.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal

from incrowd.data.decimals import is_number
from incrowd.data.records import Records

NULL_WORDS = frozenset({"NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "?", "-"})
"""Texts by which programs and people say that there is no value."""
_MOST_CATEGORIES = 20
_PEOPLE_PER_NUMBER = 5
"""People that each whole number must have on average, to be a category."""
_STEPS = (1, 2, 5, 10)
_STEPS_PER_RANGE = 4
_IDENTIFYING = re.compile(
    r"(.*[ _-])?(id|nr|no|number|person|name|user|email|e-mail|code|key|login|token)", re.IGNORECASE
)
_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class ColumnDescription:
    """One column: the question that it could answer, or the reason why it answers none."""

    name: str
    kind: Literal["histogram", "mean", "person", "none"]
    missing: int = 0
    """Number of people without a value."""
    categories: tuple[str, ...] = ()
    bounds: tuple[Decimal, Decimal] | None = None
    reason: str = ""


@dataclass(frozen=True)
class Description:
    """All columns of a table, and the texts in it that say that there is no value."""

    n: int
    columns: tuple[ColumnDescription, ...]
    null_values: tuple[str, ...]

    @property
    def person(self) -> str | None:
        """Column that identifies people."""
        return next((each.name for each in self.columns if each.kind == "person"), None)

    @property
    def questions(self) -> tuple[ColumnDescription, ...]:
        """Columns that a survey can ask about."""
        return tuple(each for each in self.columns if each.kind in ("histogram", "mean"))


def describe(
    records: Records, columns: Sequence[str] | None = None, person: str | None = None
) -> Description:
    """Describe the columns of a table.

    Args:
        records: The table.
        columns: Columns to ask about; by default all that can be asked about.
        person: Identifying column; by default one whose values all differ, if there is any.

    """
    named = tuple(each for each in records.names if each)
    asked = named if columns is None else tuple(dict.fromkeys(columns))
    records.require(asked)
    if person is None:
        person = _identifying(records, [each for each in named if each not in (columns or ())])
    else:
        records.people(person)
    cells = {each: records.column(each).tolist() for each in asked if each != person}
    nulls = {each for texts in cells.values() for each in texts} & NULL_WORDS
    found = [_column(name, texts, nulls) for name, texts in cells.items()]
    if person is not None:
        found.insert(0, ColumnDescription(person, "person"))
    return Description(records.n, tuple(found), tuple(sorted(nulls)))


def _identifying(records: Records, names: Sequence[str]) -> str | None:
    """Column whose values all differ: one that is called so, else texts, else the first column."""
    unique = [each for each in names if _is_unique(records, each)]
    called = [each for each in unique if _IDENTIFYING.fullmatch(each)]
    texts = [each for each in unique if not any(map(is_number, records.column(each).tolist()))]
    first = [each for each in unique if each == records.names[0]]
    return next(iter([*called, *texts, *first]), None)


def _is_unique(records: Records, name: str) -> bool:
    cells = set(records.column(name).tolist())
    if records.n < 2 or len(cells) < records.n or "" in cells:
        return False
    return not any(is_number(each) and not _is_whole(each) for each in cells)


def _column(name: str, texts: Sequence[str], nulls: Collection[str]) -> ColumnDescription:
    there = [each for each in texts if each and each not in nulls]
    missing = len(texts) - len(there)
    distinct = sorted(set(there), key=_natural)
    if len(distinct) < 2:
        reason = "the same value everywhere" if distinct else "no values"
        return ColumnDescription(name, "none", missing, reason=reason)
    few = len(distinct) <= _MOST_CATEGORIES
    if all(map(is_number, distinct)):
        repeated = len(there) >= _PEOPLE_PER_NUMBER * len(distinct)
        if not (few and repeated and all(map(_is_whole, distinct))):
            return ColumnDescription(name, "mean", missing, bounds=_bounds(distinct))
    elif not few or len(distinct) == len(there):
        reason = f"{len(distinct):,} different texts: write down the categories to be counted"
        return ColumnDescription(name, "none", missing, reason=reason)
    return ColumnDescription(name, "histogram", missing, categories=tuple(distinct))


def _is_whole(text: str) -> bool:
    return text.lstrip("+-").isdigit()


def _natural(text: str) -> tuple[bool, Decimal, list[tuple[bool, int, str]], str]:
    """Order of texts as people sort them: numbers by value, also inside of words."""
    number = is_number(text)
    parts = [
        (False, int(each), "") if _DIGITS.fullmatch(each) else (True, 0, each.casefold())
        for each in _DIGITS.split(text)
        if each
    ]
    return not number, Decimal(text) if number else Decimal(), parts, text


def _bounds(numbers: Sequence[str]) -> tuple[Decimal, Decimal]:
    """Round numbers around these, apart by some steps of 1, 2 or 5 times a power of ten."""
    values = [Decimal(each) for each in numbers]
    low, high = min(values), max(values)
    wanted = (high - low) / _STEPS_PER_RANGE
    power = Decimal(10) ** wanted.adjusted()
    step = next(each * power for each in _STEPS if each * power >= wanted)
    below = (low / step).to_integral_value(ROUND_FLOOR) * step
    above = (high / step).to_integral_value(ROUND_CEILING) * step
    return below, above
