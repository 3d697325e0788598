"""The live benchmark measures what it says, and its targets bite."""

import asyncio
import json
import math
import sqlite3
import sys
from contextlib import closing

import pytest

from incrowd.live.store import SqliteStore
from tests.experiments.benchmarks import loaded


@pytest.fixture(scope="module")
def benchmark():
    with loaded("live") as module:
        yield module


def test_store_and_raw_table_hold_equal_durable_reports(benchmark, tmp_path):
    batches = [[benchmark.report_rows(4, 2)], [benchmark.report_rows(8, 1)]]
    rows = [row for (batch,) in batches for row in batch]
    assert len({row.id for row in rows}) == 16
    with (
        SqliteStore(tmp_path / "store.db") as store,
        closing(benchmark.raw_table(tmp_path / "raw.db", store)) as raw,
    ):
        for pragma in ("journal_mode", "synchronous", "page_size"):
            assert list(raw.execute(f"PRAGMA {pragma}").fetchone()) == store._pragma(pragma)
        assert asyncio.run(benchmark.group_commits(store, batches)) > 0
        benchmark.raw_commits(raw, [rows])
        assert store.transact(lambda tables: tables.counts()).waiting == 16
        assert raw.execute("SELECT count(*) FROM cells").fetchone() == (16,)
        with pytest.raises(sqlite3.IntegrityError):
            benchmark.raw_commits(raw, [rows[:1]])
        with pytest.raises(RuntimeError, match="known"):
            asyncio.run(benchmark.group_commits(store, batches))


@pytest.mark.parametrize(
    ("value", "target", "side", "holds"),
    [
        (2.9, 3.0, "at most", True),
        (3.1, 3.0, "at most", False),
        (0.31, 0.3, "at least", True),
        (0.29, 0.3, "at least", False),
        (math.nan, 3.0, "at most", False),
        (0.29, None, "at least", None),
    ],
)
def test_result_holds_on_stated_side_of_target(benchmark, value, target, side, holds):
    assert benchmark.Result("case", value, "×", target, side).holds is holds


def test_pair_ratio_is_median_of_ratios(benchmark):
    assert benchmark.Pair([1.0, 8.0, 3.0], [2.0, 2.0, 3.0]).ratio == 1.0


def test_short_run_reports_all_results(benchmark, monkeypatch, capfd):
    # Rates of so short a run mean nothing; everything else must be there.
    options = ["--rounds", "1", "--batches", "2", "--pairs", "2", "--format", "json"]
    monkeypatch.setattr(sys, "argv", ["live.py", *options])
    code = benchmark.main()
    results = json.loads(capfd.readouterr().out)["results"]
    assert len(results) == 4
    assert all(each["value"] > 0 for each in results)
    assert code == (not all(each["holds"] for each in results))
