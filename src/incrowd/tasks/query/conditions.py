"""Conditions on encoded tuples: comparisons of columns with literals, and their reading from WHERE.

Whole numbers are compared exactly, numbers as doubles, and categories as texts in the order of
their code points, as a database does. A comparison with a category looks at each of its values
once; tuples only look up the outcome. Anything but a comparison with a literal is refused.

A missing value makes a comparison unknown, as NULL does in SQL: a tuple counts only if the whole
condition holds for sure.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.checks import did_you_mean
from incrowd.tasks.query.schema import Column

if TYPE_CHECKING:
    from incrowd.tasks.query.sql import Names, Node

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


_LONGEST_NUMBER = 40


def condition_of(names: Names, node: Node) -> Condition:
    """The condition that a node of the WHERE clause stands for."""
    from sqlglot import exp

    node = node.unnest()
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(condition_of(names, each) for each in node.flatten())
        return Joined(isinstance(node, exp.And), parts)
    if isinstance(node, exp.Not):
        return Opposite(condition_of(names, node.this))
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        column = names.column(node.this)
        ends: tuple[tuple[Operator, Any], ...] = (
            (">=", node.args["low"]),
            ("<=", node.args["high"]),
        )
        return Joined(
            True,
            tuple(Compare(column, test, _literal(names, column, end)) for test, end in ends),
        )
    if isinstance(node, exp.In) and node.expressions:
        column = names.column(node.this)
        return Joined(
            False, tuple(_compared(names, column, "=", each) for each in node.expressions)
        )
    return _comparison(names, node)


def _comparison(names: Names, node: Node) -> Condition:
    from sqlglot import exp

    tests: dict[type, Operator] = {
        exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
    }  # fmt: skip
    if isinstance(node, exp.Is):
        raise names.fail(node, "a missing value matches no condition: leave this one out")
    test = tests.get(type(node))
    if test is None:
        raise names.fail(
            node,
            "expected a comparison of a column and a literal, BETWEEN or IN: have people compute "
            "anything else into a column of their data",
        )
    left, right = node.this.unnest(), node.expression.unnest()
    if not isinstance(left, exp.Column):
        left, right, test = right, left, MIRRORED[test]
    if not isinstance(left, exp.Column):
        raise names.fail(node, "expected a column on one side of the comparison")
    return _compared(names, names.column(left), test, right)


def _compared(names: Names, column: Column, test: Operator, node: Node) -> Compare:
    literal = _literal(names, column, node)
    if column.type == "category" and test in ("=", "<>") and literal not in column.values:
        hint = did_you_mean(literal, column.values)
        raise names.fail(node, f"is no value of {column.name}; {hint}")
    return Compare(column, test, literal)


def _literal(names: Names, column: Column, node: Node) -> str:
    """The text of a literal of the right type."""
    from sqlglot import exp

    node = node.unnest()
    sign, bare = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    if not isinstance(bare, exp.Literal):
        raise names.fail(node, f"expected a literal to compare {column.name} with")
    text = f"{sign}{bare.this}"
    if column.type == "category":
        if not bare.is_string or sign:
            raise names.fail(node, f"{column.name} is a category: compare it with a 'text'")
        return str(bare.this)
    if bare.is_string:
        raise names.fail(node, f"{column.name} is {_article(column)}: leave out the quotes")
    # A large exponent would be a whole number of as many digits.
    if len(text) > _LONGEST_NUMBER or not math.isfinite(float(text)):
        raise names.fail(node, "no number that a double can hold")
    if float(text) == 0 and any(digit in "123456789" for digit in text.lower().split("e")[0]):
        raise names.fail(node, "no number that a double can hold")
    return text


def _article(column: Column) -> str:
    return "an integer" if column.type == "integer" else "a number"
