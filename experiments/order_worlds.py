"""The four crowds of the experiments on order, and the ways to release what they report.

==========  ==========================  =====================  ====================================
crowd       place, groups               value                  the attacker also knows
==========  ==========================  =====================  ====================================
Adult       age, within r years         income above 50k       marital status
California  block group, within r km    income, five brackets  number of households
Twitch      friends in a public graph   explicit language      nothing
crescents   point in the plane, r       one of eight labels    nothing
==========  ==========================  =====================  ====================================

California stands for the paper's hospital records, which cannot be had. On Twitch the paper does
not take the groups of friends, but prescribes the width: any ω + 1 people in a row of the order
that a breadth-first search finds. So it is done here, with that order for both ways.

Ways to release: *local* (as handed in), *ours* (the order that is kept, its exact sensitivity for
so many values), *paper* (breadth-first order, sensitivity ω(ω + 1)/2), *uniform* (all shuffled).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments import order_data
from experiments.order_attacks import (
    VOTERS,
    most_similar,
    nearest,
    nearest_in_graph,
)
from experiments.order_data import Dataset
from experiments.order_learnability import embedding, local_truth
from incrowd.graphs.graph import Graph, connected_part
from incrowd.protocols.order_shuffle.groupings import Grouping, from_graph, from_lists, from_points
from incrowd.protocols.order_shuffle.orders.reference import ReferenceOrder, reference_order
from incrowd.protocols.order_shuffle.samplers.kendall import conjugated, kendall_permutation
from incrowd.protocols.order_shuffle.theorems.alpha import theta_for
from incrowd.protocols.order_shuffle.theorems.sensitivity import kendall, paper_sensitivity, widths
from incrowd.randomness import Seeds

__all__ = [
    "ADULT",
    "CALIFORNIA",
    "CRESCENTS",
    "SEEDS",
    "SETTINGS",
    "TWITCH",
    "Crowd",
    "Sensitivities",
    "Setting",
    "Way",
    "crowd_of",
    "grouping_of",
    "neighbours_of",
    "sensitivities",
    "sources",
    "truth_of",
]

Way = Literal["local", "ours", "paper", "uniform"]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SEEDS = Seeds(2021)


@dataclass(frozen=True)
class Setting:
    """One crowd, and what is varied on it."""

    name: str
    unit: str
    radii: tuple[float, ...]
    """Of groups; on Twitch widths of the order."""
    small: float
    """A radius of groups so small that α = 4 leaves some order."""
    fixed: float
    """The radius where α varies."""
    reach: float
    """r*: of what the attacker asks and the analyst wants to know."""
    people: int | None = None
    """A part of the crowd; none for all."""

    def words(self, radius: float) -> str:
        """A radius, as it is written."""
        if self.unit == "ω":
            return f"ω = {radius:g}"
        unit = self.unit.rstrip("s") if radius == 1 else self.unit
        return f"r = {radius:g} {unit}".rstrip()


ADULT = Setting("Adult", "years", (0, 1, 2, 5, 10, 20), 0, 1, 5)
CALIFORNIA = Setting("California", "km", (0, 0.5, 1, 1.5, 2, 5, 20), 1, 5, 5)
TWITCH = Setting("Twitch", "ω", (1, 3, 10, 30, 100, 300, 1000), 10, 100, 1)
CRESCENTS = Setting(
    "crescents", "", (0.002, 0.003, 0.004, 0.005, 0.007, 0.01, 0.02), 0.005, 0.01, 0.014
)
SETTINGS = (ADULT, CALIFORNIA, TWITCH, CRESCENTS)


@dataclass(frozen=True, eq=False)
class Crowd:
    """Who takes part: places, secret values, and what a neighbour-asking attacker knows."""

    places: FloatArray | None
    metric: str
    graph: Graph | None
    values: IntArray
    categories: int
    privileged: NDArray[Any] | None
    features: FloatArray
    """Of the place, for models."""

    @property
    def n(self) -> int:
        """How many people there are."""
        return self.values.size


_LOADERS: dict[str, Callable[[], Dataset]] = {
    "Adult": order_data.adult,
    "California": order_data.california,
    "Twitch": order_data.twitch,
    "crescents": lambda: order_data.crescents(20_000, 1),
}


@lru_cache(maxsize=8)
def crowd_of(setting: Setting) -> Crowd:
    """Everybody, or a part that is drawn once and for all."""
    data = _LOADERS[setting.name]()
    n = data.values.size
    if setting.people is None:
        part = np.arange(n)
    elif data.graph is not None:
        part = connected_part(data.graph, setting.people)
    else:
        part = np.sort(SEEDS.generator("part").choice(n, setting.people, replace=False))
    graph = None if data.graph is None else data.graph.subgraph(part)
    places = None if data.points is None else np.asarray(data.points, float)[part]
    return Crowd(
        places=places,
        metric=data.metric,
        graph=graph,
        values=np.asarray(data.values, np.int64)[part],
        categories=data.categories,
        privileged=_known(data, part),
        features=places if places is not None else embedding(_required(graph)),
    )


def _known(data: Dataset, part: NDArray[Any]) -> NDArray[Any] | None:
    if data.privileged is None:
        return None
    known: NDArray[Any] = np.asarray(data.privileged)[part]
    # The codes of marital status are names, not numbers: two are equal or they are not.
    return known.astype(str) if data.name == "Adult" else known


def _required(graph: Graph | None) -> Graph:
    if graph is None:
        raise TypeError("a crowd has places or a graph")
    return graph


@lru_cache(maxsize=8)
def neighbours_of(setting: Setting) -> IntArray:
    """Whom the attacker asks about each person: 25 others."""
    crowd, rng = crowd_of(setting), SEEDS.generator("neighbours")
    if crowd.places is None:
        return nearest_in_graph(_required(crowd.graph), VOTERS, rng)
    if crowd.privileged is None:
        return nearest(crowd.places, VOTERS, rng, metric=crowd.metric)
    return most_similar(
        crowd.places, setting.reach, crowd.privileged, VOTERS, rng, metric=crowd.metric
    )


@lru_cache(maxsize=8)
def truth_of(setting: Setting) -> FloatArray:
    """The distribution of values within r* of everybody."""
    crowd = crowd_of(setting)
    return local_truth(grouping_of(setting, setting.reach), crowd.values, crowd.categories)


@lru_cache(maxsize=4)
def grouping_of(setting: Setting, radius: float) -> Grouping:
    """Everybody within this radius, or so many steps in the graph."""
    crowd = crowd_of(setting)
    if crowd.places is None:
        return from_graph(_required(crowd.graph), int(radius))
    return from_points(crowd.places, radius, crowd.metric)


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """Two orders of one grouping, and how sensitive each is said to be."""

    kept: ReferenceOrder
    searched: ReferenceOrder
    """By breadth-first search, as in the paper."""
    largest: int
    """How many people the largest group has."""
    ours: int
    """Exact, in the order kept, for so many values."""
    exact: int
    """Exact, in the order kept, for any values."""
    exact_searched: int
    """Exact, in the order of the search, for any values."""
    paper: int
    """By the width in the order of the search."""


@lru_cache(maxsize=64)
def sensitivities(setting: Setting, radius: float) -> Sensitivities:
    """Of the groups of this radius (on Twitch: of this width)."""
    crowd = crowd_of(setting)
    if crowd.places is None:
        size = min(int(radius) + 1, crowd.n)
        row, order = from_lists([list(range(size))]), _searched(setting, 1)
        ours, exact = (int(kendall(row, np.arange(size), v)[0]) for v in (crowd.categories, None))
        return Sensitivities(order, order, size, ours, exact, exact, paper_sensitivity(size - 1))
    grouping = grouping_of(setting, radius)
    kept = reference_order(grouping, values=crowd.categories)
    searched = _searched(setting, radius)
    return Sensitivities(
        kept=kept,
        searched=searched,
        largest=grouping.largest,
        ours=int(kendall(grouping, kept.ranks, crowd.categories).max()),
        exact=int(kendall(grouping, kept.ranks).max()),
        exact_searched=int(kendall(grouping, searched.ranks).max()),
        paper=paper_sensitivity(int(widths(grouping, searched.ranks).max())),
    )


@lru_cache(maxsize=64)
def _searched(setting: Setting, radius: float) -> ReferenceOrder:
    return reference_order(grouping_of(setting, radius), "bfs")


def sources(setting: Setting, way: Way, radius: float, alpha: float, trial: int) -> IntArray:
    """Whose report each place gets in this trial; the radius matters to ours and the paper's."""
    n = crowd_of(setting).n
    if way == "local":
        return np.arange(n)
    rng = SEEDS.generator("order", trial)
    if way == "uniform":
        return rng.permutation(n)
    found = sensitivities(setting, radius)
    order, sensitivity = (
        (found.kept, found.ours) if way == "ours" else (found.searched, found.paper)
    )
    if not sensitivity:
        return np.arange(n)
    return conjugated(order.people, kendall_permutation(n, theta_for(alpha, sensitivity), rng))
