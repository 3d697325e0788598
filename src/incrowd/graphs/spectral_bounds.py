"""Distance of every walk from stationarity after many rounds, bounded for all pairs.

With S = D^(−1/2) A D^(−1/2), φ = √π and laziness q, the walk's law after t rounds is

    P_t(j, v)/π(v) − 1 = (S_qᵗ − φφᵀ)(j, v) / √(π(j)π(v)),      S_q = qI + (1 − q)S,

so, by Cauchy and Schwarz, |P_t(j, v)/π(v) − 1| ≤ c(j)·c(v) for **every** pair, where c(v)² is the
diagonal of |S_q|ᵗ − φφᵀ, divided by π(v). For an even t this is the excess over π(v) at v of a walk
from v. :meth:`Modes.spread` returns such a c for any number of rounds.

The slow modes are approximate eigenpairs of S. Nothing rests on their being the right ones: the
rest is measured. Each unit vector, less its share of the modes, is put through the
Chebyshev polynomial T_p(S/a), where a is the least |eigenvalue| among the modes. The squared norms
add up to Σ T_p(λ/a)² over all eigenvalues λ that are left out; no |λ| can be much above a without
making that sum large, because T_p grows steeply beyond 1. A mode that was missed makes the bound
worse but never wrong. The norms also say at which vertices the rest sits.

Invariants: every stored number errs upwards, rounding and residuals included; arrays are
read-only. Proofs: docs/theory/modes.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidGraph, InvalidParameter, NumericalFloor
from incrowd.graphs.graph import Graph, require_no_isolated
from incrowd.graphs.propagate import Step, over_blocks
from incrowd.graphs.spectrum import normalised_adjacency

Doubles = NDArray[np.float64]
Progress = Callable[[int, int], None]

_DENSE = 400
"""Up to this many vertices a dense solver finds all modes."""
_COUNT = 64
"""Modes of a large graph. More of them sharpen the bound only where it is still large."""
_RESTARTS = 300
_STRAY = 1e-9
"""Vectors with a larger residual are no eigenvectors: using them would spoil all others."""
_LEAST_EDGE = 0.05
_GROWTH = 1e5
"""Largest factor T_p(1/a) of errors along the known modes, which have |λ| up to 1."""
_CELLS = 4096
_MOST_ROUNDS = 10**12
_U = 2.0**-53
_UP = 1.0 + 1e-6
"""Covers the rounding of sums that are themselves bounds on rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Modes:
    """Slow modes of a walk, and a certified bound on all others; made by :func:`modes`."""

    stationary: Doubles
    """π."""
    bipartite: bool
    values: Doubles
    """Approximate eigenvalues of S, by falling absolute value, without the first one, 1."""
    vectors: Doubles
    """Their eigenvectors, orthonormal and orthogonal to √π up to ``defect``; one per column."""
    residual: float
    """‖S − S̃‖ (Frobenius) is at most this, S̃ having exactly the modes found as eigenpairs."""
    defect: float
    """Distance of ``vectors`` from exactly orthonormal ones (Frobenius norm)."""
    certified_rounds: int
    """p: degree of the certificate."""
    edge: float
    """a: point from which the Chebyshev polynomial of the certificate grows."""
    rest_norm: float
    """μ: bound on the absolute values of the other eigenvalues of S̃; 0 if none is left."""
    rest_mass: Doubles
    """Per vertex: share of its unit vector outside the modes, squared."""
    rest_power: Doubles
    """Per vertex: that share weighed by (λ/a)²ᵖ, λ being the eigenvalues of S̃."""
    rest_filtered: Doubles
    """Per vertex: that share weighed by T_p(λ/a)²."""

    def __repr__(self) -> str:
        return (
            f"Modes(n={self.stationary.size}, count={self.values.size}, "
            f"rest_norm={self.rest_norm:.6g}, gap={self.gap():.6g})"
        )

    @property
    def least_rounds(self) -> int:
        """2p: number of rounds from which the bound on the rest is sharp."""
        return 2 * self.certified_rounds

    def gap(self, laziness: float = 0.0) -> float:
        """Return a certified lower bound on 1 − max(|λ₂|, |λ_min|) of the walk, at least 0."""
        return max(0.0, 1.0 - self._slowest(checks.probability(laziness, "laziness")))

    def spread(self, rounds: int, laziness: float = 0.0) -> Doubles:
        """Return c with |P_t(j, v)/π(v) − 1| ≤ c(j)·c(v) for all j and v, t = ``rounds`` ≥ 0."""
        rounds = checks.integer(rounds, "rounds", 0)
        stay = checks.probability(laziness, "laziness")
        if rounds > _MOST_ROUNDS:
            raise InvalidParameter(
                f"rounds must be at most 10^12, got {rounds}: it has mixed before", field="rounds"
            )
        if stay == 1:
            raise InvalidParameter(
                "laziness must be below 1: a walk that never moves never mixes", field="laziness"
            )
        if self.bipartite and stay == 0:
            raise InvalidGraph(
                "a simple walk on a bipartite graph alternates between its two sides and has no"
                " limit; make it lazy (laziness > 0)"
            )
        weights = np.abs(stay + (1 - stay) * self.values) ** rounds
        known = np.sqrt(self.vectors**2 @ weights)
        known += self.defect * math.sqrt(weights.max(initial=0.0))
        coupling = 0.0
        if rounds > 0:
            slowest = min(1.0, self._slowest(stay))
            coupling = rounds * (1 - stay) * self.residual * slowest ** (rounds - 1)
        total = known**2 + self._rest(rounds, stay) + coupling
        # Powers magnify the rounding of their base by the exponent; beyond that a few per sum. The
        # smallest positive double stands for powers that vanish.
        rounding = math.exp((8 * rounds + 4 * self.values.size + 100) * _U)
        total = total * rounding + np.finfo(np.float64).tiny
        # No walk is further from π than at its start.
        total = np.minimum(total, (1 - self.stationary) * (1 + 4 * _U))
        return np.asarray(np.sqrt(total / self.stationary) * (1 + 8 * _U))

    def _slowest(self, stay: float) -> float:
        """Upper bound on every |eigenvalue| of S_q and of S̃_q but the first."""
        largest = float(np.abs(stay + (1 - stay) * self.values).max(initial=0.0))
        if self.values.size < self.stationary.size - 1:
            largest = max(largest, stay + (1 - stay) * self.rest_norm)
        return largest * (1 + 4 * _U) + (1 - stay) * self.residual

    def _rest(self, rounds: int, stay: float) -> Doubles:
        """Per vertex: the rest weighed by |q + (1 − q)λ|ᵗ, from three weights that lie above it."""
        p, edge, top = self.certified_rounds, self.edge, self.rest_norm

        def weight(size: float) -> float:
            return float((stay + (1 - stay) * size) ** rounds)

        def turn(end: float) -> float:
            # Beyond this |λ|, weight(|λ|)/|λ|²ᵖ rises up to ``end``.
            if rounds < 2 * p or (rounds == 2 * p and stay > 0):
                return end
            return 0.0 if stay == 0 else min(end, 2 * p * stay / ((1 - stay) * (rounds - 2 * p)))

        def within(end: float) -> Doubles:
            # |λ| ≤ end: a constant up to the turn, from there on a multiple of (λ/a)²ᵖ.
            start = turn(end)
            power = weight(end) * (edge / end) ** (2 * p) if start < end else 0.0
            return weight(start) * self.rest_mass + power * self.rest_power

        bound = np.minimum(weight(top) * self.rest_mass, within(top) if top > 0 else 0.0)
        if top <= edge:
            return bound
        grid = np.linspace(edge, top, _CELLS + 1)
        growth = np.cosh(p * np.arccosh(np.maximum(grid[:-1] / edge, 1.0)))
        beyond = float(np.max((stay + (1 - stay) * grid[1:]) ** rounds / growth**2))
        return np.minimum(bound, within(edge) + beyond * self.rest_filtered)


