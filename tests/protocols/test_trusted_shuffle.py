from __future__ import annotations

from collections import Counter
from itertools import permutations

import msgspec
import numpy as np
import pytest
from contract import DELTA, ProtocolContract, assert_order_says_nothing
from scipy.stats import chisquare

from incrowd.errors import InvalidCrowd, NotProven
from incrowd.protocols.local import simulate
from incrowd.protocols.registry import build
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Message, device
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.trusted_shuffle import TrustedShuffle, roles
from incrowd.protocols.trusted_shuffle import messages as shuffle_messages
from incrowd.randomizers import KRR, Gaussian, Generic
from incrowd.randomness import Seeds
from incrowd.sim import play

KRR4 = KRR(categories=4, epsilon=1.0)


class TestTrustedShuffle(ProtocolContract):
    kind = "trusted-shuffle"

    def test_delivery_check_detects_repeated_batches(self, monkeypatch):
        honest = roles.Curator.receive

        def receive(self, message, now):
            known = dict(self._came)
            self._came = {}
            effects = honest(self, message, now)
            for number, reports in known.items():
                self._came[number] = reports + self._came.get(number, [])
            complete = len(self._came) == self._rounds
            came = [self._came[number] for number in sorted(self._came)]
            return effects + ([roles.Done(self.collected(came))] if complete else [])

        monkeypatch.setattr(roles.Curator, "receive", receive)
        self.mutant_must_fail(duplicate=1.0, delay_law="heavy")


class TestGuarantee:
    def test_guarantee_against_curator_is_amplified(self):
        epsilons = [
            TrustedShuffle(KRR4, n=n).guarantee().epsilon(DELTA) for n in (1, 100, 1000, 10_000)
        ]
        assert epsilons == sorted(epsilons, reverse=True)
        assert epsilons[-1] < 0.05
        assert max(epsilons) <= 1

    @pytest.mark.parametrize(
        "view", ["shuffler", "curator+shuffler", "everyone", "curator+network"]
    )
    def test_guarantee_against_other_views_is_local(self, view):
        guarantee = TrustedShuffle(KRR4, n=10_000).guarantee(view)
        assert guarantee.epsilon(DELTA) == pytest.approx(1.0, rel=1e-4)
        assert "docs/theory/local.md" in guarantee.theorem

    def test_guarantee_names_assumptions(self):
        guarantee = TrustedShuffle(KRR4, n=100).guarantee()
        assert "docs/theory/blanket.md" in guarantee.theorem
        said = " ".join(guarantee.assumptions)
        for part in ("shuffler", "same randomizer", "does not depend on the data"):
            assert part in said

    def test_guarantee_with_colluders_equals_smaller_crowd(self):
        colluding = TrustedShuffle(KRR4, n=1000).guarantee(colluders=400)
        assert colluding.epsilon(DELTA) == TrustedShuffle(KRR4, n=600).guarantee().epsilon(DELTA)
        assert colluding.colluders == 400
        assert "crowd of 600" in colluding.assumptions[-1]
        alone = TrustedShuffle(KRR4, n=1000).guarantee(colluders=999)
        assert alone.epsilon(DELTA) == pytest.approx(1.0, rel=1e-4)
        with pytest.raises(InvalidCrowd, match="colluders"):
            TrustedShuffle(KRR4, n=1000).guarantee(colluders=1000)

    def test_adaptive_guarantee_equals_published_bound(self):
        fixed, adaptive = (
            TrustedShuffle(Generic(epsilon=2.0), n=1000, adaptive=adaptive).guarantee()
            for adaptive in (False, True)
        )
        assert adaptive.epsilon(DELTA) > fixed.epsilon(DELTA)
        assert "docs/theory/clones.md" in adaptive.theorem
        assert "not on who they are" in " ".join(adaptive.assumptions)

    def test_adaptive_guarantee_covers_worst_randomizer(self):
        """The law of the named randomizer must not matter, nor its own local curve."""
        worst, named = (
            TrustedShuffle(randomizer, n=500, adaptive=True)
            for randomizer in (Generic(epsilon=1.0), KRR(categories=50, epsilon=1.0))
        )
        for view in ("curator", "everyone"):
            assert named.guarantee(view).epsilon(DELTA) == worst.guarantee(view).epsilon(DELTA)

    def test_adaptive_refuses_impure_randomizer(self):
        protocol = TrustedShuffle(Gaussian(epsilon=1.0, delta=1e-6), n=100, adaptive=True)
        for view in ("curator", "everyone"):
            with pytest.raises(NotProven, match="pure"):
                protocol.guarantee(view)

    def test_guarantee_composes_rounds(self):
        one, ten = (TrustedShuffle(KRR4, n=1000, rounds=rounds).guarantee() for rounds in (1, 10))
        assert one.epsilon(DELTA) < ten.epsilon(DELTA) < 10 * one.epsilon(DELTA)

    def test_lower_bound_never_above_epsilon(self):
        guarantee = TrustedShuffle(KRR4, n=1000).guarantee()
        lower = guarantee.lower(DELTA)
        assert lower is not None
        assert 0 < lower <= guarantee.epsilon(DELTA)

    def test_parameters_are_read_from_table(self):
        built = build(TrustedShuffle, {"n": 50, "rounds": 2}, KRR4)
        assert built == TrustedShuffle(KRR4, n=50, rounds=2)
        with pytest.raises(msgspec.ValidationError):
            build(TrustedShuffle, {"n": 50, "round": 2}, KRR4)


