"""Tuples folded into a few numbers per cell: how many, their sums, extremes and spread.

Each compute node folds the tuples of its cells, and nothing else of a tuple goes on. Compute nodes
and the simulation fold in the same way, and the order of tuples makes no difference:

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
from dataclasses import dataclass
from typing import Any

import numpy as np

from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import FloatArray
from incrowd.tasks.base import Collected
from incrowd.tasks.query.schema import MOST_WHOLE, Column
from incrowd.tasks.raw import Array, IntArray

_BLOCK = 1 << 17
_HALF = 26
"""Bits of the lower half of a whole number of at most 54 bits."""


@dataclass(frozen=True)
class Folded:
    """The cells of one grouping set, or those of one compute node, in order.

    ``total``, ``least``, ``most`` and ``spread`` have an array per measure, the numeric columns
    that are aggregated; whole numbers stay whole. ``spread`` is the sum of squared deviations from
    the cell's mean. The numbers of an empty cell are zero.
    """

    count: IntArray
    total: tuple[Array, ...]
    least: tuple[Array, ...]
    most: tuple[Array, ...]
    spread: tuple[FloatArray, ...]

    @staticmethod
    def joined(parts: Sequence[Folded]) -> Folded:
        """Join the cells of several compute nodes, one after the other."""
        count = np.concatenate([part.count for part in parts])
        names = ("total", "least", "most", "spread")
        numbers = (zip(*(getattr(part, name) for part in parts), strict=True) for name in names)
        return Folded(count, *(tuple(map(np.concatenate, each)) for each in numbers))


@dataclass(frozen=True, kw_only=True)
class Tabulated(Collected):
    """The folded cells of every grouping set.

    All are per set. ``present`` counts the people whose message reached a scrambler, or a compute
    node where there are none. ``kept`` is the chance that a tuple of theirs was folded, which does
    not depend on its values. ``noise`` is the variance that a differentially private release added
    to a count, then to the totals; empty without noise. ``traffic`` is the number of messages from
    each scrambler (or person) to each compute node, as an observer of the network counts them;
    empty with noise, so that the result tells nothing else. ``lost`` names the cells whose compute
    node never answered: what is in them is unknown, and not zero.
    """

    folded: tuple[Folded, ...]
    present: tuple[int, ...]
    kept: tuple[float, ...]
    noise: tuple[tuple[float, ...], ...]
    traffic: tuple[IntArray, ...]
    lost: tuple[IntArray, ...] = ()

    def __repr__(self) -> str:
        return f"Tabulated({sum(self.crowds)} tuples in {len(self.folded)} grouping sets)"

    @property
    def crowds(self) -> tuple[int, ...]:
        """Number of tuples behind each grouping set."""
        return tuple(int(each.count.sum()) for each in self.folded)

    @property
    def received(self) -> int:
        """Messages that arrived, whether or not there was a tuple in them."""
        return min(self.sent, sum(self.present))

    @property
    def people(self) -> int:
        return max(self.present)


def fold(cells: IntArray, measured: Array, columns: Sequence[Column], size: int) -> Folded:
    """Fold the tuples of the cells 0 … size − 1, from the cell and the measures of each."""
    if len(cells) and not (cells.min() >= 0 and cells.max() < size):
        raise InvalidParameter(f"cells must lie between 0 and {size - 1} here")
    count = np.bincount(cells, minlength=size)
    total, least, most, spread = [], [], [], []
    for column in columns:
        values = measured[column.name]
        low, high = (values.min(), values.max()) if len(values) else (0, 0)
        if column.type == "integer":
            sums: Array = _whole_sums(cells, values, size, column)
        else:
            sums = _sums(cells, values.__getitem__, float(max(abs(low), abs(high))), size)
        total.append(sums)
        least.append(_extreme(np.minimum, high, cells, values, count))
        most.append(_extreme(np.maximum, low, cells, values, count))
        spread.append(_spread(cells, values, float(high) - float(low), count, sums))
    return Folded(count, tuple(total), tuple(least), tuple(most), tuple(spread))


def _blocks(count: int) -> Iterator[slice]:
    return (slice(begin, begin + _BLOCK) for begin in range(0, count, _BLOCK))


def _whole_sums(cells: IntArray, values: IntArray, size: int, column: Column) -> IntArray:
    largest = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    if largest * len(values) >= 2**63:
        raise InvalidParameter(
            f"column {column.name}: the sum of {len(values):,} whole numbers of up to {largest:,} "
            "may exceed 64 bits: declare the column as number"
        )
    found = np.zeros(size, np.int64)
    for some in _blocks(len(values)):
        if largest * _BLOCK < MOST_WHOLE:
            found += np.bincount(cells[some], values[some], size).astype(np.int64)
            continue
        # Of a block, the sums of both halves are exact doubles.
        high, low = values[some] >> _HALF, values[some] & ((1 << _HALF) - 1)
        found += np.bincount(cells[some], high, size).astype(np.int64) << _HALF
        found += np.bincount(cells[some], low, size).astype(np.int64)
    return found


def _sums(
    cells: IntArray, numbers: Callable[[slice], FloatArray], largest: float, size: int
) -> FloatArray:
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


def _extreme(choose: Any, worst: Any, cells: IntArray, values: Array, count: IntArray) -> Array:
    found = np.full(len(count), worst, values.dtype)
    choose.at(found, cells, values)
    found[count == 0] = 0
    return found


def _spread(
    cells: IntArray, values: Array, width: float, count: IntArray, sums: Array
) -> FloatArray:
    many = np.maximum(count, 1)
    mean, left = sums / many, np.zeros(len(count))

    def squares(some: slice) -> FloatArray:
        away = values[some] - mean[cells[some]]
        np.add(left, np.bincount(cells[some], away, len(left)), out=left)
        return np.asarray(away * away)

    found = _sums(cells, squares, width * width, len(count))
    return np.maximum(found - left * left / many, 0.0)
