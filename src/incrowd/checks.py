"""Checks of single values, shared by every constructor. Each raises one clear line."""

from __future__ import annotations

import math

from incrowd.errors import InvalidCrowd, InvalidDelta, InvalidEpsilon, InvalidParameter

__all__ = ["crowd", "delta", "epsilon", "integer", "number", "probability"]


def epsilon(value: float, name: str = "epsilon") -> float:
    """A positive finite epsilon."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidEpsilon(f"{name} must be a positive finite number, got {value!r}")
    return float(value)


def delta(value: float, name: str = "delta") -> float:
    """A delta strictly between 0 and 1."""
    if not 0 < value < 1:
        raise InvalidDelta(f"{name} must lie strictly between 0 and 1, got {value!r}")
    return float(value)


def crowd(value: int, name: str = "n", at_least: int = 1) -> int:
    """A whole number of people, at least ``at_least``."""
    if not math.isfinite(value) or int(value) != value or value < at_least:
        raise InvalidCrowd(f"{name} must be a whole number of people ≥ {at_least}, got {value!r}")
    return int(value)


def integer(value: int, name: str, at_least: int) -> int:
    """A whole number, at least ``at_least``."""
    if not math.isfinite(value) or int(value) != value or value < at_least:
        raise InvalidParameter(f"{name} must be a whole number ≥ {at_least}, got {value!r}")
    return int(value)


def probability(value: float, name: str) -> float:
    """A number in the closed interval [0, 1]."""
    if not 0 <= value <= 1:
        raise InvalidParameter(f"{name} must lie between 0 and 1, got {value!r}")
    return float(value)


def number(value: float, name: str) -> float:
    """A finite number."""
    if not math.isfinite(value):
        raise InvalidParameter(f"{name} must be a finite number, got {value!r}")
    return float(value)
