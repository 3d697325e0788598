"""Every protocol states, costs and answers what is recorded in ``values``.

``python -m tests.golden --write`` records anew and prints what changes: read that first.
"""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import pytest

from tests.golden.adapter import Sentence, evaluate
from tests.golden.golden import NOISE, VALUES, differences, recorded, write
from tests.golden.grid import CASES, Case

read = cache(recorded)
ALL = [(group, case) for group, cases in CASES.items() for case in cases]


@pytest.mark.parametrize(("group", "case"), ALL, ids=[case.name for _, case in ALL])
def test_case_gives_the_recorded_values(group: str, case: Case) -> None:
    found = json.loads(json.dumps(evaluate(case)))
    lines = list(differences(read(group)[case.name], found, noise=NOISE))
    assert not lines, "\n".join([case.name, *lines])


@pytest.mark.parametrize("group", CASES)
def test_recorded_cases_are_those_of_the_grid(group: str) -> None:
    names = [case.name for case in CASES[group]]
    assert len(set(names)) == len(names)
    assert list(read(group)) == names


def test_every_file_of_values_belongs_to_a_group() -> None:
    assert {path.stem for path in VALUES.glob("*.json")} == set(CASES)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (math.nextafter(0.1, 1), "curator › epsilon: 0.1 → 0.10000000000000002 (1 ulps)"),
        (None, "curator › epsilon: 0.1 → None"),
        (1, "curator › epsilon: 0.1 → 1"),
    ],
)
def test_difference_in_the_last_place_names_its_key(found: Any, line: str) -> None:
    assert list(differences({"curator": {"epsilon": 0.1}}, {"curator": {"epsilon": found}})) == [
        line
    ]


def test_keys_that_appear_or_vanish_are_differences() -> None:
    assert list(differences({"old": 1, "same": [2.0]}, {"same": [2.0], "new": 3})) == [
        "old: gone, was 1",
        "new: new, 3",
    ]


def test_written_values_are_read_back_exactly(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.golden.golden.VALUES", tmp_path)
    values = {"case": {"epsilon": 0.1 + 0.2, "pure": math.inf, "who": Sentence("everyone"), "n": 3}}
    write("some", values)
    assert list(differences(values, recorded("some"))) == []
