"""Whatever the bytes of a task, start, join, roster or graph are, only refusals come out."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from incrowd.errors import InvalidParameter
from incrowd.graphs import families
from incrowd.graphs.graph import Graph
from incrowd.live import task as tasks
from incrowd.live.authority import Authority
from incrowd.live.keys import Role
from incrowd.live.reasons import Reason, Rejected
from incrowd.protocols.joint import JointProtocol
from incrowd.protocols.local import Local
from incrowd.randomizers import KRR
from incrowd.tasks.base import Asked
from incrowd.tasks.histogram import Histogram
from incrowd.tasks.joint import JointTask
from tests.live.hub_server import Poll, make_poll
from tests.live.specs import DESCRIBED, changed

FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
DEEP = b"\x91" * 100_000 + b"\xc0"
"""Lists in lists, far deeper than anything is nested."""

AUTHORITY = Authority.create()
POLL: Poll = make_poll(
    [AUTHORITY.issue(f"p{place}", Role.device) for place in range(3)],
    AUTHORITY.issue("census", Role.curator),
    families.complete(3),
)
ROSTER = tasks.decode_roster(POLL.roster, POLL.spec.roster)
JOIN = POLL.join(1)
START = POLL.start([0, 1, 2])

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.binary(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
"""Anything that MessagePack can say."""


def mutations(encoded: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with a few of them cut out, changed or put in."""

    def change(edits: list[tuple[int, int, bytes]]) -> bytes:
        changed = encoded
        for at, length, new in edits:
            place = at % (len(changed) + 1)
            changed = changed[:place] + new + changed[place + length :]
        return changed

    edit = st.tuples(st.integers(0, len(encoded)), st.integers(0, 40), st.binary(max_size=40))
    return st.lists(edit, min_size=1, max_size=3).map(change)


def hostile(encoded: bytes) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=400) | plain.map(msgspec.msgpack.encode) | mutations(encoded)


def only_refuses(work: Any) -> None:
    with suppress(Rejected):
        work()


def by_curator(body: bytes, what: bytes) -> bytes:
    """Under the curator's real signature, as a curator that is hostile can."""
    signature = POLL.curator.identity.sign(what + body)
    return tasks.encode_signed(tasks.Signed(body, signature))


def fields(value: Any) -> dict[str, Any]:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))


@FUZZ
@given(hostile(POLL.signed))
@example(DEEP)
@example(msgspec.msgpack.encode([DEEP, bytes(64)]))
@example(msgspec.msgpack.encode([b"\x81\xa4task\x81\xa1a" + DEEP, bytes(64)]))
def test_tasks(encoded: bytes) -> None:
    only_refuses(lambda: tasks.read_task(encoded))


@FUZZ
@given(st.sampled_from([*tasks.Spec.__struct_fields__, *sorted(DESCRIBED)]), plain)
def test_any_field_of_a_signed_task(name: str, value: Any) -> None:
    """Also what decodes must not trip over what is then built from it."""
    said = fields(POLL.spec)
    (said["questions"][0] if name in DESCRIBED else said)[name] = value
    body = msgspec.msgpack.encode(said)

    def read() -> None:
        _, spec = tasks.read_task(by_curator(body, b"incrowd task 1\0"))
        tasks.offered_protocol(spec, None)

    only_refuses(read)


GOOD = {
    "task": {"kind": "histogram", "categories": ["a", "b"], "complete": True},
    "randomizer": {"kind": "krr", "categories": 2, "epsilon": 1.0},
    "parameters": {"n": 3, "rounds": 2},
    "protocol": "network-shuffle",
}


