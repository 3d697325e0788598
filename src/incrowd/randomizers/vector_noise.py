"""Gaussian noise on unit vectors: contributions to a token that sums vectors.

Two unit vectors are at most 2 apart, and of two normal laws with the same covariance σ²I only the
distance of the means matters. So the curve of the worst pair is that of a shift by 2/σ.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers import _inputs
from incrowd.randomizers._lattice import check_realisable
from incrowd.randomizers.base import Domain, Estimate, FloatArray, Randomizer, Reports
from incrowd.randomizers.noise import REAL_NOISE, Gaussian, gaussian_delta, on_grid


class GaussianVector(Randomizer, frozen=True, tag="gaussian-vector"):
    """A unit vector plus Gaussian noise in every coordinate that is exactly (ε0, δ0)-private.

    It has no blanket, so shuffling is not accounted for; token walks sum the reports.
    """

    # A field in place of the base's property, as in the Gaussian.
    delta: float
    dimension: int

    domain: ClassVar[Domain] = "vector"
    summable: ClassVar[bool] = True
    additive: ClassVar[bool] = True
    assumption: ClassVar[str] = REAL_NOISE

    def __post_init__(self) -> None:
        check_realisable(self.epsilon)
        checks.delta(self.delta)
        whole = checks.integer(self.dimension, "dimension", 1)
        msgspec.structs.force_setattr(self, "dimension", whole)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in each coordinate."""
        return 2 * Gaussian(epsilon=self.epsilon, delta=self.delta).sigma

    @property
    def normal_shift(self) -> float:
        """Two unit vectors are at most 2 apart."""
        return 2 / self.sigma

    @property
    def report_bytes(self) -> int:
        """One double per coordinate."""
        return 8 * self.dimension

    def local_delta(self, epsilon: float) -> float:
        """Return the exact profile of two opposite vectors, rounded up."""
        return gaussian_delta(epsilon, self.sigma / 2)

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Add the noise and round to the grid."""
        vectors = _inputs.vectors(values, self.dimension, rng)
        lengths = np.linalg.norm(vectors, axis=1)
        wrong = np.flatnonzero(~(np.abs(lengths - 1) <= _inputs.UNIT_TOLERANCE))
        if wrong.size:
            _inputs.refuse_length(vectors, int(wrong[0]))
        return on_grid(vectors + self.sigma * rng.standard_normal(vectors.shape))

    def randomize_scaled(
        self, values: NDArray[Any], scale: float, rng: np.random.Generator
    ) -> Reports:
        """Rescale noise that is on the grid, then round again."""
        vectors = _inputs.vectors(values, self.dimension, rng)
        if not scale:
            return on_grid(vectors)
        public = np.zeros(vectors.shape)
        public[:, 0] = 1
        return on_grid(vectors + scale * (self.randomize_exactly(public, rng) - public))

    def tally(self, reports: Reports) -> FloatArray:
        """Add up the reports."""
        rows = _inputs.received(reports, self.dimension, None)
        if not np.isfinite(rows).all():
            raise InvalidParameter("reports must be finite: these come from another randomizer")
        return np.asarray(rows.sum(axis=0), np.float64)

    def from_tally(self, tally: FloatArray, reports: int, noise: float) -> Estimate:
        """Estimate the mean of the respondents; given their data the variance is exact."""
        variance = np.full(self.dimension, noise * (self.sigma / reports) ** 2)
        return Estimate(tally / reports, variance, reports)
