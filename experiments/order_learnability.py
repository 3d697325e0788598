"""What an analyst can still learn from a release: the distribution of values at each place.

A model learns from pairs (place, released report) what reports are like at a place: gradient
boosting, calibrated with Platt scaling, as in "A Shuffling Framework for Local Differential
Privacy" (Meehan, Roy Chowdhury, Chaudhuri, Jha). The truth at a person's place is the empirical
distribution of the true values of everybody within a distance r*. Errors are total variation,
averaged over people, and λ is their mean divided by that of guessing all values equally likely: 0
is perfect, 1 is no better than that guess.

The paper says of the prediction now that it is of reports, now that it is of values. The truth is
about values, so that predictions must be too: randomized response keeps a value with probability κ
and otherwise draws one uniformly, so reports follow κ·p + (1 − κ)/k, and that is inverted here
(:func:`inverted`) and brought back to probabilities by the nearest point of the simplex.

Invariant: a prediction is a function of places and released reports; the truth is used to measure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from incrowd.graphs.graph import Graph
    from incrowd.protocols.order_shuffle.groupings import Grouping
    from incrowd.randomizers import KRR

__all__ = [
    "accuracy",
    "boosted",
    "calibrated",
    "embedding",
    "inverted",
    "learnability",
    "local_truth",
    "one_thread",
    "total_variation",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_TREES, _LEAVES, _SPEED = 40, 8, 0.1
_LEAST = 100
"""People in a leaf: reports are so noisy that smaller ones mostly learn the noise."""
_HELD_BACK = 0.25
"""The share of people whose reports calibrate rather than train."""


def boosted(people: int, seed: int) -> Any:
    """A small gradient-boosting classifier for so many people, as attackers and analysts use."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError as missing:
        raise MissingExtra(
            "gradient boosting needs scikit-learn: pip install --group experiments"
        ) from missing
    return HistGradientBoostingClassifier(
        max_iter=_TREES, max_leaf_nodes=_LEAVES, learning_rate=_SPEED,
        min_samples_leaf=max(1, min(_LEAST, people // 40)), early_stopping=False, random_state=seed,
    )  # fmt: skip


@contextmanager
def one_thread() -> Iterator[None]:
    """Models are fitted on one core, so that they do not depend on how many there are."""
    # It comes with scikit-learn.
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


def calibrated(features: ArrayLike, reports: ArrayLike, categories: int, seed: int) -> FloatArray:
    """The predicted distribution of reports at everybody's place: (n, categories).

    Trained on three quarters of the people; the others' reports calibrate by Platt scaling. Values
    that nobody reports have probability 0, and those of fewer than eight people are not modelled
    either but have their share everywhere.
    """
    model = boosted(np.size(reports), seed)
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import train_test_split

    table = np.asarray(features, float)
    table = table[:, None] if table.ndim == 1 else table
    codes = np.asarray(reports, np.int64)
    counts = np.bincount(codes, minlength=categories)
    common = np.flatnonzero(counts >= 8)
    found = np.tile(counts / codes.size, (codes.size, 1))
    if common.size < 2:
        return found
    people = np.flatnonzero(np.isin(codes, common))
    train, rest = train_test_split(
        people, test_size=_HELD_BACK, random_state=seed, stratify=codes[people]
    )
    places, where = np.unique(table, axis=0, return_inverse=True)
    with one_thread():
        model.fit(table[train], codes[train])
        platt = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid")
        predicted = platt.fit(table[rest], codes[rest]).predict_proba(places)
    found[:, common] = predicted[where.ravel()] * (people.size / codes.size)
    return found


def inverted(predicted: FloatArray, randomizer: KRR) -> FloatArray:
    """Distributions of values from those of reports under k-ary randomized response."""
    k = randomizer.categories
    if predicted.ndim != 2 or predicted.shape[1] != k:
        raise InvalidParameter(
            f"predictions have shape {predicted.shape}: give one row of {k} shares per person"
        )
    top = np.exp(randomizer.epsilon)
    kept = (top - 1) / (top + k - 1)
    return _on_simplex((predicted - (1 - kept) / k) / kept)


def _on_simplex(rows: FloatArray) -> FloatArray:
    """The nearest probabilities to each row."""
    falling = -np.sort(-rows, axis=1)
    excess = (np.cumsum(falling, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    positive = np.count_nonzero(falling > excess, axis=1)
    return np.maximum(rows - np.take_along_axis(excess, positive[:, None] - 1, axis=1), 0.0)


def local_truth(grouping: Grouping, values: ArrayLike, categories: int) -> FloatArray:
    """The empirical distribution of the values in each person's own group: (n, categories)."""
    codes = np.asarray(values, np.int64)
    if codes.shape != (grouping.n,):
        raise InvalidParameter(f"{codes.size} values, but groups of {grouping.n} people")
    counts = np.zeros((grouping.count, checks.integer(categories, "categories", 1)))
    for block in grouping.blocks():
        groups = np.repeat(np.arange(len(block.indptr) - 1), np.diff(block.indptr))
        cells = groups * categories + codes[block.members]
        size = (len(block.indptr) - 1) * categories
        here = np.bincount(cells, minlength=size).reshape(-1, categories)
        counts[block.first : block.first + len(here)] += here
    own = np.array([grouping.group_of(person) for person in range(grouping.n)])
    return np.asarray(counts[own] / counts[own].sum(axis=1, keepdims=True))


def total_variation(first: FloatArray, second: FloatArray) -> float:
    """Half the sum of differences, averaged over rows."""
    return float(np.abs(first - second).sum(axis=1).mean() / 2)


def learnability(predicted: FloatArray, truth: FloatArray) -> float:
    """λ: the error of predictions, relative to that of guessing all values equally likely."""
    naive = total_variation(np.full_like(truth, 1 / truth.shape[1]), truth)
    if naive == 0:
        raise InvalidParameter("λ is undefined: all values are equally frequent at every place")
    return total_variation(predicted, truth) / naive


def accuracy(
    places: ArrayLike, reports: ArrayLike, unseen: ArrayLike, truth: ArrayLike, seed: int
) -> float:
    """The share of unseen people whose value a model tells that learned from the release."""
    codes = np.asarray(reports, np.int64)
    model = boosted(codes.size, seed)
    with one_thread():
        model.fit(np.asarray(places, float), codes)
        found = model.predict(np.asarray(unseen, float))
    return float(np.mean(found == np.asarray(truth)))


def embedding(graph: Graph, dimensions: int = 16) -> FloatArray:
    """Coordinates of people in a public graph: leading eigenvectors of the normalised adjacency.

    A row of the adjacency matrix is a place too, but one of n numbers.
    """
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import eigsh

    scale = diags_array(1 / np.sqrt(np.maximum(graph.degrees, 1)))
    start = np.sqrt(graph.degrees + 1.0)
    matrix = (scale @ graph.adjacency() @ scale).astype(float)
    values, vectors = eigsh(matrix, k=checks.integer(dimensions, "dimensions", 1) + 1, v0=start)
    order = np.argsort(-values)[1:]
    return np.asarray(scale @ vectors[:, order] * np.sqrt(graph.n))
