"""Network shuffling when devices come and go: what becomes of a report, and who is believed."""

from __future__ import annotations

import numpy as np
import pytest

from incrowd.graphs import line
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle import messages as network_messages
from incrowd.protocols.network_shuffle.roles.device import Device
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import CURATOR, Message, Wake, device
from incrowd.protocols.runtime.context import ROUND_SECONDS, ActorContext
from incrowd.randomizers import KRR, RR
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play
from tests.protocols.test_network_shuffle import HOP_OR_PASSED, asleep


def made(person, graph, rounds=6):
    """One device on its own."""
    context = ActorContext(
        generator=lambda draw: Seeds(1).generator("device", person, draw), value=np.array([1])
    )
    return Device(context, person, RR(epsilon=1.0), Walk((graph,)), rounds, "all")


def attempts(actor, until, arrivals=()):
    """When the device sends hops of each round, if messages arrive at these times."""
    sent: dict[int, list[float]] = {}
    waiting = sorted(arrivals, key=lambda each: each[0])
    now, alarm, effects = 0.0, 0.0, actor.start(0.0)
    while True:
        for effect in effects:
            if getattr(effect, "to", CURATOR) != CURATOR:
                hop = HOP_OR_PASSED.decode(effect.body)
                if isinstance(hop, network_messages.Hop):
                    sent.setdefault(hop.round, []).append(now)
        alarms = [effect.at for effect in effects if isinstance(effect, Wake)]
        alarm = alarms[-1] if alarms else alarm
        if waiting and waiting[0][0] <= alarm:
            now, message = waiting.pop(0)
            effects = actor.receive(message, now)
        else:
            now, effects = alarm, actor.wake(alarm)
        if now > until:
            return sent


class TestHopPauses:
    """The fate of a hop is a function of its own path: assumption (F)."""

    @staticmethod
    def arrival(number, at):
        body = wire.encode(network_messages.Hop(number, bytes([number]) * 16, [b"x" * 17]))
        return at, Message(device(1), body)

    def test_pauses_of_a_hop_when_another_waits_are_the_same(self):
        """A hop of 90 s next to one that waits since 0 s, and alone."""
        crowded = attempts(made(0, line(2)), 150.0, [self.arrival(2, 80.0)])
        first = made(0, line(2))
        (hop,) = [each for each in first.start(0.0) if hasattr(each, "body")]
        answer = network_messages.Passed(HOP_OR_PASSED.decode(hop.body).id)
        answered = (0.5, Message(device(1), wire.encode(answer)))
        relieved = attempts(made(0, line(2)), 150.0, [answered, self.arrival(2, 80.0)])
        assert len(crowded[0]) > 5
        assert len(relieved[0]) == 1
        assert crowded[3] == relieved[3] == [90.0, 91.0, 93.0, 97.0, 105.0, 120.0, 135.0, 150.0]

    def test_pauses_when_a_window_passes_are_at_most_half_of_it(self):
        sent = attempts(made(0, line(2)), 2000.0)[0]
        assert np.diff(sent).max() == ROUND_SECONDS / 2
        assert np.diff(sent)[:4].tolist() == [1.0, 2.0, 4.0, 8.0]

    @pytest.mark.parametrize("seed", range(5))
    def test_hop_when_the_receiver_is_back_before_the_last_window_is_taken_in(self, seed):
        """Person 1, between the two others, comes back at 304 of 360 seconds."""
        protocol = NetworkShuffle(KRR(categories=3, epsilon=30.0), graph=line(3), rounds=2)
        seeds = Seeds(seed)
        makers = make_actors(protocol, np.arange(3), seeds)
        wrap = asleep({1: (0.1, 304.0)})
        slow = Faults(delay=0.5, delay_law="constant")
        outcome = play({each: wrap(each, make) for each, make in makers.items()}, seeds, slow)
        assert outcome.finished
        for person in (0, 2):
            assert outcome.outputs[device(person)].unanswered == 0
