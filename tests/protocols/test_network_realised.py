"""What runs promise in which devices left: never less than an exact attack attains.

The examples are those in which earlier versions stated too little, played by actors.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from incrowd.graphs import complete, from_edges, random_regular
from incrowd.protocols.actor import CURATOR, device
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle.attendance import (
    AWAY,
    EITHER,
    LEFT,
    ON,
    THERE,
    UNKNOWN,
    Attendance,
    from_connections,
    from_record,
    on_to_the_end,
)
from incrowd.protocols.network_shuffle.clock import Clock
from incrowd.protocols.seat import ROUND_SECONDS, SETTLE, Timing
from incrowd.randomizers import KRR, RR
from incrowd.randomness import Seeds
from incrowd.sim import play, run
from tests.oracles.attendance_enumeration import hidden_among, place_attack

RANDOMIZER = RR(epsilon=1.0)
FOR_EVER = math.inf


def graph_of(pairs, n):
    u, v = zip(*pairs, strict=True)
    return from_edges(np.array(u), np.array(v), n)


def tied(n):
    """Everyone but person 0 knows everyone; person 0 knows person 1 alone."""
    return graph_of([(0, 1), *combinations(range(1, n), 2)], n)


def own_buckets(graph, rounds):
    return NetworkShuffle(graph, KRR(categories=graph.n, epsilon=30.0), rounds=rounds)


class TestWhoComesBackLate:
    """Person 1 is off from second 20 to a minute after the hand-in."""

    @staticmethod
    def outages(rounds):
        return {device(1): [(20.0, Clock(rounds).hand_in + 60.0)]}

    @pytest.mark.parametrize("seed", range(4))
    def test_hand_in_when_a_device_comes_back_late_holds_no_reports(self, seed):
        """Else it would hand in report 0 and hardly another one."""
        protocol, seeds = own_buckets(tied(12), 4), Seeds(seed)
        makers = protocol.actors(np.arange(12), seeds)
        outcome = play(makers, seeds, outages=self.outages(4))
        collected = outcome.outputs[CURATOR]
        assert outcome.finished
        assert outcome.outputs[device(1)].missed == tuple(range(1, 4 + SETTLE + 1))
        assert collected.silent.tolist() == [person == 1 for person in range(12)]
        assert 1 not in collected.holders
        assert 0 not in collected.pooled()

    @pytest.mark.parametrize(
        ("n", "rounds", "deltas"),
        [(10, 10, (0.3,)), (40, 30, (0.01, 0.1)), (200, 20, (1e-4, 0.01))],
    )
    def test_promise_when_what_it_holds_may_be_read_is_not_below_the_attack(
        self, n, rounds, deltas
    ):
        """A device of which nothing is known may hand in all the same, and a refusal is seen.

        Then report 0 is among those of the others that came to person 1 in the first round.
        """
        protocol = NetworkShuffle(tied(n), RANDOMIZER, rounds=rounds)
        played = run(protocol, np.zeros(n, int), outages=self.outages(rounds), seed=1)
        table = np.full_like(played.collected.attendance, ON)
        table[:, 1] = UNKNOWN
        unknown = protocol.realised(replace(played.collected, attendance=table)).guarantee()
        for delta in deltas:
            stated = unknown.per_person(delta)[0]
            assert hidden_among(n - 2, 1 / (n - 2), math.exp(stated), math.e) <= delta

    def test_person_when_the_report_is_surely_unseen_is_promised_everything(self):
        """And counts in the promise of all, as somebody of whom nothing is seen."""
        protocol = NetworkShuffle(tied(40), RANDOMIZER, rounds=30)
        played = run(protocol, np.zeros(40, int), outages=self.outages(30), seed=1)
        promise = played.guarantees[0]
        assert promise.per_person(0.01)[0] == 0.0
        assert promise.profile.person(0).delta(-0.5) == pytest.approx(-math.expm1(-0.5))
        assert promise.epsilon(0.01) >= promise.per_person(0.01).max() - 1e-12
        groups = protocol.details(played.collected, 0.01)
        assert groups["doubtful"]["people"] == 1
        assert groups["handed_in"]["people"] == 39
        assert (
            max(groups[name]["epsilon"] for name in ("handed_in", "doubtful"))
            == promise.per_person(0.01).max()
        )


class TestWhoForwardsAndVanishes:
    """0 – 1 – 2, and 2 in a crowd; two rounds, person 1 is off from second 45 for ever."""

    def played(self, n=60):
        protocol = NetworkShuffle(
            graph_of([(0, 1), (1, 2), *combinations(range(2, n), 2)], n), RANDOMIZER, rounds=2
        )
        outages = {device(1): [(45.0, FOR_EVER)]}
        return protocol, run(protocol, np.zeros(n, int), outages=outages, seed=1)

    def test_promise_when_somebody_forwards_and_vanishes_is_not_below_the_attack(self):
        protocol, played = self.played()
        walk = protocol.walk.graphs[0].transition(0.0).toarray()
        ends = walk @ walk
        assert played.collected.silent.tolist() == [person == 1 for person in range(60)]
        stated = played.guarantees[0].per_person(0.01)[0]
        for place in (0, 2):
            others = np.delete(ends[:, place], 0).tolist()
            found = place_attack(ends[0, place], others, math.exp(stated), math.e)
            assert found <= 0.01
        # At the ε that was stated before, the attack attains far more.
        assert (
            place_attack(ends[0, 0], np.delete(ends[:, 0], 0).tolist(), math.exp(0.0997), math.e)
            > 0.2
        )
        assert played.guarantees[0].epsilon(0.01) >= stated

    def test_attendance_when_a_device_vanishes_is_the_word_of_the_hub(self):
        _, played = self.played()
        codes = played.collected.attendance[:, 1]
        assert codes[:2].tolist() == [ON, EITHER]
        assert (codes[2:] == AWAY).all()


class TestAttendance:
    def test_record_when_windows_were_missed_doubts_those_beside_them(self):
        assert from_record([2, 3], 7).tolist() == [ON, THERE, AWAY, AWAY, THERE, ON, ON]
        assert from_record([0], 3).tolist() == [AWAY, THERE, ON]
        assert from_record([], 2).tolist() == [ON, ON]

    def test_connections_when_they_cover_a_part_leave_the_window_open(self):
        clock = Clock(2, 10.0, settle=2)
        assert from_connections([(-math.inf, math.inf)], clock).tolist() == [ON] * 5
        assert from_connections([(-5.0, 12.0), (31.0, 60.0)], clock).tolist() == [
            ON, EITHER, AWAY, EITHER, ON,
        ]  # fmt: skip
        assert from_connections([], clock).tolist() == [AWAY] * 5

    @pytest.mark.parametrize(
        ("missed", "allowed"), [([], True), ([8], True), ([9], False), ([12], False)]
    )
    def test_reports_when_a_last_window_was_missed_are_not_handed_in(self, missed, allowed):
        assert on_to_the_end(missed, 13) == allowed

    def test_heard_when_a_last_window_was_missed_for_sure_is_nothing(self):
        table = np.full((8, 5), ON, np.int8)
        table[:, 1], table[:, 2] = UNKNOWN, LEFT
        table[5:, 3] = AWAY
        table[6, 4] = EITHER
        seen = Attendance(4, table, np.array([True, False, False, False, True]))
        assert seen.punctual.tolist() == [True, False, False, False, False]
        assert seen.heard.tolist() == [True, True, True, False, True]

    def test_own_report_when_the_first_round_was_missed_is_dropped(self):
        protocol, seeds = own_buckets(complete(6), 3), Seeds(2)
        outages = {device(4): [(-1.0, 1.5 * ROUND_SECONDS)]}
        outcome = play(protocol.actors(np.arange(6), seeds), seeds, outages=outages)
        collected = outcome.outputs[CURATOR]
        assert sorted(collected.pooled().tolist()) == [0, 1, 2, 3, 5]
        assert collected.lost == 1
        assert collected.silent is None
        promise = protocol.realised(collected).guarantee()
        assert promise.per_person(0.01)[4] == 0.0

    def test_hand_in_when_the_deadline_is_over_holds_no_reports(self):
        """It was on to the end, but its messages to the curator were lost until too late."""
        from tests.protocols.test_network_attendance import made

        actor = made(0, complete(3), rounds=1)
        actor.start(0.0)
        clock = Clock(1)
        for window in range(1, clock.windows):
            effects = actor.wake(clock.opens(window))
        deadline = clock.hand_in + Timing().patience
        (first,) = [each for each in effects if getattr(each, "to", "") == CURATOR]
        (again,) = [each for each in actor.wake(deadline) if getattr(each, "to", "") == CURATOR]
        assert len(again.body) <= len(first.body)
        assert again.body != first.body or b"\x90" in again.body


class TestFallbacks:
    """Where no theorem covers what happened, the randomizer alone promises."""

    def collected(self, protocol, **changes):
        found = protocol.simulate(np.zeros(protocol.parameters.n, int), seed=1).collected
        return replace(found, **changes)

    def stated(self, protocol, collected, **options):
        return protocol.realised(collected).guarantee(**options).epsilon(1e-3)

    def protocol(self, **options):
        return NetworkShuffle(complete(60), RANDOMIZER, rounds=4, **options)

    def doubtful(self, settle=10):
        table = np.full((4 + settle + 1, 60), ON, np.int8)
        table[2, 7], table[3:, 7] = EITHER, AWAY
        silent = np.arange(60) == 7
        return {"attendance": table, "silent": silent, "away": np.tile(silent, (4, 1)), "lost": 2}

    def test_promise_when_attendance_is_known_is_better_than_the_randomizer(self):
        protocol = self.protocol()
        collected = self.collected(protocol, **self.doubtful())
        happened = protocol.realised(collected).guarantee()
        assert happened.per_person(1e-3)[:7].max() < 0.9
        named = " ".join(happened.assumptions)
        assert all(name in named for name in ("(I)", "(F)", "(N)"))
        assert happened.lower(1e-3) is None

    def test_promise_when_reports_are_missing_and_nobody_is_doubtful_is_the_randomizer(self):
        protocol = self.protocol()
        assert self.stated(protocol, self.collected(protocol, lost=1)) > 0.99

    @pytest.mark.parametrize("options", [{"colluders": [3]}, {"view": "curator+hub"}])
    def test_promise_when_others_look_on_is_the_randomizer(self, options):
        protocol = self.protocol()
        collected = self.collected(protocol, **self.doubtful())
        assert self.stated(protocol, collected, **options) > 0.99

    def test_promise_when_there_was_no_time_to_settle_is_the_randomizer(self):
        protocol = self.protocol()
        assert self.stated(protocol, self.collected(protocol, **self.doubtful(settle=1))) > 0.99

    def test_promise_when_nothing_is_known_is_nearly_the_randomizer(self):
        protocol = self.protocol()
        known = self.doubtful()
        known["attendance"][:, 7] = UNKNOWN
        assert self.stated(protocol, self.collected(protocol, **known)) > 0.95

    @pytest.mark.parametrize("mode", ["all", "single"])
    def test_promise_when_more_is_known_is_not_worse(self, mode):
        protocol = self.protocol(mode=mode)
        known = self.doubtful()
        found = []
        for code in (None, LEFT, UNKNOWN):
            table = known["attendance"].copy()
            if code is not None:
                table[:4, 7] = code
            collected = self.collected(protocol, **(known | {"attendance": table}))
            found.append(protocol.realised(collected).guarantee().per_person(1e-3)[0])
        assert found == sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize(("doubtful", "most"), [(1, 0.16), (10, 0.22), (50, 0.28)])
def test_worst_person_who_handed_in_when_devices_leave_is_promised_nearly_the_plan(doubtful, most):
    """1,000 people with 8 neighbours each, 17 rounds, δ = 10⁻⁶, played by actors; planned 0.154."""
    rng = np.random.default_rng(1)
    protocol = NetworkShuffle(random_regular(1000, 8, rng), RANDOMIZER, rounds=17)
    who = rng.choice(1000, doubtful, replace=False)
    outages = {device(int(each)): [(8.5 * ROUND_SECONDS, FOR_EVER)] for each in who}
    played = run(protocol, np.zeros(1000, int), outages=outages, seed=1)
    assert protocol.guarantee().epsilon(1e-6) < 0.155
    groups = protocol.details(played.collected, 1e-6)
    print(doubtful, groups, played.guarantees[0].epsilon(1e-6))
    assert groups["handed_in"]["people"] == 1000 - doubtful
    assert groups["handed_in"]["epsilon"] <= most
    assert played.guarantees[0].epsilon(1e-6) >= groups["doubtful"]["epsilon"] * 0.999
