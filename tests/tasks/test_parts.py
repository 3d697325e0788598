"""One question per person: each is estimated from those who drew it, for everybody."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import incrowd as ic
from incrowd.errors import ProtocolFailed
from incrowd.randomizers import KRR, OneOf, Ternary
from incrowd.randomness import Seeds
from incrowd.tasks import Collected, Histogram, Mean, parts_of

MODE = Histogram(categories=("bus", "bike", "car"))
AGE = Mean(bounds=(0, 100))
ONE = OneOf((KRR(epsilon=2.0, categories=4), Ternary(epsilon=2.0)), (0.6, 0.4))


def people(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    mode = rng.choice(["bus", "bike", "car", ""], n, p=[0.5, 0.3, 0.1, 0.1])
    age = np.where(rng.random(n) < 0.2, np.nan, rng.normal(40, 12, n))
    return mode, age


def encoded(mode: np.ndarray, age: np.ndarray) -> np.ndarray:
    return np.column_stack([MODE.encode(mode), AGE.encode(age)])


def test_each_question_is_estimated_for_everybody():
    """Limits cover the truth of all people, not only of those who drew the question."""
    rng = np.random.default_rng(8)
    mode, age = people(3000, rng)
    values, missed = encoded(mode, age), np.zeros(6, int)
    truth = np.concatenate([MODE.truth(mode), AGE.truth(age)])
    for _ in range(100):
        collected = Collected((ONE.randomize(values, rng),), sent=3000)
        answers = [
            task.estimate(part, randomizer)
            for task, part, randomizer in zip(
                (MODE, AGE), parts_of(collected, ONE), ONE.parts, strict=True
            )
        ]
        low, high = (np.concatenate([getattr(a, end) for a in answers]) for end in ("low", "high"))
        missed += (truth < low) | (truth > high)
    assert missed.max() <= binom.isf(1e-5, 100, 0.05)


def test_parts_share_all_reports_of_all_rounds():
    rng = np.random.default_rng(9)
    values = encoded(*people(200, rng))
    protocol = ic.TrustedShuffle(ONE, n=200, rounds=3)
    collected = protocol.collect(values, Seeds(4))
    parts = parts_of(collected, ONE)
    assert sum(part.received for part in parts) == 600
    assert all(len(part.rounds) == 3 and part.dropped == 0 for part in parts)


def test_dummies_are_split_with_the_reports():
    graph = ic.graphs.random_regular(300, 8, np.random.default_rng(3))
    protocol = ic.NetworkShuffle(ONE, graph=graph, rounds=20, hand_in="single")
    rng = np.random.default_rng(9)
    mode, age = people(300, rng)
    collected = protocol.collect(encoded(mode, age), Seeds(4))
    first, second = parts_of(collected, ONE)
    assert first.dummies.center.shape == (4,)
    assert second.dummies.center.shape == (3,)
    z = (MODE.estimate(first, ONE.parts[0]).value - MODE.truth(mode)) / np.sqrt(
        first.estimate(ONE.parts[0]).variance
    )
    assert np.abs(z).max() < 4.5


def test_question_that_nobody_drew_has_no_answer():
    reports = ONE.randomize(np.zeros((400, 2)), np.random.default_rng(1))
    only = Collected((reports[reports[:, 0] == 0], reports[:0]), sent=400)
    first, second = parts_of(only, ONE)
    assert first.received > 0
    with pytest.raises(ProtocolFailed, match="nothing to estimate"):
        AGE.estimate(second, ONE.parts[1])
