"""The tables of the theory pages on public walks and on gossip.

Run ``python -m experiments.token_theory`` (``--quick`` for a small part, into another directory).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from experiments.common import Experiment, Table
from experiments.token_gossip import Gossip
from experiments.token_learning import least, paper_sigma
from experiments.token_losses import first_hit
from incrowd.graphs import Graph, from_edges, line, ring
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.guarantee import Profile
from incrowd.protocols.token_walk.theorems.amplification_by_iteration import IteratedProfile
from incrowd.protocols.token_walk.theorems.graph_walk import PairOnGraphProfile, metropolis
from incrowd.protocols.token_walk.theorems.hidden_path import HiddenWalkProfile
from incrowd.report.format import plain, small, up

DELTA: Final = 1e-6
SHIFT: Final = 0.5
"""How many standard deviations contributions are apart in the table by distance."""


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    people: int
    steps: int
    budgets: Sequence[float]
    caps: Sequence[int]
    ring: int
    distances: Sequence[int]
    cap: int


FULL = Size(2000, 20_000, (1.0, 10.0), (10, 20, 30), 30, (1, 2, 3, 5, 10, 15), 10)
QUICK = Size(40, 400, (1.0,), (4,), 7, (1, 3), 2)


def least_noise(profile: Callable[[float], Profile], epsilon: float) -> float:
    """The least σ for gradients of length 1 that meets ε, to four digits."""
    return least(lambda sigma: profile(2 / sigma).epsilon(DELTA) <= epsilon)


def _alone(cap: int, mu: float) -> Profile:
    """Every one of the contributions, seen with its owner."""
    return GaussianProfile(mu * cap**0.5)


def noise_table(size: Size) -> Table:
    """How much noise the steps of a model need, by what is known of the path."""
    n = size.people
    rows = []
    for epsilon in size.budgets:
        hidden = least_noise(
            lambda mu: HiddenWalkProfile(GaussianProfile(mu), n, size.steps), epsilon
        )
        for cap in size.caps:
            found = [
                paper_sigma(n, cap, epsilon),
                least_noise(partial(_alone, cap), epsilon),
                least_noise(partial(IteratedProfile, n=n, cap=cap), epsilon),
                hidden,
            ]
            rows.append([plain(epsilon), str(cap), *(up(each) for each in found)])
    return Table(
        "How much noise a step needs",
        f"The least σ for gradients of length at most 1 that keeps ε at δ = {small(DELTA)} among "
        f"{n:,} people. Cap: contributions of one person. Printed: by the paper’s Lemma 1, which "
        "does not hold. Alone: every contribution is seen with its owner. Public: everyone knows "
        f"the path. Hidden: nobody does; {size.steps:,} steps without a cap.",
        ("ε", "cap", "printed", "alone", "public", "hidden"),
        rows,
    )


def distance_table(size: Size) -> Table:
    """What people on a ring that is a graph learn of each other, by their distance."""
    weights = metropolis(ring(size.ring))
    hits = first_hit(weights, 0)
    pairs = [
        PairOnGraphProfile(weights, (distance, 0), SHIFT, size.cap).epsilon(DELTA)
        for distance in size.distances
    ]
    alone = GaussianProfile(SHIFT * size.cap**0.5).epsilon(DELTA)
    return Table(
        "Distance on a ring",
        f"A token walks at random on a ring of {size.ring} people, and everyone knows where it is. "
        f"One person contributes {size.cap} times, values that are {SHIFT:g} standard deviations "
        f"apart. First hit: E[1/τ], no guarantee. ε: proven for that pair, at δ = {small(DELTA)}; "
        f"seen alone, {size.cap} contributions have ε = {up(alone)}.",
        ("distance", "first hit", "ε"),
        [
            [str(distance), plain(float(hits[distance]), 3), up(epsilon)]
            for distance, epsilon in zip(size.distances, pairs, strict=True)
        ],
    )


def hypercube(dimensions: int) -> Graph:
    """Corners are neighbours where they differ in one coordinate."""
    corner, bit = np.divmod(np.arange(dimensions * 2**dimensions), dimensions)
    other = corner ^ (1 << bit)
    return from_edges(corner[corner < other], other[corner < other])


def _added_up(weights: Any, u: int, v: int, rounds: int) -> float:
    """What single messages give away, added up, as if they did not share their noise."""
    matrix = weights.toarray()
    power, total = np.eye(len(matrix)), 0.0
    for _ in range(rounds):
        for w in np.flatnonzero(matrix[v]):
            if w != v:
                total += float(power[u, w] ** 2 / (power[w] @ power[w]))
        power = matrix @ power
    return total


def gossip_table(size: Size) -> Table:
    """Messages that share their noise."""
    del size
    cases = (
        ("path of 3, its ends", line(3), 0, 2, 2),
        ("ring of 8, three apart", ring(8), 0, 3, 3),
        ("hypercube of 16, opposite corners", hypercube(4), 0, 15, 4),
    )
    rows = []
    for name, graph, u, v, rounds in cases:
        weights = metropolis(graph)
        exact = float(Gossip(weights, rounds, 1.0).losses()[u, v])
        rows.append([name, str(rounds), plain(_added_up(weights, u, v, rounds), 3), up(exact)])
    return Table(
        "Gossip: messages that share their noise",
        "The squared shift, in units of (Δ/σ)², that one person learns of another: as the sum of "
        "what each message gives away, and in truth. 1 is the noisy value itself.",
        ("graph", "rounds", "added up", "truth"),
        rows,
    )


EXPERIMENT = Experiment(
    "experiments.token_theory",
    {
        "token_noise.md": noise_table,
        "token_distance.md": distance_table,
        "token_gossip.md": gossip_table,
    },
    FULL,
    QUICK,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
