"""Raw values of a column: missing ones, and the text or number that each of the others is.

Every function is total: no value makes it raise. A value is missing if it is ``None``, NaN, or text
without a visible character. The reading of one value never depends on the values beside it, so that
a device with one row and a simulation with a million read alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers.base import FloatArray

Array = NDArray[Any]
IntArray = NDArray[np.int64]
NO_ANSWER: Final = "no answer"
"""Label of the outcome that is reserved for missing and out-of-domain answers."""


@dataclass(frozen=True)
class ColumnDomain:
    """Declared domain of one column, as an offer states it.

    ``categories`` are in order; ``low`` and ``high`` are None where a number has no such bound.
    ``complete`` says that the question has no reserved outcome for this column.
    """

    kind: Literal["category", "number", "integer", "text", "vector"]
    categories: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    complete: bool = False


@dataclass(frozen=True)
class Gaps:
    """Counts of rows without a usable answer, of data that are at hand.

    ``missing`` rows have no answer, ``outside`` ones an answer outside the domain; ``first`` is the
    number of the first of the latter, counted from 1.
    """

    missing: int = 0
    outside: int = 0
    first: int | None = None

    @classmethod
    def of(cls, missing: NDArray[np.bool_], usable: NDArray[np.bool_]) -> Gaps:
        """Count from what is missing and what is usable, row by row."""
        outside = np.flatnonzero(~missing & ~usable)
        first = int(outside[0]) + 1 if outside.size else None
        return cls(int(np.count_nonzero(missing & ~usable)), outside.size, first)


def blank(cells: Sequence[Sequence[str | None]]) -> list[list[str]]:
    """Put an empty text for each cell that is missing."""
    return [["" if cell is None else cell for cell in each] for each in cells]


def missing(column: Array) -> NDArray[np.bool_]:
    """Whether each value is missing."""
    if column.dtype.kind in "fbiu":
        return np.asarray(np.isnan(column))
    return _each(column, lambda value: not _text(value).strip(), np.bool_)


def texts(column: Array) -> list[str]:
    """Each value as text; whole floats lose their point, a missing value is empty."""
    values: list[Any] = column.tolist()
    return values if column.dtype.kind == "U" else [_text(value) for value in values]


def codes(column: Array, names: Sequence[str], unknown: int) -> IntArray:
    """Position of each value's text among the names; ``unknown`` for one that is no name."""
    code_of = {name: code for code, name in enumerate(names)}
    if column.dtype.kind in "OUV":
        found = (code_of.get(text, unknown) for text in texts(column))
        return np.fromiter(found, np.int64, column.size)
    distinct, inverse = np.unique(column, return_inverse=True)
    table = [code_of.get(text, unknown) for text in texts(distinct)]
    return np.asarray(table, np.int64)[inverse]


def floats(column: Array) -> FloatArray:
    """Each value as a number; NaN for a missing value and for one that is no number."""
    if column.dtype.kind in "fiub":
        return column.astype(np.float64)
    return _each(column, _float, np.float64)


def _each(column: Array, function: Callable[[Any], Any], kind: Any) -> Array:
    flat = np.fromiter((function(value) for value in column.ravel().tolist()), kind, column.size)
    return flat.reshape(column.shape)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return ""
        if float(value).is_integer():
            return str(int(value))
    return str(value)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
