"""Check-in without dummies: reports are counted where people cannot be."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from incrowd.protocols.check_in import CheckIn
from incrowd.protocols.check_in.simulate import CheckedIn
from incrowd.protocols.check_in.theorems.counted_reports import fewest_people
from incrowd.randomizers import RR
from incrowd.sim import Faults, run
from tests.oracles.stopping import response_counts

DELTA = 1e-6


def counted(protocol, counts, colluders=0):
    """The guarantee of a run with these numbers of reports."""
    rounds = tuple(np.zeros(count, np.int64) for count in counts)
    present = (protocol.n,) * len(counts)
    happened = protocol.conditional_on(CheckedIn(rounds, sent=sum(counts), present=present))
    return happened.guarantee("curator", colluders)


def uncounted(n=400, rate=0.25, rounds=1, **more):
    return CheckIn(RR(epsilon=1.0), n=n, rate=rate, rounds=rounds, dummies=False, **more)


def test_statement_when_40_of_400_are_there_is_above_the_attack():
    """6 reports came where 100 were expected; an attack on 40 people attains 0.3274."""
    attack = CheckIn(RR(epsilon=1.0), n=40, rate=0.25).guarantee().lower(DELTA)
    assert attack == pytest.approx(0.3274, abs=5e-5)
    assert counted(uncounted(), [6]).epsilon(DELTA) >= attack


def test_statement_when_the_expected_reports_come_counts_249_people():
    assert fewest_people(100, 0.25, 1e-7, 400) == 249
    assert counted(uncounted(), [100]).epsilon(DELTA) == pytest.approx(0.149, abs=5e-4)
    assert counted(uncounted(), [100]).epsilon(DELTA) >= uncounted().guarantee().epsilon(DELTA)


@pytest.mark.parametrize("seed", range(3))
def test_played_run_when_most_people_are_away_states_at_least_the_attack(seed):
    protocol = uncounted(n=200)
    played = run(protocol, np.zeros(200, int), faults=Faults(dropout=0.9), seed=seed)
    there = 200 - played.played.statistics.absent
    assert 5 < there < 40
    attack = CheckIn(RR(epsilon=1.0), n=there, rate=0.25).guarantee().lower(DELTA)
    assert played.guarantees[0].epsilon(DELTA) >= attack


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("count", [0, 1, 7, 30])
def test_fewest_people_is_the_least_crowd_of_which_so_many_are_likely(count, rate):
    for beta in (0.07, 3e-4, 3e-12):
        found = fewest_people(count, rate, beta, 60)
        crowds = range(max(count, 1), 61)
        likely = (crowd for crowd in crowds if binom.sf(count - 1, crowd, rate) > beta)
        assert found == min(likely, default=60)


@pytest.mark.parametrize("delta", [0.02, 0.2])
@pytest.mark.parametrize("rate", [0.3, 0.7])
def test_statements_when_nobody_knows_the_crowd_are_right_together(delta, rate):
    """Σ (P − e^ε(K)·Q)₊ ≤ δ by enumeration, whoever is there; counting everyone is not."""
    n = 12
    protocol = uncounted(n=n, rate=rate)
    stated = np.array([counted(protocol, [k]).epsilon(delta) for k in range(n + 1)])
    planned = protocol.guarantee().epsilon(delta)
    wrong = 0
    for there in range(1, n + 1):
        first, other = response_counts(there, 1.0, rate)
        tilt = np.exp(stated[: there + 1])[:, None]
        truth = max(
            float(np.maximum(first - tilt * other, 0).sum()),
            float(np.maximum(other - tilt * first, 0).sum()),
        )
        assert truth <= delta
        wrong += float(np.maximum(first - math.exp(planned) * other, 0).sum()) > delta
    assert wrong > 0 or delta > 0.1


def test_statements_of_two_rounds_are_right_together():
    n, rate, delta = 5, 0.5, 0.1
    protocol = uncounted(n=n, rate=rate, rounds=2)
    stated = np.array(
        [[counted(protocol, [a, b]).epsilon(delta) for a in range(n + 1)] for b in range(n + 1)]
    )
    for there in range(1, n + 1):
        first, other = response_counts(there, 1.0, rate)
        tilt = np.exp(stated[: there + 1, : there + 1])[:, None, :, None]
        gain = np.multiply.outer(first, first) - tilt * np.multiply.outer(other, other)
        assert float(np.maximum(gain, 0).sum()) <= delta


def test_colluders_are_taken_off_the_count():
    """Their reports may be among those that came: five of 100 leave 95 to count on."""
    found = counted(uncounted(), [100], colluders=5)
    assert found.profile.crowds(1e-7) == ((fewest_people(95, 0.25, 1e-7, 395), 1),)
    assert found.epsilon(DELTA) > counted(uncounted(), [100]).epsilon(DELTA)


def test_round_that_was_not_held_counts_as_one_without_reports():
    protocol = uncounted(n=60, rate=0.5, rounds=3)
    stopped = counted(protocol, [30, 30]).epsilon(DELTA)
    assert stopped == counted(protocol, [30, 30, 0]).epsilon(DELTA)
    assert stopped > counted(protocol, [30, 30, 30]).epsilon(DELTA)


def test_delta_is_the_least_whose_own_statement_suffices():
    found = counted(uncounted(), [60])
    for delta in (1e-3, 1e-6, 1e-9):
        epsilon = found.epsilon(delta)
        assert found.delta(epsilon) <= delta * (1 + 1e-6)
        assert found.epsilon(found.delta(epsilon)) <= epsilon * (1 + 1e-6)
    assert found.delta(-0.5) >= -math.expm1(-0.5)
    assert found.delta(5.0) == 0.0


def test_different_rates_are_counted_at_the_highest():
    protocol = CheckIn(RR(epsilon=1.0), n=40, rates=[0.1] * 20 + [0.5] * 20, dummies=False)
    found = counted(protocol, [10])
    least = fewest_people(10, 0.5, 1e-7, 40)
    assert found.profile.crowds(1e-7) == ((least, 1),)
    per_person = found.per_person(DELTA)
    assert per_person is not None
    assert per_person.max() == pytest.approx(found.epsilon(DELTA))
    assert per_person[0] < per_person[-1]


def test_many_rounds_are_counted_by_few_levels_from_below():
    protocol = uncounted(n=60, rate=0.5, rounds=30)
    counts = [20 + number % 15 for number in range(30)]
    levels = dict(counted(protocol, counts).profile.levels)
    assert sum(levels.values()) == 30
    assert len(levels) <= 8
    taken = sorted(level for level, times in levels.items() for _ in range(times))
    assert all(low <= count for low, count in zip(taken, sorted(counts), strict=True))
