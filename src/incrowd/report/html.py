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
from incrowd.errors import FileUnreadable
from incrowd.report.figures import MOST_ROWS, svg
from incrowd.report.format import cell, count, down, guess, percent, plain, round_up, several, up
from incrowd.report.json import merged
from incrowd.report.style import STYLE
from incrowd.report.words import ORDERED, capital, lines, live_lines, view_title, view_who

Entry = tuple[str, str, str]
"""A name, its value, and what that means."""
Told = Mapping[str, Any]
"""All data of the sections, by name."""


def require_writable(path: Path, what: str = "report") -> None:
    """Raise unless it could be written there; to be asked before a long run, not after."""
    folder = path.absolute().parent
    if path.is_dir():
        problem = "it is a folder; name a file"
    elif not folder.is_dir():
        problem = f"there is no folder {folder}; create it first"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        problem = "permission denied"
    else:
        return
    raise FileUnreadable(f"{path}: cannot write the {what}: {problem}")


def write(sections: Sequence[Section], path: Path) -> Path:
    """Write the page; raises when the file cannot be written."""
    page = render(sections)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise FileUnreadable(f"{path}: cannot write the report: {error.strerror}") from error
    return path


def render(sections: Sequence[Section]) -> str:
    """The whole page, under the section that heads all others."""
    told = merged(sections)
    head = next(each for each in sections if each.key == HEAD)
    parts = [_chapter(each, told) for each in chapters(sections)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(head.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"{_header(head)}\n<main>\n{chr(10).join(parts)}\n</main>\n"
        "<footer><p>Made by incrowd. Promises are proven bounds, rounded up; nothing on this page "
        "is fetched from elsewhere.</p></footer>\n</body>\n</html>\n"
    )


def _header(section: Section) -> str:
    lede = " ".join(_text(each, "") for each in section.blocks if isinstance(each, Text))
    tiles = "".join(
        f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(big)}</dd>'
        f"<dd>{escape(note)}</dd></div>"
        for name, big, note in map(_tile, section.blocks)
        if name
    )
    return (
        f'<header><p class="eyebrow">A private survey</p><h1>{escape(section.title)}</h1>'
        f'<p class="lede">{lede}</p><dl class="tiles">{tiles}</dl></header>'
    )


def _tile(block: Block) -> Entry:
    """A fact in large letters."""
    if not isinstance(block, Fact):
        return "", "", ""
    ((name, value),) = lines([block])
    if block.unit == "±":
        value = f"± {plain(block.value, 3)}"
    elif block.unit == "± points":
        value = f"± {plain(block.value, 2)} points"
    elif block.unit:
        value = f"{block.unit} = {value}"
    return capital(name), value, block.note


def _chapter(section: Section, told: Told) -> str:
    body = []
    for kind, group in groupby(section.blocks, _kind):
        blocks: list[Any] = list(group)
        if kind == "facts":
            body.append(_definitions([entry for each in blocks for entry in _entries(each, told)]))
        elif kind == "items":
            body.append(f"<ul>{''.join(f'<li>{escape(each.text)}</li>' for each in blocks)}</ul>")
        else:
            body += [_drawn(each) for each in blocks]
    return f"<section><h2>{escape(section.title)}</h2>{''.join(body)}</section>"


def _kind(block: Block) -> str:
    """The kind of block: consecutive facts stand together, and the items of a list."""
    if isinstance(block, Fact):
        return "facts"
    return "items" if isinstance(block, Text) and block.style == "item" else ""


def _drawn(block: Block) -> str:
    match block:
        case Text():
            return _text(block)
        case DataTable(_, columns, rows, caption, facts, file=False):
            notes = "".join(f"<p>{escape(each.note)}.</p>" for each in facts if each.note)
            return _table(columns, [list(map(cell, row)) for row in rows], caption) + notes
        case Figure(kind, data, alt, caption):
            drawing = svg(kind, data)
            alternative = alt + (_ALTERNATIVES[kind](data) if kind in _ALTERNATIVES else "")
            shown = "" if drawing is None else _figure(drawing, alternative, caption)
            named = "The same in numbers" if shown else caption
            return shown + (_table(*_TABLES[kind](data), named) if kind in _TABLES else "")
    return ""


def _text(block: Text, paragraph: str = "p") -> str:
    text = escape(block.text)
    match block.style:
        case "heading":
            return f"<h3>{text}</h3>"
        case "small":
            return f'<p class="muted small">{text}</p>'
        case "code":
            return f"<pre>{text}</pre>"
        case "good":
            return f'<span class="met">{text}</span>'
        case "bad":
            return f'<span class="unmet">{text}</span>'
    return f"<p>{text}</p>" if paragraph else text


def _figure(drawing: str, alternative: str, caption: str) -> str:
    """A drawing, with what it shows in words for whoever cannot see it."""
    return (
        f'<figure role="img" aria-label="{escape(alternative)}">{drawing}'
        f'<figcaption aria-hidden="true">{escape(caption)}</figcaption></figure>'
    )


