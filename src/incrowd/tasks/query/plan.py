"""A query as data: what is shown, its groups, and the condition on tuples.

A grouping set of k columns has a cell for every combination of their values and of ``no answer``,
numbered row by row with the last column fastest. Cells are shared among compute nodes in contiguous
ranges that differ by at most one in length. Both follow from the schema alone.

In conditions, whole numbers are compared exactly, numbers as doubles, and categories as texts in
the order of their code points, as a database does. A missing value makes a comparison unknown, as
NULL does in SQL: a tuple counts only if the whole condition holds for sure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from incrowd.tasks.query.schema import Column
from incrowd.tasks.raw import Array, IntArray

Function = Literal["COUNT", "SUM", "AVG", "MIN", "MAX", "VAR"]
Operator = Literal["=", "<>", "<", "<=", ">", ">="]
_TESTS: dict[Operator, Any] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@dataclass(frozen=True)
class GroupingSet:
    """The cells of one grouping set; one cell, if there is nothing to group by."""

    by: tuple[Column, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(each.name for each in self.by)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of groups of each column."""
        return tuple(each.groups or 0 for each in self.by)

    @property
    def cells(self) -> int:
        """Number of combinations."""
        return math.prod(self.shape)

    def cell_of(self, values: Array) -> IntArray:
        """Cell of each encoded tuple."""
        found = np.zeros(len(values), np.int64)
        for column, size in zip(self.by, self.shape, strict=True):
            found *= size
            found += column.group_of(values[column.name])
        return found

    def texts(self, cells: IntArray) -> list[list[str]]:
        """Value of each column in these cells, column by column."""
        codes = np.unravel_index(cells, self.shape) if self.by else ()
        columns = zip(self.by, codes, strict=True)
        return [[column.value(code) for code in each.tolist()] for column, each in columns]

    def edges(self, targets: int) -> IntArray:
        """First cell of each compute node, and, last, the end of the last one's range."""
        return np.arange(targets + 1, dtype=np.int64) * self.cells // targets

    def target_of(self, cells: IntArray, targets: int) -> IntArray:
        """Compute node that answers for each of these cells."""
        return np.repeat(np.arange(targets), np.diff(self.edges(targets)))[cells]


class Outcome(NamedTuple):
    """Tuples that pass a condition, and those that fail; both are false for unknown ones."""

    passed: NDArray[np.bool_]
    failed: NDArray[np.bool_]


@dataclass(frozen=True)
class Compare:
    """One column beside one literal, given as the text that stands in the query."""

    column: Column
    test: Operator
    literal: str

    def outcome(self, values: Array) -> Outcome:
        """Decide for each encoded tuple."""
        held = values[self.column.name]
        holds, present = self._holds(held), self.column.present(held)
        return Outcome(holds & present, ~holds & present)

    def _holds(self, held: Array) -> NDArray[np.bool_]:
        test = _TESTS[self.test]
        if self.column.type == "category":
            # Each value is compared once; tuples only look up the outcome.
            outcome = [test(each, self.literal) for each in self.column.values]
            return np.asarray(np.array([*outcome, False])[held])
        if self.column.type == "number":
            return np.asarray(test(held, float(self.literal)))
        bound = Fraction(self.literal)
        if bound.denominator == 1:
            return np.asarray(test(held, bound.numerator))
        # Between two whole numbers nothing is equal, and "below" means "at most the lower one".
        if self.test in ("=", "<>"):
            return np.full(len(held), self.test == "<>")
        below = held <= bound.numerator // bound.denominator
        return np.asarray(below if self.test in ("<", "<=") else ~below)


@dataclass(frozen=True)
class Joined:
    """Conditions that must all hold, or any of them."""

    every: bool
    parts: tuple[Condition, ...]

    def outcome(self, values: Array) -> Outcome:
        """Decide for each encoded tuple."""
        joins = (np.logical_and, np.logical_or) if self.every else (np.logical_or, np.logical_and)
        passed, failed = zip(*(each.outcome(values) for each in self.parts), strict=True)
        return Outcome(reduce(joins[0], passed), reduce(joins[1], failed))


@dataclass(frozen=True)
class Opposite:
    """The negation of a condition, which a missing value neither passes nor fails."""

    part: Condition

    def outcome(self, values: Array) -> Outcome:
        """Decide for each encoded tuple."""
        passed, failed = self.part.outcome(values)
        return Outcome(failed, passed)


Condition = Compare | Joined | Opposite


def names_in(condition: Condition | None) -> set[str]:
    """Names of the columns in a condition."""
    match condition:
        case None:
            return set()
        case Compare(column):
            return {column.name}
        case Opposite(part):
            return names_in(part)
    return set().union(*map(names_in, condition.parts))


@dataclass(frozen=True)
class Aggregate:
    """A function of the tuples of a cell; without a column it counts them."""

    function: Function
    column: Column | None


@dataclass(frozen=True)
class Item:
    """One column of the answer: its name, and a grouping column or an aggregate."""

    name: str
    shows: Column | Aggregate


@dataclass(frozen=True)
class Plan:
    """A query in the subset."""

    items: tuple[Item, ...]
    sets: tuple[GroupingSet, ...]
    where: Condition | None

    @cached_property
    def aggregates(self) -> tuple[tuple[str, Aggregate], ...]:
        """The aggregates with their names, in order."""
        items = ((each.name, each.shows) for each in self.items)
        return tuple((name, shows) for name, shows in items if isinstance(shows, Aggregate))
