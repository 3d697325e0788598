"""What every protocol guarantees, whatever it is; each protocol's test inherits this suite.

Two devices of the suite deserve a word. *Own buckets*: person i holds category i of n and reports
it through randomized response with ε0 = 30, which errs once in 10¹³, so that a 2 anywhere proves
double counting and a missing acknowledged bucket proves loss. *Mutants*: each check of delivery is
run against a party that was broken on purpose, and must notice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.protocols import load
from incrowd.protocols.api import Protocol
from incrowd.protocols.registry import build
from incrowd.protocols.run import Run, guarantees, make_actors
from incrowd.protocols.runtime import delivery, wire
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Address,
    Maker,
    Message,
    Send,
    device,
    is_device,
)
from incrowd.randomizers import (
    KRR,
    OLH,
    OUE,
    RR,
    SUE,
    Gaussian,
    Generic,
    HadamardResponse,
    Laplace,
    OneBit,
    PrivUnit,
    Randomizer,
    Ternary,
)
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play, run
from incrowd.sim.play import Played
from incrowd.tasks import Histogram, Mean

DELTA = 1e-6
RUNS = 300

CONCRETE: list[Randomizer] = [
    RR(epsilon=1.0),
    KRR(categories=300, epsilon=1.0),
    OUE(categories=20, epsilon=1.0),
    SUE(categories=20, epsilon=1.0),
    HadamardResponse(categories=5, epsilon=1.0),
    OLH(categories=5, epsilon=1.0),
    OneBit(epsilon=1.0),
    Laplace(epsilon=1.0),
    Gaussian(epsilon=1.0, delta=1e-6),
    PrivUnit(dimension=3, epsilon=1.0),
]

fault_schedules = st.builds(
    Faults,
    loss=st.floats(0, 0.5),
    duplicate=st.floats(0, 0.8),
    reorder=st.floats(0, 1),
    crash=st.floats(0, 0.4),
    dropout=st.floats(0, 0.5),
    outages=st.floats(0, 120),
    downtime=st.floats(0, 30),
    delay_law=st.sampled_from(["constant", "exponential", "heavy"]),
)

bounded = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.differing_executors],
)


def law_of_ones(values: np.ndarray, epsilon: float) -> np.ndarray:
    """The exact law of the number of ones among the reports of binary randomized response."""
    truth = np.exp(epsilon) / (1 + np.exp(epsilon))
    ones = int(values.sum())
    return np.convolve(
        binom.pmf(np.arange(ones + 1), ones, truth),
        binom.pmf(np.arange(len(values) - ones + 1), len(values) - ones, 1 - truth),
    )


def p_value(counts: list[int], law: np.ndarray) -> float:
    """Pearson's test of the observed counts against a law, cells below 5 expected pooled."""
    observed = np.bincount(counts, minlength=len(law))
    expected = law * len(counts)
    small = expected < 5
    cells = np.append(expected[~small], expected[small].sum())
    seen = np.append(observed[~small], observed[small].sum())
    keep = cells > 0
    return float(chisquare(seen[keep], cells[keep] * seen[keep].sum() / cells[keep].sum()).pvalue)


def values_for(randomizer: Randomizer, n: int) -> Any:
    if randomizer.domain == "interval":
        return np.linspace(0, 1, n)
    if randomizer.domain == "vector":
        return np.eye(3)[np.arange(n) % 3]
    return np.arange(n) % randomizer.categories


def throw_at(actor: Actor, senders: list[str]) -> None:
    """Arbitrary bytes, from parties known and unknown, cause nothing."""

    @bounded
    @given(body=st.binary(max_size=64), sender=st.sampled_from(senders))
    def throw(body, sender):
        assert actor.receive(Message(sender, body), 0.5) == []

    throw()


def deliver_cut(makers: Mapping[Address, Maker], begins: float = 0.0) -> list[tuple[str, str]]:
    """Every message of an honest run, cut short or made longer by a byte, changes nothing.

    Nor does it when a stranger sends it; as it is, it arrives. Returns who sent one to whom.
    """
    actors = {address: make() for address, make in makers.items()}
    waiting = [(each, effect) for each, actor in actors.items() for effect in actor.start(begins)]
    arrived = []
    while waiting:
        sender, effect = waiting.pop(0)
        if not isinstance(effect, Send):
            continue
        actor = actors[effect.to]
        before = actor.state()
        for body in (effect.body[:-1], effect.body[1:], effect.body + b"\x00", b""):
            assert actor.receive(Message(sender, body), 0.1) == []
        assert actor.receive(Message("stranger", effect.body), 0.1) == []
        assert actor.state() == before
        arrived.append((sender, effect.to))
        waiting += [(effect.to, new) for new in actor.receive(Message(sender, effect.body), 0.1)]
    return arrived


