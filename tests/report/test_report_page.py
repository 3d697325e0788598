"""The page: one file, no requests, readable aloud, and the numbers that were proven."""

import re
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from incrowd.errors import FileNotWritable
from incrowd.protocols import load
from incrowd.randomizers import KRR, OneBit, Ternary
from incrowd.report import Document, Told, render, require_writable, sections_of, write
from incrowd.report.format import by_error, down, percent, up
from incrowd.tasks import Histogram, Mean

SHUFFLE: Any = load("trusted-shuffle")
DELTA = 1e-6
VOID = {"meta", "br", "link", "img", "input", "hr"}


def document(**changes: Any) -> Document:
    names = ("bus", "<b>&", "$x_1$ car")
    values = np.array(names)[np.arange(600) % 3]
    task = Histogram(categories=names)
    protocol = SHUFFLE(KRR(categories=4, epsilon=1.5), n=600)
    run = protocol.simulate(values, task=task, seed=1)
    told = {
        "title": 'How do <people> & "others" travel?',
        "questions": (Told("mode", "How?", task, truth=task.truth(values)),),
        "protocol": protocol,
        "run": run,
        "epsilon": 1.0,
        "delta": DELTA,
        "view": "curator",
        "source": "[task]\n# a <comment>",
        "command": "incrowd run survey.toml --seed 1",
    }
    return Document(**(told | changes))


@lru_cache(maxsize=1)
def usual() -> tuple[Document, str]:
    made = document()
    return made, page_of(made)


def page_of(made: Document) -> str:
    return render(sections_of(made))


