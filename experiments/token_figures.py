"""The figures of ``experiments.token_walk``, and the numbers that its tables share with them.

What is proven is a bold line; what no proof stands behind is dashed, whether printed by the paper
or computed as its program does. The shaded ground is what an attack attains: no bound can lie in
it.
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
    PAPER,
    PURPLE,
    Drawing,
    canvas,
    plain_ticks,
)
from experiments.paper_token_walk import (
    code_figure_1a,
    code_pair_losses,
    mended_theorem_3,
    mended_theorem_6,
    paper_local,
    paper_theorem_3,
    paper_theorem_6,
)
from experiments.token_graphs import ENOUGH, by_distance
from experiments.token_losses import loss_epsilon
from incrowd.privacy.gaussian import GaussianProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.simulate import collect, paths
from incrowd.protocols.token_walk.theorems.conditional_on_path import path_losses
from incrowd.randomizers import KRR, Gaussian, Generic
from incrowd.randomness import Seeds
from incrowd.report.format import round_down, round_up, up

__all__ = [
    "DELTA",
    "ERROR_BUDGET",
    "PAIR_DELTA",
    "PER_PERSON",
    "RUNS",
    "Errors",
    "Histograms",
    "Pairs",
    "Spread",
    "Sums",
    "errors",
    "graph_figure",
    "histogram_errors",
    "histogram_figure",
    "histograms",
    "pair_figure",
    "pairs",
    "sum_figure",
    "sums",
]

FloatArray = NDArray[np.float64]

PER_PERSON, EPSILON, DELTA = 100, 1.0, 1e-6
"""Contributions of one person on average, and what one of them is alone."""
PAIR_DELTA, RUNS = 1e-7, 10
"""As in the paper's program."""
ERROR_BUDGET = 1.0
_SIZES = np.unique(np.geomspace(1, 20_000, 90).astype(int))
"""Sizes of crowds for which the shuffle of a cycle is computed; in between the smaller counts."""

OURS: dict[str, Any] = {"color": BLUE, "linewidth": 2.6}
KNOWN: dict[str, Any] = {"color": GREEN, "linewidth": 2.2, "linestyle": (0, (3, 1.2))}
ALONE: dict[str, Any] = {"color": MUTED, "linewidth": 1.4, "linestyle": (0, (1, 1.6))}
GROUND: dict[str, Any] = {"color": INK, "alpha": 0.11, "linewidth": 0}
PRINTED: dict[str, Any] = {"color": ORANGE, "linewidth": 1.6, "linestyle": (0, (5, 2))}
MENDED: dict[str, Any] = {"color": PURPLE, "linewidth": 1.4, "linestyle": (0, (5, 1, 1, 1))}
_LABEL = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0}


# Sums (Figure 1a).


@dataclass(frozen=True)
class Sums:
    """What is printed, and what is known, of a sum with a hundred contributions each."""

    printed: float
    printed_delta: float
    code: float
    mended: float
    local_printed: float
    hidden: float
    hidden_there: float
    """At the δ of the printed one."""
    public: float
    local: float
    attack: float


@lru_cache(maxsize=64)
def sums(n: int) -> Sums:
    """All bounds for n people."""
    steps = PER_PERSON * n
    protocol = TokenWalk(Gaussian(epsilon=EPSILON, delta=DELTA), n=n, steps=steps)
    hidden = protocol.guarantee("peer")
    printed = paper_theorem_3(n, steps, EPSILON, DELTA)
    return Sums(
        printed=printed.epsilon,
        printed_delta=printed.delta,
        code=code_figure_1a(n, steps, EPSILON, DELTA, local=False),
        mended=mended_theorem_3(n, steps, EPSILON, DELTA).epsilon,
        local_printed=paper_local(n, steps, EPSILON, DELTA).epsilon,
        hidden=hidden.epsilon(DELTA),
        hidden_there=hidden.epsilon(printed.delta),
        public=protocol.guarantee("peer+hub").epsilon(DELTA),
        local=protocol.guarantee("everyone").epsilon(DELTA),
        attack=hidden.lower(DELTA) or 0.0,
    )


