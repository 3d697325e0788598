"""Blocks, and one list of them on a page, on a terminal and as data."""

import dataclasses
import json
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from incrowd.blocks import DataTable, Fact, Figure, Section, Text, arranged, facts
from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.pure import PureProfile
from incrowd.protocols import load
from incrowd.randomizers import KRR
from incrowd.report import Document, Told, render, sections_of
from incrowd.report.figures import figure, svg
from incrowd.report.json import merged, payload
from incrowd.report.tables import TextTable
from incrowd.report.terminal import draw, text_table
from incrowd.tasks import Answer, Histogram
from incrowd.tasks.base import AnswerContext
from incrowd.views import view_of

ESTIMATES = {
    "result": [{"label": "bus", "estimate": 0.123456, "standard_error": 0.01}],
    "interval": {"confidence": 0.95, "low": [0.1], "high": [0.2]},
    "truth": None,
    "share": [True],
    "too_wide": [],
}
SECTIONS = arranged(
    (
        Section(
            "harbour",
            "In the harbour",
            20,
            (
                Text("Boats <float>."),
                Text("One.", "item"),
                Text("Two.", "item"),
                Fact("worst_epsilon", 0.123411, bound="up"),
                Fact("attained", 0.123499, bound="down"),
                DataTable(
                    "boats",
                    ("name", "length"),
                    (("<Ann>", 3.5), ("Bo", None)),
                    facts=(Fact("sunk", [1], note="1 boat is unknown"),),
                ),
                DataTable("crew", ("name",), (("Eve",),), file=True),
                Figure("sonar", {"depth": 7}),
            ),
        ),
        Section("question", "Who sails?", 0, (Text("9 people."), Fact("people", 9, note="all"))),
        Section("answer", "The answer", 10, (Figure("estimates", ESTIMATES, "Estimates"),)),
    )
)


def on_terminal(sections: tuple[Section, ...]) -> str:
    out = StringIO()
    draw(Console(file=out, width=100), sections)
    return out.getvalue()


