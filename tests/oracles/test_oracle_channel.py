"""Channels given by a matrix, against exact enumeration of the law that is really drawn."""

from __future__ import annotations

import math
import random
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from enumeration import Matrix, krr_matrix, random_matrix, worst_delta

from incrowd.privacy import ComposedProfile, LocalProfile, ShuffleProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.privacy.mixed import mixed_crowd
from incrowd.randomizers import Channel

TS = (F(1, 4), F(2, 3), F(1), F(6, 5), F(3, 2), F(5, 2))


def channels(count: int, seed: int):
    rng = random.Random(seed)
    for index in range(count):
        shape = rng.choice([(2, 3), (3, 3), (3, 4), (4, 3)])
        ratio = rng.choice([F(3, 2), F(2), F(3), F(5)])
        rows = random_matrix(rng, *shape, ratio, extremal=index % 2 == 0)
        if len(set(rows)) > 1:
            yield Channel([[float(cell) for cell in row] for row in rows])


def realised(channel: Channel) -> Matrix:
    law = channel.law
    return tuple(tuple(F(int(cell), law.total) for cell in row) for row in law.counts)


def below(t: F) -> float:
    """An ε just below ln t: a bound there is at least the one at t."""
    return math.log(t) - 4 * math.ulp(max(1.0, abs(math.log(t))))


def above(t: F) -> float:
    return math.log(t) + 4 * math.ulp(max(1.0, abs(math.log(t))))


def test_channel_bounds_never_below_enumeration():
    tight = 0
    for channel in channels(24, seed=23):
        for n in (1, 2, 4):
            truth = worst_delta(realised(channel), n, TS)
            pairs = blanket_profile(channel, n)
            single = ShuffleProfile(channel.blanket(), n, LocalProfile(channel))
            for t in TS:
                bound = pairs.delta(below(t))
                assert truth[t] <= bound
                assert truth[t] <= single.delta(below(t))
                tight += truth[t] > 0.98 * bound > 0 and t > 1 and n > 1
    assert tight > 0  # a bound lowered by 2 % would have been caught


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_channel_bounds_never_below_enumeration_sweep(seed):
    for channel in channels(40, seed=500 + seed):
        for n in (2, 3, 5):
            truth = worst_delta(realised(channel), n, TS)
            pairs = blanket_profile(channel, n)
            for t in TS:
                assert truth[t] <= pairs.delta(below(t))


def test_channel_attacks_never_above_enumeration():
    for channel in channels(16, seed=29):
        for n in (1, 2, 4):
            truth = worst_delta(realised(channel), n, TS)
            for law in channel.attack():
                profile = ShuffleProfile(law, n, LocalProfile(channel))
                for t in TS[2:]:
                    assert profile.bracket(above(t)).lower <= truth[t] * (1 + F(1, 10**9))


def test_channel_local_curve_equals_enumeration_of_one_person():
    for channel in channels(16, seed=31):
        truth = worst_delta(realised(channel), 1, TS)
        for t in TS:
            assert truth[t] <= channel.local_delta(below(t)) <= truth[t] + F(1, 10**12)


def test_channel_epsilon_is_pure_bound_of_realised_law():
    for channel in channels(16, seed=37):
        top = max(max(column) / min(column) for column in zip(*realised(channel), strict=True))
        assert math.exp(channel.epsilon) >= top * (1 - F(1, 10**15))
        assert channel.epsilon <= math.log(top) * (1 + 1e-14)


def test_krr_channel_is_tight_where_krr_is():
    """Two values and few people: the bound is the truth, and 2 % less would be below it."""
    matrix = krr_matrix(2, F(3))
    channel = Channel([[float(cell) for cell in row] for row in matrix])
    truth = worst_delta(realised(channel), 2, [F(5, 2)])[F(5, 2)]
    bound = blanket_profile(channel, 2).delta(below(F(5, 2)))
    assert truth <= bound
    assert 0.98 * bound < truth


def test_two_rounds_of_a_channel_never_below_enumeration():
    """Pairs may differ from round to round: the maximum of the curves is composed."""
    rng = np.random.default_rng(5)
    for channel in channels(6, seed=41):
        rows, n = realised(channel), 2
        size = len(rows)
        laws = [_multisets(rows, people) for people in product(range(size), repeat=2)]
        profile = ComposedProfile(((blanket_profile(channel, n), 2),))
        for _ in range(12):
            x0, x1, y0, y1 = rng.integers(size, size=4)
            first, second = rng.integers(size, size=2)
            P = _product(laws[x0 * size + first], laws[y0 * size + second])
            Q = _product(laws[x1 * size + first], laws[y1 * size + second])
            for t in (F(1), F(3, 2), F(3)):
                truth = sum(max(F(0), mass - t * Q[key]) for key, mass in P.items())
                assert truth <= profile.delta(below(t)) * (1 + 1e-12)


def test_mixed_crowd_of_a_channel_takes_the_worst_pair():
    for channel in channels(6, seed=43):
        laws = [law.partially_mixed(0.5) for law in channel.blankets()]
        each = [ShuffleProfile(law, 6, LocalProfile(channel)).delta(0.1) for law in laws]
        assert mixed_crowd(channel, 6, 0.5).delta(0.1) == pytest.approx(max(each))


def _multisets(rows: Matrix, people: tuple[int, ...]) -> dict[tuple[int, ...], F]:
    law: dict[tuple[int, ...], F] = {(): F(1)}
    for x in people:
        longer: dict[tuple[int, ...], F] = {}
        for seen, mass in law.items():
            for y, chance in enumerate(rows[x]):
                key = tuple(sorted((*seen, y)))
                longer[key] = longer.get(key, F(0)) + mass * chance
        law = longer
    return law


def _product(first: dict, second: dict) -> dict:
    return {(a, b): p * q for a, p in first.items() for b, q in second.items()}