def sum_figure(people: Sequence[int]) -> Drawing:
    """The paper's Figure 1(a)."""
    found, floor = [sums(n) for n in people], 0.01
    with canvas(8.6, 5.6) as drawn:
        (axes,) = drawn.axes

        def line(name: str) -> list[float]:
            return [getattr(each, name) for each in found]

        axes.fill_between(people, floor, [round_down(each) for each in line("attack")], **GROUND)
        axes.plot(people, line("local_printed"), **{**ALONE, "color": ORANGE})
        axes.plot(people, line("local"), **ALONE)
        axes.plot(people, line("code"), **{**PRINTED, "linestyle": (0, (1, 1))})
        axes.plot(people, line("printed"), **PRINTED)
        axes.plot(people, line("mended"), **MENDED)
        axes.plot(people, [round_up(each) for each in line("public")], **KNOWN)
        axes.plot(people, [round_up(each) for each in line("hidden")], **OURS)
        last = found[-1]
        _ends(
            axes,
            people[-1],
            (
                ("local, advanced\ncomposition", last.local_printed, ORANGE),
                ("local, exact", last.local, MUTED),
                ("the paper’s code", last.code, ORANGE),
                ("printed", last.printed * 1.35, ORANGE),
                ("printed, its com-\nposition mended", last.mended / 1.6, PURPLE),
                ("incrowd, path known", last.public, GREEN),
                ("incrowd, path hidden", last.hidden * 1.2, BLUE),
            ),
        )
        axes.text(people[0], floor * 1.3, "ruled out by an attack", color=MUTED)
        _people_axis(axes, people, (floor, 1000.0), room=40.0)
        plain_ticks(axes.yaxis, [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0])
        axes.set_ylabel("ε (ours at δ = 10⁻⁶, printed at 2.7·10⁻⁴)")
        drawn.heading("A sum by a token: 100 contributions each, one alone has ε₀ = 1, δ₀ = 10⁻⁶")
        return drawn.drawing()


# Pairs on walks that happened (Figure 1b), and the same of histograms (Figure 3).


@dataclass(frozen=True)
class Spread:
    """Over all ordered pairs and walks."""

    least: float
    mean: float
    greatest: float

    @staticmethod
    def of(values: Sequence[FloatArray]) -> Spread:
        """That of matrices of pairs, without their diagonals."""
        apart = [each[~np.eye(len(each), dtype=bool)] for each in values]
        every = np.concatenate(apart)
        return Spread(float(every.min()), float(every.mean()), float(every.max()))


@dataclass(frozen=True)
class Pairs:
    """Ten walks among n people."""

    code: Spread
    """As the paper's program computes it."""
    mended: Spread
    """The same with the right number of noises in a cycle."""
    realised: Spread
    """Ours: exact given the path, whoever knows it."""
    local: float
    """The mean of what everyone's contributions are alone, exactly."""
    below: float
    """The share of pairs of whom the program states less than is really given away."""


@lru_cache(maxsize=64)
def pairs(n: int, epsilon: float) -> Pairs:
    """Sums with Gaussian noise, a hundred contributions each on average."""
    noise = Gaussian(epsilon=epsilon, delta=PAIR_DELTA)
    protocol = TokenWalk(noise, n=n, steps=PER_PERSON * n)
    alone = np.concatenate([[epsilon], epsilon / np.sqrt(np.arange(1, PER_PERSON * n + 1))])
    code, mended, realised, local = [], [], [], []
    for run in range(RUNS):
        path = _path(protocol, run)
        # Ours has the observers in columns.
        code.append(code_pair_losses(path, n, alone, PAIR_DELTA).T)
        mended.append(code_pair_losses(path, n, alone, PAIR_DELTA, off_by_one=False).T)
        losses = path_losses(path, n)
        realised.append(loss_epsilon(losses, 1 / noise.sigma, PAIR_DELTA))
        visits, times = np.unique(np.bincount(path, minlength=n), return_counts=True)
        each = [GaussianProfile(k**0.5 / noise.sigma).epsilon(PAIR_DELTA) for k in visits if k]
        local.append(float(np.dot(each, times[visits > 0]) / n))
    lower = [np.mean((a < b)[b > 0]) for a, b in zip(code, realised, strict=True)]
    return Pairs(
        Spread.of(code), Spread.of(mended), Spread.of(realised), float(np.mean(local)),
        float(np.mean(lower)),
    )  # fmt: skip


