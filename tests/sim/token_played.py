"""Token walks that are played in memory, with everything that parties are told and say.

Person i holds category i of n and reports it through randomized response with ε0 = 30, which errs
once in 10¹³. So a token says who contributed to it and how often, at every step: in simulations
nothing is encrypted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime.actor import COURIER, CURATOR, Message, Send, device, is_device
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.roles import messages
from incrowd.protocols.token_walk.roles.relay import line
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.sim import play
from tests.sim.watched import Watched

N, STEPS = 7, 12
TIMING = Timing(round_seconds=20.0, grace_rounds=3)
ASKED = msgspec.msgpack.Decoder(
    messages.Restock | messages.Carry | messages.Again | messages.Release | messages.Over
)
TOLD = msgspec.msgpack.Decoder(messages.Homecoming)


class Walked:
    """A walk that was played, with what everybody was told and said."""

    def __init__(
        self,
        protocol,
        seed,
        faults=None,
        change: Callable[..., Any] = lambda makers: makers,
        timing=TIMING,
    ):
        self.protocol = protocol
        n = protocol.n
        self.told: dict[str, list[Message]] = defaultdict(list)
        self.said: dict[str, list[Send]] = defaultdict(list)
        self.last: dict[str, Any] = {}
        seeds = Seeds(seed)
        values = np.arange(n) if protocol.randomizer.domain == "category" else np.arange(n) / n
        makers = change(make_actors(protocol, values, seeds, timing=timing))
        until = protocol.duration(timing) + 86_400
        watched = {each: self.watch(each, make) for each, make in makers.items()}
        self.played = play(watched, seeds, faults, until=until)
        self.collected = self.played.outputs.get(CURATOR)

    def watch(self, address, make):
        def made():
            self.last[address] = make()
            return Watched(self.last[address], self.told[address], self.said[address])

        return made

    @property
    def walks(self):
        return self.last[COURIER]._walks

    def bodies(self, address):
        """The different messages that came to somebody from the courier, in any order."""
        return {each.body for each in self.told[address] if each.sender == COURIER}

    def asked(self, person):
        """The different requests that came to a device, in any order."""
        return [ASKED.decode(body) for body in self.bodies(device(person))]


def own_buckets(**parameters):
    given = {"n": N, "steps": STEPS} | parameters
    n = given["n"] if given["n"] else given["graph"].n
    return TokenWalk(KRR(categories=n, epsilon=30.0), **given)


def among(walk, head, n):
    """How often each person is in the sum that this visit left."""
    return np.bincount([walk.visits[each].holder for each in line(walk.visits, head)], minlength=n)


def check(walked: Walked) -> int:
    """Everything that must hold whatever happens; how many contributions came home."""
    protocol, collected = walked.protocol, walked.collected
    chosen = protocol
    assert walked.played.finished
    assert collected.steps <= chosen.length
    assert collected.reports <= collected.sent
    assert collected.sent == sum(len(walk.visits) for walk in walked.walks)
    total = np.zeros(chosen.n)
    home = {told.token for told in map(TOLD.decode, walked.bodies(CURATOR)) if told.sealed}
    for token in home:
        walk = walked.walks[token]
        total += among(walk, walk.head, chosen.n)
    np.testing.assert_array_equal(collected.total, total)
    assert collected.reports == collected.noise == total.sum()
    assert 0 <= collected.crowd <= chosen.n
    issued: Counter[int] = Counter()
    for number, walk in enumerate(walked.walks):
        issued.update(each.holder for each in walk.visits)
        _check_every_request(walked, number, walk)
    for person in range(chosen.n):
        if device(person) in walked.played.outputs:
            held = walked.played.outputs[device(person)].contributions
            assert total[person] <= held <= issued[person]
    return collected.reports


def _check_every_request(walked, number, walk):
    """Turns never repeat, and every token on its way holds what it should, and nothing twice."""
    chosen = walked.protocol
    by_turn = {visit.turn: visit for visit in walk.visits}
    assert len(by_turn) == len(walk.visits)
    seen: dict[int, bytes] = {}
    for send in walked.said[COURIER]:
        if not is_device(send.to):
            continue
        asked = ASKED.decode(send.body)
        if not isinstance(asked, messages.Carry | messages.Again) or asked.token != number:
            continue
        # A call that a crash undid may have been written down too; it told nobody anything new.
        assert seen.setdefault(asked.turn, send.body) == send.body
        if isinstance(asked, messages.Carry):
            visit = by_turn[asked.turn]
            assert send.to == device(visit.holder)
            counts = np.frombuffer(asked.sealed, "<u4") if asked.sealed else np.zeros(chosen.n)
            np.testing.assert_array_equal(counts, among(walk, visit.before, chosen.n))


def vanishing(person, after, back=np.inf, leaves=False):
    """A device that takes the token so often and is deaf to the next one, for a time.

    One that ``leaves`` is deaf right after the last one, also to those who ask for it again.
    """

    def change(makers):
        make, count = makers[device(person)], [0]

        def made():
            actor = make()
            honest = actor.receive

            def receive(message, now):
                gone = leaves and count[0] == after
                count[0] += isinstance(ASKED.decode(message.body), messages.Carry)
                gone |= count[0] > after
                return [] if gone and now < back else honest(message, now)

            actor.receive = receive
            return actor

        return {**makers, device(person): made}

    return change
