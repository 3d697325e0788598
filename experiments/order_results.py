"""Tables of ρ and λ: on all crowds, and at equal λ."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.common import Table
from experiments.order_measure import Effort, share_vulnerable, unlearned
from experiments.order_worlds import Setting, Way, crowd_of, sensitivities
from experiments.paper_order_shuffle import ALPHA, EPSILON, REDUCTIONS
from incrowd.protocols.order_shuffle.theorems.alpha import theta_for
from incrowd.protocols.order_shuffle.theorems.displacement import expected_displacement
from incrowd.report.format import count, percent, plain

__all__ = ["claims_table", "equal_table", "gains_table", "results_table"]

FloatArray = NDArray[np.float64]

_WAYS: dict[Way, str] = {
    "local": "not shuffled", "ours": "ours", "paper": "the paper’s", "uniform": "all shuffled",
}  # fmt: skip
_STANDS_FOR = {"PUDF": "California", "Adult": "Adult"}
_LEVELS = (0.25, 0.5, 0.75)


def results_table(settings: Sequence[Setting], effort: Effort) -> Table:
    """All ways on all crowds, with small groups and larger ones."""
    rows = []
    for setting in settings:
        for radius in dict.fromkeys((setting.small, setting.fixed)):
            for way, name in _WAYS.items():
                told = share_vulnerable(setting, effort, way, radius)
                before = share_vulnerable(setting, effort, "local").mean
                rows.append(
                    [
                        setting.name,
                        setting.words(radius),
                        name,
                        str(told),
                        _times(before, told.mean),
                        str(share_vulnerable(setting, effort, way, radius, balanced=False)),
                        str(unlearned(setting, effort, way, radius)),
                    ]
                )
    said = "; ".join(f"{name}: {times}, {where}" for name, (times, where) in REDUCTIONS.items())
    return Table(
        "Who is vulnerable, and what is learned",
        f"k-ary randomized response with ε0 = {EPSILON:g}, α = {ALPHA:g}; means ± one standard "
        f"deviation over {effort.trials} shuffles, each with {effort.randomizations} "
        "randomizations. ρ: the share of people whose value a vote of 25 others tells in at least "
        "90 % of the randomizations. The vote is balanced: it weighs each value by one over its "
        "overall share. Fewer: how many times fewer people than without shuffling. Plain vote: the "
        "paper’s words; where one value is common everywhere it tells those who hold it whatever is"
        " shuffled. λ: the error of what a calibrated model learns about each place, 1 for an even "
        f"guess. Times fewer in the paper’s text: {said}; California stands for PUDF, which cannot "
        "be had.",
        ("crowd", "groups", "release", "ρ", "fewer", "ρ, plain vote", "λ"),
        rows,
    )


def gains_table(settings: Sequence[Setting]) -> Table:
    """Where the smaller sensitivity comes from."""
    rows = []
    for setting in settings:
        for radius in setting.radii:
            found = sensitivities(setting, radius)
            rows.append(
                [
                    setting.name,
                    setting.words(radius),
                    count(crowd_of(setting).n),
                    count(found.largest),
                    found.kept.method,
                    count(found.paper),
                    count(found.ours),
                    *(
                        plain(more / less, 3) if less else "–"
                        for more, less in (
                            (found.paper, found.exact_searched),
                            (found.exact_searched, found.exact),
                            (found.exact, found.ours),
                            (found.paper, found.ours),
                        )
                    ),
                    *(_moved(setting, each) for each in (found.ours, found.paper)),
                ]
            )
    return Table(
        "Sensitivities in the experiments",
        "The paper’s: ω(ω + 1)/2 of the order that a breadth-first search finds. Ours: exact, of "
        "the order that is kept, for as many values as reports have. Gains, by how many times it "
        "is smaller: by exactness (in the paper’s order), by the order, by the number of values "
        "(about two for yes or no), and in all. At equal α, θ is larger by as much. Moves: by how "
        f"many ranks a report is expected to move at α = {ALPHA:g}; a third of all is a uniform "
        "shuffle. A group of m people has a sensitivity of at least m²/4 in any order, so that "
        "reports move by at least about 0.35·m²/α ranks: far beyond the group itself, once it has "
        "more than some tens of people. The least sensitive order need not be the one that keeps "
        "places best: where groups fall into many parts that are not joined, as the crescents at r "
        "= 0.002, a search takes the parts in any order, and more is lost than at a larger radius.",
        (
            "crowd", "groups", "people", "largest group", "order kept", "the paper’s", "ours",
            "by exactness", "by order", "by values", "in all", "moves, ours", "moves, the paper’s",
        ),
        rows,
    )  # fmt: skip


def _times(before: float, after: float) -> str:
    return plain(before / after, 3) if 1000 * after > before else "over 1,000"


def _moved(setting: Setting, sensitivity: int) -> str:
    if not sensitivity:
        return "0"
    moved = expected_displacement(crowd_of(setting).n, theta_for(ALPHA, sensitivity))
    return count(round(moved)) if moved >= 10 else plain(moved, 2)


def equal_table(settings: Sequence[Setting], effort: Effort, alphas: Sequence[float]) -> Table:
    """ρ and the α that is needed, at the same λ, by interpolation along each way's curve."""
    rows = []
    for setting in settings:
        best = unlearned(setting, effort, "local").mean
        worst = unlearned(setting, effort, "uniform").mean
        for level in _LEVELS:
            target = best + level * (worst - best)
            cells = [_at(setting, effort, way, alphas, target) for way in ("ours", "paper")]
            rows.append(
                [
                    f"{setting.name}, {setting.words(setting.fixed)}",
                    percent(level),
                    f"{target:.3f}",
                    *(_shown(rho, ".3f") for rho, _ in cells),
                    *(_shown(alpha, ".3g") for _, alpha in cells),
                    _ratio(cells[1][1], cells[0][1]),
                ]
            )
    return Table(
        "At equal λ",
        "Each way’s curve is traced by α from "
        f"{alphas[0]:g} to {alphas[-1]:g} and read where λ is a quarter, a half and three quarters "
        "of the way from no shuffle to a uniform one; read between points, on means over "
        f"{effort.trials} trials. A dash: the curve does not come there. ρ at equal λ is a "
        "property of how much is shuffled, so that both ways are close; what differs is the α that "
        "is guaranteed for it, which is smaller by the factor in the last column. On Adult that is "
        "far more than the sensitivities differ by: a breadth-first search from the largest group "
        "takes ages below and above it in turn, so that young and old people are neighbours in its "
        "order.",
        (
            "crowd", "way to uniform", "λ", "ρ ours", "ρ the paper’s", "α ours", "α the paper’s",
            "times",
        ),
        rows,
    )  # fmt: skip


