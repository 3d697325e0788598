"""The figures of ``experiments.network_shuffle``: what the paper prints beside what is proven.

Blue and bold is ours, orange and dashed the paper's, dotted the randomizer alone, where the paper
says nothing once its curve is above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
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
from experiments.network_bounds import (
    DELTA,
    all_ours,
    all_printed,
    single_ours,
    single_printed,
)
from experiments.network_graphs import Printed
from experiments.network_rounds import EPSILON, Curve
from experiments.paper_network_shuffle import paper_all_symmetric
from incrowd.graphs import Graph
from incrowd.graphs.propagate import Step
from incrowd.report.format import up

__all__ = ["Regular", "datasets", "regular", "single", "stationary", "symmetric_printed"]

Doubles = NDArray[np.float64]

OURS: dict[str, Any] = {"color": BLUE, "linewidth": 2.4}
SINGLE: dict[str, Any] = {"color": PURPLE, "linewidth": 2.4, "linestyle": (0, (3, 1.2))}
PRINTED: dict[str, Any] = {"color": ORANGE, "linewidth": 1.5, "linestyle": (0, (5, 2))}
ALONE: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "linestyle": (0, (1, 1.6))}
VERTICAL = "central ε (δ = 10⁻⁶)"


@dataclass(frozen=True, eq=False)
class Regular:
    """One regular graph: ours, person by person, and the paper's formula at rounds 1, 2 and on."""

    degree: int
    curve: Curve
    printed: Doubles


def symmetric_printed(graph: Graph, rounds: int) -> Doubles:
    """Theorem 5.4 for the walk of the first person, after each number of rounds."""
    step, law = Step(graph), np.zeros((graph.n, 1))
    law[0] = 1.0
    found = []
    for _ in range(rounds):
        law = step(law)
        reached = law[law > 0]
        ratio, collision = float(reached.max() / reached.min()), float(law[:, 0] @ law[:, 0])
        half = DELTA / 2
        found.append(paper_all_symmetric(EPSILON, graph.n, collision, ratio, half, half))
    return np.array(found)


def _against_eps0(
    axes: Any, local: Doubles, lines: Sequence[tuple[Callable[[float], float], dict[str, Any]]]
) -> list[Doubles]:
    drawn = []
    for epsilon_of, style in lines:
        values = np.array([epsilon_of(float(epsilon)) for epsilon in local])
        axes.plot(local, values, **style)
        drawn.append(values)
    return drawn


def datasets(all_of: Sequence[Printed], points: int) -> Drawing:
    """ε against ε0 on the graphs of the paper, after endless rounds."""
    local = np.linspace(0.1, 1.2, points)
    with canvas(10.4, 4.4, len(all_of)) as drawn:
        for axes, dataset in zip(drawn.axes, all_of, strict=True):
            n, gamma = dataset.n, dataset.irregularity
            _against_eps0(
                axes,
                local,
                [
                    (partial(all_printed, n=n, irregularity=gamma), PRINTED),
                    (partial(all_ours, n=n), OURS),
                ],
            )
            axes.plot(local, local, **ALONE)
            axes.set_title(dataset.title, color=INK, fontsize=11)
            axes.text(
                0.03, 0.965, f"n = {n:,}\nΓ = {gamma:g}", transform=axes.transAxes, color=MUTED,
                fontsize=9, va="top",
            )  # fmt: skip
            axes.set(yscale="log", xlim=(0.1, 1.2), ylim=(1.5e-4, 60))
            plain_ticks(axes.xaxis, [0.2, 0.6, 1.0])
            axes.set_xlabel("ε₀ of each report")
        first, last = drawn.axes[0], drawn.axes[-1]
        plain_ticks(first.yaxis, [0.001, 0.01, 0.1, 1.0, 10.0])
        first.set_ylabel(VERTICAL)
        first.text(1.18, 0.021, "proven", color=BLUE, weight="bold", ha="right", va="top")
        first.text(0.62, 1.45, "printed", color=ORANGE, ha="right")
        last.text(1.18, 1.45, "ε₀ alone", color=MUTED, ha="right")
        drawn.heading("After endless rounds: the size of the crowd decides, and Γ does not")
        return drawn.drawing()