def _definitions(entries: Sequence[Entry]) -> str:
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)} "
        f'<span class="muted small">{escape(meaning)}</span></dd>'
        for name, value, meaning in entries
    )
    return f'<dl class="facts">{rows}</dl>'


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str) -> str:
    """Rows under a head; the first column names the row, the others are numbers."""
    top = "".join(
        f'<th scope="col"{_numeric(index)}>{escape(name)}</th>' for index, name in enumerate(head)
    )
    body = "".join(
        "<tr>" + "".join(_cell(index, value) for index, value in enumerate(row)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(index: int, value: Any) -> str:
    if index == 0:
        name, small = value if isinstance(value, tuple) else (value, "")
        extra = f"<small>{escape(small)}</small>" if small else ""
        return f'<th scope="row">{escape(str(name))}{extra}</th>'
    return f"<td{_numeric(index)}>{escape(str(value))}</td>"


def _numeric(index: int) -> str:
    return ' class="n"' if index else ""


def _answer_cells(data: Told) -> tuple[list[str], list[list[str]]]:
    """The estimates in numbers, beside the truth where it is known."""
    interval, truth = data["interval"], data["truth"]
    head = ["", "estimate", f"{interval['confidence']:.0%} interval"]
    head += [] if truth is None else ["truth", "off by"]
    rows = []
    for index, (each, share) in enumerate(zip(data["result"], data["share"], strict=True)):
        shown = percent if share else plain
        value, low, high = each["estimate"], interval["low"][index], interval["high"][index]
        row = [each["label"], shown(value), f"{shown(low)} to {shown(high)}"]
        if truth is not None:
            off = value - truth[index]
            apart = f"{100 * off:+.1f} points" if share else f"{off:+.3g}"
            row += [shown(truth[index]), apart]
        rows.append(row)
    return head, rows


def _history_cells(data: Told) -> tuple[list[str], list[list[str]]]:
    head = ["", f"ε if planned so, against {data['against']}", "largest standard error"]
    return head, [
        [several(each["rounds"], "round"), up(each["epsilon_if_planned"]), error]
        for each, error in zip(data["refined"], data["errors"], strict=True)
    ]


def _promise_cells(data: Told) -> tuple[list[str], list[list[Any]]]:
    head = ["who looks", "ε (proven)", "best known attack", "guess right, at most"]
    return head, [
        [
            _who(each["view"]),
            up(each["epsilon"]),
            down(each["lower_bound"]),
            percent(round_up(guess(each["epsilon"], each["delta"]), 3)),
        ]
        for each in data["guarantees"]
        if each["notion"] == "dp"
    ]


def _order_cells(data: Told) -> tuple[list[str], list[list[Any]]]:
    head = ["who looks", "α (proven)", "hidden is the order of", "guess right, at most"]
    return head, [
        [
            _who(each["view"]),
            up(each["alpha"]),
            ORDERED[each["neighbours"]],
            percent(round_up(guess(each["alpha"], 0.0), 3)),
        ]
        for each in data["orders"]
    ]


def _who(view: str) -> tuple[str, str]:
    return view_title(view.split("+")), view_who(view.split("+"))


_TABLES: Mapping[str, Callable[[Told], tuple[list[str], list[list[Any]]]]] = {
    "estimates": _answer_cells,
    "history": _history_cells,
    "promises": _promise_cells,
    "orders": _order_cells,
}
"""Figures that are also shown in numbers, or only so: the head and the rows."""


def _estimates_told(data: Told) -> str:
    rows = _answer_cells(data)[1][:MOST_ROWS]
    return ": " + "; ".join(f"{row[0]} {row[1]} ({row[2]})" for row in rows)


def _map_told(data: Told) -> str:
    ends = ((name, each.clip(0, 1)) for name, each in data["shares"].items())
    told = (f"{name} from {percent(each.min())} to {percent(each.max())}" for name, each in ends)
    return f": {'; '.join(told)}."


_ALTERNATIVES: Mapping[str, Callable[[Told], str]] = {
    "estimates": _estimates_told,
    "map": _map_told,
}
"""Numbers of a figure that are read aloud, after its own words."""


def _entries(fact: Fact, told: Told) -> list[Entry]:
    """A fact in words of its own, or else a line for each of its sentences."""
    if fact.name in _ENTRIES:
        return _ENTRIES[fact.name](fact, told)
    return [(capital(name), value, fact.note) for name, value in lines([fact])]


def _costs(_: Fact, told: Told) -> list[Entry]:
    cost, measured = told["cost"], told.get("measured")
    sent = "sent by each person"
    found = [
        ("Rounds", count(cost["rounds"]), "or steps, that the protocol took"),
        ("Messages", count(cost["messages_per_person"]), f"{sent}, as planned"),
        ("Bytes", count(cost["bytes_per_person"]), f"{sent}, as planned, before encryption"),
    ]
    if measured:
        found += [
            (f"{name}, measured", count(value), f"{sent} in this run, retries included")
            for name, value in (
                ("Messages", measured["messages_per_person"]),
                ("Bytes", measured["bytes_per_person"]),
            )
        ]
    extra = count(cost["extra_people"])
    return [*found, ("Helpers", extra, "needed beside the people who answer")]


def _reports(_: Fact, told: Told) -> list[Entry]:
    arrived = f"{count(told['reports']['received'])} of {count(told['reports']['sent'])}"
    return [("Reports", arrived, "arrived; the promise above counts only those that did")]


def _plain(found: Sequence[tuple[str, str]]) -> list[Entry]:
    return [(capital(name), value, "") for name, value in found]


_ENTRIES: Mapping[str, Callable[[Fact, Told], list[Entry]]] = {
    "cost": _costs,
    "measured": lambda *_: [],
    "reports": _reports,
    "details": lambda fact, _: _plain(lines(fact.value)),
    "live": lambda _, told: _plain(live_lines(told["live"])),
    "seed": lambda fact, _: [("Seed", fact.note if fact.value is None else str(fact.value), "")],
}
"""Facts that the page puts into words of its own."""
