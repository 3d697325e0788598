"""Scrambled queries: the paper's Figures 3 and 5 to 9, ours beside theirs, and real answers.

    python -m experiments.scrambled_query [--quick --out DIRECTORY]

Every ε that is called proven is rounded up. What the paper prints
(``experiments.paper_scrambled_query``) is shown as it is; where it is no bound, that is said. No
number comes from sampling, but for the answers, which are those of simulated runs. What is written
about k-means on MNIST is made by ``experiments.scrambled_clustering``.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from experiments import scrambled_answers as answers
from experiments import scrambled_figures as figures
from experiments import scrambled_tradeoffs as tradeoffs
from experiments.common import Experiment, Table
from experiments.paper_scrambled_query import paper_theorem_3
from experiments.scrambled_figures import DELTA, TARGETS
from experiments.scrambled_tradeoffs import TUPLES
from incrowd.protocols.scrambled_query.cost import query_messages
from incrowd.protocols.scrambled_query.theorems.capped import capped_epsilon
from incrowd.protocols.scrambled_query.theorems.flooding import flooding_epsilon
from incrowd.protocols.scrambled_query.tuning import Limits, fit
from incrowd.report.format import count, percent, plain, small, up


@dataclass(frozen=True)
class Size:
    """How much to compute."""

    points: int
    """Of each line."""
    samplings: tuple[float, ...]
    crowds: tuple[int, ...]
    dummies: tuple[int, ...]
    sets: int
    budgets: tuple[float, ...]
    limits: tuple[float, ...]
    """On messages, as multiples of those without protection."""
    records: tuple[int, ...]
    settings: tuple[answers.Setting, ...]
    seeds: int


FULL = Size(
    points=24,
    samplings=(0.0, 0.1, 0.3, 0.5, 0.9),
    crowds=(100, 600),
    dummies=(0, 50, 300, 1000),
    sets=4,
    budgets=(0.5, 1.0, 2.0, 5.0),
    limits=(math.inf, 2.4, 2.1),
    records=(10_000, 30_000, 100_000),
    settings=answers.SETTINGS,
    seeds=10,
)
QUICK = Size(
    points=4,
    samplings=(0.0, 0.3),
    crowds=(100,),
    dummies=(50, 300),
    sets=1,
    budgets=(2.0,),
    limits=(math.inf, 2.1),
    records=(10_000,),
    settings=answers.SETTINGS[:2],
    seeds=10,
)
NODES, LIES = (5, 10, 20, 100), (0.1, 0.3, 0.5, 0.9)
"""Of the figure without scramblers."""
CAPPED = ((100, 50), (100, 99), (600, 50))
"""People and dummies of the table on pure ε."""


def capped_table(size: Size) -> Table:
    rows = []
    for sampling in size.samplings:
        for sources, dummies in CAPPED:
            if sampling:
                settings = (TARGETS, sampling, sources, dummies)
                rows.append(
                    [
                        f"{sampling:g}",
                        str(sources),
                        str(dummies),
                        up(flooding_epsilon(TARGETS, sampling, 0)),
                        plain(paper_theorem_3(*settings)),
                        up(capped_epsilon(*settings)),
                        up(flooding_epsilon(TARGETS, sampling, 1)),
                    ]
                )
    return Table(
        "A scrambler with a cap: the paper’s Figure 5",
        f"Pure ε, δ = 0, with {TARGETS} compute nodes. Alone: one message without any dummy. "
        "Printed: the paper’s Theorem 3, which is below the exact value, so that it is no bound. "
        "Exact: the largest ratio over all inputs and outcomes. One dummy each: no scrambler, "
        "everyone adds a single dummy, which is about as many dummies as 99 for 100 people; the "
        "paper finds the scrambler better, and the exact value says otherwise.",
        ("σ", "people", "dummies", "alone", "printed", "exact", "one dummy each"),
        rows,
    )


def histogram_table(size: Size) -> Table:
    del size
    targets, sampling, sources, dummies = figures.HISTOGRAM
    rows = []
    for name, true in figures.INPUTS.items():
        found = figures.histogram_losses(true)
        rows.append(
            [
                name,
                count(len(found.losses)),
                plain(float(found.losses[0])),
                *(
                    text
                    for loss in (2.0, 1.0, 0.5)
                    for text in (percent(float((found.losses > loss).mean())),
                                 f"{found.beyond(loss):.1e}")
                ),
            ]
        )  # fmt: skip
    return Table(
        "What an observer counts: the paper’s Figure 6",
        f"{targets} compute nodes, σ = {sampling:g}, {sources} people, {dummies} dummies; one "
        "person’s target is another. All outcomes are enumerated, with their exact chances, where "
        "the paper runs 7·10⁸ simulations. Loss: |ln| of the ratio of the two chances. For each "
        "loss, the share of outcomes that have more, and the chance to see one of them.",
        (
            "people", "outcomes", "largest loss", "above 2", "chance", "above 1", "chance ",
            "above 0.5", "chance  ",
        ),
        rows,
    )  # fmt: skip


def bounds_table(size: Size) -> Table:
    rows = []
    for sampling in size.samplings:
        # Without lies only dummies hide a message, and the number of people is of no matter.
        for sources in size.crowds if sampling else size.crowds[:1]:
            for dummies in size.dummies:
                found = figures.bounds(sampling, sources, dummies)
                rows.append(
                    [
                        f"{sampling:g}",
                        str(sources),
                        count(dummies),
                        _finite(found.alone),
                        up(found.hoeffding),
                        up(found.bennett),
                        "–" if found.printed is None else plain(found.printed),
                        "–" if found.printed_delta is None else f"{found.printed_delta:.1e}",
                        _finite(found.exact),
                    ]
                )
    return Table(
        "Bounds for a scrambler: the paper’s Figure 7",
        f"{TARGETS} compute nodes, δ = {small(DELTA)}. Alone: ε0 of one message. Hoeffding and "
        "Bennett: the paper’s bounds as they must be; a dash where they are not below ε0. Printed: "
        "Bennett’s inequality as the paper has it, which is no bound; δ there: the δ that is "
        "proven at that ε. Exact: the blanket bound that is used here, computed without "
        "concentration inequalities or sampling.",
        ("σ", "people", "dummies", "alone", "Hoeffding", "Bennett", "printed", "δ there", "exact"),
        rows,
    )


def _finite(value: float) -> str:
    return up(value) if math.isfinite(value) else "∞"


def sets_table(size: Size) -> Table:
    rows = []
    for sets in range(1, size.sets + 1):
        for sampling, sources, dummies in ((0.0, 500, 500), (0.1, 100, 100), (0.1, 500, 500)):
            found = tradeoffs.tradeoff(sampling, sources, dummies, sets)
            one = tradeoffs.tradeoff(sampling, sources, dummies, 1)
            rows.append(
                [
                    str(sets),
                    f"{sampling:g}",
                    str(sources),
                    count(dummies),
                    count(found.people),
                    count(found.load.messages),
                    plain(found.load.messages / (sets * (TUPLES + TARGETS)), 3),
                    count(found.load.channels_per_scrambler),
                    count(found.load.helpers),
                    up(sets * one.epsilon),
                    up(found.epsilon),
                ]
            )
    return Table(
        "A whole query: the paper’s Figures 8 and 9",
        f"As many people that {TUPLES:,} tuples arrive in each grouping set on average, {TARGETS} "
        f"compute nodes for each set. Overhead: messages, compared with {TUPLES:,} people without "
        "protection. Channels: of one scrambler. Helpers: scramblers and compute nodes. Sum: the ε "
        f"of one set times their number, at {small(DELTA)} times their number, as the paper "
        f"composes. ε: all sets composed tightly, at δ = {small(DELTA)} in all.",
        (
            "sets", "σ", "group", "dummies", "people", "messages", "overhead", "channels",
            "helpers", "sum", "ε",
        ),
        rows,
    )  # fmt: skip


def fit_table(size: Size) -> Table:
    rows = []
    for sets in sorted({1, size.sets}):
        targets = (TARGETS,) * sets
        plainly = sets * (TUPLES + TARGETS)
        for epsilon in size.budgets:
            for factor in size.limits:
                load = None if math.isinf(factor) else round(factor * plainly)
                found = fit(
                    targets, TUPLES, epsilon=epsilon, delta=DELTA, limits=Limits(max_messages=load)
                )
                sent = query_messages(targets, TUPLES, found.sources, found.dummies)
                kept = 1 - found.redirect_probability * (1 - 1 / TARGETS)
                rows.append(
                    [
                        str(sets),
                        f"{epsilon:g}",
                        "–" if load is None else count(load),
                        f"{found.redirect_probability:g}",
                        count(found.sources),
                        count(found.dummies),
                        up(found.epsilon),
                        count(sent),
                        percent(1 - kept),
                    ]
                )
    return Table(
        "Parameters for a budget",
        f"What is chosen for {TUPLES:,} people and {TARGETS} compute nodes per grouping set, at δ "
        f"= {small(DELTA)}, with at most 1,000 channels per scrambler and, where given, a limit "
        "on messages: the fewest lies, then the fewest messages. Lost: tuples that do not arrive.",
        ("sets", "budget ε", "limit", "σ", "group", "dummies", "ε", "messages", "lost"),
        rows,
    )


def answers_table(size: Size) -> Table:
    rows = []
    for spread in answers.SPREADS:
        for records in size.records:
            for setting in size.settings:
                found = answers.measured(spread, records, setting, size.seeds)
                rows.append(
                    [
                        spread,
                        count(records),
                        setting.name,
                        _finite(found.epsilon),
                        _finite(found.released) if setting.release else "–",
                        # What arrived is not told where the result has noise.
                        "–" if setting.release else percent(found.arrived),
                        percent(found.count_error),
                        percent(found.average_error),
                    ]
                )
    return Table(
        "Answers on made-up data",
        "One record each, four attributes of 20 intervals, evenly or unevenly filled (interval k "
        "as often as 1/k). Asked: COUNT(*) and AVG(value) by each attribute, as one query with "
        f"four grouping sets, {TARGETS} compute nodes each, groups of {answers.SOURCES}. Network: ε"
        f" of the traffic; with the result: of traffic and result together, at δ = {small(DELTA)}. "
        "Arrived: tuples, mean over sets. Errors: root mean square over all cells and "
        f"{size.seeds} runs, of counts relative to the mean count, and of averages relative to the "
        "spread of the values.",
        (
            "data", "records", "setting", "network", "with the result", "arrived", "count error",
            "average error",
        ),
        rows,
    )  # fmt: skip


EXPERIMENT = Experiment(
    "experiments.scrambled_query",
    {
        "scrambled_local.svg": lambda _: figures.local_figure(NODES, LIES),
        "scrambled_capped.md": capped_table,
        "scrambled_capped.svg": lambda _: figures.capped_figure((0.1, 0.5)),
        "scrambled_histogram.md": histogram_table,
        "scrambled_histogram.svg": lambda _: figures.histogram_figure(),
        "scrambled_bounds.md": bounds_table,
        "scrambled_bounds.svg": lambda size: figures.bounds_figure(size.points),
        "scrambled_load.svg": lambda size: tradeoffs.load_figure(size.points),
        "scrambled_consents.svg": lambda size: tradeoffs.consents_figure(size.points),
        "scrambled_sets.md": sets_table,
        "scrambled_sets.svg": lambda size: tradeoffs.sets_figure(size.points, size.sets),
        "scrambled_fit.md": fit_table,
        "scrambled_answers.md": answers_table,
    },
    FULL,
    QUICK,
)

if __name__ == "__main__":
    sys.exit(EXPERIMENT.main())
