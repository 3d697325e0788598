"""Cells without cryptography: headers, numbers, packing, and putting messages together again."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from incrowd.errors import InvalidParameter
from incrowd.live import cells
from incrowd.live.cells import CAPACITY, CELL, DUMMY, HEADER, Header, Reassembler, Window
from incrowd.live.reasons import Reason, Rejected

SESSION = b"s" * 16
PART = CAPACITY - 14


def refusal(call, *arguments):
    with pytest.raises(Rejected) as caught:
        call(*arguments)
    return caught.value.reason


def header(**changes):
    fields = {
        "kind": cells.DATA,
        "survey": b"v" * 16,
        "sender": 1,
        "recipient": 2,
        "round": 3,
        "session": SESSION,
        "counter": 4,
        "wrapped": b"w" * 144,
    }
    return Header(**fields | changes)


def record(message, offset, total, body):
    return struct.pack(">IIIH", message, offset, total, len(body)) + body


def padded(*records):
    return b"".join(records).ljust(CAPACITY, b"\0")


def test_the_layout_adds_up():
    assert (HEADER, CAPACITY, CELL) == (198, 810, 1024)
    assert len(DUMMY) == CAPACITY


@given(
    st.builds(
        header,
        kind=st.sampled_from([cells.DATA, cells.COMPARE]),
        sender=st.integers(0, 2**32 - 1),
        round=st.integers(0, 2**32 - 1),
        counter=st.integers(0, 2**64 - 1),
        session=st.binary(min_size=16, max_size=16),
    )
)
def test_a_header_comes_back(value):
    cell = value.pack().ljust(CELL, b"c")
    assert Header.parse(cell) == value
    assert cell.startswith(cells.prefix(value.kind, value.survey, value.sender, value.recipient))
    assert cells.cell_id(cell) == value.session + value.counter.to_bytes(8, "big")


def test_a_bad_header_is_refused_for_its_reason():
    cell = header().pack().ljust(CELL, b"c")
    assert refusal(Header.parse, cell + b"c") is Reason.oversized
    assert refusal(Header.parse, cell[:-1]) is Reason.malformed
    assert refusal(Header.parse, b"") is Reason.malformed
    assert refusal(Header.parse, b"\x02" + cell[1:]) is Reason.version
    assert refusal(Header.parse, cell[:1] + b"\x03" + cell[2:]) is Reason.malformed


@given(st.one_of(st.binary(max_size=1100), st.binary(min_size=CELL, max_size=CELL)))
def test_any_bytes_are_a_header_or_refused(data):
    with contextlib.suppress(Rejected):
        Header.parse(data)


def test_numbers_name_parties():
    for address in ("device/0", "device/17", "curator", "shuffler", "courier"):
        assert cells.address(cells.number(address)) == address
    assert cells.number("device/17") == 17
    assert cells.number("curator") == 2**32 - 1
    assert cells.number("shuffler") == 2**32 - 2
    assert cells.number("courier") == 2**32 - 3


def test_helpers_of_which_there_are_several_have_numbers_that_never_change():
    top = 2**32 - 1
    for place, family in enumerate(("scrambler", "spare", "compute"), 1):
        for index in (0, 1, 17, 4095):
            assert cells.number(f"{family}/{index}") == top - 4096 * place - index
            assert cells.address(top - 4096 * place - index) == f"{family}/{index}"
    # Below all of them are the numbers of people.
    assert cells.address(top - 65536) == f"device/{top - 65536}"


@pytest.mark.parametrize(
    "address",
    [
        *("", "device/", "device/01", "device/-1", "device/1/2", "device/²", "device/x"),
        *("device/4294967295", "device/99999999999", "xdevice/1", "boss"),
        *("scrambler", "scrambler/", "scrambler/4096", "spare/01", "compute/-1", "compute/1/2"),
        *("compute/²", "spares/1", "/1", "scrambler/99999999999"),
    ],
)
def test_strange_addresses_have_no_number(address):
    with pytest.raises(InvalidParameter, match="no party is called"):
        cells.number(address)


@pytest.mark.parametrize(
    "number", [-1, 2**32, 2**32 - 4, 2**32 - 200, 2**32 - 1 - 4 * 4096, 2**32 - 65536]
)
def test_strange_numbers_have_no_address(number):
    assert refusal(cells.address, number) is Reason.unknown


bodies = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.integers(0, 5 * CAPACITY).map(lambda size: random.Random(size).randbytes(size)),
        st.sampled_from([PART - 15, PART - 14, PART - 13, PART - 1, PART, PART + 1]).map(bytes),
    ),
    max_size=12,
)


@given(bodies, st.randoms(use_true_random=False))
def test_messages_survive_packing_reordering_and_repetition(messages, order):
    plaintexts, left, _ = cells.pack(list(enumerate(messages, 1)))
    assert not left
    assert all(len(plaintext) == CAPACITY != plaintext.count(0) for plaintext in plaintexts)
    deliveries = list(enumerate(plaintexts)) * 2
    order.shuffle(deliveries)
    reassembler, got, finished = Reassembler(), [], []
    for token, plaintext in deliveries:
        got += reassembler.feed(SESSION, token, plaintext)
        finished += reassembler.finished()
    assert sorted(got) == sorted(messages)
    assert set(finished) == set(range(len(plaintexts)))


@given(bodies, st.integers(1, 8))
def test_a_limit_cuts_and_goes_on(messages, limit):
    pending, begun = list(enumerate(messages, 1)), 0
    reassembler, got, whole = Reassembler(), [], []
    while pending:
        plaintexts, left, gone = cells.pack(pending, limit, begun)
        assert len(plaintexts) == limit or not left
        assert left == pending[len(pending) - len(left) :]
        assert (len(left), -gone) < (len(pending), -begun)
        whole += plaintexts
        pending, begun = left, gone
    for token, plaintext in enumerate(whole):
        got += reassembler.feed(SESSION, token, plaintext)
    assert got == messages
    assert sorted(reassembler.finished()) == list(range(len(whole)))
    # Cutting wastes nothing: the cells are those that would have been made at once.
    assert whole == cells.pack(list(enumerate(messages, 1)))[0]
    assert cells.pack([(1, b"x")], 0) == ([], [(1, b"x")], 0)


def test_small_messages_travel_together():
    plaintexts, _, _ = cells.pack([(number, bytes(40)) for number in range(1, 16)])
    assert len(plaintexts) == 1
    assert cells.pack([], 3) == ([], [], 0)
    assert cells.pack([(1, b"a")], 0 + 1) == ([padded(record(1, 0, 1, b"a"))], [], 0)
    assert [cells.cells_needed(size) for size in (0, 1, PART, PART + 1, 2 * PART)] == [
        1, 1, 1, 2, 2
    ]  # fmt: skip


@pytest.mark.parametrize("message", [(0, b""), (2**32, b""), (1, bytes(cells.MESSAGE_LIMIT + 1))])
def test_what_no_record_can_say_is_not_packed(message):
    with pytest.raises(InvalidParameter, match="a message needs"):
        cells.pack([message])


def test_a_cell_is_finished_when_all_its_messages_are():
    (first, second, third), _, _ = cells.pack([(1, b"a"), (2, b"b" * 2 * CAPACITY), (3, b"c")])
    reassembler = Reassembler()
    assert reassembler.feed(SESSION, "first", first) == [b"a"]
    assert reassembler.feed(SESSION, "third", third) == [b"c"]
    assert reassembler.finished() == []
    # A repetition hands nothing out again, and finishes nothing early.
    assert reassembler.feed(SESSION, "first", first) == []
    assert reassembler.finished() == []
    assert reassembler.feed(SESSION, "second", second) == [b"b" * 2 * CAPACITY]
    assert sorted(reassembler.finished()) == ["first", "second", "third"]
    assert reassembler.feed(SESSION, "again", first) == []
    assert reassembler.finished() == ["again"]


def test_a_dummy_is_finished_at_once():
    reassembler = Reassembler()
    assert reassembler.feed(SESSION, 1, DUMMY) == []
    assert reassembler.finished() == [1]
    assert reassembler.finished() == []


def test_a_message_far_behind_the_others_still_completes():
    (first, second), _, _ = cells.pack([(1, b"b" * CAPACITY)])
    reassembler = Reassembler()
    reassembler.feed(SESSION, "first", first)
    assert reassembler.feed(SESSION, "far", padded(record(2**32 - 1, 0, 1, b"f"))) == [b"f"]
    assert reassembler.feed(SESSION, "second", second) == [b"b" * CAPACITY]
    assert reassembler.finished() == ["far", "first", "second"]


def test_sessions_do_not_mix():
    plaintexts, _, _ = cells.pack([(1, bytes(range(256)) * 8)])
    reassembler = Reassembler()
    for index, plaintext in enumerate(plaintexts[:-1]):
        assert reassembler.feed(b"a", ("a", index), plaintext) == []
    assert reassembler.feed(b"b", ("b", 0), plaintexts[-1]) == []
    assert reassembler.finished() == []
    assert len(reassembler.feed(b"a", ("a", 9), plaintexts[-1])) == 1


@pytest.mark.parametrize(
    ("reason", "plaintext"),
    [
        (Reason.malformed, b""),
        (Reason.malformed, bytes(CAPACITY + 1)),
        (Reason.malformed, padded(struct.pack(">IIIH", 1, 0, 900, 900))),
        (Reason.malformed, padded(record(1, 5, 4, b"ab"))),
        (Reason.malformed, padded(record(1, 0, 4, b"ab"))),
        (Reason.malformed, padded(record(1, 0, 4, b""))),
        (Reason.malformed, padded(record(1, 0, 0, b""), record(1, 0, 0, b""))),
        (Reason.malformed, padded(record(1, 0, 1, b"a"), bytes(20), b"x")),
        (Reason.malformed, padded(bytes(20), b"x")),
        (Reason.malformed, bytes(CAPACITY - 1) + b"x"),
        (Reason.oversized, padded(record(1, 0, 2**24 + 1, b"a" * PART))),
    ],
)
def test_what_a_packer_would_not_write_is_refused(reason, plaintext):
    reassembler = Reassembler()
    assert refusal(reassembler.feed, SESSION, 1, plaintext) is reason
    assert reassembler.finished() == []


def test_parts_that_contradict_each_other_change_nothing():
    reassembler = Reassembler()
    body = random.Random(1).randbytes(2 * PART)
    first, second = (padded(record(1, at, 2 * PART, body[at : at + PART])) for at in (0, PART))
    assert reassembler.feed(SESSION, 1, first) == []
    for bad in (
        padded(record(1, 0, 2 * PART, bytes(PART))),
        padded(record(1, PART, 2 * PART + 1, body[PART:])),
        padded(record(1, PART - 1, 2 * PART, body[PART:])),
        padded(record(1, 0, 5, b"whole")),
    ):
        assert refusal(reassembler.feed, SESSION, 2, bad) is Reason.malformed
    assert reassembler.feed(SESSION, 2, second) == [body]


def test_memory_is_bounded():
    reassembler = Reassembler(limit=4 * PART, begun=4)
    begin = [padded(record(number, 0, 2 * PART, bytes([number]) * PART)) for number in range(1, 9)]
    for number in range(1, 5):
        reassembler.feed(SESSION, number, begin[number - 1])
    assert refusal(reassembler.feed, SESSION, 5, begin[4]) is Reason.full
    # What was begun can always be ended, and makes room.
    assert reassembler.feed(SESSION, 6, padded(record(1, PART, 2 * PART, bytes(PART))))
    assert reassembler.feed(SESSION, 5, begin[4]) == []
    wide = Reassembler(limit=2 * PART, begun=100)
    for number in (1, 2):
        wide.feed(SESSION, number, begin[number - 1])
    assert refusal(wide.feed, SESSION, 3, begin[2]) is Reason.full
    assert wide.feed(SESSION, 6, padded(record(1, PART, 2 * PART, bytes(PART))))
    assert wide.feed(SESSION, 3, begin[2]) == []


def test_a_long_row_of_messages_needs_no_more_room_than_one():
    messages = [random.Random(size).randbytes(size) for size in range(1000, 2500, 7)]
    plaintexts, _, _ = cells.pack(list(enumerate(messages, 1)))
    reassembler = Reassembler(limit=2500, begun=1)
    got = [
        body
        for token, plaintext in enumerate(plaintexts)
        for body in reassembler.feed(SESSION, token, plaintext)
    ]
    assert got == messages
    assert reassembler.finished() == list(range(len(plaintexts)))


records = st.builds(
    lambda message, offset, total, body, length: (
        struct.pack(">IIIH", message, offset, total, length) + body
    ),
    st.integers(0, 3),
    st.sampled_from([0, 1, PART - 1, PART, 2 * PART, 2**32 - 1]),
    st.sampled_from([0, 1, 5, PART, PART + 1, 2 * PART, 2**24, 2**32 - 1]),
    st.sampled_from([b"", b"a", b"hello", bytes(PART)]),
    st.sampled_from([0, 1, 5, PART, 65535]),
)
plaintexts = st.one_of(
    st.lists(records, max_size=4).map(lambda rows: padded(*rows)[:CAPACITY]),
    st.binary(max_size=CAPACITY + 1),
    st.binary(min_size=CAPACITY, max_size=CAPACITY),
)


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), plaintexts), max_size=12))
@example([(b"a", DUMMY)])
def test_any_plaintexts_are_taken_or_refused(feeds):
    reassembler = Reassembler(limit=2**16, begun=3)
    taken = set()
    for token, (session, plaintext) in enumerate(feeds):
        try:
            reassembler.feed(session, token, plaintext)
        except Rejected:
            continue
        taken.add(token)
    finished = reassembler.finished()
    assert len(finished) == len(set(finished))
    assert set(finished) <= taken


@given(st.lists(st.integers(0, 200), max_size=100))
def test_a_window_remembers_everything_near(values):
    window, seen = Window(), set()
    for value in values:
        assert (value in window) == (value in seen)
        window.add(value)
        seen.add(value)
    assert all(value in window for value in seen)
    assert window.base == min(set(range(202)) - seen)


def test_a_window_slides_and_stays_small():
    window = Window()
    for value in (3, 2 * Window.SPREAD, 2**48, 2**48 - Window.SPREAD + 1):
        window.add(value)
        assert value in window
        assert window.bits.bit_length() <= Window.SPREAD
    assert 2**48 - Window.SPREAD in window
    assert 2**48 - 5 not in window
    assert 2**48 + 1 not in window
    window.add(0)
    assert 2**48 - 5 not in window