class Page(HTMLParser):
    """A strict reader: every element is closed in order; ids, links and text are kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def test_page_is_well_formed_and_requests_nothing() -> None:
    _, text = usual()
    page = Page(text)
    assert page.open == []
    assert "http" not in text.lower()
    assert "//" not in text
    assert "@import" not in text
    assert not {"script", "link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.seen}
    for tag, attributes in page.seen:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))


def test_page_ids_are_unique_and_references_resolve() -> None:
    _, text = usual()
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.seen if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = set(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    assert wanted <= set(ids)


def test_page_contains_guarantees_and_estimates() -> None:
    made, text = usual()
    words = Page(text).words
    for guarantee in made.run.guarantees:
        assert up(guarantee.epsilon(DELTA)) in words
        assert guarantee.theorem in words
        for assumption in guarantee.assumptions:
            assert assumption in words
    assert down(made.run.guarantees[0].lower(DELTA)) in words
    answer = made.run.result
    for index in range(3):
        for number in (answer.value, answer.high, made.questions[0].truth):
            assert number is not None
            assert percent(float(number[index])) in words
        low = percent(float(answer.low[index])).removesuffix(" %")
        assert f"{low} – {percent(float(answer.high[index]))}" in words
    assert "600 people" in words
    assert "--seed 1" in words


def test_page_escapes_text() -> None:
    made, text = usual()
    assert made.title in Page(text).words
    assert "<people>" not in text
    assert "# a <comment>" in Page(text).words
    assert "$x_1$ car" in Page(text).words


def test_page_has_language_labels_and_scopes_for_screen_readers() -> None:
    _, text = usual()
    page = Page(text)
    assert ("html", {"lang": "en"}) in page.seen
    figures = [attributes for tag, attributes in page.seen if tag == "figure"]
    assert len(figures) == 2
    for attributes in figures:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"] or "") > 40
    for tag, attributes in page.seen:
        if tag == "th":
            assert attributes.get("scope") in ("row", "col")


def test_figures_take_colours_from_style_sheet() -> None:
    _, text = usual()
    body = text[text.index("</style>") :]
    assert "var(--series-1)" in body
    # matplotlib's defaults and our markers would not follow the reader's preference.
    assert not re.search(r"#0[1-8]0[1-8]0[1-8]|#1f77b4|#ff7f0e|: #000000", body)
    for name in set(re.findall(r"var\((--[\w-]+)\)", text)):
        assert f"{name}:" in text


def test_narrow_screen_stacks_estimates_and_keeps_their_table_roles() -> None:
    _, text = usual()
    page = Page(text)
    tables = [attributes for tag, attributes in page.seen if tag == "table"]
    assert {"stacked estimates", "stacked guarantees"} <= {each.get("class") for each in tables}
    assert all(each["role"] == "table" for each in tables)
    roles = {"tr": {"row"}, "td": {"cell"}, "th": {"columnheader", "rowheader"}}
    for tag, attributes in page.seen:
        assert attributes.get("role") in roles.get(tag, {attributes.get("role")})
    narrow = text.split("@media screen and (max-width: 34rem)")[1].split("@media")[0]
    assert "table.estimates { grid-template-columns" in narrow
    assert ".estimates .n:nth-child(4) { grid-column: 2; }" in narrow


def test_paper_is_light_and_breaks_no_table() -> None:
    _, text = usual()
    # Dark colours are for screens alone.
    assert re.findall(r"@media[^{]*prefers-color-scheme: dark", text) == [
        "@media screen and (prefers-color-scheme: dark"
    ]
    paper = text.split("@media print")[1].split("</style>")[0]
    assert "--paper: #fff" in paper
    assert re.search(r"figure, table, [^{]*{ break-inside: avoid; }", paper)
    assert "overflow: visible" in paper


def test_page_is_repeatable() -> None:
    assert page_of(document()) == usual()[1]


def test_page_states_broken_budget() -> None:
    assert "The budget was not kept" in page_of(document(epsilon=0.01))
    assert "The budget was not kept" not in usual()[1]


def test_page_of_mean_without_truth_shows_none() -> None:
    values = np.linspace(0, 60, 500)
    task = Mean(bounds=(0, 60))
    protocol = SHUFFLE(OneBit(epsilon=1.0), n=500)
    run = protocol.simulate(values, task=task, seed=1)
    text = page_of(document(protocol=protocol, run=run, questions=(Told("x", "?", task),)))
    words = Page(text).words
    assert by_error(run.result.value[0], run.result.standard_error[0]) in words
    assert "truth" not in words.split("The answer")[1].split("The guarantee of each person")[0]
    assert "counts as the middle of the bounds, 30" in words


def test_mean_with_people_who_did_not_answer_shows_their_share() -> None:
    values = np.where(np.arange(600) % 4 == 0, np.nan, 30.0)
    task = Mean(bounds=(0, 60))
    protocol = SHUFFLE(Ternary(epsilon=3.0), n=600)
    run = protocol.simulate(values, task=task, seed=1)
    asked = (Told("x", "?", task, truth=task.truth(values)),)
    made = document(protocol=protocol, run=run, questions=asked)
    words = Page(page_of(made)).words
    assert percent(float(run.result.value[1])) in words
    assert "The mean is over the people who answered" in words


def test_budget_view_beyond_the_listed_ones_is_accounted() -> None:
    text = page_of(document(view="shuffler"))
    assert "Guarantee against the shuffler" in Page(text).words


def test_page_of_many_categories_lists_all() -> None:
    names = tuple(f"place {index}" for index in range(60))
    values = np.array(names)[np.arange(600) % 60]
    protocol = SHUFFLE(KRR(categories=61, epsilon=3.0), n=600)
    task = Histogram(categories=names)
    run = protocol.simulate(values, task=task, seed=1)
    text = page_of(document(protocol=protocol, run=run, questions=(Told("x", "?", task),)))
    assert Page(text).open == []
    assert "place 59" in text


def test_write_stores_page_or_raises(tmp_path: Path) -> None:
    path = write(sections_of(document()), tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == usual()[1]
    with pytest.raises(FileNotWritable, match="cannot write the report"):
        write(sections_of(document()), tmp_path / "nowhere" / "report.html")


def test_page_shows_measured_cost_only_of_played_run() -> None:
    from incrowd import sim

    made, page = usual()
    assert "as planned" in page
    assert "measured" not in page
    names = made.run.result.labels[:3]
    values = np.array(names)[np.arange(600) % 3]
    played = sim.run(made.protocol, values, Histogram(categories=names), seed=1)
    assert "Messages, measured" in page_of(document(run=played))


def test_require_writable_rejects_folder_and_missing_parent(tmp_path: Path) -> None:
    require_writable(tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    for path in (tmp_path, tmp_path / "nowhere" / "page.html"):
        with pytest.raises(FileNotWritable, match="cannot write the report"):
            require_writable(path)


def live(**changes: Any) -> Any:
    from incrowd.live.run import LiveRun, LiveStatistics

    statistics = LiveStatistics(
        **{
            "devices": 600,
            "hosts": 1,
            "transport": "nats",
            "cover": True,
            "round_seconds": 2.0,
            "seconds": 61.5,
            "cells_per_device": 120.0,
            "cells_sent": 72_000,
            "cells_dummy": 54_000,
            "bytes_per_device": 122_880.0,
            "delivered": 71_998,
            "in_flight": 2,
            "expired": 0,
            "rejected": {},
            "missed_rounds": 0,
        }
        | changes
    )
    return LiveRun(**vars(usual()[0].run) | {"seed": None}, live=statistics)


def test_page_of_live_run_shows_its_statistics() -> None:
    assert "How it ran" not in usual()[1]
    page = Page(page_of(document(run=live())))
    assert page.open == []
    assert "600 on 1 host, messages went over NATS" in page.words
    assert "120 cells and 122,880 bytes per device, 75.0 % of them dummies" in page.words
    # Only the hub knows what was delivered.
    assert "cells delivered" not in page.words
    assert "71,998 cells delivered" in Page(page_of(document(run=live(transport="hub")))).words
    assert "61.5 seconds, rounds of 2" in page.words
    assert "Refused nothing" in page.words
    assert "a live device refuses one" in page.words
    assert "The same seed" not in page.words
    assert "This run was a simulation" not in page.words
    odd = live(cover=False, cells_dummy=0, rejected={"<b>": 3, "late": 0})
    page = Page(page_of(document(run=odd)))
    assert "Cover traffic off: who sent to whom" in page.words
    assert "per device" in page.words
    assert "dummies" not in page.words
    assert "<b> = 3" in page.words
