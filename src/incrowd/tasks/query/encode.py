"""Raw values as codes and numbers; the column's reserved code for one outside its domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.checks import did_you_mean
from incrowd.errors import EmptyData, InvalidParameter, MissingColumn
from incrowd.tasks.query.schema import MOST_WHOLE, Column
from incrowd.tasks.raw import Array, Gaps, codes, missing, texts


def encode(rows: Any, columns: Sequence[Column]) -> Array:
    """Encode to a structured array with a row per person and a field per column.

    ``rows`` is an array with these columns in this order, or anything that has columns by name: a
    mapping, a data frame, a structured array.
    """
    raw = _by_name(rows, columns)
    people = {len(each) for each in raw}
    if len(people) > 1:
        problem = f"columns must be of one length, got lengths {sorted(people)}"
        raise InvalidParameter(problem, field="columns")
    if not people or not max(people):
        raise EmptyData("the data have no rows: at least one person must answer")
    found = np.empty(max(people), [(each.name, each.dtype) for each in columns])
    for column, values in zip(columns, raw, strict=True):
        if column.type == "category":
            found[column.name] = codes(values, column.values, len(column.values))
        else:
            found[column.name] = _numbers(values, column)
    return found


def gaps(rows: Any, columns: Sequence[Column]) -> Gaps:
    """Count rows that lack a value, and rows with one outside its domain and none missing."""
    raw, found = _by_name(rows, columns), encode(rows, columns)
    absent = np.any([missing(each) for each in raw], axis=0)
    usable = np.all([each.present(found[each.name]) for each in columns], axis=0)
    return Gaps.of(absent, usable)


def _by_name(rows: Any, columns: Sequence[Column]) -> list[Array]:
    names = rows.dtype.names if isinstance(rows, np.ndarray) else None
    if names is None and (isinstance(rows, Mapping) or hasattr(rows, "keys")):
        names = tuple(rows.keys())
    if names is not None:
        for each in columns:
            if each.name not in names:
                hint = did_you_mean(each.name, map(str, names))
                raise MissingColumn(f"no column {each.name!r} in the data; {hint}")
        found = [np.asarray(rows[each.name]) for each in columns]
        for column, values in zip(columns, found, strict=True):
            if values.ndim != 1:
                raise InvalidParameter(f"column {column.name}: expected one value per person")
        return found
    try:
        table = np.asarray(rows)
    except ValueError as ragged:
        raise InvalidParameter("the rows of a table must all have the same length") from ragged
    if table.ndim != 2 or table.shape[1] != len(columns):
        wanted = f"{', '.join(each.name for each in columns)}, one row per person"
        problem = f"rows must be a table of the columns {wanted}, got an array {table.shape}"
        raise InvalidParameter(problem)
    return list(table.T)


def _numbers(values: Array, column: Column) -> Array:
    array, good = _parsed(values, column)
    if column.type == "integer":
        if array.dtype.kind == "f":
            good &= np.floor(array) == array
        good &= (array >= -MOST_WHOLE) & (array <= MOST_WHOLE)
    else:
        array = array.astype(np.float64)
        good &= np.isfinite(array)
    if column.low is not None:
        good &= array >= column.low
    if column.high is not None:
        good &= array <= column.high
    found = np.full(len(values), column.reserved, column.dtype)
    found[good] = array[good]
    return found


def _parsed(values: Array, column: Column) -> tuple[Array, NDArray[np.bool_]]:
    if values.dtype.kind in "iuf":
        return values, np.ones(len(values), np.bool_)
    kind = np.dtype(column.dtype).type
    written = values if values.dtype.kind == "U" else np.array(texts(values), np.str_)
    there = np.asarray(written != "")
    try:
        return np.where(there, written, "0").astype(kind), there
    except (ValueError, OverflowError):
        there = np.fromiter((_reads(each, kind) for each in written), np.bool_, len(values))
        return np.where(there, written, "0").astype(kind), there


def _reads(text: np.str_, kind: type) -> bool:
    try:
        np.asarray(text).astype(kind)
    except (ValueError, OverflowError):
        return False
    return True
