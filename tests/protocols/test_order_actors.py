"""The participants of an order-private shuffle, one by one: what they take, refuse and forget."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from contract import DELTA, ProtocolContract, deliver_cut, taken_by, throw_at

from incrowd.errors import IncrowdError, InvalidCrowd, InvalidParameter
from incrowd.graphs import families
from incrowd.protocols.order_shuffle import OrderShuffle, groupings, roles
from incrowd.protocols.order_shuffle.messages import (
    PlacedBatch,
    PlacedReport,
)
from incrowd.protocols.run import guarantees, make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Message, device
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.trusted_shuffle import messages as shuffle_messages
from incrowd.randomizers import KRR, RR
from incrowd.randomness import Seeds
from incrowd.sim import Faults, run
from incrowd.tasks.release import MOST_GROUP_TEXT
from tests.sim.order_played import KINDS, Shuffled, check, own, placed

LONGEST = "\U0010ffff" * MOST_GROUP_TEXT
ID = bytes(range(16))


class TestContract(ProtocolContract):
    """What every protocol guarantees; there is one round, and the crowd is a line of people."""

    kind = "order-shuffle"
    message = PlacedReport

    def make(self, randomizer: Any, n: int, rounds: int = 1) -> OrderShuffle:
        near = [range(max(0, each - 1), min(n, each + 2)) for each in range(n)]
        return OrderShuffle(randomizer, groups=groupings.from_lists(near), alpha=1.0)

    def crowds(self, n: int, rounds: int) -> tuple[int, ...]:
        return (n,)

    def check_delivery(self, faults: Faults, seed: int, n: int = 7, rounds: int = 1) -> Any:
        return super().check_delivery(faults, seed, n, rounds)

    def mutant_must_fail(self, **faults: float) -> None:
        """Two reports of one person may also be noticed by whoever groups the people."""
        try:
            super().mutant_must_fail(**faults)
        except IncrowdError as noticed:
            assert "twice" in str(noticed)  # noqa: PT017

    def test_run_with_dropout_states_guarantee_of_smaller_crowd(self):
        protocol = self.make(KRR(categories=3, epsilon=1.0), 60)
        played = run(protocol, np.arange(60) % 3, faults=Faults(dropout=0.5), seed=1)
        collected: Any = played.collected
        assert 0 < collected.received < 60
        assert collected.dropped == 60 - collected.received
        assert played.result.people == collected.received
        expected = protocol.subset(collected.who)
        assert played.cost == expected.cost()
        for stated, proven in zip(played.guarantees, guarantees(expected), strict=True):
            assert (stated.view, stated.notion, stated.digest) == (
                proven.view,
                proven.notion,
                proven.digest,
            )
            assert stated.epsilon(DELTA) == proven.epsilon(DELTA)
        about = [each for each in played.guarantees if each.notion == "order"]
        assert about[0].alpha <= 1.0
        assert about[0].digest != protocol.grouping.digest

    def test_run_of_one_person_guarantees_local_epsilon(self):
        """Whose order cannot change."""
        protocol = self.make(RR(epsilon=1.0), 1)
        for execution in (
            protocol.simulate(np.array([1]), seed=1),
            run(protocol, np.array([1]), seed=1),
        ):
            assert execution.collected.crowds == (1,)
            for guarantee in execution.guarantees:
                due = 0.0 if guarantee.notion == "order" else 1.0
                assert guarantee.epsilon(DELTA) == pytest.approx(due, rel=1e-5)

    @pytest.mark.parametrize(
        ("wrong", "error"), [({"n": -1, "alpha": 1.0}, InvalidCrowd), ({"n": 3}, InvalidParameter)]
    )
    def test_protocol_refuses_invalid_parameters(self, wrong, error):
        with pytest.raises(error):
            OrderShuffle(RR(epsilon=1.0), **wrong)

    # There is only one round; every message of all kinds of places is cut below.
    test_rounds_draw_fresh_reports = None
    test_conditional_on_takes_smallest_crowd_and_skips_empty_rounds = None
    test_actor_ignores_truncated_and_extended_messages = None


# The shuffler on its own.


def bench(kind: str = "people", n: int = 3, seed: int = 0, **settings: Any) -> tuple[Any, Any]:
    """A shuffler that has begun, and how each person's honest message begins."""
    protocol, values = placed(kind, n, **{"alpha": 1.0} | settings)
    context = ActorContext(
        generator=lambda *number: Seeds(seed).generator("shuffler", *number),
        timing=Timing(timeout=60.0),
    )
    shuffler = protocol.actor(SHUFFLER, context)
    shuffler.start(0.0)
    makers = make_actors(protocol, values, Seeds(seed))
    sent = [makers[device(person)]().start(0.0)[0].body for person in range(n)]
    return shuffler, [msgspec.msgpack.decode(body, type=PlacedReport) for body in sent]


