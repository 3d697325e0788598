"""Order-private shuffles in which messages are lost, doubled and late, and parties crash or lie."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incrowd.errors import ProtocolFailed
from incrowd.protocols.order_shuffle import OrderShuffle
from incrowd.protocols.order_shuffle.messages import PlacedBatch, PlacedReport
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    CURATOR,
    SHUFFLER,
    Actor,
    Message,
    Send,
    device,
    devices,
    is_device,
)
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play, run
from incrowd.tasks import Release
from tests.sim.order_played import (
    KINDS,
    TIMING,
    Shuffled,
    check,
    law,
    own,
    p_value,
    placed,
)
from tests.sim.query_played import Desk, without
from tests.sim.schedules import schedules

TROUBLE = Faults(loss=0.3, duplicate=0.4, reorder=0.5, crash=0.1, outages=60.0, downtime=1.0)
ORDER = [0, 2, 3, 1]

common = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


# The law.


def tables(protocol: OrderShuffle, runs: int, faults: Faults | None = None) -> Counter[Any]:
    """Whose report each person gets, over many plays in which everybody comes."""
    people = np.arange(protocol.n)
    seen: Counter[Any] = Counter()
    for seed in range(runs):
        seeds = Seeds(seed)
        found = play(make_actors(protocol, people, seeds, timing=TIMING), seeds, faults).outputs[
            CURATOR
        ]
        seen[tuple(found.pooled().tolist())] += 1
    return seen


@pytest.mark.parametrize(("distance", "exact"), [("kendall", True), ("hamming", False)])
def test_played_shuffle_follows_mallows_law(distance, exact):
    """Pearson's test, at the level 0.001, accepts the exact law and tells it from others."""
    groups = [[0, 1, 2, 3]]
    protocol = own(4, groups, order=ORDER, theta=0.5, distance=distance, exact=exact)
    seen = tables(protocol, 600)
    assert p_value(seen, law(ORDER, 0.5, distance)) > 1e-3
    assert p_value(seen, law(ORDER, 0.9, distance)) < 1e-6
    if distance == "kendall":
        assert p_value(seen, law(range(4), 0.5)) < 1e-6


def test_law_is_same_under_failing_messages_and_processes():
    """A crash of the shuffler never chooses between two shuffles."""
    protocol = own(4, [[0, 1, 2, 3]], order=ORDER, theta=0.5)
    faults = Faults(loss=0.2, duplicate=0.3, reorder=0.5, crash=0.2, outages=60.0, downtime=0.5)
    seen = tables(protocol, 600, faults)
    assert p_value(seen, law(ORDER, 0.5)) > 1e-3
    assert p_value(seen, law(ORDER, 0.9)) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
def test_huge_alpha_leaves_reports_in_place(kind):
    protocol, values = placed(kind, alpha=1e6)
    found = Shuffled(protocol, 1, TROUBLE, values=values).found
    assert found.pooled().tolist() == found.who.tolist() == list(range(7))
    check(protocol, found)


def test_people_alone_keep_reports_and_alpha_zero_is_uniform():
    alone = own(4, [[0], [1], [2], [3]], alpha=0.0)
    assert set(tables(alone, 20)) == {(0, 1, 2, 3)}
    assert p_value(tables(own(4, alpha=0.0), 300), law(range(4), 0.0)) > 1e-3


# Faults.


@pytest.mark.parametrize("kind", KINDS)
def test_all_reports_arrive_in_the_end(kind):
    """Loss, duplicates and crashes alone cost time, not people; everybody is answered."""
    protocol, values = placed(kind)
    for seed in range(5):
        shuffled = Shuffled(protocol, seed, TROUBLE, values=values)
        assert shuffled.played.finished
        assert shuffled.found.crowds == (7,)
        check(protocol, shuffled.found)
        for person in range(7):
            assert shuffled.played.outputs[device(person)].accepted == (0,)


