"""Network shuffling: what the paper's tables and figures say, and what is proven in their place.

    python -m experiments.network_shuffle [--quick --out DIRECTORY]

Everything here needs no data: sizes and Γ are those that the paper prints, and graphs are drawn at
random. ``experiments.network_real`` does the rest, on real graphs. Paper: "Network Shuffling:
Privacy Amplification via Random Walks" (Liew, Takahashi, Takagi, Kato, Cao, Yoshikawa). Its
formulas are those of ``experiments.paper_network_shuffle``, evaluated as printed, with half of the
total δ for each of its two parts; they are **not bounds** where the tables say so
(``docs/theory/network_shuffle.md``). Everything called ours is proven and rounded up.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from experiments import network_figures as figures
from experiments.common import Experiment, Table
from experiments.network_bounds import (
    DELTA,
    all_ours,
    all_printed,
    closed_clones,
    single_ours,
    single_printed,
    subsampling,
    swapping,
)
from experiments.network_graphs import GOOGLE, PRINTED, Printed
from experiments.network_rounds import BUILD, SHARES, Case, Curve, Store, compute
from incrowd import graphs
from incrowd.graphs import Graph
from incrowd.privacy.mechanisms.shuffle import clones_profile
from incrowd.protocols.network_shuffle.diagnostics import upper_quantile
from incrowd.randomizers import Generic
from incrowd.report.format import count, plain, small, up

DATASETS: tuple[Printed, ...] = (*PRINTED.values(), GOOGLE)


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    epsilons: tuple[float, ...]
    """Of the tables; figures have more."""
    points: int
    load_crowds: tuple[int, ...]
    regular_crowd: int
    regular: tuple[tuple[int, int], ...]
    """Degrees, and the rounds that are followed."""
    store: Store


def regular(name: str) -> Graph:
    """A random regular graph, named by its size and degree."""
    n, degree = map(int, name.removeprefix("regular_").split("_"))
    return graphs.random_regular(n, degree, np.random.default_rng(7))


FULL = Size(
    epsilons=(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2),
    points=40,
    load_crowds=(10**3, 10**4, 10**5, 10**6),
    regular_crowd=5_000,
    regular=((4, 88), (8, 36), (16, 20), (64, 12)),
    store=Store(BUILD, regular),
)
QUICK = Size(
    epsilons=(0.2, 1.0),
    points=4,
    load_crowds=(10**3,),
    regular_crowd=60,
    regular=((8, 16), (16, 10)),
    store=Store(None, regular),
)


def amplification_table(size: Size) -> Table:
    """Table 1, in numbers."""
    del size  # cheap enough at every size
    rows = []
    for dataset in DATASETS:
        for epsilon in (0.5, 1.0, 2.0):
            n = dataset.n
            cells = (
                subsampling(epsilon, n),
                swapping(epsilon, n),
                closed_clones(epsilon, n),
                clones_profile(Generic(epsilon=epsilon), n).epsilon(DELTA),
            )
            printed = plain(all_printed(epsilon, n, dataset.irregularity))
            ours = up(all_ours(epsilon, n))
            rows.append([dataset.title, count(n), f"{epsilon:g}", *map(up, cells), printed, ours])
    return Table(
        "Ways to amplify, in numbers",
        f"The central ε at δ = {small(DELTA)} when every report is ε0-private; more than ε0 means "
        "that the formula says nothing. Subsampling: n steps, each on one person drawn at random. "
        "Swapping: Erlingsson and others 2019, the technique on which the paper builds. Clones: "
        "Feldman, McMillan and Talwar 2021, their closed form and evaluated exactly. Those four "
        "need a trusted server. Printed: Theorem 5.3 with the n and Γ of the paper's Table 4, "
        "after endless rounds. Ours: network shuffling on any connected graph of n people after "
        "enough rounds, and a trusted shuffler, which are the same.",
        (
            "graph",
            "n",
            "ε0",
            "subsampling",
            "swapping",
            "clones, closed form",
            "clones, exact",
            "network shuffling, printed",
            "network shuffling, ours",
        ),
        rows,
    )


def load_table(size: Size) -> Table:
    """Table 3, measured."""
    rows = []
    families: dict[str, Callable[[int, np.random.Generator], Graph]] = {
        "8-regular": lambda n, rng: graphs.random_regular(n, 8, rng),
        "Barabási–Albert, 4 edges each": lambda n, rng: graphs.barabasi_albert(n, 4, rng),
    }
    for title, make in families.items():
        for n in size.load_crowds:
            rng = np.random.default_rng(7)
            graph = make(n, rng)
            rounds = math.ceil(3 * math.log(n))
            at: NDArray[np.int32] = np.arange(n, dtype=np.int32)
            peak, passed = 0, np.zeros(n, np.int64)
            load = np.ones(n, np.int64)
            for _ in range(rounds):
                passed += load
                at = graphs.walk(graph, at, 1, rng)
                load = np.bincount(at, minlength=n)
                peak = max(peak, int(load.max()))
            share = float(graph.degrees.max() / graph.degrees.mean())
            cells = [
                count(rounds),
                str(int(upper_quantile(load, 0.5))),
                str(int(upper_quantile(load, 0.99))),
                count(int(load.max())),
                count(peak),
                count(rounds),
                count(int(passed.max())),
                count(round(share)),
            ]
            rows.append([title, count(n), *cells])
    return Table(
        "What a device holds and sends, measured",
        "Every report walks ⌈3 ln n⌉ rounds. Reports that a device holds: the median, the 99th "
        "percentile and the largest number at the end, and the most that any device held after "
        "any round. Reports that a device sends on over all rounds: the mean, which is the number "
        "of rounds, and the most. Last: the largest degree over the mean one, which is the load "
        "to expect at the busiest device. One simulation each.",
        (
            "graph",
            "n",
            "rounds",
            "held: median",
            "99 %",
            "most",
            "most ever",
            "sent: mean",
            "most sent",
            "degree ratio",
        ),
        rows,
    )


def datasets_table(size: Size) -> Table:
    """Figures 6 and 7."""
    rows = []
    for dataset in DATASETS:
        for epsilon in size.epsilons:
            printed = (
                all_printed(epsilon, dataset.n, dataset.irregularity),
                single_printed(epsilon, dataset.n, dataset.irregularity),
            )
            ours = all_ours(epsilon, dataset.n), single_ours(epsilon, dataset.n)
            rows.append([dataset.title, f"{epsilon:g}", *map(plain, printed), *map(up, ours)])
    return Table(
        "The paper's graphs after endless rounds",
        f"The central ε at δ = {small(DELTA)}. Printed: Theorems 5.3 and 5.5 with the n and Γ of "
        "the paper's Table 4. Ours holds for any ε0-randomizer on every connected graph of that "
        "size: Γ plays no part. Everybody hands in all reports held, or a single one of them.",
        ("graph", "ε0", "all, printed", "single, printed", "all, ours", "single, ours"),
        rows,
    )


def stationary_table(size: Size) -> Table:
    """Figure 8."""
    del size  # cheap enough at every size
    rows = []
    for n in (10**4, 10**5, 10**6):
        for epsilon in (0.2, 0.5, 1.0, 1.5, 2.0):
            printed = [
                plain(formula(epsilon, n, gamma))
                for formula in (all_printed, single_printed)
                for gamma in (1.0, 10.0)
            ]
            ours = up(all_ours(epsilon, n)), up(single_ours(epsilon, n))
            rows.append([count(n), f"{epsilon:g}", *printed, *ours])
    return Table(
        "After endless rounds: n, Γ and what is handed in",
        f"The central ε at δ = {small(DELTA)}. Printed: Theorems 5.3 (all) and 5.5 (single) of the "
        "paper. Ours does not depend on Γ, which measures how unequal the degrees are.",
        (
            "n",
            "ε0",
            "all, printed, Γ = 1",
            "Γ = 10",
            "single, printed, Γ = 1",
            "Γ = 10 ",
            "all, ours",
            "single, ours",
        ),
        rows,
    )


@lru_cache(maxsize=8)
def regular_curve(n: int, degree: int, rounds: int, store: Store) -> Curve:
    return compute(Case(f"regular_{n}_{degree}", 0, rounds, spectral=False), store, (0.0,))[0.0]


def _regular(size: Size) -> list[figures.Regular]:
    found = []
    for degree, rounds in size.regular:
        curve = regular_curve(size.regular_crowd, degree, rounds, size.store)
        graph = regular(f"regular_{size.regular_crowd}_{degree}")
        printed = figures.symmetric_printed(graph, rounds)
        found.append(figures.Regular(degree, curve, printed))
    return found


def regular_table(size: Size) -> Table:
    """Figure 5."""
    rows = []
    for each in _regular(size):
        needed = [each.curve.needed(share) for share in SHARES.values()]
        cells = ["–" if one is None else str(one[0]) for one in needed]
        rows.append(
            [str(each.degree), *cells, up(float(each.curve.at(1.0)[-1])), up(each.curve.trusted),
             plain(each.printed[-1])]
        )  # fmt: skip
    return Table(
        f"Random regular graphs of {count(size.regular_crowd)} people, ε0 = 1",
        f"Rounds of the simple walk until the median person, 99 % and all people have an ε within "
        f"5 % of the trusted shuffler's, at δ = {small(DELTA)}; the worst person's ε after the "
        "last round that was followed, and the trusted shuffler's. Printed: Theorem 5.4 of the "
        "paper at that round, for one person's walk (unproven).",
        ("degree", *SHARES, "worst ε", "trusted shuffler", "printed"),
        rows,
    )


EXPERIMENT = Experiment(
    "experiments.network_shuffle",
    {
        "network_amplification.md": amplification_table,
        "network_load.md": load_table,
        "network_datasets.md": datasets_table,
        "network_stationary.md": stationary_table,
        "network_datasets.svg": lambda size: figures.datasets(DATASETS, size.points),
        "network_single.svg": lambda size: figures.single(
            (PRINTED["twitch_de"], GOOGLE), size.points
        ),
        "network_stationary.svg": lambda size: figures.stationary(size.points),
        "network_regular.md": regular_table,
        "network_regular.svg": lambda size: figures.regular(size.regular_crowd, _regular(size)),
    },
    FULL,
    QUICK,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
