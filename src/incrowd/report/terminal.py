"""Results on a terminal: figures and tables of the sections first, then all facts in one list.

Prose is for the page. Some facts are summed up in a line of their own words; others are stated as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from incrowd.blocks import HEAD, DataTable, Figure, Section, chapters, facts
from incrowd.report.format import cell, count, down, plain, several, small, up
from incrowd.report.json import merged
from incrowd.report.words import ORDERED, lines, live_lines, settings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Line = tuple[str, str]
Data = Mapping[str, Any]

_SHOWN = 3
"""Number of answers that a row of estimates has room for."""
_SUMMED = (
    *("budget", "people", "missing", "parameters", "reports", "cost", "measured", "details"),
    *("live", "seed", "versions", "release", "report"),
)
"""Facts that lines of their own words sum up."""


def draw(console: Console, sections: Sequence[Section]) -> None:
    """Draw the sections of a result."""
    for section in sections:
        if section.key == HEAD:
            console.print(section.title, style="bold", markup=False)
        for block in section.blocks:
            match block:
                case DataTable(file=False):
                    console.print(_data_table(block))
                case Figure(kind, data) if kind in _FIGURES:
                    _FIGURES[kind](console, data)
    others = (each for each in facts(chapters(sections)) if each.name not in _SUMMED)
    console.print(facts_table([*_summary(sections), *lines(others)]))


def _summary(sections: Sequence[Section]) -> Iterator[Line]:
    data = merged(sections)
    known = {each.name: each for each in facts(sections)}
    if budget := data.get("budget"):
        kept = "kept" if budget["met"] else "NOT kept"
        stated = f"ε = {budget['epsilon']:g} at δ = {small(budget['delta'])}"
        yield "budget", f"{stated} against {budget['view']}: {kept}"
    if people := known.get("people"):
        yield "people", ", ".join(filter(None, (count(people.value), people.note)))
    if "missing" in known:
        yield "no answer", data["missing"]
    if "parameters" in known and "table" in data:
        # The way that the messages of a query travelled may have been chosen for it.
        apart = ("protocol", "randomizer", "n")
        shown = {name: each for name, each in data["parameters"].items() if name not in apart}
        yield "parameters", settings(shown)
    if reports := data.get("reports"):
        yield "reports", f"{count(reports['received'])} of {count(reports['sent'])} arrived"
    if cost := data.get("cost"):
        yield "planned cost", _cost(cost)
    if measured := data.get("measured"):
        yield "measured cost", f"{_cost(measured)}, retries included"
    # A line that both the protocol and the live run have is that of the latter.
    live = live_lines(data["live"]) if "live" in data else []
    own = lines(known["details"].value) if "details" in known else []
    yield from (each for each in own if each[0] not in dict(live))
    yield from live
    if data.get("seed") is not None:
        yield "seed", str(data["seed"])
    if file := data.get("release", {}).get("file"):
        yield "release", f"{count(data['release']['rows'])} rows in {file}"
    if report := data.get("report"):
        yield "report", report


def _cost(cost: Data) -> str:
    messages, size = cost["messages_per_person"], cost["bytes_per_person"]
    return f"{several(messages, 'message')} and {several(size, 'byte')} per person"


def facts_table(facts: Iterable[Line]) -> Table:
    """Return a grid of names and values, one pair per line."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, Text(value))
    return table


def print_guarantees(console: Console, guarantees: Sequence[Data]) -> None:
    """Print guarantees about answers, then those about their order, as far as there are any."""
    for notion in _GUARANTEES:
        if about := [each for each in guarantees if each["notion"] == notion]:
            console.print(guarantees_table(about))


def guarantees_table(guarantees: Sequence[Data]) -> Table:
    """Return a table of guarantees of one notion: ε and α rounded up, lower bounds down."""
    columns, left = _GUARANTEES[guarantees[0]["notion"]]
    return _table(columns, ([tell(each) for tell in columns.values()] for each in guarantees), left)


def _view(guarantee: Data) -> str:
    colluders, view = guarantee["colluders"], str(guarantee["view"])
    return f"{view} + {count(colluders)} colluders" if colluders else view


_GUARANTEES: Mapping[str, tuple[Mapping[str, Callable[[Data], str]], Collection[int]]] = {
    "dp": (
        {
            "who looks": _view,
            "ε": lambda each: up(each["epsilon"]),
            "δ": lambda each: small(each["delta"]),
            "attack": lambda each: down(each["lower_bound"]),
            "method": lambda each: str(each["method"]),
        },
        (0, 4),
    ),
    "order": (
        {
            "who looks": _view,
            "α": lambda each: up(each["alpha"]),
            "order of": lambda each: ORDERED[each["neighbours"]],
            "inside": lambda each: each["groups"] or "every group",
            "method": lambda each: str(each["method"]),
        },
        (0, 2, 3, 4),
    ),
}
"""Columns by the notion of a guarantee, and which of them are words."""


def _table(
    head: Iterable[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)
) -> Table:
    """Return a table of plain text, which nothing in it can style."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(head):
        table.add_column(Text(name), justify="left" if index in left else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _data_table(block: DataTable) -> Table:
    columns = range(len(block.columns))
    words = [each for each in columns if any(isinstance(row[each], str) for row in block.rows)]
    table = _table(block.columns, (list(map(cell, row)) for row in block.rows), words)
    if notes := [each.note for each in block.facts if each.note]:
        table.caption, table.caption_justify = "; ".join(notes), "left"
    return table


def _explanation(console: Console, data: Data) -> None:
    if plan := data["plan"]:
        console.print()
        console.print(plan["text"], markup=False, no_wrap=True, overflow="ignore", crop=False)
        console.print()
        console.print(facts_table(("•", each) for each in plan["explanation"]))


def _estimates(console: Console, data: Data) -> None:
    interval, truth = data["interval"], data["truth"]
    numbers = [[row["estimate"] for row in data["result"]], interval["low"], interval["high"]]
    head = ["answer", "estimate", f"{interval['confidence']:.0%} low", "high"]
    if truth is not None:
        head, numbers = [*head, "truth"], [*numbers, truth]
    rows = zip(data["result"], *numbers, strict=False)
    console.print(_table(head, ([row["label"], *map(plain, each)] for row, *each in rows)))


def _history(console: Console, data: Data) -> None:
    """Print estimates after some rounds, each ± half of its interval, and the ε of such a plan."""
    labels, rows = data["labels"], []
    for each in data["refined"]:
        limits = zip(each["estimate"], each["low"], each["high"], strict=True)
        cells = [f"{plain(value, 3)} ± {plain((high - low) / 2, 2)}" for value, low, high in limits]
        epsilon = up(each["epsilon_if_planned"])
        rows.append([several(each["rounds"], "round"), epsilon, *cells[:_SHOWN]])
    more = ["…"] if len(labels) > _SHOWN else []
    table = _table(["after", "ε if planned so", *labels[:_SHOWN], *more], rows)
    for column in table.columns[2:]:
        column.no_wrap = True
    console.print(table)


_FIGURES: Mapping[str, Callable[[Console, Data], None]] = {
    "explanation": _explanation,
    "estimates": _estimates,
    "history": _history,
    "guarantees": lambda console, data: print_guarantees(console, data["guarantees"]),
}
