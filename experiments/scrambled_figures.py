"""The figures of ``experiments.scrambled_query`` on one scrambler: the paper's 3, 5, 6 and 7.

What is proven is a bold line. What the paper prints and does not hold is dashed and orange. The
privacy of messages that go out without any scrambler is green.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from experiments.paper_scrambled_query import (
    paper_bennett_epsilon,
    paper_theorem_3,
)
from incrowd.protocols.scrambled_query.bounds import BENNETT, HOEFFDING
from incrowd.protocols.scrambled_query.theorems.capped import capped_epsilon
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.protocols.scrambled_query.theorems.flooding import flooding_epsilon
from incrowd.randomizers import Redirect

__all__ = [
    "DELTA",
    "TARGETS",
    "Bounds",
    "Histogram",
    "bounds",
    "bounds_figure",
    "capped_figure",
    "histogram_figure",
    "histogram_losses",
    "local_figure",
]

TARGETS, DELTA = 20, 1e-4
"""As in the paper's Table I."""

OURS: dict[str, Any] = {"color": BLUE, "linewidth": 2.6}
PRINTED: dict[str, Any] = {"color": ORANGE, "linewidth": 1.6, "linestyle": (0, (5, 2))}
LOCAL: dict[str, Any] = {"color": GREEN, "linewidth": 2.0, "linestyle": (0, (3, 1.2))}
OLDER: dict[str, Any] = {"color": PURPLE, "linewidth": 1.5, "linestyle": (0, (5, 1, 1, 1))}
ALONE: dict[str, Any] = {"color": MUTED, "linewidth": 1.4, "linestyle": (0, (1, 1.6))}


# Lies and dummies of one's own (Figure 3).


def local_figure(targets: Sequence[int], samplings: Sequence[float]) -> Drawing:
    """The paper's Figure 3: everyone lies, and adds dummies of their own."""
    lines = ((BLUE, "solid"), (ORANGE, (0, (5, 2))), (GREEN, (0, (3, 1.2))), (PURPLE, (0, (1, 1))))
    with canvas(9.2, 4.6, 2) as drawn:
        left, right = drawn.axes
        share = np.linspace(0.005, 0.995, 199)
        for each, (colour, line) in zip(targets, lines, strict=False):
            left.plot(share, [flooding_epsilon(each, float(s), 0) for s in share], color=colour,
                      linestyle=line, linewidth=2.0, label=f"{each} compute nodes")  # fmt: skip
        for sampling, (colour, line) in zip(samplings, lines, strict=False):
            dummies = np.arange(TARGETS)
            right.plot(dummies, [flooding_epsilon(TARGETS, sampling, int(d)) for d in dummies],
                       color=colour, linestyle=line, linewidth=2.0, marker="o", markersize=3,
                       label=f"σ = {sampling:g}")  # fmt: skip
        for axes in drawn.axes:
            axes.axhline(math.log(3), **ALONE)
            axes.legend(frameon=False, labelcolor=INK, loc="upper right")
        left.text(0.01, math.log(3) + 0.1, "ln 3", color=MUTED)
        left.set(xlim=(0, 1), ylim=(0, 8), xlabel="σ: chance to lie", ylabel="ε")
        left.set_title("lies only", color=INK, fontsize=11)
        right.set(xlim=(-0.3, TARGETS - 0.7), xlabel="dummies that everyone adds")
        right.set_xticks([0, 5, 10, 15, 19])
        right.set_title(f"lies and dummies, {TARGETS} compute nodes", color=INK, fontsize=11)
        drawn.heading("Without scramblers: what one person’s messages reveal")
        return drawn.drawing()


# A scrambler with a cap (Figure 5).


def capped_figure(samplings: Sequence[float]) -> Drawing:
    """The paper's Figure 5, ours beside theirs: pure ε of a scrambler that caps its targets."""
    sources, dummies, low, high = 100, 50, samplings[0], samplings[-1]
    with canvas(10.6, 4.6, 3) as drawn:
        by_sampling, by_dummies, by_sources = drawn.axes
        share = np.linspace(0.02, 0.98, 49)
        equal = sources - 1
        _capped(by_sampling, share, [(TARGETS, float(s), sources, equal) for s in share])
        by_sampling.plot(share, [flooding_epsilon(TARGETS, float(s), 1) for s in share], **LOCAL)
        by_sampling.set(xlim=(0, 1), xlabel="σ: chance to lie")
        by_sampling.set_title(f"{sources} people, {equal} dummies", color=INK, fontsize=11)
        counts = np.unique(np.geomspace(1, sources - 1, 25).astype(int))
        for sampling in (low, high):
            _capped(by_dummies, counts, [(TARGETS, sampling, sources, int(d)) for d in counts])
            own = [flooding_epsilon(TARGETS, sampling, d) for d in (0, 1)]
            by_dummies.plot([0, sources], own, **LOCAL, marker="s", markersize=5)
            by_dummies.text(2, own[0] + 0.16, f"σ = {sampling:g}", color=MUTED, fontsize=9)
        by_dummies.set(xlim=(-4, sources + 4), xlabel="dummies in all")
        by_dummies.set_title(f"{sources} people", color=INK, fontsize=11)
        crowd = np.unique(np.geomspace(dummies + 1, 600, 25).astype(int))
        for sampling in (low, high):
            _capped(by_sources, crowd, [(TARGETS, sampling, int(n), dummies) for n in crowd])
            beside = flooding_epsilon(TARGETS, sampling, 1)
            by_sources.plot([dummies + 1, 600], [beside, beside], **LOCAL)
            by_sources.text(600, beside - 0.42, f"σ = {sampling:g}", color=MUTED, fontsize=9,
                            ha="right")  # fmt: skip
        by_sources.set(xlabel="people behind the scrambler")
        by_sources.set_title(f"{dummies} dummies", color=INK, fontsize=11)
        by_sampling.set(ylim=(0, 7), ylabel="pure ε (δ = 0)")
        for text, height, style in (
            ("capped scrambler, exact", 0.97, OURS),
            ("capped scrambler, as printed", 0.90, PRINTED),
            ("no scrambler, one dummy each", 0.83, LOCAL),
        ):
            by_sampling.text(0.97, height, text, color=style["color"], ha="right", va="top",
                             weight="bold" if style is OURS else "normal", fontsize=9,
                             transform=by_sampling.transAxes)  # fmt: skip
        drawn.heading("Under pure ε, a scrambler’s dummies do little: one dummy each does more")
        return drawn.drawing()


