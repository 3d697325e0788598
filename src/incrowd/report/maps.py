"""Maps of a release: squares whose size and strength both grow with the share of an answer.

Each answer has maps of its own, which are told apart by their titles. Where the truth is known the
map of the true answers stands before that of the released rows, with one scale and one frame; its
title says that it is the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from incrowd.randomizers.base import FloatArray
from incrowd.report.drawing import GRID, INK, MUTED, SERIES, literal
from incrowd.report.format import percent, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Data = Mapping[str, Any]

_TITLES = {"before": "before (the truth)", "after": "after (released)"}
"""Maps of an answer, from left to right."""
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Widths of the classes of a scale."""
_MOST_CLASSES = 7
"""Number of classes of a scale that stand side by side under two maps."""
_LINES = 3
"""Lines of the scale of a single map."""
_SMALLEST, _LARGEST = 0.3, 0.94
"""Sides of the squares of the first and the last class, in those of the grid."""
_FAINTEST = 0.3
_WIDTH, _LOWEST, _HIGHEST = 2.9, 0.9, 4.5
"""Width of a map, and its least and greatest height, in inches."""
_AROUND_MAP = 0.8
"""Inches for the title and the scale of a map."""
_MORE_LINES = 0.35
"""Inches for further lines of a scale."""
_DEGREE = 111.2
"""Kilometres of one degree of latitude."""
_LONGEST = 0.25
"""Longest line of a distance, in the width of a map."""


def height(data: Data) -> float:
    """Return the height in inches of the figure."""
    (left, right), (low, high) = _frame(data)
    tall: float = _WIDTH * data["squares"].stretch * (high - low) / (right - left)
    around = _AROUND_MAP if _paired(data) else _AROUND_MAP + _MORE_LINES
    return _grid(data)[0] * (min(max(tall, _LOWEST), _HIGHEST) + around)


def draw(whole: Figure, data: Data) -> None:
    """Draw the maps of all answers."""
    blocks = np.ravel(whole.subfigures(*_grid(data), squeeze=False))
    for block, (answer, shown) in zip(blocks, data["maps"].items(), strict=False):
        edges = _edges(shown)
        panels = np.ravel(block.subplots(1, len(shown), squeeze=False))
        for panel, side in zip(panels, (each for each in _TITLES if each in shown), strict=True):
            alone = "" if len(shown) == 1 else f", {_TITLES[side]}"
            panel.set_title(f"{literal(answer)}{alone}", fontsize=10.5)
            _draw_squares(panel, data["squares"], np.clip(shown[side], 0, 1), edges)
            _draw_frame(panel, data)
        _draw_scale(block, edges, 1 if _paired(data) else _LINES)


def told(data: Data) -> str:
    """Return the extremes of all maps in words."""
    return f": {'; '.join(_ends(answer, shown) for answer, shown in data['maps'].items())}."


def _ends(answer: str, shown: Data) -> str:
    sides = ((side, shown[side].clip(0, 1)) for side in _TITLES if side in shown)
    ends = [
        f"{side if len(shown) > 1 else ''} from {percent(each.min())} to {percent(each.max())}"
        for side, each in sides
    ]
    return f"{answer} {', '.join(each.strip() for each in ends)}"


def _grid(data: Data) -> tuple[int, int]:
    """Return the rows and columns of answers: one a row where each has two maps, else two."""
    maps = data["maps"]
    columns = 1 if _paired(data) else min(2, len(maps))
    return -(-len(maps) // columns), columns


def _paired(data: Data) -> bool:
    """Return whether a map before stands beside each map after."""
    return all("before" in each for each in data["maps"].values())


def _edges(shown: Data) -> FloatArray:
    """Return the edges of the classes of one scale for all maps of an answer."""
    values = np.clip(np.concatenate(list(shown.values())), 0, 1)
    low, high = float(values.min()), float(values.max())
    for step in _STEPS:
        last = max(math.ceil(high / step), 1)
        first = min(math.floor(low / step), last - 1)
        if last - first <= _MOST_CLASSES:
            break
    return np.arange(first, last + 1, dtype=np.float64) * step


def _weights(edges: FloatArray) -> FloatArray:
    """Return how strong each class is, from 0 for the first to 1 for the last."""
    return np.asarray(np.linspace(0, 1, len(edges) - 1) if len(edges) > 2 else np.ones(1))


def _draw_squares(panel: Axes, squares: Any, shares: FloatArray, edges: FloatArray) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    classes = np.clip(np.searchsorted(edges, shares, side="right") - 1, 0, len(edges) - 2)
    corners = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]) * squares.size / 2
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY]
    # One path for each class keeps the page small.
    for number, weight in enumerate(_weights(edges)):
        here = squares.middles[classes == number]
        if here.size:
            outlines = here[:, None] + _side(weight) * corners
            path = Path(outlines.reshape(-1, 2), codes * len(here))
            alpha = _strength(weight)
            panel.add_patch(PathPatch(path, facecolor=SERIES[0], alpha=alpha, linewidth=0))


