"""People who are away, in the protocols whose statements need no correction for them."""

from __future__ import annotations

import pytest

from incrowd.protocols.runtime.actor import device
from incrowd.protocols.settings import settings_of
from incrowd.protocols.token_walk.roles.relay import line
from incrowd.sim import Faults
from tests.sim.order_played import KINDS, Shuffled, placed
from tests.sim.query_played import Queried, own, without
from tests.sim.token_played import Walked, own_buckets

DELTA = 1e-5


def test_token_walk_with_a_dead_branch_is_broken():
    """Steps that are in no sum that came home: their holders may have kept what they added to."""
    dead = 0
    for seed in range(12):
        walked = Walked(own_buckets(steps=30), seed, Faults(outages=40.0, downtime=90.0))
        collected, protocol = walked.collected, walked.protocol
        if not collected.reports or collected.crowd < 3:
            continue
        (walk,) = walked.walks
        branches = len(walk.visits) - len(list(line(walk.visits, walk.head)))
        dead += branches
        happened = protocol.conditional_on(collected)
        assert happened.broken == (branches > 0 or len(walk.visits) < 30)
        assert happened.steps == 30
        stated = happened.guarantee("peer+hub").epsilon(DELTA)
        assert stated >= protocol.guarantee("peer+hub").epsilon(DELTA)
    assert dead > 10


@pytest.mark.parametrize("gone", [1, 5])
def test_scrambled_query_with_people_away_states_what_was_planned(gone):
    """Dummies take their places, so that every scrambler sends as many messages as planned."""
    protocol = own(redirect_probability=0.3)
    queried = Queried(protocol, gone, change=without(*(device(2 * each) for each in range(gone))))
    happened = protocol.conditional_on(queried.found)
    assert set(queried.found.traffic[0].sum(axis=1).tolist()) == {10}
    assert settings_of(happened) == settings_of(protocol)
    stated, planned = (each.guarantee("network").epsilon(DELTA) for each in (happened, protocol))
    assert stated == planned


@pytest.mark.parametrize("kind", KINDS)
def test_order_shuffle_with_people_away_states_it_among_those_present(kind):
    protocol, values = placed(kind)
    there = [0, 1, 3, 4, 6]
    shuffled = Shuffled(protocol, 1, change=without(device(2), device(5)), values=values)
    happened = protocol.conditional_on(shuffled.found)
    few, few_values = (protocol.subset(there), values[there])
    expected = few.conditional_on(Shuffled(few, 1, values=few_values).found)
    found, due = happened.mechanism, expected.mechanism
    assert (found.alpha, found.theta, found.sensitivity) == (due.alpha, due.theta, due.sensitivity)