@common
@given(faults=schedules(0.5), seed=st.integers(0, 2**32), kind=st.sampled_from(KINDS), n=st.just(7))
def test_reports_count_once_under_all_faults(faults, seed, kind, n):
    protocol, values = placed(kind, n)
    shuffled = Shuffled(protocol, seed, faults, values=values)
    assert shuffled.played.finished
    check(protocol, shuffled.found)
    came = shuffled.found.who.tolist()
    for person in range(n):
        receipt = shuffled.played.outputs.get(device(person))
        if receipt is not None:
            assert (receipt.accepted == (0,)) == (person in came)
            assert receipt.accepted + receipt.refused == (0,)


@pytest.mark.parametrize("victim", [device(2), SHUFFLER, CURATOR])
def test_crash_in_any_call_changes_nothing(victim):
    protocol, values = placed("points")

    def makers() -> Any:
        return make_actors(protocol, values, Seeds(5), timing=TIMING)

    calm = Desk(makers()).run()
    expected = calm.outputs[CURATOR].pooled().tolist()
    assert calm.calls[victim] >= 2
    for call in range(1, calm.calls[victim] + 1):
        for when in ("before", "after"):
            desk = Desk(makers(), (victim, call, when)).run()
            check(protocol, desk.outputs[CURATOR])
            assert desk.outputs[CURATOR].crowds == (7,)
            if victim != SHUFFLER:
                assert desk.outputs[CURATOR].pooled().tolist() == expected


def test_crashing_shuffler_sends_single_batch():
    """Even where each life of it has other randomness, all the curator can get is one table."""
    protocol, values = placed("points", alpha=0.0)
    for seed in range(10):
        lives: list[int] = []

        def forgetful(makers: Any, lives: Any = lives, seed: int = seed) -> Any:
            def made() -> Actor:
                lives.append(len(lives))
                actor = makers[SHUFFLER]()
                actor._generator = lambda *_: np.random.default_rng([seed, lives[-1]])
                return actor

            return makers | {SHUFFLER: made}

        faults = Faults(crash=0.3, duplicate=0.5, loss=0.3)
        shuffled = Shuffled(protocol, seed, faults, forgetful, values)
        sent = {send.body for send in shuffled.said[SHUFFLER] if send.to == CURATOR}
        told = {message.body for message in shuffled.told[CURATOR]}
        assert len(lives) > 1
        # A call that a crash undid has sent nothing: what left is the same every time.
        assert len(told) == 1
        assert told <= sent
        check(protocol, shuffled.found)


@pytest.mark.parametrize("kind", KINDS)
def test_absent_people_are_not_in_table_nor_guarantee(kind):
    protocol, values = placed(kind)
    shuffled = Shuffled(protocol, 1, change=without(device(2), device(5)), values=values)
    found = shuffled.found
    check(protocol, found)
    assert found.who.tolist() == [0, 1, 3, 4, 6]
    assert (found.received, found.dropped) == (5, 2)
    happened = protocol.conditional_on(found)
    assert happened.n == happened.grouping.n == 5
    assert happened.mechanism.alpha <= 1.0
    # The shuffle was that of these five: its sensitivity is less than with everybody there.
    everybody = protocol.conditional_on(Shuffled(protocol, 1, values=values).found)
    assert happened.mechanism.sensitivity < everybody.mechanism.sensitivity
    assert happened.mechanism.theta > everybody.mechanism.theta
    if kind == "people":
        assert happened.grouping == protocol.grouping.subset([0, 1, 3, 4, 6])


def test_given_order_is_restricted_to_those_who_came():
    protocol = own(5, [range(5)], order=[3, 1, 4, 0, 2], theta=30.0)
    shuffled = Shuffled(protocol, 1, change=without(device(1)))
    happened = protocol.conditional_on(shuffled.found)
    # Persons 0, 2, 3 and 4 are now 0 to 3.
    assert happened.mechanism.order.people.tolist() == [2, 3, 0, 1]
    assert shuffled.found.pooled().tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize("faults", [Faults(dropout=1.0), Faults(loss=1.0)])
