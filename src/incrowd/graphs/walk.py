"""Many independent random walkers, one round at a time.

In each round a walker stays with probability ``laziness`` and otherwise moves to a uniform
neighbour: one row of :meth:`Graph.transition`. All walkers move at once, so a round costs a few
passes over an array of their positions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import GraphInvalid, InvalidParameter
from incrowd.graphs.graph import Graph

__all__ = ["walk"]


def walk(
    graph: Graph,
    starts: ArrayLike,
    rounds: int,
    rng: np.random.Generator,
    laziness: float = 0.0,
) -> NDArray[np.int32]:
    """Where walkers that began at ``starts`` are after ``rounds`` rounds.

    A neighbour is picked as ⌊U·deg⌋ with U of 53 bits, so its chance is off by less than 2⁻⁵².
    """
    rounds = checks.integer(rounds, "rounds", 0)
    stay = checks.probability(laziness, "laziness")
    begun = np.asarray(starts)
    if begun.ndim != 1 or (begun.size and begun.dtype.kind not in "iu"):
        raise InvalidParameter("starts must be a one-dimensional array of vertices")
    if begun.size and not (begun.min() >= 0 and begun.max() < graph.n):
        raise InvalidParameter(f"starts must be vertices from 0 to {graph.n - 1}")
    at = begun.astype(np.int32)
    stuck = graph.degrees[at] == 0
    if stuck.any():
        raise GraphInvalid(
            f"vertex {at[stuck.argmax()]} is isolated, so no walk can start there:"
            " keep the largest component (Graph.largest_component())"
        )
    for _ in range(rounds):
        entry = (rng.random(at.size) * graph.degrees[at]).astype(np.int64)
        moved = graph.indices[graph.indptr[at] + entry]
        at = moved if stay == 0 else np.where(rng.random(at.size) < stay, at, moved)
    return at
