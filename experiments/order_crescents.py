"""Crescents: eight labels at three granularities, released and attacked (Figures 1 and 5h).

Two clusters (warm and cool), two crescents in each, a light and a dark half of each. How far
reports are shuffled decides at which granularity labels can still be told.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.common import BLUE, GREEN, INK, MUTED, ORANGE, Drawing, Table, canvas
from experiments.order_attacks import boosting_attack, gaussian_process_attack, vote
from experiments.order_data import crescents
from experiments.order_learnability import accuracy
from experiments.order_measure import Effort, Spread, spread_of
from experiments.order_worlds import SEEDS, Setting, Way, crowd_of, neighbours_of, sources
from experiments.paper_order_shuffle import ALPHA, EPSILON, FIGURE_ALPHA, FIGURE_EPSILON
from incrowd.randomizers import KRR
from incrowd.report.format import percent

__all__ = ["COLOURS", "attackers_table", "classes_figure", "classes_table", "picture"]

IntArray = NDArray[np.int64]

COLOURS = (
    "#8c1d18", "#e8746c", "#b35c00", "#f5b14c", "#123a8c", "#7aa7f0", "#0f6b3a", "#7fd09a",
)  # fmt: skip
"""Red and orange crescents, blue and green ones; dark and light halves."""
WAYS = (8, 4, 2)
_FIRST = 0


def coarse(labels: IntArray, ways: int) -> IntArray:
    """Labels of crescents (4) or clusters (2) from those of halves (8)."""
    return labels // (8 // ways)


# One release, drawn (Figure 1).


@lru_cache(maxsize=64)
def _release(setting: Setting, way: Way, radius: float, trial: int) -> tuple[IntArray, IntArray]:
    """The released labels, and what a Gaussian process makes of them."""
    crowd = crowd_of(setting)
    randomizer = KRR(epsilon=FIGURE_EPSILON, categories=crowd.categories)
    reports = randomizer.randomize(crowd.values, SEEDS.generator("picture", trial))
    released = np.asarray(reports, np.int64)[sources(setting, way, radius, FIGURE_ALPHA, trial)]
    rng = SEEDS.generator("process", trial)
    found = gaussian_process_attack(crowd.features, released, crowd.categories, rng)
    return released, found


def _panels(radii: tuple[float, float]) -> list[tuple[str, Way, float]]:
    small, large = radii
    return [
        (f"randomized, ε0 = {FIGURE_EPSILON:g}", "local", 0.0),
        (f"shuffled, r = {small:g}", "ours", small),
        (f"shuffled, r = {large:g}", "ours", large),
        ("all shuffled", "uniform", 0.0),
    ]


def picture(setting: Setting, radii: tuple[float, float]) -> Drawing:
    """The paper's Figure 1: what is released, and below it what an attacker recovers."""
    crowd = crowd_of(setting)
    with canvas(11.6, 5.2) as drawn:
        drawn.axes[0].remove()
        grid = drawn.figure.subplots(2, 5)
        _dots(grid[0, 0], crowd.features, crowd.values, "original", "")
        for column, (name, way, radius) in enumerate(_panels(radii), start=1):
            released, found = _release(setting, way, radius, _FIRST)
            _dots(grid[0, column], crowd.features, released, name, "")
            right = percent(float(np.mean(found == crowd.values)))
            _dots(grid[1, column], crowd.features, found, "", f"{right} told correctly")
        grid[1, 0].axis("off")
        grid[1, 0].text(0.98, 0.5, "what a Gaussian\nprocess recovers\nfrom the release above",
                        ha="right", va="center", color=MUTED, fontsize=10,
                        transform=grid[1, 0].transAxes)  # fmt: skip
        drawn.heading(
            f"How far reports are shuffled decides what can be told of them (α = {FIGURE_ALPHA:g})"
        )
        return drawn.drawing()


def _dots(axes: Any, points: Any, labels: IntArray, title: str, below: str) -> None:
    # Drawn as one image: twenty thousand marks would make a file that no browser likes.
    axes.scatter(points[:, 0], points[:, 1], c=np.array(COLOURS)[labels], s=1.2, linewidths=0,
                 rasterized=True)  # fmt: skip
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    if title:
        axes.set_title(title, color=INK, fontsize=10)
    if below:
        axes.set_xlabel(below, fontsize=9)


def attackers_table(setting: Setting, radii: tuple[float, float], effort: Effort) -> Table:
    """Four attackers on releases as in the picture."""
    rows = [
        [name, *(str(spread_of(each)) for each in zip(*shares, strict=True))]
        for name, way, radius in _panels(radii)
        for shares in [[_told(setting, way, radius, trial) for trial in range(effort.trials)]]
    ]
    return Table(
        "Attackers on the crescents",
        f"{crowd_of(setting).n:,} people, ε0 = {FIGURE_EPSILON:g}, α = {FIGURE_ALPHA:g}. The share "
        "of people whose label, one of eight, is told correctly, mean ± one standard deviation over"
        f" {effort.trials} releases: by the report at their own place, by the vote of their 25 "
        "nearest, by a Gaussian process and by gradient boosting. Then the share for which the "
        "Gaussian process tells the crescent and the cluster. By chance: 0.125, 0.25 and 0.5; the "
        "spread around chance is large, because guesses are the same for whole regions.",
        (
            "release", "own place", "vote", "Gaussian process", "boosting", "crescent", "cluster",
        ),
        rows,
    )  # fmt: skip