class LabelSealer:
    """Names the one party that can open, and scrambles enough that nothing shows by accident."""

    def __init__(self, me):
        self.me = me

    def seal(self, to, plain):
        return b"sealed/" + to.encode() + b"|" + bytes(byte ^ 0x5A for byte in plain)

    def open(self, sealed):
        label = b"sealed/" + self.me.encode() + b"|"
        if not sealed.startswith(label):
            raise ValueError("not for me")
        return bytes(byte ^ 0x5A for byte in sealed[len(label) :])


class TestViews:
    N = 6

    def overheard(self):
        """Every message of a run, by its addressee."""
        protocol = TrustedShuffle(KRR(categories=self.N, epsilon=30.0), n=self.N, rounds=2)
        seeds = Seeds(2)
        parties = [CURATOR, SHUFFLER, *map(device, range(self.N))]
        makers = make_actors(
            protocol, np.arange(self.N), seeds, {party: LabelSealer(party) for party in parties}
        )
        heard = []

        def listen(party, make):
            def made():
                actor = make()
                receive = actor.receive

                def overhear(message, now):
                    heard.append((party, message))
                    return receive(message, now)

                actor.receive = overhear
                return actor

            return made

        played = play({party: listen(party, make) for party, make in makers.items()}, seeds)
        return heard, played

    def test_shuffler_holds_sealed_reports_only(self):
        heard, played = self.overheard()
        assert played.finished
        decoder = msgspec.msgpack.Decoder(wire.Report)
        reports = [
            decoder.decode(message.body)
            for party, message in heard
            if party == SHUFFLER and message.sender != CURATOR
        ]
        assert len(reports) == 2 * self.N
        assert all(report.payload.startswith(b"sealed/curator|") for report in reports)
        assert len({report.id for report in reports}) == 2 * self.N

    def test_curator_receives_neither_ids_nor_senders(self):
        heard, _ = self.overheard()
        ids = {
            msgspec.msgpack.Decoder(wire.Report).decode(m.body).id
            for party, m in heard
            if party == SHUFFLER and m.sender != CURATOR
        }
        batches = [message for party, message in heard if party == CURATOR]
        assert len(batches) == 2
        for message in batches:
            assert message.sender == SHUFFLER
            assert b"device" not in message.body
            assert not any(id_ in message.body for id_ in ids)

    def test_curator_ignores_reports_sealed_to_others(self):
        protocol = TrustedShuffle(KRR(categories=self.N, epsilon=30.0), n=self.N)
        seeds = Seeds(2)
        parties = [CURATOR, SHUFFLER, *map(device, range(self.N))]
        makers = make_actors(
            protocol, np.arange(self.N), seeds, {party: LabelSealer(party) for party in parties}
        )
        honest = makers[device(4)]

        def careless():
            actor = honest()
            actor.payload = lambda report: report
            return actor

        makers[device(4)] = careless
        collected = play(makers, seeds).outputs[CURATOR]
        assert sorted(collected.pooled().tolist()) == [0, 1, 2, 3, 5]
        assert collected.dropped == 1


