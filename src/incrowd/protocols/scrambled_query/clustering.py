"""How good a clustering is: assignments, inertia, and agreement with known classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter

__all__ = ["inertia", "nearest", "rand_index"]

_ROWS = 8192


def nearest(points: NDArray[Any], centroids: NDArray[np.float64]) -> NDArray[np.int64]:
    """The centroid that is closest to each point; the first of those that are."""
    found = np.empty(len(points), np.int64)
    half = (centroids**2).sum(axis=1) / 2
    for begin in range(0, len(points), _ROWS):
        some = np.asarray(points[begin : begin + _ROWS], np.float64)
        found[begin : begin + _ROWS] = (some @ centroids.T - half).argmax(axis=1)
    return found


def inertia(points: NDArray[Any], centroids: NDArray[np.float64]) -> float:
    """The sum of squared distances to the closest centroid."""
    total = 0.0
    for begin in range(0, len(points), _ROWS):
        some = np.asarray(points[begin : begin + _ROWS], np.float64)
        total += float(((some - centroids[nearest(some, centroids)]) ** 2).sum())
    return total


def rand_index(first: NDArray[Any], second: NDArray[Any]) -> float:
    """The share of pairs about which two partitions agree: together in both, or in neither."""
    if np.shape(first) != np.shape(second) or np.ndim(first) != 1 or len(first) < 2:
        raise InvalidParameter("rand_index compares two labellings of the same two or more points")
    a, b = (np.unique(each, return_inverse=True)[1] for each in (first, second))
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1), np.int64)
    np.add.at(table, (a, b), 1)
    together = _pairs(table)
    apart_in_one = _pairs(table.sum(axis=1)) + _pairs(table.sum(axis=0)) - 2 * together
    return 1 - apart_in_one / _pairs(np.array([len(a)]))


def _pairs(sizes: NDArray[np.int64]) -> int:
    """How many pairs groups of these sizes have."""
    return sum(size * (size - 1) // 2 for size in sizes.ravel().tolist())
