"""Whole walks in memory: the holders of the token, and the sum of their contributions.

Every turn is drawn, and every contribution by the randomizer itself, so that mechanism, guarantee
and simulation cannot drift apart:

* complete: holders are independent and uniform. A person who is away when drawn is replaced by
  another draw. As people are away independently of everything, the holder is uniform again: only
  the number of people who had to be asked tells, and it is drawn as one number.
* graph: the first holder is uniform and the next ones follow the public weights, so that everyone
  is equally likely at every step. Holders are correlated: intervals are widened by
  :func:`correlation`.
* ring: everyone in turn, with noise, or uniform elements in a histogram, where :class:`Ring` says.

Beyond the ``cap`` a person adds noise only: in a sum the noise of a public value without that
value, in a histogram a uniform category. ``Randomizer.from_tally`` knows both as noise in excess of
the reports. A person who is held back loses weight. If everyone is alike (complete) that biases
nothing; on a graph people are visited in clusters of different sizes, and the mean is that of
contributions, not of people, as far as the cap binds.

Steps are taken in blocks of a fixed size, which bounds the memory; there is one stream of random
numbers per token for the path and one for contributions. A result depends on the seed alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.graphs.graph import Graph
from incrowd.protocols.token_walk.accountant import weights_of
from incrowd.protocols.token_walk.roles.token import Carried, largest_known
from incrowd.protocols.token_walk.theorems.conditional_on_path import largest_loss
from incrowd.protocols.token_walk.theorems.ring import Ring
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.randomness import Seeds

if TYPE_CHECKING:
    from incrowd.protocols.token_walk.spec import TokenWalk

People = NDArray[np.int64]

_BLOCK = 3 << 12
"""Numbers that are drawn at a time: they stay in the cache, and memory for them in the process."""
_DENSE = 2000  # people up to whom all eigenvalues are computed


def collect(protocol: TokenWalk, values: NDArray[Any], seeds: Seeds) -> Carried:
    """Return the sum that all tokens bring home; nothing is lost in memory."""
    randomizer, graph = protocol.randomizer, protocol.graph
    ring = protocol.ring if protocol.topology == "ring" else None
    # No statement about a hidden path may depend on it.
    known = not ring and protocol.path_known == "public" and randomizer.normal_shift is not None
    total: FloatArray = np.zeros(())
    reports, asked, losses = 0, 0, []
    for token in range(protocol.tokens):
        rng = seeds.generator("device", token)
        asked += protocol.length
        if ring and not randomizer.uniform_blanket:
            # Everyone in turn: between two noises there is nothing to draw.
            total = total + _laps(randomizer, values, protocol.laps, rng)
            total = total + _ring_noise(randomizer, ring, rng)
            reports += protocol.length
            continue
        turns, seen = _Turns(protocol, values), []
        for path in paths(protocol, seeds, token):
            total = total + turns.add(path, rng)
            seen += [path] if known else []
        reports += turns.reports
        if ring:
            hidden = ring.uniform_elements(randomizer.blanket().gamma)
            total = total + noise_alone(randomizer, hidden * (1 + ring.published), rng)
        if protocol.available < 1:
            away = seeds.generator("away", token)
            asked += int(away.negative_binomial(protocol.length, protocol.available))
        if known:
            walked = np.concatenate(seen)
            losses.append(largest_loss(walked, protocol.n, published=protocol.published))
    return Carried(
        rounds=(),
        sent=asked,
        total=total,
        reports=reports,
        noise=(protocol.ring_noise if ring else protocol.length) * protocol.tokens,
        steps=protocol.length,
        crowd=protocol.n,
        losses=largest_known(losses),
        drawn=not ring,
        correlation=1.0 if graph is None else correlation(graph, protocol.length),
    )


def paths(protocol: TokenWalk, seeds: Seeds, token: int = 0) -> Iterator[People]:
    """Yield the holders of one token, block by block."""
    sizes = _blocks(protocol.length, protocol.randomizer)
    rng = seeds.generator("walk", token)
    if protocol.topology == "ring":
        at = 0
        for size in sizes:
            yield np.arange(at, at + size) % protocol.n
            at = (at + size) % protocol.n
    elif protocol.graph is None:
        for size in sizes:
            yield rng.integers(protocol.n, size=size)
    else:
        from incrowd.protocols.token_walk.kernels import follow

        holder, table = int(rng.integers(protocol.n)), _table(protocol.graph)
        for size in sizes:
            path = np.empty(size, np.int64)
            holder = follow(*table, holder, rng.random(size), path)
            yield path


@lru_cache(maxsize=4)
def _table(graph: Graph) -> tuple[People, People, FloatArray]:
    """The accumulated weights of each person's neighbours."""
    from incrowd.protocols.token_walk.kernels import accumulate

    weights = weights_of(graph)
    indptr = weights.indptr.astype(np.int64)
    return indptr, weights.indices.astype(np.int64), accumulate(indptr, weights.data)


