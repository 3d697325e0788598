"""The figures of ``experiments.scrambled_query`` on whole queries: the paper's 8a to 8d, and 9.

All at its settings: 20 compute nodes for each grouping set, δ = 10⁻⁴ for the whole query, and as
many people that 10,000 tuples arrive on average, unless told otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.common import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    Drawing,
    canvas,
    plain_ticks,
)
from experiments.scrambled_figures import DELTA, TARGETS
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query.cost import Load
from incrowd.randomizers import Redirect

__all__ = [
    "TUPLES",
    "Tradeoff",
    "consents_figure",
    "load_figure",
    "people_for",
    "sets_figure",
    "tradeoff",
]

TUPLES = 10_000
LINES = ((BLUE, "solid"), (ORANGE, (0, (5, 2))), (GREEN, (0, (3, 1.2))), (PURPLE, (0, (1, 1))))


@dataclass(frozen=True)
class Tradeoff:
    """One setting: what it guarantees and what it costs."""

    people: int
    epsilon: float
    load: Load

    @property
    def added(self) -> int:
        """Messages beyond those of the same tuples without protection."""
        return self.load.messages - TUPLES * self.sets - self.load.compute_nodes

    @property
    def sets(self) -> int:
        """Grouping sets."""
        return self.load.compute_nodes // TARGETS


def people_for(sampling: float, tuples: int = TUPLES) -> int:
    """How many people it takes, so that so many tuples arrive on average."""
    return math.ceil(tuples / Redirect(targets=TARGETS, redirect_probability=sampling).kept)


@lru_cache(maxsize=2048)
def tradeoff(
    sampling: float, sources: int, dummies: int, sets: int = 1, people: int | None = None
) -> Tradeoff:
    """The whole query with so many grouping sets."""
    crowd = people_for(sampling) if people is None else people
    query = ScrambledQuery(
        n=crowd, targets=TARGETS, redirect_probability=sampling, sources=sources, dummies=dummies,
        grouping_sets=sets,
    )  # fmt: skip
    return Tradeoff(crowd, query.guarantee("network").epsilon(DELTA), Load.of(query))


def _drawn(
    axes: Any, at: Sequence[float], found: Sequence[Tradeoff], look: Any, label: str
) -> None:
    colour, line = look
    height = [each.epsilon for each in found]
    axes.plot(at, height, color=colour, linestyle=line, linewidth=2.0, label=label)


def _counts(points: int, most: int) -> list[int]:
    steps = np.geomspace(8, most, points).astype(int)
    return [0, *(int(each) for each in np.unique(steps))]


def load_figure(points: int) -> Drawing:
    """The paper's Figures 8a and 8b: what dummies and larger groups buy."""
    with canvas(10.0, 5.0, 2) as drawn:
        network, channels = drawn.axes
        settings = ((0.0, 100), (0.1, 100), (0.1, 500), (0.3, 100))
        for (sampling, sources), look in zip(settings, LINES, strict=True):
            found = [tradeoff(sampling, sources, d) for d in _counts(points, 1000)]
            _drawn(network, [each.added for each in found], found, look,
                   f"σ = {sampling:g}, groups of {sources}")  # fmt: skip
        network.set(xscale="log", xlim=(9e3, 1.5e5), xlabel="messages added to 10,000")
        plain_ticks(network.xaxis, [10_000, 20_000, 50_000, 100_000])
        network.set_title("network load: more dummies", color=INK, fontsize=11)
        groups = np.unique(np.geomspace(10, 600, points).astype(int))
        for (sampling, dummies), look in zip(
            ((0.0, 200), (0.1, 50), (0.1, 200), (0.3, 50)), LINES, strict=True
        ):
            found = [tradeoff(sampling, int(n), dummies) for n in groups]
            _drawn(channels, [each.load.channels_per_scrambler for each in found], found, look,
                   f"σ = {sampling:g}, {dummies} dummies")  # fmt: skip
        channels.set(xscale="log", xlabel="channels of a scrambler")
        plain_ticks(channels.xaxis, [30, 60, 100, 200, 400, 620])
        channels.set_title("individual load: larger groups", color=INK, fontsize=11)
        _epsilon_axis(network, (0.3, 10))
        for axes in drawn.axes:
            axes.legend(frameon=False, labelcolor=INK, loc="lower left", fontsize=9)
        drawn.heading("One grouping set, 10,000 tuples: privacy against load")
        return drawn.drawing()


