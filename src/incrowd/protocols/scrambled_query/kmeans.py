"""k-means between devices: clusters of people's points, hidden from an observer of the traffic.

In each round everybody finds the nearest of the k centroids and sends their point to its compute
node, through scramblers and sometimes redirected, as in a query. Each compute node adds up the
points that really came. From the second round on, where *everybody* sends depends on everybody's
points through the centroids. So these are released with Laplace noise, ε_c per round, and only the
released ones are sent to people and used afterwards. A round then costs what its traffic does and
twice ε_c, and all rounds are held and compose (``docs/theory/plans.md``). Without a release nothing
but group privacy is proven, for all people at once, which is no protection.

A point is clipped into the box [low, high]^d and to an L1 distance of ``radius`` from the origin,
and counted in whole steps: sums are exact, and so is the noise. The first centroids are drawn at
random and never from the data. ε_c is shared by counts and sums so that their parts in the error of
a centroid are least: counts get 1/(1 + d^(1/3)) of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter, NotANumber, NotProven
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.scrambled_query.plan import model as plans
from incrowd.protocols.scrambled_query.plan.model import Plan
from incrowd.protocols.scrambled_query.release import Noise, laplace_noise
from incrowd.protocols.scrambled_query.theorems.mechanisms import Scrambler
from incrowd.randomizers import Redirect
from incrowd.randomness import Seeds
from incrowd.views import view_of

FloatArray = NDArray[np.float64]

_STEPS: Final = 1 << 20  # the radius in steps
_IN_COUNTS: Final = 2
_ROWS: Final = 8192
_VIEWS: Final = frozenset({"network", "hub", "curator"})
_ASSUMPTIONS: Final = (
    "scramblers add their dummies and do not tell who sent what",
    "messages are sealed and of equal size, and leave a scrambler in random order",
    "who is assigned to which scrambler does not depend on the data",
    "compute nodes, which read points, keep them and add their noise",
)


@dataclass(frozen=True, eq=False)
class Clustering:
    """Result of a clustering: the centroids of the last round, and the course of the run."""

    centroids: FloatArray
    history: tuple[FloatArray, ...]
    """The first centroids, then those after each round."""
    tuples: tuple[int, ...] | None
    """Points that really came in each round; not told beside a guarantee, which leaves it out."""
    traffic: tuple[NDArray[np.int64], ...]
    """Observed messages from each scrambler to each compute node, in each round."""
    guarantee: Guarantee | None
    """Guarantee on traffic and centroids together; none where nothing is proven."""
    seed: int

    def assign(self, points: NDArray[Any]) -> NDArray[np.int64]:
        """The cluster of each point, of these or of others."""
        return nearest(np.asarray(points), self.centroids)


@dataclass(frozen=True, kw_only=True)
class ScrambledKMeans:
    """A frozen description of one clustering.

    ``release_epsilon`` is ε_c, the noise in the centroids of each round; without it they are exact,
    and nothing useful is proven. ``sources`` people share a scrambler, which adds ``dummies``.
    """

    clusters: int
    iterations: int
    dimension: int
    n: int
    radius: float
    low: float = 0.0
    high: float = 1.0
    redirect_probability: float = 0.0
    sources: int
    dummies: int = 0
    release_epsilon: float | None = None

    def __post_init__(self) -> None:
        for name in ("clusters", "iterations", "dimension", "sources"):
            checks.integer(getattr(self, name), name, 1)
        checks.integer(self.dummies, "dummies", 0)
        checks.crowd(self.n)
        checks.probability(self.redirect_probability, "redirect_probability")
        if not checks.number(self.low, "low") < checks.number(self.high, "high"):
            raise InvalidParameter(f"low = {self.low!r} must be below high = {self.high!r}")
        if checks.number(self.radius, "radius") <= 0:
            raise InvalidParameter(f"radius must be positive, got {self.radius!r}", field="radius")
        if not self.low <= 0 <= self.high:
            raise InvalidParameter(
                "low and high must have 0 between them, from which the radius is measured: "
                "shift the points"
            )
        if self.sources > self.n:
            raise InvalidCrowd(
                f"n = {self.n} people are fewer than the {self.sources} that a scrambler needs",
                field="n",
            )
        if self.release_epsilon is not None:
            checks.epsilon(self.release_epsilon, "release_epsilon")

    @property
    def routing(self) -> Scrambler:
        """The routing of points, in every round."""
        return Scrambler(self.clusters, self.redirect_probability, self.sources, self.dummies)

    @cached_property
    def plan(self) -> Plan:
        """The rounds, unrolled."""
        rounds, release = self.iterations, self.release_epsilon or 0.0
        return plans.kmeans(self.routing, self.n, iterations=rounds, release=release)

    def guarantee(self, view: str = "curator+network", colluders: int = 0) -> Guarantee:
        """Guarantee against an observer of all traffic, and of centroids with the curator."""
        parties = view_of(view)
        if not parties <= _VIEWS:
            raise NotProven(
                "compute nodes read points in the clear, and scramblers see where everybody's "
                "go: choose a view of network, hub and curator"
            )
        shown = "curator" in parties
        if self.release_epsilon is None and shown:
            raise NotProven(
                "without a release the centroids are exact, and depend on everybody: set release, "
                "the ε of their noise in each round"
            )
        grouped = "group privacy of everybody at once (docs/theory/plans.md)"
        theorem = grouped if self.release_epsilon is None else self.plan.theorem
        profile = self.plan.profile(released=shown, colluders=colluders)
        return Guarantee(profile, parties, theorem, _ASSUMPTIONS, colluders=colluders)

    def simulate(self, points: NDArray[Any], seed: int | None = None) -> Clustering:
        """Run all rounds, for a population in memory."""
        seeds, steps = Seeds(seed), self._clipped(points)
        centroids = self._start(seeds.generator("start"))
        history, tuples, traffic = [centroids], [], []
        for round_ in range(self.iterations):
            wanted = nearest(steps, centroids / self._step)
            sent, seen = self._routed(wanted, seeds.generator("routing", round_))
            real = np.flatnonzero(sent == wanted)
            count, total = self._folded(steps, wanted, real)
            rng = seeds.generator("release", round_)
            count += self._noises[0].draw(count.size, rng)
            total += self._noises[1].draw(total.size, rng).reshape(total.shape)
            centroids = self._updated(centroids, count, total)
            history.append(centroids)
            tuples.append(int(real.size))
            traffic.append(seen)
        return Clustering(
            centroids=centroids,
            history=tuple(history),
            tuples=tuple(tuples) if self.release_epsilon is None else None,
            traffic=tuple(traffic),
            guarantee=None if self.release_epsilon is None else self.guarantee(),
            seed=seeds.root,
        )

    @property
    def _step(self) -> float:
        return self.radius / _STEPS

    def _clipped(self, points: NDArray[Any]) -> NDArray[np.int32]:
        """Points in whole steps, none farther than the radius: rounded towards the origin."""
        given = np.asarray(points)
        if given.shape != (self.n, self.dimension):
            raise InvalidCrowd(
                f"points must have n = {self.n} rows and {self.dimension} columns, "
                f"got {given.shape}"
            )
        found = np.empty(given.shape, np.int32)
        for rows in _slices(self.n):
            some = np.asarray(given[rows], np.float64)
            if not np.isfinite(some).all():
                raise NotANumber("points must be finite numbers: leave incomplete rows out")
            steps = np.trunc(self._projected(some) / self._step).astype(np.int32)
            # Rounding may leave a step too much, which is taken back.
            excess = np.abs(steps).sum(axis=1, dtype=np.int64) - _STEPS
            for row in np.flatnonzero(excess > 0):
                largest = int(np.abs(steps[row]).argmax())
                steps[row, largest] -= np.sign(steps[row, largest]) * int(excess[row])
            found[rows] = steps
        return found

    def _start(self, rng: np.random.Generator) -> FloatArray:
        """Random points of the box, within the radius: never points of the data."""
        shape = (self.clusters, self.dimension)
        if self.radius >= self.dimension * max(-self.low, self.high):
            return rng.uniform(self.low, self.high, shape)
        # Uniform in the ball of the radius: the box would put almost all into one direction.
        gaps = rng.exponential(size=(self.clusters, self.dimension + 1))
        ball = self.radius * gaps[:, 1:] / gaps.sum(axis=1, keepdims=True)
        signs = np.where(rng.random(shape) * (self.high - self.low) < self.high, 1.0, -1.0)
        return self._projected(ball * signs)

    def _projected(self, points: FloatArray) -> FloatArray:
        inside = np.clip(points, self.low, self.high)
        length = np.abs(inside).sum(axis=1, keepdims=True)
        return np.asarray(inside * np.minimum(1.0, self.radius / np.maximum(length, self.radius)))

    def _routed(
        self, wanted: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The targets of messages, and their numbers from each scrambler to each compute node."""
        redirect = Redirect(targets=self.clusters, redirect_probability=self.redirect_probability)
        sent = redirect.randomize(wanted, rng).astype(np.int64)
        groups = -(-self.n // self.sources)
        group = np.arange(self.n) % groups
        seen = np.bincount(group * self.clusters + sent, minlength=groups * self.clusters)
        table = seen.reshape(groups, self.clusters)
        # One target tells nothing, and needs no dummies.
        if self.clusters > 1:
            missing = self.sources - np.bincount(group, minlength=groups) + self.dummies
            table = table + rng.multinomial(missing, np.full(self.clusters, 1 / self.clusters))
        return sent, table.astype(np.int64)

    def _folded(
        self, steps: NDArray[np.int32], wanted: NDArray[np.int64], real: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        count = np.bincount(wanted[real], minlength=self.clusters)
        total = np.zeros((self.clusters, self.dimension), np.int64)
        for rows in _slices(real.size):
            some = real[rows]
            member = (wanted[some] == np.arange(self.clusters)[:, None]).astype(np.float64)
            # Fewer than 2⁵³ steps in all, so that doubles add them up exactly.
            total += np.rint(member @ steps[some].astype(np.float64)).astype(np.int64)
        return count, total

    @cached_property
    def _noises(self) -> tuple[Noise, Noise]:
        """The noise of counts and of sums, for ε_c together; none where nothing is released."""
        if self.release_epsilon is None:
            return Noise(0, 1), Noise(0, 1)
        share = 1 / (1 + self.dimension ** (1 / 3))
        counts = laplace_noise(_IN_COUNTS, self.release_epsilon * share)
        return counts, laplace_noise(2 * _STEPS, self.release_epsilon * (1 - share))

    def _updated(
        self, before: FloatArray, count: NDArray[np.int64], total: NDArray[np.int64]
    ) -> FloatArray:
        """The new centroids, from released numbers alone.

        A cluster that is empty, noise included, stays where it was. The others move towards the
        mean of all points by as much as noise of this size would have moved them away from it
        (James and Stein): a small cluster is mostly noise, and would be far from every point.
        """
        many = np.maximum(count, 1)[:, None]
        means = total * self._step / many
        everyone = total.sum(axis=0) * self._step / max(1, int(count.sum()))
        away = means - everyone
        noise = self._noises[1].variance * self._step**2 / many**2
        length = (away**2).sum(axis=1, keepdims=True)
        excess = max(0, self.dimension - 2) * noise
        kept = 1 - np.minimum(1.0, excess / np.maximum(length, np.finfo(np.float64).tiny))
        return np.where((count > 0)[:, None], self._projected(everyone + kept * away), before)


def _slices(size: int) -> Iterator[slice]:
    return (slice(begin, min(size, begin + _ROWS)) for begin in range(0, size, _ROWS))


def nearest(points: NDArray[Any], centroids: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index of the closest centroid of each point; the first of several."""
    found = np.empty(len(points), np.int64)
    half = (centroids**2).sum(axis=1) / 2
    for rows in _slices(len(points)):
        found[rows] = (np.asarray(points[rows], np.float64) @ centroids.T - half).argmax(axis=1)
    return found
