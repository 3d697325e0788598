"""The steps of a column's totals in a release with noise.

They follow from the declared bounds alone. A record counts by how far it is from the middle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from incrowd.errors import InvalidQuery
from incrowd.tasks.query.schema import Column
from incrowd.tasks.raw import Array, IntArray

_STEPS: Final = 1 << 10
"""Most steps of a number between its bounds: finer than the noise by far."""
_MOST_STEPS: Final = 1 << 20
"""Most steps of whole numbers."""
_ROUNDED: Final = 2.0**-20
"""A step is at least this share of the largest number: sums of a billion are as exact."""


@dataclass(frozen=True)
class Grid:
    """Steps in which the totals of a column are counted."""

    step: float
    middle: int
    """In steps; a record counts by its distance from here."""
    sensitivity: int
    """Most steps by which one record changes the totals of all cells together."""
    whole: bool

    @classmethod
    def of(cls, column: Column) -> Grid:
        """Derive the grid from the declared bounds of a column."""
        if column.low is None or column.high is None:
            raise InvalidQuery(f"column {column.name}: declare low and high for a release")
        if column.type == "integer":
            return cls._of_whole(int(column.low), int(column.high))
        width, largest = column.high - column.low, max(abs(column.low), abs(column.high))
        finest = max(width / _STEPS, largest * _ROUNDED) or 1.0
        step = math.ldexp(1.0, math.ceil(math.log2(finest)))
        middle = round((column.low + column.high) / 2 / step)
        reach = max(column.high / step - middle, middle - column.low / step)
        # Two cells; half a step of rounding and at most a quarter of summing, before and after.
        return cls(step, middle, math.floor(2 * reach * (1 + 2.0**-40) + 3), whole=False)

    @classmethod
    def _of_whole(cls, low: int, high: int) -> Grid:
        step = 1
        while (high - low) > step * _MOST_STEPS:
            step *= 2
        middle = (low + high) // 2 // step
        reach = max(high - middle * step, middle * step - low)
        return cls(float(step), middle, -(-2 * reach // step) + 2 * (step > 1), whole=True)

    @property
    def center(self) -> float:
        """The middle, in the units of the column."""
        return self.middle * self.step

    def counted(self, total: Array) -> IntArray:
        """Round totals to whole steps."""
        if self.whole:
            step = int(self.step)
            return np.asarray((total.astype(np.int64) + step // 2) // step)
        return np.asarray(np.rint(total / self.step).astype(np.int64))

    def total(self, steps: IntArray) -> Array:
        """Convert steps back to totals."""
        return steps * int(self.step) if self.whole else steps * self.step
