"""The ledger: what was answered, what it cost, and what no longer fits."""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incrowd.errors import FileUnreadable, InvalidParameter
from incrowd.live.chain import Entry
from incrowd.live.journal import Journal
from incrowd.live.ledger import AlreadyAnswered, Budget, Ledger, Line, OverBudget, _exceeds, _up

OWNER, OTHER = b"o" * 32, b"p" * 32
WIDE = Budget(100.0, 1e-3)


def line(number: int, epsilon=0.5, delta=1e-7, epsilon0=2.0, delta0=0.0, view="curator") -> Line:
    return Line(
        1.7e9 + number,
        bytes([number]) * 16,
        bytes([number]) * 32,
        "How do you get to work?",
        epsilon0,
        delta0,
        [(view, epsilon, delta)],
    )


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "journal.db") as opened:
        yield opened


def commit(journal, *entries):
    batch = journal.batch()
    batch.entries += entries
    journal.commit(batch)


def test_lines_are_kept_in_order(journal):
    ledger = Ledger(journal)
    commit(
        journal, *(ledger.spend(owner, WIDE, line(n)) for n in range(3) for owner in (OWNER, OTHER))
    )
    for each in (ledger, Ledger(journal)):
        assert each.lines(OWNER) == each.lines(OTHER) == tuple(line(n) for n in range(3))
        assert each.lines(b"nobody") == ()
        assert each.spent(OWNER) == (1.5, _up([1e-7] * 3))


def test_sums_stay_within_the_budget(journal):
    ledger = Ledger(journal)
    budget = Budget(1.0, 1e-6)
    ledger.spend(OWNER, budget, line(1))
    ledger.spend(OWNER, budget, line(2))
    with pytest.raises(OverBudget, match=r"would bring ε towards the curator to 1\.5") as caught:
        ledger.spend(OWNER, budget, line(3))
    assert caught.value.reason == "over budget"
    ledger.allows(OTHER, budget, line(3))
    # What was refused costs nothing.
    assert len(ledger.lines(OWNER)) == 2


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ({"delta": 6e-7}, "δ towards the curator"),
        ({"epsilon0": 8.0}, "local ε"),
        ({"delta0": 6e-7}, "local δ"),
        ({"epsilon": math.inf}, "ε towards the curator to inf"),
    ],
)
def test_every_sum_is_bounded(journal, costs, message):
    ledger = Ledger(journal)
    budget = Budget(10.0, 1e-6, local_epsilon=15.0)
    if costs.get("epsilon") != math.inf:
        ledger.spend(OWNER, budget, line(1, **costs))
    with pytest.raises(OverBudget, match=message):
        ledger.allows(OWNER, budget, line(2, **costs))


def test_without_a_promise_for_the_view_the_local_guarantee_counts(journal):
    ledger = Ledger(journal)
    with pytest.raises(OverBudget, match="to 2, over the budget of 1"):
        ledger.allows(OWNER, Budget(1.0, 1e-6), line(1, view="peer"))
    ledger.allows(OWNER, Budget(1.0, 1e-6, view="peer"), line(1, view="peer"))


def test_a_view_that_nobody_has_bounds_nothing():
    with pytest.raises(InvalidParameter, match="unknown view 'king'"):
        Budget(1.0, 1e-6, view="king")
    assert Budget(1.0, 1e-6, view="hub+curator").view == "curator+hub"


def test_what_promises_nothing_to_a_view_is_over_every_budget(journal):
    ledger = Ledger(journal)
    unproven = msgspec.structs.replace(line(1), epsilon0=math.inf, promises=[("network", 0.5, 0.0)])
    with pytest.raises(OverBudget, match="curator to inf"):
        ledger.allows(OWNER, WIDE, unproven)
    ledger.allows(OWNER, Budget(1.0, 1e-6, view="network"), unproven)
    ledger.allows(OWNER, Budget(1.0, 1e-6, unlimited=True), unproven)


def test_a_survey_is_answered_once(journal):
    ledger = Ledger(journal)
    commit(journal, ledger.spend(OWNER, WIDE, line(1)))
    again = msgspec.structs.replace(line(1), digest=b"another" * 4 + b"task", question="Another?")
    for each in (ledger, Ledger(journal)):
        with pytest.raises(AlreadyAnswered, match="already answered") as caught:
            each.allows(OWNER, WIDE, again)
        assert caught.value.reason == "already answered"
        each.allows(OTHER, WIDE, again)


def test_a_line_that_was_never_committed_is_not_there_later(journal):
    Ledger(journal).spend(OWNER, WIDE, line(1))
    Ledger(journal).spend(OWNER, WIDE, line(1))
    assert Ledger(journal).lines(OWNER) == ()


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30))
def test_sums_are_neverrounded_down(amounts):
    exact = sum(map(Fraction, amounts))
    assert Fraction(_up(amounts)) >= exact
    assert Fraction(math.nextafter(_up(amounts), -math.inf)) < exact or not exact
    assert not _exceeds(amounts, _up(amounts))
    bound = math.nextafter(_up(amounts), -math.inf)
    assert _exceeds(amounts, bound) or not exact


def test_ten_tenths_are_more_than_one():
    # The double called 0.1 is above a tenth; added as doubles they make 0.9999….
    assert sum([0.1] * 10) < 1
    assert _exceeds([0.1] * 10, 1.0)
    assert not _exceeds([0.125] * 8, 1.0)


@pytest.mark.parametrize("bad", [{"epsilon": math.nan}, {"delta": -1.0}, {"epsilon0": -0.1}])
def test_prices_that_would_make_room(bad):
    with pytest.raises(InvalidParameter, match="guarantee of a survey must be at least 0"):
        line(1, **bad)


@pytest.mark.parametrize(
    "bad", [{"epsilon": 0.0}, {"epsilon": math.inf}, {"delta": 1.0}, {"local_epsilon": math.nan}]
)
def test_budgets_that_bound_nothing(bad):
    with pytest.raises(InvalidParameter, match="budget"):
        Budget(**{"epsilon": 1.0, "delta": 1e-6} | bad)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x00" * (2**16 + 1)])
def test_a_line_that_does_not_decode(journal, body):
    commit(journal, Entry(OWNER, b"s" * 16, body))
    with pytest.raises(FileUnreadable, match="a line of the ledger"):
        Ledger(journal)


def test_a_line_too_long_to_read_again(journal):
    long = msgspec.structs.replace(line(1), question="?" * 70000)
    with pytest.raises(InvalidParameter, match="at most"):
        Ledger(journal).spend(OWNER, WIDE, long)