@FUZZ
@given(
    st.sampled_from(["task", "randomizer", "parameters"]),
    st.sampled_from(
        ["kind", "n", "rounds", "laziness", "epsilon", "categories", "graph", "random_peers"]
    ),
    plain,
)
@example("randomizer", "kind", [])
@example("randomizer", "epsilon", 1e308)
@example("parameters", "rounds", 2**63)
@example("parameters", "graph", "/dev/zero")
def test_any_part_of_a_protocol(where: str, key: str, value: Any) -> None:
    described: dict[str, Any] = {**GOOD, where: {**GOOD[where], key: value}}
    spec = changed(POLL.spec, **described)
    only_refuses(lambda: tasks.offered_protocol(spec, families.complete(3)))
    only_refuses(lambda: tasks.offered_protocol(spec, None))


def test_what_is_asked_cannot_be_a_public_place() -> None:
    """A device would send its own answer in the clear, as its place."""
    described: dict[str, Any] = {
        "task": {"kind": "release", "categories": ["a", "b", "c"], "groups": "street"},
        "randomizer": {"kind": "krr", "categories": 4, "epsilon": 1.0},
        "parameters": {"n": 3, "alpha": 1.0},
        "protocol": "order-shuffle",
    }
    good = changed(POLL.spec, **described, column="vote")
    assert tasks.offered_protocol(good, None)[0].kind == "order-shuffle"
    bad = changed(good, column="street")
    with pytest.raises(Rejected, match="places are public"):
        tasks.offered_protocol(bad, None)


def test_the_good_protocol_is_good() -> None:
    spec = changed(POLL.spec, **GOOD)
    protocol, task = tasks.offered_protocol(spec, families.complete(3))
    assert (protocol.kind, task.kind) == ("network-shuffle", "histogram")


@FUZZ
@given(hostile(JOIN))
@example(DEEP)
def test_joins(encoded: bytes) -> None:
    only_refuses(lambda: tasks.read_join(encoded, POLL.digest, ROSTER))


@FUZZ
@given(hostile(START))
@example(DEEP)
def test_starts(encoded: bytes) -> None:
    only_refuses(lambda: tasks.read_start(encoded, POLL.spec, POLL.digest))


@FUZZ
@given(hostile(msgspec.msgpack.decode(START)[0]))
@example(DEEP)
@example(b"\x81\xa5joins" + DEEP)
def test_starts_of_a_hostile_curator(body: bytes) -> None:
    def read() -> None:
        signed = by_curator(body, b"incrowd start 1\0")
        _, start = tasks.read_start(signed, POLL.spec, POLL.digest)
        tasks.check_joins(start, ROSTER, 1)

    only_refuses(read)


@FUZZ
@given(hostile(POLL.roster))
@example(DEEP)
@example(msgspec.msgpack.encode([]))
def test_rosters(encoded: bytes) -> None:
    only_refuses(lambda: tasks.decode_roster(encoded, POLL.spec.roster))
    hashed = hashlib.sha256(b"incrowd roster 1\0" + encoded).digest()
    only_refuses(lambda: tasks.decode_roster(encoded, hashed))


def graph_of(encoded: bytes) -> Graph:
    return tasks.decode_graph(encoded, hashlib.sha256(b"incrowd graph 1\0" + encoded).digest())


DRAWN, _ = tasks.encode_graph(families.ring(5))
number = st.integers(-(2**63), 2**63 - 1) | st.integers(-8, 8)


@FUZZ
@given(mutations(DRAWN) | st.binary(max_size=100))
def test_graphs(encoded: bytes) -> None:
    only_refuses(lambda: tasks.decode_graph(encoded, bytes(32)))
    only_refuses(lambda: graph_of(encoded))


@FUZZ
@given(number, number, st.integers(0, 12))
@example(2**63 - 1, 0, 1)
@example(2**62, 2**62, 0)
@example(-1, 0, 0)
@example(-2, 2, 4)
def test_graphs_that_lie_about_their_size(n: int, entries: int, words: int) -> None:
    head = np.array([n, entries], "<i8").tobytes()
    only_refuses(lambda: graph_of(head + bytes(4 * words)))


def test_graphs_come_back_as_they_were() -> None:
    for graph in (families.ring(5), families.complete(7), families.star(4)):
        encoded, hashed = tasks.encode_graph(graph)
        assert tasks.decode_graph(encoded, hashed) == graph


