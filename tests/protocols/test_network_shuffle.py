"""Network shuffling played by its actors: the contract, and the law of the walks.

Reports are told apart by *own buckets* (see ``contract``), so that a run shows where each person's
report ended. That law is compared with the product of the rounds' transition matrices.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import msgspec
import numpy as np
import pytest
from contract import DELTA, ProtocolContract, bounded, fault_schedules
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chisquare

from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.graphs import complete, from_edges, line, ring, star
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle import messages as network_messages
from incrowd.protocols.network_shuffle.roles.curator import Curator
from incrowd.protocols.network_shuffle.roles.device import Device, HandedIn
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.theorems.attendance import (
    AWAY,
    ON,
    UNKNOWN,
    from_record,
    on_to_the_end,
)
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Actor, Done, Message, Wake, device
from incrowd.protocols.runtime.context import GRACE_ROUNDS, ROUND_SECONDS, ActorContext, Timing
from incrowd.randomizers import KRR, RR, Laplace
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play, run

HOP_OR_PASSED = msgspec.msgpack.Decoder(network_messages.Hop | network_messages.Passed)
LOSSY = Faults(loss=0.3, duplicate=0.3, reorder=0.5, crash=0.1, outages=60.0, downtime=0.5)
LATE = Faults(loss=0.1, duplicate=0.2, delay=20.0)
"""Messages take nearly a round on average, so that many are late for the next."""


def graph_of(pairs, n):
    u, v = zip(*pairs, strict=True)
    return from_edges(np.array(u), np.array(v), n, self_loops=True)


AWKWARD = {
    "one": graph_of([(0, 0)], 1),
    "two": graph_of([(0, 1)], 2),
    "line": line(4),
    "ring": ring(5),
    "star": star(5),
    "bipartite": graph_of(product(range(2), range(2, 5)), 5),
    "disconnected": graph_of([(0, 1), (1, 2), (0, 2), (3, 4)], 5),
    "self-loop": graph_of([(0, 0), (0, 1), (1, 2)], 3),
    "multi-edge": graph_of([(0, 1), (0, 1), (1, 2), (2, 0), (1, 0)], 3),
    "hub": graph_of([(0, 1), (0, 2), (0, 3), (0, 4), (1, 2)], 5),
}


def near_ring(n):
    """Everyone knows the next two on each side; alone, a person knows herself."""
    people = np.arange(n)
    ends = np.concatenate([(people + 1) % n, (people + 2) % n])
    return from_edges(np.tile(people, 2), ends, n, self_loops=n == 1)


def own_buckets(graph, **options):
    n = graph[0].n if isinstance(graph, tuple) else graph.n
    return NetworkShuffle(KRR(categories=max(2, n), epsilon=30.0), graph=graph, **options)


def played(protocol, seed, faults=None, wrap=None):
    """Play once over own buckets; what the curator collected, and the play."""
    seeds = Seeds(seed)
    makers = make_actors(protocol, np.arange(protocol.n), seeds)
    if wrap is not None:
        makers = {address: wrap(address, make) for address, make in makers.items()}
    outcome = play(makers, seeds, faults)
    return outcome.outputs[CURATOR], outcome


def law(graphs, rounds, laziness=0.0, away=None):
    """Row j: where j's report ends, by multiplying dense matrices."""
    n = graphs[0].n
    result = np.eye(n)
    for number in range(rounds):
        step = graphs[number % len(graphs)].transition(laziness).toarray()
        if away is not None:
            step[away[number]] = np.eye(n)[away[number]]
        result = result @ step
    return result


def walk_p_value(counts, expected):
    """Pearson's test of all rows together: the walks are independent of each other."""
    assert (counts[expected == 0] == 0).all(), "a report is where it cannot be"
    statistic, freedom = 0.0, 0
    for seen, row in zip(counts, expected, strict=True):
        cells = row > 0
        statistic += float(chisquare(seen[cells], row[cells] * seen.sum()).statistic)
        freedom += int(cells.sum()) - 1
    return 1.0 if freedom == 0 else float(chi2.sf(statistic, freedom))


def positions(protocol, plays, faults=None, wrap=None, away=None):
    """How often each person's report ended at each person."""
    n = protocol.n
    counts = np.zeros((n, n), int)
    for seed in range(plays):
        collected, _ = played(protocol, seed, faults, wrap)
        assert sorted(collected.pooled().tolist()) == list(range(n)), "a report is missing"
        missed = np.zeros((protocol.rounds, n), bool) if collected.away is None else collected.away
        assert np.array_equal(missed, np.zeros_like(missed) if away is None else away)
        counts[collected.pooled(), collected.holders] += 1
    return counts


class Sleeper(Actor):
    """A device that is switched off, with all its plans, from one time to another."""

    def __init__(self, inner, begin, end):
        self.inner, self.begin, self.end = inner, begin, end

    def off(self, now):
        return self.begin <= now < self.end

    def start(self, now):
        assert not self.off(now)
        return self.inner.start(now)

    def receive(self, message, now):
        return [] if self.off(now) else self.inner.receive(message, now)

    def wake(self, now):
        return [Wake(self.end)] if self.off(now) else self.inner.wake(now)

    def state(self):
        return self.inner.state()

    def resume(self, state):
        self.inner.resume(state)