def test_blocks_are_frozen() -> None:
    text: Any = Text("a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        text.text = "b"


def test_sections_are_arranged_by_order_and_joined_by_key() -> None:
    one, two = Fact("one", 1), Fact("two", 2)
    found = arranged(
        (
            Section("b", "Second", 2, (two,)),
            Section("a", "", 1, (one,)),
            Section("a", "First", 3, (two,)),
        )
    )
    assert [(each.key, each.title, each.order) for each in found] == [
        ("a", "First", 1),
        ("b", "Second", 2),
    ]
    assert list(facts(found)) == [one, two, two]


def test_page_shows_every_kind_of_block() -> None:
    page = render(SECTIONS)
    titles = [page.index(each) for each in ("<h1>Who sails?", "<h2>The answer", "<h2>In the harb")]
    assert titles == sorted(titles)
    assert "Boats &lt;float&gt;." in page
    assert "<ul><li>One.</li><li>Two.</li></ul>" in page
    assert "<dt>Worst epsilon</dt><dd>0.1235 " in page
    assert "<dt>Attained</dt><dd>0.1234 " in page
    assert "&lt;Ann&gt;" in page
    assert "1 boat is unknown." in page
    assert 'aria-label="Estimates: bus 12.3 % (10.0 – 20.0 %)"' in page
    assert "Eve" not in page


def test_terminal_shows_tables_and_facts_without_prose() -> None:
    shown = on_terminal(SECTIONS)
    assert shown.startswith("Who sails?\n")
    assert "95 % interval" in shown
    assert "worst epsilon  0.1235" in shown
    assert "attained       0.1234" in shown
    assert "<Ann>" in shown
    assert "1 boat is unknown" in " ".join(shown.split())
    # Prose is for the page, and the crew for a file.
    assert "float" not in shown
    assert "Eve" not in shown


def test_json_has_full_doubles_of_all_blocks() -> None:
    found = merged(SECTIONS)
    assert found["worst_epsilon"] == 0.123411
    assert found["tables"]["boats"] == {
        "columns": ["name", "length"],
        "rows": [["<Ann>", 3.5], ["Bo", None]],
        "sunk": [1],
    }
    assert found["depth"] == 7
    assert "crew" not in found
    told = payload(SECTIONS)
    assert list(told)[-2:] == ["worst_epsilon", "attained"]
    assert told["tables"] == found["tables"]
    assert told["people"] == 9
    assert told["live"] is None
    assert "report" not in told
    assert json.loads(json.dumps(told)) == told


def test_groups_of_one_name_are_joined_in_json() -> None:
    one = Section("a", "", 1, (Fact("tables", (Fact("release", (Fact("rows", 3),)),)),))
    two = Section("b", "", 2, (Fact("tables", (Fact("release", (Fact("file", "x.csv"),)),)),))
    assert payload((one, two))["tables"] == {"release": {"rows": 3, "file": "x.csv"}}
    assert payload((Section("a", "", 1, (Fact("diagnostics", ()),)),))["diagnostics"] == {}


def test_figure_of_an_unknown_kind_is_not_drawn() -> None:
    assert svg("sonar", {"depth": 7}) is None
    assert "sonar" not in render(SECTIONS)


def test_rows_of_another_unit_are_not_on_the_axis() -> None:
    rows = [
        {"label": name, "estimate": value, "standard_error": 1.0}
        for name, value in (("mean", 40.0), ("no answer", 0.25))
    ]
    limits = {"confidence": 0.95, "low": [30.0, 0.2], "high": [50.0, 0.3]}
    data = {"result": rows, "interval": limits, "truth": None, "share": [False, True]}
    data["too_wide"] = []
    drawn = svg("estimates", data)
    assert drawn is not None
    assert ">mean<" in drawn
    assert ">no answer<" not in drawn
    page = render((SECTIONS[0], Section("a", "Mean", 1, (Figure("estimates", data),))))
    assert "25.0 %" in page


@dataclasses.dataclass(frozen=True)
class Tide(Answer):
    """An answer of somebody else's task, which no renderer knows."""

    def sections(self, context: AnswerContext) -> tuple[Section, ...]:
        level = Fact("tide_level", 2.34567, bound="up", note="above zero")
        return (*super().sections(context), Section("tide", "The tide", 15, (level,)))


def test_sections_of_a_foreign_answer_reach_every_medium() -> None:
    task = Histogram(categories=("bus", "car"), complete=True)
    shuffle: Any = load("trusted-shuffle")
    protocol = shuffle(KRR(categories=2, epsilon=1.5), n=400)
    run = protocol.simulate(np.array(["bus", "car"] * 200), task=task, seed=1)
    run = dataclasses.replace(run, answers=(Tide(**vars(run.result)),))
    sections = sections_of(
        Document(
            title="How high?",
            questions=(Told("tide", "How high?", task),),
            protocol=protocol,
            run=run,
            epsilon=1.0,
            delta=1e-6,
            view="curator",
        )
    )
    page = render(sections)
    assert "<h2>The tide</h2>" in page
    assert '<dt>Tide level</dt><dd>2.346 <span class="muted small">above zero</span>' in page
    places = [page.index(x) for x in ("The answer", "The tide", "The guarantee of each person")]
    assert places == sorted(places)
    assert "tide level    2.346" in on_terminal(sections)
    assert payload(sections)["tide_level"] == 2.34567
    assert payload(sections)["people"] == 400


def test_terminal_keeps_names_of_views_whole_at_eighty_columns() -> None:
    cells = ["≤ 973", "3.575", "3.574", "local randomizer"]
    rows = [["curator+shuffler", *cells], ["everyone", "no meaningful protection", *cells[1:]]]
    head = ["view", "right guesses of 1,000", "ε at δ = 1e-6", "lower bound", "theorem"]
    out = StringIO()
    Console(file=out, width=80).print(text_table(TextTable(head, rows, frozenset({0, 4}))))
    for whole in ("curator+shuffler", "≤ 973", "randomizer", "protection", "ε at δ = 1e-6"):
        assert whole in out.getvalue()


def test_profile_figure_draws_a_curve_for_every_view() -> None:
    views = ("peer", "peer+hub", "curator", "curator+hub", "everyone")
    proven = [
        Guarantee(PureProfile(1.0 + number / 1000), view_of(view), "none", ())
        for number, view in enumerate(views)
    ]
    drawn = figure("profile", {"proven": proven, "delta": 1e-6})
    ((legend,), (axes,)) = drawn.legends, drawn.axes
    curves = [each for each in axes.lines if len(np.asarray(each.get_xdata())) > 2]
    assert len(curves) == len(legend.get_texts()) == len(views)
    # So close to each other that every tick of a tight axis would read 1.
    low, high = axes.get_ylim()
    assert high >= 3 * low
