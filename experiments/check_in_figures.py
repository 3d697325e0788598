"""The figures of ``experiments.check_in``: bounds as bold lines, attacks as the ground below them.

In every figure the shaded ground is what an attack attains: no bound can lie in it. Whatever is no
bound is dashed and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.check_in_published import distributed_renyi
from experiments.common import BLUE, GREEN, INK, MUTED, ORANGE, PAPER, Drawing, canvas, plain_ticks
from experiments.paper_check_in import paper_optimistic_renyi, paper_without_replacement_renyi
from incrowd.privacy import ComposedProfile, LocalProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.privacy.renyi import renyi_epsilon, shuffled_gaussian_renyi
from incrowd.protocols.check_in.theorems.secure_aggregation import DistributedCheckIn
from incrowd.randomizers import Gaussian
from incrowd.report.format import plain, round_down, round_up, up

__all__ = ["DISTRIBUTED", "Resolution", "distributed", "gaussian", "optimistic", "sums"]

FloatArray = NDArray[np.float64]

DISTRIBUTED = (10_000, 0.1, 1.0)
"""People, rate and noise of the paper's Figure 5; it does not say how many people."""

OURS: dict[str, Any] = {"color": BLUE, "linewidth": 2.6}
ALONE: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "linestyle": (0, (1, 1.6))}
GROUND: dict[str, Any] = {"color": INK, "alpha": 0.11, "linewidth": 0}
NEITHER: dict[str, Any] = {"color": ORANGE, "linewidth": 1.6, "linestyle": (0, (5, 2))}
OTHER: dict[str, Any] = {"color": GREEN, "linewidth": 1.8, "linestyle": (0, (3, 1.2))}
_LABEL = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}


@dataclass(frozen=True)
class Resolution:
    """Which numbers of rounds, and which ε0 of the Gaussian reports."""

    rounds: tuple[int, ...]
    local: tuple[float, ...]


def gaussian(resolution: Resolution) -> Drawing:
    """The paper's Figure 3: Gaussian reports, shuffled, round after round."""
    n, delta, delta0, floor = 10_000, 1e-4, 1e-8, 0.003
    times, orders = resolution.rounds, range(2, 257)
    with canvas(9.0, 4.8, len(resolution.local)) as drawn:
        for axes, epsilon in zip(drawn.axes, resolution.local, strict=True):
            randomizer = Gaussian(epsilon=epsilon, delta=delta0)
            shuffled = [ComposedProfile(((blanket_profile(randomizer, n), t),)) for t in times]
            alone = [ComposedProfile(((LocalProfile(randomizer), t),)) for t in times]
            levels = shuffled_gaussian_renyi(orders, n=n, sigma=randomizer.sigma)
            bound = [round_up(each.epsilon(delta)) for each in shuffled]
            attack = [round_down(each.lower(delta) or 0.0) for each in shuffled]
            turned = [renyi_epsilon(orders, t * levels, delta) for t in times]
            axes.fill_between(times, floor, attack, **GROUND)
            axes.plot(times, [each.epsilon(delta) for each in alone], **ALONE)
            axes.plot(times, turned, **NEITHER)
            axes.plot(times, bound, **OURS)
            _ends(axes, times, ((up(bound[-1], 3), bound[-1], BLUE),))
            axes.set_title(
                f"each report: ε₀ = {epsilon:g}, δ₀ = 10⁻⁸ (σ = {plain(randomizer.sigma, 3)})",
                color=INK,
                fontsize=11,
            )
            _axes(axes, times, floor, 1000.0)
        first = drawn.axes[0]
        plain_ticks(first.yaxis, [0.01, 0.1, 1.0, 10.0, 100.0])
        first.set_ylabel("ε over all rounds (δ = 10⁻⁴)")
        first.text(times[-1], floor * 1.4, "ruled out by an attack", color=MUTED, ha="right")
        first.text(times[0], 60.0, "not shuffled", color=MUTED)
        converted = "one data set’s Rényi\ndivergences, converted:\nno bound"
        first.text(times[0], 0.045, converted, color=ORANGE)
        first.text(times[-1] / 2, 1.4, "incrowd", color=BLUE, weight="bold", ha="right")
        drawn.heading("10,000 shuffled Gaussian reports, round after round")
        return drawn.drawing()