def _path(protocol: TokenWalk, run: int) -> NDArray[np.int64]:
    return np.concatenate(list(paths(protocol, Seeds(run))))


def pair_figure(people: Sequence[int], locals_: Sequence[float]) -> Drawing:
    """The paper's Figure 1(b)."""
    with canvas(9.0, 5.0, len(locals_)) as drawn:
        for axes, epsilon in zip(drawn.axes, locals_, strict=True):
            found = [pairs(n, epsilon) for n in people]
            axes.plot(people, [each.local for each in found], **ALONE)
            _bars(axes, people, [each.code for each in found], PRINTED, 1.06)
            _bars(axes, people, [each.realised for each in found], OURS, 1.0)
            axes.set_title(f"one contribution: ε₀ = {epsilon:g}", color=INK, fontsize=11)
            _people_axis(axes, people, (0.03, 30.0), room=1.6)
        first, last = drawn.axes[0], drawn.axes[-1]
        plain_ticks(first.yaxis, [0.1, 1.0, 10.0])
        first.set_ylabel("ε of a pair on the walk that happened (δ = 10⁻⁷)")
        first.text(0.03, 0.96, "mean, least and greatest over\nall pairs and 10 walks",
                   color=MUTED, va="top", transform=first.transAxes)  # fmt: skip
        first.text(0.97, 0.56, "local, exact", color=MUTED, ha="right", transform=first.transAxes)
        last.text(0.03, 0.96, "the paper’s code", color=ORANGE, va="top", transform=last.transAxes)
        last.text(0.06, 0.36, "incrowd: exact\nfor the path", color=BLUE, weight="bold",
                  transform=last.transAxes)  # fmt: skip
        drawn.heading("What pairs of people learnt of each other, 100 contributions each")
        return drawn.drawing()


def _bars(
    axes: Any, people: Sequence[int], found: Sequence[Spread], style: Any, aside: float
) -> None:
    """Means as a line, from the least to the greatest as bars."""
    at = [n * aside for n in people]
    mean = [each.mean for each in found]
    low = [max(each.least, 1e-4) for each in found]
    axes.vlines(at, low, [each.greatest for each in found], color=style["color"], linewidth=1.1)
    axes.plot(at, mean, **style, marker="o", markersize=3.5)


@dataclass(frozen=True)
class Histograms:
    """What is printed, and what is known, of a histogram with a hundred contributions each."""

    printed: float
    mended: float
    code: Spread | None
    """As the paper's program computes it, on walks; only for few people."""
    hidden: float
    local: float
    attack: float


@lru_cache(maxsize=64)
def histograms(n: int, epsilon: float, categories: int, walks: bool) -> Histograms:
    """All bounds for n people."""
    steps = PER_PERSON * n
    protocol = TokenWalk(KRR(categories=categories, epsilon=epsilon), n=n, steps=steps)
    hidden, code = protocol.guarantee("peer"), None
    if walks:
        alone = _shuffled(epsilon)
        code = Spread.of(
            [code_pair_losses(_path(protocol, run), n, alone, PAIR_DELTA) for run in range(RUNS)]
        )
    return Histograms(
        printed=paper_theorem_6(n, steps, epsilon, DELTA).epsilon,
        mended=mended_theorem_6(n, steps, epsilon, DELTA).epsilon,
        code=code,
        hidden=hidden.epsilon(DELTA),
        local=protocol.guarantee("everyone").epsilon(DELTA),
        attack=hidden.lower(DELTA) or 0.0,
    )