def taken_by(arrived: list[tuple[str, str]]) -> Counter[str]:
    """How many messages the devices together, and each of the helpers, were sent."""
    return Counter("device" if is_device(to) else to for _, to in arrived)


def executed(
    execution: str, protocol: Protocol, values: Any, seed: int, faults: Faults | None = None
) -> Any:
    """What the curator has at the end of one execution: a simulation, or else a play."""
    seeds = Seeds(seed)
    if execution == "simulate":
        return protocol.collect(values, seeds)
    return play(make_actors(protocol, values, seeds), seeds, faults).outputs[CURATOR]


def assert_as_planned(protocol: Protocol, one: Run, other: Run) -> None:
    """Both executions state the cost and the guarantees that the protocol itself does."""
    assert one.cost == other.cost == protocol.cost()
    for each in zip(one.guarantees, other.guarantees, guarantees(protocol), strict=True):
        stated = {(g.view, g.theorem, g.assumptions, g.neighbours, g.epsilon(DELTA)) for g in each}
        assert len(stated) == 1


def assert_order_says_nothing(execution: str, protocol: Protocol) -> None:
    """Person 0's report is equally often at each place (Pearson's test, at the level 0.001).

    In a protocol in which everyone reports a category of their own.
    """
    n = protocol.n
    places = np.zeros(n, int)
    for seed in range(400):
        reports = executed(execution, protocol, np.arange(n), seed).pooled()
        places[reports.tolist().index(0)] += 1
    assert chisquare(places).pvalue > 1e-3


