"""Tuples folded into a few numbers per cell: how many, their sums, extremes and spread.

Compute nodes and the simulation fold in the same way, and the order of tuples makes no difference:

* Sums of whole numbers are exact in 64 bits.
* A number x is split into h, its nearest multiple of a step so coarse that all partial sums of h
  are exact doubles, and what is left, x − h, which is exact too. Adding both parts up separately
  leaves an error of about n³·2⁻¹⁰⁶ of the largest number at most, where adding up x itself would
  leave n·2⁻⁵³.
* The spread Σ(x − m)² takes a second pass, once the mean m of each cell is known; what rounding
  leaves of Σ(x − m) corrects it.

Tuples are taken in blocks that stay in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import FloatArray
from incrowd.tasks.query.collected import Folded
from incrowd.tasks.query.schema import Column

Cells = NDArray[np.int64]

_BLOCK = 1 << 17
_EXACT = 2**53
"""Up to here doubles hold every whole number."""
_HALF = 26
"""Whole numbers of at most 54 bits are split into halves of so many."""


def fold(cells: Cells, measured: NDArray[Any], columns: Sequence[Column], size: int) -> Folded:
    """The numbers of the cells 0 … size − 1 from the cell and the measures of each tuple."""
    if len(cells) and not (cells.min() >= 0 and cells.max() < size):
        raise InvalidParameter(f"cells must lie between 0 and {size - 1} here")
    count = np.bincount(cells, minlength=size)
    total, least, most, spread = [], [], [], []
    for column in columns:
        values = measured[column.name]
        low, high = (values.min(), values.max()) if len(values) else (0, 0)
        if column.type == "integer":
            sums: NDArray[Any] = _whole_sums(cells, values, size, column)
        else:
            sums = _sums(cells, values.__getitem__, float(max(abs(low), abs(high))), size)
        total.append(sums)
        least.append(_extreme(np.minimum, high, cells, values, count))
        most.append(_extreme(np.maximum, low, cells, values, count))
        spread.append(_spread(cells, values, float(high) - float(low), count, sums))
    return Folded(count, tuple(total), tuple(least), tuple(most), tuple(spread))


def _blocks(count: int) -> Iterator[slice]:
    return (slice(begin, begin + _BLOCK) for begin in range(0, count, _BLOCK))


def _whole_sums(
    cells: Cells, values: NDArray[np.int64], size: int, column: Column
) -> NDArray[np.int64]:
    """Exact sums of whole numbers of at most 2⁵³ in size."""
    largest = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    if largest * len(values) >= 2**63:
        raise InvalidParameter(
            f"column {column.name}: the sum of {len(values):,} whole numbers of up to {largest:,} "
            "may exceed 64 bits: declare the column as number"
        )
    found = np.zeros(size, np.int64)
    for some in _blocks(len(values)):
        if largest * _BLOCK < _EXACT:
            found += np.bincount(cells[some], values[some], size).astype(np.int64)
            continue
        # Of a block, the sums of both halves are exact doubles.
        high, low = values[some] >> _HALF, values[some] & ((1 << _HALF) - 1)
        found += np.bincount(cells[some], high, size).astype(np.int64) << _HALF
        found += np.bincount(cells[some], low, size).astype(np.int64)
    return found


def _sums(
    cells: Cells, numbers: Callable[[slice], FloatArray], largest: float, size: int
) -> FloatArray:
    """Sums of numbers of at most this size that hardly depend on their order."""
    coarse, fine = np.zeros(size), np.zeros(size)
    if largest == 0:
        return coarse
    # A power of two; the numbers are less than 2⁵² such steps in all.
    step = math.ldexp(1.0, max(-1021, math.frexp(largest)[1] + len(cells).bit_length() - 52))
    for some in _blocks(len(cells)):
        values = numbers(some)
        nearest = values / step
        np.rint(nearest, out=nearest)
        nearest *= step
        coarse += np.bincount(cells[some], nearest, size)
        fine += np.bincount(cells[some], values - nearest, size)
    return coarse + fine


def _extreme(
    choose: Any, worst: Any, cells: Cells, values: NDArray[Any], count: NDArray[np.int64]
) -> NDArray[Any]:
    """The smallest or largest value of each cell; zero where there is none."""
    found = np.full(len(count), worst, values.dtype)
    choose.at(found, cells, values)
    found[count == 0] = 0
    return found


def _spread(
    cells: Cells,
    values: NDArray[Any],
    width: float,
    count: NDArray[np.int64],
    sums: NDArray[Any],
) -> FloatArray:
    """The sums of squared deviations from the means, which are at most ``width`` each."""
    many = np.maximum(count, 1)
    mean, left = sums / many, np.zeros(len(count))

    def squares(some: slice) -> FloatArray:
        away = values[some] - mean[cells[some]]
        np.add(left, np.bincount(cells[some], away, len(left)), out=left)
        return np.asarray(away * away)

    found = _sums(cells, squares, width * width, len(count))
    return np.maximum(found - left * left / many, 0.0)
