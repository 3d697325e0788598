"""Network shuffling on the paper's own graphs: how many rounds are enough, and for whom.

    INCROWD_DATA=DIRECTORY python -m experiments.network_real [--quick --out DIRECTORY]

Needs the data sets and, the first time, hours; what has been computed is kept under
``build/experiments`` (``experiments.network_rounds`` says how it is computed). Everything that is
called ours is proven and rounded up; what is called printed are the paper's formulas with the
paper's own numbers, no bounds (``docs/theory/network_shuffle.md``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments import network_real_figures as figures
from experiments.common import Experiment, Table
from experiments.network_bounds import DELTA, all_printed
from experiments.network_graphs import PRINTED, data, one_sided, small, small_one_sided
from experiments.network_mean import DIMENSION, Point, trade_off
from experiments.network_rounds import (
    BUILD,
    CASES,
    EPSILON,
    LAZY,
    SHARES,
    WITHIN,
    Case,
    Curve,
    Store,
    compute,
)
from incrowd.blocks import values_of
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle.theorems import routes
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.randomizers import Generic
from incrowd.report.format import count, down, percent, plain, up
from incrowd.report.format import small as small_number

LOOKED_AT = 20
"""Rounds after which the worst person on the Twitch graph is looked at."""
MEAN_ROUNDS = 200
"""Rounds of the private mean: enough for what is proven of a single report each."""
CURVE_ROUNDS = (1, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
TWITCH = CASES[0].name
"""Mixes fast; the others are those of the paper's Figure 4."""


@dataclass(frozen=True)
class Size:
    """How much to compute, and on what."""

    cases: tuple[Case, ...]
    """The first is the graph that is looked at more closely."""
    store: Store
    one_sided: Callable[[str], NDArray[np.float64]]
    locals_: tuple[float, ...]
    seeds: int
    dimension: int

    @property
    def names(self) -> tuple[str, ...]:
        """The graphs, in the order of the paper's table."""
        used = {case.name for case in self.cases}
        return tuple(name for name in PRINTED if name in used)


