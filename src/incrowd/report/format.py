"""Numbers for people: few digits, rounded to the side that guarantees less.

JSON carries full doubles. Tables and reports round guarantees up (a smaller epsilon would be more
than was proven) and lower bounds down. Rounding is decimal and exact.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

DIGITS = 4


def round_up(value: float, digits: int = DIGITS) -> float:
    """Return the least number of this many significant digits that is not below ``value``."""
    return _rounded(value, digits, ROUND_CEILING)


def round_down(value: float, digits: int = DIGITS) -> float:
    """Return the greatest number of this many significant digits not above ``value``."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> float:
    value = float(value)
    if not math.isfinite(value):
        return value
    # The shortest decimal that reads back as the double: 0.05 stays 0.05. Reading is monotone, so
    # what is rounded up from it reads back as a double that is not below.
    return float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(value))))


def up(value: float | None, digits: int = DIGITS) -> str:
    """Format a guaranteed number, rounded up; a dash where there is none."""
    return "–" if value is None else f"{round_up(value, digits):.{digits}g}"


def down(value: float | None, digits: int = DIGITS) -> str:
    """Format a lower bound, rounded down; a dash where there is none."""
    return "–" if value is None else f"{round_down(value, digits):.{digits}g}"


def plain(value: float, digits: int = DIGITS) -> str:
    """Format a number that is no bound, rounded to nearest."""
    return f"{value:.{digits}g}"


def small(value: float) -> str:
    """Format a δ as it was given, without padded exponents: ``1e-6``."""
    return f"{value:g}".replace("e-0", "e-")


def count(value: float) -> str:
    """Format a count with thousands apart, or a few digits where it is not whole."""
    return f"{int(value):,}" if float(value).is_integer() else plain(value)


def several(value: float, thing: str) -> str:
    """Format a count with its noun, such as ``1 message`` or ``2 messages``."""
    return f"{count(value)} {thing}{'' if value == 1 else 's'}"


def cell(value: Any) -> str:
    """Format one cell of a table; empty where there is nothing."""
    if value is None:
        return ""
    if isinstance(value, float):
        return plain(value, 6)
    return count(value) if isinstance(value, int) else str(value)


def percent(value: float) -> str:
    """Format a share as a percentage with one digit after the point."""
    return f"{100 * value:.1f} %"


def guessed(epsilon: float, delta: float = 0.0) -> str:
    """Format the success of the best guess as a percentage, rounded up."""
    return percent(round_up(guess(epsilon, delta), 3))


def guess(epsilon: float, delta: float) -> float:
    """Return the largest probability that a guess between two answers of one person is right.

    Both answers are equally likely beforehand and the guesser knows all others. Under (ε, δ)-DP the
    two views differ by at most (e^ε − 1 + 2δ)/(e^ε + 1) in total variation, so no rule is right
    more often than (e^ε + δ)/(e^ε + 1).
    """
    odds = math.exp(-epsilon)
    return min(1.0, (1 + delta * odds) / (1 + odds))
