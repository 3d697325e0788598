"""Frames of pandas, polars and pyarrow, as the texts that a CSV file of them would hold.

Whole floats lose their point, since a column of whole numbers with gaps is one of floats in pandas.
Truth values are ``true`` and ``false``, dates and times ISO 8601 with a space between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from incrowd.errors import InvalidParameter, MissingColumn

_PLAIN = (str, int, np.integer, date, time, timedelta, UUID)
"""Types whose text is that of a CSV file; a datetime is a date."""
_LARGEST_WHOLE = 2.0**53
"""Largest float below which all whole numbers are floats."""


class TypedColumns(NamedTuple):
    """Columns whose values have types, converted to texts one by one."""

    names: tuple[str, ...]
    n: int
    texts: Callable[[int], Sequence[str]]
    """Texts of a column by its position."""


def read_frame(source: str, frame: Any) -> TypedColumns:
    """Columns of a frame."""
    import narwhals as nw

    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise InvalidParameter(
            f"data must be a file or a frame of pandas, polars or pyarrow, got a "
            f"{type(frame).__module__}.{type(frame).__name__}: collect a lazy frame first",
            field="data",
        ) from None
    except ValueError as error:
        # Frames of pandas may have two columns of one name, which narwhals refuses.
        raise MissingColumn(f"{source}: {' '.join(str(error).split())}") from None
    columns = table.columns

    def texts(position: int) -> list[str]:
        return _series_texts(source, str(columns[position]), table.get_column(columns[position]))

    return TypedColumns(tuple(str(each).strip() for each in columns), len(table), texts)


def _series_texts(source: str, name: str, series: Any) -> list[str]:
    """Texts of a column; empty where it has no value."""
    import narwhals as nw

    # As doubles the digits of a single float would show how it is stored: 0.10000000149.
    values = series.to_numpy() if series.dtype == nw.Float32 else series.to_list()
    try:
        return [
            "" if absent else _text(value)
            for value, absent in zip(values, series.is_null().to_list(), strict=True)
        ]
    except TypeError as error:
        raise MissingColumn(
            f"{source}: column {name!r} holds values of type {error}: turn them into "
            "text or numbers"
        ) from None


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return _float_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, _PLAIN):
        return str(value)
    raise TypeError(type(value).__name__)


def _float_text(value: float | np.floating[Any]) -> str:
    """Shortest text of a float; none of NaN."""
    if math.isnan(value):
        return ""
    if float(value).is_integer() and abs(float(value)) < _LARGEST_WHOLE:
        return str(int(value))
    return str(value)
