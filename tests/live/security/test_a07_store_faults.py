"""A07: the store of the hub or of a device fails; all cells are delivered when it works again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.security.store_faults import FAULTS, Outcome, play

PEOPLE = 24
QUICK = [
    "hub sqlite locked 2 s",
    "hub sqlite disk full 6 s",
    "hub sqlite over quota 2 s",
    "hub postgresql stopped 2 s",
    "hub postgresql read-only 2 s",
    "device sqlite disk full 6 s",
    "device sqlite read-only 2 s",
]
"""One fault of each kind; the others are slow."""
CASES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FAULTS]


@pytest.mark.parametrize("name", CASES)
def test_survey_with_grace_beyond_the_fault_loses_and_doubles_nothing(
    name: str, tmp_path: Path
) -> None:
    fault = FAULTS[name]
    played = play(fault, tmp_path, people=PEOPLE)
    assert played.outcome == Outcome(sent=PEOPLE, lost=0, doubled=0), played
    assert played.spent_once
    assert played.sent_meanwhile == 0
    if fault.seconds > 5.0:
        # Whatever is shorter may pass within one transaction's patience.
        assert played.not_ready > 0
        assert played.named


@pytest.mark.parametrize("name", ["hub sqlite over quota 6 s", "device sqlite read-only 6 s"])
def test_survey_with_grace_below_the_fault_ends_with_a_reason(name: str, tmp_path: Path) -> None:
    played = play(FAULTS[name], tmp_path, people=PEOPLE, grace=1.0)
    if played.outcome is None:
        assert "there is no result" in played.reason
    else:
        assert played.outcome.doubled == 0
        assert played.outcome.lost <= 0.05 * PEOPLE
