"""The tutorial is executed from an empty folder, its live survey with real processes."""

import re

from docs.walkthrough import DOCS, beside, blocks_of
from tests.docs.generating import assert_fresh

TUTORIAL = DOCS / "tutorial.md"


def test_tutorial_succeeds_from_an_empty_folder_and_prints_what_is_shown() -> None:
    assert beside(TUTORIAL) is None
    assert_fresh(TUTORIAL)


def test_tutorial_leaves_out_the_installation_alone() -> None:
    left_out = [each for each in blocks_of(TUTORIAL.read_text()) if each.reason is not None]
    assert ["make setup" in each.code for each in left_out] == [True]


def test_tutorial_has_five_steps_and_three_terminals() -> None:
    text = TUTORIAL.read_text()
    assert re.findall(r"^## (\d)\.", text, re.M) == list("12345")
    assert set(re.findall(r"^# Terminal (\d)", text, re.M)) == set("123")
