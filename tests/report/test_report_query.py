"""What tables and pages say of the answer of a query."""

from io import StringIO

import numpy as np
from rich.console import Console

from incrowd.report.describe import describe_table
from incrowd.report.query import query_section
from incrowd.report.tables import query_table
from incrowd.tasks.query import QueryAnswer, QueryRow


def answer(lost: tuple[int, ...]) -> QueryAnswer:
    none = np.empty(0)
    return QueryAnswer(
        labels=(), value=none, low=none, high=none, standard_error=none, confidence=0.95, people=9,
        missing="Nobody is.",
        columns=("place", "SUM(x)"), rows=(QueryRow(0, 1, ("<b>", 3.5), 4),),
        positions=np.empty(0, np.int64), lost=lost,
    )  # fmt: skip


def shown(lost: tuple[int, ...]) -> str:
    described = describe_table(answer(lost))
    assert described is not None
    out = StringIO()
    Console(file=out, width=100).print(query_table(**described))
    return out.getvalue()


def test_groups_of_silent_compute_nodes_are_counted() -> None:
    assert "4 groups are unknown" in shown((0, 4))
    assert "unknown" not in shown((0, 0))
    assert "4 groups are unknown" in query_section(answer((4,)))
    assert "unknown" not in query_section(answer((0,)))


def test_the_table_has_the_tuples_behind_each_row() -> None:
    assert describe_table(answer(())) == {
        "columns": ["place", "SUM(x)", "tuples"],
        "rows": [["<b>", 3.5, 4]],
        "lost": [],
    }
    assert "&lt;b&gt;" in query_section(answer(()))
