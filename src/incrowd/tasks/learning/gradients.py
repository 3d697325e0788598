"""Per-example gradients and their clipping.

One person's gradient has unbounded length, so it is *clipped*: g becomes g·min(1, C/‖g‖), of length
at most C. The influence of one person on a sum, and so every guarantee of learning, depends on C
alone.

A sum of clipped gradients is Σ w_i·g_i with w_i = min(1, C/‖g_i‖). Linear models have gradients
r_i ⊗ x_i: the lengths are ‖r_i‖·‖x_i‖ and the sum is one matrix product, without ever writing down
people × parameters numbers. Rows are written down only where each person's own vector is reported.

A person may have several records. Then the person's gradient is the mean over them, and that is
clipped: it counts as one, however many records there are.

A gradient that leaves the range of doubles has no direction: it counts as zero, which depends on
one person's record alone, as clipping does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers.base import FloatArray

_TINY = np.finfo(np.float64).tiny
_SINGLE = 1e30
"""Far enough below the greatest number of single precision to be multiplied and added."""


class Gradients(ABC):
    """The gradients of the people of one round; the first axis is the person."""

    @abstractmethod
    def norms(self) -> FloatArray:
        """Length of each gradient, never below the true one; infinite if it is not finite."""

    @abstractmethod
    def combined(self, weights: FloatArray) -> FloatArray:
        """Σ w_i·g_i, flat."""

    @abstractmethod
    def rows(self, people: slice) -> NDArray[Any]:
        """Write down some people's gradients, one flat row each."""

    def means(self, points: int, clip: float | None = None) -> DenseGradients:
        """Average each person's ``points`` consecutive records, each clipped before if asked."""
        rows = self.rows(slice(None))
        if clip is not None:
            rows = rows * clip_weights(self.norms(), clip)[:, None]
        return DenseGradients(rows.reshape(-1, points, rows.shape[1]).mean(axis=1))

    def without(self, people: NDArray[np.bool_]) -> Gradients:
        """Put zero in the place of these people's gradients."""
        return DenseGradients(np.where(people[:, None], 0, self.rows(slice(None))))


@dataclass(frozen=True, eq=False)
class DenseGradients(Gradients):
    """Gradients as rows of a matrix."""

    matrix: NDArray[np.floating[Any]]

    def norms(self) -> FloatArray:
        return _lengths(self.matrix)

    def combined(self, weights: FloatArray) -> FloatArray:
        return np.asarray(weights.astype(self.matrix.dtype) @ self.matrix, np.float64)

    def rows(self, people: slice) -> NDArray[Any]:
        return self.matrix[people]


@dataclass(frozen=True, eq=False)
class OuterGradients(Gradients):
    """Gradients r_i ⊗ x_i, flat with the index of x running fastest."""

    residuals: FloatArray
    inputs: NDArray[np.floating[Any]]
    intercept: bool
    """Whether a 1 stands after the last number of each x."""

    def norms(self) -> FloatArray:
        inputs = np.hypot(_lengths(self.inputs), self.intercept)
        with np.errstate(over="ignore"):
            return np.asarray(_lengths(self.residuals) * inputs)

    def means(self, points: int, clip: float | None = None) -> DenseGradients:
        """Average r ⊗ x over each person's records by one product, without a row per record."""
        residuals = self.residuals
        with np.errstate(over="ignore", invalid="ignore"):
            if clip is not None:
                residuals = residuals * clip_weights(self.norms(), clip)[:, None]
            own = residuals.reshape(-1, points, residuals.shape[1]) / points
            inputs = self.inputs.reshape(-1, points, self.inputs.shape[1])
            slopes = np.asarray(np.matmul(own.transpose(0, 2, 1), inputs), np.float64)
            return DenseGradients(self._flat(slopes, own.sum(axis=1)))

    def without(self, people: NDArray[np.bool_]) -> Gradients:
        """Put zero residuals; inputs are finite."""
        residuals = np.where(people[:, None], 0.0, self.residuals)
        return OuterGradients(residuals, self.inputs, self.intercept)

    def combined(self, weights: FloatArray) -> FloatArray:
        weighted = weights[:, None] * self.residuals
        # A residual may be beyond single precision where its record is tiny.
        single = np.abs(weighted).max(initial=0.0) < _SINGLE
        kind = self.inputs.dtype if single else np.float64
        total = np.asarray(weighted.T.astype(kind) @ self.inputs, np.float64)
        return np.asarray(self._flat(total[None], weighted.sum(axis=0)[None])[0])

    def rows(self, people: slice) -> NDArray[Any]:
        residuals = self.residuals[people]
        inputs = np.asarray(self.inputs[people], np.float64)
        return self._flat(residuals[:, :, None] * inputs[:, None, :], residuals)

    def _flat(self, slopes: FloatArray, offsets: FloatArray) -> FloatArray:
        if self.intercept:
            slopes = np.concatenate([slopes, offsets[:, :, None]], axis=2)
        return slopes.reshape(len(slopes), -1)


@dataclass(frozen=True, eq=False)
class Batch:
    """Gradients of the ``count`` people of a round, by as many coordinates as ``size``."""

    count: int
    size: int
    blocks: Iterable[tuple[Gradients, FloatArray]]
    """Gradients with their lengths, to be read once."""

    def summed(self, clip: float | None) -> FloatArray:
        """Sum the gradients, clipped to this length if there is one."""
        total = np.zeros(self.size)
        for gradients, norms in self.blocks:
            weights = np.ones(len(norms)) if clip is None else clip_weights(norms, clip)
            total += gradients.combined(weights)
        return total


def clip_weights(norms: FloatArray, clip: float) -> FloatArray:
    """Compute min(1, C/‖g‖) for each gradient."""
    return np.asarray(clip / np.maximum(norms, clip))


def clipped(rows: FloatArray, clip: float) -> FloatArray:
    """Shorten rows to this length where they are longer."""
    return np.asarray(rows * clip_weights(_lengths(rows), clip)[:, None])


def _lengths(rows: NDArray[np.floating[Any]]) -> FloatArray:
    # Raised by what rounding can hide, n·u/2 of a sum of n squares: clipping divides by it, so no
    # clipped gradient is longer than it should be.
    hidden = (rows.shape[1] / 2 + 4) * float(np.finfo(rows.dtype).eps)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.asarray(np.einsum("ij,ij->i", rows, rows), np.float64)
        found = np.sqrt(squares)
        # Squares that leave the range of the type: these rows are measured on their own scale.
        away = ~np.isfinite(squares) | (squares < np.finfo(rows.dtype).tiny / hidden)
        if away.any():
            some = np.asarray(rows[away], np.float64)
            scale = np.maximum(np.abs(some).max(axis=1, initial=0.0), _TINY)
            lengths = scale * np.linalg.norm(some / scale[:, None], axis=1)
            found[away] = np.where(np.isnan(lengths), np.inf, lengths)
    return np.asarray(found * (1 + hidden))
