"""Checks of single values, shared by every constructor.

Each check returns the value, or raises an error that begins with the name of the value; a name,
unlike a phrase such as "a colluder", is the error's ``field`` too.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeVar

from incrowd.errors import InvalidCrowd, InvalidDelta, InvalidEpsilon, InvalidParameter

Kind = TypeVar("Kind")

_MOST_PEOPLE = 10**15
"""Beyond any crowd; whole numbers up to here are exact as doubles, with room to add some."""


def epsilon(value: float, name: str = "epsilon") -> float:
    """Check a positive finite epsilon."""
    if not (_finite(value) and value > 0):
        raise _wrong(InvalidEpsilon, name, f"must be a positive finite number, got {value!r}")
    return float(value)


def delta(value: float, name: str = "delta") -> float:
    """Check a delta strictly between 0 and 1."""
    if not (_finite(value) and 0 < value < 1):
        raise _wrong(InvalidDelta, name, f"must lie strictly between 0 and 1, got {value!r}")
    return float(value)


def crowd(value: int, name: str = "n", at_least: int = 1) -> int:
    """Check a whole number of people, at least ``at_least`` and at most 10^15."""
    if _whole(value) and value > _MOST_PEOPLE:
        raise _wrong(InvalidCrowd, name, "must be at most 10^15 people: no crowd is larger")
    if not _whole(value) or value < at_least:
        problem = f"must be a whole number of people ≥ {at_least}, got {value!r}"
        raise _wrong(InvalidCrowd, name, problem)
    return int(value)


def integer(value: int, name: str, at_least: int) -> int:
    """Check a whole number, at least ``at_least``."""
    if not _whole(value) or value < at_least:
        raise _wrong(InvalidParameter, name, f"must be a whole number ≥ {at_least}, got {value!r}")
    return int(value)


def probability(value: float, name: str) -> float:
    """Check a number in the closed interval [0, 1]."""
    if not (_finite(value) and 0 <= value <= 1):
        raise _wrong(InvalidParameter, name, f"must lie between 0 and 1, got {value!r}")
    return float(value)


def rate(value: float, name: str = "rate", field: str | None = None) -> float:
    """Check a participation rate, above 0 and at most 1; one of several in ``field``, if given."""
    if not 0 < number(value, name, field) <= 1:
        problem = f"must be above 0 and at most 1, got {value!r}"
        raise _wrong(InvalidParameter, name, problem, field)
    return float(value)


def number(value: float, name: str, field: str | None = None) -> float:
    """Check a finite number; one of several in ``field``, if given."""
    if not _finite(value):
        raise _wrong(InvalidParameter, name, f"must be a finite number, got {value!r}", field)
    return float(value)


def instance(value: object, kind: type[Kind], name: str, example: str) -> Kind:
    """Check an object of this kind, neither its class nor its name."""
    if not isinstance(value, kind):
        got = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        problem = f"must be a {kind.__name__} such as {example}, got {got}"
        raise _wrong(InvalidParameter, name, problem)
    return value


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the closest known word, or all of them."""
    options = sorted(known)
    close = difflib.get_close_matches(word, options, n=1)
    if close and word.endswith(f"-{close[0]}"):
        # A known word with something in front is another thing, not a slip of the pen.
        close = []
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(options)}"


def _wrong(
    kind: type[InvalidParameter], name: str, problem: str, field: str | None = None
) -> InvalidParameter:
    return kind(f"{name} {problem}", field=field or (name if name.isidentifier() else None))


def _finite(value: object) -> bool:
    """Whether a value is a number, not a truth value, that a double can hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _whole(value: object) -> bool:
    """Whether a value is a whole number of any size; ``3.0`` is one, ``True`` is not."""
    if isinstance(value, Integral):
        return not isinstance(value, bool)
    return isinstance(value, Real) and _finite(value) and float(value).is_integer()
