"""One party of a token walk at a time: what it does, and what it refuses."""

from __future__ import annotations

from functools import partial

import msgspec
import numpy as np
import pytest

from incrowd.errors import InvalidParameter
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    COURIER,
    CURATOR,
    Done,
    Message,
    NullSealer,
    Send,
    device,
    person_of,
)
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.roles import messages
from incrowd.protocols.token_walk.roles.device import DeviceResult
from incrowd.protocols.token_walk.roles.relay import walk_seconds
from incrowd.protocols.token_walk.roles.token import token_format
from incrowd.randomizers import KRR, Gaussian, GaussianVector
from incrowd.randomness import Seeds
from incrowd.sim import play
from tests.protocols.contract import throw_at
from tests.protocols.sealing import sealers

N = 5
TIMING = Timing(round_seconds=10.0, grace_rounds=2)
ANSWER = msgspec.msgpack.Decoder(messages.Stock | messages.Handed)


def walk(**parameters):
    return TokenWalk(KRR(categories=N, epsilon=30.0), **{"n": N, "steps": 6} | parameters)


class Talking:
    """A device, and somebody who talks to it as the courier does."""

    def __init__(self, protocol=None, person=2, sealer=None):
        seeds = Seeds(1)
        self.protocol = protocol or walk()
        self.sealer = sealer or NullSealer()
        self.context = ActorContext(
            generator=lambda *index: seeds.generator("device", person, *index),
            value=np.array([person]),
            sealer=self.sealer,
            timing=TIMING,
        )
        self.person = person
        self.actor = self.protocol.actor(device(person), self.context)
        self.actor.start(0.0)
        self.keys = self.tell(messages.Restock(0)).keys

    def effects(self, body, sender=COURIER):
        return self.actor.receive(Message(sender, wire.encode(body)), 1.0)

    def tell(self, body):
        """What it answers, if it does."""
        (send,) = self.effects(body)
        assert send.to == COURIER
        return ANSWER.decode(send.body)

    def carry(self, turn, sealed=b"", key=None, next_=b"n" * 32, blank=False, token=0):
        return messages.Carry(token, turn, key or self.keys.pop(), sealed, next_, blank)

    def counts(self, handed):
        return np.frombuffer(handed.sealed, "<u4").tolist()


def test_device_adds_contribution_to_sum():
    device_ = Talking()
    first = device_.tell(device_.carry(0))
    assert device_.counts(first) == [0, 0, 1, 0, 0]
    second = device_.tell(device_.carry(3, first.sealed))
    assert device_.counts(second) == [0, 0, 2, 0, 0]
    assert (second.token, second.turn) == (0, 3)


def test_device_repeats_answer_to_repeated_request():
    device_ = Talking(sealer=sealers(walk())[device(2)])
    asked = device_.carry(0, next_=device_.keys[0])
    first = device_.tell(asked)
    state = device_.actor.state()
    assert device_.tell(asked) == first
    copy = device_.protocol.actor(device(2), device_.context)
    copy.resume(state)
    device_.actor = copy
    assert device_.tell(asked) == first
    assert device_.actor.state() == state


def test_device_uses_key_once():
    device_ = Talking()
    key = device_.keys[0]
    device_.tell(device_.carry(0, key=key))
    assert device_.effects(device_.carry(1, key=key)) == []
    assert device_.effects(device_.carry(1, key=b"x" * 32)) == []
    assert device_.tell(device_.carry(2, key=device_.keys[1])).turn == 2


def test_device_ignores_earlier_turn():
    device_ = Talking()
    device_.tell(device_.carry(5))
    state = device_.actor.state()
    assert device_.effects(device_.carry(4)) == []
    assert device_.actor.state() == state


def test_device_seals_same_sum_again():
    device_ = Talking()
    first = device_.tell(device_.carry(0))
    again = device_.tell(messages.Again(0, 4, 0, b"m" * 32))
    assert (again.sealed, again.turn) == (first.sealed, 4)
    assert device_.effects(messages.Again(0, 5, 3, b"m" * 32)) == []
    assert device_.effects(messages.Release(0, 0)) == []
    assert device_.effects(messages.Again(0, 6, 0, b"m" * 32)) == []
    (done,) = device_.effects(messages.Over())
    assert done == Done(DeviceResult(1))


