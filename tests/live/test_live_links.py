"""Sealed links: who can open what, why the rest is refused, and the bytes on the wire for ever."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from incrowd.errors import InvalidParameter
from incrowd.live import cells, links
from incrowd.live.cells import CAPACITY, CELL, DUMMY, HEADER, Header
from incrowd.live.keys import PrivateKeys
from incrowd.live.links import HpkeSealer, Links, compare_cell, read_compare
from incrowd.live.reasons import Reason, Rejected

GOLDEN = json.loads((Path(__file__).parent / "golden" / "cells.json").read_text())
SURVEY = b"survey of sixtee"
CONTEXT = hashlib.sha256(b"task").digest()


def party(number):
    """Keys that are the same in every run."""
    return PrivateKeys(
        f"party-{number}",
        Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"i%d" % number).digest()),
        X25519PrivateKey.from_private_bytes(hashlib.sha256(b"h%d" % number).digest()),
        1,
        b"",
    )


KEYS = {number: party(number) for number in (0, 1, 2, cells.number("curator"))}
RECORDS = {number: keys.record() for number, keys in KEYS.items()}
PLAIN = cells.pack([(1, b"hello")])[0][0]


def make(me, *, survey=SURVEY, context=CONTEXT, records=RECORDS):
    return Links(me, KEYS[me], survey, context, records)


def refusal(call, *arguments):
    with pytest.raises(Rejected) as caught:
        call(*arguments)
    return caught.value.reason


def patched(cell, at, data):
    return cell[:at] + data + cell[at + len(data) :]


def test_only_the_recipient_opens_a_cell():
    ada, bob, eve = make(0), make(1), make(2)
    cell = ada.seal(1, 7, PLAIN)
    assert len(cell) == CELL
    assert Header.parse(cell).round == 7
    sender, plaintext, session, counter = bob.open(cell)
    assert (sender, plaintext, counter) == (0, PLAIN, 0)
    assert cells.cell_id(cell) == session + counter.to_bytes(8, "big")
    assert refusal(eve.open, cell) is Reason.foreign
    # Even with the address changed, the key is not sealed to her.
    assert refusal(eve.open, patched(cell, 22, (2).to_bytes(4, "big"))) is Reason.forged
    assert b"hello" not in cell


def test_cells_of_a_session_come_in_any_order():
    ada, bob = make(0), make(1)
    sent = [ada.seal(1, 0, bytes([index]) * CAPACITY) for index in range(20)]
    got = [bob.open(cell) for cell in reversed(sent)]
    assert [plaintext[0] for _, plaintext, _, _ in got] == list(range(19, -1, -1))
    assert len({session for *_, session, _ in got}) == 1
    assert [counter for *_, counter in got] == list(range(19, -1, -1))


def test_a_dummy_looks_like_any_cell():
    ada, bob = make(0), make(1)
    dummy, real = ada.seal(1, 0, DUMMY), ada.seal(1, 0, PLAIN)
    assert len(dummy) == len(real)
    # The counter is all that two headers of a session differ in.
    assert patched(dummy, 46, real[46:54])[:HEADER] == real[:HEADER]
    assert bob.open(dummy)[1] == DUMMY


def test_a_plaintext_has_one_size():
    for size in (0, CAPACITY - 1, CAPACITY + 1):
        with pytest.raises(InvalidParameter, match=r"use cells\.pack"):
            make(0).seal(1, 0, bytes(size))
    with pytest.raises(InvalidParameter, match="not on the roster"):
        make(0).seal(99, 0, PLAIN)


@pytest.mark.parametrize(("survey", "context"), [(b"", CONTEXT), (SURVEY, b"short")])
def test_survey_and_context_have_their_sizes(survey, context):
    with pytest.raises(InvalidParameter, match="a survey has 16 bytes"):
        Links(0, KEYS[0], survey, context, RECORDS)
    with pytest.raises(InvalidParameter, match="a survey has 16 bytes"):
        HpkeSealer(0, KEYS[0], survey, context, RECORDS)


REFUSED = {
    "too long": (lambda cell: cell + b"\0", Reason.oversized),
    "too short": (lambda cell: cell[:-1], Reason.malformed),
    "empty": (lambda cell: b"", Reason.malformed),
    "version": (lambda cell: patched(cell, 0, b"\2"), Reason.version),
    "no such kind": (lambda cell: patched(cell, 1, b"\7"), Reason.malformed),
    "another kind": (lambda cell: patched(cell, 1, b"\2"), Reason.malformed),
    "another survey": (lambda cell: patched(cell, 2, b"x" * 16), Reason.foreign),
    "another recipient": (lambda cell: patched(cell, 22, b"\0\0\0\2"), Reason.foreign),
    "a stranger": (lambda cell: patched(cell, 18, b"\0\0\0\x63"), Reason.unknown),
    "another sender": (lambda cell: patched(cell, 18, b"\0\0\0\2"), Reason.forged),
    "another round": (lambda cell: patched(cell, 26, b"\0\0\0\2"), Reason.forged),
    "another session": (lambda cell: patched(cell, 30, b"x" * 16), Reason.forged),
    "another counter": (lambda cell: patched(cell, 46, b"\1" * 8), Reason.forged),
    "another key": (lambda cell: patched(cell, 54, b"x" * 80), Reason.forged),
    "another signature": (lambda cell: patched(cell, 134, b"x" * 64), Reason.forged),
    "another text": (lambda cell: patched(cell, HEADER, b"x"), Reason.forged),
    "another tag": (lambda cell: patched(cell, CELL - 1, bytes([cell[-1] ^ 1])), Reason.forged),
}


@pytest.mark.parametrize("known", [False, True], ids=["first cell", "known session"])
@pytest.mark.parametrize(("change", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_changed_cell_is_refused_for_its_reason(change, reason, known):
    ada, bob = make(0), make(1)
    cell = ada.seal(1, 0, PLAIN)
    if known:
        bob.open(cell)
    assert refusal(bob.open, change(cell)) is reason
    # Refusing changed nothing.
    assert bob.open(cell)[1] == PLAIN


def test_a_wrapped_key_is_good_for_one_task():
    cell = make(0).seal(1, 0, PLAIN)
    assert refusal(make(1, context=bytes(32)).open, cell) is Reason.forged
    other = make(1, survey=b"x" * 16)
    assert refusal(other.open, cell) is Reason.foreign
    assert refusal(other.open, patched(cell, 2, b"x" * 16)) is Reason.forged


def test_a_session_cannot_be_claimed_by_another_party():
    """Eve signs the key that Ada wrapped for Bob as if it were her own."""
    header = Header.parse(make(0).seal(1, 0, PLAIN))
    sealed = header.wrapped[:80]
    for sender in (0, 2):
        info = b"incrowd/link/1\0" + SURVEY + CONTEXT + sender.to_bytes(4, "big") + b"\0\0\0\1"
        wrapped = sealed + KEYS[2].identity.sign(info + sealed)
        stolen = Header(
            cells.DATA, SURVEY, sender, 1, 0, hashlib.sha256(wrapped).digest()[:16], 0, wrapped
        )
        assert refusal(make(1).open, stolen.pack().ljust(CELL, b"x")) is Reason.forged


def test_a_sender_cannot_speak_for_another_in_its_own_session():
    ada, bob = make(0), make(1)
    bob.open(ada.seal(1, 0, PLAIN))
    out = ada._out[1]
    header = patched(ada.seal(1, 0, PLAIN)[:HEADER], 18, (2).to_bytes(4, "big"))
    cell = header + out.encrypt(header[42:54], PLAIN, header + CONTEXT)
    assert refusal(bob.open, cell) is Reason.forged


def test_a_marked_cell_is_never_opened_again():
    ada, bob = make(0), make(1)
    first, second, third = (ada.seal(1, 0, PLAIN) for _ in range(3))
    for cell in (third, first):
        # Opening alone promises nothing: it may be needed again after a crash.
        bob.open(cell)
        _, _, session, counter = bob.open(cell)
        bob.mark(session, counter)
        assert refusal(bob.open, cell) is Reason.replayed
    stored = bob.state()
    again = make(1)
    again.resume(stored)
    assert refusal(again.open, first) is Reason.replayed
    assert refusal(again.open, third) is Reason.replayed
    assert again.open(second)[1] == PLAIN
    assert again.state() == stored


def test_message_numbers_go_on_after_a_crash():
    ada = make(0)
    assert [ada.next_number(1), ada.next_number(1), ada.next_number(2)] == [1, 2, 1]
    again = make(0)
    again.resume(ada.state())
    assert [again.next_number(1), again.next_number(2)] == [3, 2]


def test_a_fresh_process_never_repeats_a_nonce():
    ada, bob = make(0), make(1)
    before = [ada.seal(1, 0, PLAIN) for _ in range(3)]
    again = make(0)
    again.resume(ada.state())
    after = [again.seal(1, 0, PLAIN) for _ in range(3)]
    assert len({cells.cell_id(cell) for cell in before + after}) == 6
    assert not {cell[54:HEADER] for cell in before} & {cell[54:HEADER] for cell in after}
    for cell in before + after:
        assert bob.open(cell)[1] == PLAIN


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_begins_its_own_sessions():
    ada = make(0)
    ada.seal(1, 0, PLAIN)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, ada.seal(1, 0, PLAIN))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        theirs = file.read()
    assert os.waitpid(child, 0)[1] == 0
    mine = ada.seal(1, 0, PLAIN)
    assert Header.parse(theirs).session != Header.parse(mine).session
    bob = make(1)
    assert bob.open(theirs)[1] == bob.open(mine)[1] == PLAIN


def test_threads_never_get_the_same_counter():
    ada, made = make(0), []
    ada.seal(1, 0, PLAIN)

    def work():
        made.extend([cells.cell_id(ada.seal(1, 0, PLAIN)) for _ in range(300)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1200


def test_a_revoked_party_is_not_heard():
    ada, bob = make(0), make(1)
    cell = ada.seal(1, 0, PLAIN)
    bob.open(cell)
    bob.revoke(0)
    assert refusal(bob.open, cell) is Reason.revoked
    assert refusal(bob.open, make(0).seal(1, 0, PLAIN)) is Reason.revoked
    assert bob.open(make(2).seal(1, 0, PLAIN))[0] == 2


def test_too_many_sessions_are_flooding(monkeypatch):
    monkeypatch.setattr(links, "SESSIONS", 3)
    bob = make(1)
    sent = [make(0).seal(1, 0, PLAIN) for _ in range(4)]
    for cell in sent[:3]:
        bob.open(cell)
    assert refusal(bob.open, sent[3]) is Reason.flooding
    # Restarting is no way around it; sessions already begun and other parties are served.
    again = make(1)
    again.resume(bob.state())
    assert refusal(again.open, sent[3]) is Reason.flooding
    assert again.open(sent[0])[1] == PLAIN
    assert again.open(make(2).seal(1, 0, PLAIN))[0] == 2


def test_a_counter_beyond_reason_is_refused():
    ada, bob = make(0), make(1)
    ada.seal(1, 0, PLAIN)
    ada._out[1].counter = iter([2**64 - 1, 2**48, 2**48 - 1])
    assert refusal(bob.open, ada.seal(1, 0, PLAIN)) is Reason.malformed
    assert refusal(bob.open, ada.seal(1, 0, PLAIN)) is Reason.malformed
    _, _, session, counter = bob.open(ada.seal(1, 0, PLAIN))
    bob.mark(session, counter)
    again = make(1)
    again.resume(bob.state())
    assert again.state() == bob.state()


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(0, CELL - 1), st.binary(min_size=1, max_size=20)),
        min_size=1,
        max_size=3,
    ),
    st.booleans(),
)
def test_whatever_is_changed_nothing_but_a_refusal_escapes(changes, known):
    cell = changed = bytes.fromhex(GOLDEN["cells"][0]["cell"])
    bob = golden_links("recipient")
    if known:
        bob.open(cell)
    for at, data in changes:
        changed = patched(changed, at, data)[:CELL]
    if changed == cell:
        return
    with pytest.raises(Rejected):
        bob.open(changed)
    assert bob.open(cell)


@given(st.one_of(st.binary(max_size=1100), st.binary(min_size=CELL, max_size=CELL)))
def test_any_bytes_are_refused(data):
    for prefix in (b"", cells.prefix(cells.DATA, SURVEY, 0, 1)):
        with pytest.raises(Rejected):
            make(1).open(prefix + data[len(prefix) :])
        with pytest.raises(Rejected):
            read_compare(prefix + data[len(prefix) :], RECORDS[0])


@given(st.one_of(st.binary(max_size=200), st.dictionaries(st.binary(), st.binary())))
def test_any_state_is_resumed_or_refused(state):
    bob = make(1)
    with contextlib.suppress(Rejected):
        bob.resume(state if isinstance(state, bytes) else msgspec.msgpack.encode(state))


def test_the_sealer_seals_past_others():
    curator = cells.number("curator")
    ada, bob, boss = (
        HpkeSealer(number, KEYS[number], SURVEY, CONTEXT, RECORDS) for number in (0, 1, curator)
    )
    sealed = ada.seal("curator", b"report")
    assert boss.open(sealed) == b"report"
    assert ada.seal("curator", b"report") != sealed
    assert ada.seal("device/1", b"") not in (b"", sealed)
    # Only the recipient opens it, in the same task, unchanged.
    elsewhere = HpkeSealer(curator, KEYS[curator], SURVEY, bytes(32), RECORDS)
    renamed = HpkeSealer(5, KEYS[curator], SURVEY, CONTEXT, RECORDS)
    for sealer, data in (
        (bob, sealed),
        (elsewhere, sealed),
        (renamed, sealed),
        (boss, sealed[:-1]),
        (boss, b""),
        (boss, bytes(80)),
    ):
        with pytest.raises(ValueError, match="not sealed to this party"):
            sealer.open(data)
    with pytest.raises(InvalidParameter, match="not on the roster"):
        ada.seal("device/9", b"")


@given(st.binary(max_size=200))
def test_any_sealed_bytes_open_or_raise(data):
    with pytest.raises(ValueError, match="not sealed"):
        HpkeSealer(0, KEYS[0], SURVEY, CONTEXT, RECORDS).open(data)


def test_a_compare_cell_is_a_signed_statement():
    digest = hashlib.sha256(b"start").digest()
    cell = compare_cell(KEYS[0], SURVEY, 0, 1, digest)
    assert len(cell) == CELL
    assert cell == compare_cell(KEYS[0], SURVEY, 0, 1, digest)
    assert Header.parse(cell).kind == cells.COMPARE
    assert read_compare(cell, RECORDS[0]) == digest
    assert cells.cell_id(cell) != cells.cell_id(compare_cell(KEYS[0], SURVEY, 0, 2, digest))
    assert refusal(read_compare, cell, RECORDS[2]) is Reason.forged
    assert refusal(read_compare, patched(cell, 22, b"\0\0\0\2"), RECORDS[0]) is Reason.forged
    assert refusal(read_compare, patched(cell, HEADER, b"x"), RECORDS[0]) is Reason.forged
    assert refusal(read_compare, patched(cell, 26, b"x"), RECORDS[0]) is Reason.malformed
    assert refusal(read_compare, patched(cell, CELL - 1, b"x"), RECORDS[0]) is Reason.malformed
    assert refusal(read_compare, make(0).seal(1, 0, PLAIN), RECORDS[0]) is Reason.malformed
    assert refusal(make(1).open, cell) is Reason.malformed
    with pytest.raises(InvalidParameter, match="a digest 32"):
        compare_cell(KEYS[0], SURVEY, 0, 1, b"")


def golden_party(name):
    secret = {key: bytes.fromhex(value) for key, value in GOLDEN[name].items() if key != "number"}
    return PrivateKeys(
        name,
        Ed25519PrivateKey.from_private_bytes(secret["identity"]),
        X25519PrivateKey.from_private_bytes(secret["hpke"]),
        1,
        b"",
    )


def golden_links(name):
    parties = {GOLDEN[each]["number"]: golden_party(each) for each in ("sender", "recipient")}
    me = GOLDEN[name]["number"]
    survey, context = bytes.fromhex(GOLDEN["survey"]), bytes.fromhex(GOLDEN["context"])
    records = {number: keys.record() for number, keys in parties.items()}
    return Links(me, parties[me], survey, context, records)


@pytest.mark.parametrize("vector", GOLDEN["cells"], ids=lambda vector: vector["name"])
def test_golden_cells_are_read_as_ever(vector):
    cell = bytes.fromhex(vector["cell"])
    header = Header.parse(cell)
    sender, plaintext, session, counter = golden_links("recipient").open(cell)
    assert sender == GOLDEN["sender"]["number"] == header.sender
    assert header.recipient == GOLDEN["recipient"]["number"]
    assert header.round == vector["round"]
    assert counter == vector["counter"] == header.counter
    assert session.hex() == GOLDEN["session"]
    messages = [(number, bytes.fromhex(body)) for number, body in vector["messages"]]
    assert [plaintext] == (cells.pack(messages)[0] or [DUMMY])


@pytest.mark.parametrize("vector", GOLDEN["cells"], ids=lambda vector: vector["name"])
def test_golden_cells_are_written_as_ever(vector):
    sender = golden_links("sender")
    me, to = GOLDEN["sender"]["number"], GOLDEN["recipient"]["number"]
    # A session with the key and the wrapping that were drawn when the vectors were made.
    key, wrapped = bytes.fromhex(GOLDEN["key"]), bytes.fromhex(GOLDEN["wrapped"])
    survey = bytes.fromhex(GOLDEN["survey"])
    sender._out[to] = links._Outbound(cells.prefix(cells.DATA, survey, me, to), key, wrapped)
    sender._out[to].counter = iter([vector["counter"]])
    messages = [(number, bytes.fromhex(body)) for number, body in vector["messages"]]
    (plaintext,) = cells.pack(messages)[0] or [DUMMY]
    assert sender.seal(to, vector["round"], plaintext).hex() == vector["cell"]


def test_the_golden_compare_cell():
    keys, golden = golden_party("sender"), GOLDEN["compare"]
    survey, digest = bytes.fromhex(GOLDEN["survey"]), bytes.fromhex(golden["digest"])
    numbers = GOLDEN["sender"]["number"], GOLDEN["recipient"]["number"]
    assert compare_cell(keys, survey, *numbers, digest).hex() == golden["cell"]
    assert read_compare(bytes.fromhex(golden["cell"]), keys.record()) == digest


def test_the_golden_sealed_message():
    keys, golden = golden_party("recipient"), GOLDEN["sealed"]
    survey, context = bytes.fromhex(GOLDEN["survey"]), bytes.fromhex(GOLDEN["context"])
    sealer = HpkeSealer(GOLDEN["recipient"]["number"], keys, survey, context, {})
    assert sealer.open(bytes.fromhex(golden["bytes"])).hex() == golden["plain"]