@lru_cache(maxsize=4)
def correlation(graph: Graph, steps: int) -> float:
    """Return the variance inflation of a walk's mean over independent draws (upper bound).

    Each eigenvector of the weights, with eigenvalue λ, adds its share of the variance times
    1 + 2·Σ(1 − k/T)·λ^k. That is at most (1 + λ)/(1 − λ) where λ ≥ 0, at most 1 where λ < 0, and
    never more than T.
    """
    slowest = _second_eigenvalue(graph)
    return min((1 + slowest) / (1 - slowest) if slowest < 1 else np.inf, float(steps))


def _second_eigenvalue(graph: Graph) -> float:
    """The second largest eigenvalue of the weights, at least 0; 1 where it cannot be computed."""
    weights = weights_of(graph)
    if graph.n <= _DENSE:
        from scipy.linalg import eigvalsh

        last = graph.n - 2
        return max(0.0, float(eigvalsh(weights.toarray(), subset_by_index=(last, last))[0]))
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    # A fixed start makes the result repeatable.
    start = np.random.default_rng(0).standard_normal(graph.n)
    apart = LinearOperator(
        weights.shape, matvec=lambda x: weights @ x - 2 * np.mean(x), dtype=np.float64
    )
    try:
        (value,), vectors = eigsh(apart, k=1, which="LA", v0=start, tol=1e-6)
    except ArpackNoConvergence:
        return 1.0
    missed = float(np.linalg.norm(apart @ vectors[:, 0] - value * vectors[:, 0]))
    return min(1.0, max(0.0, float(value) + missed))


@dataclass
class _Turns:
    protocol: TokenWalk
    values: NDArray[Any]
    reports: int = 0

    def __post_init__(self) -> None:
        self._visits = np.zeros(self.protocol.n if self.protocol.cap else 0, np.int64)

    def add(self, path: People, rng: np.random.Generator) -> FloatArray:
        idle, cap, randomizer = 0, self.protocol.cap, self.protocol.randomizer
        if cap:
            from incrowd.protocols.token_walk.kernels import first_visits

            among = first_visits(path, self._visits, cap)
            idle = int(np.count_nonzero(~among))
            path = path[among]
        self.reports += path.size
        total: FloatArray = np.zeros(())
        if path.size:
            total = total + randomizer.tally(randomizer.randomize(self.values[path], rng))
        return total + noise_alone(randomizer, idle, rng) if idle else total


def noise_alone(
    randomizer: Randomizer, count: int, rng: np.random.Generator, *, exactly: bool = False
) -> FloatArray:
    """Return the sum of this number of turns that add noise alone, of known mean.

    For categories uniform elements; else a public value with its noise, and without the value.
    """
    total: FloatArray = np.zeros(())
    randomize = randomizer.randomize_exactly if exactly else randomizer.randomize
    for size in _blocks(count, randomizer):
        if randomizer.domain == "category":
            categories = int(getattr(randomizer, "categories"))  # noqa: B009
            total = total + np.bincount(rng.integers(categories, size=size), minlength=categories)
        else:
            public = np.zeros(size)
            if randomizer.domain == "vector":
                public = np.zeros((size, int(getattr(randomizer, "dimension"))))  # noqa: B009
                public[:, 0] = 1
            total = total + randomizer.tally(randomize(public, rng) - public)
    return total


def _blocks(count: int, randomizer: Randomizer) -> Iterator[int]:
    most = max(1, _BLOCK // int(getattr(randomizer, "dimension", 1)))
    return (min(most, count - start) for start in range(0, count, most))


def _laps(
    randomizer: Randomizer, values: NDArray[Any], laps: int, rng: np.random.Generator
) -> FloatArray:
    if randomizer.domain == "vector" and np.isnan(values).any():
        # The stand-in of an absent vector is drawn anew in every lap.
        drawn = [randomizer.filled(values, rng).sum(axis=0) for _ in range(laps)]
        return np.asarray(np.sum(drawn, axis=0))
    return np.asarray(laps * randomizer.filled(values, rng).sum(axis=0))


def _ring_noise(randomizer: Randomizer, ring: Ring, rng: np.random.Generator) -> FloatArray:
    if not ring.split_noise:
        return noise_alone(randomizer, ring.noises, rng)
    # The first step adds all its noise, and so does the last one of a result that is published.
    whole = 1 + ring.published
    rest = noise_alone(randomizer, ring.steps - whole, rng)
    return noise_alone(randomizer, whole, rng) + ring.noise_scale(1) * rest