def test_device_forgets_secrets_at_end():
    device_ = Talking()
    device_.tell(device_.carry(0))
    device_.effects(messages.Over())
    lot, keys, secrets, turns, answers, sums, contributions, over, value = msgspec.msgpack.decode(
        device_.actor.state(), strict=False
    )
    assert (keys, secrets, turns, answers, sums) == ([], {}, {}, {}, {})
    assert value[-1] == b""
    assert (lot, over, contributions) == (-1, True, {0: 1})
    assert device_.effects(messages.Restock(0)) == []
    assert device_.actor.wake(1e9) == [Done(DeviceResult(1))]


def test_device_ends_when_time_is_up():
    device_ = Talking()
    ends = walk_seconds(6, TIMING)
    assert ends == (2 + 6 + 2) * 10.0
    assert device_.actor.start(0.0)[0].at == ends
    assert device_.actor.wake(ends) == [Done(DeviceResult(0))]


def test_device_makes_lots_in_order_without_repeated_key():
    device_ = Talking()
    seen = [*device_.keys]
    assert device_.effects(messages.Restock(2)) == []
    for lot in (1, 2):
        stock = device_.tell(messages.Restock(lot))
        assert device_.tell(messages.Restock(lot)) == stock
        seen += stock.keys
    assert device_.effects(messages.Restock(1)) == []
    assert len(seen) == len(set(seen)) == 3 * messages.LOT


@pytest.mark.parametrize(
    "asked",
    [
        {"sealed": b"short"},
        {"blank": True},
        {"token": 1},
        {"next_": b"nobody"},
    ],
)
def test_device_ignores_invalid_request(asked):
    device_ = Talking(sealer=sealers(walk())[device(2)])
    state = device_.actor.state()
    asked = {"next_": device_.keys[0]} | asked
    assert device_.effects(device_.carry(0, **asked)) == []
    assert device_.actor.state() == state


def test_device_ignores_other_senders():
    device_ = Talking()
    state = device_.actor.state()
    for stranger in (CURATOR, device(0), "hub"):
        assert device_.effects(messages.Restock(1), stranger) == []
        assert device_.effects(messages.Over(), stranger) == []
    assert device_.actor.state() == state


def test_device_ignores_arbitrary_bytes():
    protocol, seeds = walk(), Seeds(1)
    makers = make_actors(protocol, np.arange(N), seeds, timing=TIMING)
    for address in (device(0), COURIER, CURATOR):
        actor = makers[address]()
        actor.start(0.0)
        throw_at(actor, [COURIER, CURATOR, device(0), device(4), device(99), "nobody"])


def test_device_contributes_at_most_length_times():
    device_ = Talking(walk(steps=3))
    stock = [*device_.keys, *device_.tell(messages.Restock(1)).keys]
    for turn in range(3):
        device_.tell(device_.carry(turn, key=stock.pop()))
    assert device_.effects(device_.carry(3, key=stock.pop())) == []


def test_ring_device_refuses_turn_of_another():
    device_ = Talking(TokenWalk(KRR(categories=N, epsilon=30.0), n=N, laps=2, topology="ring"))
    assert device_.effects(device_.carry(1, bytes(4 * N))) == []
    assert device_.effects(device_.carry(12, bytes(4 * N))) == []
    assert device_.tell(device_.carry(7, bytes(4 * N))).turn == 7


def test_actor_rejects_sgd_task():
    protocol = TokenWalk(Gaussian.with_sigma(1.0), n=N, steps=6, contribution="sgd")
    with pytest.raises(InvalidParameter, match="TokenSGD"):
        protocol.actor(COURIER, ActorContext(generator=Seeds(1).generator))


# Sealing.


def test_sum_opens_for_next_holder_only():
    found = sealers(walk())
    me, next_, other = (found[device(each)] for each in range(3))
    secret = bytes(range(32))
    sealed = me.seal_to(next_.public_of(secret), b"sum")
    assert next_.open_with(secret, sealed) == b"sum"
    assert sealed != me.seal_to(next_.public_of(secret), b"sum")
    for opened in (
        lambda: next_.open(sealed),
        lambda: other.open_with(bytes(32), sealed),
        lambda: next_.open_with(secret, sealed[:-1]),
        lambda: next_.open_with(secret, me.seal(device(1), b"sum")),
        lambda: next_.open_with(secret, b""),
    ):
        with pytest.raises(ValueError, match="not sealed to this"):
            opened()
    for key in (b"", bytes(31), bytes(32)):
        with pytest.raises(ValueError, match="key"):
            me.seal_to(key, b"sum")


