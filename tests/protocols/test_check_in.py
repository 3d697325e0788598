"""The participants of a check-in, and that its executions agree."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import msgspec
import numpy as np
import pytest
from contract import (
    CONCRETE,
    DELTA,
    RUNS,
    ProtocolContract,
    assert_as_planned,
    assert_order_says_nothing,
    executed,
    p_value,
    values_for,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare

from incrowd.errors import NotProven, ProtocolFailed
from incrowd.live.accounting import CELLS
from incrowd.protocols.check_in import CheckIn, roles
from incrowd.protocols.check_in import messages as check_in_messages
from incrowd.protocols.check_in.cover import CheckInCover, closes
from incrowd.protocols.check_in.simulate import CheckedIn
from incrowd.protocols.run import guarantees, make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    CURATOR,
    SHUFFLER,
    Done,
    Message,
    NullSealer,
    Send,
    device,
)
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.delivery import Receipt
from incrowd.protocols.trusted_shuffle import messages as shuffle_messages
from incrowd.randomizers import KRR, RR
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play, run

SAID = msgspec.msgpack.Decoder(check_in_messages.CheckIn)
GATHERED = msgspec.msgpack.Decoder(check_in_messages.Gathering)
TIMING = Timing(round_seconds=10.0, grace_rounds=2)


class TestCheckIn(ProtocolContract):
    """With a rate of one everyone is in every round, and the shared suite applies."""

    kind = "check-in"
    message = check_in_messages.CheckIn
    begins = 50.0

    def make(self, randomizer, n, rounds=1, **parameters):
        return CheckIn(randomizer, n=n, rounds=rounds, **{"rate": 1.0} | parameters)

    def check_delivery(self, faults, seed, n=7, rounds=2):
        """Every report at most once in its round, and those of whom it was said so exactly once."""
        protocol = self.make(KRR(categories=n, epsilon=30.0), n, rounds)
        seeds = Seeds(seed)
        played = play(make_actors(protocol, np.arange(n), seeds), seeds, faults)
        assert played.finished
        collected = played.outputs[CURATOR]
        receipts = [played.outputs.get(device(person)) for person in range(n)]
        accepted = [
            [person for person, each in enumerate(receipts) if each and number in each.accepted]
            for number in range(rounds)
        ]
        # A round is left out when nobody was heard of in it.
        held = [number for number in range(rounds) if accepted[number]]
        assert len(held) == len(collected.rounds), "a round was lost"
        for number, reports, present in zip(held, collected.rounds, collected.present, strict=True):
            counts = np.bincount(reports, minlength=n)
            assert counts.max(initial=0) <= 1, "a report was counted twice"
            assert counts[accepted[number]].tolist() == [1] * len(accepted[number]), "a loss"
            assert present == len(reports) == len(accepted[number]), "somebody was made up"
        assert collected.sent == collected.received
        return played

    def test_run_with_dropout_states_guarantee_of_smaller_crowd(self):
        randomizer = KRR(categories=3, epsilon=1.0)
        protocol = self.make(randomizer, 60, rate=0.5, rounds=3)
        played = run(protocol, np.arange(60) % 3, faults=Faults(dropout=0.5), seed=1)
        (there,) = set(played.collected.present)
        assert there == 60 - played.played.statistics.absent
        assert 0 < there < 60
        expected = self.make(randomizer, there, rate=0.5, rounds=3)
        for stated, proven in zip(played.guarantees, guarantees(expected), strict=True):
            assert stated.view == proven.view
            assert stated.epsilon(DELTA) == proven.epsilon(DELTA)
        assert played.guarantees[0].epsilon(DELTA) > protocol.guarantee().epsilon(DELTA)

    def test_conditional_on_takes_smallest_crowd_and_skips_empty_rounds(self):
        """Here none is skipped: a round of nobody is an outcome of the coins."""
        protocol = self.make(RR(epsilon=1.0), 10, rounds=5, rate=0.5)
        nobody = np.zeros(0, np.int64)
        rounds = (nobody, nobody, np.ones(3, np.int64))
        collected = CheckedIn(rounds, sent=3, present=(9, 4, 10), unheld=2)
        happened = protocol.conditional_on(collected)
        assert (happened.crowd, happened.rounds) == (4, 5)

    def test_delivery_check_detects_repeated_batches(self, monkeypatch):
        honest = roles.Curator.receive

        def receive(self, message, now):
            known = dict(self._came)
            self._came = {}
            effects = honest(self, message, now)
            for number, old in known.items():
                new = self._came.get(number)
                again = [] if new is None else new.payloads
                self._came[number] = roles._Came(old.present, old.sent, old.payloads + again)
            complete = len(self._came) == self._rounds
            came = [self._came[number] for number in sorted(self._came)]
            return effects + ([Done(self.collected(came))] if complete else [])

        monkeypatch.setattr(roles.Curator, "receive", receive)
        self.mutant_must_fail(duplicate=1.0, delay_law="heavy")


def law_of_reports(values, rate, epsilon):
    """The exact joint law of (participants, ones) of a round of binary randomized response.

    Each person is a one, a zero or void, independently of the others.
    """
    truth = np.exp(epsilon) / (1 + np.exp(epsilon))
    law = np.ones((1, 1))
    for value in values:
        one = rate * (truth if value else 1 - truth)
        more = np.zeros((law.shape[0] + 1, law.shape[1] + 1))
        more[:-1, :-1] += (1 - rate) * law
        more[1:, 1:] += one * law
        more[1:, :-1] += (rate - one) * law
        law = more
    return law


class TestExecutionsAgree:
    VALUES = np.array([0, 0, 1, 1, 1, 1])

    def outcomes(self, execution, **parameters):
        protocol = CheckIn(RR(epsilon=1.0), n=6, rate=0.4, rounds=2, **parameters)
        found = []
        for seed in range(2 * RUNS):
            home = executed(execution, protocol, self.VALUES, seed)
            assert home.present == (6, 6)
            last = home.rounds[-1]
            found.append(len(last) * 7 + int(last.sum()))
        return found

    @pytest.mark.parametrize("execution", ["simulate", "sim", "sim without dummies"])
    def test_simulated_and_played_reports_follow_exact_law(self, execution):
        """Pearson's test, at the level 0.001, accepts the exact law and tells it from others."""
        found = self.outcomes(execution, dummies="without" not in execution)
        assert p_value(found, law_of_reports(self.VALUES, 0.4, 1.0).ravel()) > 1e-3
        for other in (
            law_of_reports(self.VALUES, 0.5, 1.0),
            law_of_reports(self.VALUES, 0.4, 4.0),
            law_of_reports(1 - self.VALUES, 0.4, 1.0),
        ):
            assert p_value(found, other.ravel()) < 1e-4

    def test_simulated_and_played_runs_state_equal_guarantee_and_cost(self):
        protocol = CheckIn(KRR(categories=3, epsilon=1.0), n=30, rate=0.4, rounds=3)
        values = np.arange(30) % 3
        one, other = protocol.simulate(values, seed=1), run(protocol, values, seed=1)
        assert_as_planned(protocol, one, other)

    def test_sent_bytes_equal_priced_bytes(self):
        protocol = CheckIn(RR(epsilon=1.0), n=40, rate=0.3, rounds=100)
        played = run(protocol, np.zeros(40, int), seed=3).played
        for person in range(40):
            sent = played.traffic[device(person)]
            assert sent.messages == protocol.cost().messages_per_person == 100
            assert sent.bytes == protocol.cost().bytes_per_person

    def test_device_without_dummies_sends_only_when_in(self):
        protocol = CheckIn(RR(epsilon=1.0), n=40, rate=0.3, rounds=100, dummies=False)
        played = run(protocol, np.zeros(40, int), seed=3).played
        sent = sum(played.traffic[device(person)].messages for person in range(40))
        assert sent == played.outputs[CURATOR].received
        assert 1e-3 < binom.cdf(sent, 4000, 0.3) < 1 - 1e-3
        assert protocol.cost().messages_per_person == pytest.approx(30)

    @pytest.mark.parametrize("randomizer", CONCRETE, ids=lambda randomizer: randomizer.kind)
    def test_empty_rounds_work_for_all_randomizers(self, randomizer):
        protocol = CheckIn(randomizer, n=3, rate=0.3, rounds=6)
        values = values_for(randomizer, 3)
        for collected in (
            protocol.simulate(values, seed=2).collected,
            run(protocol, values, seed=2).collected,
        ):
            assert len(collected.rounds) == 6
            assert min(collected.crowds) == 0
            assert len({(each.dtype, each.shape[1:]) for each in collected.rounds}) == 1

    def test_individual_rates_are_followed(self):
        rates = (1.0, 0.5, 0.01)
        protocol = CheckIn(KRR(categories=3, epsilon=30.0), n=3, rates=rates, rounds=300)
        seeds = Seeds(1)
        collected = play(make_actors(protocol, np.arange(3), seeds), seeds).outputs[CURATOR]
        counts = np.bincount(collected.pooled(), minlength=3)
        for count, rate in zip(counts, rates, strict=True):
            assert 1e-3 < binom.cdf(count, 300, rate) <= 1
            assert binom.sf(count - 1, 300, rate) > 1e-3

    @pytest.mark.parametrize("execution", ["simulate", "sim"])
    def test_report_order_within_round_is_uniform(self, execution):
        protocol = CheckIn(KRR(categories=4, epsilon=30.0), n=4, rate=1.0)
        assert_order_says_nothing(execution, protocol)