def _capped(axes: Any, at: Any, settings: Sequence[tuple[int, float, int, int]]) -> None:
    axes.plot(at, [paper_theorem_3(*each) for each in settings], **PRINTED)
    axes.plot(at, [capped_epsilon(*each) for each in settings], **OURS)


# What an observer sees, exactly (Figure 6).


@dataclass(frozen=True)
class Histogram:
    """The law of what an observer counts, of two neighbouring inputs."""

    losses: NDArray[np.float64]
    """|ln| of the ratio of chances of every outcome, from the largest down."""
    chances: NDArray[np.float64]
    """The mean of its two chances."""

    def beyond(self, loss: float) -> float:
        """The chance of an outcome with more loss than this."""
        return float(self.chances[self.losses > loss].sum())


HISTOGRAM = (4, 0.2, 20, 20)
"""Targets, sampling, sources and dummies of the paper's Figure 6."""
INPUTS = {"spread evenly": (5, 5, 5, 5), "uneven": (13, 4, 2, 1), "all elsewhere": (1, 0, 19, 0)}
"""People per target; then one of the first moves to the second."""


@lru_cache(maxsize=4)
def histogram_losses(true: tuple[int, ...]) -> Histogram:
    """By multiplying out everybody's law, over all histograms of n + d messages."""
    targets, sampling, sources, dummies = HISTOGRAM
    moved = (true[0] - 1, true[1] + 1, *true[2:])
    keep = Redirect(targets=targets, redirect_probability=sampling).kept
    lie = (1 - keep) / (targets - 1)
    most = sources + dummies

    def law(people: Sequence[int]) -> NDArray[np.float64]:
        # The last target has what the others have not.
        found = np.zeros((most + 1,) * (targets - 1))
        found[(0,) * (targets - 1)] = 1.0
        messages = [each for each, count in enumerate(people) for _ in range(count)]
        for each in [*messages, *[-1] * dummies]:
            chance = [1 / targets if each < 0 else keep if t == each else lie
                      for t in range(targets)]  # fmt: skip
            new = chance[-1] * found
            for axis in range(targets - 1):
                new += chance[axis] * np.roll(found, 1, axis)
            found = new
        return found

    first, second = law(true), law(moved)
    there = (first > 0) & (second > 0)
    losses = np.abs(np.log(first[there] / second[there]))
    order = np.argsort(losses)[::-1]
    return Histogram(losses[order], ((first + second) / 2)[there][order])


def histogram_figure() -> Drawing:
    """The paper's Figure 6 without any simulation: how rare the revealing outcomes are."""
    targets, sampling, sources, dummies = HISTOGRAM
    alone = Redirect(targets=targets, redirect_probability=sampling).epsilon
    proven = ScramblerProfile(*HISTOGRAM).epsilon(DELTA)
    with canvas(8.6, 4.8) as drawn:
        (axes,) = drawn.axes
        for (name, true), (colour, line) in zip(
            INPUTS.items(),
            ((BLUE, "solid"), (ORANGE, (0, (5, 2))), (PURPLE, (0, (1, 1)))),
            strict=True,
        ):
            found = histogram_losses(true)
            axes.step(found.losses, np.cumsum(found.chances), color=colour, linestyle=line,
                      linewidth=2.2, where="post", label=f"people {name}")  # fmt: skip
        axes.axvline(alone, **ALONE)
        axes.text(alone + 0.03, 1e-10, f"ε₀ = {alone:.2f}, pure:\nall messages\ngo to one",
                  color=MUTED, va="center", fontsize=9)  # fmt: skip
        axes.axvline(proven, color=GREEN, linewidth=1.6, linestyle=(0, (3, 1.2)))
        axes.text(proven - 0.04, 1e-10, f"ε = {proven:.2f},\nproven at δ = 10⁻⁴",
                  color=GREEN, va="center", ha="right", fontsize=10)  # fmt: skip
        axes.set(yscale="log", ylim=(1e-20, 3), xlim=(0, alone + 0.6))
        axes.set_yticks([1e-20, 1e-16, 1e-12, 1e-8, 1e-4, 1])
        axes.set_xlabel("privacy loss of what the observer counts")
        axes.set_ylabel("chance of that loss or more")
        axes.legend(frameon=False, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 0.14))
        axes.text(0.02, 0.05, f"{targets} compute nodes, σ = {sampling:g},\n{sources} people, "
                  f"{dummies} dummies", color=MUTED, fontsize=9,
                  transform=axes.transAxes)  # fmt: skip
        drawn.heading("The outcomes that reveal most hardly ever happen")
        return drawn.drawing()