class ProtocolContract:
    """Inherit, set ``kind``, and implement nothing else unless the protocol asks for it."""

    kind: str
    message: type = wire.Report
    """What a device sends in a round."""
    begins = 0.0
    """A time at which a device that begins sends everything at once."""

    def make(self, randomizer: Randomizer, n: int, rounds: int = 1) -> Protocol:
        cls = load(self.kind)
        return build(cls, {"n": n, "rounds": rounds}, randomizer)

    def crowds(self, n: int, rounds: int) -> tuple[int, ...]:
        """How many reports everyone together sends: fresh ones in every round."""
        return (n,) * rounds

    def check_price(self, protocol: Protocol, played: Played) -> None:
        """What a person really sent is what was priced."""
        sent = played.traffic[device(5)]
        assert sent.messages == protocol.cost().messages_per_person
        assert sent.bytes == protocol.cost().bytes_per_person

    # The three executions agree.

    VALUES = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])

    def ones(self, execution: str, epsilon: float = 1.0) -> list[int]:
        """How many of the reports were ones, in many tiny runs of one execution."""
        protocol = self.make(RR(epsilon=epsilon), len(self.VALUES))
        found = []
        for seed in range(RUNS):
            home = executed(execution, protocol, self.VALUES, seed)
            assert home.crowds == (len(self.VALUES),)
            found.append(int(home.pooled().sum()))
        return found

    @pytest.mark.parametrize("execution", ["simulate", "sim"])
    def test_executions_follow_exact_law(self, execution):
        """Pearson's test, at the level 0.001, accepts the exact law and tells it from others."""
        counts = self.ones(execution)
        assert p_value(counts, law_of_ones(self.VALUES, 1.0)) > 1e-3
        assert p_value(counts, law_of_ones(self.VALUES, 2.0)) < 1e-6
        assert p_value(counts, law_of_ones(1 - self.VALUES, 1.0)) < 1e-6

    @pytest.mark.parametrize("rounds", [1, 3])
    def test_executions_state_equal_guarantee_and_cost(self, rounds):
        protocol = self.make(KRR(categories=3, epsilon=1.0), 30, rounds)
        values = np.arange(30) % 3
        one, other = protocol.simulate(values, seed=1), run(protocol, values, seed=1)
        assert one.result.labels == other.result.labels
        assert one.result.people == other.result.people == 30
        assert_as_planned(protocol, one, other)

    @pytest.mark.parametrize("randomizer", CONCRETE, ids=lambda randomizer: randomizer.kind)
    def test_executions_collect_equal_shapes_with_all_randomizers(self, randomizer):
        protocol = self.make(randomizer, 12, rounds=2)
        values = values_for(randomizer, 12)
        one, other = protocol.simulate(values, seed=2), run(protocol, values, seed=2)
        for execution in (one, other):
            assert execution.collected.crowds == self.crowds(12, 2)
            assert np.isfinite(execution.result.value).all()
        first, second = one.collected.rounds[0], other.collected.rounds[0]
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        self.check_price(protocol, other.played)

    def test_expected_error_equals_simulated_error(self):
        protocol = self.make(KRR(categories=4, epsilon=1.0), 400, rounds=2)
        values = np.arange(400) % 4
        errors = [protocol.simulate(values, seed=seed).result.value - 0.25 for seed in range(200)]
        assert protocol.cost().expected_error == pytest.approx(np.std(errors), rel=0.1)

    def test_rounds_draw_fresh_reports(self):
        protocol = self.make(RR(epsilon=0.1), 200, rounds=3)
        for collected in (
            protocol.collect(np.zeros(200, int), Seeds(1)),
            run(protocol, np.zeros(200, int), seed=1).collected,
        ):
            assert len({reports.tobytes() for reports in collected.rounds}) == 3

    @pytest.mark.parametrize("execution", ["simulate", "sim"])
    def test_execution_repeats_by_seed(self, execution):
        protocol = self.make(KRR(categories=3, epsilon=1.0), 20)

        def reports(seed):
            values = np.arange(20) % 3
            if execution == "simulate":
                return protocol.simulate(values, seed=seed).collected.pooled().tolist()
            return (
                run(protocol, values, seed=seed, faults=Faults(loss=0.3))
                .collected.pooled()
                .tolist()
            )

        assert reports(4) == reports(4)
        assert reports(4) != reports(5)

    # Delivery: at most once, and exactly once when acknowledged.

    def check_delivery(self, faults: Faults, seed: int, n: int = 7, rounds: int = 2) -> Any:
        protocol = self.make(KRR(categories=n, epsilon=30.0), n, rounds)
        seeds = Seeds(seed)
        played = play(make_actors(protocol, np.arange(n), seeds), seeds, faults)
        assert played.finished
        collected = played.outputs[CURATOR]
        for number, reports in enumerate(collected.rounds):
            counts = np.bincount(reports, minlength=n)
            acknowledged = [
                person
                for person in range(n)
                if number in getattr(played.outputs.get(device(person)), "accepted", ())
            ]
            assert counts.max(initial=0) <= 1, "a report was counted twice"
            assert counts[acknowledged].tolist() == [1] * len(acknowledged), "a report was lost"
        assert collected.sent == n * rounds
        return played

    @bounded
    @given(faults=fault_schedules, seed=st.integers(0, 2**32))
    def test_delivery_under_faults_counts_reports_once(self, faults, seed):
        self.check_delivery(faults, seed)

    def test_delivery_without_dropout_collects_all_reports(self):
        """Loss, duplicates and crashes alone cost time, not people."""
        faults = Faults(loss=0.4, duplicate=0.4, reorder=0.5, crash=0.2, outages=60.0, downtime=2.0)
        for seed in range(10):
            played = self.check_delivery(faults, seed)
            assert played.outputs[CURATOR].crowds == self.crowds(7, 2)
            assert played.statistics.crashes > 0

    def mutant_must_fail(self, **faults: float) -> None:
        failures = 0
        for seed in range(20):
            try:
                self.check_delivery(Faults(**faults), seed)
            except AssertionError:
                failures += 1
        assert failures > 0

    def test_delivery_check_detects_double_counting(self, monkeypatch):
        def take(self, sender, report):
            into = self._rounds[report.round]
            into.ids[f"{sender}#{len(into.ids)}"] = report.id
            into.payloads[f"{sender}#{len(into.payloads)}"] = report.payload
            return True

        monkeypatch.setattr(delivery.Intake, "take", take)
        self.mutant_must_fail(duplicate=0.9)

    def test_delivery_check_detects_lost_state_after_crash(self, monkeypatch):
        honest = delivery.Intake.resume

        def resume(self, state):
            honest(self, state)
            for into in self._rounds:
                into.ids, into.payloads = {}, {}

        monkeypatch.setattr(delivery.Intake, "resume", resume)
        self.mutant_must_fail(crash=0.3, dropout=0.3)

    # What happened decides what is guaranteed.

    def test_run_with_dropout_states_guarantee_of_smaller_crowd(self):
        randomizer = KRR(categories=3, epsilon=1.0)
        played = run(
            self.make(randomizer, 60), np.arange(60) % 3, faults=Faults(dropout=0.5), seed=1
        )
        arrived = played.collected.received
        assert 0 < arrived < 60
        assert played.collected.dropped == 60 - arrived
        assert played.result.people == arrived
        expected = self.make(randomizer, arrived)
        assert played.cost == expected.cost()
        for stated, proven in zip(played.guarantees, guarantees(expected), strict=True):
            assert stated.view == proven.view
            assert stated.epsilon(DELTA) == proven.epsilon(DELTA)

    def test_conditional_on_takes_smallest_crowd_and_skips_empty_rounds(self):
        protocol = self.make(RR(epsilon=1.0), 10, rounds=3)
        collected = protocol.collect(np.zeros(10, int), Seeds(1))
        first, second, third = collected.rounds
        cut = type(collected)((first, second[:4], third[:0]), sent=30)
        assert (
            protocol.conditional_on(cut).n,
            protocol.conditional_on(cut).rounds,
        ) == (
            4,
            2,
        )

    @pytest.mark.parametrize("faults", [Faults(dropout=1.0), Faults(loss=1.0)])
    def test_run_without_reports_fails(self, faults):
        with pytest.raises(ProtocolFailed):
            run(self.make(RR(epsilon=1.0), 5), np.zeros(5, int), faults=faults, seed=1)

    def test_run_of_one_person_guarantees_local_epsilon(self):
        protocol = self.make(RR(epsilon=1.0), 1)
        for execution in (
            protocol.simulate(np.array([1]), seed=1),
            run(protocol, np.array([1]), seed=1),
        ):
            assert execution.collected.crowds == (1,)
            for guarantee in execution.guarantees:
                assert guarantee.epsilon(DELTA) == pytest.approx(1.0, rel=1e-5)

    # Refusals.

    @pytest.mark.parametrize("n", [4, 6])
    def test_run_refuses_wrong_number_of_values(self, n):
        protocol = self.make(RR(epsilon=1.0), 5)
        with pytest.raises(InvalidCrowd, match=f"n = 5 people but got {n}"):
            protocol.simulate(np.zeros(n, int), seed=1)
        with pytest.raises(InvalidCrowd, match=f"n = 5 people but got {n}"):
            run(protocol, np.zeros(n, int), seed=1)

    @pytest.mark.parametrize(
        "execute", [lambda p, v, t: p.simulate(v, task=t), lambda p, v, t: run(p, v, task=t)]
    )
    def test_run_refuses_task_of_another_domain(self, execute):
        with pytest.raises(InvalidParameter, match="laplace"):
            execute(self.make(RR(epsilon=1.0), 3), np.zeros(3), Mean(bounds=(0, 1)))

    def test_run_encodes_raw_values_by_task(self):
        task = Histogram(categories=("yes", "no"), complete=True)
        protocol = self.make(RR(epsilon=30.0), 4)
        column = np.array(["no", "no", "yes", "no"])
        for execution in (
            protocol.simulate(column, task=task, seed=1),
            run(protocol, column, task=task, seed=1),
        ):
            assert execution.result.labels == ("yes", "no")
            assert execution.result.value == pytest.approx([0.25, 0.75])

    def test_executions_report_missing_answers_alike(self):
        task = Histogram(categories=("yes", "no"))
        protocol = self.make(KRR(categories=3, epsilon=30.0), 4)
        column = np.array(["no", "", "yes", "maybe"])
        for execution in (
            protocol.simulate(column, task=task, seed=1),
            run(protocol, column, task=task, seed=1),
        ):
            assert execution.result.labels == ("yes", "no", "no answer")
            assert execution.result.value == pytest.approx([0.25, 0.25, 0.5])

    def test_ternary_guarantee_equals_krr_and_executions_agree(self):
        ternary, krr = Ternary(epsilon=2.0), KRR(categories=3, epsilon=2.0)
        guaranteed = [
            [each.epsilon(DELTA) for each in guarantees(self.make(drawn, 50))]
            for drawn in (ternary, krr)
        ]
        assert guaranteed[0] == guaranteed[1]
        column = np.array([10.0, np.nan, 10.0, 0.0, 99.0])
        task = Mean(bounds=(0, 10))
        protocol = self.make(Ternary(epsilon=30.0), 5)
        for execution in (
            protocol.simulate(column, task=task, seed=1),
            run(protocol, column, task=task, seed=1),
        ):
            assert execution.result.labels == ("mean", "no answer")
            assert execution.result.value == pytest.approx([7.5, 0.2])

    def test_generic_randomizer_is_accounted_but_not_run(self):
        protocol = self.make(Generic(epsilon=1.0), 50)
        assert 0 < protocol.guarantee().epsilon(DELTA) <= 1
        assert protocol.cost().expected_error is None
        task = Histogram(categories=("0", "1"))
        for execute in (protocol.simulate, lambda values, task: run(protocol, values, task=task)):
            with pytest.raises(InvalidParameter, match="generic"):
                execute(np.zeros(50, int), task=task)

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            ({"n": 0}, InvalidCrowd),
            ({"n": 2.5}, InvalidCrowd),
            ({"n": 3, "rounds": 0}, InvalidParameter),
        ],
    )
    def test_protocol_refuses_invalid_parameters(self, wrong, error):
        with pytest.raises(error):
            load(self.kind)(RR(epsilon=1.0), **wrong)

    def test_guarantee_against_everyone_is_local(self):
        randomizer = Laplace(epsilon=0.7)
        everyone = self.make(randomizer, 100).guarantee("everyone", colluders=99)
        assert everyone.epsilon(DELTA) == pytest.approx(0.7, rel=1e-4)
        assert "local" in everyone.theorem
        with pytest.raises(InvalidCrowd, match="colluders"):
            self.make(randomizer, 100).guarantee("everyone", colluders=100)
        with pytest.raises(InvalidParameter, match="unknown view"):
            self.make(randomizer, 100).guarantee("nobody")

    def test_guarantees_begin_with_curator_and_end_with_everyone(self):
        views = [guarantee.view_name for guarantee in guarantees(self.make(RR(epsilon=1.0), 9))]
        assert (views[0], views[-1]) == ("curator", "everyone")

    # Actors on their own.

    def cast(self, n: int = 3, rounds: int = 2) -> Any:
        protocol = self.make(KRR(categories=n, epsilon=1.0), n, rounds)
        return make_actors(protocol, np.arange(n), Seeds(3))

    def test_actor_ignores_malformed_bytes(self):
        cast = self.cast()
        for address, make in cast.items():
            actor = make()
            actor.start(self.begins)
            before = actor.state()

            throw_at(actor, [*cast, "stranger", ""])
            assert actor.receive(Message(next(iter(cast)), bytes(1 << 16)), 0.5) == []
            assert actor.state() == before, address

    def test_actor_ignores_truncated_and_extended_messages(self):
        seen = taken_by(deliver_cut(self.cast(), self.begins))
        assert seen["device"] == 3 * 2
        assert seen[CURATOR] > 0

    def test_resumed_actor_equals_original(self):
        cast = self.cast()
        for make in cast.values():
            actor = make()
            actor.start(self.begins)
            copy = make()
            copy.resume(actor.state())
            assert copy.state() == actor.state()
            assert copy.wake(1800.0) == actor.wake(1800.0)

    def test_device_retries_repeat_same_bytes(self):
        actor = self.cast()[device(1)]()
        first = [effect.body for effect in actor.start(self.begins) if hasattr(effect, "body")]
        pauses, now = [], self.begins
        for _ in range(9):
            alarm = actor.wake(now)[-1].at
            pauses.append(alarm - now)
            now = alarm
            copy = self.cast()[device(1)]()
            copy.resume(actor.state())
            again = [effect.body for effect in copy.wake(now) if hasattr(effect, "body")]
            assert again == first
        assert pauses == sorted(pauses)
        assert pauses[-1] == 60

    def test_device_ignores_answers_to_other_reports(self):
        actor = self.cast()[device(1)]()
        sent = [effect for effect in actor.start(self.begins) if hasattr(effect, "body")]
        own = msgspec.msgpack.decode(sent[0].body, type=self.message)
        before = actor.state()
        for answer in (
            wire.Accepted(0, bytes(16)),
            wire.Accepted(1, own.id),
            wire.Refused(0, bytes(16)),
            wire.Accepted(7, own.id),
        ):
            assert actor.receive(Message(sent[0].to, wire.encode(answer)), 0.1) == []
        assert actor.state() == before
        assert actor.receive(Message(sent[0].to, wire.encode(wire.Accepted(0, own.id))), 0.1)
        assert actor.state() != before

    def test_curator_leaves_out_impossible_report(self):
        """A report that no randomizer draws is left out, and the others are counted."""
        n = 5
        protocol = self.make(KRR(categories=n, epsilon=30.0), n)
        seeds = Seeds(1)
        makers = make_actors(protocol, np.arange(n), seeds)
        honest = makers[device(2)]

        def spoiler():
            actor = honest()
            actor._randomizer = KRR(categories=200, epsilon=30.0)
            actor._value = np.array([150])
            return actor

        makers[device(2)] = spoiler
        collected = play(makers, seeds).outputs[CURATOR]
        assert sorted(collected.pooled().tolist()) == [0, 1, 3, 4]