def optimistic(resolution: Resolution) -> Drawing:
    """The privacy side of the paper's Figure 4: an optimistic estimate beside what is proven."""
    n, m, sigma, floor = 60_000, 600, 0.86, 1e-3
    delta, times, orders = 1 / n, resolution.rounds, range(2, 129)
    estimates = []
    for noise in (sigma, sigma / 2):
        levels = [0.0, 0.0, *shuffled_gaussian_renyi(orders, n=m, sigma=noise)]
        one = paper_optimistic_renyi(orders, n, m, levels)
        estimates.append([renyi_epsilon(orders, t * one, delta) for t in times])
    summed, alone = (
        [DistributedCheckIn(n, m / n, t, sigma).guarantee(view) for t in times]
        for view in ("curator", "everyone")
    )
    with canvas(7.6, 5.2) as drawn:
        (axes,) = drawn.axes
        bound = [round_up(each.epsilon(delta)) for each in summed]
        axes.fill_between(times, floor, [each.lower(delta) or 0.0 for each in summed], **GROUND)
        seen = [round_up(each.epsilon(delta)) for each in alone]
        axes.plot(times, seen, **ALONE)
        for each in estimates:
            axes.plot(times, each, **NEITHER)
        axes.plot(times, bound, **OURS)
        _ends(
            axes,
            times,
            (
                (up(bound[-1], 3), bound[-1], BLUE),
                (up(seen[-1], 3), seen[-1], MUTED),
                *((plain(each[-1], 3), each[-1], ORANGE) for each in estimates),
            ),
        )
        _axes(axes, times, floor, 300.0)
        plain_ticks(axes.yaxis, [0.001, 0.01, 0.1, 1.0, 10.0, 100.0])
        axes.set_ylabel("ε over all rounds (δ = 1/60,000)")
        for text, line in zip(("as printed", "vectors replaced"), estimates, strict=True):
            words = f"optimistic estimate, not a guarantee ({text})"
            axes.text(times[0], line[0] * 1.3, words, color=ORANGE)
        left: dict[str, Any] = {"x": times[0]}
        right: dict[str, Any] = {"x": times[-1], "ha": "right"}
        axes.text(**left, y=35.0, s="proven: every vector is seen, with its sender", color=MUTED)
        axes.text(**left, y=0.03, s="proven: only the sum is seen", color=BLUE, weight="bold")
        axes.text(**right, y=floor * 1.5, s="ruled out by an attack on the sum", color=MUTED)
        drawn.heading("600 of 60,000 people per round, noise σ = 0.86 on each vector")
        return drawn.drawing()


@dataclass(frozen=True)
class Sums:
    """What is known of noisy sums over some rounds, at δ = 1/n."""

    fixed: float
    renyi: float
    bound: float
    attack: float


@lru_cache(maxsize=64)
def distributed(n: int, rate: float, sigma: float, rounds: int) -> Sums:
    """Check-in and a fixed crowd of the same mean size."""
    delta, orders = 1 / n, tuple(range(2, 257))
    fixed, random = _levels(n, rate, sigma, orders)
    guarantee = DistributedCheckIn(n, rate, rounds, sigma).guarantee()
    return Sums(
        fixed=renyi_epsilon(orders, rounds * fixed, delta),
        renyi=renyi_epsilon(orders, rounds * random, delta),
        bound=guarantee.epsilon(delta),
        attack=guarantee.lower(delta) or 0.0,
    )


@lru_cache(maxsize=4)
def _levels(
    n: int, rate: float, sigma: float, orders: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    return (
        paper_without_replacement_renyi(orders, n, round(n * rate), sigma),
        distributed_renyi(orders, n=n, rate=rate, sigma=sigma),
    )


def sums(resolution: Resolution) -> Drawing:
    """The paper's Figure 5: a sum over a random crowd, and over a fixed one."""
    n, rate, sigma = DISTRIBUTED
    times, floor = resolution.rounds, 0.01
    found = [distributed(n, rate, sigma, t) for t in times]
    with canvas(7.6, 5.2) as drawn:
        (axes,) = drawn.axes
        axes.fill_between(times, floor, [round_down(each.attack) for each in found], **GROUND)
        axes.plot(times, [each.renyi for each in found], **NEITHER)
        axes.plot(times, [each.fixed for each in found], **OTHER)
        axes.plot(times, [round_up(each.bound) for each in found], **OURS)
        last = found[-1]
        _ends(
            axes,
            times,
            ((up(last.bound, 3), last.bound, BLUE), (up(last.renyi, 3), last.renyi, ORANGE)),
        )
        _axes(axes, times, floor, 20.0)
        plain_ticks(axes.yaxis, [0.01, 0.1, 1.0, 10.0])
        axes.set_ylabel("ε over all rounds (δ = 10⁻⁴)")
        axes.text(times[0], 2.0, "check-in, Rényi (Theorem 4, mended)", color=ORANGE)
        axes.text(times[0] * 1.9, found[0].fixed, "fixed crowd, Rényi", color=GREEN, va="top")
        axes.text(times[-1] / 50, last.bound / 4, "incrowd", color=BLUE, weight="bold")
        axes.text(times[-1], floor * 1.3, "ruled out by an attack", color=MUTED, ha="right")
        drawn.heading("The sum of a random tenth of 10,000 people, noise σ = 1 on each")
        return drawn.drawing()


def _ends(axes: Any, times: Sequence[int], labels: Sequence[tuple[str, float, str]]) -> None:
    """The last value of each line, written beside its end."""
    for text, height, colour in labels:
        axes.text(
            times[-1] * 1.15, height, text, va="center", color=colour, weight="bold", bbox=_LABEL
        )


def _axes(axes: Any, times: Sequence[int], floor: float, most: float) -> None:
    axes.set(xscale="log", yscale="log", xlim=(0.8, 4.2 * times[-1]), ylim=(floor, most))
    plain_ticks(axes.xaxis, times[:: max(1, (len(times) - 1) // 3)])
    axes.set_xlabel("rounds")