def claims_table(settings: Sequence[Setting], effort: Effort, alphas: Sequence[float]) -> Table:
    """What it takes to protect as many people as the paper's text says."""
    rows = []
    for claimed, (times, where) in REDUCTIONS.items():
        for setting in settings:
            if setting.name != _STANDS_FOR[claimed]:
                continue
            local = share_vulnerable(setting, effort, "local").mean
            ways: tuple[Way, ...] = ("ours", "paper")
            for way in ways:
                here = share_vulnerable(setting, effort, way, setting.fixed).mean
                learned, told = _curve(setting, effort, way, alphas)
                rising = np.maximum.accumulate(told)
                position = _position(rising, local / times)
                rows.append(
                    [
                        f"{claimed}: {times} times fewer, {where}",
                        f"{setting.name}, {setting.words(setting.fixed)}",
                        _WAYS[way],
                        f"{local:.3f}",
                        f"{here:.3f}",
                        _shown(_read(np.log(alphas), position, exp=True), ".3g"),
                        _shown(_read(learned, position), ".3f"),
                        str(unlearned(setting, effort, "local")),
                        str(unlearned(setting, effort, "uniform")),
                    ]
                )
    return Table(
        "What the paper’s text says, and what it takes",
        "The paper’s text says how many times fewer people are vulnerable with a shuffle of α = "
        f"{ALPHA:g}. By its own formulas the shuffle is practically uniform there, on these data "
        "and with either sensitivity, because groups have hundreds of people. Needed: the α at "
        "which people are as many times fewer, read between the points of the curve traced by α, "
        "and the λ there, beside those of no shuffle and of a uniform one. California stands for "
        "PUDF, which cannot be had.",
        (
            "claim", "crowd", "way", "ρ, not shuffled", f"ρ at α = {ALPHA:g}", "α needed",
            "λ there", "λ, not shuffled", "λ, all shuffled",
        ),
        rows,
    )  # fmt: skip


def _curve(
    setting: Setting, effort: Effort, way: Way, alphas: Sequence[float]
) -> tuple[FloatArray, FloatArray]:
    """λ and ρ along the α of one way."""
    settled = [(setting.fixed, alpha) for alpha in alphas]
    learned = [unlearned(setting, effort, way, *each).mean for each in settled]
    told = [share_vulnerable(setting, effort, way, *each).mean for each in settled]
    return np.array(learned), np.array(told)


def _position(rising: FloatArray, target: float) -> float:
    """Where a rising curve has this height, in steps; not a number where it never does."""
    if not rising[0] <= target <= rising[-1]:
        return math.nan
    return float(np.interp(target, rising, np.arange(rising.size)))


def _read(curve: FloatArray, position: float, *, exp: bool = False) -> float:
    if math.isnan(position):
        return math.nan
    found = float(np.interp(position, np.arange(curve.size), curve))
    return math.exp(found) if exp else found


def _at(
    setting: Setting, effort: Effort, way: Way, alphas: Sequence[float], target: float
) -> tuple[float, float]:
    """ρ and α where a way has this λ; not a number where it never does."""
    learned, told = _curve(setting, effort, way, alphas)
    # λ falls with α, but for what few trials leave of noise.
    position = _position(-np.minimum.accumulate(learned), -target)
    return _read(told, position), _read(np.log(alphas), position, exp=True)


def _shown(value: float, form: str) -> str:
    return "–" if math.isnan(value) else format(value, form)


def _ratio(more: float, less: float) -> str:
    return "–" if math.isnan(more) or math.isnan(less) else plain(more / less, 3)
