"""Results on a terminal: figures and tables of the sections first, then all facts in one list.

Prose is for the page, except notices. Some facts are summed up in a line of their own words; others
are stated as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from incrowd.blocks import HEAD, DataTable, Figure, Section, Text, chapters, facts
from incrowd.report import tables
from incrowd.report.format import cell, count, several, small
from incrowd.report.json import merged
from incrowd.report.tables import TextTable
from incrowd.report.words import lines, live_lines, settings, too_wide

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Line = tuple[str, str]
Data = Mapping[str, Any]

_SUMMED = (
    *("budget", "people", "questions", "parameters", "reports", "cost", "measured_cost"),
    *("diagnostics", "live", "seed", "versions", "tables", "report", "unprotected"),
)
"""Facts that lines of their own words sum up."""
_LONGEST_WORD = 24
"""Letters of a word that is never broken."""


def draw(console: Console, sections: Sequence[Section], drawn: Collection[str] = ()) -> None:
    """Draw the sections of a result, but those that are drawn already, and sum up all facts."""
    draw_blocks(console, [each for each in sections if each.key not in drawn])
    others = (each for each in facts(chapters(sections)) if each.name not in _SUMMED)
    console.print(facts_table([*_summary(sections), *lines(others)]))


def draw_blocks(console: Console, sections: Sequence[Section]) -> None:
    """Draw titles of questions, tables and figures of sections."""
    for section in sections:
        if section.key == HEAD or section.key.startswith("answer-"):
            console.print(section.title, style="bold", markup=False)
        for block in section.blocks:
            match block:
                case DataTable(file=False):
                    console.print(_data_table(block))
                case Text(told, "notice"):
                    console.print(told, markup=False)
                case Figure(kind, data) if kind in _FIGURES:
                    _FIGURES[kind](console, data)


def _summary(sections: Sequence[Section]) -> Iterator[Line]:
    data = merged(sections)
    known = {each.name: each for each in facts(sections)}
    if budget := data.get("budget"):
        kept = "kept" if budget["met"] else "NOT kept"
        stated = f"ε = {small(budget['epsilon'])} at δ = {small(budget['delta'])}"
        yield "budget", f"{stated} against {budget['view']}: {kept}"
    if people := known.get("people"):
        yield "people", ", ".join(filter(None, (count(people.value), people.note)))
    for each in data.get("questions", ()):
        which = f" ({each['id']})" if len(data["questions"]) > 1 else ""
        yield f"no answer{which}", each["missing"]
    if "parameters" in known and "table" in data.get("tables", {}):
        # The way that the messages of a query travelled may have been chosen for it.
        apart = ("protocol", "randomizer", "n")
        shown = {name: each for name, each in data["parameters"].items() if name not in apart}
        yield "parameters", settings(shown)
    if reports := data.get("reports"):
        yield "reports", f"{count(reports['received'])} of {count(reports['sent'])} arrived"
    if cost := data.get("cost"):
        yield "planned cost", _cost(cost)
    if measured := data.get("measured_cost"):
        yield "measured cost", f"{_cost(measured)}, retries included"
    # A line that both the protocol and the live run have is that of the latter.
    live = live_lines(data["live"]) if "live" in data else []
    own_facts = known["diagnostics"].value if "diagnostics" in known else ()
    own = lines(each for each in own_facts if each.name not in _SUMMED)
    yield from (each for each in own if each[0] not in dict(live))
    yield from live
    if data.get("seed") is not None:
        yield "seed", str(data["seed"])
    released = data.get("tables", {}).get("release", {})
    if file := released.get("file"):
        yield "release", f"{count(released['rows'])} rows in {file}"


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
            console.print(text_table(_GUARANTEES[notion](about)))


_GUARANTEES: Mapping[str, Callable[[Sequence[Data]], TextTable]] = {
    "dp": tables.guarantees,
    "order": tables.orders,
}


def text_table(shown: TextTable) -> Table:
    """Return a table of plain text, which nothing in it can style."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(shown.head):
        side: Literal["left", "right"] = "left" if index in shown.words else "right"
        table.add_column(Text(name), justify=side, overflow="fold")
    for row in shown.rows:
        table.add_row(*map(Text, row))
    # A name of one word is kept whole at the cost of columns that can break between words.
    names = [row[0] for row in shown.rows]
    table.columns[0].no_wrap = all(len(x) <= _LONGEST_WORD and " " not in x for x in names)
    return table


def _data_table(block: DataTable) -> Table:
    columns = range(len(block.columns))
    words = [each for each in columns if any(isinstance(row[each], str) for row in block.rows)]
    rows = [list(map(cell, row)) for row in block.rows]
    table = text_table(TextTable(block.columns, rows, frozenset(words)))
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
    console.print(text_table(tables.estimates(data)))
    if wide := data["too_wide"]:
        console.print(too_wide(wide), markup=False)
        console.print()


def _history(console: Console, data: Data) -> None:
    table = text_table(tables.history(data))
    for column in table.columns[2:]:
        column.no_wrap = True
    console.print(table)


_FIGURES: Mapping[str, Callable[[Console, Data], None]] = {
    "explanation": _explanation,
    "estimates": _estimates,
    "history": _history,
    "guarantees": lambda console, data: print_guarantees(console, data["guarantees"]),
}
