"""How sensitive reference orders are: the paper's search and bound, and the order that is kept.

    INCROWD_DATA=DIRECTORY python -m experiments.order_sensitivity [--quick --out DIRECTORY]

At a given α, reports move by about 1.4·Δ/α ranks on average: half the sensitivity Δ keeps them
twice as close to where they belong. ``table`` is made for any crowds; seconds are of this machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from experiments import order_data
from experiments.common import Experiment, Table
from experiments.order_data import Dataset
from incrowd import graphs
from incrowd.protocols.order_shuffle.groupings import Grouping, from_graph, from_points
from incrowd.protocols.order_shuffle.orders.reference import reference_order
from incrowd.protocols.order_shuffle.theorems.sensitivity import kendall, paper_sensitivity, widths
from incrowd.report.format import count, plain

__all__ = ["FULL", "QUICK", "Measured", "Settings", "grouping_of", "measured", "table"]

_SEED = 1


@dataclass(frozen=True)
class Settings:
    """A crowd, and the radii of groups that are measured on it."""

    load: Callable[[], Dataset]
    unit: str
    radii: Sequence[float]


def square(n: int) -> Dataset:
    """Points that are even in the unit square."""
    return _even("square", n, 2)


def line(n: int) -> Dataset:
    """Points that are even on a line."""
    return _even("line", n, 1)


def _even(name: str, n: int, dimensions: int) -> Dataset:
    points = np.random.default_rng(_SEED).random((n, dimensions))
    return Dataset(name, points, "euclidean", None, np.zeros(n, np.int64), 2, None)


def scale_free(n: int) -> Dataset:
    """A graph of Barabási and Albert in which everybody comes with two friends."""
    graph = graphs.barabasi_albert(n, 2, np.random.default_rng(_SEED))
    return Dataset("scale-free graph", None, "", graph, np.zeros(n, np.int64), 2, None)


FULL = (
    Settings(lambda: line(2000), "", (0.01,)),
    Settings(lambda: square(2000), "", (0.05,)),
    Settings(lambda: scale_free(2000), "step", (1,)),
    Settings(order_data.adult, "years", (0, 1, 5, 10)),
    Settings(order_data.twitch, "step", (1,)),
    Settings(order_data.california, "km", (1, 5, 20, 50)),
    Settings(lambda: order_data.crescents(20_000, 1), "", (0.01, 0.03, 0.1, 0.3)),
)
QUICK = (
    Settings(lambda: line(300), "", (0.02,)),
    Settings(lambda: scale_free(200), "step", (1,)),
    Settings(lambda: order_data.crescents(400, 1), "", (0.05,)),
)


def grouping_of(data: Dataset, radius: float) -> Grouping:
    """Everybody within a radius, or so many steps in the graph."""
    if data.graph is not None:
        return from_graph(data.graph, int(radius))
    if data.points is None:
        raise TypeError("a crowd has points or a graph")
    return from_points(data.points, radius, data.metric)


@dataclass(frozen=True)
class Measured:
    """Two orders of one grouping."""

    searched_width: int
    """Of the paper's breadth-first search."""
    kept_width: int
    searched: int
    """The exact sensitivity of that order."""
    kept: int
    floor: int
    """What no order can beat: the largest group with nobody in between."""
    method: str
    seconds: float

    @property
    def gain(self) -> float:
        """How many times less than the paper's bound of its own order."""
        return paper_sensitivity(self.searched_width) / self.kept if self.kept else np.inf


def measured(grouping: Grouping) -> Measured:
    """The order of the paper, and the one that is kept here."""
    searched = reference_order(grouping, "bfs")
    start = time.process_time()
    kept = reference_order(grouping)
    seconds = time.process_time() - start
    return Measured(
        searched_width=int(widths(grouping, searched.ranks).max()),
        kept_width=int(widths(grouping, kept.ranks).max()),
        searched=int(kendall(grouping, searched.ranks).max()),
        kept=int(kendall(grouping, kept.ranks).max()),
        floor=grouping.largest * (grouping.largest - 1) // 2,
        method=kept.method,
        seconds=seconds,
    )


def table(crowds: Sequence[Settings]) -> Table:
    """One row for each crowd and radius."""
    reference_order(grouping_of(square(50), 0.2))  # Compiles what is measured.
    rows = []
    for settings in crowds:
        data = settings.load()
        for radius in settings.radii:
            grouping = grouping_of(data, radius)
            found = measured(grouping)
            rows.append(
                [
                    data.name,
                    count(grouping.n),
                    f"{radius:g} {settings.unit}".strip(),
                    count(grouping.count),
                    count(grouping.largest),
                    count(paper_sensitivity(found.searched_width)),
                    count(paper_sensitivity(found.kept_width)),
                    count(found.searched),
                    count(found.kept),
                    count(found.floor),
                    count(found.kept_width),
                    found.method,
                    plain(found.gain, 3) if found.kept else "–",
                    f"{found.seconds:.1f}",
                ]
            )
    return Table(
        "How sensitive reference orders are",
        "For reports of any number of values; with two values about half of the exact ones. Paper: "
        "ω(ω + 1)/2 by the width ω of an order, first that of its breadth-first search from the "
        "largest group, then that of the order kept here. Exact: the sensitivity itself, of the "
        "same two orders. Floor: that of the largest group if nobody were in between, which no "
        "order can beat. Gain: the paper’s bound of its own order, divided by what is used here. A "
        "refined order trades width for sensitivity. Seconds: of one processor, to find the order.",
        (
            "crowd", "people", "radius", "groups", "largest", "paper, its order", "paper, ours",
            "exact, its order", "exact, ours", "floor", "width", "order kept", "gain", "seconds",
        ),
        rows,
    )  # fmt: skip


EXPERIMENT = Experiment(
    "experiments.order_sensitivity", {"order_sensitivity.md": table}, FULL, QUICK
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
