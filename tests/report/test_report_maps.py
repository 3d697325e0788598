"""Maps of a release: the truth before it only where it is known, and one scale for both."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from incrowd import survey as surveys
from incrowd.blocks import HEAD, Figure, Section, arranged
from incrowd.cli.outcome import document_of
from incrowd.live.run import LiveRun, LiveStatistics
from incrowd.randomizers import KRR
from incrowd.report import Document, render, sections_of
from incrowd.report.maps import _edges
from incrowd.tasks import Placed, Release
from incrowd.tasks.base import AnswerContext
from incrowd.tasks.maps import squares_over

TOWN = Path(__file__).parents[2] / "examples" / "town.toml"
NAMES = ("none", "<flu>", "$stomach$")
TASK = Release(categories=NAMES, coordinates=("lat", "lon"))
RANDOMIZER = KRR(categories=4, epsilon=2.0)


def town(people: int = 3000) -> tuple[np.ndarray, np.ndarray, Placed]:
    """Places and true answers, of which the second half is ill, and shuffled reports of all."""
    rng = np.random.default_rng(1)
    points = np.column_stack((50.9 + 0.03 * rng.random(people), 11.6 + 0.05 * rng.random(people)))
    codes = np.where(points[:, 1] > 11.625, rng.integers(0, 3, people), 0)
    reports = RANDOMIZER.randomize(codes, rng)
    who = np.arange(people)
    placed = Placed(rounds=(reports,), sent=people, who=who, at=who, points=points)
    return points, codes, placed


def told(placed: Placed, true_codes: np.ndarray | None, **changes: Any) -> tuple[Section, ...]:
    context = AnswerContext(
        collected=placed, randomizer=RANDOMIZER, shares=True, column="illness", geographic=True,
        true_codes=true_codes,
    )  # fmt: skip
    return TASK.estimate(placed, RANDOMIZER).sections(replace(context, **changes))


def map_of(sections: tuple[Section, ...]) -> Figure:
    section = next(each for each in sections if each.key == "map")
    return next(each for each in section.blocks if isinstance(each, Figure))


def page_of(sections: tuple[Section, ...]) -> str:
    return render(arranged((Section(HEAD, "Who is ill?", 0, ()), *sections)))


@cache
def document() -> Document:
    survey = surveys.load(TOWN, people=200)
    return document_of(survey, survey.run(seed=1), "simulate", "")


def test_map_of_known_truth_has_before_and_after_of_each_answer() -> None:
    _, codes, placed = town()
    figure = map_of(told(placed, codes))
    assert list(figure.data["maps"]) == list(NAMES)
    for shown in figure.data["maps"].values():
        assert set(shown) == {"before", "after"}
        assert shown["before"].shape == shown["after"].shape
    page = page_of(told(placed, codes))
    assert page.count("before (the truth)") == page.count("after (released)") == 3
    assert "because this run was a simulation" in page


def test_map_of_unknown_truth_has_no_before() -> None:
    _, _, placed = town(600)
    sections = told(placed, None)
    assert all(set(shown) == {"after"} for shown in map_of(sections).data["maps"].values())
    page = page_of(sections).lower()
    assert "before" not in page.split("where it is")[1]
    assert "truth" not in page.split("where it is")[1]


def test_after_map_depends_on_released_rows_alone() -> None:
    _, codes, placed = town(600)
    one, other = (map_of(told(placed, each)).data["maps"] for each in (codes, codes[::-1]))
    for name in one:
        np.testing.assert_array_equal(one[name]["after"], other[name]["after"])
        assert not np.array_equal(one[name]["before"], other[name]["before"])


def test_before_map_has_true_answers_of_people_with_a_released_row() -> None:
    points, codes, placed = town(600)
    kept = np.arange(0, 600, 2)
    fewer = replace(placed, rounds=(placed.rounds[0][kept],), at=kept)
    figure = map_of(told(fewer, codes))
    squares = squares_over(points[kept], geographic=True)
    assert squares is not None
    expected = squares.shares(codes[kept], 0)
    np.testing.assert_array_equal(figure.data["maps"]["none"]["before"], expected)


def test_simulation_of_survey_maps_truth_and_live_run_does_not() -> None:
    made = document()
    assert "before (the truth)" in render(sections_of(made))
    counts = dict.fromkeys(
        ("devices", "hosts", "cells_sent", "cells_dummy", "delivered", "in_flight", "expired"), 1
    )
    statistics = LiveStatistics(
        **counts, transport="hub", cover=True, round_seconds=1.0, seconds=1.0,
        cells_per_device=1.0, bytes_per_device=1.0, rejected={}, missed_rounds=0,
    )  # fmt: skip
    live = replace(made, run=LiveRun(**vars(made.run) | {"seed": None}, live=statistics))
    figure = map_of(sections_of(live))
    assert all(set(shown) == {"after"} for shown in figure.data["maps"].values())
    assert "before (the truth)" not in render(sections_of(live))


def test_map_has_alternative_text_and_caption_with_extremes_of_each_side() -> None:
    _, codes, placed = town(600)
    page = page_of(told(placed, codes))
    alt = next(x for x in re.findall(r'aria-label="([^"]*)"', page) if x.startswith("Maps"))
    assert "before in the true answers and after in the released rows" in alt
    assert re.search(r"none before from [\d.]+ % to [\d.]+ %, after from [\d.]+ % to", alt)
    assert "one scale and one frame" in page
    assert "&lt;flu&gt;, before" in page
    assert "$stomach$, before" in page


def test_answer_that_cannot_be_told_from_none_has_no_map() -> None:
    _, codes, placed = town()
    assert "no answer" not in map_of(told(placed, codes)).data["maps"]


def test_page_of_three_thousand_people_stays_small() -> None:
    _, codes, placed = town()
    assert len(page_of(told(placed, codes)).encode()) < 400_000


def test_scale_covers_both_sides_in_equal_steps() -> None:
    edges = _edges({"before": np.array([0.12, 0.3]), "after": np.array([-0.1, 0.47])})
    np.testing.assert_allclose(edges, [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    np.testing.assert_allclose(_edges({"after": np.zeros(3)}), [0.0, 0.01])
    np.testing.assert_allclose(_edges({"after": np.ones(3)}), [0.99, 1.0])


def test_squares_are_as_wide_as_high_on_the_earth() -> None:
    points, _, _ = town(300)
    squares = squares_over(points, geographic=True)
    assert squares is not None
    across, along = squares.size
    assert across * np.cos(np.radians(50.915)) == pytest.approx(along, rel=1e-3)
    assert squares.stretch == pytest.approx(across / along)
    plane = squares_over(points, geographic=False)
    assert plane is not None
    assert plane.stretch == 1
    assert plane.size[0] == plane.size[1]


def test_squares_over_the_date_line_stay_together() -> None:
    points = np.array([[-17.0, 179.9], [-17.0, -179.9], [-17.1, 179.95]])
    squares = squares_over(points, geographic=True)
    assert squares is not None
    assert np.ptp(squares.middles[:, 0]) < 0.3


def test_rows_without_a_place_are_counted_and_on_no_square() -> None:
    points, codes, placed = town(600)
    points[:7] = 0.0
    squares = squares_over(points, geographic=True)
    assert squares is not None
    assert squares.unplaced == 7
    assert squares.rows.min() >= 7
    assert "7 rows of people without a place are on no map." in page_of(told(placed, codes))
    assert squares_over(np.zeros((5, 2)), geographic=True) is None
