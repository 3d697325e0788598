"""Results as tables on a terminal, drawn from the same plain data that JSON prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from incrowd.report.format import count, down, plain, several, small, up
from incrowd.report.words import ORDERED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "answer_table",
    "cell_text",
    "facts_table",
    "guarantees_table",
    "lost_text",
    "orders_table",
    "print_promises",
    "query_table",
    "refined_table",
]

_SHOWN = 3
"""How many answers a row of estimates has room for."""


def facts_table(facts: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one pair per line."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, Text(value))
    return table


def answer_table(
    rows: Sequence[Mapping[str, Any]], interval: Mapping[str, Any], truth: Sequence[float] | None
) -> Table:
    """The estimate with its limits, and the truth where it is known."""
    from rich.text import Text

    table = _table("answer", "estimate", f"{interval['confidence']:.0%} low", "high")
    if truth is not None:
        table.add_column("truth", justify="right")
    for index, row in enumerate(rows):
        numbers = [row["estimate"], interval["low"][index], interval["high"][index]]
        numbers += [] if truth is None else [truth[index]]
        table.add_row(Text(row["label"]), *(plain(number) for number in numbers))
    return table


def query_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], lost: Sequence[int]
) -> Table:
    """The answer of a query: a row per group, as SQL gives it, and how many tuples are behind it.

    A column by which a row is not grouped is left empty. Groups of which nothing is known, because
    their compute node fell silent, are counted below.
    """
    from rich.text import Text

    table = _table(*columns)
    for position, column in enumerate(table.columns):
        words = any(isinstance(row[position], str) for row in rows)
        column.justify = "left" if words else "right"
    for row in rows:
        table.add_row(*(Text(cell_text(value)) for value in row))
    if any(lost):
        table.caption, table.caption_justify = lost_text(lost), "left"
    return table


def lost_text(lost: Sequence[int]) -> str:
    """What is said of groups of which nothing is known."""
    return f"{count(sum(lost))} groups are unknown: their compute nodes fell silent"


def cell_text(value: Any) -> str:
    """One cell of the answer of a query."""
    if value is None:
        return ""
    if isinstance(value, float):
        return plain(value, 6)
    return count(value) if isinstance(value, int) else str(value)


def refined_table(refined: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> Table:
    """The estimates after some of the rounds, each ± half of its interval, and an ε.

    That is the ε of a run of which no more had been planned: one that is stopped states the plan.
    """
    from rich.text import Text

    shown = labels[:_SHOWN]
    table = _table("after", "ε if planned so")
    for label in shown:
        table.add_column(Text(label), justify="right", no_wrap=True)
    if len(labels) > len(shown):
        table.add_column("…")
    for each in refined:
        limits = zip(each["estimate"], each["low"], each["high"], strict=True)
        cells = [f"{plain(value, 3)} ± {plain((high - low) / 2, 2)}" for value, low, high in limits]
        epsilon = up(each["epsilon_if_planned"])
        table.add_row(several(each["rounds"], "round"), epsilon, *cells[:_SHOWN])
    return table


def guarantees_table(guarantees: Sequence[Mapping[str, Any]]) -> Table:
    """The promise about answers against each view: ε rounded up, attacks rounded down."""
    table = _table("who looks", "ε", "δ", "attack", "method")
    table.columns[-1].justify = "left"
    for each in guarantees:
        if each["notion"] == "dp":
            table.add_row(
                _looking(each),
                up(each["epsilon"]),
                small(each["delta"]),
                down(each["lower_bound"]),
                each["method"],
            )
    return table


def orders_table(guarantees: Sequence[Mapping[str, Any]]) -> Table | None:
    """The promise about the order inside groups against each view; none where there is none."""
    about = [each for each in guarantees if each["notion"] == "order"]
    if not about:
        return None
    table = _table("who looks", "α", "order of", "inside", "method")
    for column in table.columns[2:]:
        column.justify = "left"
    for each in about:
        table.add_row(
            _looking(each),
            up(each["alpha"]),
            ORDERED[each["neighbours"]],
            each["groups"] or "every group",
            each["method"],
        )
    return table


def print_promises(console: Console, guarantees: Sequence[Mapping[str, Any]]) -> None:
    """Draw what is promised about answers, and about their order where something is."""
    if any(each["notion"] == "dp" for each in guarantees):
        console.print(guarantees_table(guarantees))
    about = orders_table(guarantees)
    if about is not None:
        console.print(about)


def _looking(guarantee: Mapping[str, Any]) -> str:
    colluders, view = guarantee["colluders"], str(guarantee["view"])
    return f"{view} + {count(colluders)} colluders" if colluders else view


def _table(first: str, *rest: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column(first)
    for name in rest:
        table.add_column(name, justify="right")
    return table