def asleep(outages):
    """Wrap makers: ``outages[person]`` is from when to when the device is off."""

    def wrap(address, make):
        for person, (begin, end) in outages.items():
            if address == device(person):
                return lambda: Sleeper(make(), begin, end)
        return make

    return wrap


class TestNetworkShuffle(ProtocolContract):
    kind = "network-shuffle"

    def make(self, randomizer, n, rounds=1):
        return NetworkShuffle(randomizer, graph=near_ring(n), rounds=rounds)

    def crowds(self, n, rounds):
        """Rounds move the same reports on."""
        return (n,)

    def check_price(self, protocol, played):
        """Reports that travel together share a message, so the price is never exceeded much.

        Nobody is lazy, so the number of times that a report moves is known exactly.
        """
        cost, n = protocol.cost(), protocol.n
        sent = [played.traffic[device(person)] for person in range(n)]
        assert 0.6 * cost.messages_per_person < np.mean([each.messages for each in sent])
        assert np.mean([each.messages for each in sent]) <= cost.messages_per_person
        assert 0.6 * cost.bytes_per_person < np.mean([each.bytes for each in sent])
        # Longer lists have longer headers, by a few bytes.
        assert np.mean([each.bytes for each in sent]) <= 1.05 * cost.bytes_per_person

    def check_delivery(self, faults, seed, n=7, rounds=2, mode="all"):
        protocol = own_buckets(near_ring(n), rounds=rounds, hand_in=mode)
        collected, outcome = played(protocol, seed, faults)
        assert outcome.finished
        assert collected.sent == n
        silent = np.zeros(n, bool) if collected.silent is None else collected.silent
        away = np.zeros((rounds, n), bool) if collected.away is None else collected.away
        assert (collected.away is None) == (not away.any() and collected.silent is None)
        windows = Clock(rounds).windows
        table = collected.attendance
        table = np.full((windows, n), ON, np.int8) if table is None else table
        for person in range(n):
            said = outcome.outputs.get(device(person))
            if said is None or not said.accepted:
                assert (table[:, person] == UNKNOWN).all()
                assert silent[person]
                continue
            assert table[:, person].tolist() == from_record(said.missed, windows).tolist()
            assert silent[person] == (not on_to_the_end(said.missed, windows))
            if not silent[person]:
                missed = [number for number in said.missed if number < rounds]
                assert np.flatnonzero(away[:, person]).tolist() == missed
        assert away[:, silent].all()
        assert not silent[collected.holders].any()
        if mode == "single":
            held = np.bincount(collected.holders, minlength=n)
            assert held.tolist() == (~silent).astype(int).tolist()
        else:
            counts = np.bincount(collected.rounds[0], minlength=n)
            assert counts.max(initial=0) <= 1, "a report was counted twice"
            assert np.bincount(collected.holders, minlength=n).tolist() == collected.load.tolist()
            assert collected.lost == n - collected.received
        return outcome

    @bounded
    @given(
        faults=fault_schedules, seed=st.integers(0, 2**32), mode=st.sampled_from(["all", "single"])
    )
    def test_delivery_under_faults_counts_reports_once(self, faults, seed, mode):
        self.check_delivery(faults, seed, mode=mode)

    def test_rounds_draw_fresh_reports(self):
        """They are not: the same report walks, whatever the number of rounds."""
        protocol = own_buckets(near_ring(9), rounds=4)
        collected, _ = played(protocol, 1)
        assert len(collected.rounds) == 1
        assert sorted(collected.pooled().tolist()) == list(range(9))

    def test_delivery_check_detects_double_counting(self, monkeypatch):
        """A device that takes in every copy of a hop, before a curator that counts every copy."""
        honest = Device._take_in

        def take_in(self, sender, hop, now):
            self._seen = {}
            return honest(self, sender, hop, now)

        monkeypatch.setattr(Device, "_take_in", take_in)
        self.count_every_copy(monkeypatch)
        self.mutant_must_fail(duplicate=0.9)

    def test_delivery_check_detects_lost_state_after_crash(self, monkeypatch):
        honest = Device.resume

        def resume(self, state):
            honest(self, state)
            self._seen = {}

        monkeypatch.setattr(Device, "resume", resume)
        self.count_every_copy(monkeypatch)
        self.mutant_must_fail(crash=0.3)

    @staticmethod
    def count_every_copy(monkeypatch):
        honest, count = wire.opened, iter(range(10**6))

        def opened(sealer, payloads):
            return [next(count).to_bytes(16) + each[16:] for each in honest(sealer, payloads)]

        monkeypatch.setattr(wire, "opened", opened)

    def test_curator_counts_copied_report_once(self, monkeypatch):
        """The second line of defence: whatever devices do, an identifier counts once."""
        honest = Device.resume

        def resume(self, state):
            honest(self, state)
            self._seen = {}

        monkeypatch.setattr(Device, "resume", resume)
        for seed in range(20):
            self.check_delivery(Faults(crash=0.15), seed)

    def test_run_with_dropout_states_guarantee_of_smaller_crowd(self):
        protocol = NetworkShuffle(KRR(categories=3, epsilon=1.0), graph=complete(60), rounds=3)
        happened = run(protocol, np.arange(60) % 3, faults=Faults(dropout=0.3), seed=1)
        collected, absent = happened.collected, happened.played.statistics.absent
        assert 0 < absent == collected.silent.sum()
        assert collected.away.all(axis=0).tolist() == collected.silent.tolist()
        assert collected.lost == 60 - collected.received
        assert happened.guarantees[0].epsilon(DELTA) > protocol.guarantee().epsilon(DELTA)
        assert happened.cost.expected_error > protocol.cost().expected_error

    def test_conditional_on_takes_smallest_crowd_and_skips_empty_rounds(self):
        """It takes the walk that happened instead."""
        protocol = NetworkShuffle(KRR(categories=3, epsilon=1.0), graph=complete(30), rounds=4)
        seeds = Seeds(3)
        outages = {5: (0.5 * ROUND_SECONDS, 2.5 * ROUND_SECONDS), 9: (1.0, 1e9)}
        makers = make_actors(protocol, np.arange(30) % 3, seeds)
        wrap = asleep(outages)
        outcome = play({address: wrap(address, make) for address, make in makers.items()}, seeds)
        realised = protocol.conditional_on(outcome.outputs[CURATOR])
        assert realised.walk.away[:, 5].tolist() == [False, True, False, False]
        # The curator cannot know that 9 was there for a second.
        assert realised.walk.away[:, 9].all()
        assert np.flatnonzero(realised.walk.silent).tolist() == [9]
        assert realised.guarantee().epsilon(DELTA) != protocol.guarantee().epsilon(DELTA)
        assert realised.attendance.doubtful.tolist() == (np.arange(30) == 9).tolist()

    @pytest.mark.parametrize(
        "wrong", [{"rounds": -1}, {"laziness": 1.0}, {"laziness": -0.1}, {"hand_in": "both"}]
    )
    def test_protocol_refuses_invalid_parameters(self, wrong):
        with pytest.raises(InvalidParameter):
            NetworkShuffle(RR(epsilon=1.0), graph=ring(5), **wrong)

    def test_actor_ignores_truncated_and_extended_messages(self):
        """Every message of an honest run, cut short or made longer by a byte."""
        seen = Counter()

        class Fussy(Sleeper):
            def receive(self, message, now):
                before = self.inner.state()
                body = message.body
                for wrong in (body[:-1], body[1:], body + b"\x00", b""):
                    assert self.inner.receive(Message(message.sender, wrong), now) == []
                assert self.inner.receive(Message("stranger", body), now) == []
                assert self.inner.receive(Message(device(10**6), body), now) == []
                assert self.inner.state() == before
                seen[type(self.inner).__name__, message.sender == CURATOR] += 1
                return self.inner.receive(message, now)

        _, outcome = played(
            own_buckets(near_ring(5), rounds=2), 1, wrap=lambda _, make: lambda: Fussy(make(), 0, 0)
        )
        assert outcome.finished
        assert seen["Device", False] >= 5
        assert seen["Device", True] == seen["Curator", False] == 5

    def test_device_retries_repeat_same_bytes(self):
        """Without any answer: one hop, then an empty hand-in, both again and again."""
        make = self.cast()[device(1)]
        actor, now, sent = make(), 0.0, []
        effects = actor.start(now)
        while now < Clock(2).hand_in + 1000:
            sent += [(now, effect.to, effect.body) for effect in effects if hasattr(effect, "body")]
            assert isinstance(effects[-1], Wake)
            now = effects[-1].at
            copy = make()
            copy.resume(actor.state())
            effects = actor.wake(now)
            assert copy.wake(now) == effects
            actor = copy
        assert len({body for _, _, body in sent}) == 2
        for to in {to for _, to, _ in sent}:
            times = [time for time, other, _ in sent if other == to]
            pauses = np.diff(times)
            assert (np.diff(pauses) >= 0).all()
            assert pauses[-1] == (60 if to == CURATOR else ROUND_SECONDS / 2)

    def test_device_ignores_answers_to_other_reports(self):
        actor = self.cast(n=5)[device(1)]()
        (hop,) = [effect for effect in actor.start(0.0) if hasattr(effect, "body")]
        id_ = HOP_OR_PASSED.decode(hop.body).id
        other = next(device(each) for each in (0, 2, 3, 4) if device(each) != hop.to)
        before = actor.state()
        for sender, answer in (
            (hop.to, network_messages.Passed(bytes(16))),
            (other, network_messages.Passed(id_)),
            (CURATOR, network_messages.Passed(id_)),
            (CURATOR, wire.Accepted(0, id_)),
            (CURATOR, wire.Refused(0, bytes(16))),
        ):
            assert actor.receive(Message(sender, wire.encode(answer)), 0.1) == []
        assert actor.state() == before
        actor.receive(Message(hop.to, wire.encode(network_messages.Passed(id_))), 0.1)
        assert actor.state() != before
        assert not any(hasattr(effect, "body") for effect in actor.wake(1.0))


