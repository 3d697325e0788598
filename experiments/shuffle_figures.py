"""The figures of ``experiments.shuffle``: bounds as bold lines, attacks as the ground below them.

In every figure the shaded ground is what an attack attains: no bound can lie in it. Curves are
labelled where they are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.common import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    PURPLE,
    Drawing,
    canvas,
    plain_ticks,
)
from incrowd.privacy import ComposedProfile, LocalProfile, ShuffleProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.mechanisms.shuffle import blanket_profile, clones_profile
from incrowd.randomizers import KRR, Generic, Randomizer
from incrowd.report.format import round_down, round_up, up

__all__ = ["Resolution", "epsilon_vs_eps0", "epsilon_vs_n", "profile", "rounds"]

DELTA = 1e-6
FloatArray = NDArray[np.float64]

OURS: dict[str, Any] = {"color": BLUE, "linewidth": 2.6}
CLONES: dict[str, Any] = {"color": ORANGE, "linewidth": 1.5, "linestyle": (0, (5, 2))}
ALONE: dict[str, Any] = {"color": MUTED, "linewidth": 1.2, "linestyle": (0, (1, 1.6))}
KARY: dict[str, Any] = {"color": PURPLE, "linewidth": 2.6, "linestyle": (0, (3, 1.2))}
GROUND: dict[str, Any] = {"color": INK, "alpha": 0.11, "linewidth": 0}


@dataclass(frozen=True)
class Resolution:
    """How many points the curves have, and how far into the slow corners they go.

    ``per_decade`` points of people from the ``fewest`` on, ``points`` over a range of ε, with ε0 up
    to ``greatest``; and which ``rounds``.
    """

    per_decade: int
    fewest: int
    points: int
    greatest: float
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
    steps = resolution.per_decade * round(math.log10(last / resolution.fewest)) + 1
    people = np.unique(np.geomspace(resolution.fewest, last, steps).round().astype(int))
    local = (1.0, 2.0, 4.0)
    with canvas(10.4, 4.7, len(local)) as drawn:
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
            axes.set_title(f"each report alone: ε₀ = {epsilon:g}", color=INK, fontsize=11)
            axes.set(xscale="log", yscale="log", xlim=(first, last), ylim=(floor, 6.5))
            plain_ticks(axes.xaxis, [100, 10_000, 10**6])
            axes.set_xlabel("people in the crowd")
        left, middle, right = drawn.axes
        plain_ticks(left.yaxis, [0.001, 0.01, 0.1, 1.0])
        left.set_ylabel("ε of the shuffled reports (δ = 10⁻⁶)")
        left.text(last, 1.1, "not shuffled", color=MUTED, ha="right", va="bottom")
        middle.text(25, 0.0013, "ruled out by an attack:\nno proof can reach here", color=MUTED)
        right.text(7.5e4, 0.26, "clones 2021", color=ORANGE)
        right.text(1.6e5, 0.043, "incrowd", color=BLUE, weight="bold", ha="right")
        drawn.heading("The larger the crowd, the less a shuffled report reveals")
        return drawn.drawing()


def epsilon_vs_eps0(resolution: Resolution) -> Drawing:
    """ε against ε0 for crowds of several sizes."""
    least, most, floor = 0.1, 8.0, 1e-4
    # The curves bend where crowds become too small to help, at large ε0: more points there.
    few, greatest = resolution.points // 3, resolution.greatest
    bend = 3 / 8 * greatest
    flat = np.geomspace(least, bend, few, endpoint=False)
    local = np.concatenate([flat, np.geomspace(bend, greatest, resolution.points - few)])
    with canvas(7.6, 5.4) as drawn:
        (axes,) = drawn.axes
        axes.plot(local, local, **ALONE)
        for n in (10**3, 10**4, 10**5, 10**6):
            curves = _generic_curves([(n, float(epsilon)) for epsilon in local])
            axes.plot(local, curves.clones, **CLONES)
            axes.fill_between(local, curves.attack, curves.bound, color=BLUE, alpha=0.3, lw=0)
            axes.plot(local, curves.bound, **OURS)
            _along(axes, local, curves.clones, f"{n:,} people", color=BLUE, weight="bold")
        _along(axes, local, local, "not shuffled: ε = ε₀", color=MUTED)
        axes.text(1.75, 0.56, "clones 2021", color=ORANGE, ha="right", va="bottom")
        axes.text(2.6, 0.0128, "incrowd", color=BLUE, weight="bold", va="top")
        axes.text(0.85, 0.0018, "strip: between bound and attack", color=MUTED, va="top")
        axes.set(xscale="log", yscale="log", xlim=(least, most), ylim=(floor, 10))
        plain_ticks(axes.xaxis, [0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0])
        plain_ticks(axes.yaxis, [0.0001, 0.001, 0.01, 0.1, 1.0, 10.0])
        axes.set_xlabel("ε₀ of each report")
        axes.set_ylabel("ε of the shuffled reports (δ = 10⁻⁶)")
        drawn.heading("What a crowd adds to each report’s own privacy")
        return drawn.drawing()


def _along(axes: Any, x: FloatArray, y: FloatArray, text: str, **style: Any) -> None:
    """Write above the left end of a curve, with its slope."""
    slope = math.degrees(math.atan2(float(y[1] - y[0]), float(x[1] - x[0])))
    axes.text(
        x[0] * 1.04, y[0] * 1.27, text, rotation=slope, rotation_mode="anchor",
        transform_rotates_text=True, **style,
    )  # fmt: skip


def profile(resolution: Resolution) -> Drawing:
    """δ against ε for one crowd: the whole curve, from above and from below."""
    n, local, floor, most = 10**4, 1.0, 1e-12, 0.08
    epsilons = np.linspace(0, most, resolution.points)
    panels: tuple[tuple[str, Randomizer], ...] = (
        ("any randomizer", Generic(epsilon=local)),
        ("16-ary randomized response", KRR(epsilon=local, categories=16)),
    )
    with canvas(9.0, 4.7, len(panels)) as drawn:
        for axes, (name, randomizer) in zip(drawn.axes, panels, strict=True):
            bound = blanket_profile(randomizer, n)
            clones = clones_profile(randomizer, n)
            attack = [_attained(randomizer, n, float(epsilon)) for epsilon in epsilons]
            axes.fill_between(epsilons, floor, np.maximum(attack, 1e-300), **GROUND)
            axes.plot(epsilons, [clones.delta(float(e)) for e in epsilons], **CLONES)
            axes.plot(epsilons, [bound.delta(float(e)) for e in epsilons], **OURS)
            axes.set_title(name, color=INK, fontsize=11)
            axes.set(yscale="log", xlim=(0, most), ylim=(floor, 0.02))
            axes.set_xticks([0, 0.02, 0.04, 0.06, 0.08], ["0", "0.02", "0.04", "0.06", "0.08"])
            axes.set_xlabel("ε")
        left, right = drawn.axes
        left.set_yticks([1e-12, 1e-9, 1e-6, 1e-3], ["10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³"])
        left.set_ylabel("δ")
        left.text(0.0025, 1e-11, "ruled out by an attack:\nno proof can reach here", color=MUTED)
        left.text(0.0375, 1e-4, "clones 2021", color=ORANGE)
        at = 0.054
        left.annotate(
            "incrowd", (at, blanket_profile(Generic(epsilon=local), n).delta(at)), (-66, -4),
            textcoords="offset points", ha="right", va="center", color=BLUE, weight="bold",
            arrowprops={"arrowstyle": "-", "color": BLUE, "linewidth": 1},
        )  # fmt: skip
        right.text(0.0285, 4e-9, "incrowd:\nthe attack\nmeets it", color=BLUE, weight="bold")
        drawn.heading("10,000 people, ε₀ = 1: the whole privacy curve")
        return drawn.drawing()


def _attained(randomizer: Randomizer, n: int, epsilon: float) -> float:
    """The δ of the strongest attack at this ε, from below."""
    cap = LocalProfile(randomizer)
    found = (ShuffleProfile(law, n, cap).bracket(epsilon).lower for law in randomizer.attack())
    return max(found)


def rounds(resolution: Resolution) -> Drawing:
    """ε against the number of rounds, for two crowds."""
    local, floor, most = 1.0, 0.006, 3000.0
    times = resolution.rounds
    with canvas(9.0, 4.7, 2) as drawn:
        for axes, n in zip(drawn.axes, (10**3, 10**4), strict=True):
            lines: tuple[tuple[str, Profile, dict[str, Any]], ...] = (
                ("not shuffled", LocalProfile(Generic(epsilon=local)), ALONE),
                ("any randomizer", blanket_profile(Generic(epsilon=local), n), OURS),
                ("16-ary response", blanket_profile(KRR(epsilon=local, categories=16), n), KARY),
            )
            for name, each, style in lines:
                after = [ComposedProfile(((each, t),)).epsilon(DELTA) for t in times]
                axes.plot(times, after, **style)
                box = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}  # hides the grid
                text: dict[str, Any] = {"color": style["color"], "weight": "bold", "bbox": box}
                axes.text(times[-1] * 1.15, after[-1], up(after[-1], 3), va="center", **text)
                # Rising lines: what stands below the left or above the right end meets none.
                if style is KARY:
                    axes.text(times[0], after[0] * 0.72, name, va="top", **text)
                else:
                    axes.text(times[-1], after[-1] * 1.35, name, ha="right", **text)
            axes.set_title(f"{n:,} people", color=INK, fontsize=11)
            axes.set(xscale="log", yscale="log", xlim=(0.8, 4.2 * times[-1]), ylim=(floor, most))
            plain_ticks(axes.xaxis, times[:: max(1, (len(times) - 1) // 3)])
            axes.set_xlabel("rounds")
        plain_ticks(drawn.axes[0].yaxis, [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0])
        drawn.axes[0].set_ylabel("ε over all rounds (δ = 10⁻⁶)")
        drawn.heading("Round after round, ε₀ = 1 in each")
        return drawn.drawing()