@lru_cache(maxsize=4)
def _shuffled(epsilon: float) -> FloatArray:
    """The ε of a cycle of m reports: that of any shuffled ε0-randomizer, for all m up to a limit.

    The paper's program uses older bounds for it; this one is the smallest that is proven.
    """
    randomizer = Generic(epsilon=epsilon)
    crowds = [blanket_profile(randomizer, int(size)) for size in _SIZES[1:]]
    found = [epsilon, *(min(epsilon, crowd.epsilon(PAIR_DELTA)) for crowd in crowds)]
    place = np.searchsorted(_SIZES, np.arange(_SIZES[-1] + 1), side="right") - 1
    return np.array(found)[np.maximum(place, 0)]


def histogram_figure(people: Sequence[int], few: Sequence[int], epsilon: float) -> Drawing:
    """The paper's Figure 3, and on to more people."""
    categories, floor = (2, 10), 0.01
    with canvas(9.4, 5.4, len(categories)) as drawn:
        for axes, answers in zip(drawn.axes, categories, strict=True):
            found = [histograms(n, epsilon, answers, False) for n in people]
            walked = [histograms(n, epsilon, answers, True).code for n in few]
            attack = [round_down(each.attack) for each in found]
            axes.fill_between(people, floor, attack, **GROUND)
            axes.plot(people, [each.local for each in found], **ALONE)
            axes.plot(people, [each.mended for each in found], **MENDED)
            axes.plot(people, [each.printed for each in found], **PRINTED)
            _bars(axes, few, [each for each in walked if each], {**PRINTED, "linewidth": 1.0}, 1.0)
            axes.plot(people, [round_up(each.hidden) for each in found], **OURS)
            _ends(
                axes,
                people[-1],
                ((up(found[-1].hidden, 3), found[-1].hidden, BLUE),),
            )
            axes.set_title(f"{answers} categories", color=INK, fontsize=11)
            _people_axis(axes, people, (floor, 1e5), room=5.0)
        first, last = drawn.axes[0], drawn.axes[-1]
        plain_ticks(first.yaxis, [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0])
        first.set_ylabel("ε (ours at δ = 10⁻⁶)")
        for text, height, colour in (
            ("printed, composition mended", 0.97, PURPLE),
            ("printed", 0.91, ORANGE),
            ("bars: the paper’s way, on 10 walks", 0.85, ORANGE),
            ("local", 0.79, MUTED),
        ):
            last.text(0.97, height, text, color=colour, ha="right", va="top",
                      transform=last.transAxes)  # fmt: skip
        last.text(0.97, 0.73, "incrowd, path hidden", color=BLUE, weight="bold", ha="right",
                  va="top", transform=last.transAxes)  # fmt: skip
        first.text(people[0], floor * 1.3, "ruled out by an attack", color=MUTED)
        drawn.heading(f"A histogram by a token: 100 reports each, one alone has ε₀ = {epsilon:g}")
        return drawn.drawing()


# The error of a histogram.


@dataclass(frozen=True)
class Errors:
    """Errors of a frequency at one budget."""

    epsilon0: float
    """Of one report to the token."""
    token: float
    local: float


@lru_cache(maxsize=64)
def errors(n: int, categories: int, seeds: int) -> Errors:
    """Root mean squared errors over categories and seeds; the local one is exact."""
    epsilon0 = _affordable(n, categories)
    randomizer = KRR(categories=categories, epsilon=epsilon0)
    protocol = TokenWalk(randomizer, n=n, steps=PER_PERSON * n)
    values = np.sort(np.minimum(np.random.default_rng(1).geometric(0.3, n), categories)) - 1
    truth = np.bincount(values, minlength=categories) / n
    squares = [
        (collect(protocol, values, Seeds(seed)).estimate(randomizer).value - truth) ** 2
        for seed in range(seeds)
    ]
    once = KRR(categories=categories, epsilon=ERROR_BUDGET)
    reports = n * (truth * _keep(once) + (1 - _keep(once)) / categories)
    return Errors(
        epsilon0,
        math.sqrt(float(np.mean(squares))),
        math.sqrt(float(np.mean(once.from_tally(reports, n, n).variance))),
    )


def _keep(randomizer: KRR) -> float:
    odds = math.exp(randomizer.epsilon)
    return (odds - 1) / (odds + randomizer.categories - 1)


