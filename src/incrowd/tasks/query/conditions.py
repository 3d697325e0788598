"""WHERE as a condition on encoded tuples; what is not a comparison with a literal is refused."""

from __future__ import annotations

import math
from typing import Any

from incrowd.checks import did_you_mean
from incrowd.tasks.query.names import Names
from incrowd.tasks.query.schema import Column
from incrowd.tasks.query.source import Node
from incrowd.tasks.query.where import MIRRORED, Compare, Condition, Joined, Operator, Opposite

__all__ = ["condition_of"]

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
