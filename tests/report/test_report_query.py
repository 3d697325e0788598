"""The answer of a query on a page, on a terminal and as data."""

import math
from io import StringIO

import numpy as np
from rich.console import Console

from incrowd.blocks import Section
from incrowd.randomizers import Redirect
from incrowd.report import render
from incrowd.report.json import payload
from incrowd.report.terminal import draw
from incrowd.tasks import Collected
from incrowd.tasks.base import AnswerContext
from incrowd.tasks.query import QueryAnswer, QueryRow


def sections(lost: tuple[int, ...]) -> tuple[Section, ...]:
    none = np.empty(0)
    answer = QueryAnswer(
        labels=(), value=none, low=none, high=none, standard_error=none, confidence=0.95, people=9,
        missing="Nobody is.",
        columns=("place", "SUM(x)"), rows=(QueryRow(0, 1, ("<b>", 3.5), 4),),
        positions=np.empty(0, np.int64), lost=lost,
    )  # fmt: skip
    context = AnswerContext(
        collected=Collected(rounds=(np.zeros(4), np.zeros(7)), sent=11),
        randomizer=Redirect(epsilon=math.inf, targets=2, redirect_probability=0.5),
        shares=False,
    )
    return answer.sections(context)


def shown(lost: tuple[int, ...]) -> str:
    out = StringIO()
    draw(Console(file=out, width=100), sections(lost))
    return out.getvalue()


def test_groups_of_silent_compute_nodes_are_counted() -> None:
    assert "4 groups are unknown" in shown((0, 4))
    assert "unknown" not in shown((0, 0))
    assert "4 groups are unknown" in render(sections((4,)))
    assert "unknown" not in render(sections((0,)))


def test_table_has_the_tuples_behind_each_row() -> None:
    assert payload(sections(()))["tables"]["table"] == {
        "columns": ["place", "SUM(x)", "tuples"],
        "rows": [["<b>", 3.5, 4]],
        "lost": [],
    }
    assert "&lt;b&gt;" in render(sections(()))


def test_query_page_shows_fewest_tuples_behind_answer() -> None:
    page = render(sections(()))
    assert "Tuples behind the answer</dt><dd>4</dd><dd>or more, of 9 people" in page
