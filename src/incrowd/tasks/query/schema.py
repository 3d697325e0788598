"""The schema of a table of tuples: its columns and the domain of each.

The domain of a column is public and declared before the survey: the cells of a grouping set,
and which compute node answers for them, follow from it and never from the data. A schema is a TOML
file::

    table = "patients"

    [columns.age_range]
    type = "category"
    values = ["18-29", "30-39", "40-49"]

    [columns.bmi]
    type = "integer"
    low = 15
    high = 45

A category is one of its ``values``. An integer or a number lies between ``low`` and ``high``, both
included, where they are given; only categories, and integers with both, have cells.

A missing value, and one outside the domain, has a reserved code: the number of values of a
category, the smallest 64-bit integer, NaN. No condition matches it. Its cell is that of the group
``no answer``, which comes last; a column with ``complete = true`` has no such group, and tuples
without a value of it are in no cell.

Invariants: whole numbers are at most 2⁵³ in size, so that doubles and 64 bits both hold them; names
differ by more than upper and lower case, as in SQL.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import FileUnreadable, InvalidConfig, InvalidParameter, MalformedConfig
from incrowd.tasks.raw import NO_ANSWER, Array, ColumnDomain, IntArray

_TYPES = ("category", "integer", "number")
_KEYS = ("type", "values", "low", "high", "complete")
MOST_WHOLE = 2**53
"""Up to here doubles hold every whole number."""
_ABSENT = -(2**63)


class Column(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One column and what may stand in it."""

    name: str
    type: Literal["category", "integer", "number"]
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    complete: bool = False

    def __post_init__(self) -> None:
        if (wrong := _problem(msgspec.structs.asdict(self))) is not None:
            raise InvalidParameter(f"column {self.name!r}: {wrong[0]}: {wrong[1]}")

    @property
    def numeric(self) -> bool:
        """Whether it can be added up."""
        return self.type != "category"

    @property
    def size(self) -> int | None:
        """Number of values; None if they cannot be counted."""
        if self.type == "category":
            return len(self.values)
        if self.type == "number" or self.low is None or self.high is None:
            return None
        return int(self.high) - int(self.low) + 1

    @property
    def dtype(self) -> str:
        """Type of one encoded value."""
        return "<f8" if self.type == "number" else "<i8"

    @property
    def groups(self) -> int | None:
        """Number of groups, ``no answer`` included; None if they cannot be counted."""
        return None if self.size is None else self.size + (not self.complete)

    @property
    def reserved(self) -> float | int:
        """Code of a value that is missing or outside the domain."""
        if self.type == "number":
            return math.nan
        return len(self.values) if self.type == "category" else _ABSENT

    def present(self, codes: Array) -> NDArray[np.bool_]:
        """Whether each encoded value is one of the domain."""
        return np.asarray(~np.isnan(codes) if self.type == "number" else codes != self.reserved)

    def group_of(self, codes: IntArray) -> IntArray:
        """Group of each encoded value; of a complete column, the first where there is none."""
        first = int(self.low or 0) if self.type == "integer" else 0
        none = 0 if self.complete or self.size is None else self.size
        return np.where(self.present(codes), codes - first, none)

    def value(self, group: int) -> str:
        """Text of the value in this group of a domain that can be counted."""
        if group == self.size:
            return NO_ANSWER
        return self.values[group] if self.type == "category" else str(int(self.low or 0) + group)

    @property
    def declared(self) -> ColumnDomain:
        """The domain as an offer states it."""
        return ColumnDomain(self.type, self.values, self.low, self.high, self.complete)