class TestLaw:
    """Where reports end is P(t), whatever the network does (Pearson's tests at level 0.001)."""

    PLAYS = 150

    @pytest.mark.parametrize("name", AWKWARD)
    def test_positions_follow_law_with_losses_and_delays(self, name):
        graph = AWKWARD[name]
        protocol = own_buckets(graph, rounds=3)
        expected = law([graph], 3)
        for faults in (LOSSY, LATE):
            counts = positions(protocol, self.PLAYS // 2, faults)
            assert walk_p_value(counts, expected) > 1e-3

    @pytest.mark.parametrize("faults", [None, LOSSY, LATE], ids=["clean", "lossy", "late"])
    def test_positions_follow_law_of_lazy_changing_walk(self, faults):
        graphs = (AWKWARD["hub"], AWKWARD["disconnected"])
        protocol = own_buckets(graphs, rounds=3, laziness=0.3)
        counts = positions(protocol, self.PLAYS, faults)
        assert walk_p_value(counts, law(graphs, 3, 0.3)) > 1e-3
        assert walk_p_value(counts, law(graphs, 3, 0.5)) < 1e-6
        assert walk_p_value(counts, law(graphs, 2, 0.3) + 1e-9) < 1e-6

    def test_zero_rounds_hand_in_own_report(self):
        counts = positions(own_buckets(ring(4), rounds=0), 3)
        assert counts.tolist() == (3 * np.eye(4)).tolist()

    @pytest.mark.parametrize("faults", [None, LATE], ids=["prompt", "late"])
    def test_absent_device_keeps_its_reports(self, faults):
        """The hub of a star misses rounds 1 and 2, a leaf round 2; the hub gets all reports."""
        graph, rounds, seconds = AWKWARD["hub"], 4, ROUND_SECONDS
        outages = {0: (0.9 * seconds, 3.4 * seconds), 1: (1.5 * seconds, 3.0 * seconds)}
        away = np.zeros((rounds, 5), bool)
        away[1:3, 0] = away[2, 1] = True
        protocol = own_buckets(graph, rounds=rounds)
        counts = positions(protocol, self.PLAYS, faults, asleep(outages), away)
        assert walk_p_value(counts, law([graph], rounds, away=away)) > 1e-3
        assert walk_p_value(counts, law([graph], rounds) + 1e-9) < 1e-6

    def test_law_test_detects_late_hops_that_skip_rounds(self, monkeypatch):
        honest = Device._take_in

        def take_in(self, sender, hop, now):
            begun = min(self._state.window, self._clock.rounds)
            level = msgspec.structs.replace(hop, round=max(hop.round, begun - 1))
            return honest(self, sender, level, now)

        monkeypatch.setattr(Device, "_take_in", take_in)
        counts = positions(own_buckets(ring(5), rounds=3), self.PLAYS, LATE)
        assert walk_p_value(counts, law([ring(5)], 3) + 1e-9) < 1e-6

    @pytest.mark.parametrize("faults", [None, LATE], ids=["clean", "late"])
    def test_single_mode_hands_in_uniform_choice_or_dummy(self, faults):
        """Whose bucket each person hands in, against the exact law of independent walks."""
        graph, n = AWKWARD["hub"], 5
        protocol = own_buckets(graph, rounds=2, hand_in="single")
        counts = np.zeros((n, n), int)
        for seed in range(400):
            collected, _ = played(protocol, seed, faults)
            assert collected.away is None
            assert collected.load is None
            assert sorted(collected.holders.tolist()) == list(range(n))
            counts[collected.holders, collected.pooled()] += 1
        expected = single_law(law([graph], 2))
        for seen, row in zip(counts, expected, strict=True):
            assert chisquare(seen, row * seen.sum()).pvalue > 1e-3 / n

    @pytest.mark.parametrize("mode", ["all", "single"])
    def test_simulation_follows_law_of_devices(self, mode):
        graph, n = AWKWARD["hub"], 5
        protocol = own_buckets(graph, rounds=2, hand_in=mode)
        counts = np.zeros((n, n), int)
        for seed in range(250):
            collected = protocol.collect(np.arange(n), Seeds(seed))
            counts[collected.holders, collected.pooled()] += 1
        if mode == "all":
            assert walk_p_value(counts.T, law([graph], 2)) > 1e-3
        else:
            for seen, row in zip(counts, single_law(law([graph], 2)), strict=True):
                assert chisquare(seen, row * seen.sum()).pvalue > 1e-3 / n


def single_law(ends):
    """Row v: whose bucket v hands in. A dummy is in each of the n buckets equally often."""
    n = len(ends)
    result = np.zeros((n, n))
    for present in product([False, True], repeat=n):
        here = np.array(present)
        chance = np.where(here[:, None], ends, 1 - ends).prod(axis=0)
        share = here / here.sum() if here.any() else np.full(n, 1 / n)
        result += chance[:, None] * share
    return result


class TestRuns:
    @pytest.mark.parametrize("mode", ["all", "single"])
    def test_run_guarantee_reflects_absences(self, mode):
        protocol = NetworkShuffle(
            KRR(categories=3, epsilon=1.0), graph=complete(20), rounds=9, hand_in=mode
        )
        faults = Faults(outages=6.0, downtime=60.0)
        happened = run(protocol, np.arange(20) % 3, faults=faults, seed=1)
        assert happened.collected.away is not None
        stated, planned = happened.guarantees[0], protocol.guarantee()
        assert stated.epsilon(DELTA) != planned.epsilon(DELTA)
        assert set(planned.assumptions) < set(stated.assumptions)
        realised = protocol.conditional_on(happened.collected).guarantee()
        assert stated.epsilon(DELTA) == realised.epsilon(DELTA)

    def test_played_and_simulated_absences_have_equal_guarantees(self):
        graph, randomizer = complete(20), KRR(categories=3, epsilon=1.0)
        protocol = NetworkShuffle(randomizer, graph=graph, rounds=5)
        outages = {device(3): [(40.0, 130.0)], device(7): [(20.0, 61.0), (80.0, 200.0)]}
        happened = run(protocol, np.arange(20) % 3, outages=outages, seed=1)
        missed = [[1, 7], [2, 3], [3, 3], [3, 7], [4, 7]]
        assert np.argwhere(happened.collected.away).tolist() == missed
        described = NetworkShuffle(
            randomizer, graph=graph, rounds=5, away=happened.collected.away,
            silent=happened.collected.silent,
        )  # fmt: skip
        simulated = described.simulate(np.arange(20) % 3, seed=1)
        assert simulated.cost == happened.cost
        for one, other in zip(simulated.guarantees, happened.guarantees, strict=True):
            assert (one.view, one.theorem, one.assumptions) == (
                other.view, other.theorem, other.assumptions,
            )  # fmt: skip
            assert one.epsilon(DELTA) == other.epsilon(DELTA)

    def test_single_mode_estimate_removes_dummies(self):
        protocol = NetworkShuffle(RR(epsilon=3.0), graph=complete(60), rounds=4, hand_in="single")
        values = (np.arange(60) < 45).astype(int)
        answers = [run(protocol, values, seed=seed).result.value[1] for seed in range(25)]
        assert np.mean(answers) == pytest.approx(0.75, abs=4 * np.std(answers) / 5)
        assert np.mean(answers) != pytest.approx(0.65, abs=0.03)

    def test_single_mode_refuses_estimate_before_mixing(self):
        protocol = NetworkShuffle(RR(epsilon=3.0), graph=near_ring(60), rounds=6, hand_in="single")
        values = (np.arange(60) < 45).astype(int)
        for execute in (protocol.simulate, lambda values, seed: run(protocol, values, seed=seed)):
            with pytest.raises(ProtocolFailed, match="no fair sample"):
                execute(values, seed=1)

    def test_report_order_is_uniform(self):
        """Person 0's report is equally often at each place of the collected rows."""
        places = np.zeros(5, int)
        for seed in range(300):
            collected, _ = played(own_buckets(ring(5), rounds=1), seed)
            places[collected.pooled().tolist().index(0)] += 1
        assert chisquare(places).pvalue > 1e-3

    def test_vanished_device_delays_no_other(self):
        """Its neighbours finish although their hops were never answered."""
        collected, outcome = played(
            own_buckets(complete(4), rounds=6), 2, wrap=asleep({3: (1.0, 1e9)})
        )
        assert not outcome.finished
        assert set(outcome.outputs) == {CURATOR, *map(device, range(3))}
        unanswered = sum(outcome.outputs[device(person)].unanswered for person in range(3))
        assert unanswered > 0
        assert collected.silent.tolist() == [False, False, False, True]
        assert collected.received < 4

    def test_sealed_reports_arrive_unchanged(self):
        protocol = own_buckets(ring(5), rounds=3)
        seeds, heard = Seeds(4), []
        parties = [CURATOR, *map(device, range(5))]
        makers = make_actors(
            protocol, np.arange(5), seeds, {each: Labels(each) for each in parties}
        )

        def listen(address, make):
            class Ear(Sleeper):
                def receive(self, message, now):
                    heard.append((address, message.body))
                    return self.inner.receive(message, now)

            return lambda: Ear(make(), 0, 0)

        outcome = play({address: listen(address, make) for address, make in makers.items()}, seeds)
        assert sorted(outcome.outputs[CURATOR].pooled().tolist()) == list(range(5))
        payloads = Counter()
        for address, body in heard:
            if address != CURATOR and b"hop" in body[:40]:
                hop = HOP_OR_PASSED.decode(body)
                assert hop.payloads == sorted(hop.payloads)
                payloads.update(hop.payloads)
        assert all(payload.startswith(b"to curator|") for payload in payloads)
        # Every report moved in each of the three rounds, and never changed.
        assert sorted(payloads.values()) == [3] * 5


class Labels:
    """A sealer that names who can open."""

    def __init__(self, me):
        self.me = me

    def seal(self, to, plain):
        return b"to " + to.encode() + b"|" + plain

    def open(self, sealed):
        label = b"to " + self.me.encode() + b"|"
        if not sealed.startswith(label):
            raise ValueError("not for me")
        return sealed[len(label) :]


class TestDevice:
    def device(self, person=0, *graphs, rounds=3, laziness=0.0):
        walk = Walk(graphs or (star(4),), laziness)
        context = ActorContext(
            generator=lambda draw: Seeds(1).generator("device", person, draw), value=np.array([1])
        )
        return Device(context, person, RR(epsilon=1.0), walk, rounds, "all")

    @staticmethod
    def hops(effects):
        bodies = [effect.body for effect in effects if hasattr(effect, "body")]
        return [HOP_OR_PASSED.decode(body) for body in bodies if b"hop" in body[:6]]

    @staticmethod
    def hop(number, payloads=(b"x" * 17,), id_=b"a" * 16):
        return wire.encode(network_messages.Hop(number, id_, list(payloads)))

    def test_device_sends_one_message_per_neighbour(self):
        actor = self.device()
        actor.start(0.0)
        payloads = [bytes([each]) * 17 for each in range(90)]
        assert self.hops(actor.receive(Message(device(1), self.hop(0, payloads)), 1.0)) == []
        sent = self.hops(actor.wake(ROUND_SECONDS))
        assert [hop.round for hop in sent if len(hop.payloads) > 1] == [1, 1, 1]
        moved = [payload for hop in sent if hop.round == 1 for payload in hop.payloads]
        assert sorted(moved) == sorted(payloads)
        assert all(hop.payloads == sorted(hop.payloads) for hop in sent)

    def test_device_splits_large_parcel(self, monkeypatch):
        monkeypatch.setattr("incrowd.protocols.network_shuffle.roles.device.MOST_TOGETHER", 40)
        actor = self.device(1)
        actor.start(0.0)
        payloads = [bytes([each]) * 17 for each in range(90)]
        actor.receive(Message(device(0), self.hop(0, payloads)), 1.0)
        sent = [hop for hop in self.hops(actor.wake(ROUND_SECONDS)) if hop.round == 1]
        assert [len(hop.payloads) for hop in sent] == [40, 40, 10]
        assert len({hop.id for hop in sent}) == 3

    def test_late_hop_catches_up_immediately(self):
        actor = self.device()
        actor.start(0.0)
        actor.wake(ROUND_SECONDS)
        sent = self.hops(actor.receive(Message(device(1), self.hop(0)), 1.5 * ROUND_SECONDS))
        assert [(hop.round, hop.payloads) for hop in sent] == [(1, [b"x" * 17])]

    def test_late_hop_for_missed_round_stays(self):
        actor = self.device(laziness=0.0, rounds=5)
        actor.start(0.0)
        actor.wake(2.5 * ROUND_SECONDS)  # Round 1 was missed, round 2 is done.
        actor.wake(3.0 * ROUND_SECONDS)
        sent = self.hops(actor.receive(Message(device(1), self.hop(0)), 3.1 * ROUND_SECONDS))
        assert [hop.round for hop in sent] == [2]

    def test_repeated_hop_is_taken_in_once_and_answered(self):
        actor = self.device()
        actor.start(0.0)
        for _ in range(3):
            (answer,) = actor.receive(Message(device(1), self.hop(0)), 1.0)
            assert HOP_OR_PASSED.decode(answer.body) == network_messages.Passed(b"a" * 16)
            assert answer.to == device(1)
        # The same identifier from someone else is another hop.
        actor.receive(Message(device(2), self.hop(0)), 1.0)
        sent = [hop for hop in self.hops(actor.wake(ROUND_SECONDS)) if hop.round == 1]
        assert sum(len(hop.payloads) for hop in sent) == 2

    @pytest.mark.parametrize(
        ("sender", "number", "payloads"),
        [
            (device(0), 0, [b"x"]),
            (device(9), 0, [b"x"]),
            (CURATOR, 0, [b"x"]),
            (device(1), 3, [b"x"]),
            (device(1), 0, [bytes(2000)]),
            (device(1), 0, []),
        ],
    )
    def test_device_refuses_impossible_hop(self, sender, number, payloads):
        actor = self.device()
        actor.start(0.0)
        before = actor.state()
        assert actor.receive(Message(sender, self.hop(number, payloads)), 1.0) == []
        assert actor.state() == before

    def test_hop_from_neighbour_of_other_round_is_ignored(self):
        actor = self.device(0, graph_of([(0, 1)], 3), graph_of([(0, 2)], 3))
        actor.start(0.0)
        assert actor.receive(Message(device(2), self.hop(0)), 1.0) == []
        assert actor.receive(Message(device(2), self.hop(1)), 1.0) != []

    def test_hop_after_hand_in_is_neither_taken_nor_answered(self):
        actor = self.device()
        actor.start(0.0)
        (hand_in,) = [
            effect
            for effect in actor.wake(Clock(3).hand_in)
            if getattr(effect, "to", "") == CURATOR
        ]
        said = msgspec.msgpack.decode(hand_in.body, type=network_messages.Withheld)
        assert said.missed == list(range(1, 3 + GRACE_ROUNDS))
        assert actor.receive(Message(device(1), self.hop(2)), Clock(3).hand_in + 1) == []
        body = wire.encode(wire.Accepted(0, said.id))
        (done,) = actor.receive(Message(CURATOR, body), Clock(3).hand_in + 2)
        missed = tuple(range(1, 3 + GRACE_ROUNDS))
        assert done == Done(HandedIn(accepted=True, missed=missed, unanswered=1))
        assert actor.wake(1e6) == []
        assert actor.receive(Message(device(1), self.hop(2)), 1e6) == []

    def test_device_without_neighbours_keeps_reports(self):
        actor = self.device(0, from_edges(np.array([], int), np.array([], int), 2))
        assert self.hops(actor.start(0.0)) == []
        assert self.hops(actor.wake(ROUND_SECONDS)) == []

    def test_resumed_device_never_repeats_draws(self):
        """Each call of the generator has its own number, across restarts."""
        asked = []

        def generator(draw):
            asked.append(draw)
            return Seeds(1).generator("device", 0, draw)

        actor = self.device(laziness=0.9, rounds=40)
        actor._generator = generator
        actor.start(0.0)
        for number in range(1, 60):
            copy = self.device(laziness=0.9, rounds=40)
            copy._generator = generator
            copy.resume(actor.state())
            actor = copy
            actor.wake(number * ROUND_SECONDS)
        assert asked == list(range(len(asked)))


class TestClock:
    @pytest.mark.parametrize("seconds", [30.0, 0.1, 1 / 3, 1e-3])
    def test_clock_round_begins_when_it_opens(self, seconds):
        clock = Clock(10_000, seconds)
        for number in range(10_000):
            assert clock.current(clock.opens(number)) == number
            assert clock.current(np.nextafter(clock.opens(number), -1)) == number - 1

    def test_clock_current_before_first_and_after_last_window(self):
        clock = Clock(3, 10.0, grace_rounds=2)
        assert (clock.current(-1.0), clock.current(29.9), clock.current(30.0)) == (-1, 2, 3)
        assert (clock.current(49.9), clock.current(50.0), clock.current(59.9)) == (4, 5, 5)
        assert clock.current(1e9) == clock.windows == 6
        assert clock.hand_in == 50.0
        assert Clock(3).hand_in == (3 + GRACE_ROUNDS) * ROUND_SECONDS

    @pytest.mark.parametrize("wrong", [{"seconds": 0.0}, {"seconds": np.inf}, {"grace_rounds": -1}])
    def test_clock_rejects_invalid_durations(self, wrong):
        with pytest.raises(InvalidParameter):
            Clock(3, **wrong)


class TestCurator:
    def curator(self, mode="all", n=3, **timing):
        context = ActorContext(generator=Seeds(1).generator, timing=Timing(**timing))
        reports = wire.ReportFormat.of(KRR(categories=4, epsilon=1.0))
        return Curator(context, n, reports, rounds=5, hand_in=mode)

    @staticmethod
    def hand_in(person, payloads, missed=(), id_=None):
        body = network_messages.HandIn(id_ or bytes([person]) * 16, list(missed), list(payloads))
        return Message(device(person), wire.encode(body))

    @staticmethod
    def payload(number, report):
        return bytes([number]) * 16 + bytes([report])

    @staticmethod
    def answer(effects):
        return msgspec.msgpack.decode(effects[0].body, type=wire.Accepted | wire.Refused)

    def test_curator_keeps_first_hand_in_and_repeats_answer(self):
        curator = self.curator()
        curator.start(0.0)
        first = self.hand_in(0, [self.payload(1, 2)])
        second = self.hand_in(0, [self.payload(2, 3)], id_=b"x" * 16)
        assert isinstance(self.answer(curator.receive(first, 1.0)), wire.Accepted)
        assert isinstance(self.answer(curator.receive(second, 1.0)), wire.Refused)
        assert isinstance(self.answer(curator.receive(first, 2.0)), wire.Accepted)
        curator.receive(self.hand_in(1, []), 2.0)
        done = curator.receive(self.hand_in(2, [self.payload(3, 0)], [4]), 2.0)[-1]
        assert sorted(done.output.pooled().tolist()) == [0, 2]
        assert done.output.load.tolist() == [1, 0, 1]
        assert done.output.lost == 1
        assert np.argwhere(done.output.away).tolist() == [[4, 2]]
        assert done.output.silent is None
        assert curator.wake(1e9) == []
        assert isinstance(self.answer(curator.receive(first, 1e9)), wire.Accepted)

    def test_curator_closes_at_deadline(self):
        curator = self.curator(timeout=60.0)
        (wake,) = curator.start(0.0)
        assert wake.at == Clock(5).hand_in + 60
        curator.receive(self.hand_in(1, [self.payload(1, 2)]), 1.0)
        assert curator.wake(wake.at - 1) == [wake]
        late = curator.receive(self.hand_in(0, []), wake.at)
        assert isinstance(self.answer(late), wire.Refused)
        collected = late[-1].output
        assert collected.silent.tolist() == [True, False, True]
        assert collected.away.all(axis=0).tolist() == [True, False, True]
        assert (collected.attendance == UNKNOWN).all(axis=0).tolist() == [True, False, True]
        assert collected.lost == 2

    @pytest.mark.parametrize("mode", ["all", "single"])
    def test_withheld_record_before_deadline_is_doubtful(self, mode):
        """From a device whose clock is ahead: with a clean record, and yet no reports."""
        curator = self.curator(mode, n=2)
        curator.receive(self.hand_in(0, [self.payload(1, 2)]), 1.0)
        late = wire.encode(network_messages.Withheld(bytes([1]) * 16, []))
        answer, done = curator.receive(Message(device(1), late), 1.0)
        assert isinstance(self.answer([answer]), wire.Accepted)
        assert done.output.silent.tolist() == [False, True]
        assert (done.output.attendance == ON).all()
        # The hand-in that the record replaces may have been seen before.
        again = curator.receive(self.hand_in(1, [self.payload(2, 2)]), 2.0)
        assert isinstance(self.answer(again), wire.Accepted)

    def test_curator_does_not_wait_for_absent_device(self):
        curator = self.curator()
        curator.start(0.0)
        absent = Message(device(2), wire.encode(network_messages.Absent()))
        assert curator.receive(absent, 1.0) == []
        restored = self.curator()
        restored.resume(curator.state())
        restored.receive(self.hand_in(0, [self.payload(1, 2)]), 2.0)
        done = restored.receive(self.hand_in(1, [self.payload(2, 2)]), 2.0)[-1]
        assert done.output.silent.tolist() == [False, False, True]
        assert (done.output.attendance[:, 2] == AWAY).all()
        assert restored.receive(absent, 3.0) == []

    def test_attendance_of_silent_device_is_unknown(self):
        curator = self.curator(timeout=60.0)
        curator.start(0.0)
        curator.receive(Message(device(2), wire.encode(network_messages.Absent())), 1.0)
        curator.receive(self.hand_in(0, [self.payload(1, 2)]), 2.0)
        (done,) = curator.wake(Clock(5).hand_in + 60)
        assert done.output.silent.tolist() == [False, True, True]
        assert (done.output.attendance[:, 1] == UNKNOWN).all()
        assert (done.output.attendance[:, 2] == AWAY).all()

    def test_curator_drops_unreadable_report_with_holder(self):
        curator = self.curator(n=2)
        good, twice, large, short = (
            self.payload(1, 3), self.payload(1, 3), self.payload(2, 77), b"short",
        )  # fmt: skip
        curator.receive(self.hand_in(0, [large, short]), 1.0)
        done = curator.receive(self.hand_in(1, [good, twice]), 1.0)[-1]
        assert done.output.pooled().tolist() == [3]
        assert done.output.holders.tolist() == [1]
        assert done.output.lost == 1

    @pytest.mark.parametrize(
        ("mode", "count", "missed"),
        [
            ("all", 4, []),
            ("single", 0, []),
            ("single", 2, []),
            ("all", 0, [16]),
            ("all", 1, [12]),
            ("all", 1, [15]),
            ("single", 1, [14]),
        ],
    )
    def test_curator_refuses_impossible_hand_in(self, mode, count, missed):
        curator = self.curator(mode)
        before = curator.state()
        payloads = [self.payload(each, 0) for each in range(count)]
        assert curator.receive(self.hand_in(0, payloads, missed), 1.0) == []
        assert curator.state() == before

    def test_curator_forgets_hand_ins_once_closed(self):
        curator = self.curator(n=1)
        curator.receive(self.hand_in(0, [self.payload(1, 2)]), 1.0)
        handed_in, _, closed = msgspec.msgpack.decode(curator.state(), strict=False)
        assert closed
        assert handed_in[0][2] == []

    def test_hand_in_of_large_report_is_accepted(self):
        """Reports of many bytes pass every limit."""
        protocol = NetworkShuffle(Laplace(epsilon=1.0), graph=complete(3), rounds=2)
        assert run(protocol, np.linspace(0, 1, 3), seed=1).collected.received == 3
