"""The answer of a report: estimates with their limits, beside the truth where it is known."""

from __future__ import annotations

from html import escape

from incrowd.protocols.run import Run
from incrowd.randomizers.base import FloatArray
from incrowd.report.describe import describe_live
from incrowd.report.figures import MOST_ROWS, answer_figure
from incrowd.report.format import percent, plain
from incrowd.report.parts import figure, section, table
from incrowd.report.query import query_section
from incrowd.tasks.query import QueryAnswer
from incrowd.tasks.raw import NO_ANSWER

__all__ = ["answer_section"]


def answer_section(run: Run, truth: FloatArray | None, *, shares: bool) -> str:
    """The estimates in a figure and in numbers, and how they are to be read."""
    answer = run.result
    if isinstance(answer, QueryAnswer):
        return query_section(answer)
    head = ["", "estimate", f"{answer.confidence:.0%} interval"]
    if truth is not None:
        head += ["truth", "off by"]
    rows = []
    for index, label in enumerate(answer.labels):
        value, low, high = (float(x[index]) for x in (answer.value, answer.low, answer.high))
        share = shares or label == NO_ANSWER
        shown = percent if share else plain
        row = [label, shown(value), f"{shown(low)} to {shown(high)}"]
        if truth is not None:
            off = value - float(truth[index])
            row += [
                shown(float(truth[index])),
                f"{100 * off:+.1f} points" if share else f"{off:+.3g}",
            ]
        rows.append(row)
    was = (
        "This run was a simulation"
        if describe_live(run) is None
        else "Everybody’s device ran on one machine"
    )
    told = (
        f"{was}, so the truth is known and shown beside the estimate. In a real survey nobody "
        "sees it."
        if truth is not None
        else ""
    )
    negative = (
        " An estimate may fall below zero: nothing was clipped, because clipping would bias it."
        if bool((answer.value < 0).any())
        else ""
    )
    covered = (
        "The intervals cover the noise that protects people and the luck of who was in, each "
        "number on its own."
        if run.collected.sampled
        else "The intervals cover the noise that protects people, each number on its own; they do "
        "not cover how the people were chosen."
    )
    drawn = figure(
        answer_figure(answer, truth, shares=shares),
        "Estimates with confidence limits"
        + (" and the truth" if truth is not None else "")
        + ": "
        + "; ".join(f"{row[0]} {row[1]} ({row[2]})" for row in rows[:MOST_ROWS]),
        f"Dots are estimates, whiskers the {answer.confidence:.0%} interval of each"
        + ("; upright marks are the truth." if truth is not None else "."),
    )
    return section(
        "The answer",
        f"<p>Each person’s report is noisy on purpose; over many people the noise averages out, "
        f"and what it adds is removed. {told} {covered}{negative}</p>"
        f"<p>{escape(answer.missing)}</p>"
        f"{drawn}{table(head, rows, caption='The same in numbers')}",
    )
