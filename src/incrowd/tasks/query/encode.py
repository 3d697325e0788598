"""Raw values as numbers: the code of a category, a whole number, a number.

A value outside the domain of its column is refused with its row and never repaired: which cell it
should count for is a decision about the question, for whoever asks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.checks import did_you_mean
from incrowd.errors import EmptyData, InvalidParameter, MissingColumn, NotANumber, UnknownCategory
from incrowd.tasks.query.schema import Column

__all__ = ["encode"]

_MOST_WHOLE = 2**53


def encode(rows: Any, columns: Sequence[Column]) -> NDArray[Any]:
    """A structured array with a row per person and a field per column.

    ``rows`` is an array with these columns in this order, or anything that has columns by name: a
    mapping, a data frame, a structured array.
    """
    raw = _by_name(rows, columns)
    people = {len(each) for each in raw}
    if len(people) > 1:
        raise InvalidParameter(f"columns must be of one length, got lengths {sorted(people)}")
    if not people or not max(people):
        raise EmptyData("the data have no rows: at least one person must answer")
    found = np.empty(max(people), [(each.name, each.dtype) for each in columns])
    for column, values in zip(columns, raw, strict=True):
        numbers = _codes if column.type == "category" else _numbers
        found[column.name] = numbers(values, column)
    return found


def _by_name(rows: Any, columns: Sequence[Column]) -> list[NDArray[Any]]:
    """The raw values of each column."""
    names = rows.dtype.names if isinstance(rows, np.ndarray) else None
    if names is None and (isinstance(rows, Mapping) or hasattr(rows, "keys")):
        names = tuple(rows.keys())
    if names is not None:
        for each in columns:
            if each.name not in names:
                hint = did_you_mean(each.name, (str(name) for name in names))
                raise MissingColumn(f"no column {each.name!r} in the data; {hint}")
        return [_one_axis(rows[each.name], each) for each in columns]
    try:
        table = np.asarray(rows)
    except ValueError as ragged:
        raise InvalidParameter("the rows of a table must all have the same length") from ragged
    if table.ndim != 2 or table.shape[1] != len(columns):
        wanted = ", ".join(each.name for each in columns)
        raise InvalidParameter(
            f"rows must be a table of the columns {wanted}, one row per person, got an array "
            f"{table.shape}"
        )
    return [_one_axis(table[:, index], each) for index, each in enumerate(columns)]


def _one_axis(values: Any, column: Column) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidParameter(f"column {column.name}: expected one value per person")
    return array


def _codes(values: NDArray[Any], column: Column) -> NDArray[np.int64]:
    """The place of each value among those of its category."""
    code_of = {name: code for code, name in enumerate(column.values)}
    texts = values.tolist() if values.dtype.kind == "U" else map(str, values.tolist())
    codes = np.fromiter((code_of.get(each, -1) for each in texts), np.int64, len(values))
    _require(codes >= 0, values, column, UnknownCategory)
    return codes


def _numbers(values: NDArray[Any], column: Column) -> NDArray[Any]:
    """Numbers, or whole ones, within their bounds."""
    array = _parsed(values, column)
    if column.type == "integer" and array.dtype.kind == "f":
        _require(np.floor(array) == array, values, column, NotANumber)
    if column.type == "number":
        array = array.astype(np.float64)
        _require(np.isfinite(array), values, column, NotANumber)
    else:
        _require((array >= -_MOST_WHOLE) & (array <= _MOST_WHOLE), values, column, NotANumber)
    if column.low is not None:
        _require(array >= column.low, values, column, NotANumber)
    if column.high is not None:
        _require(array <= column.high, values, column, NotANumber)
    return array


def _parsed(values: NDArray[Any], column: Column) -> NDArray[Any]:
    """Numbers as they came, or as their texts say."""
    if values.dtype.kind in "iuf":
        return values
    kind: type = np.int64 if column.type == "integer" else np.float64
    try:
        if values.dtype.kind in "UO":
            return values.astype(kind)
    except (TypeError, ValueError, OverflowError):
        pass
    readable = np.fromiter((_reads(each, kind) for each in values.tolist()), bool, len(values))
    _require(readable, values, column, NotANumber)
    return values.astype(str).astype(kind)


def _reads(value: Any, kind: type) -> bool:
    try:
        np.asarray(str(value)).astype(kind)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _require(
    good: NDArray[np.bool_],
    values: NDArray[Any],
    column: Column,
    error: type[NotANumber | UnknownCategory],
) -> None:
    """Refuse the first value that is not good."""
    if good.all():
        return
    row = int(np.argmin(good))
    written = str(values[row])
    wrong = f"{written!r} is not {column.domain}" if written.strip() else "no value"
    raise error(
        f"row {row + 1}, column {column.name}: {wrong}: correct the data, or what the schema allows"
    )
