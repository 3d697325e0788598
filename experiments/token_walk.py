"""Token walks: the paper's Figures 1 and 3, ours beside theirs, and graphs beyond the paper.

    INCROWD_DATA=DIRECTORY python -m experiments.token_walk [--quick --out DIRECTORY]

Every ε that is called a bound is rounded up, every ε of an attack down. What the paper prints, and
what its program computes (``experiments.paper_token_walk``), is shown as it is: none of it is a
bound (``docs/theory/token_walk.md``). Realised losses are exact for the walk that happened.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from experiments import token_figures as figures
from experiments import token_graphs as walks
from experiments.common import Experiment, Table
from experiments.token_figures import DELTA, PAIR_DELTA, PER_PERSON, RUNS, Spread
from incrowd.report.format import count, down, percent, plain, small, up


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    sums: tuple[int, ...]
    drawn: tuple[int, ...]
    pairs: tuple[int, ...]
    locals_: tuple[float, ...]
    histograms: tuple[int, ...]
    categories: tuple[int, ...]
    errors: tuple[int, ...]
    seeds: int
    graphs: tuple[str, ...]


NAMES = tuple(walks.GRAPHS)
DISTANCES = (1, 2, 3, 4, 6, 8, 16, 32)
FULL = Size(
    sums=(20, 50, 100, 1_000, 10_000, 100_000),
    drawn=(10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000),
    pairs=(5, 10, 20, 50, 100, 200, 400),
    locals_=(0.1, 0.4),
    histograms=(20, 100, 400, 1_000, 4_000, 10_000, 100_000),
    categories=(2, 10, 50),
    errors=(100, 1_000, 10_000, 100_000),
    seeds=10,
    graphs=NAMES,
)
QUICK = Size(
    sums=(1_000,),
    drawn=(1_000,),
    pairs=(5, 20),
    locals_=(0.4,),
    histograms=(100,),
    categories=(10,),
    errors=(100,),
    seeds=10,
    graphs=NAMES[:1],
)
HISTOGRAM_EPSILON = 0.4
"""The larger one of the paper's Figure 1(b)."""


def sum_table(size: Size) -> Table:
    rows = []
    for n in size.sums:
        found = figures.sums(n)
        rows.append(
            [
                count(n),
                plain(found.printed),
                plain(found.code),
                plain(found.mended),
                plain(found.local_printed),
                up(found.local),
                up(found.hidden_there),
                up(found.public),
                up(found.hidden),
                down(found.attack),
            ]
        )
    return Table(
        "A sum by a token: the paper’s Figure 1(a)",
        f"n people, {PER_PERSON}·n steps, Gaussian noise with which one contribution is "
        f"(1, {small(DELTA)})-private. Printed: the full formula of Appendix D, at δ = 2.66e-4; it "
        "is no bound, because it charges several contributions between two visits as one, and its "
        "second term is too small. Code: the paper’s program, which counts visits by T/n + "
        "√(3T/2·ln(1/δ)) where T/n + √(3T/n·ln(1/δ)) is meant, so that everyone seems to "
        "contribute ever more often. Mended: printed, with the composition as it must be. Local: "
        "every contribution is seen with its owner, by the paper’s composition and exactly. Hidden "
        f"and public: proven, at δ = {small(DELTA)}, for the hidden path also at the printed δ; a "
        "peer sees the token whenever it comes, and knows the path or does not. Attack: attained "
        "against the hidden path.",
        (
            "n", "printed", "code", "mended", "local, paper", "local, exact", "hidden, δ = 2.66e-4",
            "public", "hidden", "attack",
        ),
        rows,
    )  # fmt: skip


def _spread(found: Spread) -> list[str]:
    return [plain(found.least, 3), plain(found.mean, 3), plain(found.greatest, 3)]


def pair_table(size: Size) -> Table:
    rows = []
    for epsilon in size.locals_:
        for n in size.pairs:
            found = figures.pairs(n, epsilon)
            rows.append(
                [
                    f"{epsilon:g}",
                    count(n),
                    *_spread(found.code),
                    plain(found.mended.mean, 3),
                    *(up(each, 3) for each in vars(found.realised).values()),
                    up(found.local, 3),
                    percent(found.below),
                ]
            )
    return Table(
        "Pairs on walks that happened: the paper’s Figure 1(b)",
        f"{RUNS} walks of {PER_PERSON}·n steps; one contribution alone is (ε0, {small(PAIR_DELTA)})"
        "-private; least, mean and greatest over all pairs and walks. Code: as the paper’s program "
        "computes it. It counts the observer’s own noise among those that protect others: between "
        "two visits of v the walk v, u, v has one noise, not two. It charges only who was right "
        "before or after v, and composes pure ε. Mended: the mean with the right noises. "
        f"Ours: Σ k²/m of the path, an exact Gaussian shift, at δ = {small(PAIR_DELTA)}; it needs "
        "no secret path. Local: everyone’s contributions alone, exactly, the mean. Below: the "
        "share of pairs with a loss of whom the program states less than ours does.",
        (
            "ε0", "n", "code, least", "code, mean", "code, greatest", "mended, mean", "ours, least",
            "ours, mean", "ours, greatest", "local", "below",
        ),
        rows,
    )  # fmt: skip


