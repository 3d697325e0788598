"""Facts of a protocol alone, put into words by their values, bounds and units."""

from typing import Any

import pytest

from incrowd.blocks import Fact, facts_from
from incrowd.report.words import cautions, guess_meaning, lines, said, settings, unprotected


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


def described(view: str, epsilon: float) -> dict[str, Any]:
    return {"view": view, "epsilon": epsilon, "delta": 1e-6, "notion": "dp"}


def test_unprotected_views_and_columns_are_named() -> None:
    stated = ("curator", "curator+hub", "peer", "everyone")
    about = [described("curator", 0.5), described("curator+hub", 3.5), described("everyone", 3.5)]
    told = unprotected(about, stated, clear=("lat", "lon"))
    assert "Against the curator with the hub or everyone else together only the rand" in told
    assert "at most 971 of 1,000 guesses are right, 500 blind (ε = 3.5)." in told
    assert "Nothing is proven against a peer." in told
    assert "Lat and lon of each person can be read by others." in told
    assert told.endswith("Participation itself is not hidden.")


def test_words_of_the_protocol_replace_unproven_views() -> None:
    told = unprotected([described("network", 1.0)], ("network", "curator"), "nothing is hidden")
    assert told == "Nothing is hidden. Participation itself is not hidden."


def test_poor_guarantees_are_called_poor() -> None:
    assert cautions(1.0, 1e-6, 1000, "the curator") == []
    weak, failing = cautions(8.5, 0.01, 1000, "the curator")
    assert weak == "ε = 8.5 against the curator is no meaningful protection."
    assert "a failure probability above 1/n could mean one person exposed" in failing
    assert guess_meaning("a peer", 9.0, 0.0).endswith("500 blind: no meaningful protection")
    assert guess_meaning("a peer", 0.5, 1e-6) == (
        "of 1,000 guesses by a peer between two answers of yours at most 623 are right, 500 blind"
    )
