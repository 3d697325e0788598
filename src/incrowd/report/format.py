"""Numbers for people: few digits, rounded to the side that promises less.

JSON carries full doubles. Tables and reports round what is promised up (a smaller epsilon would be
a stronger promise than was proven) and what an attack attains down. Rounding is decimal and exact.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

DIGITS = 4


def round_up(value: float, digits: int = DIGITS) -> float:
    """The least number of this many significant digits that is not below ``value``."""
    return _rounded(value, digits, ROUND_CEILING)


def round_down(value: float, digits: int = DIGITS) -> float:
    """The greatest number of this many significant digits that is not above ``value``."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, rounding: str) -> float:
    value = float(value)
    if not math.isfinite(value):
        return value
    # The shortest decimal that reads back as the double: 0.05 stays 0.05. Reading is monotone, so
    # what is rounded up from it reads back as a double that is not below.
    return float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(value))))


def up(value: float | None, digits: int = DIGITS) -> str:
    """A promised number as text; a dash where there is none."""
    return "–" if value is None else f"{round_up(value, digits):.{digits}g}"


def down(value: float | None, digits: int = DIGITS) -> str:
    """An attained number as text; a dash where there is none."""
    return "–" if value is None else f"{round_down(value, digits):.{digits}g}"


def plain(value: float, digits: int = DIGITS) -> str:
    """A number that is no promise, rounded to nearest."""
    return f"{value:.{digits}g}"


def small(value: float) -> str:
    """A δ as it was given, without padded exponents: ``1e-6``."""
    return f"{value:g}".replace("e-0", "e-")


def count(value: float) -> str:
    """A count with thousands apart, or a few digits where it is not whole."""
    return f"{int(value):,}" if float(value).is_integer() else plain(value)


def several(value: float, thing: str) -> str:
    """A count with its noun, such as ``1 message`` or ``2 messages``."""
    return f"{count(value)} {thing}{'' if value == 1 else 's'}"


def cell(value: Any) -> str:
    """One cell of a table; empty where there is nothing."""
    if value is None:
        return ""
    if isinstance(value, float):
        return plain(value, 6)
    return count(value) if isinstance(value, int) else str(value)


def percent(value: float) -> str:
    """A share with one digit after the point."""
    return f"{100 * value:.1f} %"


def guess(epsilon: float, delta: float) -> float:
    """How often a guess between two possible answers of one person can be right, at most.

    Both answers are equally likely beforehand and the guesser knows everybody else's. Under
    (ε, δ)-differential privacy the two views differ by at most (e^ε − 1 + 2δ)/(e^ε + 1) in total
    variation, so no rule is right more often than (e^ε + δ)/(e^ε + 1).
    """
    odds = math.exp(-epsilon)
    return min(1.0, (1 + delta * odds) / (1 + odds))
