"""Token walks in which messages are lost, doubled and late, parties crash, and people vanish.

Person i holds category i of n and reports it through randomized response with ε0 = 30, which errs
once in 10¹³. So a token says who contributed to it and how often, at every step: in simulations
nothing is encrypted, and everything that parties are told is written down here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, ks_2samp

from incrowd import graphs
from incrowd.errors import ProtocolFailed
from incrowd.protocols import wire
from incrowd.protocols.actor import COURIER, CURATOR, Actor, Message, Send, device, is_device
from incrowd.protocols.seat import Timing
from incrowd.protocols.token_walk import TokenWalk, actors, courier, messages
from incrowd.protocols.token_walk.privacy import weights_of
from incrowd.protocols.token_walk.trail import line
from incrowd.randomizers import KRR, Gaussian
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play, run

N, STEPS = 7, 12
TIMING = Timing(round_seconds=20.0, settle=3)
ASKED = msgspec.msgpack.Decoder(
    messages.Restock | messages.Carry | messages.Again | messages.Release | messages.Over
)
TOLD = msgspec.msgpack.Decoder(messages.Homecoming)

schedules = st.builds(
    Faults,
    loss=st.floats(0, 0.8),
    duplicate=st.floats(0, 0.8),
    reorder=st.floats(0, 1),
    crash=st.floats(0, 0.4),
    dropout=st.floats(0, 0.6),
    downtime=st.floats(0, 30),
    delay=st.floats(0, 10),
    spread=st.sampled_from(["constant", "exponential", "heavy"]),
)


class Watched(Actor):
    """An actor of which everything that it is told and says is written down."""

    def __init__(self, actor: Actor, told: list[Message], said: list[Send]) -> None:
        self.actor, self.told, self.said = actor, told, said

    def start(self, now):
        return self.heard(self.actor.start(now))

    def receive(self, message, now):
        self.told.append(message)
        return self.heard(self.actor.receive(message, now))

    def wake(self, now):
        return self.heard(self.actor.wake(now))

    def heard(self, effects):
        self.said.extend(each for each in effects if isinstance(each, Send))
        return effects

    def state(self):
        return self.actor.state()

    def resume(self, state):
        self.actor.resume(state)


class Walked:
    """A walk that was played, with what everybody was told and said."""

    def __init__(
        self,
        protocol,
        seed,
        faults=None,
        change: Callable[..., Any] = lambda makers: makers,
        timing=TIMING,
    ):
        self.protocol = protocol
        n = protocol.parameters.n
        self.told: dict[str, list[Message]] = defaultdict(list)
        self.said: dict[str, list[Send]] = defaultdict(list)
        self.last: dict[str, Any] = {}
        seeds = Seeds(seed)
        values = np.arange(n) if protocol.randomizer.domain == "category" else np.arange(n) / n
        makers = change(protocol.actors(values, seeds, timing=timing))
        until = protocol.lasts(timing) + 86_400
        watched = {each: self.watch(each, make) for each, make in makers.items()}
        self.played = play(watched, seeds, faults, until=until)
        self.collected = self.played.outputs.get(CURATOR)

    def watch(self, address, make):
        def made():
            self.last[address] = make()
            return Watched(self.last[address], self.told[address], self.said[address])

        return made

    @property
    def walks(self):
        return self.last[COURIER]._walks

    def bodies(self, address):
        """The different messages that came to somebody from the courier, in any order."""
        return {each.body for each in self.told[address] if each.sender == COURIER}

    def asked(self, person):
        """The different requests that came to a device, in any order."""
        return [ASKED.decode(body) for body in self.bodies(device(person))]


def own_buckets(**parameters):
    given = {"n": N, "steps": STEPS} | parameters
    n = given["n"] if given["n"] else given["graph"].n
    return TokenWalk(KRR(categories=n, epsilon=30.0), **given)


def among(walk, head, n):
    """How often each person is in the sum that this visit left."""
    return np.bincount([walk.visits[each].holder for each in line(walk.visits, head)], minlength=n)


def check(walked: Walked) -> int:
    """Everything that must hold whatever happens; how many contributions came home."""
    protocol, collected = walked.protocol, walked.collected
    chosen = protocol.parameters
    assert walked.played.finished
    assert collected.steps <= chosen.length
    assert collected.reports <= collected.sent
    assert collected.sent == sum(len(walk.visits) for walk in walked.walks)
    total = np.zeros(chosen.n)
    home = {told.token for told in map(TOLD.decode, walked.bodies(CURATOR)) if told.sealed}
    for token in home:
        walk = walked.walks[token]
        total += among(walk, walk.head, chosen.n)
    np.testing.assert_array_equal(collected.total, total)
    assert collected.reports == collected.noise == total.sum()
    if collected.reports:
        assert 3 <= collected.crowd <= chosen.n
    issued: Counter[int] = Counter()
    for number, walk in enumerate(walked.walks):
        issued.update(each.holder for each in walk.visits)
        _check_every_request(walked, number, walk)
    for person in range(chosen.n):
        if device(person) in walked.played.outputs:
            held = walked.played.outputs[device(person)].contributions
            assert total[person] <= held <= issued[person]
    return collected.reports


def _check_every_request(walked, number, walk):
    """Turns never repeat, and every token on its way holds what it should, and nothing twice."""
    chosen = walked.protocol.parameters
    by_turn = {visit.turn: visit for visit in walk.visits}
    assert len(by_turn) == len(walk.visits)
    seen: dict[int, bytes] = {}
    for send in walked.said[COURIER]:
        if not is_device(send.to):
            continue
        asked = ASKED.decode(send.body)
        if not isinstance(asked, messages.Carry | messages.Again) or asked.token != number:
            continue
        # A call that a crash undid may have been written down too; it told nobody anything new.
        assert seen.setdefault(asked.turn, send.body) == send.body
        if isinstance(asked, messages.Carry):
            visit = by_turn[asked.turn]
            assert send.to == device(visit.holder)
            counts = np.frombuffer(asked.sealed, "<u4") if asked.sealed else np.zeros(chosen.n)
            np.testing.assert_array_equal(counts, among(walk, visit.before, chosen.n))


common = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@common
@given(faults=schedules, seed=st.integers(0, 2**32), tokens=st.sampled_from([1, 1, 3]))
def test_nothing_is_counted_twice_whatever_happens(faults, seed, tokens):
    check(Walked(own_buckets(tokens=tokens), seed, faults))


@settings(common, max_examples=20)
@given(faults=schedules, seed=st.integers(0, 2**32))
def test_on_a_graph_too(faults, seed):
    graph = graphs.random_regular(8, 4, np.random.default_rng(1))
    check(Walked(own_buckets(n=0, graph=graph, topology="graph", cap=STEPS), seed, faults))


def test_trouble_costs_time_and_not_contributions():
    faults = Faults(loss=0.2, duplicate=0.4, reorder=0.5, crash=0.05, downtime=1.0)
    for seed in range(10):
        walked = Walked(own_buckets(steps=20), seed, faults)
        assert check(walked) >= 18
        assert walked.collected.steps == 20


def test_long_absences_cost_contributions_and_never_count_twice():
    found = [check(Walked(own_buckets(steps=20), seed, Faults(crash=0.3, downtime=60.0)))
             for seed in range(20)]  # fmt: skip
    assert 0 < sum(found) < 20 * 20


# Who vanishes.


def vanishing(person, after, back=np.inf, leaves=False):
    """A device that takes the token so often and is deaf to the next one, for a time.

    One that ``leaves`` is deaf right after the last one, also to those who ask for it again.
    """

    def change(makers):
        make, count = makers[device(person)], [0]

        def made():
            actor = make()
            honest = actor.receive

            def receive(message, now):
                gone = leaves and count[0] == after
                count[0] += isinstance(ASKED.decode(message.body), messages.Carry)
                gone |= count[0] > after
                return [] if gone and now < back else honest(message, now)

            actor.receive = receive
            return actor

        return {**makers, device(person): made}

    return change


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_vanished_holder_is_passed_over_and_the_walk_goes_on(after):
    for seed in range(5):
        walked = Walked(own_buckets(steps=40), seed, change=vanishing(2, after))
        reports = check(walked)
        (walk,) = walked.walks
        mine = [place for place, visit in enumerate(walk.visits) if visit.holder == 2]
        assert walked.collected.steps == 40
        if len(mine) > after:
            # It is asked once in vain, and if it had just held the token, once more for that.
            assert len(mine) == after + 1
            assert 40 - 3 <= reports <= 39
            assert walked.collected.crowd == N - 1


def test_who_comes_back_takes_part_again_with_new_keys():
    walked = Walked(own_buckets(steps=120), 3, change=vanishing(2, 1, back=22.0))
    check(walked)
    lots = {each.lot for each in walked.asked(2) if isinstance(each, messages.Restock)}
    assert len(lots) > 1
    mine = [visit for visit in walked.walks[0].visits if visit.holder == 2]
    assert len(mine) > 3
    assert walked.collected.total[2] == len(mine) - 1
    assert walked.collected.crowd == N - 1


def test_when_all_who_have_the_sum_vanish_the_walk_begins_anew():
    """Everybody is there for one visit only."""

    def change(makers):
        for person in range(20):
            makers = vanishing(person, 1, leaves=True)(makers)
        return makers

    restarted = 0
    for seed in range(5):
        walked = Walked(own_buckets(n=20, steps=200), seed, change=change)
        check(walked)
        restarted += sum(visit.before == -1 for visit in walked.walks[0].visits) - 1
        assert max(walked.collected.total) <= 1
    assert restarted > 0


def test_a_late_answer_changes_nothing():
    """Two live tokens of one walk are impossible: of two who hold a sum only one is heard."""
    late = 0
    for seed in range(20):
        walked = Walked(own_buckets(steps=40), seed, Faults(crash=0.2, downtime=30.0))
        check(walked)
        (walk,) = walked.walks
        followed = {walk.head, *(each.before for each in walk.visits)}
        dropped = {each.turn for place, each in enumerate(walk.visits) if place not in followed}
        bodies = [msgspec.msgpack.decode(each.body) for each in walked.told[COURIER]]
        late += len({body[2] for body in bodies if body[0] == "handed"} & dropped)
    assert late > 3


@pytest.mark.parametrize("people", [0, 1, 2])
def test_too_few_people_walk_no_token(people):
    def change(makers):
        return {
            address: make for address, make in makers.items()
            if not is_device(address) or address in {device(each) for each in range(people)}
        }  # fmt: skip

    walked = Walked(own_buckets(), 1, change=change)
    assert walked.played.finished
    assert walked.collected.reports == walked.collected.steps == 0
    with pytest.raises(ProtocolFailed, match="no token came home"):
        walked.protocol.realised(walked.collected)


class TestBites:
    """Each of these breaks one party on purpose, and the checks above must notice."""

    def caught(self, faults, **parameters):
        failures = 0
        for seed in range(20):
            try:
                check(Walked(own_buckets(steps=25, **parameters), seed, faults))
            except (AssertionError, KeyError):
                failures += 1
        return failures

    def test_on_a_device_that_adds_to_what_it_seals_again(self, monkeypatch):
        honest = actors.Device._seal

        def seal(self, asked, packed):
            if isinstance(asked, messages.Again) and packed is not None:
                drawn = self._contribution.draw(0, False, np.random.default_rng())
                packed = self._format.pack(self._format.unpack(packed) + drawn)
            return honest(self, asked, packed)

        monkeypatch.setattr(actors.Device, "_seal", seal)
        assert self.caught(Faults(crash=0.2, downtime=40.0)) > 0

    def test_on_a_device_that_adds_whenever_it_is_asked(self, monkeypatch):
        honest = actors.Device._take_turn

        def take_turn(self, asked):
            self._state.turns.clear()
            if isinstance(asked, messages.Carry):
                self._state.secrets[asked.key] = asked.key
            return honest(self, asked)

        monkeypatch.setattr(actors.Device, "_take_turn", take_turn)
        assert self.caught(Faults(duplicate=0.5, loss=0.3)) > 0

    def test_on_a_device_that_forgets_its_state(self, monkeypatch):
        monkeypatch.setattr(actors.Device, "resume", lambda self, state: None)
        assert self.caught(Faults(crash=0.2, downtime=1.0)) > 0

    def test_on_a_courier_that_takes_late_answers(self, monkeypatch):
        honest = courier.Courier._handed

        def handed(self, person, said, now):
            walk = self._walks[said.token]
            if walk.stage == courier._ASKED and walk.again == -1:
                walk.holder, said = person, messages.Handed(said.token, walk.turn, said.sealed)
            return honest(self, person, said, now)

        monkeypatch.setattr(courier.Courier, "_handed", handed)
        assert self.caught(Faults(delay=15.0, spread="heavy")) > 0

    def test_on_a_courier_that_draws_again_after_a_crash(self, monkeypatch):
        honest = courier.Courier.resume

        def resume(self, state):
            honest(self, state)
            for walk in self._walks:
                if walk.stage == courier._ASKED and walk.again == -1:
                    walk.turn -= 1
                    walk.visits.pop()
                    self._prepare(0, walk, 0.0)

        monkeypatch.setattr(courier.Courier, "resume", resume)
        assert self.caught(Faults(crash=0.2, downtime=1.0)) > 0


# The law of the walk.


def test_holders_are_independent_and_uniform_and_may_be_the_same_again():
    n = 5
    walked = Walked(own_buckets(n=n, steps=2000), 11)
    assert walked.collected.reports == 2000
    path = np.array([visit.holder for visit in walked.walks[0].visits])
    pairs = np.bincount(path[:-1:2] * n + path[1::2], minlength=n * n)
    assert chisquare(pairs).pvalue > 1e-3
    assert chisquare(np.bincount(path)).pvalue > 1e-3


def test_holders_are_uniform_among_those_who_are_there():
    walked = Walked(own_buckets(n=5, steps=2000), 5, change=vanishing(2, 0))
    path = np.array([visit.holder for visit in walked.walks[0].visits])
    counts = np.bincount(path)
    assert counts[2] == 1
    assert chisquare(np.delete(counts, 2)).pvalue > 1e-3


def test_on_a_graph_holders_follow_its_weights():
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


def test_what_is_played_is_what_is_simulated():
    values = np.array([0.0, 0.1, 0.2, 1.0])

    def drawn(sigma, seed):
        protocol = TokenWalk(Gaussian.with_sigma(sigma), n=4, steps=6)
        return float(protocol.collect(values, Seeds(seed)).total)

    def walked(seed):
        protocol = TokenWalk(Gaussian.with_sigma(0.5), n=4, steps=6)
        makers = protocol.actors(values, Seeds(seed))
        return float(play(makers, Seeds(seed)).outputs[CURATOR].total)

    found = [walked(seed) for seed in range(300)]
    assert ks_2samp(found, [drawn(0.5, seed) for seed in range(300)]).pvalue > 1e-3
    assert ks_2samp(found, [drawn(1.5, seed) for seed in range(300)]).pvalue < 1e-3


def test_the_promise_is_that_of_what_happened():
    protocol = TokenWalk(Gaussian.with_sigma(4.0), n=6, steps=50)
    found = run(protocol, np.linspace(0, 1, 6), seed=2)
    simulated = protocol.simulate(np.linspace(0, 1, 6), seed=2)
    for stated, due in zip(found.guarantees, simulated.guarantees, strict=True):
        assert (stated.view, stated.theorem) == (due.view, due.theorem)
        if stated.view == {"peer"}:
            assert stated.epsilon(1e-5) == due.epsilon(1e-5)
    walked = Walked(protocol, 2, change=vanishing(3, 1))
    happened = protocol.realised(walked.collected)
    assert (happened.parameters.n, happened.parameters.steps) == (5, 50)
    assert happened.guarantee().epsilon(1e-5) > found.guarantees[0].epsilon(1e-5)


# What a device sees.


def assert_hidden(walked: Walked) -> None:
    """A device is told of sums, turns and keys, and of nobody."""
    shared: Counter[bytes] = Counter()
    format_ = actors.token_format(walked.protocol)
    for person in range(walked.protocol.parameters.n):
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


def test_a_device_sees_what_a_hidden_path_allows():
    fields = {
        "Carry": ("token", "turn", "key", "sealed", "next", "blank"),
        "Again": ("token", "turn", "of", "next"),
        "Release": ("token", "turn"),
        "Restock": ("lot",),
        "Over": (),
    }
    for name, allowed in fields.items():
        assert getattr(messages, name).__struct_fields__ == allowed
    for faults in (Faults(), Faults(loss=0.3, duplicate=0.3, crash=0.15, downtime=15.0)):
        assert_hidden(Walked(own_buckets(steps=40, tokens=2), 4, faults))


def test_a_courier_that_uses_a_key_twice_is_seen(monkeypatch):
    def take_key(self, person, now):
        return self._people[person].keys[0] if self._people[person].keys else b"", []

    monkeypatch.setattr(courier.Courier, "_take_key", take_key)
    with pytest.raises(AssertionError):
        assert_hidden(Walked(own_buckets(steps=40), 4))


# Other walks.


def test_beyond_the_cap_only_noise_is_added():
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
def test_on_a_ring_everyone_is_visited_in_turn(laps, published):
    faults = Faults(loss=0.3, duplicate=0.3, crash=0.1, downtime=30.0)
    protocol = own_buckets(steps=0, topology="ring", laps=laps, published=published)
    uniform = 0
    for seed in range(5):
        walked = Walked(protocol, seed, faults, timing=Timing(round_seconds=20.0, settle=60))
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


def test_on_a_ring_noise_is_added_where_it_is_promised():
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


def test_a_ring_waits_for_everyone_and_gives_up_at_the_end():
    protocol = own_buckets(steps=0, topology="ring", laps=1)
    late = Walked(protocol, 1, change=vanishing(3, 0, back=150.0))
    assert late.collected.reports == N
    walked = Walked(protocol, 1, change=vanishing(3, 0))
    assert walked.played.finished
    assert walked.collected.reports == 0
    assert walked.played.statistics.duration <= protocol.lasts(TIMING)
    with pytest.raises(ProtocolFailed):
        protocol.realised(walked.collected)


@pytest.mark.parametrize("party", [COURIER, CURATOR, device(0)])
def test_every_state_survives_a_round_trip(party):
    walked = Walked(own_buckets(tokens=2), 1, Faults(loss=0.2))
    state = walked.last[party].state()
    seeds = Seeds(1)
    copy = own_buckets(tokens=2).actors(np.arange(N), seeds, timing=TIMING)[party]()
    copy.resume(state)
    assert copy.state() == state
    assert copy.wake(1.0) == walked.last[party].wake(1.0)


def test_answers_that_nobody_waits_for_change_nothing():
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
