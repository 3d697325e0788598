"""Spectrum of a walk: the two eigenvalues that bound its mixing time.

The transition matrix P = D⁻¹A of a walk is similar to the symmetric S = D^(−1/2) A D^(−1/2), so its
eigenvalues 1 = λ₁ ≥ λ₂ ≥ … ≥ λ_min ≥ −1 are real. With λ* = max(|λ₂|, |λ_min|) and gap = 1 − λ*,

    ‖Pᵗ(x, ·) − π‖_TV ≤ ½ √(1/π(x) − 1) · λ*ᵗ

(Levin, Peres and Wilmer, *Markov Chains and Mixing Times*, chapter 12). A lazy walk ℓI + (1 − ℓ)P
has the eigenvalues ℓ + (1 − ℓ)λ.

Structural eigenvalues are taken from the structure and not from floating point: λ₂ = 1 exactly when
the graph is disconnected, λ_min = −1 exactly when some component is bipartite. Otherwise λ₂ is the
largest eigenvalue of S − 3φφᵀ, where φ = √π, the known first eigenvector, is moved to −2, and λ_min
is the smallest one of S. Small graphs are solved densely, large ones by Lanczos iteration from a
fixed start vector; where that stalls, as on a long ring, by shift and invert. The residual
‖Sx − λx‖ of the unit vectors found is reported; an eigenvalue lies within it of λ, and ``gap`` is
lowered by it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import NumericalFloor
from incrowd.graphs.graph import Graph, require_no_isolated

if TYPE_CHECKING:
    from scipy import sparse

_DENSE = 400
"""Up to this many vertices a dense solver is both faster and exact to rounding."""
_DEFLATION = 3.0
"""Moves the eigenvalue 1 to −2, below all others; to −1 it could meet the λ₂ of a single edge."""
_BASIS = 40
_RESTARTS = 100
_TOLERANCE = 1e-12
_LARGE, _ROUGH = 50_000, 1e-6
"""Above this many vertices a residual this large, which ``gap`` charges, is worth the time."""
_SHIFT = 1e-9
"""Distance from ±1, where the shifted matrix is singular, at which it is factored."""


class Spectrum(msgspec.Struct, frozen=True):
    """Eigenvalues of the simple walk that bound mixing; both are 0 on a single vertex."""

    lambda_2: float
    """Second largest eigenvalue, counted with multiplicity."""
    lambda_min: float
    """Smallest eigenvalue."""
    residual: float
    """Larger of the two residuals ‖Sx − λx‖; 0 for structural eigenvalues."""

    def gap(self, laziness: float = 0.0) -> float:
        """Return ``1 − max(|λ₂|, |λ_min|)`` at this laziness, lowered by the residual."""
        stay = checks.probability(laziness, "laziness")
        slowest = max(abs(stay + (1 - stay) * each) for each in (self.lambda_2, self.lambda_min))
        return min(1.0, max(0.0, 1.0 - slowest - (1 - stay) * self.residual))


def spectrum(graph: Graph) -> Spectrum:
    """Compute the spectrum of the simple walk on ``graph``; refuse isolated vertices."""
    require_no_isolated(graph)
    if graph.n == 1:
        return Spectrum(0.0, 0.0, 0.0)
    normalised = normalised_adjacency(graph)
    first = np.sqrt(graph.stationary())
    solve = _dense if graph.n <= _DENSE else _sparse
    lambda_2, residual_2 = 1.0, 0.0
    if graph.is_connected:
        lambda_2, residual_2 = _refined(normalised, solve(normalised, first, top=True))
    lambda_min, residual_min = -1.0, 0.0
    if not graph.bipartite_components.any():
        lambda_min, residual_min = _refined(normalised, solve(normalised, first, top=False))
    return Spectrum(
        lambda_2=float(np.clip(lambda_2, -1, 1)),
        lambda_min=float(np.clip(lambda_min, -1, 1)),
        residual=max(residual_2, residual_min),
    )


def mixing_rounds(graph: Graph, laziness: float = 0.0, distance: float = 0.25) -> int | None:
    """Return the rounds that bring a walk from any start within ``distance`` of π.

    In total variation: the least t with ½ √(1/min π − 1) · (1 − gap)ᵗ ≤ ``distance``, an upper
    bound on the mixing time as far as the computed eigenvalues are right. ``None`` at gap 0.
    """
    checks.probability(distance, "distance")
    gap = graph.spectral_gap(laziness)
    if gap <= 0 or distance == 0:
        return None
    start = 0.5 * math.sqrt(max(0.0, 1 / float(graph.stationary().min()) - 1))
    if start <= distance:
        return 0
    if gap == 1:
        return 1
    return math.ceil(math.log(start / distance) / -math.log1p(-gap))


def normalised_adjacency(graph: Graph) -> sparse.csr_array[Any]:
    """Return S = D^(−1/2) A D^(−1/2)."""
    from scipy import sparse

    scale = 1 / np.sqrt(graph.degrees)
    weights = np.repeat(scale, graph.degrees) * scale[graph.indices]
    return sparse.csr_array((weights, graph.indices, graph.indptr), shape=(graph.n, graph.n))


def _refined(normalised: sparse.csr_array[Any], vector: NDArray[np.float64]) -> tuple[float, float]:
    """Rayleigh quotient of a vector, and its residual."""
    unit = vector / np.linalg.norm(vector)
    image = normalised @ unit
    value = float(unit @ image)
    return value, float(np.linalg.norm(image - value * unit))


def _dense(
    normalised: sparse.csr_array[Any], first: NDArray[np.float64], *, top: bool
) -> NDArray[np.float64]:
    from scipy.linalg import eigh

    matrix = normalised.toarray()
    if top:
        matrix -= _DEFLATION * np.outer(first, first)
    at = len(first) - 1 if top else 0
    return np.asarray(eigh(matrix, subset_by_index=(at, at))[1][:, 0])


def _sparse(
    normalised: sparse.csr_array[Any], first: NDArray[np.float64], *, top: bool
) -> NDArray[np.float64]:
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    # A fixed start makes the result repeatable; a generic one is orthogonal to no eigenvector.
    start = np.random.default_rng(0).standard_normal(len(first))

    def deflated(x: NDArray[np.float64]) -> NDArray[np.float64]:
        # Summed by numpy: a threaded BLAS dot product costs more here than all the rest.
        return np.asarray(normalised @ x - (_DEFLATION * np.sum(first * x)) * first)

    tolerance = _TOLERANCE if len(first) <= _LARGE else _ROUGH
    operator = LinearOperator(normalised.shape, matvec=deflated, dtype=np.float64)
    try:
        _, vectors = eigsh(
            operator if top else normalised,
            k=1,
            which="LA" if top else "SA",
            v0=start,
            ncv=_BASIS,
            maxiter=_RESTARTS,
            tol=tolerance,
        )
        return np.asarray(vectors[:, 0])
    except ArpackNoConvergence:
        pass
    try:
        count, shift = (2, 1 + _SHIFT) if top else (1, -1 - _SHIFT)
        values, vectors = eigsh(normalised.tocsc(), count, sigma=shift, v0=start, tol=_TOLERANCE)
    except (ArpackNoConvergence, RuntimeError, MemoryError) as error:
        end = "second" if top else "smallest"
        raise NumericalFloor(
            f"the {end} eigenvalue of this walk on {len(first)} vertices did not converge"
            f" ({error}); mixing this slow cannot be measured here"
        ) from None
    return np.asarray(vectors[:, np.argmin(values)])