def test_run_without_reports_fails(faults):
    task = Release(categories=("a", "b"), coordinates=("x",), complete=True)
    protocol = OrderShuffle(KRR(categories=2, epsilon=1.0), n=3, alpha=1.0, radius=1.0)
    rows = np.array([["a", "0"], ["b", "1"], ["a", "2"]])
    with pytest.raises(ProtocolFailed):
        run(protocol, rows, task=task, faults=faults, seed=1)


@pytest.mark.parametrize("there", [(4,), (1, 2)])
@pytest.mark.parametrize("kind", KINDS)
def test_table_of_single_person_or_two(kind, there):
    protocol, values = placed(kind)
    gone = [device(each) for each in range(7) if each not in there]
    found = Shuffled(protocol, 1, change=without(*gone), values=values).found
    check(protocol, found)
    assert found.who.tolist() == list(there)
    assert protocol.conditional_on(found).mechanism.alpha <= (1.0 if len(there) > 1 else 0.0)


# What is left with the shuffler.


class Signed:
    """Seals so that it shows, to whoever looks for it, that there is a report inside."""

    SIGN = b"<a sealed report "

    def seal(self, to: str, plain: bytes) -> bytes:
        assert to == CURATOR
        return self.SIGN + plain

    def open(self, sealed: bytes) -> bytes:
        if not sealed.startswith(self.SIGN):
            raise ValueError("not for me")
        return sealed.removeprefix(self.SIGN)


@pytest.mark.parametrize("faults", [None, TROUBLE])
@pytest.mark.parametrize("kind", KINDS)
def test_shuffler_keeps_nothing_of_report_after_curator_has_it(kind, faults):
    protocol, values = placed(kind)
    sealers = {each: Signed() for each in (*devices(protocol.n), CURATOR)}
    for seed in range(3):
        shuffled = Shuffled(protocol, seed, faults, values=values, sealers=sealers)
        check(protocol, shuffled.found)
        held = [Signed.SIGN in message.body for message in shuffled.told[SHUFFLER]]
        assert sum(held) >= 7
        state = shuffled.last[SHUFFLER].state()
        assert Signed.SIGN not in state
        (_, [(ids, payloads, closed)]), (pending, *_) = msgspec.msgpack.decode(state)
        assert (sorted(ids), payloads, closed, pending) == (
            list(devices(protocol.n)),
            {},
            True,
            {},
        )


def test_batch_has_neither_senders_nor_identifiers():
    protocol, values = placed("points")
    sealers = {each: Signed() for each in (*devices(protocol.n), CURATOR)}
    shuffled = Shuffled(protocol, 3, values=values, sealers=sealers)
    reports = [
        msgspec.msgpack.decode(message.body, type=PlacedReport)
        for message in shuffled.told[SHUFFLER]
        if is_device(message.sender)
    ]
    assert len({each.id for each in reports}) == 7
    (batch,) = shuffled.told[CURATOR]
    assert b"device" not in batch.body
    assert not any(each.id in batch.body for each in reports)
    # Rows are in the order of people, whatever came first; reports are those that were sent.
    read = msgspec.msgpack.decode(batch.body, type=PlacedBatch)
    assert read.who == list(range(7))
    assert Counter(read.payloads) == Counter(each.payload for each in reports)


# People who lie.


