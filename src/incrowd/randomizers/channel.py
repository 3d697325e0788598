"""Any finite local channel, given by its matrix: row x is the law of a report for input x.

Nothing is assumed of the matrix but that no output rules an input out. Everything is computed from
the law that devices really draw, a matrix of integers (``_matrix``): ε0, rounded up; the local
curve, over all pairs of inputs; the laws of all pairs under the largest blanket, their maximum
being a proof for every pair, and one law above them all for accountants that take one; and attacks.
See ``docs/theory/channel.md``.

Estimate. With P the k × m matrix and s the shares of the outputs among n reports, E[s] = Pᵀf for
the frequencies f. The library takes f̂ = A·s with A = (P·D⁻¹·Pᵀ)⁻¹·P·D⁻¹, D the output law of even
inputs: least squares, weighted for even data. A·Pᵀ = I makes it unbiased, and given the data

    Cov f̂ = (A·diag(Pᵀf)·Aᵀ − diag(f))/n,

because A·P_x is the x-th unit vector. The frequencies in it are the nearest proper ones to f̂. There
is such an A exactly if no row is a combination of others.
"""

from __future__ import annotations

from functools import cached_property
from math import exp
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.randomizers import _inputs
from incrowd.randomizers._lattice import check_realisable
from incrowd.randomizers._matrix import Matrix, RealisedLaw, checked_matrix
from incrowd.randomizers._pairs import attack_laws, envelope, pair_laws
from incrowd.randomizers.base import DerivedEpsilon, Domain, Estimate, FloatArray, Reports
from incrowd.randomizers.law import PairLaw

_SINGULAR = 1e-10
"""Relative size of an eigenvalue below which inputs cannot be told apart in practice."""


class Channel(DerivedEpsilon, frozen=True, dict=True, tag="channel"):
    """A finite channel: row x of ``matrix`` is the law of a report for input x.

    ``epsilon`` is derived from the matrix; one that is given must not be smaller. A report is the
    number of an output.
    """

    matrix: Matrix

    domain: ClassVar[Domain] = "category"
    joint: ClassVar[bool] = True

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "matrix", checked_matrix(self.matrix))
        if self.law.epsilon == 0:
            raise InvalidParameter(
                "matrix must have rows that differ: all are equal, so that reports say nothing",
                field="matrix",
            )
        check_realisable(self.law.epsilon)
        self._derive(self.law.epsilon)

    @cached_property
    def law(self) -> RealisedLaw:
        """The law that is drawn, in whole numbers."""
        return RealisedLaw.of(self.matrix)

    @property
    def categories(self) -> int:
        """Number of inputs."""
        return len(self.matrix)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.matrix[0])

    @property
    def report_bytes(self) -> int:
        """Size of the number of an output."""
        return _inputs.smallest_unsigned(self.outputs - 1).itemsize

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw an output for each code, exactly from its row."""
        codes = _inputs.codes(values, self.categories, rng)
        drawn = self.law.draw(codes, rng)
        return drawn.astype(_inputs.smallest_unsigned(self.outputs - 1))

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate the frequencies of the inputs.

        Raises:
            InvalidParameter: if inputs cannot be told apart, because a row is a combination of
                others.

        """
        found = _inputs.received(reports, None, self.outputs)
        shares = np.bincount(found, minlength=self.outputs) / found.size
        value = self._inverse @ shares
        likely = Estimate(value, np.zeros_like(value), found.size).on_simplex()
        variance = np.diag(self.frequency_covariance(likely)) / found.size
        return Estimate(value, np.maximum(variance, 0.0), found.size)

    def frequency_covariance(self, frequencies: FloatArray) -> FloatArray:
        """Return A·diag(Pᵀf)·Aᵀ − diag(f)."""
        inverse, outputs = self._inverse, frequencies @ self.law.chances
        return np.asarray((inverse * outputs) @ inverse.T - np.diag(frequencies))

    @cached_property
    def _inverse(self) -> FloatArray:
        """The matrix A of the estimate."""
        chances = self.law.chances
        weight = chances.mean(axis=0)
        weighted = np.divide(chances, weight, out=np.zeros_like(chances), where=weight > 0)
        gram = weighted @ chances.T
        values, vectors = np.linalg.eigh(gram)
        if values[0] < _SINGULAR * values[-1]:
            shares = np.abs(vectors[:, 0])
            rows = np.flatnonzero(shares > 0.01 * shares.max()) + 1
            named = ", ".join(map(str, rows[:-1]))
            raise InvalidParameter(
                f"matrix must have rows none of which is a combination of others to estimate "
                f"from: rows {named} and {rows[-1]} cannot be told apart; merge these inputs",
                field="matrix",
            )
        return np.asarray(np.linalg.solve(gram, weighted))

    def local_delta(self, epsilon: float) -> float:
        """Return the largest divergence of two rows, at any real ε, rounded up."""
        if epsilon >= self.epsilon:
            return 0.0
        t, chances = exp(epsilon), self.law.chances
        worst = max(float(np.maximum(row - t * chances, 0.0).sum(axis=1).max()) for row in chances)
        return min(1.0, worst + (1 + t) * 2.0**-50)

    def blanket(self) -> PairLaw:
        """Return the only law of a pair, where all have the same; else the opposed envelope."""
        laws = self._pair_laws
        return laws[0] if laws is not None and len(laws) == 1 else self._envelope

    def blankets(self) -> tuple[PairLaw, ...]:
        """Return the laws of all pairs, where they are few; else the opposed envelope."""
        return self._pair_laws or (self._envelope,)

    def attack(self) -> tuple[PairLaw, ...]:
        """Place all others at one input, chosen for large crowds and for small ones."""
        return attack_laws(self.law)

    @cached_property
    def _pair_laws(self) -> tuple[PairLaw, ...] | None:
        return pair_laws(self.law)

    @cached_property
    def _envelope(self) -> PairLaw:
        return envelope(self.law)
