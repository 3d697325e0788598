"""k-means between devices on MNIST: what is claimed, what is proven, and how good it is.

    export INCROWD_DATA=DIRECTORY
    python -m experiments.scrambled_clustering [--quick --out DIRECTORY]

The second use of "Mitigating Leakage from Data Dependent Communications in Decentralized Computing
using Differential Privacy" (Ladjel, Anciaux, Bellet, Scerri) at its own size: 60,000 people with a
picture each, 10 clusters, 10 rounds, and the Rand index of 10,000 other pictures against their
labels. The paper claims the sum of what the rounds' traffic is by itself. That does not hold, since
the centroids tell everybody where to send from the second round on; so they are released with noise
of ε_c per round here, which is charged (``docs/theory/plans.md``). A full run takes some minutes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.check_in_learning_data import Pictures, digits
from experiments.common import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    Drawing,
    Experiment,
    Table,
    canvas,
    plain_ticks,
)
from experiments.paper_scrambled_query import paper_kmeans
from incrowd.errors import InvalidParameter
from incrowd.protocols.scrambled_query.kmeans import ScrambledKMeans
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.randomizers import Redirect
from incrowd.report.format import count, plain, small, up

__all__ = [
    "FULL",
    "QUICK",
    "Routes",
    "Size",
    "Way",
    "adjusted_rand_index",
    "kmeans_messages",
    "measured",
    "rand_index",
    "shrunk",
]

MODULE = "experiments.scrambled_clustering"
CLUSTERS, ROUNDS, DELTA = 10, 10, 1e-4
TUPLES = 10_000
_SIDE = 28
_LOAD_RELEASE = 0.1


@dataclass(frozen=True)
class Way:
    """How pictures become points: means of squares, and how far from black a point may be."""

    name: str
    side: int
    radius: float

    @property
    def dimension(self) -> int:
        """Numbers of one point."""
        return self.side**2


@dataclass(frozen=True)
class Routes:
    """How traffic is hidden."""

    sampling: float
    sources: int
    dummies: int

    @property
    def name(self) -> str:
        """In words."""
        return f"σ = {self.sampling:g}, {self.dummies:,} dummies"


PIXELS, SQUARES = Way("28 × 28", 28, 100.0), Way("7 × 7", 7, 6.0)
"""Both radii are public, about the mean brightness of a picture; brighter ones are dimmed."""


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    people: int
    tests: int
    ways: tuple[Way, ...]
    routes: tuple[Routes, ...]
    releases: tuple[float, ...]
    """ε_c of each round; infinite: the exact centroids."""
    seeds: int
    points: int


FULL = Size(
    people=60_000,
    tests=10_000,
    ways=(PIXELS, SQUARES),
    routes=(Routes(0.0, 600, 1000), Routes(0.5, 600, 200), Routes(0.9, 600, 0)),
    releases=(math.inf, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03),
    seeds=3,
    points=24,
)
QUICK = replace(
    FULL,
    people=3000,
    tests=500,
    ways=(SQUARES,),
    routes=FULL.routes[1:],
    releases=(math.inf, 3.0),
    seeds=2,
    points=4,
)


def shrunk(pictures: NDArray[Any], way: Way) -> NDArray[np.float32]:
    """Each picture as the means of side × side squares: a map that is fixed beforehand."""
    width = _SIDE // way.side
    squares = pictures.reshape(len(pictures), way.side, width, way.side, width)
    return np.asarray(squares.mean(axis=(2, 4)).reshape(len(pictures), -1), np.float32)


@lru_cache(maxsize=1)
def _digits(people: int, tests: int) -> Pictures:
    return digits().part(people, tests)


@dataclass(frozen=True)
class Measured:
    """What some runs brought."""

    claimed: float
    """By the paper, of the traffic alone; the centroids are not counted."""
    proven: float
    """Of traffic and centroids."""
    rand: tuple[float, ...]
    """The Rand index of each run."""
    adjusted: tuple[float, ...]
    """The same, so that 0 is what chance brings."""


def _kmeans(people: int, way: Way, routes: Routes, release: float) -> ScrambledKMeans:
    return ScrambledKMeans(
        clusters=CLUSTERS, iterations=ROUNDS, dimension=way.dimension, n=people,
        radius=way.radius, redirect_probability=routes.sampling, sources=routes.sources,
        dummies=routes.dummies, release_epsilon=None if math.isinf(release) else release,
    )  # fmt: skip


@lru_cache(maxsize=256)
def measured(size: Size, way: Way, routes: Routes, release: float) -> Measured:
    """Runs with a seed each, of one setting."""
    data = _digits(size.people, size.tests)
    points, unseen = shrunk(data.seen, way), shrunk(data.unseen, way)
    protocol = _kmeans(size.people, way, routes, release)
    runs = [protocol.simulate(points, seed).assign(unseen) for seed in range(size.seeds)]
    return Measured(
        claimed=_claimed(routes),
        proven=math.inf if math.isinf(release) else protocol.guarantee().epsilon(DELTA),
        rand=tuple(rand_index(each, data.truth) for each in runs),
        adjusted=tuple(adjusted_rand_index(each, data.truth) for each in runs),
    )


def rand_index(first: NDArray[Any], second: NDArray[Any]) -> float:
    """The share of pairs about which two partitions agree: together in both, or in neither."""
    if np.shape(first) != np.shape(second) or np.ndim(first) != 1 or len(first) < 2:
        raise InvalidParameter("rand_index compares two labellings of the same two or more points")
    a, b = (np.unique(each, return_inverse=True)[1] for each in (first, second))
    table = np.zeros((int(a.max()) + 1, int(b.max()) + 1), np.int64)
    np.add.at(table, (a, b), 1)
    together = _pairs(table)
    apart_in_one = _pairs(table.sum(axis=1)) + _pairs(table.sum(axis=0)) - 2 * together
    return 1 - apart_in_one / _pairs(np.array([len(a)]))


def _pairs(sizes: NDArray[np.int64]) -> int:
    """Pairs within groups of these sizes."""
    return sum(size * (size - 1) // 2 for size in sizes.ravel().tolist())


def adjusted_rand_index(first: NDArray[Any], second: NDArray[Any]) -> float:
    """The Rand index, less what labels of the same sizes have when they are dealt at random."""
    sizes = [np.unique(each, return_counts=True)[1].astype(float) for each in (first, second)]
    one, other = (float((each * (each - 1)).sum()) / 2 for each in sizes)
    pairs = len(first) * (len(first) - 1) / 2
    chance = 1 - (one + other) / pairs + 2 * one * other / pairs**2
    return (rand_index(first, second) - chance) / (1 - chance)


def _claimed(routes: Routes) -> float:
    profile = ScramblerProfile(CLUSTERS, routes.sampling, routes.sources, routes.dummies)
    return paper_kmeans(profile.epsilon(DELTA), ROUNDS)


def results(size: Size) -> Table:
    """All settings."""
    rows = []
    for way in size.ways:
        for routes in size.routes:
            for release in size.releases:
                found = measured(size, way, routes, release)
                rows.append(
                    [
                        way.name,
                        f"{routes.sampling:g}",
                        count(routes.dummies),
                        "none" if math.isinf(release) else f"{release:g}",
                        plain(found.claimed, 3),
                        "∞" if math.isinf(found.proven) else up(found.proven, 3),
                        f"{np.mean(found.rand):.3f}",
                        f"{np.mean(found.adjusted):z.3f}",
                        f"{min(found.adjusted):z.3f} to {max(found.adjusted):z.3f}",
                    ]
                )
    return Table(
        "k-means on MNIST",
        f"{count(size.people)} people with a picture each, {CLUSTERS} clusters, {ROUNDS} rounds, "
        f"groups of {size.routes[0].sources}, δ = {small(DELTA)}. Points: the pixels, or the means "
        "of squares of 4 × 4 pixels; the sum of a point’s numbers is at most "
        f"{' or '.join(f'{way.radius:g} ({way.name})' for way in size.ways)}. ε_c: noise in the "
        "centroids of each round, none for exact ones. Claimed: the paper’s ε, ten times that of "
        "one round’s traffic, which leaves out that later traffic depends on everybody’s pictures "
        "through the centroids. Proven: of traffic and centroids together. Rand index: of "
        f"{count(size.tests)} other pictures against their labels, mean of {size.seeds} runs; ten "
        "clusters drawn at random have 0.82 already, and one cluster 0.10. Adjusted: the same, so "
        "that 0 is what chance brings and 1 the best; mean, least and greatest.",
        ("points", "σ", "dummies", "ε_c", "claimed", "proven", "Rand index", "adjusted", "range"),
        rows,
    )


def rand_figure(size: Size) -> Drawing:
    """How good clusters are against what is proven."""
    lines = ((BLUE, "solid", "o"), (ORANGE, (0, (5, 2)), "s"), (GREEN, (0, (3, 1.2)), "^"))
    noisy = [each for each in size.releases if math.isfinite(each)]
    with canvas(10.0, 5.0, len(size.ways)) as drawn:
        for axes, way in zip(drawn.axes, size.ways, strict=True):
            for routes, (colour, line, mark) in zip(size.routes, lines, strict=False):
                found = [measured(size, way, routes, release) for release in noisy]
                at = [each.proven for each in found]
                mean = [float(np.mean(each.adjusted)) for each in found]
                ends = [(min(each.adjusted), max(each.adjusted)) for each in found]
                axes.vlines(at, *zip(*ends, strict=True), color=colour, linewidth=1.1)
                axes.plot(at, mean, color=colour, linestyle=line, linewidth=2.0, marker=mark,
                          markersize=5, label=routes.name)  # fmt: skip
            exact = measured(size, way, size.routes[0], math.inf)
            axes.axhline(float(np.mean(exact.adjusted)), color=MUTED, linewidth=1.2,
                         linestyle=(0, (1, 1.6)))  # fmt: skip
            axes.set(xscale="log", xlabel=f"proven ε, all {ROUNDS} rounds (δ = 10⁻⁴)")
            plain_ticks(axes.xaxis, [1, 3, 10, 30, 100, 300])
            axes.set_title(f"pictures of {way.name}", color=INK, fontsize=11)
        first = drawn.axes[0]
        first.set(ylim=(-0.02, 0.5), ylabel="adjusted Rand index on other pictures (0: chance)")
        first.text(0.02, 0.9, "without any protection", color=MUTED, fontsize=9,
                   transform=first.transAxes)  # fmt: skip
        drawn.axes[-1].legend(frameon=False, labelcolor=INK, loc="lower right", fontsize=9)
        drawn.heading("k-means on MNIST: the noise in the centroids decides, not the traffic")
        return drawn.drawing()


# Load (Figures 8e and 8f).


def kmeans_messages(people: int, sources: int, dummies: int) -> int:
    """All messages of all rounds.

    In each, people send to scramblers and those to compute nodes; every compute node tells each
    scrambler its centroid, and the one of the next round or the result; scramblers tell people.
    """
    groups = -(-people // sources)
    each = people + groups * (sources + dummies) + CLUSTERS * groups + people + CLUSTERS
    return ROUNDS * each


def _total(sampling: float, sources: int, dummies: int) -> tuple[int, float, float]:
    """All messages, what is proven, and the paper's claim."""
    kept = Redirect(targets=CLUSTERS, redirect_probability=sampling).kept
    people = math.ceil(TUPLES / kept)
    routes = Routes(sampling, sources, dummies)
    proven = _kmeans(people, SQUARES, routes, _LOAD_RELEASE).guarantee().epsilon(DELTA)
    return kmeans_messages(people, sources, dummies), proven, _claimed(routes)


