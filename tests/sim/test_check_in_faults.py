"""A check-in in which messages are lost, doubled and late, parties crash, and people are away.

Person i holds category i of n and reports it through randomized response with ε0 = 30, which errs
once in 10¹³. Coins are drawn once, at the start, so a newly made device says which they are; what a
device was answered says of which rounds it was heard. Both together tell exactly what must be in
every round, and what the privacy statement must count.
"""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from incrowd.protocols.check_in import CheckIn, roles
from incrowd.protocols.check_in import messages as check_in_messages
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, device
from incrowd.protocols.runtime.context import Timing
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play
from tests.sim.schedules import schedules

N, ROUNDS = 7, 3
TIMING = Timing(round_seconds=20.0, grace_rounds=3)
SAID = msgspec.msgpack.Decoder(check_in_messages.CheckIn)

faulty = schedules(0.9)


def coins(make):
    """The rounds in which a device takes part, by its own coins."""
    actor = make()
    actor.start(-1.0)
    drawn = msgspec.msgpack.decode(actor.state())[1].values()
    return {said.round for said in map(SAID.decode, drawn) if not said.void}


def survey(seed, faults, **parameters):
    protocol = CheckIn(
        KRR(categories=N, epsilon=30.0), n=N, rounds=ROUNDS, **{"rate": 0.5} | parameters
    )
    seeds = Seeds(seed)
    makers = make_actors(protocol, np.arange(N), seeds, timing=TIMING)
    return protocol, makers, play(makers, seeds, faults)


def check(seed, faults, **parameters):
    """Everything that must hold whatever happens; how many rounds were held."""
    protocol, makers, played = survey(seed, faults, **parameters)
    assert played.finished
    collected = played.outputs[CURATOR]
    joined = [coins(makers[device(person)]) for person in range(N)]
    there = [person for person in range(N) if device(person) in played.outputs]
    receipts = {person: played.outputs[device(person)] for person in there}
    rounds, present = iter(collected.rounds), iter(collected.present)
    held = []
    for number in range(ROUNDS):
        heard = [person for person in there if number in receipts[person].accepted]
        if protocol.dummies and len(heard) < max(1, protocol.min_participants):
            continue  # Not held: nothing of it may be anywhere.
        reports = sorted(next(rounds).tolist())
        assert reports == [person for person in heard if number in joined[person]]
        held.append(len(heard) if protocol.dummies else N)
        assert next(present) == held[-1]
    assert next(rounds, None) is next(present, None) is None
    assert collected.sent == collected.received
    assert len(held) + collected.unheld == ROUNDS
    if held:
        happened = protocol.conditional_on(collected)
        assert happened.rounds == ROUNDS
        assert happened.crowd == (protocol.fewest or min(held))
        counted = None if protocol.dummies else collected.crowds
        assert happened.counts == counted
    for receipt in receipts.values():
        answered = sorted((*receipt.accepted, *receipt.refused))
        assert len(answered) == len(set(answered))
        if protocol.dummies:
            assert answered == list(range(ROUNDS))
    return len(held)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    faults=faulty,
    seed=st.integers(0, 2**32),
    rate=st.sampled_from([0.1, 0.5, 1.0]),
    least=st.integers(0, N),
)
def test_faulty_rounds_hold_reports_of_those_heard_of(faults, seed, rate, least):
    check(seed, faults, rate=rate, min_participants=least)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(faults=faulty, seed=st.integers(0, 2**32))
def test_faulty_rounds_without_dummies_hold_reports_of_those_heard_of(faults, seed):
    check(seed, faults, dummies=False)


def test_faults_cost_time_and_no_reports():
    faults = Faults(loss=0.3, duplicate=0.4, reorder=0.5, crash=0.1, outages=60.0, downtime=2.0)
    for seed in range(10):
        _, _, played = survey(seed, faults)
        assert played.outputs[CURATOR].present == (N,) * ROUNDS
        assert played.statistics.crashes > 0


def test_rounds_with_too_few_people_are_dropped():
    """So few messages arrive that only some rounds have enough people in time."""
    held = [check(seed, Faults(loss=0.84), min_participants=5) for seed in range(40)]
    assert set(held) == set(range(ROUNDS + 1))


def test_long_absences_end_with_refusals():
    faults = Faults(outages=60.0, downtime=60.0)
    refused = 0
    for seed in range(10):
        _, _, played = survey(seed, faults)
        assert played.finished
        refused += sum(len(played.outputs[device(person)].refused) for person in range(N))
        check(seed, faults)
    assert refused > 0


class TestFaultDetection:
    """Each of these breaks one party on purpose, and the check above must notice."""

    def caught(self, **faults):
        failures = 0
        for seed in range(20):
            try:
                check(seed, Faults(**faults))
            except AssertionError:
                failures += 1
        return failures

    def test_faults_reveal_device_that_flips_coin_again(self, monkeypatch):
        def resume(self, state):
            self._rng = np.random.default_rng(len(state))
            self.start(-1.0)

        monkeypatch.setattr(roles.Device, "resume", resume)
        assert self.caught(crash=0.3, loss=0.3) > 0

    def test_faults_reveal_shuffler_that_counts_dummies(self, monkeypatch):
        honest = roles.Shuffler.receive

        def receive(self, message, now):
            if message.sender != CURATOR:
                said = SAID.decode(message.body)
                body = wire.encode(
                    check_in_messages.CheckIn(said.round, said.id, False, said.payload)
                )
                message = type(message)(message.sender, body)
            return honest(self, message, now)

        monkeypatch.setattr(roles.Shuffler, "receive", receive)
        assert self.caught() > 0

    def test_faults_reveal_shuffler_that_counts_only_participants(self, monkeypatch):
        honest = roles.Shuffler._batch

        def gathering(self, number, payloads):
            made = honest(self, number, payloads)
            return check_in_messages.Gathering(made.round, len(made.payloads), made.payloads)

        monkeypatch.setattr(roles.Shuffler, "_batch", gathering)
        assert self.caught() > 0

    def test_faults_reveal_shuffler_that_takes_late_reports(self, monkeypatch):
        """A report that comes after its round was handed on must not be said to be safe."""
        from incrowd.protocols.runtime.delivery import Intake

        def take(self, sender, report):
            into = self._rounds[report.round]
            into.ids.setdefault(sender, report.id)
            into.payloads.setdefault(sender, report.payload)
            return into.ids[sender] == report.id

        monkeypatch.setattr(Intake, "take", take)
        assert self.caught(delay=40.0, delay_law="heavy") > 0


@pytest.mark.parametrize("party", [SHUFFLER, CURATOR])
def test_state_of_helpers_survives_a_round_trip(party):
    protocol, makers, _ = survey(1, Faults())
    del protocol
    actor = makers[party]()
    actor.start(0.0)
    copy = makers[party]()
    copy.resume(actor.state())
    assert copy.state() == actor.state()
    assert copy.wake(500.0) == actor.wake(500.0)
