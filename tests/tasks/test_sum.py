"""The sum of a number is its mean times the people."""

import numpy as np
import pytest

import incrowd as ic


def test_sum_is_the_mean_times_the_people():
    values = np.random.default_rng(1).uniform(-5, 15, 5000)
    protocol = ic.TrustedShuffle(ic.OneBit(epsilon=2.0), n=5000)
    mean, total = (
        protocol.simulate(values, task=kind(bounds=(-5, 15), complete=True), seed=3).result
        for kind in (ic.Mean, ic.Sum)
    )
    for name in ("value", "low", "high", "standard_error"):
        np.testing.assert_allclose(getattr(total, name), 5000 * getattr(mean, name))
    assert total.labels == ("sum",)
    assert total.low[0] < values.sum() < total.high[0]


def test_sum_truth_and_scale_are_over_all_people():
    task = ic.Sum(bounds=(0, 10))
    assert task.truth(np.array([1, 2, 3.5])) == pytest.approx([6.5, 0])
    assert task.scale(20) == 200
