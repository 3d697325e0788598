"""What a report says of a query: its table, and the plan by which it was answered."""

from __future__ import annotations

from html import escape

from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import drawing_of
from incrowd.report.parts import figure, section, table
from incrowd.report.tables import cell_text, lost_text
from incrowd.tasks.query import QueryAnswer

__all__ = ["plan_section", "query_section"]


def query_section(answer: QueryAnswer) -> str:
    """The answer as SQL gives it."""
    rows = [[cell_text(value) for value in (*row.values, row.tuples)] for row in answer.rows]
    return section(
        "The answer",
        "<p>One row per group, as SQL gives it; a column by which a row is not grouped is empty. "
        "The last column counts the tuples that reached the compute node of the group: where some "
        "messages are misdirected, counts and sums are scaled up to everybody who took part, and "
        "the least and the greatest are those of the tuples that arrived.</p>"
        + f"<p>{escape(answer.missing)}</p>"
        + table([*answer.columns, "tuples"], rows, caption="The answer")
        + (f"<p>{escape(lost_text(answer.lost))}.</p>" if any(answer.lost) else ""),
    )


def plan_section(protocol: Protocol) -> str:
    """Who sends to whom, and what that tells; nothing where there is no plan to draw."""
    drawn = drawing_of(protocol)
    if drawn is None:
        return ""
    items = "".join(f"<li>{escape(each)}</li>" for each in drawn.told)
    return section(
        "The plan",
        figure(drawn.svg, " ".join(drawn.told), "Who sends to whom.") + f"<ul>{items}</ul>",
    )
