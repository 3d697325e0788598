"""How much of a set of people keeps to itself: the paper's Figure 6, by simulation.

S is the middle of the reference order. A shuffle preserves the share η of S if at least that many
of the reports that S hands in are released at places of S. The paper asks for the largest η that 99
% of 50 draws reach, which is the least of the 50. Groups are taken to be any ω + 1 people in a row,
for which the bound by the width is exact: so there is one line for both sensitivities, and a second
one for groups of the same width of which only every tenth person is a member.

All of it is simulation: estimates, no guarantees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from experiments.common import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    Drawing,
    Table,
    canvas,
    plain_ticks,
)
from incrowd.protocols.order_shuffle.groupings import from_lists
from incrowd.protocols.order_shuffle.orders.reference import given_order
from incrowd.protocols.order_shuffle.theorems.alpha import theta_for
from incrowd.protocols.order_shuffle.theorems.sensitivity import kendall, paper_sensitivity
from incrowd.protocols.order_shuffle.utility import preservation_of_people
from incrowd.report.format import count, plain

__all__ = ["SPARSE", "Sizes", "figure", "preserved", "sensitivity_of", "table"]

SPARSE = 10
"""One in so many people between the ends of a sparse group is a member."""
ALPHA, WIDTH, SUBSET = 3.0, 30, 1000
"""Where they are not what varies."""
_LOOKS = ((BLUE, "solid"), (ORANGE, (0, (5, 2))), (GREEN, (0, (3, 1.2))), (PURPLE, (0, (1, 1))))


@dataclass(frozen=True)
class Sizes:
    """How much to compute."""

    people: int
    draws: int
    alphas: tuple[float, ...]
    widths: tuple[int, ...]
    subsets: tuple[int, ...]
    lines: tuple[tuple[int, int], ...]
    """(ω, |S|) of the lines over α."""


@lru_cache(maxsize=512)
def sensitivity_of(width: int, every: int) -> int:
    """Of a group with people at both ends and at every so many ranks between."""
    members = sorted({*range(0, width + 1, every), width})
    alone = [[each] for each in range(width + 1) if each not in set(members)]
    return int(kendall(from_lists([members, *alone]), np.arange(width + 1)).max())


@lru_cache(maxsize=4096)
def preserved(people: int, draws: int, theta: float, subset: int) -> float:
    """The least share of the middle people that stays among them, over so many draws."""
    first = (people - subset) // 2
    order, middle = given_order(range(people)), range(first, first + subset)
    return preservation_of_people(order, middle, theta, trials=draws, seed=6).minimum


def _eta(sizes: Sizes, alpha: float, width: int, subset: int, every: int = 1) -> float:
    theta = theta_for(alpha, sensitivity_of(width, every))
    return preserved(sizes.people, sizes.draws, theta, subset)


def table(sizes: Sizes) -> Table:
    """All points of the second and third panel, and the two ends of a line over α."""
    rows = []
    settings = [(alpha, WIDTH, SUBSET) for alpha in sizes.alphas]
    settings += [(ALPHA, width, SUBSET) for width in sizes.widths]
    settings += [(ALPHA, WIDTH, subset) for subset in sizes.subsets]
    for alpha, width, subset in dict.fromkeys(settings):
        rows.append(
            [
                plain(alpha),
                count(width),
                count(subset),
                count(paper_sensitivity(width)),
                count(sensitivity_of(width, 1)),
                count(sensitivity_of(width, SPARSE)),
                f"{_eta(sizes, alpha, width, subset):.3f}",
                f"{_eta(sizes, alpha, width, subset, SPARSE):.3f}",
            ]
        )
    return Table(
        "How much of a set keeps to itself: the paper’s Figure 6",
        f"{count(sizes.people)} people, S the middle of the reference order. η: the least share of "
        f"S that stays in S, over {sizes.draws} draws (which is what 99 % of them reach); an "
        "estimate by simulation. In a row: groups are any ω + 1 people in a row, where the bound "
        "by the width is exact. Sparse: groups of the same width with one member in "
        f"{SPARSE} people, where it is not.",
        ("α", "ω", "people in S", "by width", "exact, in a row", "exact, sparse", "η, in a row",
         "η, sparse"),
        rows,
    )  # fmt: skip


def figure(sizes: Sizes) -> Drawing:
    """The paper's Figures 6a, 6b and 6c."""
    with canvas(10.8, 5.0, 3) as drawn:
        by_alpha, by_width, by_subset = drawn.axes
        for (width, subset), (colour, line) in zip(sizes.lines, _LOOKS, strict=False):
            by_alpha.plot(sizes.alphas, [_eta(sizes, each, width, subset) for each in sizes.alphas],
                          color=colour, linestyle=line, linewidth=2.2,
                          label=f"ω = {width}, |S| = {count(subset)}")  # fmt: skip
        for subset, (colour, line) in zip((100, 1000, sizes.people // 2), _LOOKS, strict=False):
            for every, weight in ((1, 2.2), (SPARSE, 1.0)):
                by_width.plot(sizes.widths,
                              [_eta(sizes, ALPHA, each, subset, every) for each in sizes.widths],
                              color=colour, linestyle=line, linewidth=weight,
                              label=f"|S| = {count(subset)}" if every == 1 else None)  # fmt: skip
        for width, (colour, line) in zip((30, 100, 300), _LOOKS, strict=False):
            for every, weight in ((1, 2.2), (SPARSE, 1.0)):
                by_subset.plot(sizes.subsets,
                               [_eta(sizes, ALPHA, width, each, every) for each in sizes.subsets],
                               color=colour, linestyle=line, linewidth=weight,
                               label=f"ω = {width}" if every == 1 else None)  # fmt: skip
        by_subset.plot(sizes.subsets, np.array(sizes.subsets) / sizes.people, color=MUTED,
                       linewidth=1.4, linestyle=(0, (1, 1.6)), label="all shuffled")  # fmt: skip
        by_alpha.set(xscale="log", xlabel="α", ylabel=f"share η of S that stays, least of "
                     f"{sizes.draws} draws", ylim=(0, 1.02))  # fmt: skip
        plain_ticks(by_alpha.xaxis, [0.1, 0.3, 1, 3, 10])
        by_alpha.set_title("more order, more is kept", color=INK, fontsize=11)
        by_width.set(xscale="log", xlabel=f"width ω of the groups, α = {ALPHA:g}")
        plain_ticks(by_width.xaxis, [10, 30, 100, 300, 1000])
        by_width.set_title("wider groups", color=INK, fontsize=11)
        by_subset.set(xscale="log", xlabel=f"people in S of {count(sizes.people)}, α = {ALPHA:g}")
        plain_ticks(by_subset.xaxis, [10, 100, 1000, 10_000])
        by_subset.set_title("larger sets", color=INK, fontsize=11)
        for axes in drawn.axes:
            # Below the panel: lines go everywhere inside.
            axes.legend(frameon=False, labelcolor=INK, fontsize=9, loc="upper center", ncols=2,
                        bbox_to_anchor=(0.5, -0.14))  # fmt: skip
        by_width.text(0.97, 0.97, f"bold: people in a row\nthin: one in {SPARSE}", color=MUTED,
                      fontsize=9, ha="right", va="top", transform=by_width.transAxes)  # fmt: skip
        drawn.heading("How much of a set of people keeps to itself")
        return drawn.drawing()
