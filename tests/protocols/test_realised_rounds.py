"""Rounds held and crowds that came may follow from what was seen: what a run then states.

Every row compares a statement with the truth under the best stopping rule, which
``tests.oracles.stopping`` computes.
"""

import math

import numpy as np
import pytest

from incrowd.privacy.gaussian import GaussianProfile
from incrowd.protocols.check_in import CheckIn
from incrowd.protocols.check_in.simulate import CheckedIn
from incrowd.protocols.local import Local
from incrowd.protocols.token_walk import TokenWalk
from incrowd.protocols.token_walk.roles.token import Carried
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import RR, Gaussian
from incrowd.tasks.base import Collected
from tests.oracles.stopping import (
    picked_gaussian,
    response_counts,
    stopped_gaussian,
    stopped_response,
)

ROUNDS, SHIFT, DELTA = 40, 0.5, 1e-3


def collected(protocol, crowds):
    """What a curator has who stopped after these rounds."""
    rounds = tuple(np.zeros(crowd, np.int64) for crowd in crowds)
    if isinstance(protocol, CheckIn):
        return CheckedIn(rounds, sent=sum(crowds), present=tuple(crowds))
    return Collected(rounds, sent=protocol.n * protocol.rounds)


def stated(protocol, delta, crowd):
    """The ε after each number of rounds, all with this crowd."""
    return [
        protocol.conditional_on(collected(protocol, (crowd,) * held)).guarantee().epsilon(delta)
        for held in range(1, protocol.rounds + 1)
    ]


def test_oracle_when_each_statement_is_of_the_rounds_held_finds_them_wrong():
    held = [GaussianProfile(SHIFT * math.sqrt(t)).epsilon(DELTA) for t in range(1, ROUNDS + 1)]
    assert stopped_gaussian(SHIFT, held) > 0.0055
    assert stopped_gaussian(SHIFT, [held[-1]] * ROUNDS) == pytest.approx(DELTA, rel=1e-2)
    alone = [Local(RR(epsilon=0.5), n=1, rounds=t).guarantee().epsilon(DELTA)
             for t in range(1, ROUNDS + 1)]  # fmt: skip
    assert stopped_response(0.5, alone) > 3 * DELTA
    assert stopped_response(0.5, [alone[-1]] * ROUNDS) <= DELTA


def test_local_gaussian_when_stopped_by_the_loss_states_enough():
    protocol = Local(Gaussian.with_sigma(1 / SHIFT), n=1, rounds=ROUNDS)
    assert stopped_gaussian(SHIFT, stated(protocol, DELTA, 1)) <= DELTA * (1 + 1e-2)


@pytest.mark.parametrize(
    "protocol",
    [
        Local(RR(epsilon=0.5), n=1, rounds=ROUNDS),
        TrustedShuffle(RR(epsilon=0.5), n=1, rounds=ROUNDS),
        CheckIn(RR(epsilon=0.5), n=1, rate=1.0, rounds=ROUNDS),
        CheckIn(RR(epsilon=0.5), n=1, rate=1.0, rounds=ROUNDS, min_participants=1),
        CheckIn(RR(epsilon=0.5), n=1, rate=1.0, rounds=ROUNDS, dummies=False),
    ],
    ids=["local", "shuffle", "check-in", "check-in-least", "check-in-uncounted"],
)
def test_run_when_stopped_by_the_loss_states_enough(protocol):
    assert stopped_response(0.5, stated(protocol, DELTA, 1)) <= DELTA


def test_token_walk_when_stopped_by_the_loss_states_enough():
    """Everyone sees each of 60 steps, of which one in three is the victim's."""
    protocol = TokenWalk(Gaussian.with_sigma(1 / SHIFT), n=3, steps=60)
    after = []
    for held in range(1, 61):
        home = Carried(
            rounds=(), sent=held, total=np.zeros(()), reports=held, noise=held, steps=held,
            crowd=3, losses=None, drawn=True,
        )  # fmt: skip
        after.append(protocol.conditional_on(home).guarantee("everyone").epsilon(DELTA))
    assert stopped_gaussian(SHIFT, after, rate=1 / 3) <= DELTA * (1 + 1e-2)


