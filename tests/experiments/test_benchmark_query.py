"""The contenders of the query benchmark compute the same, and its differences bite."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from tests.experiments.benchmarks import loaded


@pytest.fixture(scope="module")
def benchmark():
    with loaded("scrambled_query") as module:
        yield module


@pytest.mark.parametrize("sampling", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_double_sum_equals_accountant_bound(benchmark, sampling, epsilon):
    """It is what the accountant bounds, hardly below it."""
    bound = ScramblerProfile(20, sampling, 300, 500).delta(epsilon)
    assert benchmark.double_sum(20, sampling, 300, 500, epsilon) == pytest.approx(bound, rel=1e-3)


def test_difference_detects_wrong_and_missing_rows(benchmark):
    query = benchmark.Query(sql=benchmark.SQL, table="patients", columns=benchmark.COLUMNS)
    answer = benchmark.simulated(query, benchmark.encoded(query, 500), 0.0)
    rows = [row.values for row in answer.rows]
    rng = np.random.default_rng(1)
    rng.shuffle(rows)
    assert benchmark.difference(answer, rows) == 0
    assert benchmark.difference(answer, rows[1:]) == np.inf
    off = [(*row[:4], row[4] * (1 + 1e-9), row[5]) for row in rows]
    assert benchmark.difference(answer, off) == pytest.approx(1e-9, rel=1e-3)
    more = [(*row[:3], row[3] + 1, *row[4:]) for row in rows]
    assert benchmark.difference(answer, more) == np.inf
    fewer = replace(answer, rows=answer.rows[1:])
    assert benchmark.difference(fewer, rows) == np.inf


def test_small_run_reports_all_results(benchmark, monkeypatch, capsys):
    # Times of so small a query mean nothing; everything else must be there and hold.
    options = ["--tuples", "2e3", "--repeats", "1", "--sources", "300", "--format", "json"]
    monkeypatch.setattr(sys, "argv", ["scrambled_query.py", *options])
    benchmark.main()
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["results"]}
    assert len(found) == 5
    assert found["difference of the answers"]["holds"]
    assert found["difference of ε"]["holds"]


def test_comparison_without_duckdb_is_skipped(benchmark, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (skipped,) = benchmark.beside_database(1000, 1)
    assert skipped.value is None
    assert skipped.note.startswith("skipped: no duckdb")
