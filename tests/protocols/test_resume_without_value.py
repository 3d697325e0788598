"""A device reads its owner's value once: what a restart needs of it is in the actor's state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from incrowd.graphs import families
from incrowd.protocols.check_in.spec import CheckIn
from incrowd.protocols.local.spec import Local
from incrowd.protocols.network_shuffle.spec import NetworkShuffle
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime.actor import CURATOR, Actor, is_device
from incrowd.protocols.token_walk.spec import TokenWalk
from incrowd.protocols.trusted_shuffle.spec import TrustedShuffle
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play
from tests.sim.order_played import placed
from tests.sim.query_played import own, tuples

N = 6
EXACT = KRR(categories=N, epsilon=30.0)
CRASHES = Faults(crash=0.2, downtime=2.0)


def cases():
    codes = np.arange(N)
    yield "local", Local(EXACT, n=N), codes
    yield "trusted-shuffle", TrustedShuffle(EXACT, n=N), codes
    yield "network-shuffle", NetworkShuffle(EXACT, graph=families.complete(N), rounds=3), codes
    yield "check-in", CheckIn(EXACT, n=N, rounds=2, rate=1.0), codes
    yield "token-walk", TokenWalk(EXACT, n=N, steps=6), codes
    yield "order-shuffle", *placed("points", N, alpha=1.0)
    query = own()
    yield "scrambled-query", query, tuples(query)


class Forgetful(Actor):
    """A device that has its value when it starts, and none when it resumes."""

    def __init__(self, maker: partial[Actor], resumed: Counter[str]) -> None:
        self.maker, self.resumed = maker, resumed

    def start(self, now):
        self.actor = self.maker()
        return self.actor.start(now)

    def resume(self, state):
        address, context = self.maker.args
        self.actor = self.maker.func(address, replace(context, value=None))
        self.actor.resume(state)
        self.resumed[address] += 1

    def receive(self, message, now):
        return self.actor.receive(message, now)

    def wake(self, now):
        return self.actor.wake(now)

    def state(self):
        return self.actor.state()


@pytest.mark.parametrize(
    ("protocol", "values"), [pytest.param(*rest, id=name) for name, *rest in cases()]
)
def test_devices_that_crash_resume_without_a_value_and_end_alike(protocol, values):
    resumed: Counter[str] = Counter()
    makers = make_actors(protocol, values, Seeds(3))
    forgetful = {
        to: partial(Forgetful, make, resumed) if is_device(to) else make
        for to, make in makers.items()
    }
    ends = [play(cast, Seeds(3), CRASHES).outputs[CURATOR] for cast in (makers, forgetful)]
    assert repr(vars(ends[0])) == repr(vars(ends[1]))
    assert resumed