FULL = Size(
    cases=CASES,
    store=Store(BUILD, data),
    one_sided=one_sided,
    locals_=(0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
    seeds=20,
    dimension=DIMENSION,
)
QUICK = Size(
    cases=(
        Case("twitch_de", 0, exact=20),
        Case("twitch_de", 3, exact=16),
        Case("deezer_europe", 3, exact=14),
        Case("deezer_europe", 0),
    ),
    store=Store(None, small),
    one_sided=small_one_sided,
    locals_=(1.0,),
    seeds=2,
    dimension=8,
)


@lru_cache(maxsize=2)
def curves(size: Size) -> dict[tuple[str, int, float], Curve]:
    """Everyone's ε on every graph, with and without random peers, by graph, peers and laziness."""
    return {
        (case.name, case.peers, laziness): curve
        for case in size.cases
        for laziness, curve in compute(case, size.store).items()
    }


def gamma_table(size: Size) -> Table:
    """Table 4, checked."""
    rows = []
    for name in size.names:
        printed = PRINTED[name]
        graph = size.store.load(name)
        counts = size.one_sided(name)
        one = graph.n * float(np.sum(counts**2)) / float(counts.sum()) ** 2
        numbers = (graph.gamma, one, printed.irregularity)
        gap = graph.spectral_gap()
        rows.append(
            [printed.title, count(graph.n), count(graph.m), *(plain(each, 5) for each in numbers),
             plain(gap), count(round(np.log(graph.n) / gap))]
        )  # fmt: skip
    return Table(
        "How unequal the degrees are",
        "Γ = n Σ π² where π is the stationary law of the walk, degree over twice the number of "
        "edges: 1 on a regular graph. One-sided: the same with, in place of the degree, the "
        "number of edges to people of a higher number in the original file, loops included. It "
        "gives what the paper prints, to every digit: an edge list stored one way, read as if it "
        "were stored both ways, would. Gap: 1 − max(|λ₂|, |λ_min|) of the simple walk; the last "
        "column is the paper's mixing time, log n over the gap.",
        ("graph", "n", "edges", "Γ", "one-sided", "printed", "gap", "log n / gap"),
        rows,
    )


def rounds_table(size: Size) -> Table:
    """The main table."""
    found, rows = curves(size), []
    for name in size.names:
        for peers in (0, 3):
            for laziness in (0.0, LAZY):
                curve = found[name, peers, laziness]
                needed = [curve.needed(share) for share in SHARES.values()]
                routes = list(dict.fromkeys(one[1] for one in needed if one is not None))
                rows.append(
                    [
                        PRINTED[name].title,
                        "3 random peers" if peers else "as it is",
                        "lazy" if laziness else "simple",
                        *("–" if one is None else count(one[0]) for one in needed),
                        up(curve.trusted),
                        ", ".join(routes),
                    ]
                )
    return Table(
        "Rounds needed",
        f"Rounds until the median person, 99 % of all people and the worst person have an ε "
        f"within {percent(WITHIN - 1)} of the trusted shuffler's, for any randomizer of ε0 = "
        f"{EPSILON:g}, at δ = {small_number(DELTA)}. Lazy: a report stays with probability "
        f"{LAZY:g}. With 3 random peers everyone also knows three people drawn at random, who know "
        "them too. Route: how it is known. Exact: all walks were followed (from 48 rounds on, "
        "compared after every second one, from 96 on every fourth). Mixed: from the exact walks of "
        "the simple kind, averaged over how often a lazy report moves: an upper bound. Spectral: "
        "by eigenpairs with a certified rest: an upper bound, close for the worst person and "
        "cruder for the others.",
        ("graph", "people know", "walk", *SHARES, "trusted shuffler’s ε", "route"),
        rows,
    )


def curves_table(size: Size) -> Table:
    """Figure 4, for every graph."""
    found, rows = curves(size), []
    for name in size.names:
        printed, curve = PRINTED[name], found[name, 0, 0.0]
        gap = size.store.load(name).spectral_gap()
        for rounds in CURVE_ROUNDS:
            at = int(np.searchsorted(curve.rounds, rounds, side="right")) - 1
            if at < 0 or (at == curve.rounds.size - 1 and rounds > 2 * curve.rounds[-1]):
                continue
            formula = all_printed(EPSILON, printed.n, printed.irregularity, gap, rounds)
            cells = [up(float(curve.at(share)[at])) for share in SHARES.values()]
            rows.append([printed.title, count(rounds), *cells, up(curve.trusted), plain(formula)])
    return Table(
        "ε after so many rounds of the simple walk",
        f"Any randomizer of ε0 = {EPSILON:g}, δ = {small_number(DELTA)}. Where a number of rounds "
        "was not evaluated, the last one before it counts, as nobody's ε grows; routes as in the "
        "table of rounds needed. Printed: Theorem 5.3 of the paper with its Γ and the gap of the "
        "graph.",
        ("graph", "rounds", *SHARES, "trusted shuffler", "printed"),
        rows,
    )


def worst_table(size: Size) -> Table:
    """Who is worst off after 20 rounds on the Twitch graph, and that an attack shows it."""
    case = size.cases[0]
    graph = size.store.graph(case)
    protocol = NetworkShuffle(Generic(epsilon=EPSILON), graph=graph, rounds=LOOKED_AT)
    guarantee = protocol.guarantee()
    facts = values_of(protocol.diagnostics(DELTA, guarantee))
    worst = facts["worst_person"]
    degrees = graph.degrees[graph.neighbours(worst["person"])]
    printed = PRINTED[case.name]
    formula = all_printed(EPSILON, printed.n, printed.irregularity, graph.spectral_gap(), LOOKED_AT)
    rows = [
        ["ε of the worst person, at most", up(guarantee.epsilon(DELTA))],
        ["ε of the worst person, at least (attack)", down(guarantee.lower(DELTA))],
        ["ε of 99 % of people, at most", up(facts["p99_epsilon"])],
        ["ε of the median person, at most", up(facts["median_epsilon"])],
        ["ε behind a trusted shuffler, at most", up(facts["trusted_shuffler_epsilon"])],
        [
            f"people within {percent(WITHIN - 1)} of the trusted shuffler",
            percent(facts["mixed_share"]),
        ],
        ["neighbours of the worst person", count(worst["degree"])],
        ["neighbours that those have", ", ".join(count(int(degree)) for degree in degrees[:4])],
        ["why", worst["why"]],
        ["printed in the paper, for everybody", plain(formula)],
    ]
    return Table(
        f"{printed.title} after {LOOKED_AT} rounds",
        f"The simple walk, any randomizer of ε0 = {EPSILON:g}, δ = {small_number(DELTA)}. The "
        "attack is explicit: the curator looks for the report near its owner.",
        ("what", "value"),
        rows,
    )


@lru_cache(maxsize=2)
def points(size: Size) -> list[Point]:
    """Figure 9: every ε0 in both modes."""
    case = size.cases[0]
    graph, gamma = size.store.graph(case), PRINTED[case.name].irregularity
    mixing = routes._from_modes(size.store.certificate(case), Walk((graph,)), MEAN_ROUNDS)
    return trade_off(graph, mixing, gamma, size.locals_, size.seeds, size.dimension)


def mean_table(size: Size) -> Table:
    """Figure 9."""
    rows = [
        [each.mode, f"{each.local:g}", up(each.epsilon), plain(each.printed, 3),
         plain(each.error, 3)]
        for each in points(size)
    ]  # fmt: skip
    return Table(
        "A private mean over the Twitch graph",
        f"Unit vectors of {size.dimension} dimensions, PrivUnit, {MEAN_ROUNDS} rounds of the "
        f"simple walk; the squared distance from the true mean, averaged over {size.seeds} "
        f"runs. ε: what is proven at δ = {small_number(DELTA)} for the worst person, from "
        "PrivUnit's own law. Printed: Theorems 5.3 and 5.5 of the paper, after endless rounds.",
        ("handed in", "ε0", "ε", "ε printed", "squared error"),
        rows,
    )


EXPERIMENT = Experiment(
    "experiments.network_real",
    {
        "network_gamma.md": gamma_table,
        "network_worst.md": worst_table,
        "network_rounds.md": rounds_table,
        "network_rounds.svg": lambda size: figures.rounds(size.names, curves(size)),
        "network_curves.md": curves_table,
        "network_curves.svg": lambda size: figures.against_printed(
            {name: curves(size)[name, 0, 0.0] for name in size.names if name != TWITCH},
            {name: size.store.load(name).spectral_gap() for name in size.names},
        ),
        "network_mean.md": mean_table,
        "network_mean.svg": lambda size: figures.mean(points(size)),
    },
    FULL,
    QUICK,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
