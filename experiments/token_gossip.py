"""Gossip: everyone adds noise once, and then all average with their neighbours, round after round.

x⁰ is the vector of values plus noise N(0, σ²), and x^{t+1} = W·x^t. In each round a person v
receives x^t of every neighbour. All that v sees is linear in x⁰, and the noise of everyone is drawn
once: messages of later rounds share it, so that what single messages give away does not add up.
With P the projector on the span of the rows (W^t)_w, w a neighbour, t = 0, …, rounds − 1, and of
e_v, what v learns of u is exactly a shift of μ·√(P_uu) standard deviations. Once e_u lies in that
span v has reconstructed u's noisy value, and nothing of the averaging protects it. See
``docs/theory/gossip.md``.

The span is a Krylov space, built by orthogonalising one round after the other. Whether a direction
is new is decided with a wide margin; where that is not clear, nothing is stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter, NotANumber, NumericalFloor
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.protocols.token_walk.theorems.graph_walk import check_weights

__all__ = ["Gossip"]

FloatArray = NDArray[np.float64]

_NOTHING, _SOMETHING = 1e-11, 1e-7
"""A direction shorter than the first is rounding, one longer than the second is new."""
_LEAST_WEIGHT = 1e-6
"""A smaller weight could make a new direction look like rounding."""
_ROUNDING = 1e-8
_LEAST_SHIFT = 1e-6


@dataclass(frozen=True, eq=False)
class Gossip:
    """``rounds`` of averaging by symmetric ``weights``; ``mu`` is sensitivity over σ."""

    weights: Any
    rounds: int
    mu: float

    def __post_init__(self) -> None:
        """Refuse weights that do not average, no round and no noise."""
        object.__setattr__(self, "weights", check_weights(self.weights, walk=False))
        entries = self.weights.tocsr().data
        least = float(np.min(entries[entries > 0], initial=1.0))
        if least < _LEAST_WEIGHT:
            raise NumericalFloor(
                f"a weight of {least:.1e} is too small to tell from none: use weights of at least "
                f"{_LEAST_WEIGHT:g}"
            )
        checks.integer(self.rounds, "rounds", 1)
        if not checks.number(self.mu, "mu") > 0:
            raise InvalidParameter(f"mu must be above 0, got {self.mu!r}")

    @property
    def n(self) -> int:
        """How many people there are."""
        return int(self.weights.shape[0])

    def losses(self) -> FloatArray:
        """μ² for all pairs, rounded up: row u, column v is what v learns of u; 0 for oneself."""
        return self._projected * self.mu**2

    def profile(self, u: int, v: int) -> GaussianProfile:
        """What v learns of u; a shift too small for doubles is raised to one that is not."""
        for person in (u, v):
            if checks.integer(person, "a person", 0) >= self.n:
                raise InvalidParameter(f"person {person} is not one of 0 to {self.n - 1}")
        if u == v:
            raise InvalidParameter(f"a pair is two different people, got {u} twice")
        shift = self.mu * math.sqrt(self._projected[u, v]) * (1 + 2.0**-50)
        return GaussianProfile(max(shift, _LEAST_SHIFT))

    def simulate(self, values: FloatArray, sigma: float, rng: np.random.Generator) -> FloatArray:
        """What everyone holds after the last round; rows of ``values`` belong to people."""
        try:
            start = np.asarray(values, np.float64)
        except (TypeError, ValueError) as wrong:
            raise InvalidParameter("values must be numbers, as many for each person") from wrong
        if start.shape[:1] != (self.n,):
            raise InvalidParameter(
                f"values must have one row for each of {self.n} people, got shape {start.shape}"
            )
        if not np.isfinite(start).all():
            raise NotANumber("values must be finite: fill in or drop those that are not")
        if checks.number(sigma, "sigma") < 0:
            raise InvalidParameter(f"sigma must not be negative, got {sigma!r}")
        checks.instance(rng, np.random.Generator, "rng", "np.random.default_rng(7)")
        held: FloatArray = start + sigma * rng.standard_normal(start.shape)
        for _ in range(self.rounds):
            held = self.weights @ held
        return held

    @cached_property
    def _projected(self) -> FloatArray:
        dense = self.weights.toarray()
        found = np.zeros((self.n, self.n))
        for v in range(self.n):
            basis = _span(dense, v, self.rounds)
            share = np.sum(basis**2, axis=1)
            # Whom no message of v has reached yet keeps an exact zero.
            share = np.where(share > 0, np.minimum(share + _ROUNDING, 1.0), 0.0)
            share[v] = 0.0
            found[:, v] = share
        return found


def _span(weights: FloatArray, v: int, rounds: int) -> FloatArray:
    """An orthonormal basis, in columns, of what v sees in these rounds."""
    n = weights.shape[0]
    seen = np.flatnonzero(weights[v] > 0)
    basis = np.zeros((n, 0))
    latest = np.eye(n)[:, np.union1d(seen, [v])]
    for _ in range(rounds):
        fresh = _new_directions(basis, latest)
        if fresh.shape[1] == 0:
            break  # the span is closed under averaging: later rounds tell nothing new
        basis = np.hstack([basis, fresh])
        # What the last round added to the span is all that averaging once more can extend.
        latest = weights @ fresh
    return basis


def _new_directions(basis: FloatArray, candidates: FloatArray) -> FloatArray:
    """What the candidates add to the span, orthonormal."""
    fresh = np.zeros((basis.shape[0], 0))
    for column in candidates.T:
        rest = column
        for _ in range(3):  # repeated, until rounding leaves nothing along the basis
            rest = rest - basis @ (basis.T @ rest)
            rest = rest - fresh @ (fresh.T @ rest)
        length = float(np.linalg.norm(rest))
        if length <= _NOTHING:
            continue
        if length < _SOMETHING:
            raise NumericalFloor(
                "rounding hides whether a message of a late round tells anything new: use fewer "
                "rounds, or weights that differ more"
            )
        fresh = np.column_stack([fresh, rest / length])
    return fresh