def consents_figure(points: int) -> Drawing:
    """The paper's Figures 8c and 8d: what lies buy, and what they lose."""
    with canvas(10.0, 5.0, 2) as drawn:
        asked, lost = drawn.axes
        shares = np.linspace(0.0, 0.5, points)
        settings = ((30_000, 100), (30_000, 500), (60_000, 100), (60_000, 500))
        for (added, sources), look in zip(settings, LINES, strict=True):
            at = [
                (float(s), dummies)
                for s in shares
                if (dummies := _dummies(float(s), sources, added)) >= 0
            ]
            found = [tradeoff(sampling, sources, dummies) for sampling, dummies in at]
            _drawn(asked, [each.people - TUPLES for each in found], found, look,
                   f"{added:,} messages more, groups of {sources}")  # fmt: skip
        asked.set(xlim=(-200, 10_200), xlabel="people asked beyond 10,000")
        plain_ticks(asked.xaxis, [0, 2500, 5000, 7500, 10_000])
        asked.set_title("consents: more lies, as many tuples", color=INK, fontsize=11)
        wide = np.linspace(0.0, 0.99, points)
        for dummies, look in zip((0, 50, 200, 1000), LINES, strict=True):
            found = [tradeoff(float(s), 200, dummies, 1, TUPLES) for s in wide]
            arrived = [sum(each.load.tuples or ()) for each in found]
            _drawn(lost, arrived, found, look, f"{dummies:,} dummies")
        lost.set(xlim=(TUPLES + 100, 0), xlabel="tuples that arrive of 10,000")
        plain_ticks(lost.xaxis, [10_000, 7500, 5000, 2500, 0])
        lost.set_title("utility: more lies, groups of 200", color=INK, fontsize=11)
        _epsilon_axis(asked, (0.03, 10))
        for axes in drawn.axes:
            axes.legend(frameon=False, labelcolor=INK, loc="lower left", fontsize=9)
        drawn.heading("One grouping set: privacy against people asked and tuples lost")
        return drawn.drawing()


def _dummies(sampling: float, sources: int, added: int) -> int:
    """Dummies for which so many messages are added; negative where groups alone take more."""
    people = people_for(sampling)
    groups = -(-people // sources)
    return (added + TUPLES - people) // groups - sources


def sets_figure(points: int, most: int) -> Drawing:
    """The paper's Figure 9: more grouping sets, one after the other."""
    with canvas(9.4, 5.0, 2) as drawn:
        for axes, (sampling, sources) in zip(drawn.axes, ((0.1, 100), (0.1, 500)), strict=True):
            for sets, look in zip(range(1, most + 1), LINES, strict=False):
                found = [tradeoff(sampling, sources, d, sets) for d in _counts(points, 1000)]
                name = f"{sets} grouping set{'s' if sets > 1 else ''}"
                _drawn(axes, [each.added for each in found], found, look, name)
            axes.set(xscale="log", xlim=(9e3, 7e5), xlabel="messages added, all sets")
            plain_ticks(axes.xaxis, [10_000, 30_000, 100_000, 300_000])
            axes.set_title(f"σ = {sampling:g}, groups of {sources}", color=INK, fontsize=11)
        first = drawn.axes[0]
        _epsilon_axis(first, (0.3, 30))
        first.legend(frameon=False, labelcolor=INK, loc="lower left", fontsize=9)
        drawn.heading("Everyone answers all grouping sets: privacy against network load")
        return drawn.drawing()


def _epsilon_axis(axes: Any, height: tuple[float, float]) -> None:
    axes.set(yscale="log", ylim=height, ylabel="ε of the whole query (δ = 10⁻⁴)")
    ticks = [0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0]
    plain_ticks(axes.yaxis, [each for each in ticks if height[0] <= each <= height[1]])
    axes.axhline(1.0, color=MUTED, linewidth=1.0, linestyle=(0, (1, 1.6)))
