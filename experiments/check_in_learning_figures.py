"""The figures of ``experiments.check_in_learning``: accuracy against rounds, and against ε."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.common import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, Drawing, canvas, plain_ticks

if TYPE_CHECKING:
    from experiments.check_in_learning_linear import Point

__all__ = ["network", "trade_off"]

# The first two nearly coincide: one is broad, the other narrow and dashed.
_STYLES: Mapping[str, dict[str, Any]] = {
    "central": {"label": "a trusted curator", "color": PURPLE, "marker": "s", "linewidth": 4.0},
    "summed": {
        "label": "check-in, sums only", "color": GREEN, "marker": "^", "linestyle": "--",
        "linewidth": 1.4,
    },
    "check-in": {"label": "check-in, shuffled reports", "color": BLUE, "marker": "o"},
    "local": {"label": "nobody trusted", "color": ORANGE, "marker": "D"},
}  # fmt: skip
_READINGS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "sums": ("proven, if only\nsums arrive", {"color": GREEN, "linewidth": 2.2}),
    "estimate": ("estimate,\nno bound", {"color": MUTED, "linewidth": 1.4, "linestyle": "--"}),
    "reports": ("proven, if reports\nare shuffled", {"color": BLUE, "linewidth": 2.2}),
}


def network(
    found: Mapping[int, Sequence[float]], epsilons: Mapping[int, Mapping[str, float]]
) -> Drawing:
    """Accuracy over the rounds, and against ε as it is proven or estimated."""
    rounds = list(found)
    low, mean, high = _band([found[each] for each in rounds])
    with canvas(10.4, 4.6, 2) as drawn:
        left, right = drawn.axes
        left.fill_between(rounds, low, high, color=INK, alpha=0.18, linewidth=0)
        left.plot(rounds, mean, color=INK, linewidth=1.8)
        left.set(xscale="log", ylim=(0, 112), xlabel="rounds", ylabel="unseen digits read, %")
        plain_ticks(left.yaxis, [0, 20, 40, 60, 80, 100])
        ticks = (10, 100, 1000, 10_000, 100_000)
        plain_ticks(left.xaxis, [tick for tick in ticks if rounds[0] <= tick <= rounds[-1]])
        seeds = max(len(each) for each in found.values())
        left.set_title(f"over the rounds, {_seeds(seeds)}", color=INK, fontsize=11)
        some = [found[each] for each in epsilons]
        for name, (label, style) in _READINGS.items():
            x = [epsilons[each][name] for each in epsilons]
            right.fill_between(x, *_band(some)[::2], color=style["color"], alpha=0.18, linewidth=0)
            right.plot(x, _band(some)[1], **style)
            right.annotate(
                label, (x[-1], mean[-1]), (0, 8), textcoords="offset points", ha="center",
                va="bottom", color=style["color"],
            )  # fmt: skip
        right.set(xscale="log", xlim=(0.005, 3000), xlabel="ε at δ = 1/n")
        plain_ticks(right.xaxis, [0.01, 0.1, 1, 10, 100, 1000])
        right.set_title("against ε, in three readings", color=INK, fontsize=11)
        drawn.heading("The paper's network: the same training, and what is proven of it")
        return drawn.drawing()


def trade_off(found: Sequence[Point], name: str) -> Drawing:
    """Accuracy against ε for each learner, one standard deviation around the mean."""
    with canvas(7.6, 4.8) as drawn:
        axes = drawn.axes[0]
        open_ = [one for one in found if math.isinf(one.epsilon)]
        for one in open_:
            axes.axhline(100 * one.mean, color=MUTED, linewidth=1.2, linestyle=":")
            axes.text(
                0.99, 100 * one.mean + 0.8, "no privacy", color=MUTED, ha="right",
                transform=axes.get_yaxis_transform(),
            )  # fmt: skip
        for learner, style in _STYLES.items():
            own = sorted(
                (one for one in found if one.setting.learner == learner), key=lambda p: p.epsilon
            )
            if not own:
                continue
            x = [one.epsilon for one in own]
            low, mean, high = _band([one.accuracies for one in own])
            axes.fill_between(x, low, high, color=style["color"], alpha=0.22, linewidth=0)
            axes.plot(x, mean, **{"markersize": 5, "linewidth": 1.8, **style})
        axes.set(xscale="log", ylim=(0, 105), xlabel="proven ε", ylabel="unseen pictures read, %")
        plain_ticks(axes.xaxis, [0.25, 0.5, 1, 2, 4, 8])
        axes.legend(loc="lower right", frameon=False, labelcolor="linecolor")
        drawn.heading(f"{name} by a linear model: what trust buys")
        return drawn.drawing()


def _band(values: Sequence[Sequence[float]]) -> tuple[Any, Any, Any]:
    """Mean and one standard deviation to each side, in percent; no band around one seed."""
    mean = 100 * np.array([np.mean(each) for each in values])
    spread = 100 * np.array([np.std(each, ddof=1) if len(each) > 1 else 0.0 for each in values])
    return mean - spread, mean, mean + spread


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"