def histogram_table(size: Size) -> Table:
    rows = []
    for answers in size.categories[:2]:
        for n in size.histograms:
            walked = n <= max(FULL.pairs)
            found = figures.histograms(n, HISTOGRAM_EPSILON, answers, walked)
            rows.append(
                [
                    str(answers),
                    count(n),
                    plain(found.printed),
                    plain(found.mended),
                    plain(found.code.mean) if found.code else "–",
                    up(found.local),
                    up(found.hidden),
                    down(found.attack),
                ]
            )
    return Table(
        "A histogram by a token: the paper’s Figure 3",
        f"n people, {PER_PERSON}·n steps, k-ary randomized response with ε0 = {HISTOGRAM_EPSILON:g}"
        f" for each contribution. Printed: Theorem 6, whose conditions hold from n = 2,980 on. "
        "Mended: with the composition as it must be; what goes into it is not proven either. "
        "Walks: the mean over all pairs of the losses that the paper’s program computes on "
        f"{RUNS} walks. Local: every contribution is seen with its owner. Hidden: proven, at δ = "
        f"{small(DELTA)}. Attack: attained.",
        ("categories", "n", "printed", "mended", "walks, mean", "local", "hidden", "attack"),
        rows,
    )


def error_table(size: Size) -> Table:
    rows = []
    for answers in size.categories:
        for n in size.errors:
            found = figures.errors(n, answers, size.seeds)
            rows.append(
                [
                    str(answers),
                    count(n),
                    down(found.epsilon0, 3),
                    plain(found.token, 2),
                    plain(found.local, 2),
                ]
            )
    return Table(
        "The error of a histogram",
        f"At ε = {figures.ERROR_BUDGET:g} and δ = {small(DELTA)} against a peer: a token with a "
        f"hidden path and {PER_PERSON}·n steps, with the ε0 that this allows for each "
        f"contribution, and one local report each with ε0 = {figures.ERROR_BUDGET:g}. Root mean "
        f"squared error of a frequency, simulated ({size.seeds} seeds) and exact.",
        ("categories", "n", "ε0", "token", "local"),
        rows,
    )


def graph_table(size: Size) -> Table:
    rows = [
        [
            name,
            str(each.distance),
            count(each.pairs),
            plain(each.share, 3),
            plain(each.hit, 3),
            plain(each.epsilon, 3),
            up(each.greatest, 3),
        ]
        for name in size.graphs
        for each in walks.by_distance(name)
        if each.distance in DISTANCES and each.pairs >= walks.ENOUGH
    ]
    return Table(
        "Distance on a graph",
        f"{walks.WALKS} walks of {walks.CONTRIBUTIONS}·n steps on a graph that everyone knows, "
        f"each contribution alone (1, {small(walks.DELTA)})-private. Loss: Σ k²/m per "
        "contribution to a sum, the mean over ordered pairs at this distance; 1 would be: seen "
        "alone. First hit: E[1/τ] with τ the steps until the other has the token, the first-order "
        "loss of a step that reads the token, which only the noise after it hides. ε: of the sum’s "
        f"realised losses, the mean and the greatest, at δ = {small(walks.DELTA)}. Facebook and "
        "Twitch are connected parts of those graphs.",
        ("graph", "distance", "pairs", "loss", "first hit", "ε, mean", "ε, greatest"),
        rows,
    )


EXPERIMENT = Experiment(
    "experiments.token_walk",
    {
        "token_sum.md": sum_table,
        "token_sum.svg": lambda size: figures.sum_figure(size.drawn),
        "token_pairs.md": pair_table,
        "token_pairs.svg": lambda size: figures.pair_figure(size.pairs, size.locals_),
        "token_histogram.md": histogram_table,
        "token_histogram.svg": lambda size: figures.histogram_figure(
            size.histograms, [n for n in size.histograms if n <= 400], HISTOGRAM_EPSILON
        ),
        "token_error.md": error_table,
        "token_error.svg": lambda size: figures.histogram_errors(
            size.errors, size.categories, size.seeds
        ),
        "token_graphs.md": graph_table,
        "token_graphs.svg": lambda size: figures.graph_figure(size.graphs),
    },
    FULL,
    QUICK,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