def say(shuffler: Any, person: int, report: Any, now: float = 1.0) -> list[Any]:
    return shuffler.receive(Message(device(person), wire.encode(report)), now)


def answer(effects: list[Any]) -> Any:
    return msgspec.msgpack.decode(effects[0].body, type=wire.Accepted | wire.Refused)


def batches(effects: list[Any]) -> list[PlacedBatch]:
    return [
        msgspec.msgpack.decode(each.body, type=PlacedBatch)
        for each in effects
        if getattr(each, "to", None) == CURATOR
    ]


WRONG: dict[str, list[Any]] = {
    "people": [[0.0, 0.0], "a"],
    "points": [
        None, "a", [0.0], [0.0] * 3, [math.nan, 0.0], [math.inf, 0.0], [1e200, 0.0], [1e14, 0.0],
    ],
    "groups": [None, [0.0, 0.0], " ", ";;"],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_shuffler_refuses_wrong_place_and_takes_right_one_later(kind):
    shuffler, honest = bench(kind)
    before = shuffler.state()
    for place in WRONG[kind]:
        refused = say(shuffler, 1, msgspec.structs.replace(honest[1], place=place))
        assert answer(refused) == wire.Refused(0, honest[1].id)
        assert shuffler.state() == before
    for person in (0, 1, 2):
        effects = say(shuffler, person, honest[person])
        assert answer(effects) == wire.Accepted(0, honest[person].id)
    (batch,) = batches(effects)
    assert batch.who == [0, 1, 2]
    assert batch.places == [each.place for each in honest]
    assert Counter(batch.payloads) == Counter(each.payload for each in honest)


@pytest.mark.parametrize("kind", ["points", "groups"])
def test_shuffler_keeps_first_place_of_repeated_report(kind):
    shuffler, honest = bench(kind)
    elsewhere = honest[2].place
    assert isinstance(answer(say(shuffler, 0, honest[0])), wire.Accepted)
    state = shuffler.state()
    moved = msgspec.structs.replace(honest[0], place=elsewhere)
    # The first one counts, and is what was accepted; a new one is refused.
    assert isinstance(answer(say(shuffler, 0, moved)), wire.Accepted)
    other = msgspec.structs.replace(moved, id=bytes(16))
    assert isinstance(answer(say(shuffler, 0, other)), wire.Refused)
    assert shuffler.state() == state
    say(shuffler, 1, honest[1])
    (batch,) = batches(say(shuffler, 2, honest[2]))
    assert batch.places == [each.place for each in honest]


@pytest.mark.parametrize("sender", [device(3), device(-1), "device/x", "stranger", SHUFFLER, ""])
def test_shuffler_ignores_strangers(sender):
    shuffler, honest = bench()
    before = shuffler.state()
    assert shuffler.receive(Message(sender, wire.encode(honest[0])), 1.0) == []
    assert shuffler.state() == before


def test_shuffler_ignores_report_that_is_too_long():
    shuffler, honest = bench()
    long = msgspec.structs.replace(honest[0], payload=bytes(2000))
    assert say(shuffler, 0, long) == []


def test_shuffler_waits_for_roster_or_deadline():
    shuffler, honest = bench("points", alpha=1e6)
    assert batches(say(shuffler, 2, honest[2], 20.0)) == []
    assert batches(say(shuffler, 0, honest[0], 21.0)) == []
    assert batches(shuffler.wake(59.0)) == []
    (batch,) = batches(shuffler.wake(60.0))
    assert batch.who == [0, 2]
    assert batch.places == [honest[0].place, honest[2].place]
    assert batch.payloads == [honest[0].payload, honest[2].payload]
    assert isinstance(answer(say(shuffler, 1, honest[1], 61.0)), wire.Refused)
    assert isinstance(answer(say(shuffler, 0, honest[0], 61.0)), wire.Accepted)


def test_shuffler_without_reports_sends_empty_batch():
    shuffler, _ = bench("points")
    assert batches(shuffler.wake(60.0)) == [PlacedBatch([], [], [])]


def test_batch_does_not_depend_on_order_of_arrival():
    found = set()
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        shuffler, honest = bench("points")
        for person in order:
            effects = say(shuffler, person, honest[person])
        (batch,) = batches(effects)
        found.add(wire.encode(batch))
    assert len(found) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_shuffler_forgets_senders_on_shuffle_and_reports_once_safe(kind):
    protocol, values = placed(kind)
    makers = make_actors(protocol, values, Seeds(1), {device(p): Marked(p) for p in range(7)})
    shuffler = makers[SHUFFLER]()
    shuffler.start(0.0)
    for person in range(7):
        (first, _) = makers[device(person)]().start(0.0)
        effects = shuffler.receive(Message(device(person), first.body), 1.0)
        if person < 6:
            assert Marked.payload(person) in shuffler.state()
    (batch,) = batches(effects)
    closed = shuffler.state()
    # What is left of the reports is the batch, as it was sent.
    (intake, outbox) = msgspec.msgpack.decode(closed)
    assert Marked.SIGN not in wire.encode(intake)
    assert msgspec.msgpack.decode(outbox[0][0][1]) == msgspec.msgpack.decode(wire.encode(batch))
    effects = shuffler.receive(
        Message(CURATOR, wire.encode(shuffle_messages.BatchAccepted(0))), 2.0
    )
    after = shuffler.state()
    assert Marked.SIGN not in after
    assert not any(Marked.payload(person) in after for person in range(7))
    for place in ("g3", np.float64(6.0).byteswap().tobytes()):
        assert (place.encode() if isinstance(place, str) else place) not in after
    deadlines, [(ids, payloads, over)] = msgspec.msgpack.decode(after)[0]
    assert (sorted(ids), payloads, over) == ([device(each) for each in range(7)], {}, True)
    assert msgspec.msgpack.decode(after)[1][0] == {}
    assert len(deadlines) == 1


class Marked:
    """Seals so that it shows whose report is inside, to whoever looks for it."""

    SIGN = b"<report of "

    def __init__(self, person: int) -> None:
        self.person = person

    @staticmethod
    def payload(person: int) -> bytes:
        return b"%s%d>" % (Marked.SIGN, person)

    def seal(self, to: str, plain: bytes) -> bytes:
        assert to == CURATOR
        return self.payload(self.person)


def test_restarted_shuffler_repeats_batch_without_new_draw():
    """Whatever its generator would say now: it is not asked again."""
    shuffler, honest = bench("points", alpha=0.0)
    for person in range(3):
        effects = say(shuffler, person, honest[person])
    (batch,) = batches(effects)
    protocol, _ = placed("points", 3, alpha=0.0)

    def never(*numbers: int) -> Any:
        raise AssertionError("a shuffle is drawn twice")

    copy = protocol.actor(SHUFFLER, ActorContext(generator=never, timing=Timing(timeout=60.0)))
    copy.resume(shuffler.state())
    for now in (10.0, 61.0, 100.0):
        assert batches(copy.wake(now)) == [batch]
    for person in range(3):
        assert batches(say(copy, person, honest[person], 101.0)) == []


def test_shuffles_draw_from_streams_of_their_contexts():
    asked = []

    def stream(*numbers: int) -> Any:
        asked.append(numbers)
        return Seeds(5).generator("shuffler", *numbers)

    protocol, _ = placed("people", 3)
    shuffler = protocol.actor(SHUFFLER, ActorContext(generator=stream))
    shuffler.start(0.0)
    assert asked == []
    for person, report in enumerate(bench()[1]):
        say(shuffler, person, report)
    assert asked == [(0,)]


@pytest.mark.parametrize("exact", [False, True])
def test_shuffler_draws_exactly_if_asked(monkeypatch, exact):
    seen = []
    real = roles.shuffle_of

    def spied(*arguments: Any) -> Any:
        found = real(*arguments)
        sources = found.sources

        def spy(rng: Any, *, exact: bool) -> Any:
            seen.append(exact)
            return sources(rng, exact=exact)

        object.__setattr__(found, "sources", spy)
        return found

    monkeypatch.setattr(roles, "shuffle_of", spied)
    Shuffled(own(4, exact=exact))
    assert seen == [exact]


# The curator on its own.


def curator(kind: str = "points", n: int = 3) -> Any:
    protocol, _ = placed(kind, n)
    made = protocol.actor(CURATOR, ActorContext(generator=Seeds(0).generator))
    made.start(0.0)
    return made


PLACES: dict[str, list[Any]] = {
    "people": [None] * 3,
    "points": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]],
    "groups": ["a", "b; c", "c"],
}


