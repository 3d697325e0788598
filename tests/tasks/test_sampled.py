"""An answer about everybody from those who happened to be in."""

import numpy as np

import incrowd as ic
from incrowd.protocols.check_in.simulate import CheckedIn
from incrowd.tasks.base import Collected


def test_check_in_limits_cover_random_participation():
    # So little noise that nearly all of the error is who was in.
    randomizer = ic.KRR(categories=2, epsilon=8.0)
    values = np.arange(1000) % 2
    protocol = ic.CheckIn(randomizer, n=1000, rate=0.1, rounds=3)
    covered = 0
    for seed in range(200):
        result = protocol.simulate(values, seed=seed).result
        covered += bool(result.low[0] <= 0.5 <= result.high[0])
    assert 178 <= covered <= 199


def test_sampled_limits_are_wider_than_those_of_noise_alone():
    randomizer = ic.KRR(categories=3, epsilon=4.0)
    task = ic.Histogram(categories=("a", "b", "c"), complete=True)
    rng = np.random.default_rng(1)
    reports = randomizer.randomize(rng.permutation(3000) % 3, rng)
    alone = task.estimate(Collected(rounds=(reports,), sent=3000), randomizer)
    sampled = task.estimate(CheckedIn(rounds=(reports,), sent=3000, present=(9000,)), randomizer)
    np.testing.assert_array_equal(sampled.value, alone.value)
    assert (sampled.standard_error > 1.3 * alone.standard_error).all()


def test_collected_first_keeps_the_first_rounds():
    rounds = (np.array([0, 1]), np.array([], int), np.array([1]))
    whole = CheckedIn(rounds=rounds, sent=3, present=(9, 8, 7))
    part = whole.first(2)
    assert (part.crowds, part.sent, part.present) == ((2, 0), 2, (9, 8))
    plain = Collected(rounds=rounds, sent=30)
    assert (plain.first(1).crowds, plain.first(1).sent) == ((2,), 10)