class Schema(msgspec.Struct, frozen=True):
    """A table by its name, and its columns in order."""

    table: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        check_table(self.table, self.columns)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TOML file; an error names the file and the key."""
        file = Path(path)
        try:
            text = file.read_text("utf-8")
        except OSError as error:
            raise FileUnreadable(f"{file}: cannot read the schema: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise MalformedConfig(f"{file}: not UTF-8 text; convert it to UTF-8") from error
        try:
            return cls._described(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise MalformedConfig(f"{file}: not valid TOML: {error}") from error
        except (InvalidConfig, InvalidParameter) as error:
            raise InvalidConfig(f"{file}: {error}") from error

    @classmethod
    def _described(cls, tables: Mapping[str, Any]) -> Self:
        _check_keys(tables, ("table", "columns"))
        table, described = tables.get("table"), tables.get("columns")
        if not isinstance(table, str):
            raise InvalidConfig('table: missing or not a text; write table = "name"')
        if not isinstance(described, dict) or not described:
            raise InvalidConfig("columns: missing; add a table [columns.name] for each column")
        return cls(table, tuple(_column(name, each) for name, each in described.items()))


def _column(name: str, described: Any) -> Column:
    where = f"columns.{name}"
    if not isinstance(described, dict):
        raise InvalidConfig(f"{where}: expected a table, written as [{where}]")
    _check_keys(described, _KEYS, f"{where}.")
    values = described.get("values", ())
    given = {"low": None, "high": None, "complete": False, **described, "name": name}
    given["values"] = tuple(values) if isinstance(values, list) else values
    if (wrong := _problem(given)) is not None:
        raise InvalidConfig(f"{where}{'' if wrong[0] == 'name' else f'.{wrong[0]}'}: {wrong[1]}")
    return Column(**given)


def _check_keys(given: Mapping[str, Any], known: Sequence[str], within: str = "") -> None:
    for key in given:
        if key not in known:
            raise InvalidConfig(f"{within}{key}: unknown key; {checks.did_you_mean(key, known)}")


def check_table(table: str, columns: Sequence[Column]) -> None:
    """Refuse a table without a name or columns, and columns that SQL cannot tell apart."""
    if not isinstance(table, str) or not table.strip():
        raise InvalidParameter(f"table must be the name of the data, got {table!r}", field="table")
    if not isinstance(columns, tuple) or not columns:
        raise InvalidParameter("columns must be a tuple of at least one Column", field="columns")
    seen: dict[str, str] = {}
    for each in columns:
        checks.instance(each, Column, "each of columns", 'Column(name="age", type="number")')
        other = seen.setdefault(each.name.casefold(), each.name)
        if other is not each.name:
            problem = f"{other!r} and {each.name!r} are the same in SQL: rename one of them"
            raise InvalidParameter(f"columns {problem}", field="columns")


def _problem(given: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the key of a described column that is wrong, and the problem."""
    name, kind = given["name"], given.get("type")
    if not isinstance(name, str) or not name.strip():
        return "name", f"expected the name of a column, got {name!r}"
    if kind not in _TYPES:
        return "type", f"expected one of {', '.join(_TYPES)}, got {kind!r}"
    if not isinstance(given["complete"], bool):
        return "complete", f"expected true or false, got {given['complete']!r}"
    if kind == "category":
        for key in ("low", "high"):
            if given[key] is not None:
                return key, "is for integers and numbers: a category has values"
        if not given["complete"] and NO_ANSWER in given["values"]:
            return "values", f"{NO_ANSWER!r} is added for people without a value: leave it out"
        wrong = _wrong_values(given["values"])
        return None if wrong is None else ("values", wrong)
    if given["values"]:
        return "values", f"is for categories: an {kind} has low and high"
    for key in ("low", "high"):
        if given[key] is not None and (wrong := _wrong_end(given[key], kind)) is not None:
            return key, wrong
    low, high = given["low"], given["high"]
    crossed = low is not None and high is not None and low > high
    return ("low", f"must not be above high = {high}, got {low}") if crossed else None


def _wrong_values(values: Any) -> str | None:
    # A text is a sequence too: "ab" would silently become the values a and b.
    if isinstance(values, str) or not isinstance(values, Iterable) or not tuple(values):
        return 'missing; list what may stand in the column, as in ["yes", "no"]'
    seen = set()
    for each in values:
        if not isinstance(each, str) or not each.strip():
            return f"expected texts, got {each!r}: put it in quotes"
        if each in seen:
            return f"{each!r} is listed twice: leave one out"
        seen.add(each)
    return None


def _wrong_end(end: Any, kind: str) -> str | None:
    if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
        return f"expected a finite number, got {end!r}"
    if kind == "integer" and end != math.floor(end):
        return f"expected a whole number, got {end!r}"
    if kind == "integer" and abs(end) > MOST_WHOLE:
        return f"must be at most 2^53 in size, got {end!r}: declare the column as number"
    return None
