"""Sections as one page: a single file without scripts or requests.

Figures are inline, and the page reads the same on paper, in the dark, and aloud. Sections without
a title are for programs and terminals.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from incrowd.blocks import HEAD, Block, DataTable, Fact, Figure, Section, Text, chapters
from incrowd.errors import FileNotWritable
from incrowd.report import maps, tables
from incrowd.report.figures import MOST_ROWS, svg
from incrowd.report.format import cell, count, plain, several, up
from incrowd.report.json import merged
from incrowd.report.style import STYLE
from incrowd.report.tables import TextTable
from incrowd.report.words import (
    capital,
    lines,
    live_lines,
    too_wide,
    view_description,
    view_title,
)

Entry = tuple[str, str, str]
"""A name, its value, and what that means."""
Data = Mapping[str, Any]
Rows = Sequence[Sequence[Any]]


def require_writable(path: Path, what: str = "report") -> None:
    """Raise unless a file could be written there; a check before a long run."""
    folder = path.absolute().parent
    if path.is_dir():
        problem = "it is a folder; name a file"
    elif not folder.is_dir():
        problem = f"there is no folder {folder}; create it first"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        problem = "permission denied"
    else:
        return
    raise FileNotWritable(f"{path}: cannot write the {what}: {problem}")


def write(sections: Sequence[Section], path: Path) -> Path:
    """Write the page; raise if the file cannot be written."""
    try:
        path.write_text(render(sections), encoding="utf-8")
    except OSError as error:
        raise FileNotWritable(f"{path}: cannot write the report: {error.strerror}") from error
    return path


def render(sections: Sequence[Section]) -> str:
    """Return the whole page, under the section that heads all others."""
    data = merged(sections)
    head = next(each for each in sections if each.key == HEAD)
    parts = "\n".join(_chapter(each, data) for each in chapters(sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(head.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"{_header(head)}\n<main>\n{parts}\n</main>\n"
        "<footer><p>Made by incrowd. Guarantees are proven bounds, rounded up; nothing on this "
        "page is fetched from elsewhere.</p></footer>\n</body>\n</html>\n"
    )


def _header(section: Section) -> str:
    lede = " ".join(_text(each, "{}") for each in section.blocks if isinstance(each, Text))
    tiles = "".join(_tile(each) for each in section.blocks if isinstance(each, Fact))
    return (
        f'<header><p class="eyebrow">A private survey</p><h1>{escape(section.title)}</h1>'
        f'<p class="lede">{lede}</p><dl class="tiles">{tiles}</dl></header>'
    )


def _tile(fact: Fact) -> str:
    ((name, value),) = lines([fact])
    if fact.unit == "±":
        value = f"± {plain(fact.value, 2)}"
    elif fact.unit == "± points":
        value = f"± {plain(fact.value, 2)} points"
    elif fact.unit:
        value = f"{fact.unit} = {value}"
    return (
        f'<div class="tile"><dt>{escape(capital(name))}</dt><dd>{escape(value)}</dd>'
        f"<dd>{escape(fact.note)}</dd></div>"
    )


def _chapter(section: Section, data: Data) -> str:
    body = "".join(
        around.format("".join(_drawn(each, data) for each in group))
        for around, group in groupby(section.blocks, _around)
    )
    return f"<section><h2>{escape(section.title)}</h2>{body}</section>"


def _around(block: Block) -> str:
    """Return the element that consecutive blocks of one kind share."""
    if isinstance(block, Fact):
        return '<dl class="facts">{}</dl>'
    return "<ul>{}</ul>" if isinstance(block, Text) and block.style == "item" else "{}"


def _drawn(block: Block, data: Data) -> str:
    match block:
        case Text():
            return _text(block)
        case Fact():
            return "".join(
                f"<dt>{escape(name)}</dt><dd>{escape(value)} "
                f'<span class="muted small">{escape(meaning)}</span></dd>'
                for name, value, meaning in _entries(block, data)
            )
        case DataTable(_, columns, rows, caption, facts, file=False):
            notes = "".join(f"<p>{escape(each.note)}.</p>" for each in facts if each.note)
            return _table(columns, [list(map(cell, row)) for row in rows], caption) + notes
        case Figure(kind, own, alt, caption):
            shown = ""
            if (drawing := svg(kind, own)) is not None:
                # The drawing in words, for readers who cannot see it.
                told = alt + (_ALTERNATIVES[kind](own) if kind in _ALTERNATIVES else "")
                shown = (
                    f'<figure role="img" aria-label="{escape(told)}">{drawing}'
                    f'<figcaption aria-hidden="true">{escape(caption)}</figcaption></figure>'
                )
                caption = "The same in numbers"
            wide = f"<p>{escape(too_wide(own['too_wide']))}</p>" if own.get("too_wide") else ""
            table = _table(*_TABLES[kind](own), caption, kind) if kind in _TABLES else ""
            return shown + wide + table
    return ""


_STYLES = {
    "heading": "<h3>{}</h3>",
    "item": "<li>{}</li>",
    "small": '<p class="muted small">{}</p>',
    "code": "<pre>{}</pre>",
    "good": '<span class="met">{}</span>',
    "bad": '<span class="unmet">{}</span>',
}


def _text(block: Text, paragraph: str = "<p>{}</p>") -> str:
    return _STYLES.get(block.style, paragraph).format(escape(block.text))


def _table(head: Sequence[str], rows: Rows, caption: str, kind: str = "") -> str:
    """Return rows under a head; the first column names the row, the others are numbers.

    On narrow screens the style sheet lays out those of a kind as grids, which not every browser
    reads aloud as tables unless their roles are stated.
    """
    first, *rest = map(escape, head)
    named = f' class="stacked {kind}"' if kind else ""
    top = "".join(f'<th scope="col" role="columnheader" class="n">{name}</th>' for name in rest)
    return (
        f'<div class="scroll"><table{named} role="table"><caption>{escape(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">{first}</th>'
        f'{top}</tr></thead><tbody role="rowgroup">{"".join(_row(*row) for row in rows)}</tbody>'
        "</table></div>"
    )


def _row(first: str | tuple[str, str], *rest: str) -> str:
    name, small = (first, "") if isinstance(first, str) else first
    extra = f"<small>{escape(small)}</small>" if small else ""
    cells = "".join(f'<td role="cell" class="n">{escape(each)}</td>' for each in rest)
    head = f'<th scope="row" role="rowheader">{escape(name)}{extra}</th>'
    return f'<tr role="row">{head}{cells}</tr>'


def _estimates(data: Data) -> tuple[Sequence[str], Rows]:
    """Return the estimates in numbers, beside the truth where it is known."""
    shown = tables.estimates(data)
    return shown.head, shown.rows


def _history(data: Data) -> tuple[Sequence[str], Rows]:
    head = ["after", f"ε if planned so, against {data['against']}", "largest standard error"]
    return head, [
        (several(each["rounds"], "round"), up(each["epsilon_if_planned"]), error)
        for each, error in zip(data["history"], data["errors"], strict=True)
    ]


def _guarantees(data: Data) -> tuple[Sequence[str], Rows]:
    return _by_view([x for x in data["guarantees"] if x["notion"] == "dp"], tables.guarantees, 4)


def _orders(data: Data) -> tuple[Sequence[str], Rows]:
    return _by_view([x for x in data["guarantees"] if x["notion"] == "order"], tables.orders, 4)


def _by_view(
    described: Sequence[Data], table: Callable[[Sequence[Data]], TextTable], columns: int
) -> tuple[Sequence[str], Rows]:
    """Return the first columns of a table, with views described; methods have a section."""
    shown = table(described)
    views = (each["view"].split("+") for each in described)
    rows = [
        ((view_title(view), view_description(view)), *row[1:columns])
        for view, row in zip(views, shown.rows, strict=True)
    ]
    return shown.head[:columns], rows


_TABLES: Mapping[str, Callable[[Data], tuple[Sequence[str], Rows]]] = {
    "estimates": _estimates,
    "history": _history,
    "guarantees": _guarantees,
    "orders": _orders,
}
"""Figures that are also shown in numbers, or only so: the head and the rows."""


def _estimates_told(data: Data) -> str:
    rows = _estimates(data)[1][:MOST_ROWS]
    return ": " + "; ".join(f"{row[0]} {row[1]} ({row[2]})" for row in rows)


_ALTERNATIVES: Mapping[str, Callable[[Data], str]] = {
    "estimates": _estimates_told,
    "map": maps.told,
}
"""Numbers of a figure that are read aloud, after its own words."""


def _entries(fact: Fact, data: Data) -> list[Entry]:
    """Return a fact in words of its own, or else a line for each of its sentences."""
    match fact.name:
        case "cost":
            return [
                (name, count(data[of][key]), note) for name, of, key, note in _COSTS if of in data
            ]
        case "measured_cost":
            return []  # beside the cost
        case "reports":
            arrived = f"{count(data['reports']['received'])} of {count(data['reports']['sent'])}"
            return [("Reports", arrived, "arrived; the guarantee above counts only those that did")]
        case "seed":
            return [("Seed", fact.note if fact.value is None else str(fact.value), "")]
        case "diagnostics":
            told = lines(fact.value)
        case "live":
            told = live_lines(data["live"])
        case _:
            told = lines([fact])
    return [(capital(name), value, fact.note) for name, value in told]


_SENT = "sent by each person"
_MEASURED = f"{_SENT} in this run, retries included"
_COSTS = (
    ("Rounds", "cost", "rounds", "or steps, that the protocol took"),
    ("Messages", "cost", "messages_per_person", f"{_SENT}, as planned"),
    ("Bytes", "cost", "bytes_per_person", f"{_SENT}, as planned, before encryption"),
    ("Messages, measured", "measured_cost", "messages_per_person", _MEASURED),
    ("Bytes, measured", "measured_cost", "bytes_per_person", _MEASURED),
    ("Helpers", "cost", "extra_people", "needed beside the people who answer"),
)
"""Name, group and key of each cost, and what it means."""