def load_figure(size: Size) -> Drawing:
    """The paper's Figures 8e and 8f."""
    looks = ((BLUE, "solid"), (ORANGE, (0, (5, 2))), (GREEN, (0, (3, 1.2))))
    with canvas(10.0, 5.0, 2) as drawn:
        network, channels = drawn.axes
        dummies = [0, *np.unique(np.geomspace(8, 1000, size.points).astype(int)).tolist()]
        for sampling, look in zip((0.5, 0.7, 0.9), looks, strict=True):
            found = [_total(sampling, 200, each) for each in dummies]
            _pair(network, [each[0] for each in found], found, look, f"σ = {sampling:g}")
        network.set(xscale="log", xlabel="messages of all rounds, groups of 200")
        plain_ticks(network.xaxis, [500_000, 1_000_000, 2_000_000, 4_000_000])
        network.set_title("network load: more dummies", color=INK, fontsize=11)
        groups = np.unique(np.geomspace(20, 600, size.points).astype(int)).tolist()
        for sampling, look in zip((0.5, 0.7, 0.9), looks, strict=True):
            found = [_total(sampling, each, 50) for each in groups]
            at = [each + CLUSTERS for each in groups]
            _pair(channels, at, found, look, f"σ = {sampling:g}")
        channels.set(xscale="log", xlabel="channels of a scrambler, 50 dummies")
        plain_ticks(channels.xaxis, [30, 60, 100, 200, 400, 600])
        channels.set_title("individual load: larger groups", color=INK, fontsize=11)
        network.set(yscale="log", ylim=(0.3, 30), ylabel=f"ε of all {ROUNDS} rounds (δ = 10⁻⁴)")
        plain_ticks(network.yaxis, [0.3, 1.0, 3.0, 10.0, 30.0])
        channels.legend(frameon=False, labelcolor=INK, loc="upper right", fontsize=9)
        network.text(0.97, 0.97, f"bold: proven, with noise of ε_c = {_LOAD_RELEASE:g}\n"
                     "in the centroids of each round\nthin: the paper’s claim",
                     color=MUTED, fontsize=9, ha="right", va="top",
                     transform=network.transAxes)  # fmt: skip
        drawn.heading("k-means, 10,000 points in each round: privacy against load")
        return drawn.drawing()


def _pair(
    axes: Any, at: Sequence[float], found: Sequence[tuple[int, float, float]], look: Any, name: str
) -> None:
    colour, line = look
    axes.plot(at, [each[2] for each in found], color=colour, linestyle=line, linewidth=0.9)
    axes.plot(at, [each[1] for each in found], color=colour, linestyle=line, linewidth=2.4,
              label=name)  # fmt: skip


EXPERIMENT = Experiment(
    MODULE,
    {
        "scrambled_kmeans_load.svg": load_figure,
        "scrambled_kmeans.md": results,
        "scrambled_kmeans.svg": rand_figure,
    },
    FULL,
    QUICK,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
