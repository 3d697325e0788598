"""The figures of ``experiments.network_real``: ε against rounds, and error against ε."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.common import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, Drawing, canvas, plain_ticks
from experiments.network_bounds import all_printed
from experiments.network_figures import ALONE, OURS, VERTICAL
from experiments.network_figures import PRINTED as DASHED
from experiments.network_graphs import PRINTED
from experiments.network_mean import Point
from experiments.network_rounds import EPSILON, SHARES, Curve
from incrowd.report.format import up

__all__ = ["against_printed", "mean", "rounds"]

_WIDTHS = {"median": 1.1, "99th percentile": 1.8, "worst": 2.8}
_FLOOR = 0.018


def _people(axes: Any, curve: Curve, color: str) -> None:
    """One line per share of people: the bolder, the more people. Before the first row: ε0."""
    for name, share in SHARES.items():
        times, values = [1, *curve.rounds.tolist()], [EPSILON, *curve.at(share).tolist()]
        axes.plot(times, values, color=color, linewidth=_WIDTHS[name])


def rounds(names: Sequence[str], found: Mapping[tuple[str, int, float], Curve]) -> Drawing:
    """ε against rounds on each real graph, as it is and with random peers."""
    with canvas(10.8, 4.7, len(names)) as drawn:
        for axes, name in zip(drawn.axes, names, strict=True):
            printed, alone, helped = PRINTED[name], found[name, 0, 0.0], found[name, 3, 0.0]
            axes.axhline(EPSILON, **ALONE)
            axes.axhline(alone.trusted, color=GREEN, linewidth=1.2)
            _people(axes, helped, PURPLE)
            _people(axes, alone, BLUE)
            axes.set_title(f"{printed.title}: {alone.epsilon.shape[1]:,}", color=INK, fontsize=11)
            axes.set(xscale="log", yscale="log", xlim=(1, 12_000), ylim=(_FLOOR, 1.6))
            plain_ticks(axes.xaxis, [1, 10, 100, 1000])
            axes.set_xlabel("rounds")
        first = drawn.axes[0]
        plain_ticks(first.yaxis, [0.02, 0.05, 0.1, 0.2, 0.5, 1.0])
        first.set_ylabel(VERTICAL)
        trusted = found[names[0], 0, 0.0].trusted
        first.text(1.2, trusted * 0.96, "trusted shuffler", color=GREEN, va="top")
        first.text(1.2, 1.06, "ε₀ alone", color=MUTED)
        first.text(
            0.03, 0.3, "with 3\nrandom\npeers", color=PURPLE, weight="bold",
            transform=first.transAxes,
        )  # fmt: skip
        first.text(
            0.97, 0.6, "as it is", color=BLUE, weight="bold", ha="right",
            transform=first.transAxes,
        )  # fmt: skip
        drawn.heading(
            "How many rounds it takes (ε₀ = 1): worst person bold, 99 % middle, median thin"
        )
        return drawn.drawing()


def against_printed(found: Mapping[str, Curve], gaps: Mapping[str, float]) -> Drawing:
    """Figure 4 of the paper: ε against rounds, with its formula."""
    times = np.unique(np.geomspace(1, 10_000, 200).round().astype(int))
    with canvas(10.0, 4.7, len(found)) as drawn:
        for axes, (name, curve) in zip(drawn.axes, found.items(), strict=True):
            printed = PRINTED[name]
            formula = [
                all_printed(EPSILON, printed.n, printed.irregularity, gaps[name], int(time))
                for time in times
            ]
            axes.axhline(EPSILON, **ALONE)
            axes.axhline(curve.trusted, color=GREEN, linewidth=1.2)
            axes.plot(times, formula, **DASHED)
            _people(axes, curve, BLUE)
            axes.set_title(printed.title, color=INK, fontsize=11)
            axes.set(xscale="log", yscale="log", xlim=(1, 10_000), ylim=(_FLOOR, 400))
            plain_ticks(axes.xaxis, [1, 10, 100, 1000])
            axes.set_xlabel("rounds")
        first, last = drawn.axes[0], drawn.axes[-1]
        plain_ticks(first.yaxis, [0.02, 0.1, 1.0, 10.0, 100.0])
        first.set_ylabel(VERTICAL)
        trusted = next(iter(found.values())).trusted
        first.text(
            1.2, trusted * 0.93, f"trusted shuffler: {up(trusted, 3)}", color=GREEN, va="top"
        )
        first.text(1.2, 0.93, "ε₀ alone", color=MUTED, va="top")
        first.text(1.2, 30, "printed (unsound)", color=ORANGE)
        last.text(
            0.04, 0.3, "proven: worst,\n99 %, median", color=BLUE, weight="bold", va="top",
            transform=last.transAxes,
        )  # fmt: skip
        drawn.heading("ε against rounds: the paper’s formula and what is proven (ε₀ = 1)")
        return drawn.drawing()


def mean(points: Sequence[Point]) -> Drawing:
    """Error of a private mean against central ε, proven and printed, for both modes."""
    with canvas(8.4, 5.0) as drawn:
        (axes,) = drawn.axes
        single = (0, (3, 1.2))
        for mode, line, marker in (("all", "solid", "o"), ("single", single, "s")):
            chosen = [each for each in points if each.mode == mode]
            errors = [each.error for each in chosen]
            style: dict[str, Any] = {"linestyle": line, "marker": marker, "markersize": 5}
            axes.plot([each.epsilon for each in chosen], errors, **{**OURS, **style})
            axes.plot(
                [each.printed for each in chosen], errors,
                **{**DASHED, **style, "markerfacecolor": "none"},
            )  # fmt: skip
        low = min(each.error for each in points) / 2
        high = max(each.error for each in points) * 2
        axes.set(xscale="log", yscale="log", xlim=(0.003, 100), ylim=(low, high))
        plain_ticks(axes.xaxis, [0.01, 0.1, 1.0, 10.0, 100.0])
        plain_ticks(axes.yaxis, [tick for tick in (0.01, 0.1, 1.0, 10.0) if low < tick < high])
        axes.set_xlabel(VERTICAL)
        axes.set_ylabel("squared error of the mean")
        axes.text(
            0.97, 0.95, "circles: all reports handed in\nsquares: a single one each", color=MUTED,
            ha="right", va="top", transform=axes.transAxes,
        )  # fmt: skip
        axes.text(0.03, 0.06, "proven", color=BLUE, weight="bold", transform=axes.transAxes)
        axes.text(0.7, 0.25, "printed", color=ORANGE, transform=axes.transAxes)
        drawn.heading("A private mean over the Twitch graph: error against ε")
        return drawn.drawing()
