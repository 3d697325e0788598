"""Figures over radius and α: the paper's 3 and 5a to 5g, and ρ against λ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from experiments.common import BLUE, INK, MUTED, ORANGE, PURPLE, Drawing, canvas, plain_ticks
from experiments.order_measure import Effort, share_vulnerable, unlearned
from experiments.order_worlds import Setting, Way
from experiments.paper_order_shuffle import ALPHA

__all__ = ["LOOKS", "RINGED", "over_alpha", "over_radius", "tradeoff"]

LOOKS: dict[Way, dict[str, Any]] = {
    "ours": {"color": BLUE, "linewidth": 2.2, "marker": "o", "markersize": 5},
    "paper": {
        "color": ORANGE, "linewidth": 1.8, "marker": "s", "markersize": 4.5,
        "linestyle": (0, (5, 2)),
    },
    "local": {"color": MUTED, "linewidth": 1.5, "linestyle": (0, (1, 1.6))},
    "uniform": {"color": PURPLE, "linewidth": 1.5, "linestyle": (0, (4, 1.2, 1, 1.2))},
}  # fmt: skip
NAMES: dict[Way, str] = {
    "local": "not shuffled",
    "ours": "exact sensitivity, order kept",
    "paper": "the paper’s sensitivity and order",
    "uniform": "all shuffled",
}
RINGED = 256.0
"""The α that is marked where ρ is drawn against λ."""
_SHUFFLED: tuple[Way, ...] = ("paper", "ours")
_ENDS: tuple[tuple[Way, str], ...] = (("local", "^"), ("uniform", "v"))
_MEASURES = {"ρ": share_vulnerable, "λ": unlearned}


def over_radius(
    settings: Sequence[Setting], effort: Effort, measure: Literal["ρ", "λ"], heading: str
) -> Drawing:
    """One panel per crowd: larger groups to the right, at α = 4."""
    with canvas(11.6, 4.8, len(settings)) as drawn:
        for axes, setting in zip(drawn.axes, settings, strict=True):
            at = np.arange(len(setting.radii))
            for way in LOOKS:
                _line(axes, at, setting, effort, measure, way,
                      [(radius, ALPHA) for radius in setting.radii])  # fmt: skip
            names = [f"{radius:g}" for radius in setting.radii]
            long = max(map(len, names)) > 4
            axes.set_xticks(at, names, rotation=40 if long else 0)
            axes.set_xlabel(_axis(setting))
            axes.set_title(setting.name, color=INK, fontsize=11)
        _finish(drawn, measure, heading)
        return drawn.drawing()


def over_alpha(
    settings: Sequence[Setting], effort: Effort, alphas: Sequence[float], heading: str
) -> Drawing:
    """One panel per crowd: weaker guarantees to the right, at one radius."""
    with canvas(11.6, 4.8, len(settings)) as drawn:
        for axes, setting in zip(drawn.axes, settings, strict=True):
            for way in LOOKS:
                _line(axes, alphas, setting, effort, "ρ", way,
                      [(setting.fixed, alpha) for alpha in alphas])  # fmt: skip
            axes.set(xscale="log", xlabel="α")
            plain_ticks(axes.xaxis, [4, 64, 1024, 16_384])
            axes.set_title(
                f"{setting.name}, {setting.words(setting.fixed)}", color=INK, fontsize=11
            )
        _finish(drawn, "ρ", heading)
        return drawn.drawing()


def tradeoff(
    settings: Sequence[Setting], effort: Effort, alphas: Sequence[float], heading: str
) -> Drawing:
    """ρ against λ, traced by α: left is better learned, down is better protected."""
    with canvas(11.6, 4.8, len(settings)) as drawn:
        for axes, setting in zip(drawn.axes, settings, strict=True):
            for way in _SHUFFLED:
                settled = [(setting.fixed, alpha) for alpha in alphas]
                learned = [unlearned(setting, effort, way, *each).mean for each in settled]
                told = [share_vulnerable(setting, effort, way, *each).mean for each in settled]
                axes.plot(learned, told, label=NAMES[way], **LOOKS[way])
                here = alphas.index(RINGED)
                axes.plot(learned[here], told[here], marker="o", markersize=13, fillstyle="none",
                          markeredgecolor=LOOKS[way]["color"], linestyle="none")  # fmt: skip
            for way, mark in _ENDS:
                axes.plot(unlearned(setting, effort, way).mean,
                          share_vulnerable(setting, effort, way).mean, marker=mark, markersize=9,
                          linestyle="none", color=LOOKS[way]["color"],
                          label=NAMES[way])  # fmt: skip
            axes.set_xlabel("λ: error of what is learned")
            axes.set_title(
                f"{setting.name}, {setting.words(setting.fixed)}", color=INK, fontsize=11
            )
        _finish(drawn, "ρ", heading)
        return drawn.drawing()


def _line(
    axes: Any,
    at: Any,
    setting: Setting,
    effort: Effort,
    measure: str,
    way: Way,
    settled: Sequence[tuple[float, float]],
) -> None:
    found = [_MEASURES[measure](setting, effort, way, *each) for each in settled]
    axes.errorbar(at, [each.mean for each in found], yerr=[each.deviation for each in found],
                  elinewidth=1.1, label=NAMES[way], **LOOKS[way])  # fmt: skip


def _finish(drawn: Any, measure: str, heading: str) -> None:
    first = drawn.axes[0]
    words = {
        "ρ": "ρ: share of people who are vulnerable",
        "λ": "λ: error of what is learned (1: even guess)",
    }
    first.set_ylabel(words[measure])
    first.set_ylim(bottom=0)
    handles, labels = first.get_legend_handles_labels()
    drawn.figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), frameon=False,
        labelcolor=INK, fontsize=9, handlelength=3.0, columnspacing=1.6,
    )  # fmt: skip
    drawn.heading(heading)


def _axis(setting: Setting) -> str:
    if setting.unit == "ω":
        return "width ω of the order"
    return f"radius r, {setting.unit}" if setting.unit else "radius r"
