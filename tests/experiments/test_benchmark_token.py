"""The contenders of the token benchmark walk and count rightly, and its targets bite."""

import json
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from incrowd.protocols.token_walk.theorems.conditional_on_path import path_losses
from incrowd.randomizers import KRR
from tests.experiments.benchmarks import loaded


@pytest.fixture(scope="module")
def benchmark():
    with loaded("token_walk") as module:
        yield module


@pytest.fixture(scope="module")
def loops(benchmark, tmp_path_factory):
    found = benchmark.compiled(tmp_path_factory.mktemp("loops"))
    if isinstance(found, str):
        pytest.skip(found)
    return found


def test_c_noise_is_normal(benchmark, loops):
    """One step of one person at a time: noise alone, its tails included."""
    value = np.zeros(1)
    noise = [benchmark.c_sum(loops, value, 1.0, 1) for _ in range(60_000)]
    assert kstest(noise, "norm").pvalue > 1e-3
    assert max(np.abs(noise)) > 3.7
    assert kstest(np.array(noise) * 1.02, "norm").pvalue < 0.05


def test_c_holders_are_uniform(benchmark, loops):
    values = 100.0 ** np.arange(3)
    sums = [round(benchmark.c_sum(loops, values, 0.0, 3)) for _ in range(3_000)]
    counts = np.sum([[s % 100, s // 100 % 100, s // 10_000] for s in sums], axis=0)
    assert chisquare(counts).pvalue > 1e-3


def test_c_response_follows_krr_law(benchmark, loops):
    response = KRR(categories=3, epsilon=1.0)
    counts = benchmark.c_histogram(loops, np.array([2]), response, 30_000)
    assert counts.sum() == 30_000
    odds = np.array([1, 1, np.e]) / (2 + np.e)
    assert chisquare(counts, 30_000 * odds).pvalue > 1e-3


def test_simulations_without_compiler_are_skipped(benchmark, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no C compiler" in benchmark.compiled(tmp_path)
    found = benchmark.simulations(1_000, 1)
    skipped = [each for each in found if each.value is None]
    assert len(skipped) == 2
    assert all("no C compiler" in each.note and each.holds is None for each in skipped)


def test_plain_losses_equal_definition(benchmark):
    """Against the definition, stretch by stretch."""
    path = np.random.default_rng(1).integers(6, size=200)
    matrix = path_losses(path, 6, published=True)
    for observer in range(6):
        found = benchmark.plain_losses(path.tolist(), 6, observer)
        visits = [-1, *np.flatnonzero(path == observer).tolist(), path.size]
        direct = np.zeros(6)
        for start, end in pairwise(visits):
            stretch = path[start + 1 : end]
            if stretch.size:
                direct += np.bincount(stretch, minlength=6) ** 2 / stretch.size
        assert found == pytest.approx(direct)
        assert benchmark.pairs_of(matrix, [observer])[0] == pytest.approx(direct)


@pytest.mark.parametrize(
    ("value", "side", "holds"),
    [
        (0.31, "at least", True),
        (0.29, "at least", False),
        (0.29, "at most", True),
        (0.31, "at most", False),
        (None, "at most", None),
    ],
)
def test_result_holds_on_stated_side_of_target(benchmark, value, side, holds):
    assert benchmark.Result("case", value, "×", 0.3, side).holds is holds


def test_small_run_reports_all_results(benchmark, monkeypatch, capsys):
    # Times of so short a walk mean nothing; everything else must be there and hold.
    monkeypatch.setattr(benchmark, "PAIRS", 20)
    monkeypatch.setattr(benchmark, "PATH", 500)
    options = ["--steps", "2e4", "--repeats", "1", "--observers", "3", "--format", "json"]
    monkeypatch.setattr(sys, "argv", ["token_walk.py", *options])
    benchmark.main()
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["results"]}
    assert len(found) == 6
    assert all(
        found[name]["holds"] for name in ("law, sum", "law, histogram", "difference of the losses")
    )