def _affordable(n: int, categories: int) -> float:
    """The largest ε0 of one report with which the walk keeps to the budget against a peer."""
    low, high = 1e-3, 16.0
    while high - low > 1e-3 * low:
        middle = math.sqrt(low * high)
        randomizer = KRR(categories=categories, epsilon=middle)
        guarantee = TokenWalk(randomizer, n=n, steps=PER_PERSON * n).guarantee("peer")
        if guarantee.delta(ERROR_BUDGET) <= DELTA:
            low = middle
        else:
            high = middle
    return low


def histogram_errors(people: Sequence[int], categories: Sequence[int], seeds: int) -> Drawing:
    """The error of a token's histogram and of a local one, at the same ε."""
    with canvas(9.4, 4.6, len(categories)) as drawn:
        for axes, answers in zip(drawn.axes, categories, strict=True):
            found = [errors(n, answers, seeds) for n in people]
            axes.plot(people, [each.local for each in found], **ALONE, marker="s", markersize=4)
            axes.plot(people, [each.token for each in found], **OURS, marker="o", markersize=4)
            axes.set_title(f"{answers} categories", color=INK, fontsize=11)
            _people_axis(axes, people, (3e-5, 1.0), room=2.0)
        first = drawn.axes[0]
        plain_ticks(first.yaxis, [1e-4, 1e-3, 0.01, 0.1, 1.0])
        first.set_ylabel("error of a frequency (root mean square)")
        first.text(0.97, 0.72, "local reports", color=MUTED, ha="right", transform=first.transAxes)
        first.text(0.05, 0.1, "incrowd, token walk", color=BLUE, weight="bold",
                   transform=first.transAxes)  # fmt: skip
        drawn.heading("A histogram at ε = 1, δ = 10⁻⁶: a token with a hidden path, and no token")
        return drawn.drawing()


# Graphs.


def graph_figure(names: Sequence[str]) -> Drawing:
    """What is learnt of others against their distance."""
    styles = ((BLUE, "solid"), (ORANGE, (0, (5, 2))), (GREEN, (0, (3, 1.2))),
              (PURPLE, (0, (5, 1, 1, 1))), (INK, (0, (1, 1))))  # fmt: skip
    with canvas(8.6, 5.4) as drawn:
        (axes,) = drawn.axes
        for name, (colour, line) in zip(names, styles, strict=False):
            found = [each for each in by_distance(name) if each.pairs >= ENOUGH]
            at = [each.distance for each in found]
            axes.plot(at, [each.share for each in found], color=colour, linestyle=line,
                      linewidth=2.0, marker="o", markersize=3, markevery=slice(8),
                      label=name)  # fmt: skip
        axes.set(xscale="log", yscale="log", xlim=(0.9, 260), ylim=(2e-4, 1.0))
        plain_ticks(axes.xaxis, [1, 2, 4, 8, 16, 32, 64, 128])
        plain_ticks(axes.yaxis, [0.001, 0.01, 0.1, 1.0])
        axes.set_xlabel("distance between two people in the graph")
        axes.set_ylabel("what one learns of the other, per contribution\n(1: seen alone)")
        axes.legend(frameon=False, labelcolor=INK, loc="upper right")
        drawn.heading("On a graph, neighbours learn more than strangers")
        return drawn.drawing()


def _ends(axes: Any, last: float, labels: Sequence[tuple[str, float, str]]) -> None:
    """Names or values, written beside the ends of lines."""
    for text, height, colour in labels:
        axes.text(last * 1.2, height, text, va="center", color=colour, bbox=_LABEL, fontsize=9)


def _people_axis(
    axes: Any, people: Sequence[int], height: tuple[float, float], room: float
) -> None:
    axes.set(xscale="log", yscale="log", ylim=height)
    axes.set_xlim(people[0] / 1.3, room * people[-1])
    powers = [n for n in people if math.log10(n).is_integer()]
    plain_ticks(axes.xaxis, powers if len(powers) > 2 else people)
    axes.set_xlabel("people")
