"""Results on a terminal: figures and tables of the sections first, then all facts in one list.

Prose is for the page. Facts that a line of their own words sums up are said by that; others are
said as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from incrowd.blocks import HEAD, DataTable, Fact, Figure, Section, chapters, facts
from incrowd.report.format import cell, count, down, plain, several, small, up
from incrowd.report.json import merged
from incrowd.report.words import ORDERED, lines, live_lines, settings

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Line = tuple[str, str]
Told = Mapping[str, Any]
"""All data of the sections, by name."""

_SHOWN = 3
"""How many answers a row of estimates has room for."""


def draw(console: Console, sections: Sequence[Section]) -> None:
    """Draw the sections of a result."""
    for section in sections:
        if section.key == HEAD:
            console.print(section.title, style="bold", markup=False)
        for block in section.blocks:
            match block:
                case DataTable(file=False):
                    console.print(data_table(block))
                case Figure(kind, data) if kind in _FIGURES:
                    _FIGURES[kind](console, data)
    console.print(facts_table(_lines(sections)))


def _lines(sections: Sequence[Section]) -> list[Line]:
    """The lines that sum facts up, in their own order, then the facts of chapters beside them."""
    told = merged(sections)
    others = [each for each in facts(chapters(sections)) if each.name not in _LINES]
    named = {each.name: each for each in facts(sections)}
    summed = [line for name in _LINES if name in named for line in _LINES[name](named[name], told)]
    return [*summed, *lines(others)]


def facts_table(facts: Iterable[Line]) -> Table:
    """Names and values, one pair per line."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, Text(value))
    return table


def answer_table(data: Mapping[str, Any]) -> Table:
    """The estimates with their limits, and the truth where it is known."""
    from rich.text import Text

    interval, truth = data["interval"], data["truth"]
    table = _table("answer", "estimate", f"{interval['confidence']:.0%} low", "high")
    if truth is not None:
        table.add_column("truth", justify="right")
    for index, row in enumerate(data["result"]):
        numbers = [row["estimate"], interval["low"][index], interval["high"][index]]
        numbers += [] if truth is None else [truth[index]]
        table.add_row(Text(row["label"]), *(plain(number) for number in numbers))
    return table


def data_table(block: DataTable) -> Table:
    """The cells as they are; notes on the whole stand below."""
    from rich.text import Text

    table = _table(*block.columns)
    for position, column in enumerate(table.columns):
        words = any(isinstance(row[position], str) for row in block.rows)
        column.justify = "left" if words else "right"
    for row in block.rows:
        table.add_row(*(Text(cell(value)) for value in row))
    if notes := [each.note for each in block.facts if each.note]:
        table.caption, table.caption_justify = "; ".join(notes), "left"
    return table


def refined_table(data: Mapping[str, Any]) -> Table:
    """The estimates after some of the rounds, each ± half of its interval, and an ε.

    That is the ε of a run of which no more had been planned: one that is stopped states the plan.
    """
    from rich.text import Text

    labels = data["labels"]
    shown = labels[:_SHOWN]
    table = _table("after", "ε if planned so")
    for label in shown:
        table.add_column(Text(label), justify="right", no_wrap=True)
    if len(labels) > len(shown):
        table.add_column("…")
    for each in data["refined"]:
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


def _explanation(console: Console, data: Told) -> None:
    if plan := data["plan"]:
        console.print()
        console.print(plan["text"], markup=False, no_wrap=True, overflow="ignore", crop=False)
        console.print()
        console.print(facts_table(("•", each) for each in plan["explanation"]))


def _history(console: Console, data: Told) -> None:
    if len(data["refined"]) > 1:
        console.print(refined_table(data))


_FIGURES: Mapping[str, Callable[[Console, Told], None]] = {
    "explanation": _explanation,
    "estimates": lambda console, data: console.print(answer_table(data)),
    "history": _history,
    "promises": lambda console, data: print_promises(console, data["guarantees"]),
}


def _budget(_: Fact, told: Told) -> list[Line]:
    budget = told["budget"]
    kept = "kept" if budget["met"] else "NOT kept"
    spoken = f"ε = {budget['epsilon']:g} at δ = {small(budget['delta'])} against {budget['view']}"
    return [("budget", f"{spoken}: {kept}")]


def _people(people: Fact, _: Told) -> list[Line]:
    return [("people", ", ".join(filter(None, (count(people.value), people.note))))]


def _parameters(_: Fact, told: Told) -> list[Line]:
    """The way that the messages of a query travelled, which may have been chosen for it."""
    if "table" not in told:
        return []
    apart = ("protocol", "randomizer", "n")
    shown = {name: each for name, each in told["parameters"].items() if name not in apart}
    return [("parameters", settings(shown))]


def _reports(_: Fact, told: Told) -> list[Line]:
    reports = told["reports"]
    return [("reports", f"{count(reports['received'])} of {count(reports['sent'])} arrived")]


def _cost(described: Mapping[str, Any]) -> str:
    return (
        f"{several(described['messages_per_person'], 'message')} and "
        f"{several(described['bytes_per_person'], 'byte')} per person"
    )


def _measured(_: Fact, told: Told) -> list[Line]:
    return [("measured cost", f"{_cost(told['measured'])}, retries included")]


def _details(own: Fact, told: Told) -> list[Line]:
    """Lines of the protocol and of the live run; what both know, the latter says."""
    live = live_lines(told["live"]) if "live" in told else []
    said = {name for name, _ in live}
    return [*(each for each in lines(own.value) if each[0] not in said), *live]


def _seed(seed: Fact, _: Told) -> list[Line]:
    return [] if seed.value is None else [("seed", str(seed.value))]


def _release(_: Fact, told: Told) -> list[Line]:
    release = told["release"]
    if not release.get("file"):
        return []
    return [("release", f"{count(release['rows'])} rows in {release['file']}")]


def _report(report: Fact, _: Told) -> list[Line]:
    return [("report", report.value)] if report.value else []


_LINES: Mapping[str, Callable[[Fact, Told], list[Line]]] = {
    "budget": _budget,
    "people": _people,
    "missing": lambda fact, _: [("no answer", fact.value)],
    "parameters": _parameters,
    "reports": _reports,
    "cost": lambda _, told: [("planned cost", _cost(told["cost"]))],
    "measured": _measured,
    "details": _details,
    "live": lambda *_: [],
    "seed": _seed,
    "versions": lambda *_: [],
    "release": _release,
    "report": _report,
}
"""Lines that sum up the facts of these names, in this order."""