def hand(to: Any, batch: PlacedBatch, sender: str = SHUFFLER) -> list[Any]:
    return to.receive(Message(sender, wire.encode(batch)), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_curator_takes_batch_once_and_answers_every_time(kind):
    made = curator(kind)
    batch = PlacedBatch([0, 1, 2], PLACES[kind], [b"\x02", b"\x00", b"\x01"])
    accepted, done = hand(made, batch)
    assert accepted.body == wire.encode(shuffle_messages.BatchAccepted(0))
    found = done.output
    assert found.pooled().tolist() == [2, 0, 1]
    assert (found.who.tolist(), found.at.tolist(), found.sent) == ([0, 1, 2], [0, 1, 2], 3)
    if kind == "points":
        assert found.points.tolist() == PLACES[kind]
    elif kind == "groups":
        assert found.groups == tuple(PLACES[kind])
    else:
        assert found.points is found.groups is None
    copy = curator(kind)
    copy.resume(made.state())
    for each in (made, copy):
        assert hand(each, PlacedBatch([0], PLACES[kind][:1], [b"\x01"])) == [accepted]
        assert each.state() == copy.state()


@pytest.mark.parametrize("kind", KINDS)
def test_unreadable_report_leaves_place_empty(kind):
    payloads = [b"\x02", b"\x09", b"\x01\x00"]
    (_, done) = hand(curator(kind), PlacedBatch([0, 1, 2], PLACES[kind], payloads))
    found = done.output
    assert found.pooled().tolist() == [2]
    assert (found.at.tolist(), found.who.tolist()) == ([0], [0, 1, 2])
    for spoiled in (0, 1):
        payloads = [b"\x02", b"\x01", b"\x00"]
        payloads[spoiled] = b"\x7f"
        (_, done) = hand(curator(kind), PlacedBatch([0, 1, 2], PLACES[kind], payloads))
        rest = [row for row in range(3) if row != spoiled]
        assert done.output.at.tolist() == rest
        assert done.output.pooled().tolist() == [payloads[row][0] for row in rest]


@pytest.mark.parametrize("kind", KINDS)
def test_empty_batch_gives_empty_table(kind):
    (_, done) = hand(curator(kind), PlacedBatch([], [], []))
    assert (done.output.received, len(done.output.who), done.output.sent) == (0, 0, 3)


@pytest.mark.parametrize(
    "impossible",
    [
        PlacedBatch([0, 0], PLACES["points"][:2], [b"\x00", b"\x01"]),
        PlacedBatch([1, 0], PLACES["points"][:2], [b"\x00", b"\x01"]),
        PlacedBatch([0, 3], PLACES["points"][:2], [b"\x00", b"\x01"]),
        PlacedBatch([0], PLACES["points"][:2], [b"\x00", b"\x01"]),
        PlacedBatch([0, 1], PLACES["points"][:1], [b"\x00", b"\x01"]),
        PlacedBatch([0, 1], PLACES["points"][:2], [b"\x00"]),
        PlacedBatch([0, 1], [[0.0, 1.0], [math.nan, 0.0]], [b"\x00", b"\x01"]),
        PlacedBatch([0, 1], [[0.0, 1.0], [1.0]], [b"\x00", b"\x01"]),
        PlacedBatch([0, 1], [None, None], [b"\x00", b"\x01"]),
        PlacedBatch([0, 1], ["a", "b"], [b"\x00", b"\x01"]),
    ],
)
def test_curator_ignores_impossible_batch(impossible):
    made = curator("points")
    before = made.state()
    assert hand(made, impossible) == []
    good = PlacedBatch([0, 1], PLACES["points"][:2], [b"\x00", b"\x01"])
    for sender in (device(0), "stranger", CURATOR):
        assert hand(made, good, sender) == []
    assert made.state() == before
    assert len(hand(made, good)) == 2


# Everybody.


@pytest.mark.parametrize("kind", KINDS)
def test_messages_with_byte_cut_or_added_are_ignored(kind):
    """Whatever kind of place is said in it."""
    protocol, values = placed(kind, 3)
    seen = taken_by(deliver_cut(make_actors(protocol, values, Seeds(3))))
    assert seen == {SHUFFLER: 4, "device": 3, CURATOR: 1}


@pytest.mark.parametrize("kind", ["points", "groups"])
def test_actors_ignore_arbitrary_bytes(kind):
    protocol, values = placed(kind, 3)
    cast = make_actors(protocol, values, Seeds(3))
    for make in cast.values():
        actor = make()
        actor.start(0.0)
        before = actor.state()
        throw_at(actor, [*cast, "stranger", ""])
        assert actor.state() == before


@pytest.mark.parametrize("kind", KINDS)
def test_played_and_simulated_are_one_protocol(kind):
    """The same people at the same places, the same guarantees and price."""
    protocol, values = placed(kind)
    simulated, shuffled = protocol.collect(values, Seeds(1)), Shuffled(protocol, 1, values=values)
    for found in (simulated, shuffled.found):
        check(protocol, found)
        happened = protocol.conditional_on(found)
        assert happened.mechanism.alpha <= 1.0
        assert happened.mechanism.sensitivity > 0
        assert happened.cost() == protocol.cost()
    one, other = (protocol.conditional_on(each) for each in (simulated, shuffled.found))
    assert one.grouping == other.grouping
    for stated, due in zip(guarantees(one), guarantees(other), strict=True):
        assert (stated.view, stated.theorem, stated.digest, stated.epsilon(DELTA)) == (
            due.view,
            due.theorem,
            due.digest,
            due.epsilon(DELTA),
        )
    price = protocol.cost().bytes_per_person
    for person in range(7):
        sent = shuffled.played.traffic[device(person)]
        assert sent.messages == 1
        assert sent.bytes <= price if kind == "groups" else sent.bytes == price


def test_groups_can_come_from_graph():
    protocol = OrderShuffle(KRR(categories=6, epsilon=30.0), alpha=1.0, graph=families.ring(6))
    shuffled = Shuffled(protocol)
    check(protocol, shuffled.found)
    assert protocol.conditional_on(shuffled.found).grouping == protocol.grouping


def test_device_without_a_value_cannot_start():
    made = own(3).actor(device(0), ActorContext(generator=lambda: Seeds(0).generator("device", 0)))
    with pytest.raises(InvalidParameter, match="its owner's value"):
        made.start(0.0)
