"""A curator that looks at each round and stops when the loss is high, played in the simulator."""

from __future__ import annotations

import math

import numpy as np
import pytest

from incrowd.protocols.check_in import CheckIn, roles
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime.actor import CURATOR, Done
from incrowd.randomizers import RR
from incrowd.randomness import Seeds
from incrowd.sim import play
from tests.oracles.stopping import stopped_response

EPSILON0, ROUNDS, DELTA = 1.0, 12, 0.05


class Stopper(roles.Curator):
    """Ends the survey as soon as the rounds so far tell more than a run of so many would state."""

    def __init__(self, stated, *arguments, **named):
        super().__init__(*arguments, **named)
        self.stated = stated

    def receive(self, message, now):
        effects = super().receive(message, now)
        held = len(self._came)
        came = [self._came[number] for number in range(held) if number in self._came]
        if len(came) < held or any(isinstance(each, Done) for each in effects):
            return effects
        reports = self.collected(came).pooled()
        loss = EPSILON0 * (2 * np.count_nonzero(reports) - reports.size)
        return [*effects, Done(self.collected(came))] if loss > self.stated[held - 1] else effects


def once(seed, protocol, held_curve):
    seeds = Seeds(seed)
    makers = make_actors(protocol, np.ones(1, int), seeds)
    honest = makers[CURATOR]()
    makers[CURATOR] = lambda: Stopper(
        held_curve, honest._people, honest._reports, ROUNDS, sealer=honest._sealer
    )
    return play(makers, seeds).outputs[CURATOR]


@pytest.mark.parametrize("least", [0, 1])
def test_adaptive_stopper_when_played_states_the_planned_rounds(least):
    """Of one person all is seen, so that the truth is known: the best rule's gain is exact."""
    protocol = CheckIn(RR(epsilon=EPSILON0), n=1, rate=1.0, rounds=ROUNDS, min_participants=least)
    plans = (CheckIn(RR(epsilon=EPSILON0), n=1, rate=1.0, rounds=t + 1) for t in range(ROUNDS))
    held = [plan.guarantee().epsilon(DELTA) for plan in plans]
    assert stopped_response(EPSILON0, held) > 1.4 * DELTA, "the rounds held would be wrong"
    stated, gain = {}, []
    for seed in range(40):
        collected = once(seed, protocol, held)
        rounds = len(collected.rounds)
        found = protocol.conditional_on(collected).guarantee().epsilon(DELTA)
        stated[rounds] = found
        ones = np.count_nonzero(collected.pooled())
        loss = EPSILON0 * (2 * ones - rounds)
        gain.append(-math.expm1(min(found - loss, 0.0)))
    assert min(stated) < ROUNDS, "nobody was ever stopped"
    assert set(stated.values()) == {protocol.guarantee().epsilon(DELTA)}
    assert stopped_response(EPSILON0, [max(stated.values())] * ROUNDS) <= DELTA
    assert np.mean(gain) <= DELTA