def single(both: Sequence[Printed], points: int) -> Drawing:
    """All reports handed in, or a single one."""
    local = np.linspace(0.1, 2.0, points)
    with canvas(9.0, 4.7, len(both)) as drawn:
        for axes, dataset in zip(drawn.axes, both, strict=True):
            n, gamma = dataset.n, dataset.irregularity
            other = {**PRINTED, "linestyle": (0, (1.5, 1.5))}
            _against_eps0(
                axes,
                local,
                [
                    (partial(all_printed, n=n, irregularity=gamma), PRINTED),
                    (partial(single_printed, n=n, irregularity=gamma), other),
                    (partial(all_ours, n=n), OURS),
                    (partial(single_ours, n=n), SINGLE),
                ],
            )
            axes.plot(local, local, **ALONE)
            axes.set_title(f"{dataset.title}: {n:,} people", color=INK, fontsize=11)
            axes.set(yscale="log", xlim=(0.1, 2.0), ylim=(1.5e-4, 300))
            plain_ticks(axes.xaxis, [0.5, 1.0, 1.5, 2.0])
            axes.set_xlabel("ε₀ of each report")
        left, right = drawn.axes
        plain_ticks(left.yaxis, [0.001, 0.01, 0.1, 1.0, 10.0, 100.0])
        left.set_ylabel(VERTICAL)
        left.text(1.02, 9.0, "all, printed", color=ORANGE, ha="right")
        left.text(0.6, 0.19, "single, printed", color=ORANGE, va="top")
        left.text(1.96, 0.15, "all, proven", color=BLUE, weight="bold", ha="right")
        left.text(1.4, 0.044, "single, proven", color=PURPLE, weight="bold", va="top")
        right.text(1.98, 2.2, "ε₀ alone", color=MUTED, ha="right")
        drawn.heading("Handing in all reports, or a single one")
        return drawn.drawing()


def stationary(points: int) -> Drawing:
    """The parameters after endless rounds: n, Γ, and what is handed in."""
    local = np.linspace(0.2, 2.0, points)
    crowds = (10**4, 10**5, 10**6)
    with canvas(9.6, 5.0, 2) as drawn:
        panels = (
            ("all reports handed in", all_printed, all_ours),
            ("a single report handed in", single_printed, single_ours),
        )
        for axes, (title, printed, ours) in zip(drawn.axes, panels, strict=True):
            for n, color in zip(crowds, (ORANGE, GREEN, PURPLE), strict=True):
                lines = [
                    (
                        partial(printed, n=n, irregularity=gamma),
                        {"color": color, "linewidth": 1.4, "linestyle": style},
                    )
                    for gamma, style in ((1.0, "solid"), (10.0, (0, (5, 2))))
                ]
                _against_eps0(axes, local, lines)
                bold = {**OURS, "color": color, "linewidth": 3.2}
                (values,) = _against_eps0(axes, local, [(partial(ours, n=n), bold)])
                middle = 2 * points // 3
                axes.annotate(
                    f"{n:,}", (local[middle], values[middle]), (0, -5), ha="left", va="top",
                    textcoords="offset points", color=color, weight="bold",
                )  # fmt: skip
            axes.plot(local, local, **ALONE)
            axes.set_title(title, color=INK, fontsize=11)
            axes.set(yscale="log", xlim=(0.2, 2.0), ylim=(3e-4, 300))
            plain_ticks(axes.xaxis, [0.5, 1.0, 1.5, 2.0])
            axes.set_xlabel("ε₀ of each report")
        left, right = drawn.axes
        plain_ticks(left.yaxis, [0.001, 0.01, 0.1, 1.0, 10.0, 100.0])
        left.set_ylabel(VERTICAL)
        left.text(
            0.26, 230, "thin: printed, Γ = 1 and (dashed) Γ = 10\nbold: proven, for every Γ",
            color=MUTED, va="top",
        )  # fmt: skip
        right.text(0.24, 0.5, "ε₀ alone", color=MUTED, va="bottom")
        drawn.heading("After endless rounds: 10,000, 100,000 and a million people")
        return drawn.drawing()


def regular(n: int, all_of: Sequence[Regular]) -> Drawing:
    """ε against rounds on random regular graphs."""
    with canvas(10.4, 4.4, len(all_of)) as drawn:
        for axes, each in zip(drawn.axes, all_of, strict=True):
            curve = each.curve
            axes.axhline(EPSILON, **ALONE)
            axes.axhline(curve.trusted, color=GREEN, linewidth=1.2)
            axes.plot(np.arange(1, each.printed.size + 1), each.printed, **PRINTED)
            axes.plot(curve.rounds, curve.at(0.5), color=BLUE, linewidth=1.2)
            axes.plot(curve.rounds, curve.at(1.0), **OURS)
            axes.set_title(f"{each.degree} neighbours each", color=INK, fontsize=11)
            axes.set(xscale="log", yscale="log", xlim=(1, 110), ylim=(0.025, 3e4))
            plain_ticks(axes.xaxis, [1, 3, 10, 30, 100])
            axes.set_xlabel("rounds")
        left, right = drawn.axes[0], drawn.axes[-1]
        plain_ticks(left.yaxis, [0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0])
        left.set_ylabel(VERTICAL)
        trusted = all_of[0].curve.trusted
        left.text(1.1, trusted * 0.93, f"trusted shuffler: {up(trusted, 3)}", color=GREEN, va="top")
        left.text(1.1, 1.15, "ε₀ alone", color=MUTED)
        right.text(4.5, 0.25, "worst and\nmedian person", color=BLUE, weight="bold")
        right.text(100, 25, "printed\n(unproven)", color=ORANGE, ha="right", va="bottom")
        drawn.heading(f"Random regular graphs of {n:,} people: a few rounds are enough (ε₀ = 1)")
        return drawn.drawing()
