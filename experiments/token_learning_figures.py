"""The figures of ``experiments.token_learning``: loss and accuracy over the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.common import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, Drawing, canvas, plain_ticks

__all__ = ["curves"]

# The first two nearly coincide: one is broad, the other narrow and dashed.
_STYLES: Mapping[str, dict[str, Any]] = {
    "plain": {"label": "no privacy", "color": MUTED, "linestyle": ":", "linewidth": 1.6},
    "central": {"label": "a trusted curator", "color": PURPLE, "linewidth": 4.2, "alpha": 0.55},
    "hidden": {
        "label": "token, hidden path", "color": BLUE, "linestyle": (0, (4, 1.5)), "linewidth": 1.8,
    },
    "public": {"label": "token, public path", "color": GREEN, "linewidth": 1.8},
    "paper": {
        "label": "token, the paper's noise", "color": INK, "linestyle": "--", "linewidth": 1.3,
    },
    "local": {"label": "nobody trusted", "color": ORANGE, "linewidth": 1.8},
}  # fmt: skip
_SCALES = {"objective": 1.0, "accuracy": 100.0}
_HEADINGS = {
    "objective": "Houses told apart by a token that nobody can follow: as with a trusted curator",
    "accuracy": "The same trainings on houses that nobody holds",
}


def curves(
    steps: Sequence[int],
    found: Mapping[tuple[str, float], Any],
    budgets: Sequence[float],
    values: str,
) -> Drawing:
    """One panel for each budget; a line for each way, with one standard deviation around it."""
    scale = _SCALES[values]
    with canvas(10.4, 5.0, len(budgets)) as drawn:
        for axes, budget in zip(drawn.axes, budgets, strict=True):
            for way, style in _STYLES.items():
                runs = next(
                    (
                        scale * runs
                        for (name, epsilon), runs in found.items()
                        if name == way and (epsilon == budget or way == "plain")
                    ),
                    None,
                )
                if runs is None:
                    continue
                mean = runs.mean(axis=0)
                spread = runs.std(axis=0, ddof=1) if len(runs) > 1 else 0 * mean
                axes.fill_between(
                    steps, mean - spread, mean + spread, color=style["color"], alpha=0.12,
                    linewidth=0,
                )  # fmt: skip
                axes.plot(steps, mean, **style)
            axes.set(xlabel="steps", xlim=(0, steps[-1]))
            plain_ticks(axes.xaxis, [steps[-1] * part / 4 for part in range(5)])
            axes.set_title(f"ε = {budget:g}, δ = 10⁻⁶", color=INK, fontsize=11)
        label = "mean loss" if values == "objective" else "told apart correctly, %"
        label += "; band: one standard deviation"
        drawn.axes[0].set_ylabel(label)
        handles, labels = drawn.axes[0].get_legend_handles_labels()
        drawn.figure.legend(
            handles, labels, loc="outside lower center", ncols=len(labels), frameon=False,
            labelcolor=INK, fontsize=9, handlelength=2.4, columnspacing=1.2,
        )  # fmt: skip
        drawn.heading(_HEADINGS[values])
        return drawn.drawing()