# Bounds (Figure 7).


@dataclass(frozen=True)
class Bounds:
    """All that is known of one scrambler at δ = 10⁻⁴."""

    alone: float
    pure: float | None
    """Of a scrambler with a cap; none where no formula is known."""
    hoeffding: float | None
    bennett: float | None
    """As they must be; none where they say no more than is known of one message alone."""
    printed: float | None
    """The printed form of Bennett's inequality, which is no bound."""
    printed_delta: float | None
    """The proven δ at that ε."""
    exact: float


@lru_cache(maxsize=512)
def bounds(sampling: float, sources: int, dummies: int) -> Bounds:
    """At the paper's T and δ."""
    settings = (TARGETS, sampling, sources, dummies)
    profile = ScramblerProfile(*settings)
    printed = paper_bennett_epsilon(*settings, DELTA)
    capped = 0 < sampling < 1 and dummies < sources
    alone = Redirect(targets=TARGETS, redirect_probability=sampling).epsilon

    def below(found: float | None) -> float | None:
        return None if found is None or found >= alone else found

    return Bounds(
        alone=alone,
        pure=capped_epsilon(*settings) if capped else None,
        hoeffding=below(HOEFFDING.epsilon(*settings, DELTA)),
        bennett=below(BENNETT.epsilon(*settings, DELTA)),
        printed=printed,
        printed_delta=None if printed is None else profile.delta(printed),
        exact=profile.epsilon(DELTA),
    )


def bounds_figure(points: int) -> Drawing:
    """The paper's Figure 7: the guarantee against people, dummies and lies."""
    sampling, sources, dummies = 0.3, 100, 300
    with canvas(10.6, 5.0, 3) as drawn:
        by_sources, by_dummies, by_sampling = drawn.axes
        crowd = np.unique(np.geomspace(10, 600, points).astype(int))
        _lines(by_sources, crowd, [bounds(sampling, int(n), 50) for n in crowd])
        by_sources.set(xscale="log", xlabel="people behind the scrambler")
        plain_ticks(by_sources.xaxis, [10, 30, 100, 300, 600])
        by_sources.set_title(f"σ = {sampling:g}, 50 dummies", color=INK, fontsize=11)
        counts = np.unique(np.append(0, np.geomspace(5, 1000, points).astype(int)))
        _lines(by_dummies, counts, [bounds(sampling, sources, int(d)) for d in counts])
        by_dummies.set(xlabel="dummies")
        by_dummies.set_title(f"σ = {sampling:g}, {sources} people", color=INK, fontsize=11)
        share = np.linspace(0, 0.99, points)
        _lines(by_sampling, share, [bounds(float(s), sources, dummies) for s in share])
        by_sampling.set(xlabel="σ: chance to lie", xlim=(-0.02, 1.02))
        by_sampling.set_title(f"{sources} people, {dummies} dummies", color=INK, fontsize=11)
        by_sources.set(
            yscale="log", ylim=(0.03, 10), ylabel=f"ε ({TARGETS} compute nodes, δ = 10⁻⁴)"
        )
        plain_ticks(by_sources.yaxis, [0.03, 0.1, 0.3, 1.0, 3.0, 10.0])
        for text, height, style in (
            ("one message alone (ε₀)", 0.30, ALONE),
            ("pure, with a cap", 0.24, LOCAL),
            ("Hoeffding, Bennett", 0.18, OLDER),
            ("Bennett as printed: no bound", 0.12, PRINTED),
            ("proven, exact blanket", 0.06, OURS),
        ):
            by_sources.text(0.04, height, text, color=style["color"], fontsize=9,
                            weight="bold" if style is OURS else "normal",
                            transform=by_sources.transAxes)  # fmt: skip
        drawn.heading("What a scrambler guarantees, with more people, dummies and lies")
        return drawn.drawing()


def _lines(axes: Any, at: Any, found: Sequence[Bounds]) -> None:
    def line(name: str, style: dict[str, Any], **more: Any) -> None:
        values = [getattr(each, name) for each in found]
        axes.plot(at, [math.nan if each is None else each for each in values], **style, **more)

    line("alone", ALONE)
    line("pure", LOCAL)
    line("hoeffding", {**OLDER, "linestyle": (0, (1, 1))})
    line("bennett", OLDER)
    line("printed", PRINTED)
    line("exact", OURS)
