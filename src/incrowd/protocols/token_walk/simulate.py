"""Whole walks at once: who holds the token, and what all contributions add up to.

Every turn is drawn, and every contribution by the randomizer itself, so that mechanism, guarantee
and simulation cannot drift apart:

* complete: holders are independent and uniform. Whoever is away when drawn is replaced by another
  draw. As people are away independently of everything, the holder is uniform again: only the
  number of people who had to be asked tells, and it is drawn at once.
* graph: the first holder is uniform and the next ones follow the public weights, so that everyone
  is equally likely at every step. Holders are correlated. The variance of a mean over a stationary
  reversible walk is at most (1 + λ)/(1 − λ) times that of independent draws, where λ is the second
  largest eigenvalue of the weights: intervals are widened by that.
* ring: everyone in turn. Noise is added where :class:`Ring` says, and uniform elements are put into
  a histogram where it says.

Beyond the ``cap`` a person adds noise only: in a sum the noise of a public value without that
value, in a histogram a uniform category. ``Randomizer.from_tally`` knows both as noise in excess of
the reports. Who is held back loses weight. Where everyone is alike (complete) nothing is biased by
that; on a graph people are visited in clusters of different sizes, and the mean is that of
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
from incrowd.protocols.token_walk.roles.token import Carried, most
from incrowd.protocols.token_walk.theorems.ring import Ring
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.randomness import Seeds

if TYPE_CHECKING:
    from incrowd.protocols.token_walk.spec import TokenWalk

People = NDArray[np.int64]

_BLOCK = 3 << 12
"""Numbers that are drawn at a time: they stay in the cache, and memory for them in the process."""
_DENSE = 2000
"""People up to whom all eigenvalues are computed."""


def collect(protocol: TokenWalk, values: NDArray[Any], seeds: Seeds) -> Carried:
    """What all tokens bring home; nothing is lost in memory."""
    if protocol.topology == "ring":
        return _around(protocol, values, seeds)
    chosen, randomizer = protocol, protocol.randomizer
    total: FloatArray = np.zeros(())
    reports, asked, losses = 0, 0, []
    # What is stated of a path that is hidden must not depend on it.
    known = chosen.path_known == "public" and randomizer.normal_shift is not None
    if known:
        from incrowd.protocols.token_walk.theorems.conditional_on_path import largest_loss
    for token in range(chosen.tokens):
        rng = seeds.generator("device", token)
        turns = _Turns(randomizer, values, chosen)
        seen = []
        for path in paths(protocol, seeds, token):
            total = total + turns.add(path, rng)
            if known:
                seen.append(path)
        reports += turns.reports
        asked += chosen.length + _away(chosen, seeds, token)
        if known:
            path = np.concatenate(seen)
            losses.append(largest_loss(path, chosen.n, published=chosen.published))
    return Carried(
        rounds=(),
        sent=asked,
        total=total,
        reports=reports,
        noise=chosen.length * chosen.tokens,
        steps=chosen.length,
        crowd=chosen.n,
        losses=most(losses),
        drawn=True,
        correlation=1.0 if protocol.graph is None else correlation(protocol.graph, chosen.length),
    )


# Who holds the token.


def paths(protocol: TokenWalk, seeds: Seeds, token: int = 0) -> Iterator[People]:
    """The holders of one token, block by block."""
    chosen = protocol
    sizes = _blocks(chosen.length, protocol.randomizer)
    rng = seeds.generator("walk", token)
    if chosen.topology == "ring":
        at = 0
        for size in sizes:
            yield np.arange(at, at + size) % chosen.n
            at = (at + size) % chosen.n
    elif protocol.graph is None:
        for size in sizes:
            yield rng.integers(chosen.n, size=size)
    else:
        from incrowd.protocols.token_walk._walk_kernels import follow

        holder = int(rng.integers(chosen.n))
        table = _table(protocol.graph)
        for size in sizes:
            path = np.empty(size, np.int64)
            holder = follow(*table, holder, rng.random(size), path)
            yield path


def _away(chosen: TokenWalk, seeds: Seeds, token: int) -> int:
    """How often somebody was drawn who was away."""
    if chosen.available == 1:
        return 0
    rng = seeds.generator("away", token)
    return int(rng.negative_binomial(chosen.length, chosen.available))


@lru_cache(maxsize=4)
def _table(graph: Graph) -> tuple[People, People, FloatArray]:
    """The weights of each person's neighbours, added up."""
    from incrowd.protocols.token_walk._walk_kernels import accumulate

    weights = weights_of(graph)
    indptr = weights.indptr.astype(np.int64)
    return indptr, weights.indices.astype(np.int64), accumulate(indptr, weights.data)