def context(seed=0, value=1, sealer=None, timing=TIMING, stream=("device", 0)):
    seeds = Seeds(seed)
    return ActorContext(
        generator=lambda *numbers: seeds.generator(*stream, *numbers),
        value=np.array([value]),
        sealer=sealer or NullSealer(),
        timing=timing,
    )


def bodies(effects):
    return [effect.body for effect in effects if isinstance(effect, Send)]


class TestDevice:
    def device(self, seed=0, person=0, sealer=None, **parameters):
        chosen = {"n": 5, "rate": 0.5, "rounds": 6} | parameters
        protocol = CheckIn(RR(epsilon=1.0), **chosen)
        return protocol.actor(device(person), context(seed, sealer=sealer))

    def messages(self, actor):
        """Everything it sends when every message is answered at once, with the times."""
        found, now, effects = [], 0.0, actor.start(0.0)
        while True:
            for body in bodies(effects):
                said = SAID.decode(body)
                found.append((now, body))
                answer = wire.encode(wire.Accepted(said.round, said.id))
                effects = actor.receive(Message(SHUFFLER, answer), now)
            if isinstance(effects[-1], Done):
                return found, effects[-1].output
            now = effects[-1].at
            effects = actor.wake(now)

    def test_device_sends_one_message_per_round_in_time(self):
        found, receipt = self.messages(self.device())
        assert [SAID.decode(body).round for _, body in found] == list(range(6))
        shares = {round(now / 10 % 1, 9) for now, _ in found}
        assert len(shares) == 1
        assert [int(now // 10) for now, _ in found] == list(range(6))
        assert receipt == Receipt(tuple(range(6)), ())
        assert len({SAID.decode(body).void for _, body in found}) == 2

    def test_devices_send_at_different_times(self):
        times = {self.messages(self.device(person=person))[0][0][0] for person in range(20)}
        assert len(times) == 20
        assert max(times) < 10

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(
        rounds=st.integers(1, 300),
        rate=st.floats(0.01, 0.99),
        randomizer=st.sampled_from(CONCRETE),
        seed=st.integers(0, 2**32),
    )
    def test_void_and_real_messages_are_of_one_length(self, rounds, rate, randomizer, seed):
        protocol = CheckIn(randomizer, n=3, rate=rate, rounds=rounds)
        (value, *_) = values_for(randomizer, 3)
        actor = protocol.actor(device(0), context(seed, value))
        actor.start(0.0)
        drawn = self.later(actor)
        assert len(drawn) == rounds
        # MessagePack writes small numbers in one byte, larger ones in two or three.
        sizes = {len(body) - (number > 127) - (number > 255) for number, body in drawn.items()}
        assert sizes == {check_in_messages.check_in_bytes(randomizer.report_bytes, 1)}

    def test_sealed_messages_have_planned_length(self):
        """What is sealed to the curator grows by what cells allow for, and so does the noise."""
        sealer = HpkeLength()
        found, _ = self.messages(self.device(sealer=sealer))
        sizes = {(SAID.decode(body).void, len(body)) for _, body in found}
        report = RR(epsilon=1.0).report_bytes
        assert sizes == {
            (void, check_in_messages.check_in_bytes(report + CELLS.seal, 6))
            for void in (True, False)
        }

    def test_check_in_message_bytes_are_fixed(self):
        assert wire.encode(
            check_in_messages.CheckIn(3, bytes(range(16)), False, b"\x01")
        ).hex() == ("95a8636865636b2d696e03c410000102030405060708090a0b0c0d0e0fc2c40101")
        assert wire.encode(check_in_messages.CheckIn(3, bytes(range(16)), True, b"\xff")).hex() == (
            "95a8636865636b2d696e03c410000102030405060708090a0b0c0d0e0fc3c401ff"
        )

    def test_void_payload_is_random_and_no_report(self):
        found, _ = self.messages(self.device(rate=1e-9, rounds=50, sealer=HpkeLength()))
        noise = [SAID.decode(body).payload for _, body in found]
        assert len(set(noise)) == 50
        assert not any(each.startswith(HpkeLength.MARK) for each in noise)
        bits = np.unpackbits(np.frombuffer(b"".join(noise), np.uint8))
        assert 1e-3 < binom.cdf(bits.sum(), bits.size, 0.5) < 1 - 1e-3

    def test_resumed_device_repeats_coins_and_reports(self):
        """From the durable state on, nothing depends on what would be drawn anew."""
        actor = self.device(seed=1)
        actor.start(0.0)
        other = self.device(seed=2)
        other.resume(actor.state())
        assert self.later(other) == self.later(actor)
        fresh = self.device(seed=2)
        fresh.start(0.0)
        assert self.later(fresh) != self.later(actor)

    @staticmethod
    def later(actor):
        return msgspec.msgpack.decode(actor.state())[1]

    def test_device_does_not_send_after_round_closed(self):
        actor = self.device()
        effects = actor.start(closes(2, TIMING))
        # It is round 5 by now, so that rounds 3 and 4 are late and rounds 0 to 2 over for good.
        assert [SAID.decode(body).round for body in bodies(effects)] == [3, 4]
        refused = msgspec.msgpack.decode(actor.state())[-1]
        assert refused == [0, 1, 2]

    @pytest.mark.parametrize("rate", [1.0, 0.3, 2.0**-53, 3e-17])
    def test_coin_probability_never_exceeds_rate(self, rate):
        """Of the 2⁵³ numbers that the generator draws, no more than that share means yes."""
        yes = int(rate * 2**53)

        class Fixed:
            def __init__(self, drawn):
                self.drawn = drawn

            def random(self, size):
                return np.full(size, self.drawn / 2**53)

        actor = self.device(rate=rate, rounds=1)
        actor._randomizer = Spare()
        for drawn, joins in ((0, yes > 0), (yes - 1, True), (yes, False)):
            if 0 <= drawn < 2**53:
                actor._rng = Fixed(drawn)
                assert (actor.reports() != [None]) == joins

    def test_device_without_dummies_is_silent_when_out(self):
        found, receipt = self.messages(self.device(dummies=False, rounds=40))
        assert all(not SAID.decode(body).void for _, body in found)
        assert len(found) == len(receipt.accepted) < 40
        seldom = self.device(dummies=False, rate=1e-9)
        assert seldom.start(0.0) == [Done(Receipt((), ()))]


class Spare:
    """Answers with the value, without a draw."""

    def randomize_exactly(self, values, rng):
        del rng
        return values


class HpkeLength:
    """Adds as many bytes as the seal of a live run."""

    MARK = b"sealed"

    def seal(self, to, plain):
        assert to == CURATOR
        return self.MARK + bytes(CELLS.seal - len(self.MARK)) + plain

    def open(self, sealed):
        return sealed[CELLS.seal :]


class TestShuffler:
    def shuffler(self, seed=0, n=3, timing=TIMING, **parameters):
        protocol = CheckIn(KRR(categories=4, epsilon=1.0), n=n, **{"rate": 0.5} | parameters)
        made = protocol.actor(SHUFFLER, context(seed, timing=timing, stream=("shuffler",)))
        made.start(0.0)
        return made

    @staticmethod
    def said(person, *, round_=0, void=False, id_=None):
        id_ = (bytes([person]) if id_ is None else id_) * 16
        return Message(
            device(person),
            wire.encode(check_in_messages.CheckIn(round_, id_, void, bytes([person]))),
        )

    @staticmethod
    def gathered(effects):
        return [
            GATHERED.decode(effect.body)
            for effect in effects
            if isinstance(effect, Send) and effect.to == CURATOR
        ]

    def test_shuffler_drops_void_and_counts_present(self):
        shuffler = self.shuffler()
        assert self.gathered(shuffler.receive(self.said(0, void=True), 1.0)) == []
        assert self.gathered(shuffler.receive(self.said(1), 1.0)) == []
        (batch,) = self.gathered(shuffler.receive(self.said(2, void=True), 1.0))
        assert (batch.round, batch.present, batch.payloads) == (0, 3, [b"\x01"])

    def test_round_without_reports_counts_as_held(self):
        shuffler = self.shuffler()
        for person in range(3):
            effects = shuffler.receive(self.said(person, void=True), 1.0)
        (batch,) = self.gathered(effects)
        assert (batch.present, batch.payloads) == (3, [])

    def test_shuffler_permutes_uniformly(self):
        seen = Counter()
        for seed in range(1200):
            shuffler = self.shuffler(seed)
            for person in range(3):
                effects = shuffler.receive(self.said(person), 1.0)
            (batch,) = self.gathered(effects)
            seen[tuple(each[0] for each in batch.payloads)] += 1
        counts = [seen[order] for order in permutations(range(3))]
        assert sum(counts) == 1200
        assert chisquare(counts).pvalue > 1e-3

    def test_shuffler_closes_each_round_at_its_deadline(self):
        shuffler = self.shuffler(rounds=3)
        shuffler.receive(self.said(0), 5.0)
        shuffler.receive(self.said(1, round_=1), 15.0)
        assert self.gathered(shuffler.wake(29.9)) == []

        def closed(now):
            (batch,) = self.gathered(shuffler.wake(now))
            shuffler.receive(
                Message(CURATOR, wire.encode(shuffle_messages.BatchAccepted(batch.round))), now
            )
            return batch

        first, second, third = closed(30.0), closed(40.0), closed(50.0)
        assert (first.round, first.present, first.payloads) == (0, 1, [b"\x00"])
        assert (second.round, second.present, second.payloads) == (1, 1, [b"\x01"])
        assert (third.round, third.present, third.payloads) == (2, 0, [])

    def test_shuffler_wakes_at_next_deadline(self):
        protocol = CheckIn(RR(epsilon=1.0), n=3, rate=0.5, rounds=3)
        for begins in (-5.0, 0.0, 12.0):
            shuffler = protocol.actor(SHUFFLER, context(stream=("shuffler",)))
            assert shuffler.start(begins)[-1].at == 30.0

    @pytest.mark.parametrize(
        ("least", "heard", "held"), [(0, 1, True), (2, 1, False), (2, 2, True)]
    )
    def test_shuffler_drops_round_with_too_few(self, least, heard, held):
        shuffler = self.shuffler(n=5, min_participants=least)
        for person in range(heard):
            shuffler.receive(self.said(person), 1.0)
        (batch,) = self.gathered(shuffler.wake(30.0))
        assert batch.present == (heard if held else 0)
        assert len(batch.payloads) == (heard if held else 0)

    def test_shuffler_without_dummies_counts_everyone_present(self):
        shuffler = self.shuffler(n=5, dummies=False)
        shuffler.receive(self.said(0), 1.0)
        (batch,) = self.gathered(shuffler.wake(30.0))
        assert (batch.present, len(batch.payloads)) == (5, 1)

    def test_shuffler_refuses_late_and_second_messages_accepts_repeats(self):
        shuffler = self.shuffler()

        def answer(message, now):
            body = shuffler.receive(message, now)[0].body
            return msgspec.msgpack.decode(body, type=wire.Accepted | wire.Refused)

        assert isinstance(answer(self.said(0), 1.0), wire.Accepted)
        assert isinstance(answer(self.said(0), 2.0), wire.Accepted)
        assert isinstance(answer(self.said(0, id_=b"x"), 3.0), wire.Refused)
        assert isinstance(answer(self.said(0, id_=b"x", void=True), 3.0), wire.Refused)
        (batch,) = self.gathered(shuffler.wake(30.0))
        assert batch.payloads == [b"\x00"]
        assert isinstance(answer(self.said(0), 31.0), wire.Accepted)
        assert isinstance(answer(self.said(1), 31.0), wire.Refused)

    def test_void_message_cannot_be_replaced_later(self):
        shuffler = self.shuffler()
        shuffler.receive(self.said(0, void=True), 1.0)
        shuffler.receive(self.said(0, id_=b"x"), 2.0)
        (batch,) = self.gathered(shuffler.wake(30.0))
        assert (batch.present, batch.payloads) == (1, [])

    def test_answers_to_void_and_real_are_alike(self):
        answers = {
            shuffler.receive(self.said(1, void=void), 1.0)[0].body
            for void in (True, False)
            for shuffler in [self.shuffler()]
        }
        assert len(answers) == 1

    def test_shuffler_forgets_senders_once_closed(self):
        shuffler = self.shuffler()
        for person in range(3):
            shuffler.receive(self.said(person, void=person == 1), 1.0)
        (_, [(ids, payloads, closed)]), _ = msgspec.msgpack.decode(shuffler.state())
        assert closed
        assert len(ids) == 3
        assert payloads == {}

    def test_shuffler_ignores_strangers_and_unknown_rounds(self):
        shuffler = self.shuffler()
        before = shuffler.state()
        assert shuffler.receive(self.said(0, round_=1), 1.0) == []
        assert shuffler.receive(self.said(7), 1.0) == []
        assert shuffler.receive(Message(CURATOR, self.said(0).body), 1.0) == []
        report = wire.encode(wire.Report(0, bytes(16), b"\x00"))
        assert shuffler.receive(Message(device(0), report), 1.0) == []
        assert shuffler.state() == before


class TestCurator:
    def curator(self, rounds=2):
        protocol = CheckIn(KRR(categories=4, epsilon=1.0), n=5, rate=0.5, rounds=rounds)
        return protocol.actor(CURATOR, context(stream=("curator",)))

    @staticmethod
    def gathering(round_, present, payloads):
        return Message(
            SHUFFLER, wire.encode(check_in_messages.Gathering(round_, present, payloads))
        )

    def test_curator_leaves_out_unheld_but_not_empty_rounds(self):
        curator = self.curator(3)
        curator.receive(self.gathering(2, 5, [b"\x01", b"\x02"]), 1.0)
        curator.receive(self.gathering(1, 0, []), 2.0)
        (_, done) = curator.receive(self.gathering(0, 4, []), 3.0)
        collected = done.output
        assert [each.tolist() for each in collected.rounds] == [[], [1, 2]]
        assert (collected.sent, collected.present, collected.smallest_crowd) == (2, (4, 5), 4)

    def test_curator_takes_one_batch_per_round(self):
        curator = self.curator()
        curator.receive(self.gathering(0, 5, [b"\x01"]), 1.0)
        assert len(bodies(curator.receive(self.gathering(0, 5, [b"\x02"]), 2.0))) == 1
        (_, done) = curator.receive(self.gathering(1, 5, []), 3.0)
        assert done.output.pooled().tolist() == [1]

    @pytest.mark.parametrize(
        ("round_", "present", "payloads"),
        [(2, 5, []), (0, 6, []), (0, 1, [b"\x01", b"\x01"]), (0, 0, [b"\x01"])],
    )
    def test_curator_ignores_impossible_batches(self, round_, present, payloads):
        curator = self.curator()
        before = curator.state()
        assert curator.receive(self.gathering(round_, present, payloads), 1.0) == []
        assert (
            curator.receive(
                Message(device(0), wire.encode(check_in_messages.Gathering(0, 1, []))), 1.0
            )
            == []
        )
        assert curator.state() == before

    def test_curator_drops_unreadable_reports(self):
        curator = self.curator(1)
        (_, done) = curator.receive(self.gathering(0, 5, [b"\x01", b"\x07", b"ab"]), 1.0)
        assert done.output.pooled().tolist() == [1]
        assert done.output.dropped == 2


class TestConditionalOn:
    def test_conditional_on_no_held_round_fails(self):
        protocol = CheckIn(RR(epsilon=1.0), n=5, rate=0.5, min_participants=3)
        with pytest.raises(ProtocolFailed, match="no round was held"):
            protocol.conditional_on(CheckedIn((), sent=0))

    def test_rounds_with_too_few_people_are_dropped_and_charged(self):
        """Of two rounds one is dropped, which could follow from what the first one told."""
        protocol = CheckIn(
            KRR(categories=4, epsilon=30.0), n=4, rate=1.0, rounds=2, min_participants=3
        )
        seeds = Seeds(1)
        makers = make_actors(protocol, np.arange(4), seeds)

        def forgetful(make):
            def made():
                actor = make()
                message = actor.message
                actor.message = lambda number, *rest: None if number else message(number, *rest)
                return actor

            return made

        for person in (1, 2):
            makers[device(person)] = forgetful(makers[device(person)])
        collected = play(makers, seeds).outputs[CURATOR]
        assert collected.present == (4,)
        assert collected.crowds == (4,)
        assert collected.unheld == 1
        assert protocol.conditional_on(collected) == protocol

    def test_empty_rounds_are_spent_without_dummies_too(self):
        """A round of nobody is an outcome of the coins: leaving it out would be no worst case."""
        protocol = CheckIn(RR(epsilon=1.0), n=3, rate=0.05, rounds=20, dummies=False)
        seeds = Seeds(2)
        collected = play(make_actors(protocol, np.zeros(3, int), seeds), seeds).outputs[CURATOR]
        assert 0 in collected.crowds
        assert collected.received > 0
        assert protocol.conditional_on(collected).rounds == 20


class TestCover:
    def test_cover_without_dummies_is_refused(self):
        with pytest.raises(NotProven, match="dummies"):
            CheckIn(RR(epsilon=1.0), n=9, rate=0.5, dummies=False).covered(DELTA, CELLS)

    def test_covered_guarantee_against_hub_equals_curator(self):
        plain = CheckIn(KRR(categories=4, epsilon=1.0), n=200, rate=0.1, rounds=3)
        covered = plain.covered(DELTA, CELLS)
        plan = covered.cover
        curator = plain.guarantee().epsilon(DELTA)
        assert covered.guarantee("curator+hub").epsilon(DELTA) == curator
        assert "docs/theory/cover.md" in covered.guarantee("curator+hub").theorem
        assert plain.guarantee("curator+hub").epsilon(DELTA) > curator
        assert plan.overflow == 0
        happened = covered.conditional_on(covered.collect(np.zeros(200, int), Seeds(1)))
        assert happened.guarantee("curator+hub").epsilon(DELTA) == curator

    @pytest.mark.parametrize("randomizer", CONCRETE, ids=lambda randomizer: randomizer.kind)
    def test_cover_sends_equal_cells_from_everyone(self, randomizer):
        protocol = CheckIn(randomizer, n=20, rate=0.5, rounds=4)
        plan = protocol.covered(DELTA, CELLS).cover
        timetables = [plan.ticks(device(person), TIMING) for person in range(20)]
        for ticks in timetables:
            assert [tick.cells for tick in ticks] == [{SHUFFLER: plan.cells}] * 6
            assert [int(tick.at // 10) for tick in ticks] == list(range(6))
        assert plan.ticks(SHUFFLER, TIMING) == plan.ticks(CURATOR, TIMING) == []

    @pytest.mark.parametrize("randomizer", CONCRETE, ids=lambda randomizer: randomizer.kind)
    def test_cover_cells_hold_round_message(self, randomizer):
        protocol = CheckIn(randomizer, n=3, rate=0.5, rounds=300).covered(DELTA, CELLS)
        plan = protocol.cover
        (value, *_) = values_for(randomizer, 3)
        actor = protocol.actor(device(1), context(value=value, sealer=HpkeLength()))
        sent = bodies(actor.start(0.0))
        assert [SAID.decode(body).round for body in sent] == [0]
        later = msgspec.msgpack.decode(actor.state())[1].values()
        assert max(CELLS.needed(len(body), len(body)) for body in later) == plan.cells

    def test_covered_messages_are_queued_before_tick(self):
        """Whatever happens at the tick itself, what is to leave with it has been handed over."""
        protocol = CheckIn(RR(epsilon=1.0), n=30, rate=0.5, rounds=3).covered(DELTA, CELLS)
        plan = protocol.cover
        for person in range(30):
            actor = protocol.actor(device(person), context())
            for number, tick in enumerate(plan.ticks(device(person), TIMING)[:3]):
                opens, closed = actor.window(number)
                assert opens == number * 10.0 < tick.at < (number + 1) * 10.0 < closed

    def test_nothing_is_repeated_while_its_round_is_open(self):
        paced = CheckInCover(rounds=3, cells=1).paced(TIMING)
        assert paced.backoff.first == closes(0, TIMING) == 30.0
        assert paced.round_seconds == TIMING.round_seconds


def test_lasts_until_the_last_round_is_over_for_good():
    protocol = CheckIn(RR(epsilon=1.0), n=3, rate=0.5, rounds=7)
    assert protocol.duration(TIMING) == closes(6, TIMING) + TIMING.timeout
