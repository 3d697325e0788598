"""The small convolutional network of the paper's Table 3, by hand: per-example gradients in numpy.

Pictures of 28 × 28 pixels; 16 filters of 8 × 8 with stride 2 and a margin of 3, largest of 2 × 2,
32 filters of 4 × 4 with stride 2, largest of 2 × 2, 32 units, 10 scores; largest values are taken
with stride 1, and each of the first three layers ends in max(0, ·): 26,010 parameters. A hundred
thousand rounds of sixty people spend nearly all their time in the gradients of these few layers,
which a general way of taking them (``TorchModule``) does two to three times slower; a test
compares the two.

Each layer is a matrix with one row per unit, whose last column is the intercept. Pictures are kept
as (person, row, column, channel), so that the innermost loops run over channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from incrowd.errors import InvalidParameter
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.learning import Model
from incrowd.tasks.learning.gradients import DenseGradients, Gradients, OuterGradients
from incrowd.tasks.learning.models import class_codes

__all__ = ["LAYERS", "DigitNetwork", "Stacked"]

Singles = NDArray[np.float32]

CLASSES = 10
LAYERS = ((16, 64), (32, 256), (32, 512), (CLASSES, 32))
"""Units and inputs of each layer, without the intercept."""
_SIDE, _MARGIN = 28, 3
_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class Stacked(Gradients):
    """Gradients of several layers, one after the other."""

    parts: Sequence[Gradients]

    def norms(self) -> FloatArray:
        """From the lengths of the parts, none of which is below the true one."""
        squares = sum(part.norms() ** 2 for part in self.parts)
        return np.asarray(np.sqrt(squares) * (1 + 2.0**-48))

    def combined(self, weights: FloatArray) -> FloatArray:
        """Layer by layer."""
        return np.concatenate([part.combined(weights) for part in self.parts])

    def rows(self, people: slice) -> NDArray[Any]:
        """Written down side by side."""
        return np.concatenate([part.rows(people) for part in self.parts], axis=1)


class DigitNetwork(Model):
    """Scores for ten digits; parameters start as torch starts them, uniform in ±1/√inputs."""

    def start(self, shape: tuple[int, ...], seeds: Seeds) -> FloatArray:
        """Drawn from the seed of the training."""
        if shape != (_SIDE, _SIDE):
            raise InvalidParameter(f"pictures have {_SIDE} by {_SIDE} pixels, got records {shape}")
        rng = seeds.generator("module")
        return np.concatenate(
            [rng.uniform(-1, 1, units * (size + 1)) / math.sqrt(size) for units, size in LAYERS]
        )

    def targets(self, labels: NDArray[Any]) -> NDArray[Any]:
        """The digit itself."""
        return class_codes(CLASSES, labels)

    def gradients(
        self, theta: FloatArray, records: NDArray[Any], targets: NDArray[Any]
    ) -> Gradients:
        """Forwards once, and backwards with everybody's own sums kept apart."""
        weights, people = _layers(theta), len(records)
        run = _Forward(weights, records)
        last = softmax(run.scores, axis=1)
        last[np.arange(people), targets] -= 1
        third = (last @ weights[3][:, :-1]) * (run.hidden > 0)
        flat = (third @ weights[2][:, :-1]) * (run.flat > 0)
        second = _unpool(flat.reshape(run.pooled_2.shape), run.second).reshape(people, 25, 32)
        seen = (second.reshape(-1, 32) @ weights[1][:, :-1]).reshape(people, 5, 5, 4, 4, 16)
        pooled = np.zeros_like(run.pooled_1)
        for row in range(4):
            for column in range(4):
                pooled[:, row : row + 10 : 2, column : column + 10 : 2] += seen[
                    :, :, :, row, column
                ]
        pooled *= run.pooled_1 > 0
        first = _unpool(pooled, run.first).reshape(people, 196, 16)
        # All in single precision; the lengths of gradients allow for what it hides.
        return Stacked(
            (
                DenseGradients(_per_person(first, run.windows_1)),
                DenseGradients(_per_person(second, run.windows_2)),
                OuterGradients(cast("FloatArray", third), run.flat, intercept=True),
                OuterGradients(cast("FloatArray", last), run.hidden, intercept=True),
            )
        )

    def losses(self, theta: FloatArray, records: NDArray[Any], targets: NDArray[Any]) -> FloatArray:
        """−log of the probability of the true digit."""
        log_chance = log_softmax(self._scores(theta, records), axis=1)
        return -np.asarray(log_chance[np.arange(len(records)), targets], np.float64)

    def predict(self, theta: FloatArray, records: NDArray[Any]) -> NDArray[Any]:
        """The digit with the largest score."""
        return np.asarray(self._scores(theta, records).argmax(axis=1))

    def describe(self) -> dict[str, Any]:
        """There is one such network only."""
        return {"model": "DigitNetwork"}

    def _scores(self, theta: FloatArray, records: NDArray[Any]) -> Singles:
        weights = _layers(theta)
        starts = range(0, len(records), _AT_ONCE)
        return np.concatenate(
            [_Forward(weights, records[at : at + _AT_ONCE]).scores for at in starts]
        )


