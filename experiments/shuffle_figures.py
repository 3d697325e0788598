"""The figures of ``experiments.shuffle``: bounds as bold lines, attacks as the ground below them.

In every figure the shaded ground is what an attack attains: no bound can lie in it. Curves are
labelled where they are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.common import (
    BLUE,
    INK,
    LINE,
    MUTED,
    ORANGE,
    PAPER,
    PURPLE,
    Drawing,
    canvas,
    plain_ticks,
)
from incrowd.privacy import ComposedProfile, LocalProfile
from incrowd.privacy.guarantee import Profile
from incrowd.protocols.trusted_shuffle.privacy import blanket_profile, clones_profile
from incrowd.randomizers import KRR, Generic
from incrowd.report.format import round_down, round_up, up

__all__ = ["Resolution", "epsilon_vs_eps0", "epsilon_vs_n", "profile", "rounds"]

DELTA = 1e-6
FloatArray = NDArray[np.float64]

OURS: dict[str, Any] = {"color": BLUE, "linewidth": 2.6}
CLONES: dict[str, Any] = {"color": ORANGE, "linewidth": 1.5, "linestyle": (0, (5, 2))}
ALONE: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "linestyle": (0, (1, 1.6))}
GROUND: dict[str, Any] = {"color": INK, "alpha": 0.11, "linewidth": 0}


@dataclass(frozen=True)
class Resolution:
    """How many points a curve has: per decade of people, over a range of ε, and which rounds."""

    per_decade: int
    points: int
    rounds: tuple[int, ...]


@dataclass(frozen=True)
class Curves:
    """Bound, clones 2021 and attack at each point of an axis."""

    bound: FloatArray
    clones: FloatArray
    attack: FloatArray


def _generic_curves(settings: list[tuple[int, float]]) -> Curves:
    """At each (n, ε0): what holds for every ε0-randomizer."""
    bound, clones, attack = [], [], []
    for n, epsilon in settings:
        ours = blanket_profile(Generic(epsilon=epsilon), n)
        bound.append(round_up(ours.epsilon(DELTA)))
        attack.append(round_down(ours.lower(DELTA) or 0.0))
        clones.append(round_up(clones_profile(Generic(epsilon=epsilon), n).epsilon(DELTA)))
    return Curves(np.array(bound), np.array(clones), np.array(attack))


def epsilon_vs_n(resolution: Resolution) -> Drawing:
    """ε against the number of people, one panel per ε0: the picture of the front page."""
    first, last, floor, marked = 10, 10**7, 5e-4, 10**4
    steps = resolution.per_decade * round(math.log10(last / first)) + 1
    people = np.unique(np.geomspace(first, last, steps).round().astype(int))
    local = (1.0, 2.0, 4.0)
    with canvas(10.4, 4.5, len(local)) as drawn:
        for axes, epsilon in zip(drawn.axes, local, strict=True):
            curves = _generic_curves([(int(n), epsilon) for n in people])
            axes.fill_between(people, floor, curves.attack, **GROUND)
            axes.axhline(epsilon, **ALONE)
            axes.plot(people, curves.clones, **CLONES)
            axes.plot(people, curves.bound, **OURS)
            at_mark = blanket_profile(Generic(epsilon=epsilon), marked).epsilon(DELTA)
            axes.plot(
                marked, at_mark, "o", markersize=8.5, color=BLUE, markeredgecolor=PAPER,
                markeredgewidth=1.6, zorder=5,
            )  # fmt: skip
            axes.annotate(
                f"10,000 people:\nε = {up(at_mark, 2)}", (marked, at_mark), xytext=(-9, -8),
                textcoords="offset points", ha="right", va="top", color=BLUE, weight="bold",
            )  # fmt: skip
            axes.set_title(f"each report alone: ε0 = {epsilon:g}", color=INK, fontsize=11)
            axes.set(xscale="log", yscale="log", xlim=(first, last), ylim=(floor, 6.5))
            plain_ticks(axes.xaxis, [100, 10_000, 10**6])
            axes.set_xlabel("people in the crowd")
        left, middle, right = drawn.axes
        plain_ticks(left.yaxis, [0.001, 0.01, 0.1, 1.0])
        left.set_ylabel("ε of the shuffled reports, δ = 1e−6")
        left.text(last, 1.08, "not shuffled", color=MUTED, ha="right", va="bottom")
        middle.text(25, 0.0009, "an attack succeeds:\nno proof can be here", color=MUTED)
        _tag(right, "clones 2021", 2.2e5, 0.24, ORANGE)
        _tag(right, "incrowd", 1.1e5, 0.02, BLUE, weight="bold", ha="right")
        return drawn.drawing()


def _tag(axes: Any, text: str, x: float, y: float, color: str, **more: Any) -> None:
    axes.text(x, y, text, color=color, **more)


def epsilon_vs_eps0(resolution: Resolution) -> Drawing:
    """ε against ε0 for crowds of several sizes."""
    local = np.geomspace(0.1, 8.0, resolution.points)
    with canvas(7.6, 5.2) as drawn:
        (axes,) = drawn.axes
        axes.plot(local, local, **ALONE)
        for n in (10**3, 10**4, 10**5, 10**6):
            curves = _generic_curves([(n, float(epsilon)) for epsilon in local])
            axes.plot(local, curves.clones, **CLONES)
            axes.fill_between(local, curves.attack, curves.bound, color=BLUE, alpha=0.35, lw=0)
            axes.plot(local, curves.bound, **OURS)
        axes.set(xscale="log", yscale="log", xlim=(0.1, 8))
        return drawn.drawing()


def profile(resolution: Resolution) -> Drawing:
    """δ against ε for one crowd: the whole curve, from above and from below."""
    raise NotImplementedError


def rounds(resolution: Resolution) -> Drawing:
    """ε against the number of rounds."""
    raise NotImplementedError