@pytest.mark.parametrize("tokens", [1, 2])
def test_real_seals_keep_result(tokens):
    protocol = walk(steps=20, tokens=tokens)
    plain, sealed = (
        play(make_actors(protocol, np.arange(N), Seeds(4), chosen, TIMING), Seeds(4)).outputs[
            CURATOR
        ]
        for chosen in (None, sealers(protocol))
    )
    assert sealed.reports == 20 * tokens
    np.testing.assert_array_equal(sealed.total, plain.total)


def test_token_size_is_constant():
    """Also where only the categories travel that were named."""
    for categories, steps in ((4, 6), (4000, 6)):
        protocol = TokenWalk(KRR(categories=categories, epsilon=1.0), n=N, steps=steps)
        sizes = set()
        makers = make_actors(protocol, np.arange(N) % 4, Seeds(1), sealers(protocol), TIMING)
        honest = makers[COURIER]

        def watched(honest=honest, sizes=sizes):
            actor = honest()
            receive = actor.receive

            def heard(message, now):
                said = msgspec.msgpack.decode(message.body)
                if said[0] == "handed":
                    sizes.add(len(said[3]))
                return receive(message, now)

            actor.receive = heard
            return actor

        makers[COURIER] = watched
        assert play(makers, Seeds(1)).outputs[CURATOR].reports == steps
        assert sizes == {token_format(protocol).nbytes + 48}


def test_curator_receives_vectors_and_numbers():
    vectors = np.eye(3)[np.arange(N) % 3]
    protocol = TokenWalk(GaussianVector(epsilon=30.0, delta=0.1, dimension=3), n=N, steps=40)
    total = play(make_actors(protocol, vectors, Seeds(1)), Seeds(1)).outputs[CURATOR].total
    assert total.shape == (3,)
    assert total.sum() == pytest.approx(40, abs=6 * protocol.randomizer.sigma * 120**0.5)
    for path in ("hidden", "public"):
        protocol = TokenWalk(Gaussian.with_sigma(0.25), n=N, steps=40, path=path)
        collected = play(make_actors(protocol, np.ones(N), Seeds(1)), Seeds(1)).outputs[CURATOR]
        assert collected.total.shape == ()
        assert float(collected.total) == pytest.approx(40, abs=6 * 0.25 * 40**0.5)
        # Of a path that is hidden nothing may be told.
        assert (collected.losses is None) == (path == "hidden")


# The courier.


def stocked(protocol):
    """A courier with everybody's keys, what each of them sent it, and what it did at the last."""
    courier = protocol.actor(
        COURIER, ActorContext(generator=partial(Seeds(1).generator, "courier"), timing=TIMING)
    )
    courier.start(0.0)
    lots = [[bytes([person, each]) * 16 for each in range(messages.LOT)] for person in range(N)]
    stocks = [wire.encode(messages.Stock(0, keys)) for keys in lots]
    for person in range(N):
        effects = courier.receive(Message(device(person), stocks[person]), 0.0)
    return courier, stocks, effects


def test_relay_calls_silent_people():
    """Who went away and was not drawn counts no longer among those who could have been."""
    courier, stocks, effects = stocked(walk())
    first = next(each.to for each in effects if isinstance(each, Send))
    called = [
        each.to for each in courier.wake(20.0)
        if isinstance(each, Send) and each.body == wire.encode(messages.Restock(0))
    ]  # fmt: skip
    assert sorted(called) == [device(each) for each in range(N) if device(each) != first]
    gone = next(person for person in range(N) if device(person) in called)
    for person in range(N):
        if person != gone:
            courier.receive(Message(device(person), stocks[person]), 21.0)
    assert courier._people[gone].present
    courier.wake(30.0)
    present = {device(each) for each in range(N) if courier._people[each].present}
    assert present == set(called) - {device(gone)}