def _told(setting: Setting, way: Way, radius: float, trial: int) -> tuple[float, ...]:
    crowd = crowd_of(setting)
    released, recovered = _release(setting, way, radius, trial)
    asked = vote(released, neighbours_of(setting), crowd.categories)[0]
    boosting = boosting_attack(crowd.features, released, trial)
    pairs = [(each, crowd.values) for each in (released, asked, recovered, boosting)]
    pairs += [(coarse(recovered, k), coarse(crowd.values, k)) for k in (4, 2)]
    return tuple(float(np.mean(guess == truth)) for guess, truth in pairs)


# What a model learns (Figure 5h).


@lru_cache(maxsize=256)
def _accuracy(setting: Setting, trials: int, way: Way, radius: float, ways: int) -> Spread:
    crowd = crowd_of(setting)
    unseen, truth = _unseen(crowd.n)
    randomizer = KRR(epsilon=EPSILON, categories=crowd.categories)
    found = []
    for trial in range(trials):
        reports = randomizer.randomize(crowd.values, SEEDS.generator("classes", trial))
        released = np.asarray(reports, np.int64)[sources(setting, way, radius, ALPHA, trial)]
        labels = coarse(released, ways)
        found.append(accuracy(crowd.features, labels, unseen, coarse(truth, ways), trial))
    return spread_of(tuple(found))


@lru_cache(maxsize=2)
def _unseen(people: int) -> tuple[Any, IntArray]:
    data = crescents(people, 2)
    return data.points, np.asarray(data.values, np.int64)


def _of(setting: Setting, effort: Effort, way: Way, radius: float, ways: int) -> Spread:
    return _accuracy(setting, effort.trials, way, radius if way in ("ours", "paper") else 0.0, ways)


def classes_table(setting: Setting, effort: Effort) -> Table:
    """Accuracy at three granularities."""
    ways: list[tuple[str, Way, float]] = [("not shuffled", "local", 0.0)]
    for radius in setting.radii:
        ways += [(f"ours, r = {radius:g}", "ours", radius)]
        ways += [(f"the paper’s, r = {radius:g}", "paper", radius)]
    ways += [("all shuffled", "uniform", 0.0)]
    rows = [
        [name, *(str(_of(setting, effort, way, radius, k)) for k in WAYS)]
        for name, way, radius in ways
    ]
    return Table(
        "At which granularity crescents are told apart: the paper’s Figure 5h",
        f"Gradient boosting learns from a release (ε0 = {EPSILON:g}, α = {ALPHA:g}) and is tested "
        f"on as many other points; mean ± one standard deviation over {effort.trials} trials. By "
        "chance: 0.125, 0.25 and 0.5.",
        ("release", "8-way", "4-way", "2-way"),
        rows,
    )


def classes_figure(setting: Setting, effort: Effort) -> Drawing:
    """Accuracy against the radius, ours bold and the paper's thin."""
    at = np.arange(len(setting.radii))
    looks = ((8, BLUE, "o"), (4, ORANGE, "s"), (2, GREEN, "^"))
    lines: tuple[tuple[Way, float, Any], ...] = (
        ("ours", 2.4, "solid"), ("paper", 1.1, (0, (5, 2))),
    )  # fmt: skip
    ends: tuple[tuple[Way, float], ...] = (("local", -0.7), ("uniform", len(at) - 0.3))
    with canvas(8.6, 5.0) as drawn:
        (axes,) = drawn.axes
        for ways, colour, mark in looks:
            for way, width, line in lines:
                found = [_of(setting, effort, way, radius, ways) for radius in setting.radii]
                axes.errorbar(at, [each.mean for each in found],
                              yerr=[each.deviation for each in found], color=colour, marker=mark,
                              linewidth=width, linestyle=line, markersize=3 + width,
                              label=f"{ways}-way" if way == "ours" else None)  # fmt: skip
            for way, place in ends:
                axes.plot(place, _of(setting, effort, way, 0.0, ways).mean, color=colour,
                          marker=mark, fillstyle="none", markersize=8)  # fmt: skip
        axes.set_xticks([-0.7, *at, len(at) - 0.3],
                        ["not\nshuffled", *(f"{radius:g}" for radius in setting.radii),
                         "all\nshuffled"])  # fmt: skip
        axes.set(ylim=(0, 1.02), ylabel="labels of other points told correctly",
                 xlabel=f"radius r of the groups, α = {ALPHA:g}")  # fmt: skip
        axes.legend(frameon=False, labelcolor=INK, loc="lower left")
        axes.text(0.14, 0.03, "bold: exact sensitivity, order kept\ndashed: the paper’s",
                  color=MUTED, fontsize=9, transform=axes.transAxes)  # fmt: skip
        drawn.heading("The radius sets the granularity at which crescents are told apart")
        return drawn.drawing()