class Liar(Actor):
    """A device that says something else than it was made to, and does not care for answers."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = bodies
        self.heard: list[Any] = []

    def start(self, now):
        return [Send(SHUFFLER, body) for body in self.bodies]

    def receive(self, message: Message, now):
        self.heard.append(msgspec.msgpack.decode(message.body, type=wire.Accepted | wire.Refused))
        return []

    def wake(self, now):
        return []

    def state(self):
        return b""

    def resume(self, state):
        pass


def said(place: Any, payload: bytes = b"\x03", id_: bytes = b"i" * 16) -> bytes:
    return wire.encode(PlacedReport(id_, place, payload))


FAR = math.nextafter(1e12, 1e13) * 3


@pytest.mark.parametrize(
    ("kind", "body", "answered"),
    [
        ("points", said([math.nan, 0.0]), True),
        ("points", said([0.0, math.inf]), True),
        ("points", said([FAR, 0.0]), True),
        ("points", said([0.0] * 3), True),
        ("points", said([0.0] * 9), False),
        ("points", said(None), True),
        ("points", said("g1"), True),
        ("groups", said("  ;"), True),
        ("groups", said([0.0, 0.0]), True),
        ("groups", said("x" * 201), False),
        ("people", said([0.0, 0.0]), True),
        ("people", said(None, b""), False),
        ("people", wire.encode(wire.Report(0, b"i" * 16, b"\x03")), False),
    ],
)
def test_impossible_place_excludes_only_its_sender(kind, body, answered):
    """The others wait until the deadline, as if the liar had not come."""
    protocol, values = placed(kind)
    liar = Liar(body)
    shuffled = Shuffled(
        protocol, 1, change=lambda makers: makers | {device(3): lambda: liar}, values=values
    )
    check(protocol, shuffled.found)
    assert shuffled.found.who.tolist() == [0, 1, 2, 4, 5, 6]
    assert liar.heard == ([wire.Refused(0, b"i" * 16)] if answered else [])


def test_repeated_report_counts_once_at_first_place():
    protocol, values = placed("points", alpha=1e6)
    first, moved = said([6.0, -1.5]), said([0.0, -1.5])
    again = said([0.0, -1.5], b"\x05", b"j" * 16)
    liar = Liar(first, moved, again)
    faults = Faults(delay=1.0, delay_law="constant")
    found = Shuffled(
        protocol, 1, faults, lambda makers: makers | {device(3): lambda: liar}, values
    ).found
    check(protocol, found)
    assert found.points[3].tolist() == [6.0, -1.5]
    assert found.pooled()[3] == 3
    assert Counter(map(type, liar.heard)) == {wire.Accepted: 2, wire.Refused: 1}


@pytest.mark.parametrize("payload", [b"\x63", b"\x03\x00", b"junk that is no report at all"])
def test_unreadable_report_leaves_single_place_empty(payload):
    protocol, values = placed("points", alpha=1e6)
    liar = Liar(said([6.0, -1.5], payload))
    found = Shuffled(
        protocol, 1, change=lambda makers: makers | {device(3): lambda: liar}, values=values
    ).found
    assert found.who.tolist() == list(range(7))
    assert found.at.tolist() == found.pooled().tolist() == [0, 1, 2, 4, 5, 6]
    assert found.points.tolist() == [[2.0 * person, -1.5] for person in range(7)]
    # The guarantee is for all seven whose reports were shuffled.
    assert protocol.conditional_on(found).grouping.n == 7
    task = Release(categories=tuple("0123456"), coordinates=("x", "y"), complete=True)
    released = task.estimate(found, protocol.randomizer)
    assert released.rows == [[2.0 * each, -1.5, str(each)] for each in (0, 1, 2, 4, 5, 6)]


def test_person_in_all_groups_costs_closeness_not_privacy():
    """Naming everybody's groups makes the shuffle weaker in use, never in what is guaranteed."""
    protocol, values = placed("groups")
    liar = Liar(said("; ".join(f"g{each}" for each in range(9))))
    found = Shuffled(
        protocol, 1, change=lambda makers: makers | {device(3): lambda: liar}, values=values
    ).found
    honest = protocol.conditional_on(Shuffled(protocol, 1, values=values).found).mechanism
    happened = protocol.conditional_on(found).mechanism
    assert happened.alpha <= 1.0
    assert happened.theta < honest.theta