def modes(
    graph: Graph,
    count: int | None = None,
    rounds: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> Modes:
    """Compute the ``count`` slowest modes of the simple walk, and a certificate for the rest.

    ``count`` is by default 64, or all on a graph of up to 400 vertices. ``rounds`` is the highest
    degree of the certificate, which costs that many rounds of the walks of all vertices; walks that
    mix fast get a lower one. If ``rest_norm`` is 1, nothing is known to fade: raise ``rounds`` or
    ``count``. ``progress`` receives the blocks done and their total. Disconnected graphs are
    refused; bipartite ones are for lazy walks only.
    """
    require_no_isolated(graph)
    degree = checks.integer(rounds, "rounds", 1)
    if not graph.is_connected:
        raise InvalidGraph(
            f"a walk on a graph of {graph.components()[0]} components has no single limit: keep the"
            " largest component (Graph.largest_component()) or treat each by itself"
        )
    if count is None:
        count = graph.n if graph.n <= _DENSE else _COUNT
    count = min(checks.integer(count, "count", 1), graph.n - 1)
    return _certified(graph, _leading(graph, count), degree, progress)


def _leading(graph: Graph, count: int) -> Doubles:
    """Approximate eigenvectors of S for the largest |eigenvalues| but the first."""
    first, normalised = np.sqrt(graph.stationary()), normalised_adjacency(graph)
    if graph.n <= _DENSE or count >= graph.n // 4:
        from scipy.linalg import eigh

        # √π moves to the eigenvalue −2, below all others.
        values, vectors = eigh(normalised.toarray() - 3 * np.outer(first, first))
        chosen = 1 + np.argsort(-np.abs(values[1:]), kind="stable")[:count]
        return np.asarray(vectors[:, chosen])
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    def deflated(x: Doubles) -> Doubles:
        flat = x.ravel()
        # Summed by numpy: a threaded BLAS dot product costs more here than all the rest.
        return np.asarray(normalised @ flat - np.sum(first * flat) * first)

    try:
        _, vectors = eigsh(
            LinearOperator(normalised.shape, matvec=deflated, dtype=np.float64),
            k=count,
            which="LM",
            v0=np.random.default_rng(0).standard_normal(graph.n),
            ncv=min(graph.n - 1, 2 * count + 20),
            maxiter=_RESTARTS,
            tol=1e-14,
        )
    except ArpackNoConvergence as stalled:
        # Converged vectors help; the others are left to the certificate.
        vectors = np.reshape(np.asarray(stalled.eigenvectors, dtype=np.float64), (graph.n, -1))
    return np.asarray(vectors)


def _certified(
    graph: Graph, vectors: Doubles, rounds: int, progress: Progress | None = None
) -> Modes:
    """Modes spanned by any ``vectors``, and the certificate for the rest."""
    first = np.sqrt(graph.stationary())
    values, basis, residual, defect = _ritz(graph, first, vectors)
    count = values.size
    edge = min(1.0, max(_LEAST_EDGE, float(np.abs(values[-1])) if count else 1.0))
    growth_rate = math.acosh(1 / edge)
    degree = rounds
    if growth_rate * rounds > math.acosh(_GROWTH):
        degree = max(1, int(math.acosh(_GROWTH) / growth_rate))
    top, mass, power, filtered = 0.0, *np.zeros((3, graph.n))
    if count < graph.n - 1:
        norms = _filtered_norms(graph, first, basis, edge, degree, progress)
        margin = (graph.n + 16) * _U
        upper, lower = norms * (1 + margin), norms * (1 - margin)
        # Distance of the vectors at each degree from the exact ones: the start, a round, and the
        # inexact modes, each magnified at most as along the eigenvalue 1.
        start = 2 * defect + defect**2 + (count + 16) * _U * (math.sqrt(count) + 2)
        largest = float(upper.max())
        step = (2 / edge * (int(graph.degrees.max()) + 12) + 2) * _U * _UP * largest
        orders = np.arange(degree + 1)
        growth = np.cosh(orders * growth_rate) * _UP
        off = growth * (start + orders**2 * (step + residual / edge))
        mass = (upper[:, 0] + off[0]) ** 2
        power = _power((upper + off) ** 2, np.maximum(lower[:, 0] - off[0], 0.0) ** 2)
        filtered = (upper[:, -1] + off[-1]) ** 2
        all_off = float(growth[-1]) * (
            math.sqrt(graph.n) * (start + degree**2 * step) + degree**2 * residual / edge
        )
        sum_root = float(np.linalg.norm(upper[:, -1])) * (1 + margin) + all_off
        top = edge * math.cosh(math.acosh(max(1.0, sum_root)) / degree) * (1 + 1e-13)
        top = edge if sum_root <= 1 else min(1.0, top)
    pi = graph.stationary()
    for array in (pi, values, basis, mass, power, filtered):
        array.flags.writeable = False
    return Modes(
        stationary=pi,
        bipartite=graph.is_bipartite,
        values=values,
        vectors=basis,
        residual=residual,
        defect=defect,
        certified_rounds=degree,
        edge=edge,
        rest_norm=top,
        rest_mass=mass,
        rest_power=power,
        rest_filtered=filtered,
    )


def _ritz(graph: Graph, first: Doubles, vectors: Doubles) -> tuple[Doubles, Doubles, float, float]:
    """Best eigenpairs in the span of ``vectors``, with bounds on their residual and defect."""
    normalised = normalised_adjacency(graph)
    basis, _ = np.linalg.qr(vectors - np.outer(first, first @ vectors))
    projected = basis.T @ (normalised @ basis)
    values, rotation = np.linalg.eigh((projected + projected.T) / 2)
    falling = np.argsort(-np.abs(values), kind="stable")
    values, basis = np.clip(values[falling], -1.0, 1.0), basis @ rotation[:, falling]
    stray = normalised @ basis - basis * values
    kept = np.linalg.norm(stray, axis=0) <= _STRAY
    values, basis, stray = values[kept], np.ascontiguousarray(basis[:, kept]), stray[:, kept]
    # Summed in √n pieces of √n rows, so that the bound on the rounding stays small.
    rows = math.isqrt(graph.n) + 1
    whole = np.column_stack([first, basis])
    width = whole.shape[1]
    gram = -np.eye(width)
    for begin in range(0, graph.n, rows):
        piece = whole[begin : begin + rows]
        gram += piece.T @ piece
    overlap = float(np.linalg.norm(gram)) * _UP + (2 * rows + 4) * width * _U * _UP
    if overlap > _STRAY:
        raise NumericalFloor(
            f"the modes of this walk on {graph.n} vertices are orthonormal only to {overlap:.1e};"
            " ask for fewer of them (count)"
        )
    defect = 2 * overlap + 2 * overlap**2 + 8 * _U
    rounding = (int(graph.degrees.max()) + 16) * _U * math.sqrt(width) * _UP
    residual = math.sqrt(2) * (float(np.linalg.norm(stray)) * _UP + rounding + 2 * defect) * _UP
    return values, basis, residual, defect


def _filtered_norms(
    graph: Graph,
    first: Doubles,
    basis: Doubles,
    edge: float,
    degree: int,
    progress: Progress | None,
) -> Doubles:
    """‖T_k(S/a)(I − φφᵀ − XXᵀ)e_v‖ for all vertices v and all k up to ``degree``, shape (n, p + 1).

    In the coordinates D^(1/2)x a product with S is one round of the walk.
    """
    scale = np.sqrt(graph.degrees)[:, np.newaxis]
    shrink = 1.0 / graph.degrees
    walk = Step(graph)

    def length(block: Doubles) -> Doubles:
        # One pass without temporaries; faster than a product by BLAS.
        return np.asarray(np.sqrt(np.einsum("v,vc,vc->c", shrink, block, block)))

    norms = np.empty((graph.n, degree + 1))

    def filtered(part: slice, block: Doubles) -> None:
        block -= np.outer(first, first[part])
        block -= basis @ basis[part].T
        block *= scale
        before, now = block, walk(block)
        now /= edge
        norms[part, 0] = length(before)
        norms[part, 1] = length(now)
        for k in range(2, degree + 1):
            after = walk(now)
            after *= 2 / edge
            after -= before
            before, now = now, after
            norms[part, k] = length(now)

    over_blocks(filtered, np.arange(graph.n), graph.n, progress)
    return norms


def _power(upper: Doubles, lower: Doubles) -> Doubles:
    """Weight (λ/a)²ᵖ of vectors, from upper bounds on their weights T_k(λ/a)², k = 0, …, p.

    x²ᵖ is a mean of 1, T₂(x), …, T₂ₚ(x), and T₂ₖ = 2T_k² − 1; ``lower`` bounds the weight of 1.
    """
    p = upper.shape[1] - 1
    shares = np.array([(1 if k == 0 else 2) * math.comb(2 * p, p - k) / 4**p for k in range(p + 1)])
    doubled = 2 * (upper @ shares) * (1 + (p + 8) * _U)
    return np.asarray(np.maximum(doubled - lower * (1 - 8 * _U), 0.0))
