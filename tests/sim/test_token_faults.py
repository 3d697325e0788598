"""Token walks in which messages are lost, doubled and late, parties crash, and people vanish."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incrowd import graphs
from incrowd.errors import ProtocolFailed
from incrowd.protocols.runtime.actor import COURIER, device, is_device
from incrowd.protocols.token_walk.roles import messages, relay
from incrowd.protocols.token_walk.roles.device import Device, _contribution, _unpacked
from incrowd.sim import Faults
from tests.sim.schedules import schedules
from tests.sim.token_played import STEPS, N, Walked, check, own_buckets, vanishing

faulty = schedules(0.8)


common = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@common
@given(faults=faulty, seed=st.integers(0, 2**32), tokens=st.sampled_from([1, 1, 3]))
def test_contributions_count_once_under_faults(faults, seed, tokens):
    check(Walked(own_buckets(tokens=tokens), seed, faults))


@settings(common, max_examples=20)
@given(faults=faulty, seed=st.integers(0, 2**32))
def test_graph_contributions_count_once_under_faults(faults, seed):
    graph = graphs.random_regular(8, 4, np.random.default_rng(1))
    check(Walked(own_buckets(n=0, graph=graph, topology="graph", cap=STEPS), seed, faults))


def test_short_faults_lose_no_contributions():
    faults = Faults(loss=0.2, duplicate=0.4, reorder=0.5, crash=0.05, outages=60.0, downtime=1.0)
    for seed in range(10):
        walked = Walked(own_buckets(steps=20), seed, faults)
        assert check(walked) >= 18
        assert walked.collected.steps == 20


def test_long_absences_lose_contributions_without_double_count():
    faults = Faults(crash=0.3, outages=60.0, downtime=60.0)
    found = [check(Walked(own_buckets(steps=20), seed, faults)) for seed in range(20)]
    assert 0 < sum(found) < 20 * 20


# Who vanishes.


@pytest.mark.parametrize("after", [0, 1, 2])
def test_vanished_holder_is_passed_over(after):
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


def test_returning_person_takes_part_with_new_keys():
    walked = Walked(own_buckets(steps=120), 3, change=vanishing(2, 1, back=22.0))
    check(walked)
    lots = {each.lot for each in walked.asked(2) if isinstance(each, messages.Restock)}
    assert len(lots) > 1
    mine = [visit for visit in walked.walks[0].visits if visit.holder == 2]
    assert len(mine) > 3
    assert walked.collected.total[2] == len(mine) - 1
    assert walked.collected.crowd == N - 1


def test_walk_begins_anew_when_all_holders_of_sum_vanish():
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


def test_late_answer_changes_nothing():
    """Two live tokens of one walk are impossible: of two who hold a sum only one is heard."""
    late = 0
    for seed in range(20):
        walked = Walked(
            own_buckets(steps=40), seed, Faults(crash=0.2, delay=20.0, delay_law="heavy")
        )
        check(walked)
        (walk,) = walked.walks
        followed = {walk.head, *(each.before for each in walk.visits)}
        dropped = {each.turn for place, each in enumerate(walk.visits) if place not in followed}
        bodies = [msgspec.msgpack.decode(each.body) for each in walked.told[COURIER]]
        late += len({body[2] for body in bodies if body[0] == "handed"} & dropped)
    assert late > 3


@pytest.mark.parametrize("people", [0, 1, 2])
def test_token_does_not_walk_among_too_few_people(people):
    def change(makers):
        return {
            address: make for address, make in makers.items()
            if not is_device(address) or address in {device(each) for each in range(people)}
        }  # fmt: skip

    walked = Walked(own_buckets(), 1, change=change)
    assert walked.played.finished
    assert walked.collected.reports == walked.collected.steps == 0
    with pytest.raises(ProtocolFailed, match="no token came home"):
        walked.protocol.conditional_on(walked.collected)


class TestChecksCatch:
    """Each of these breaks one party on purpose, and the checks above must notice."""

    def caught(self, faults, **parameters):
        failures = 0
        for seed in range(20):
            try:
                check(Walked(own_buckets(steps=25, **parameters), seed, faults))
            except (AssertionError, KeyError):
                failures += 1
        return failures

    def test_device_adding_to_sum_sealed_again(self, monkeypatch):
        honest = Device._seal

        def seal(self, asked, packed):
            if isinstance(asked, messages.Again) and packed is not None:
                value = _unpacked(*self._state.value)
                drawn = _contribution(self._protocol, value, 0, np.random.default_rng())
                packed = self._format.pack(self._format.unpack(packed) + drawn)
            return honest(self, asked, packed)

        monkeypatch.setattr(Device, "_seal", seal)
        assert self.caught(Faults(crash=0.2, outages=60.0, downtime=40.0)) > 0

    def test_device_adding_on_every_request(self, monkeypatch):
        honest = Device._take_turn

        def take_turn(self, asked):
            self._state.turns.clear()
            if isinstance(asked, messages.Carry):
                self._state.secrets[asked.key] = asked.key
            return honest(self, asked)

        monkeypatch.setattr(Device, "_take_turn", take_turn)
        assert self.caught(Faults(duplicate=0.5, loss=0.3)) > 0

    def test_device_forgetting_state(self, monkeypatch):
        monkeypatch.setattr(Device, "resume", lambda self, state: None)
        assert self.caught(Faults(crash=0.2)) > 0

    def test_relay_taking_late_answers(self, monkeypatch):
        honest = relay.Relay._handed

        def handed(self, person, said, now):
            walk = self._walks[said.token]
            if walk.stage == relay._ASKED and walk.again == -1:
                walk.holder, said = person, messages.Handed(said.token, walk.turn, said.sealed)
            return honest(self, person, said, now)

        monkeypatch.setattr(relay.Relay, "_handed", handed)
        assert self.caught(Faults(delay=15.0, delay_law="heavy")) > 0

    def test_relay_drawing_again_after_crash(self, monkeypatch):
        honest = relay.Relay.resume

        def resume(self, state):
            honest(self, state)
            for walk in self._walks:
                if walk.stage == relay._ASKED and walk.again == -1:
                    walk.turn -= 1
                    walk.visits.pop()
                    self._prepare(0, walk, 0.0)

        monkeypatch.setattr(relay.Relay, "resume", resume)
        assert self.caught(Faults(crash=0.2)) > 0
