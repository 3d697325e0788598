"""Draft of a survey: the text of a ``survey.toml`` for a table that was described.

Everything that is taken from the data is marked, since a survey is published and its data are not.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from decimal import Decimal

from incrowd.data import ColumnDescription, Description

REVIEW = "# public: review"
"""Mark of a line that was taken from the data."""
_EPSILON = 1.0
_LARGEST_DELTA = Decimal("1e-6")


def draft(
    description: Description, file: str, title: str, dialect: Mapping[str, str] | None = None
) -> str:
    """Write a survey of the described columns.

    Args:
        description: Columns of the data.
        file: Name of the data, from the folder of the survey.
        title: Title of the survey.
        dialect: Separator, decimal mark and encoding, as far as they were stated.

    """
    lines = ["version = 2", f"title = {_quoted(title)}", "", "[data]", f"file = {_quoted(file)}"]
    if description.person is not None:
        lines.append(f"person = {_quoted(description.person)}")
    if description.null_values:
        nulls = ", ".join(map(_quoted, ("", *description.null_values)))
        lines.append(f"null_values = [{nulls}]  {REVIEW}")
    lines += [f"{key} = {_quoted(value)}" for key, value in (dialect or {}).items()]
    taken: set[str] = set()
    for each in description.questions:
        lines += ["", *_question(each, _identifier(each.name, taken))]
    lines += [
        *("", "[budget]", f"epsilon = {_EPSILON}"),
        f"delta = {_delta(description.n)}  # below 1 in the number of people",
        *("", "[protocol]", 'kind = "trusted-shuffle"', ""),
    ]
    return "\n".join(lines)


def _question(column: ColumnDescription, identifier: str) -> list[str]:
    lines = ["[[question]]", f"id = {_quoted(identifier)}"]
    if identifier != column.name:
        lines.append(f"column = {_quoted(column.name)}")
    lines += [f"text = {_quoted(column.name + '?')}", f"kind = {_quoted(column.kind)}"]
    if column.bounds is not None:
        low, high = map(_number, column.bounds)
        return [*lines, f"bounds = [{low}, {high}]  {REVIEW}"]
    categories = [f"    {_quoted(each)},  {REVIEW}" for each in column.categories]
    return [*lines, "categories = [", *categories, "]"]


def _quoted(text: str) -> str:
    # Strings of JSON are basic strings of TOML, but for one character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _identifier(name: str, taken: set[str]) -> str:
    """Word of small letters, digits and underscores that no other question has."""
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore")
    word = re.sub(r"[^a-z0-9]+", "_", plain.decode().lower()).strip("_") or "question"
    found, times = word, 1
    while found in taken:
        times += 1
        found = f"{word}_{times}"
    taken.add(found)
    return found


def _number(value: Decimal) -> str:
    whole = value == value.to_integral_value()
    return str(int(value)) if whole else format(value.normalize(), "f")


def _delta(n: int) -> str:
    """Power of ten, at most a tenth of 1/n."""
    below = Decimal(1).scaleb(-len(str(n)) - 1)
    return f"1e{min(_LARGEST_DELTA, below).adjusted()}"
