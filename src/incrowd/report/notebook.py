"""Answers, guarantees and runs at a prompt and in a notebook.

One answer, or one guarantee, is shown at a time; a run shows its answers and then its guarantees.
Guarantees are stated at δ = 1e-6, in a curve that may hold for any other.
"""

from __future__ import annotations

import json
import math
from html import escape
from typing import TYPE_CHECKING, Any

from incrowd.errors import MissingExtra, NumericalFloor
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.run import Run
from incrowd.report import figures, tables
from incrowd.report.format import count, small, up, with_error
from incrowd.report.json import describe_guarantee
from incrowd.report.tables import TextTable
from incrowd.tasks.base import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Shown = Answer | Guarantee | Run
Record = dict[str, Any]

DELTA = 1e-6
"""The failure probability that guarantees are shown at."""
_ROWS = 3
"""Number of estimates on one line."""


def text(shown: Shown) -> str:
    """Return one line: the estimates, or the ε and whom it is against."""
    if isinstance(shown, Guarantee):
        colluders = f" with {count(shown.colluders)} colluders" if shown.colluders else ""
        against = f"{shown.view_name}{colluders} by {shown.theorem}"
        rests = f"{shown.neighbours}, {len(shown.assumptions)} assumptions"
        return f"Guarantee({_strength(shown)} against {against}; {rests})"
    if isinstance(shown, Answer):
        columns = zip(shown.labels[:_ROWS], shown.value, shown.standard_error, strict=False)
        rows = [f"{label} = {with_error(value, error)}" for label, value, error in columns]
        more = [f"… {count(len(shown.labels))} rows"] if len(shown.labels) > _ROWS else []
        return f"Answer({', '.join(rows + more)}; {count(shown.people)} people)"
    stated = f"{len(shown.guarantees)} guarantees"
    answers = ", ".join(map(text, shown.answers))
    return f"Run({answers}, seed = {shown.seed}, {stated})"


def _strength(guarantee: Guarantee) -> str:
    if guarantee.notion == "order":
        return f"α = {up(guarantee.alpha)}"
    try:
        epsilon, delta = guarantee.epsilon(DELTA), DELTA
    except NumericalFloor:
        epsilon, delta = guarantee.epsilon(0.0), 0.0
    if math.isinf(epsilon):
        return f"no ε at δ = {small(delta)}"
    return f"ε = {up(epsilon)} at δ = {small(delta)}"


def html(shown: Shown) -> str:
    """Return tables for a notebook."""
    if isinstance(shown, Run):
        stated = (_table(each) for each in _guarantees(shown.guarantees))
        return "".join((*map(html, shown.answers), *stated))
    if isinstance(shown, Guarantee):
        return "".join(_table(each) for each in _guarantees((shown,)))
    return _table(tables.estimates(_estimates(shown)))


def records(shown: Shown) -> list[Record]:
    """Return the rows of an answer, or of a guarantee the only one, with full doubles.

    Rows of several questions begin with the number of theirs, counted from 1.
    """
    if isinstance(shown, Run) and len(shown.answers) > 1:
        numbered = enumerate(shown.answers, 1)
        return [{"question": number} | row for number, each in numbered for row in records(each)]
    if isinstance(shown, Run):
        return records(shown.result)
    if isinstance(shown, Guarantee):
        described = describe_guarantee(shown, DELTA)
        return [{key: each for key, each in described.items() if key != "assumptions"}]
    columns = (shown.labels, shown.value, shown.low, shown.high, shown.standard_error)
    names = ("label", "estimate", "low", "high", "standard_error")
    return [
        dict(zip(names, (row[0], *map(float, row[1:])), strict=True))
        for row in zip(*columns, strict=True)
    ]


def frame(shown: Shown) -> Any:
    """Return the rows as a frame of pandas, else of polars."""
    rows = records(shown)
    for name in ("pandas", "polars"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        return library.DataFrame(rows)
    raise MissingExtra("a frame needs pandas or polars: pip install pandas")


def as_json(shown: Shown) -> str:
    """Return the rows as JSON; of a run those of each question, and its guarantees."""
    if isinstance(shown, Run):
        questions = [{"rows": records(each)} for each in shown.answers]
        stated = [describe_guarantee(each, DELTA) for each in shown.guarantees]
        data: Any = {"questions": questions, "guarantees": stated, "seed": shown.seed}
    else:
        data = records(shown)
    return json.dumps(_finite(data), allow_nan=False, ensure_ascii=False)


def figure(shown: Shown) -> Figure:
    """Return the estimates with their limits, or the curve of a guarantee."""
    if isinstance(shown, Guarantee):
        return figures.figure("profile", {"proven": [shown], "delta": DELTA})
    answer = shown.result if isinstance(shown, Run) else shown
    return figures.figure("estimates", _estimates(answer))


def _estimates(answer: Answer) -> Record:
    return answer.data(None) | {"share": answer.share(shares=False), "too_wide": []}


def _guarantees(stated: tuple[Guarantee, ...]) -> list[TextTable]:
    described = [describe_guarantee(each, DELTA) for each in stated]
    kinds = {"dp": tables.guarantees, "order": tables.orders}
    about = ((make, [x for x in described if x["notion"] == key]) for key, make in kinds.items())
    return [make(each) for make, each in about if each]


def _table(table: TextTable) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.head)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
