"""Numbers for people: few digits, thousands apart, rounded to the side that guarantees less.

JSON carries full doubles. Tables and reports round guarantees up (a smaller epsilon would be more
than was proven) and lower bounds down. An estimate is rounded by its own standard error. Rounding
is decimal and exact. Powers of ten are written only of tiny and of astronomic numbers.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

DIGITS = 4
GUESSES = 1000
"""Number of guesses that a guarantee is told as."""
_ERROR_DIGITS = 2
"""Significant digits of a standard error, which decide where an estimate ends."""
_CELL_DIGITS = 6
_TINY, _ASTRONOMIC = Decimal("1e-4"), Decimal("1e15")


def round_up(value: float, digits: int = DIGITS) -> float:
    """Return the least number of this many significant digits that is not below ``value``."""
    return float(_rounded(value, digits, ROUND_CEILING))


def round_down(value: float, digits: int = DIGITS) -> float:
    """Return the greatest number of this many significant digits not above ``value``."""
    return float(_rounded(value, digits, ROUND_FLOOR))


def up(value: float | None, digits: int = DIGITS) -> str:
    """Format a guaranteed number, rounded up; a dash where there is none."""
    return "–" if value is None else _written(_rounded(value, digits, ROUND_CEILING))


def down(value: float | None, digits: int = DIGITS) -> str:
    """Format a lower bound, rounded down; a dash where there is none."""
    return "–" if value is None else _written(_rounded(value, digits, ROUND_FLOOR))


def plain(value: float, digits: int = DIGITS) -> str:
    """Format a number that is no bound, rounded to nearest."""
    return _written(_rounded(value, digits, ROUND_HALF_EVEN))


def small(value: float) -> str:
    """Format a δ, or another setting, as it was given: ``1e-6``."""
    return plain(value, _CELL_DIGITS)


def by_error(value: float, error: float) -> str:
    """Format an estimate to the place of the second digit of its standard error: ``38,100``."""
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return plain(value)
    # Rounded first: 0.0996 has the digits 0.10.
    place = _rounded(error, _ERROR_DIGITS, ROUND_HALF_EVEN).adjusted() - _ERROR_DIGITS + 1
    rounded = _quantized(value, place)
    usual = _TINY <= abs(rounded) < _ASTRONOMIC
    return f"{rounded:,f}" if usual else _written(rounded)


def with_error(value: float, error: float) -> str:
    """Format an estimate beside a half-width or standard error: ``38,100 ± 1,200``."""
    return f"{by_error(value, error)} ± {by_error(error, error)}"


def percent(value: float, error: float = math.nan) -> str:
    """Format a share in percent with one digit after the point, or more where its error is tiny."""
    return f"{_points(value, error)} %"


def percent_with_error(value: float, error: float) -> str:
    """Format a share beside its half-width or standard error: ``33.1 ± 0.9 %``."""
    return f"{_points(value, error)} ± {_points(error, error)} %"


def points(value: float, error: float, *, signed: bool = False) -> str:
    """Format a difference of shares, known up to an error, in percentage points."""
    return f"{'+' if signed and value > 0 else ''}{_points(value, error)} points"


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
        return plain(value, _CELL_DIGITS)
    return count(value) if isinstance(value, int) else str(value)


def guesses(epsilon: float, delta: float = 0.0) -> str:
    """Format the right guesses of a thousand, rounded up: ``623 of 1,000``."""
    return f"{right_guesses(epsilon, delta):,} of {GUESSES:,}"


def right_guesses(epsilon: float, delta: float = 0.0) -> int:
    """Return the largest expected number of right guesses of a thousand, rounded up."""
    return math.ceil(GUESSES * guess(epsilon, delta))


def guess(epsilon: float, delta: float) -> float:
    """Return the largest probability that a guess between two answers of one person is right.

    Both answers are equally likely beforehand and the guesser knows all others. Under (ε, δ)-DP the
    two views differ by at most (e^ε − 1 + 2δ)/(e^ε + 1) in total variation, so no rule is right
    more often than (e^ε + δ)/(e^ε + 1).
    """
    odds = math.exp(-epsilon)
    return min(1.0, (1 + delta * odds) / (1 + odds))


def _rounded(value: float, digits: int, rounding: str) -> Decimal:
    # The shortest decimal that reads back as the double: 0.05 stays 0.05. Reading is monotone, so
    # what is rounded up from it reads back as a double that is not below.
    return Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(float(value))))


def _points(share: float, error: float) -> str:
    share, error = 100 * float(share), 100 * abs(error)
    if not math.isfinite(share):
        return str(share)
    # One digit of an error below a tenth of a point must remain.
    finer = math.isfinite(error) and 0 < error < 0.1
    return f"{_quantized(share, max(Decimal(repr(error)).adjusted(), -9) if finer else -1):,f}"


def _quantized(value: float, place: int) -> Decimal:
    """Return the value rounded to a power of ten; never minus zero."""
    unit, exact = Decimal(1).scaleb(place), Context(prec=700)
    return Decimal(repr(float(value))).quantize(unit, ROUND_HALF_EVEN, exact) + 0


def _written(value: Decimal) -> str:
    if not value.is_finite():
        return str(float(value))
    if not value:
        return "0"
    # Without zeros at the end; those of a whole number come back below.
    value = value.normalize()
    if _TINY <= abs(value) < _ASTRONOMIC:
        return f"{value:,f}"
    digits, power = f"{value:e}".split("e")
    return f"{digits}e{int(power)}"
