"""Public maps of records, for each person's own device.

A map is fixed before any data is seen: its numbers are public constants, or drawn from public
randomness. So it needs no privacy.

* :class:`Bounds` puts numbers with known bounds into [−1, 1].
* :class:`UnitBall` shortens records that are longer than 1.
* :class:`RandomProjection` keeps lengths and angles up to a small error in fewer numbers: the noise
  of a private gradient grows with their count.
* :class:`RandomFourier` makes a linear model on its output a kernel method with the Gaussian kernel
  e^{−‖x−y‖²/(2·width²)} ("Random Features for Large-Scale Kernel Machines", Rahimi, Recht).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds


def orthonormal(rows: int, columns: int, seeds: Seeds) -> FloatArray:
    """Draw a uniformly random matrix with orthonormal columns."""
    if not 1 <= columns <= rows:
        problem = f"a projection keeps between 1 and all {rows} dimensions, got {columns}"
        raise InvalidParameter(problem)
    normals = seeds.generator("projection", rows, columns).standard_normal((rows, columns))
    turned, triangle = np.linalg.qr(normals)
    # The signs make the law uniform, whatever the library's convention.
    return np.asarray(turned * np.where(np.diag(triangle) < 0, -1.0, 1.0))


@dataclass(frozen=True)
class Bounds:
    """Column by column from [low, high] to [−1, 1]; what lies outside is moved to the bound."""

    low: float | Sequence[float]
    high: float | Sequence[float]

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and np.all(low < high)):
            problem = f"bounds must be finite with low < high, got {low}, {high}"
            raise InvalidParameter(problem, field="bounds")

    def transform(self, records: NDArray[Any]) -> FloatArray:
        """Scale each column to [−1, 1]."""
        low, high = np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)
        return np.asarray(np.clip((_rows(records) - low) * (2 / (high - low)) - 1, -1.0, 1.0))


@dataclass(frozen=True)
class UnitBall:
    """Rows divided by ``radius``, and those still longer than 1 shortened to 1."""

    radius: float = 1.0

    def __post_init__(self) -> None:
        _positive(self.radius, "radius")

    def transform(self, records: NDArray[Any]) -> FloatArray:
        """Shorten rows to length at most 1."""
        rows = _rows(records) / self.radius
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.maximum(1.0, lengths))


@dataclass(frozen=True)
class RandomProjection:
    """Onto a uniformly random subspace, scaled so that squared lengths are kept on average."""

    dimension: int
    seed: int

    def transform(self, records: NDArray[Any]) -> FloatArray:
        """Project to ``dimension`` numbers per row."""
        rows = _rows(records)
        return rows @ _projection(rows.shape[1], self.dimension, self.seed)


@dataclass(frozen=True)
class RandomFourier:
    """√(2/D)·cos(⟨w, x⟩ + b) for D random (w, b): inner products approximate a Gaussian kernel."""

    dimension: int
    width: float
    seed: int

    def __post_init__(self) -> None:
        checks.integer(self.dimension, "dimension", 1)
        _positive(self.width, "width")

    def transform(self, records: NDArray[Any]) -> FloatArray:
        """Map to ``dimension`` numbers per row, of length at most √2."""
        rows = _rows(records)
        waves, phases = _waves(rows.shape[1], self.dimension, self.seed)
        scale = math.sqrt(2 / self.dimension)
        return np.asarray(np.cos(rows @ (waves / self.width) + phases) * scale)


@lru_cache(maxsize=8)
def _projection(columns: int, dimension: int, seed: int) -> FloatArray:
    checks.integer(dimension, "dimension", 1)
    return orthonormal(columns, dimension, Seeds(seed)) * math.sqrt(columns / dimension)


@lru_cache(maxsize=8)
def _waves(columns: int, dimension: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = Seeds(seed).generator("waves", columns, dimension)
    return rng.standard_normal((columns, dimension)), rng.uniform(0.0, 2 * math.pi, dimension)


def _rows(records: NDArray[Any]) -> FloatArray:
    rows = np.asarray(records, np.float64)
    if rows.ndim != 2:
        raise InvalidParameter(f"records must be an array of rows, got {rows.shape}")
    return rows


def _positive(value: float, name: str) -> None:
    if checks.number(value, name) <= 0:
        raise InvalidParameter(f"{name} must be above 0, got {value!r}", field=name)
