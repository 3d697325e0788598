"""What runs guarantee in which devices left, played by actors: never less than an attack attains.

Examples in which earlier versions stated too little are in ``test_network_counterexamples.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from incrowd.blocks import values_of
from incrowd.graphs import complete, from_edges, random_regular
from incrowd.live.curator import conclude
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.theorems.attendance import (
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
from incrowd.protocols.run import make_actors, resolve_task
from incrowd.protocols.runtime.actor import CURATOR, device
from incrowd.protocols.runtime.context import (
    GRACE_ROUNDS,
    ROUND_SECONDS,
    Connection,
    Connections,
    Timing,
)
from incrowd.protocols.runtime.outputs import pack_output
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
    return NetworkShuffle(KRR(categories=graph.n, epsilon=30.0), graph=graph, rounds=rounds)


class TestLateReturn:
    """Person 1 is off from second 20 to a minute after the hand-in."""

    @staticmethod
    def outages(rounds):
        return {device(1): [(20.0, Clock(rounds).hand_in + 60.0)]}

    @pytest.mark.parametrize("seed", range(4))
    def test_hand_in_when_a_device_comes_back_late_holds_no_reports(self, seed):
        """Else it would hand in report 0 and hardly another one."""
        protocol, seeds = own_buckets(tied(12), 4), Seeds(seed)
        makers = make_actors(protocol, np.arange(12), seeds)
        outcome = play(makers, seeds, outages=self.outages(4))
        collected = outcome.outputs[CURATOR]
        assert outcome.finished
        assert outcome.outputs[device(1)].missed == tuple(range(1, 4 + GRACE_ROUNDS + 1))
        assert collected.silent.tolist() == [person == 1 for person in range(12)]
        assert 1 not in collected.holders
        assert 0 not in collected.pooled()

    def test_person_when_the_report_is_surely_unseen_has_epsilon_zero(self):
        """And counts in the guarantee of all, as somebody of whom nothing is seen."""
        protocol = NetworkShuffle(RANDOMIZER, graph=tied(40), rounds=30)
        played = run(protocol, np.zeros(40, int), outages=self.outages(30), seed=1)
        guarantee = played.guarantees[0]
        assert guarantee.per_person(0.01)[0] == 0.0
        assert guarantee.profile.person(0).delta(-0.5) == pytest.approx(-math.expm1(-0.5))
        assert guarantee.epsilon(0.01) >= guarantee.per_person(0.01).max() - 1e-12
        groups = values_of(protocol.run_diagnostics(played.collected, 0.01))
        assert groups["doubtful"]["people"] == 1
        assert groups["handed_in"]["people"] == 39
        assert (
            max(groups[name]["epsilon"] for name in ("handed_in", "doubtful"))
            == guarantee.per_person(0.01).max()
        )


class TestCuratorRecord:
    """What a live run states, from what its curator collected: no hub says who was connected.

    Person 0 knows person 1 alone, everyone else everyone.
    """

    N, ROUNDS, DELTA = 30, 4, 0.01

    def protocol(self, mode="all"):
        return NetworkShuffle(RANDOMIZER, graph=tied(self.N), rounds=self.ROUNDS, hand_in=mode)

    def stated(self, protocol, off, **changes):
        """The record and the guarantee of a run in which person 1 is off for some time."""
        seeds = Seeds(3)
        makers = make_actors(protocol, np.zeros(self.N, int), seeds)
        outcome = play(makers, seeds, outages={device(1): [off]})
        output = pack_output(replace(outcome.outputs[CURATOR], **changes))
        spec = SimpleNamespace(min_crowd=2, timing=Timing())
        offer = SimpleNamespace(spec=spec, task=resolve_task(protocol, None))
        concluded = conclude(SimpleNamespace(protocol=protocol, offer=offer), output)
        return concluded.collected, concluded.guarantees[0]

    def ends(self, kept):
        """Where reports end if person 1 keeps what it holds in these rounds."""
        step = tied(self.N).transition(0.0).toarray()
        law = np.eye(self.N)
        for number in range(self.ROUNDS):
            moved = law @ step
            if number in kept:
                still = law.copy()
                still[:, 1] = 0.0
                moved = still @ step
                moved[:, 1] += law[:, 1]
            law = moved
        return law

    def attacked(self, victim, epsilon, ends):
        """The largest δ that one place tells of a person."""
        t = math.exp(epsilon)
        return max(
            place_attack(ends[victim, at], np.delete(ends[:, at], victim).tolist(), t, math.e)
            for at in range(self.N)
        )

    MIDDLE = (ROUND_SECONDS - 1.0, 4 * ROUND_SECONDS + 1.0)

    def test_guarantee_when_a_device_misses_rounds_and_hands_in_is_not_below_the_attack(self):
        """Nobody is doubtful then, and what waited is known to have waited."""
        collected, guarantee = self.stated(self.protocol(), self.MIDDLE)
        assert collected.attendance[:6, 1].tolist() == [THERE, AWAY, AWAY, AWAY, THERE, ON]
        assert collected.silent is None
        assert collected.lost == 0
        stated, ends = guarantee.per_person(self.DELTA), self.ends((1, 2, 3))
        assert ends[0, 1] == 1.0
        for victim in (0, 1, 2):
            assert self.attacked(victim, stated[victim], ends) <= self.DELTA
        # With the law of the plan, which hides report 0 elsewhere, it would be caught.
        planned = self.protocol().guarantee().per_person(self.DELTA)[0]
        assert self.attacked(0, planned, ends) > self.DELTA

    def test_guarantee_when_a_device_misses_rounds_and_a_report_is_missing_is_the_randomizer(self):
        _, guarantee = self.stated(self.protocol(), self.MIDDLE, lost=1)
        assert guarantee.epsilon(self.DELTA) > 0.98
        assert guarantee.per_person(self.DELTA) is None

    @pytest.mark.parametrize("mode", ["all", "single"])
    def test_guarantee_when_lost_reports_would_not_show_names_that_all_arrived(self, mode):
        _, guarantee = self.stated(self.protocol(mode), (29.0, 61.0))
        named = any("arrives before" in each for each in guarantee.assumptions)
        assert named == (mode == "single")

    @pytest.mark.parametrize("mode", ["all", "single"])
    def test_guarantee_when_a_device_vanishes_is_the_theorem_for_doubt(self, mode):
        """Of the device nothing is known: its guarantee is about that of its neighbours."""
        protocol = self.protocol(mode)
        collected, guarantee = self.stated(protocol, (45.0, FOR_EVER))
        assert (collected.attendance[:, 1] == UNKNOWN).all()
        assert collected.silent.tolist() == [person == 1 for person in range(self.N)]
        stated = guarantee.per_person(self.DELTA)
        alone = hidden_among(self.N - 2, 1 / (self.N - 2), math.exp(stated[0]), math.e)
        assert alone <= self.DELTA
        assert stated[1] > 0.98
        assert guarantee.epsilon(self.DELTA) >= stated.max() > 0.98

    @pytest.mark.parametrize("mode", ["all", "single"])
    @pytest.mark.parametrize("lost", [0, 1])
    def test_guarantee_when_a_device_is_connected_and_never_heard_of_is_doubtful(self, mode, lost):
        """Nobody missed a window, and still nobody knows what the device held."""
        protocol = NetworkShuffle(RANDOMIZER, graph=complete(60), rounds=4, hand_in=mode)
        found = protocol.simulate(np.zeros(60, int), seed=1).collected
        silent = np.arange(60) == 7
        table = np.full((Clock(4).windows, 60), ON, np.int8)
        table[:, 7] = UNKNOWN
        collected = replace(
            found, attendance=table, silent=silent, away=np.tile(silent, (4, 1)), lost=lost
        )
        always = Connections({device(7): [Connection(-math.inf, math.inf, math.inf)]})
        known = protocol.attested(collected, always, Timing())
        assert (known.attendance == ON).all()
        happened = protocol.conditional_on(known)
        assert happened.doubt
        assert happened.attendance.doubtful.tolist() == silent.tolist()
        guarantee = happened.guarantee()
        assert any("(N)" in named for named in guarantee.assumptions)
        # What ended there is surely not counted on, and may have been seen.
        assert guarantee.per_person(1e-3)[0] > protocol.guarantee().per_person(1e-3)[0]


class TestAttendance:
    def test_record_when_windows_were_missed_doubts_those_beside_them(self):
        assert from_record([2, 3], 7).tolist() == [ON, THERE, AWAY, AWAY, THERE, ON, ON]
        assert from_record([0], 3).tolist() == [AWAY, THERE, ON]
        assert from_record([], 2).tolist() == [ON, ON]

    def test_connections_when_they_cover_a_part_leave_the_window_open(self):
        clock = Clock(2, 10.0, grace_rounds=2)
        always = Connection(-math.inf, math.inf, math.inf)
        parts = [Connection(-5.0, 12.0, 12.0), Connection(31.0, 60.0, 60.0)]
        assert from_connections([always], clock, certain=True).tolist() == [ON] * 5
        assert from_connections(parts, clock, certain=True).tolist() == [
            ON, EITHER, AWAY, EITHER, ON,
        ]  # fmt: skip
        assert from_connections([], clock, certain=True).tolist() == [AWAY] * 5

    def test_connections_over_a_network_are_away_only_after_the_last_one(self):
        clock = Clock(2, 10.0, grace_rounds=2)
        returned = [Connection(-5.0, 8.0, 12.0), Connection(31.0, 45.0, math.inf)]
        gone = [Connection(-5.0, 11.0, 22.0)]
        assert from_connections(returned, clock).tolist() == [EITHER] * 5
        assert from_connections(gone, clock).tolist() == [ON, EITHER, EITHER, AWAY, AWAY]
        assert from_connections([], clock).tolist() == [EITHER] * 5

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
        outcome = play(make_actors(protocol, np.arange(6), seeds), seeds, outages=outages)
        collected = outcome.outputs[CURATOR]
        assert sorted(collected.pooled().tolist()) == [0, 1, 2, 3, 5]
        assert collected.lost == 1
        assert collected.silent is None
        guarantee = protocol.conditional_on(collected).guarantee()
        assert guarantee.per_person(0.01)[4] == 0.0

    def test_own_report_when_there_are_no_rounds_is_not_dropped(self):
        """It is handed in by its owner alone, so that nothing hides it."""
        protocol = NetworkShuffle(RANDOMIZER, graph=complete(6), rounds=0)
        outages = {device(4): [(-1.0, 1.5 * ROUND_SECONDS)], device(2): [(100.0, FOR_EVER)]}
        played = run(protocol, np.zeros(6, int), outages=outages, seed=1)
        assert 4 in played.collected.holders
        stated = played.guarantees[0].per_person(0.01)
        assert place_attack(1.0, [], math.exp(stated[4]), math.e) <= 0.01

    def test_hand_in_when_the_deadline_is_over_holds_no_reports(self):
        """It was on to the end, but its messages to the curator were lost until too late."""
        from tests.protocols.test_network_attendance import made

        actor = made(0, complete(3), rounds=1)
        actor.start(0.0)
        clock = Clock(1)
        for window in range(1, clock.windows):
            effects = actor.wake(clock.opens(window))
        deadline = clock.hand_in + Timing().timeout
        (first,) = [each for each in effects if getattr(each, "to", "") == CURATOR]
        (again,) = [each for each in actor.wake(deadline) if getattr(each, "to", "") == CURATOR]
        assert len(again.body) <= len(first.body)
        assert again.body != first.body or b"\x90" in again.body


class TestFallbacks:
    """Where no theorem covers what happened, the randomizer alone guarantees."""

    def collected(self, protocol, **changes):
        found = protocol.simulate(np.zeros(protocol.n, int), seed=1).collected
        return replace(found, **changes)

    def stated(self, protocol, collected, **options):
        return protocol.conditional_on(collected).guarantee(**options).epsilon(1e-3)

    def protocol(self, **options):
        return NetworkShuffle(RANDOMIZER, graph=complete(60), rounds=4, **options)

    def doubtful(self, settle=10):
        table = np.full((4 + settle + 1, 60), ON, np.int8)
        table[2, 7], table[3:, 7] = EITHER, AWAY
        silent = np.arange(60) == 7
        return {"attendance": table, "silent": silent, "away": np.tile(silent, (4, 1)), "lost": 2}

    def test_guarantee_when_attendance_is_known_is_better_than_the_randomizer(self):
        protocol = self.protocol()
        collected = self.collected(protocol, **self.doubtful())
        happened = protocol.conditional_on(collected).guarantee()
        assert happened.per_person(1e-3)[:7].max() < 0.9
        named = " ".join(happened.assumptions)
        assert all(name in named for name in ("(I)", "(F)", "(N)"))
        assert happened.lower(1e-3) is None

    def test_guarantee_when_reports_are_missing_and_nobody_is_doubtful_is_the_randomizer(self):
        protocol = self.protocol()
        assert self.stated(protocol, self.collected(protocol, lost=1)) > 0.99

    @pytest.mark.parametrize("options", [{"colluders": [3]}, {"view": "curator+hub"}])
    def test_guarantee_when_others_look_on_is_the_randomizer(self, options):
        protocol = self.protocol()
        collected = self.collected(protocol, **self.doubtful())
        assert self.stated(protocol, collected, **options) > 0.99

    def test_guarantee_when_there_was_no_time_to_settle_is_the_randomizer(self):
        protocol = self.protocol()
        assert self.stated(protocol, self.collected(protocol, **self.doubtful(settle=1))) > 0.99

    def test_guarantee_when_nothing_is_known_is_nearly_the_randomizer(self):
        protocol = self.protocol()
        known = self.doubtful()
        known["attendance"][:, 7] = UNKNOWN
        assert self.stated(protocol, self.collected(protocol, **known)) > 0.95

    @pytest.mark.parametrize("mode", ["all", "single"])
    def test_guarantee_when_more_is_known_is_not_worse(self, mode):
        protocol = self.protocol(hand_in=mode)
        known = self.doubtful()
        found = []
        for code in (None, LEFT, UNKNOWN):
            table = known["attendance"].copy()
            if code is not None:
                table[:4, 7] = code
            collected = self.collected(protocol, **(known | {"attendance": table}))
            found.append(protocol.conditional_on(collected).guarantee().per_person(1e-3)[0])
        assert found == sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize(("doubtful", "most"), [(1, 0.16), (10, 0.22), (50, 0.28)])
def test_worst_person_who_handed_in_when_devices_leave_nearly_has_the_plan(doubtful, most):
    """1,000 people with 8 neighbours each, 17 rounds, δ = 10⁻⁶, played by actors; planned 0.154."""
    rng = np.random.default_rng(1)
    protocol = NetworkShuffle(RANDOMIZER, graph=random_regular(1000, 8, rng), rounds=17)
    who = rng.choice(1000, doubtful, replace=False)
    outages = {device(int(each)): [(8.5 * ROUND_SECONDS, FOR_EVER)] for each in who}
    played = run(protocol, np.zeros(1000, int), outages=outages, seed=1)
    assert protocol.guarantee().epsilon(1e-6) < 0.155
    groups = values_of(protocol.run_diagnostics(played.collected, 1e-6))
    print(doubtful, groups, played.guarantees[0].epsilon(1e-6))
    assert groups["handed_in"]["people"] == 1000 - doubtful
    assert groups["handed_in"]["epsilon"] <= most
    assert played.guarantees[0].epsilon(1e-6) >= groups["doubtful"]["epsilon"] * 0.999