def test_lengths_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = [
        lambda: tasks.read_task(bytes(tasks.SPEC_LIMIT + 1)),
        lambda: tasks.read_join(bytes(1025), POLL.digest, ROSTER),
    ]
    monkeypatch.setattr(tasks, "ROSTER_LIMIT", 1000)
    long = os.urandom(1001)
    refusals += [
        lambda: tasks.read_start(long, POLL.spec, POLL.digest),
        lambda: tasks.decode_roster(long, hashlib.sha256(b"incrowd roster 1\0" + long).digest()),
        lambda: graph_of(long),
    ]
    for read in refusals:
        with pytest.raises(Rejected) as caught:
            read()
        assert caught.value.reason is Reason.oversized


def test_questions_with_more_words_than_a_ledger_keeps_are_refused() -> None:
    asked = msgspec.structs.replace(POLL.spec.questions[0], text="é" * tasks.LONGEST)
    fitting = tasks.MOST_WORDS // (2 * tasks.LONGEST)
    for several, allowed in ((fitting, True), (fitting + 1, False)):
        spec = msgspec.structs.replace(POLL.spec, questions=[asked] * several)
        encoded = by_curator(msgspec.msgpack.encode(spec), b"incrowd task 1\0")
        if allowed:
            assert len(tasks.read_task(encoded)[1].words) == several
        else:
            with pytest.raises(Rejected, match="bytes of text") as caught:
                tasks.read_task(encoded)
            assert caught.value.reason is Reason.oversized


@pytest.mark.parametrize(
    ("text", "several", "message"),
    [("?" * 2001, 1, "a question of 2001 characters begins"), ("é" * 1500, 20, "60000 bytes")],
)
def test_words_that_devices_would_decline_are_refused_before_they_are_offered(
    text: str, several: int, message: str
) -> None:
    asked = Asked(text=text, column="x", task=Histogram(categories=("no", "yes")))
    protocol = JointProtocol.of([Local(KRR(categories=3, epsilon=1.0), n=3)] * several)
    with pytest.raises(InvalidParameter, match=message):
        tasks.describe(protocol, JointTask(asked=(asked,) * several), "Title", "")


def test_signatures_do_not_move_between_kinds() -> None:
    """A join is no start, a start no task: each kind is signed under its own name."""
    body = msgspec.msgpack.decode(POLL.signed)[0]
    for what in (b"", b"incrowd start 1\0", b"incrowd join 1\0"):
        with pytest.raises(Rejected) as caught:
            tasks.read_task(by_curator(body, what))
        assert caught.value.reason is Reason.forged
    started = msgspec.msgpack.decode(START)[0]
    with pytest.raises(Rejected) as caught:
        tasks.read_start(by_curator(started, b"incrowd task 1\0"), POLL.spec, POLL.digest)
    assert caught.value.reason is Reason.forged


def test_the_digest_stands_for_every_field() -> None:
    digests = {POLL.digest}
    changes: dict[str, Any] = {
        "survey": bytes(16),
        "question": "?",
        "questions": POLL.spec.questions * 2,
        "chances": [1.0],
        "text": "?",
        "column": "other",
        "task": {"kind": "mean"},
        "protocol": "trusted-shuffle",
        "parameters": {"n": 4},
        "randomizer": {"kind": "krr"},
        "people": 4,
        "roster": bytes(32),
        "graph": None,
        "helpers": {},
        "timing": tasks.Timing(grace_rounds=7),
        "cover": True,
        "transport": "nats",
        "min_crowd": 2,
        "promises": [tasks.Promise(view="curator", epsilon=1.0, delta=0.1)],
        "expires": 1.0,
    }
    assert {"version", *changes} == {*tasks.Spec.__struct_fields__, *DESCRIBED}
    for name, value in changes.items():
        spec = changed(POLL.spec, **{name: value})
        digests.add(tasks.digest_of(tasks.sign_task(spec, POLL.curator.identity)))
    assert len(digests) == len(changes) + 1
