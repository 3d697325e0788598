"""The plain computations that the benchmark measures against are right, and its targets bite."""

import pytest

from tests.experiments.benchmarks import loaded


@pytest.fixture(scope="module")
def benchmark():
    with loaded("shuffle") as module:
        yield module


@pytest.mark.parametrize("n", [1_000, 10_000])
def test_exact_sum_agrees_with_ours(benchmark, n):
    exact = benchmark.summed_epsilon(n)
    assert exact * (1 - benchmark.SEARCH) <= benchmark.our_epsilon(n) <= exact * (1 + 1e-4)


def test_composed_epsilon_equals_composition_by_hand(benchmark):
    theirs = benchmark.composed_by_hand(1_000)
    assert benchmark.our_composed_epsilon(1_000) == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize(
    ("kind", "epsilon", "seconds", "holds"),
    [
        ("exact", 1.00001, 1.0, True),
        ("exact", 0.99999, 1.0, False),
        ("exact", 1.001, 1.0, False),
        ("exact", 1.00001, 3.0, False),
        ("bound", 0.9, 1.0, True),
        ("bound", 1.001, 1.0, False),
        ("growth", 0.1, 8.0, True),
        ("growth", 0.1, 50.0, False),
    ],
)
def test_case_holds_within_ratio_and_time_limits(benchmark, kind, epsilon, seconds, holds):
    ours = benchmark.Timed(lambda: epsilon, epsilon, seconds)
    other = benchmark.Timed(lambda: 1.0, 1.0, 4.0)
    assert benchmark.Case("case", ours, other, "other", 2.0, kind).holds is holds