class TestShuffler:
    def shuffler(self, seed=0, n=3, **timing):
        return roles.Shuffler(
            [device(person) for person in range(n)],
            1,
            1,
            generator=lambda number: Seeds(seed).generator("shuffler", number),
            timing=Timing(**timing),
        )

    @staticmethod
    def report(person, id_=None):
        return Message(
            device(person),
            wire.encode(wire.Report(0, (id_ or bytes([person])) * 16, bytes([person]))),
        )

    @staticmethod
    def batches(effects):
        decoder = msgspec.msgpack.Decoder(shuffle_messages.Batch)
        return [
            decoder.decode(effect.body).payloads
            for effect in effects
            if getattr(effect, "to", None) == CURATOR
        ]

    def test_shuffler_permutes_uniformly(self):
        seen = Counter()
        for seed in range(1200):
            shuffler = self.shuffler(seed)
            shuffler.start(0.0)
            for person in range(3):
                effects = shuffler.receive(self.report(person), 1.0)
            (batch,) = self.batches(effects)
            seen[tuple(b[0] for b in batch)] += 1
        counts = [seen[order] for order in permutations(range(3))]
        assert sum(counts) == 1200
        assert chisquare(counts).pvalue > 1e-3

    def test_shuffler_waits_for_roster_or_deadline(self):
        shuffler = self.shuffler(timeout=60.0)
        assert shuffler.start(10.0)[-1].at == 70.0
        assert self.batches(shuffler.receive(self.report(0), 20.0)) == []
        assert self.batches(shuffler.wake(69.0)) == []
        assert self.batches(shuffler.wake(70.0)) == [[b"\x00"]]

    def test_shuffler_refuses_late_and_second_reports_accepts_repeats(self):
        shuffler = self.shuffler(timeout=60.0)
        shuffler.start(0.0)

        def answer(message, now):
            body = shuffler.receive(message, now)[0].body
            return msgspec.msgpack.decode(body, type=wire.Accepted | wire.Refused)

        assert isinstance(answer(self.report(0), 1.0), wire.Accepted)
        assert isinstance(answer(self.report(0), 2.0), wire.Accepted)
        assert isinstance(answer(self.report(0, b"x"), 3.0), wire.Refused)
        shuffler.wake(60.0)
        assert isinstance(answer(self.report(0), 61.0), wire.Accepted)
        assert isinstance(answer(self.report(1), 61.0), wire.Refused)

    def test_shuffler_forgets_senders_once_closed(self):
        shuffler = self.shuffler()
        shuffler.start(0.0)
        for person in range(3):
            shuffler.receive(self.report(person), 1.0)
        (_, [(ids, payloads, closed)]), _ = msgspec.msgpack.decode(shuffler.state())
        assert closed
        assert len(ids) == 3
        assert payloads == {}

    def test_shuffler_ignores_unknown_round(self):
        shuffler = self.shuffler()
        shuffler.start(0.0)
        before = shuffler.state()
        foreign = wire.encode(wire.Report(1, bytes(16), b"\x00"))
        assert shuffler.receive(Message(device(0), foreign), 1.0) == []
        answer = wire.encode(shuffle_messages.BatchAccepted(0))
        assert shuffler.receive(Message(CURATOR, answer), 1.0) == []
        assert shuffler.state() == before

    @pytest.mark.parametrize("timeout", [0, -1, np.inf, np.nan])
    def test_timing_rejects_invalid_timeout(self, timeout):
        with pytest.raises(ValueError, match="timeout"):
            self.shuffler(timeout=timeout)


@pytest.mark.parametrize("execution", ["simulate", "sim"])
def test_report_order_within_round_is_uniform(execution):
    protocol = TrustedShuffle(KRR(categories=5, epsilon=30.0), n=5)
    assert_order_says_nothing(execution, protocol)


def test_draw_of_large_crowd_is_sliced(monkeypatch):
    """Slicing loses nobody."""
    monkeypatch.setattr(simulate, "_SLICE", 64)
    values = np.arange(1000) % 4
    run = TrustedShuffle(KRR(categories=4, epsilon=30.0), n=1000).simulate(values, seed=1)
    assert run.result.value == pytest.approx([0.25] * 4)
    assert run.collected.crowds == (1000,)