def test_relay_counts_everyone_before_homecoming():
    """Who gave keys and went away before the end hid nobody, drawn or not."""
    courier, stocks, effects = stocked(walk(steps=1))
    (holder,) = (each.to for each in effects if isinstance(each, Send))
    handed = wire.encode(messages.Handed(0, 0, b"sealed"))
    effects = courier.receive(Message(holder, handed), 1.0)
    called = [each.to for each in effects if isinstance(each, Send)]
    assert sorted(called) == [device(each) for each in range(N) if device(each) != holder]
    gone, *others = called
    for each in others:
        effects = courier.receive(Message(each, stocks[person_of(each)]), 2.0)
        assert not any(isinstance(effect, Send) and effect.to == CURATOR for effect in effects)
    (home,) = (
        each for each in courier.wake(1.0 + TIMING.round_seconds)
        if isinstance(each, Send) and each.to == CURATOR
    )  # fmt: skip
    told = msgspec.msgpack.decode(home.body, type=messages.Homecoming)
    assert (told.crowd, told.reports, told.losses) == (N - 1, 1, None)
    assert not courier._people[person_of(gone)].present


def test_device_enforces_cap():
    """Whoever carries tokens cannot make anybody contribute more often."""
    device_ = Talking(walk(path="public", cap=1))
    assert device_.effects(device_.carry(0))
    assert not device_.effects(device_.carry(1))
    assert device_.effects(device_.carry(2, blank=True))


def test_relay_repeats_request_within_round():
    courier = walk().actor(
        COURIER, ActorContext(generator=partial(Seeds(1).generator, "courier"), timing=TIMING)
    )
    courier.start(0.0)
    for person in range(N):
        keys = [bytes([person, each]) * 16 for each in range(messages.LOT)]
        stock = wire.encode(messages.Stock(0, keys))
        effects = courier.receive(Message(device(person), stock), 0.0)
    (asked,) = (each for each in effects if isinstance(each, Send))
    assert [each for each in courier.wake(1.0) if isinstance(each, Send)] == [asked]
    state = courier.state()
    copy = walk().actor(
        COURIER, ActorContext(generator=partial(Seeds(1).generator, "courier"), timing=TIMING)
    )
    copy.resume(state)
    # Its own absence is nobody's silence.
    assert [each for each in copy.wake(11.0) if isinstance(each, Send)] == [asked]
    passed = [each for each in courier.wake(11.0) if isinstance(each, Send)]
    assert asked not in passed
    assert asked.to in {each.to for each in passed}


# The curator.


@pytest.mark.parametrize(
    ("sealed", "reports"),
    [
        (b"", 3),
        (b"not a token", 3),
        (np.array([3, 0, 0, 0, 0], "<u4").tobytes(), 2),
        (np.array([7, 0, 0, 0, 0], "<u4").tobytes(), 3),
        (np.array([3, 0, 0, 0, 0], "<u4").tobytes(), 0),
    ],
)
def test_curator_counts_invalid_token_as_lost(sealed, reports):
    protocol = walk()
    curator = protocol.actor(CURATOR, ActorContext(generator=Seeds(1).generator))
    told = messages.Homecoming(0, sealed, reports, float(reports), 6, N, None)
    answer, done = curator.receive(Message(COURIER, wire.encode(told)), 1.0)
    assert answer == Send(COURIER, wire.encode(messages.Arrived(0)))
    assert (done.output.reports, done.output.total.sum()) == (0, 0)
    assert (done.output.steps, done.output.sent, done.output.crowd) == (6, 6, N)


def test_curator_counts_token_once():
    curator = walk(tokens=2).actor(CURATOR, ActorContext(generator=Seeds(1).generator))
    sealed = np.array([1, 2, 0, 0, 0], "<u4").tobytes()
    told = [messages.Homecoming(each, sealed, 3, 3.0, 5, N - each, 0.5) for each in (0, 1)]
    bodies = [Message(COURIER, wire.encode(each)) for each in told]
    (answer,) = curator.receive(bodies[0], 1.0)
    assert curator.receive(bodies[0], 1.0) == [answer]
    _, done = curator.receive(bodies[1], 1.0)
    found = done.output
    np.testing.assert_array_equal(found.total, [2, 4, 0, 0, 0])
    assert (found.reports, found.noise, found.steps, found.sent) == (6, 6.0, 5, 10)
    assert (found.crowd, found.losses) == (N - 1, 0.5)
