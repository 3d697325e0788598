"""The pieces a report is put together from: sections, figures, tables, and names with values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["definitions", "figure", "section", "table"]


def section(title: str, body: str) -> str:
    """A part of the page under its title; the body is markup already."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def figure(svg: str, alternative: str, caption: str) -> str:
    """A drawing, with what it shows in words for whoever cannot see it."""
    return (
        f'<figure role="img" aria-label="{escape(alternative)}">{svg}'
        f'<figcaption aria-hidden="true">{escape(caption)}</figcaption></figure>'
    )


def definitions(told: Iterable[tuple[str, str, str]]) -> str:
    """Names, values and what they mean."""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)} "
        f'<span class="muted small">{escape(meaning)}</span></dd>'
        for name, value, meaning in told
    )
    return f'<dl class="facts">{rows}</dl>'


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str) -> str:
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
