"""The system's generator behaves as numpy's own do, and can be neither seeded nor repeated."""

import gc

import numpy as np
import pytest
from scipy import stats

from incrowd.randomness import Seeds, system_generator


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
def test_system_generator_integers_are_uniform(dtype):
    counts = np.bincount(system_generator().integers(0, 16, 20_000, dtype=dtype), minlength=16)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_system_generator_fractions_are_uniform_multiples():
    drawn = system_generator().random(20_000)
    assert stats.kstest(drawn, "uniform").pvalue > 1e-6
    assert np.array_equal(np.floor(drawn * 2**53), drawn * 2**53)


def test_system_generators_differ():
    seen = {system_generator(0).bytes(16) for _ in range(200)}
    assert len(seen) == 200


def test_system_generator_outlives_its_bit_source():
    generators = [system_generator() for _ in range(50)]
    gc.collect()
    assert len({float(each.random()) for each in generators}) == 50


def test_seeds_streams_repeat():
    assert Seeds(3).generator("a", 1).random() == Seeds(3).generator("a", 1).random()
