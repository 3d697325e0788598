"""Which tuples a query is about: comparisons of columns with literals, and what joins them.

Whole numbers are compared exactly, numbers as doubles, and categories as texts in the order of
their code points, as a database does. A comparison with a category looks at each of its values
once; tuples only look up the outcome.

A missing value makes a comparison unknown, as NULL does in SQL: a tuple counts only if the whole
condition holds for sure.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.tasks.query.schema import Column

__all__ = ["MIRRORED", "Compare", "Condition", "Joined", "Operator", "Opposite", "names_in"]

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
_TESTS: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED: dict[Operator, Operator] = {
    "=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
"""The same comparison with its sides exchanged."""
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class Compare:
    """One column beside one literal, given as the text that stands in the query."""

    column: Column
    test: Operator
    literal: str

    def matches(self, values: NDArray[Any]) -> Truths:
        """Which encoded tuples pass."""
        held = values[self.column.name]
        return np.asarray(self._holds(held) & self.column.present(held))

    def refutes(self, values: NDArray[Any]) -> Truths:
        """Encoded tuples with a value that does not pass."""
        held = values[self.column.name]
        return np.asarray(~self._holds(held) & self.column.present(held))

    def _holds(self, held: NDArray[Any]) -> Truths:
        test = _TESTS[self.test]
        if self.column.type == "category":
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
    """Several conditions of which all, or any, must hold."""

    every: bool
    parts: tuple[Condition, ...]

    def matches(self, values: NDArray[Any]) -> Truths:
        """Which encoded tuples pass."""
        join = np.logical_and if self.every else np.logical_or
        return np.asarray(reduce(join, (each.matches(values) for each in self.parts)))

    def refutes(self, values: NDArray[Any]) -> Truths:
        """Encoded tuples that fail for sure: in one of the parts, or in all of them."""
        join = np.logical_or if self.every else np.logical_and
        return np.asarray(reduce(join, (each.refutes(values) for each in self.parts)))


@dataclass(frozen=True)
class Opposite:
    """The negation of a condition, which a missing value neither passes nor fails."""

    part: Condition

    def matches(self, values: NDArray[Any]) -> Truths:
        """Which encoded tuples pass."""
        return self.part.refutes(values)

    def refutes(self, values: NDArray[Any]) -> Truths:
        """Encoded tuples that pass the condition itself."""
        return self.part.matches(values)


Condition = Compare | Joined | Opposite


def names_in(condition: Condition | None) -> set[str]:
    """The columns that a condition looks at."""
    if condition is None:
        return set()
    if isinstance(condition, Compare):
        return {condition.column.name}
    if isinstance(condition, Opposite):
        return names_in(condition.part)
    return set().union(*(names_in(each) for each in condition.parts))