def _side(weight: float) -> float:
    return _SMALLEST + weight * (_LARGEST - _SMALLEST)


def _strength(weight: float) -> float:
    return _FAINTEST + weight * (1 - _FAINTEST)


def _draw_frame(panel: Axes, data: Data) -> None:
    from matplotlib.ticker import MaxNLocator

    across, along = _frame(data)
    panel.set(xlim=across, ylim=along)
    panel.set_aspect(data["squares"].stretch)
    panel.spines[:].set(visible=True, color=GRID)
    for axis, name in zip((panel.xaxis, panel.yaxis), data["axes"], strict=True):
        axis.set_major_locator(MaxNLocator(3))
        axis.set_major_formatter(lambda tick, _: plain(tick, 6))
        axis.set_label_text(literal(name), fontsize=9)
    if data["geographic"]:
        panel.xaxis.set_major_formatter(lambda tick, _: plain((tick + 180) % 360 - 180, 6))
        _draw_distance(panel, data["squares"].stretch)
    panel.tick_params(labelsize=9, length=2, color=GRID, labelcolor=MUTED)
    panel.label_outer()


def _draw_distance(panel: Axes, stretch: float) -> None:
    """Draw a line of a round number of kilometres in a corner of the map."""
    (left, right), (bottom, top) = panel.get_xlim(), panel.get_ylim()
    longest = _LONGEST * (right - left) * _DEGREE / stretch
    power = 10.0 ** math.floor(math.log10(longest))
    length = power * max(each for each in (1, 2, 5) if each * power <= longest)
    start, up = left + 0.04 * (right - left), bottom + 0.05 * (top - bottom)
    end = start + length / _DEGREE * stretch
    panel.plot([start, end], [up, up], color=INK, linewidth=1.6, solid_capstyle="butt")
    panel.annotate(
        f"{plain(length)} km" if length >= 1 else f"{plain(1000 * length)} m",
        (end, up), (4, 0), textcoords="offset points", fontsize=9, verticalalignment="center",
    )  # fmt: skip


def _draw_scale(block: Any, edges: FloatArray, lines: int) -> None:
    """Draw one scale for the maps of an answer: a square of each class and its shares."""
    from matplotlib.lines import Line2D

    marks = [
        Line2D(
            [], [], linestyle="none", marker="s", markeredgewidth=0, color=SERIES[0],
            markersize=10 * _side(weight), alpha=_strength(weight),
        )
        for weight in _weights(edges)
    ]  # fmt: skip
    low, high = (100 * each for each in (edges[:-1], edges[1:]))
    names = [f"{a:.0f}–{b:.0f} %" for a, b in zip(low, high, strict=True)]
    block.legend(
        marks, names, loc="outside lower center", ncols=-(-len(names) // lines), frameon=False,
        fontsize=9, handlelength=1, handletextpad=0.3, columnspacing=0.9,
    )  # fmt: skip


def _frame(data: Data) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of all maps, to the right and up."""
    squares = data["squares"]
    # A distance is drawn below the squares.
    margin = np.array([0.75, 2.5 if data["geographic"] else 0.75])
    low = squares.middles.min(axis=0) - margin * squares.size
    high = squares.middles.max(axis=0) + 0.75 * squares.size
    (left, bottom), (right, top) = low.tolist(), high.tolist()
    return (left, right), (bottom, top)
