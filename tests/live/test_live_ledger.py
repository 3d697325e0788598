"""The ledger: what was answered, what it cost, and what no longer fits."""

from __future__ import annotations

import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incrowd.errors import FileUnreadable, InvalidParameter
from incrowd.live.account import read_account
from incrowd.live.chain import Entry
from incrowd.live.journal import Fact, Journal
from incrowd.live.ledger import DECLINED, RESERVED, Ledger, Line, Reservation, _up
from incrowd.live.service import JOURNAL_FILE

OWNER, OTHER = b"o" * 32, b"p" * 32


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
    with Journal(tmp_path / JOURNAL_FILE) as opened:
        yield opened


def commit(journal, *entries):
    batch = journal.batch()
    batch.entries += entries
    journal.commit(batch)


def test_lines_are_kept_in_order(journal):
    ledger = Ledger(journal)
    commit(journal, *(ledger.spend(owner, line(n)) for n in range(3) for owner in (OWNER, OTHER)))
    for each in (ledger, Ledger(journal)):
        assert each.lines(OWNER) == each.lines(OTHER) == tuple(line(n) for n in range(3))
        assert each.lines(b"nobody") == ()
        assert each.spent(OWNER) == (1.5, _up([1e-7] * 3))


def held(number: int, expires: float = 2e9) -> Reservation:
    return Reservation(line(number), expires)


def test_reservation_counts_until_released_expired_or_replaced(journal):
    ledger = Ledger(journal)
    batch = journal.batch()
    batch.facts += [ledger.reserve(OWNER, held(n, 1.8e9 + n)) for n in range(4)]
    journal.commit(batch)
    for each in (ledger, Ledger(journal)):
        assert [one.line.survey[0] for one in each.reserved(OWNER, 1.8e9)] == [1, 2, 3]
        assert each.reserved(OTHER, 1.8e9) == ()
        standing = each.standing(OWNER, 1.8e9 + 1, paused=True)
        assert [one.survey[0] for one in standing.reserved] == [2, 3]
        assert standing.paused
    commit(journal, ledger.spend(OWNER, line(2)))
    freed = ledger.release(OWNER, bytes([3]) * 16)
    assert (freed.key, freed.value) == (RESERVED, None)
    batch = journal.batch()
    batch.facts.append(freed)
    journal.commit(batch)
    for each in (ledger, Ledger(journal)):
        standing = each.standing(OWNER, 1.8e9 + 1)
        assert standing.reserved == ()
        assert [one.survey[0] for one in standing.spent] == [2]


def test_line_of_a_charge_keeps_its_price():
    before = msgspec.structs.replace(line(1), curator=b"c" * 32)
    assert Line.of(before.charge, before.digest, before.question) == before
    several = msgspec.structs.replace(before, questions=("How?", "How long?"))
    assert Line.of(before.charge, before.digest, before.question, several.questions) == several


def test_survey_with_a_line_is_never_spent_again(journal):
    ledger = Ledger(journal)
    commit(journal, ledger.spend(OWNER, line(1)))
    again = msgspec.structs.replace(line(1), digest=b"another" * 4 + b"task", question="Another?")
    for each in (ledger, Ledger(journal)):
        with pytest.raises(InvalidParameter, match="already answered"):
            each.spend(OWNER, again)
        each.spend(OTHER, again)


def test_a_line_that_was_never_committed_is_not_there_later(journal):
    Ledger(journal).spend(OWNER, line(1))
    Ledger(journal).spend(OWNER, line(1))
    assert Ledger(journal).lines(OWNER) == ()


@given(st.lists(st.floats(0, 10), min_size=1, max_size=30))
def test_sums_are_neverrounded_down(amounts):
    exact = sum(map(Fraction, amounts))
    assert Fraction(_up(amounts)) >= exact
    assert Fraction(math.nextafter(_up(amounts), -math.inf)) < exact or not exact


@pytest.mark.parametrize("bad", [{"epsilon": math.nan}, {"delta": -1.0}, {"epsilon0": -0.1}])
def test_prices_that_would_make_room(bad):
    with pytest.raises(InvalidParameter, match="guarantee of a survey must be at least 0"):
        line(1, **bad)


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x00" * (2**16 + 1)])
def test_a_line_that_does_not_decode(journal, body):
    commit(journal, Entry(OWNER, b"s" * 16, body))
    with pytest.raises(FileUnreadable, match="a line of the ledger"):
        Ledger(journal)


def test_line_and_refusal_of_an_older_program_are_read_without_the_words_of_each_question(journal):
    before = msgspec.structs.replace(line(1), curator=b"c" * 32)
    body = msgspec.msgpack.encode(list(msgspec.structs.astuple(before)[:-1]))
    held = msgspec.msgpack.encode([msgspec.msgpack.decode(body), 2e9])
    refused = msgspec.msgpack.encode([1.7e9, "Work?", b"c" * 32, "policy", "not allowed"])
    batch = journal.batch()
    batch.entries.append(Entry(OWNER, before.survey, body))
    batch.facts.append(Fact(OTHER, before.survey, RESERVED, held))
    batch.facts.append(Fact(OTHER, b"s" * 16, DECLINED, refused))
    journal.commit(batch)
    ledger = Ledger(journal)
    assert ledger.lines(OWNER) == (before,)
    assert [each.line for each in ledger.reserved(OTHER, 1.8e9)] == [before]
    found = read_account(journal.path.parent, now=1.8e9)
    assert [(each.state, each.question, each.questions) for each in found] == [
        ("charged", "How do you get to work?", ()),
        ("declined", "Work?", ()),
        ("reserved", "How do you get to work?", ()),
    ]


def test_a_line_too_long_to_read_again(journal):
    long = msgspec.structs.replace(line(1), question="?" * 70000)
    with pytest.raises(InvalidParameter, match="at most"):
        Ledger(journal).spend(OWNER, long)
