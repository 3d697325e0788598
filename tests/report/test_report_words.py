"""Facts of a protocol alone, put into words by their values, bounds and units."""

from typing import Any

import pytest

from incrowd.blocks import Fact, facts_from
from incrowd.report.words import lines, said, settings


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("median_epsilon", 0.123401, "0.1235"),
        ("exposure", 0.123401, "0.1235"),
        ("gap", 0.123401, "0.1234"),
        ("gap", None, "–"),
        ("dummies", 1200, "1,200"),
        ("route", "exact", "exact"),
        ("component_sizes", [500], "1 component: 500"),
        ("component_sizes", [1, 9000, 20], "3 components: 9,000, 20, 1 person alone"),
        ("component_sizes", [7, 6, 5, 4, 3, 2, 2, 1, 1], "9 components: 7, 6, 5, 4, 3 and 2 more, "
         "2 people alone"),
        ("component_sizes", [1, 1], "2 components: 2 people alone"),
        ("people", [1, 2, 3], "1, 2, 3"),
        ("load", {"mean": 1.0, "max": 25}, "mean 1, max 25"),
        ("worst_person", {"person": 17, "degree": 1, "why": "too few"}, "person 17, degree 1: too "
         "few"),
    ],
)  # fmt: skip
def test_fact_values_are_put_into_words(name: str, value: Any, shown: str) -> None:
    (fact,) = facts_from(
        {name: value}, ("median_epsilon", "exposure"), {"component_sizes": "component"}
    )
    assert said(fact) == shown
    assert lines([fact]) == [(name.replace("_", " "), shown)]


@pytest.mark.parametrize(
    ("bound", "shown"), [("up", "0.1235"), ("down", "0.1234"), (None, "0.1235")]
)
def test_bound_of_a_fact_alone_decides_the_side_of_rounding(bound: Any, shown: str) -> None:
    assert said(Fact("epsilon", 0.12346, bound=bound)) == shown
    assert said(Fact("epsilon", [0.12346], bound=bound)) == ("0.12346" if not bound else shown)


def test_sentences_have_a_line_each_under_one_name() -> None:
    told = lines([Fact("in_places", ["Half stay.", "The rest move."])])
    assert told == [("in places", "Half stay."), ("", "The rest move.")]


def test_settings_that_say_nothing_are_left_out() -> None:
    given = {"n": 4000, "graph": "", "rounds": "auto", "laziness": 0.5, "stationary": False}
    assert settings(given) == "n = 4,000, rounds = auto, laziness = 0.5, stationary = no"
