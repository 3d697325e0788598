"""Grouping sets: the cells that a query has one row for, and who answers for which.

A grouping set of k columns has a cell for every combination of their values and of ``no answer``,
numbered row by row with the last column fastest. Cells are shared among compute nodes in contiguous
ranges that differ by at most one in length. Both follow from the schema alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.tasks.query.schema import Column

__all__ = ["GroupingSet"]


@dataclass(frozen=True)
class GroupingSet:
    """The cells of one grouping set; one cell, if there is nothing to group by."""

    by: tuple[Column, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(each.name for each in self.by)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The number of groups of each column."""
        return tuple(each.groups or 0 for each in self.by)

    @property
    def cells(self) -> int:
        """How many combinations there are."""
        return math.prod(self.shape)

    def cell_of(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The cell of each encoded tuple."""
        found = np.zeros(len(values), np.int64)
        for column, size in zip(self.by, self.shape, strict=True):
            found *= size
            found += column.group_of(values[column.name])
        return found

    def values_of(self, cell: int) -> tuple[str, ...]:
        """The values of the columns in one cell."""
        codes = np.unravel_index(cell, self.shape) if self.by else ()
        return tuple(each.value(int(code)) for each, code in zip(self.by, codes, strict=True))

    def edges(self, targets: int) -> NDArray[np.int64]:
        """Where the range of each compute node begins, and, last, where the last one ends."""
        return np.arange(targets + 1, dtype=np.int64) * self.cells // targets

    def target_of(self, cells: NDArray[np.int64], targets: int) -> NDArray[np.int64]:
        """The compute node that answers for each of these cells."""
        owner = np.repeat(np.arange(targets), np.diff(self.edges(targets)))
        return owner[cells]