class _Forward:
    """What the layers make of some pictures, and what the way back needs of it."""

    def __init__(self, weights: Sequence[Singles], records: NDArray[Any]) -> None:
        people = len(records)
        framed = np.zeros((people, _SIDE + 2 * _MARGIN, _SIDE + 2 * _MARGIN), np.float32)
        framed[:, _MARGIN:-_MARGIN, _MARGIN:-_MARGIN] = records
        windows = sliding_window_view(framed, (8, 8), axis=(1, 2))[:, ::2, ::2]
        self.windows_1 = _with_ones(windows)
        self.first = (self.windows_1 @ weights[0].T).reshape(people, 14, 14, 16)
        self.pooled_1 = _pool(self.first)
        windows = sliding_window_view(self.pooled_1, (4, 4), axis=(1, 2))[:, ::2, ::2]
        self.windows_2 = _with_ones(windows.transpose(0, 1, 2, 4, 5, 3))
        self.second = (self.windows_2 @ weights[1].T).reshape(people, 5, 5, 32)
        self.pooled_2 = _pool(self.second)
        self.flat = self.pooled_2.reshape(people, -1)
        self.hidden = np.maximum(self.flat @ weights[2][:, :-1].T + weights[2][:, -1], 0)
        self.scores: Singles = self.hidden @ weights[3][:, :-1].T + weights[3][:, -1]


def _layers(theta: FloatArray) -> list[Singles]:
    """The flat vector cut into one matrix per layer."""
    flat = theta.astype(np.float32)
    ends = np.cumsum([units * (size + 1) for units, size in LAYERS])[:-1]
    return [
        part.reshape(len_, -1) for part, (len_, _) in zip(np.split(flat, ends), LAYERS, strict=True)
    ]


def _with_ones(windows: NDArray[Any]) -> Singles:
    """Windows as rows (person, place, number), and a one after the last number."""
    people, rows, columns = windows.shape[:3]
    size = math.prod(windows.shape[3:])
    found = np.empty((people, rows * columns, size + 1), np.float32)
    found[..., :-1].reshape(windows.shape)[...] = windows
    found[..., -1] = 1
    return found


def _pool(values: Singles) -> Singles:
    """The largest of each 2 × 2, and at least 0."""
    wide = np.maximum(values[:, :, :-1], values[:, :, 1:])
    return np.maximum(np.maximum(wide[:, :-1], wide[:, 1:]), 0)


def _unpool(slopes: Singles, values: Singles) -> Singles:
    """Each slope at the place of the largest value; the first of equals, row by row."""
    wide = np.maximum(values[:, :, :-1], values[:, :, 1:])
    upper = slopes * (wide[:, :-1] >= wide[:, 1:])
    between = np.zeros_like(wide)
    between[:, :-1] = upper
    between[:, 1:] += slopes - upper
    left = between * (values[:, :, :-1] >= values[:, :, 1:])
    found = np.zeros_like(values)
    found[:, :, :-1] = left
    found[:, :, 1:] += between - left
    return found


def _per_person(slopes: Singles, windows: Singles) -> Singles:
    """Σ over places of slope ⊗ window, one flat row per person."""
    found: Singles = np.matmul(slopes.transpose(0, 2, 1), windows)
    return found.reshape(len(windows), -1)
