"""Answers, guarantees and runs in a notebook: tables, frames, JSON, pictures."""

import json
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import incrowd as ic
from incrowd.errors import InvalidParameter, MissingExtra

NAMES = ("bus", "<b>", "car")
TASK = ic.Histogram(categories=NAMES)
SHUFFLE = ic.TrustedShuffle(ic.KRR(categories=4, epsilon=1.5), n=600)
RUN = SHUFFLE.simulate([NAMES[i % 3] for i in range(600)], task=TASK, seed=1)
SHOWN = {"run": RUN, "answer": RUN.result, "guarantee": RUN.guarantees[0]}
FRAMES = [name for name in ("pandas", "polars") if find_spec(name)]


@pytest.mark.parametrize("name", SHOWN)
def test_html_has_a_table_per_kind_and_is_escaped(name: str) -> None:
    html = SHOWN[name]._repr_html_()
    assert html.count("<table>") == (2 if name == "run" else 1)
    assert "<b>" not in html


def test_json_holds_full_doubles() -> None:
    told = json.loads(RUN.to_json())
    (asked,) = told["questions"]
    assert [row["estimate"] for row in asked["rows"]] == RUN.result.value.tolist()
    assert told["guarantees"][0]["epsilon"] == RUN.guarantees[0].epsilon(1e-6)
    assert json.loads(RUN.result.to_json()) == asked["rows"]
    (only,) = json.loads(RUN.guarantees[0].to_json())
    assert only["epsilon"] == told["guarantees"][0]["epsilon"]


def test_run_of_several_questions_shows_each() -> None:
    several = replace(RUN, answers=RUN.answers * 2)
    assert repr(several).count("Answer(") == 2
    assert several._repr_html_().count("<table>") == 3
    assert len(json.loads(several.to_json())["questions"]) == 2
    with pytest.raises(InvalidParameter, match=r"take one of answers, such as answers\[0\]"):
        several.plot()


@pytest.mark.skipif(not FRAMES, reason="no library of frames is installed")
def test_frame_of_several_questions_numbers_them() -> None:
    several = replace(RUN, answers=RUN.answers * 2)
    assert list(several.to_frame()["question"]) == [1] * 4 + [2] * 4


def test_json_of_unknown_limits_is_null() -> None:
    unknown = replace(RUN.result, low=np.full(4, np.nan))
    assert json.loads(unknown.to_json())[0]["low"] is None


@pytest.mark.parametrize("name", SHOWN)
def test_plot_returns_a_figure(name: str) -> None:
    from matplotlib.figure import Figure

    drawn = SHOWN[name].plot()
    assert isinstance(drawn, Figure)
    assert drawn.axes[0].lines


@pytest.mark.skipif(bool(FRAMES), reason="a library of frames is installed")
def test_frame_without_a_library_names_what_to_install() -> None:
    with pytest.raises(MissingExtra, match="pandas or polars"):
        RUN.to_frame()


@pytest.mark.skipif(not FRAMES, reason="no library of frames is installed")
def test_frame_has_a_row_per_label() -> None:
    assert list(RUN.to_frame()["label"]) == list(RUN.result.labels)


def test_simulate_of_list_with_missing_text_counts_no_answer() -> None:
    task = ic.Histogram(categories=("bus", "car"))
    protocol = ic.Local(ic.KRR(categories=3, epsilon=20.0), n=4)
    run = protocol.simulate(["bus", None, "car", "bus"], task=task, seed=1)
    assert run.result.value == pytest.approx([0.5, 0.25, 0.25], abs=1e-6)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_simulate_of_frame_column_counts_no_answer(library: str) -> None:
    frames: Any = pytest.importorskip(library)
    column = frames.Series(["bus", "car", None])
    task = ic.Histogram(categories=("bus", "car"))
    protocol = ic.Local(ic.KRR(categories=3, epsilon=20.0), n=3)
    run = protocol.simulate(column, task=task, seed=1)
    assert run.result.value == pytest.approx([1 / 3] * 3, abs=1e-6)