@pytest.mark.parametrize("kind", [TrustedShuffle, Local, CheckIn])
def test_realised_when_stopped_with_people_away_counts_on_no_crowd(kind):
    """Who would have come to the rounds that were not held is not known."""
    more = {"rate": 0.5} if kind is CheckIn else {}
    protocol = kind(RR(epsilon=1.0), n=20, rounds=4, **more)
    alone = kind(RR(epsilon=1.0), n=1, rounds=4, **more).guarantee().epsilon(DELTA)
    happened = protocol.conditional_on(collected(protocol, (19, 20)))
    assert happened.guarantee().epsilon(DELTA) == alone
    whole = protocol.conditional_on(collected(protocol, (20, 20)))
    assert whole.guarantee().epsilon(DELTA) == protocol.guarantee().epsilon(DELTA)


def test_oracle_when_the_next_crowd_is_picked_finds_exact_statements_wrong():
    exact = {each: GaussianProfile(math.hypot(1.0, each)).epsilon(0.01) for each in (0.1, 2.0)}
    assert picked_gaussian(1.0, exact) > 0.0152
    assert picked_gaussian(1.0, dict.fromkeys(exact, max(exact.values()))) <= 0.01 * (1 + 1e-6)


def test_check_in_when_the_next_crowd_is_picked_states_the_least_one():
    """Whichever crowd comes to the second round, the statement is the same and covers both."""
    large, small, delta = 60, 20, 0.01
    protocol = CheckIn(RR(epsilon=1.0), n=large, rate=1.0, rounds=2, min_participants=small)
    after = {
        crowd: protocol.conditional_on(collected(protocol, (large, crowd)))
        .guarantee()
        .epsilon(delta)
        for crowd in (small, 40, large)
    }
    assert set(after.values()) == {protocol.guarantee().epsilon(delta)}
    first, other = (law[-1] for law in response_counts(large, 1.0))
    truth = 0.0
    for here, there in zip(first, other, strict=True):
        gains = []
        for crowd, epsilon in after.items():
            second, second_other = (law[-1] for law in response_counts(crowd, 1.0))
            gain = here * second - math.exp(epsilon) * there * second_other
            gains.append(float(np.maximum(gain, 0.0).sum()))
        truth += max(gains)
    assert truth <= delta


def test_check_in_when_attendance_alone_decides_counts_those_heard_of():
    protocol = CheckIn(RR(epsilon=1.0), n=60, rate=0.5, rounds=3)
    happened = protocol.conditional_on(collected(protocol, (60, 45, 50)))
    assert (happened.crowd, happened.rounds) == (45, 3)
    assert any("earlier rounds gave" in each for each in happened.guarantee().assumptions)
    once = CheckIn(RR(epsilon=1.0), n=60, rate=0.5)
    assert not any("earlier rounds gave" in each for each in once.guarantee().assumptions)


def test_partial_answers_state_what_a_plan_of_so_many_rounds_would():
    protocol = CheckIn(RR(epsilon=1.0), n=50, rate=0.4, rounds=12, min_participants=0.9)
    run = protocol.simulate(np.zeros(50, int), seed=3)
    assert [each.rounds for each in run.refined] == [1, 2, 5, 10, 12]
    for each in run.refined:
        assert each.protocol.rounds == each.rounds
    assert run.refined[-1].protocol.guarantee().epsilon(DELTA) == run.guarantees[0].epsilon(DELTA)
    stopped = protocol.conditional_on(run.collected.first(2))
    assert stopped.guarantee().epsilon(DELTA) == protocol.guarantee().epsilon(DELTA)
