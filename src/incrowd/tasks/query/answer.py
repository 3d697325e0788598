"""From folded cells to the rows of a query, with the error that sampling and noise leave.

A tuple arrives with the chance k, whatever it says, independently of the others. So, about the
people who are present:

* COUNT and SUM are those of the arrived tuples divided by k (Horvitz and Thompson), with variances
  n·(1 − k)/k² and Σx²·(1 − k)/k² for n arrived tuples;
* AVG is their mean and VARIANCE their sample variance s², both unbiased as the arrived tuples of a
  cell are a simple random sample of it, given how many they are. The variance of the mean is about
  (1 − k)·s²/n. That of s² is not estimated;
* MIN and MAX are those of the arrived tuples and have no limits.

With k = 1 everything is exact. Where noise was released with the numbers, every cell is shown, its
variance is added, and AVG is the ratio of a noisy sum and a noisy count. The noise of a count is in
each sum as well, times the middle of the column's bounds, which the variance of a ratio allows for.
As nothing is known of the spread then, the bounds stand in for it: s² ≤ (high − m)·(m − low).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from incrowd import checks
from incrowd.blocks import Block, DataTable, Fact, Figure, Text
from incrowd.randomizers.base import FloatArray, normal_half_width
from incrowd.tasks.base import Answer, AnswerContext
from incrowd.tasks.query.fold import Folded, Tabulated
from incrowd.tasks.query.grid import Grid
from incrowd.tasks.query.plan import Aggregate, GroupingSet, Plan
from incrowd.tasks.query.schema import Column
from incrowd.tasks.raw import NO_ANSWER, Array, IntArray

Noise = tuple[float, ...]


@dataclass(frozen=True)
class Computed:
    """One aggregate in every cell; NaN is absent or unknown.

    ``whole`` has the values again where they are whole numbers, which doubles may not hold.
    """

    value: FloatArray
    variance: FloatArray
    whole: IntArray | None = None


@dataclass(frozen=True)
class QueryRow:
    """One row of the answer: ``values`` in the order of its columns, none where SQL has NULL.

    ``tuples`` is how many arrived for the cell, with noise if the answer has some.
    """

    set: int
    cell: int
    values: tuple[str | int | float | None, ...]
    tuples: int


@dataclass(frozen=True, repr=False)
class QueryAnswer(Answer):
    """The table that a query asks for, by grouping set and cell.

    The estimates, limits and standard errors are those of the aggregates of the first row, then of
    the second, and so on; ``positions`` says where each stands in the labels of the task, which
    name every cell. A limit that is not known is NaN. ``lost`` counts, per grouping set, the cells
    without a row, because no compute node answered for them.
    """

    columns: tuple[str, ...]
    rows: tuple[QueryRow, ...]
    positions: IntArray
    lost: tuple[int, ...]

    def beside(self, truth: FloatArray) -> FloatArray:
        return np.asarray(truth[self.positions])

    def _shown(self, context: AnswerContext) -> tuple[Block, ...]:
        # The table that SQL would give, with the tuples behind each row; no limits are drawn.
        groups = sum(self.lost)
        note = f"{groups:,} groups are unknown: their compute nodes fell silent" if groups else ""
        columns, facts = (*self.columns, "tuples"), (Fact("lost", list(self.lost), note=note),)
        rows = tuple((*row.values, row.tuples) for row in self.rows)
        table = DataTable("table", columns, rows, caption="The answer", facts=facts)
        told = (
            "One row per group, as SQL gives it; a column by which a row is not grouped is empty. "
            "The last column counts the tuples that reached the compute node of the group: where "
            "some messages are misdirected, counts and sums are scaled up to everybody who took "
            "part, and the least and the greatest are those of the tuples that arrived."
        )
        return Text(told), Text(self.missing), table, Figure("cells", self.data(context.truth))

    def _precision(self, context: AnswerContext) -> Fact:
        name, collected = "tuples_behind_the_answer", context.collected
        if any(getattr(collected, "noise", ())):
            return Fact(name, "not told", note="the result has noise")
        return Fact(name, min(collected.crowds), note=f"or more, of {self.people:,} people")


def labels(plan: Plan) -> tuple[str, ...]:
    """Name each aggregate of each cell of each grouping set."""
    return tuple(name for each in plan.sets for name in _names(plan, each, np.arange(each.cells)))


def answered(
    plan: Plan, measures: Sequence[Column], collected: Tabulated, confidence: float, missing: str
) -> QueryAnswer:
    """Make the rows of all grouping sets from the folded cells."""
    checks.probability(confidence, "confidence")
    rows: list[QueryRow] = []
    names: list[str] = []
    value, variance, positions = [], [], []
    before, width = 0, len(plan.aggregates)
    lost = collected.lost or (np.empty(0, np.int64),) * len(plan.sets)
    for index, group in enumerate(plan.sets):
        folded, noise = collected.folded[index], collected.noise[index]
        # A query without groups has a row even about no one.
        shown = np.flatnonzero(folded.count if group.by and not noise else np.ones(group.cells))
        shown = np.setdiff1d(shown, lost[index])
        kept, asked = collected.kept[index], (each for _, each in plan.aggregates)
        found = [computed(each, measures, folded, kept, noise) for each in asked]
        value.append(np.column_stack([each.value[shown] for each in found]).ravel())
        variance.append(np.column_stack([each.variance[shown] for each in found]).ravel())
        positions.append((before + shown[:, None] * width + np.arange(width)).ravel())
        rows += _rows(plan, index, shown, found, folded.count)
        names += _names(plan, group, shown)
        before += group.cells * width
    values, errors = np.concatenate(value), np.sqrt(np.concatenate(variance))
    half = normal_half_width(confidence) * errors
    low, high, people = values - half, values + half, collected.people
    plain = Answer(tuple(names), values, low, high, errors, confidence, people, missing)
    items = tuple(each.name for each in plan.items)
    at, unknown = np.concatenate(positions), tuple(map(len, lost))
    return QueryAnswer(**vars(plain), columns=items, rows=tuple(rows), positions=at, lost=unknown)


def computed(
    aggregate: Aggregate, measures: Sequence[Column], folded: Folded, kept: float, noise: Noise
) -> Computed:
    """Compute an aggregate in every cell, about the people who are present."""
    count, exact = folded.count, kept == 1 and not noise
    if aggregate.column is None:
        variance = _lost(kept, np.maximum(count, 0)) + (noise[0] / kept**2 if noise else 0.0)
        return Computed(count / kept, variance, count if exact else None)
    column, at = aggregate.column, measures.index(aggregate.column)
    total, whole = folded.total[at], column.type == "integer"
    mean = _ratio(total, count)
    spread = folded.spread[at] if not noise else _bounded(column, mean) * count
    match aggregate.function:
        case "SUM":
            squares = np.where(count > 0, spread + count * mean**2, 0.0)
            value = total / kept if noise else np.where(count > 0, total / kept, np.nan)
            variance = _lost(kept, squares) + (noise[1 + at] / kept**2 if noise else 0.0)
            return Computed(value, variance, total if exact and whole else None)
        case "AVG":
            within = _ratio(spread, count) if noise else _ratio(spread, count - 1)
            variance = _lost(kept, _ratio(within, count) * kept**2)
            if noise:
                blur = _blur(column, mean, noise[0], noise[1 + at])
                variance = variance + _ratio(blur, count.astype(np.float64) ** 2)
            return Computed(mean, np.where(count > 0, variance, np.nan))
        case "VAR":
            value = _ratio(spread, count - 1)
            return Computed(value, np.where(exact & ~np.isnan(value), 0.0, np.nan))
        case _:
            extreme = folded.least[at] if aggregate.function == "MIN" else folded.most[at]
            value = np.where(count > 0, extreme, np.nan)
            variance = np.where(exact & ~np.isnan(value), 0.0, np.nan)
            return Computed(value, variance, extreme if whole else None)


def _ratio(top: Any, bottom: Array) -> FloatArray:
    found = np.full(len(bottom), np.nan)
    np.divide(top, bottom, out=found, where=bottom > 0)
    return found


def _lost(kept: float, squares: Array) -> FloatArray:
    # The variance of a sum over k whose terms are each lost with the chance 1 − k.
    return np.zeros(len(squares)) if kept == 1 else squares * (1 - kept) / kept**2


def _bounded(column: Column, mean: FloatArray) -> FloatArray:
    # The largest variance of numbers between the bounds of a column with this mean.
    if column.low is None or column.high is None:
        return np.full(len(mean), np.nan)
    inside = np.clip(mean, column.low, column.high)
    return (column.high - inside) * (inside - column.low)


def _blur(column: Column, mean: FloatArray, of_count: float, of_total: float) -> FloatArray:
    # The variance of Σx − mean·n by noise alone; the noises of both covary by the middle.
    middle = Grid.of(column).center
    alone = of_total - middle**2 * of_count
    return max(0.0, alone) + (mean - middle) ** 2 * of_count


def _names(plan: Plan, group: GroupingSet, cells: IntArray) -> list[str]:
    # Such as "age=18-29, sex=f: COUNT(*)".
    columns = [
        [f"{column.name}={text}" for text in texts]
        for column, texts in zip(group.by, group.texts(cells), strict=True)
    ]
    cell_names = map(", ".join, zip(*columns, strict=True)) if columns else ["all"] * len(cells)
    return [f"{cell}: {name}" for cell in cell_names for name, _ in plan.aggregates]


def _rows(
    plan: Plan, index: int, shown: IntArray, found: Sequence[Computed], count: IntArray
) -> list[QueryRow]:
    group, aggregates = plan.sets[index], iter(found)
    grouped = dict(zip(group.columns, group.texts(shown), strict=True))
    columns: list[Sequence[Any]] = []
    for item in plan.items:
        if isinstance(item.shows, Aggregate):
            columns.append(_plain(next(aggregates), shown))
        else:
            texts: Sequence[Any] = grouped.get(item.shows.name, [None] * len(shown))
            if item.shows.numeric:
                texts = [each if each in (None, NO_ANSWER) else int(each) for each in texts]
            columns.append(texts)
    cells = zip(shown.tolist(), zip(*columns, strict=True), count[shown].tolist(), strict=True)
    return [QueryRow(index, cell, values, tuples) for cell, values, tuples in cells]


def _plain(found: Computed, shown: IntArray) -> list[int | float | None]:
    missing = np.isnan(found.value[shown]).tolist()
    values = (found.value if found.whole is None else found.whole)[shown].tolist()
    return [None if gone else each for gone, each in zip(missing, values, strict=True)]
