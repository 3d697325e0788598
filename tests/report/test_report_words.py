"""What a protocol alone has to say, put into words by its names and types."""

from typing import Any

import pytest

from incrowd.report.words import facts, said, settings


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
def test_values(name: str, value: Any, shown: str) -> None:
    assert said(name, value) == shown
    assert facts({name: value}) == [(name.replace("_", " "), shown)]


def test_settings_that_say_nothing_are_left_out() -> None:
    given = {"n": 4000, "graph": "", "rounds": "auto", "laziness": 0.5, "stationary": False}
    assert settings(given) == "n = 4,000, rounds = auto, laziness = 0.5, stationary = no"
