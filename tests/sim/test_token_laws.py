"""Who holds a token that is played, what a device gets to see of it, and other walks than those to
anyone."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp

from incrowd import graphs
from incrowd.errors import ProtocolFailed
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import COURIER, CURATOR, Message, device
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.accountant import weights_of
from incrowd.protocols.token_walk.roles import messages, relay
from incrowd.protocols.token_walk.roles.token import token_format
from incrowd.randomizers import Gaussian
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play, run
from tests.sim.token_played import ASKED, STEPS, TIMING, N, Walked, own_buckets, vanishing

# The law of the walk.


def test_holders_are_independent_and_uniform_with_repetition():
    n = 5
    walked = Walked(own_buckets(n=n, steps=2000), 11)
    assert walked.collected.reports == 2000
    path = np.array([visit.holder for visit in walked.walks[0].visits])
    pairs = np.bincount(path[:-1:2] * n + path[1::2], minlength=n * n)
    assert chisquare(pairs).pvalue > 1e-3
    assert chisquare(np.bincount(path)).pvalue > 1e-3


def test_holders_are_uniform_among_present_people():
    walked = Walked(own_buckets(n=5, steps=2000), 5, change=vanishing(2, 0))
    path = np.array([visit.holder for visit in walked.walks[0].visits])
    counts = np.bincount(path)
    assert counts[2] == 1
    assert chisquare(np.delete(counts, 2)).pvalue > 1e-3


def test_graph_holders_follow_weights():
    graph = graphs.from_edges([0, 0, 0, 0, 1], [1, 2, 3, 4, 2], 5)
    walked = Walked(own_buckets(n=0, graph=graph, topology="graph", steps=2000, cap=2000), 2)
    path = np.array([visit.holder for visit in walked.walks[0].visits])
    weights = weights_of(graph).toarray()
    for person in range(5):
        here = path[1:][path[:-1] == person]
        seen, expected = np.bincount(here, minlength=5), weights[person] * len(here)
        assert not seen[expected == 0].any()
        likely = expected > 0
        if likely.sum() > 1:
            share = expected[likely] * seen.sum() / expected[likely].sum()
            assert chisquare(seen[likely], share).pvalue > 1e-4


def test_played_walk_agrees_with_simulation():
    values = np.array([0.0, 0.1, 0.2, 1.0])

    def drawn(sigma, seed):
        protocol = TokenWalk(Gaussian.with_sigma(sigma), n=4, steps=6)
        return float(protocol.collect(values, Seeds(seed)).total)

    def walked(seed):
        protocol = TokenWalk(Gaussian.with_sigma(0.5), n=4, steps=6)
        makers = make_actors(protocol, values, Seeds(seed))
        return float(play(makers, Seeds(seed)).outputs[CURATOR].total)

    found = [walked(seed) for seed in range(300)]
    assert ks_2samp(found, [drawn(0.5, seed) for seed in range(300)]).pvalue > 1e-3
    assert ks_2samp(found, [drawn(1.5, seed) for seed in range(300)]).pvalue < 1e-3


def test_guarantee_is_conditional_on_played_walk():
    protocol = TokenWalk(Gaussian.with_sigma(4.0), n=6, steps=50)
    found = run(protocol, np.linspace(0, 1, 6), seed=2)
    simulated = protocol.simulate(np.linspace(0, 1, 6), seed=2)
    for stated, due in zip(found.guarantees, simulated.guarantees, strict=True):
        assert (stated.view, stated.theorem) == (due.view, due.theorem)
        if stated.view == {"peer"}:
            assert stated.epsilon(1e-5) == due.epsilon(1e-5)
    walked = Walked(protocol, 2, change=vanishing(3, 1))
    happened = protocol.conditional_on(walked.collected)
    assert (happened.n, happened.steps) == (5, 50)
    assert happened.guarantee().epsilon(1e-5) > found.guarantees[0].epsilon(1e-5)


# What a device sees.


def assert_hidden(walked: Walked) -> None:
    """A device is told of sums, turns and keys, and of nobody."""
    shared: Counter[bytes] = Counter()
    format_ = token_format(walked.protocol)
    for person in range(walked.protocol.n):
        own: set[bytes] = set()
        for said in walked.said[device(person)]:
            assert said.to == COURIER
            answer = msgspec.msgpack.decode(said.body)
            assert answer[0] in ("stock", "handed")
            if answer[0] == "stock":
                own.update(answer[2])
        for each in walked.told[device(person)]:
            assert each.sender == COURIER
        for asked in walked.asked(person):
            if isinstance(asked, messages.Carry):
                assert asked.key in own
                assert len(asked.sealed) in (0, format_.nbytes)
                assert not asked.blank
                shared[asked.key] += 1
            if isinstance(asked, messages.Carry | messages.Again) and asked.next != messages.HOME:
                shared[asked.next] += 1
    # A key is named once to whoever seals to it, and once to its owner, if it comes to that.
    assert max(shared.values(), default=0) <= 2
    given = [
        ASKED.decode(body).next for body in {each.body for each in walked.said[COURIER]}
        if msgspec.msgpack.decode(body)[0] in ("carry", "again")
    ]  # fmt: skip
    named = [key for key in given if key != messages.HOME]
    assert len(named) == len(set(named))


def test_device_view_reveals_no_path():
    fields = {
        "Carry": ("token", "turn", "key", "sealed", "next", "blank"),
        "Again": ("token", "turn", "of", "next"),
        "Release": ("token", "turn"),
        "Restock": ("lot",),
        "Over": (),
    }
    for name, allowed in fields.items():
        assert getattr(messages, name).__struct_fields__ == allowed
    for faults in (
        Faults(),
        Faults(loss=0.3, duplicate=0.3, crash=0.15, outages=60.0, downtime=15.0),
    ):
        assert_hidden(Walked(own_buckets(steps=40, tokens=2), 4, faults))


def test_relay_using_key_twice_is_detected(monkeypatch):
    def take_key(self, person, now):
        return self._people[person].keys[0] if self._people[person].keys else b"", []

    monkeypatch.setattr(relay.Relay, "_take_key", take_key)
    with pytest.raises(AssertionError):
        assert_hidden(Walked(own_buckets(steps=40), 4))


# Other walks.


def test_turns_beyond_cap_add_noise_alone():
    for seed in range(5):
        walked = Walked(own_buckets(n=4, steps=40, path="public", cap=3), seed)
        assert walked.played.finished
        visits = walked.walks[0].visits
        for person in range(4):
            mine = [visit.blank for visit in visits if visit.holder == person]
            assert mine == [False] * min(3, len(mine)) + [True] * max(0, len(mine) - 3)
        collected = walked.collected
        assert collected.reports == sum(not visit.blank for visit in visits)
        assert collected.noise == collected.total.sum() == 40


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("laps", [1, 2])
def test_ring_visits_everyone_in_turn(laps, published):
    faults = Faults(loss=0.3, duplicate=0.3, crash=0.1, outages=60.0, downtime=30.0)
    protocol = own_buckets(steps=0, topology="ring", laps=laps, published=published)
    uniform = 0
    for seed in range(5):
        walked = Walked(protocol, seed, faults, timing=Timing(round_seconds=20.0, grace_rounds=60))
        path = [visit.holder for visit in walked.walks[0].visits]
        assert path == list(range(N)) * laps
        collected = walked.collected
        assert collected.reports == N * laps
        assert collected.total.sum() == collected.noise == protocol.ring_noise
        assert np.all(collected.total >= laps)
        uniform += int(collected.total.sum()) - N * laps
    assert uniform == 5 * (1 + published) * protocol.ring.uniform_elements(
        protocol.randomizer.blanket().gamma
    )


def test_ring_adds_noise_at_stated_steps():
    """What each one adds, less the noise, is a value on the grid, or differs from it."""
    protocol = TokenWalk(Gaussian.with_sigma(1.0), n=5, laps=3, topology="ring")
    walked = Walked(protocol, 1)
    sums = [0.0]
    for person in np.tile(range(5), 3):
        del person
    handed = {
        said.turn: said.sealed
        for person in range(5)
        for said in (
            msgspec.msgpack.decode(each.body, type=messages.Handed)
            for each in walked.said[device(person)]
            if msgspec.msgpack.decode(each.body)[0] == "handed"
        )
    }
    sums += [float(np.frombuffer(handed[turn])[0]) for turn in range(15)]
    added = np.diff(sums) - np.tile(np.arange(5) / 5, 3)
    noisy = [turn for turn in range(15) if abs(added[turn]) > 2.0**-20]
    assert noisy == [turn for turn in range(15) if protocol.ring.noise_scale(turn)] == [0, 4, 8, 12]
    assert walked.collected.noise == protocol.ring_noise == 4
    assert float(walked.collected.total) == sums[-1]


def test_ring_waits_for_everyone_until_end():
    protocol = own_buckets(steps=0, topology="ring", laps=1)
    late = Walked(protocol, 1, change=vanishing(3, 0, back=150.0))
    assert late.collected.reports == N
    walked = Walked(protocol, 1, change=vanishing(3, 0))
    assert walked.played.finished
    assert walked.collected.reports == 0
    assert walked.played.statistics.duration <= protocol.duration(TIMING)
    with pytest.raises(ProtocolFailed):
        protocol.conditional_on(walked.collected)


@pytest.mark.parametrize("party", [COURIER, CURATOR, device(0)])
def test_states_round_trip(party):
    walked = Walked(own_buckets(tokens=2), 1, Faults(loss=0.2))
    state = walked.last[party].state()
    seeds = Seeds(1)
    copy = make_actors(own_buckets(tokens=2), np.arange(N), seeds, timing=TIMING)[party]()
    copy.resume(state)
    assert copy.state() == state
    assert copy.wake(1.0) == walked.last[party].wake(1.0)


def test_unexpected_answers_change_nothing():
    walked = Walked(own_buckets(), 1)
    curator = walked.last[CURATOR]
    before = curator.state()
    told = messages.Homecoming(0, b"", 0, 0.0, 1, N, None)
    assert curator.receive(Message(COURIER, wire.encode(told)), 1.0)
    for wrong in (
        messages.Homecoming(1, b"", 0, 0.0, 1, N, None),
        messages.Homecoming(0, b"", 5, 5.0, 4, N, None),
        messages.Homecoming(0, b"", 0, 0.0, STEPS + 1, N, None),
        messages.Homecoming(0, b"", 0, 0.0, 1, N + 1, None),
    ):
        assert curator.receive(Message(COURIER, wire.encode(wrong)), 1.0) == []
        assert curator.receive(Message(device(0), wire.encode(told)), 1.0) == []
    assert curator.state() == before
