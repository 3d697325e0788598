"""From exact numbers to doubles, always to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction


def rounded_up(exact: Fraction) -> float:
    """The least double that is no smaller."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def rounded_down(exact: Fraction) -> float:
    """The largest double that is no larger; only of those that are no larger than some double."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)