@lru_cache(maxsize=4)
def correlation(graph: Graph, steps: int) -> float:
    """How much more a mean over so many steps varies than one over independent draws, at most.

    Each eigenvector of the weights, with eigenvalue λ, adds its share of the variance times
    1 + 2·Σ(1 − k/T)·λ^k. That is at most (1 + λ)/(1 − λ) where λ ≥ 0, at most 1 where λ < 0, and
    never more than T.
    """
    slowest = _second_eigenvalue(graph)
    if slowest >= 1:
        return float(steps)
    return min((1 + slowest) / (1 - slowest), float(steps))


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


# What they contribute.


@dataclass
class _Turns:
    """The contributions to one token, and how many there were."""

    randomizer: Randomizer
    values: NDArray[Any]
    chosen: TokenWalk
    reports: int = 0

    def __post_init__(self) -> None:
        self._visits = np.zeros(self.chosen.n if self.chosen.cap else 0, np.int64)

    def add(self, path: People, rng: np.random.Generator) -> FloatArray:
        """What these holders add up to."""
        idle = 0
        if self.chosen.cap:
            from incrowd.protocols.token_walk._walk_kernels import first_visits

            among = first_visits(path, self._visits, self.chosen.cap)
            idle = int(np.count_nonzero(~among))
            path = path[among]
        self.reports += path.size
        total: FloatArray = np.zeros(())
        if path.size:
            drawn = self.randomizer.randomize(self.values[path], rng)
            total = total + self.randomizer.tally(drawn)
        return total + noise_alone(self.randomizer, idle, rng) if idle else total


def noise_alone(randomizer: Randomizer, count: int, rng: np.random.Generator) -> FloatArray:
    """What so many turns add up to in which only noise is added: its mean is known.

    For categories uniform elements; else a public value with its noise, and without the value.
    """
    total: FloatArray = np.zeros(())
    for size in _blocks(count, randomizer):
        if randomizer.domain == "category":
            categories = int(getattr(randomizer, "categories"))  # noqa: B009
            uniform = rng.integers(categories, size=size)
            total = total + np.bincount(uniform, minlength=categories)
        else:
            public = np.zeros(size)
            if randomizer.domain == "vector":
                public = np.zeros((size, int(getattr(randomizer, "dimension"))))  # noqa: B009
                public[:, 0] = 1
            total = total + randomizer.tally(randomizer.randomize(public, rng) - public)
    return total


def _blocks(count: int, randomizer: Randomizer) -> Iterator[int]:
    """Sizes of blocks that add up to ``count``."""
    most = max(1, _BLOCK // int(getattr(randomizer, "dimension", 1)))
    return (min(most, count - start) for start in range(0, count, most))


# On a ring.


def _around(protocol: TokenWalk, values: NDArray[Any], seeds: Seeds) -> Carried:
    """Everyone in turn; between two noises there is nothing to draw."""
    chosen, randomizer, ring = protocol, protocol.randomizer, protocol.ring
    total: FloatArray = np.zeros(())
    for token in range(chosen.tokens):
        rng = seeds.generator("device", token)
        if randomizer.uniform_blanket:
            turns = _Turns(randomizer, values, chosen)
            for path in paths(protocol, seeds, token):
                total = total + turns.add(path, rng)
            hidden = ring.uniform_elements(randomizer.blanket().gamma)
            total = total + noise_alone(randomizer, hidden * (1 + ring.published), rng)
        else:
            total = total + _laps(randomizer, values, chosen.laps, rng)
            total = total + _ring_noise(randomizer, ring, rng)
    reports = ring.steps * chosen.tokens
    return Carried(
        rounds=(),
        sent=reports,
        total=total,
        reports=reports,
        noise=protocol.ring_noise * chosen.tokens,
        steps=ring.steps,
        crowd=chosen.n,
        losses=None,
        drawn=False,
    )


def _laps(
    randomizer: Randomizer, values: NDArray[Any], laps: int, rng: np.random.Generator
) -> FloatArray:
    """The sum of everyone's values over all laps."""
    if randomizer.domain == "vector" and np.isnan(values).any():
        # The stand-in of an absent vector is drawn anew in every lap.
        return np.asarray(
            np.sum([randomizer.filled(values, rng).sum(axis=0) for _ in range(laps)], axis=0)
        )
    return np.asarray(laps * randomizer.filled(values, rng).sum(axis=0))


def _ring_noise(randomizer: Randomizer, ring: Ring, rng: np.random.Generator) -> FloatArray:
    """The noise of all steps of a ring."""
    if not ring.spread:
        return noise_alone(randomizer, ring.noises, rng)
    # The first step adds all its noise, and so does the last one of a result that is published.
    whole = 1 + ring.published
    rest = noise_alone(randomizer, ring.steps - whole, rng)
    return noise_alone(randomizer, whole, rng) + ring.noise_scale(1) * rest
