"""A private mean of vectors over a graph: error against central ε (Figure 9 of the paper).

The paper's set-up: unit vectors of 200 dimensions, of which one half points in nearly the same
direction as the other but is less noisy; PrivUnit; the Twitch graph. Reports really are drawn, walk
and are handed in; the error is the squared distance of the estimate from the true mean, averaged
over seeds. The paper lets a dummy bias the estimate; the library subtracts what dummies are
expected to add, at the price of a larger variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.network_bounds import DELTA, all_printed
from experiments.paper_network_shuffle import paper_single, paper_stationary_collision
from incrowd.graphs import Graph
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle.simulate import Handing
from incrowd.protocols.network_shuffle.theorems.mixing import Mixing
from incrowd.randomizers import PrivUnit
from incrowd.randomness import Seeds
from incrowd.tasks import Vector

__all__ = ["DIMENSION", "Point", "trade_off", "vectors"]

DIMENSION = 200


@dataclass(frozen=True)
class Point:
    """One ε0: what is proven, what is printed, and the error."""

    mode: Handing
    local: float
    epsilon: float
    printed: float
    error: float


def vectors(n: int, dimension: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Half of the people near the diagonal with much noise, half with little, all of length 1."""
    centre = np.where(np.arange(n) < n // 2, 1.0, 10.0)[:, None]
    drawn = centre + rng.standard_normal((n, dimension))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


def trade_off(
    graph: Graph, mixing: Mixing, irregularity: float, locals_: Sequence[float], seeds: int,
    dimension: int = DIMENSION,
) -> list[Point]:  # fmt: skip
    """Each ε0 in both modes; ``mixing`` says how well the walks of so many rounds have mixed."""
    values = vectors(graph.n, dimension, np.random.default_rng(7))
    truth = values.mean(axis=0)
    found = []
    modes: tuple[Handing, ...] = ("all", "single")
    for mode in modes:
        for local in locals_:
            randomizer = PrivUnit(epsilon=local, dimension=dimension)
            protocol = NetworkShuffle(randomizer, graph=graph, rounds=mixing.rounds, hand_in=mode)
            task = Vector(dimension=dimension)
            errors = []
            for seed in range(seeds):
                collected = protocol.collect(values, Seeds(seed))
                estimate = task.estimate(collected, randomizer).value
                errors.append(float(np.sum((estimate - truth) ** 2)))
            epsilon = protocol._profile(mixing).epsilon(DELTA)
            printed = (
                all_printed(local, graph.n, irregularity)
                if mode == "all"
                else paper_single(local, paper_stationary_collision(graph.n, irregularity), DELTA)
            )
            found.append(Point(mode, local, epsilon, printed, float(np.mean(errors))))
    return found
