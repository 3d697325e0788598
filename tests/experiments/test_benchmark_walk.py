"""The contenders of the walk benchmark walk rightly, its χ² test and its targets bite."""

import json
import math
import sys

import numpy as np
import pytest

from incrowd import graphs
from tests.experiments.benchmarks import loaded

WALKERS, ROUNDS = 20_000, 3


@pytest.fixture(scope="module")
def benchmark():
    with loaded("walk") as module:
        yield module


@pytest.fixture(scope="module")
def graph():
    return graphs.with_random_peers(graphs.from_edges([], [], 60), 3, 1)


@pytest.fixture
def laws(benchmark, graph):
    begin = np.zeros(graph.n)
    begin[0] = 1
    return benchmark.law(graph, begin, ROUNDS), benchmark.law(graph, begin, ROUNDS, 0.05)


def judge(benchmark, ends, laws):
    right, wrong = laws
    assert benchmark.p_value(np.asarray(ends), right) > 1e-4
    assert benchmark.p_value(np.asarray(ends), wrong) < 1e-4


def test_population_has_mean_degree_of_ten(benchmark):
    assert benchmark.population(2_000).degrees.mean() == pytest.approx(10, rel=0.01)


def test_c_walk_follows_law(benchmark, graph, laws, tmp_path):
    loop = benchmark.compiled_walk(tmp_path)
    if isinstance(loop, str):
        pytest.skip(loop)
    starts = np.zeros(WALKERS, dtype=np.int32)
    judge(benchmark, benchmark.c_walk(loop, graph, starts, ROUNDS), laws)
    assert not starts.any()


def test_compiled_walk_without_compiler_says_so(benchmark, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no C compiler" in benchmark.compiled_walk(tmp_path)


def test_networkx_and_list_walks_follow_law(benchmark, graph, laws):
    networkx = pytest.importorskip("networkx")
    peer = networkx.Graph(np.stack(graph.edges(), axis=1).tolist())
    judge(benchmark, benchmark.networkx_walk(peer, [0] * WALKERS, ROUNDS), laws)
    lists = [graph.neighbours(v).tolist() for v in range(graph.n)]
    judge(benchmark, benchmark.list_walk(lists, [0] * WALKERS, ROUNDS), laws)


def test_p_value_of_impossible_position_is_zero(benchmark):
    assert benchmark.p_value(np.array([0, 0, 1]), np.array([1.0, 0.0])) == 0
    assert benchmark.p_value(np.array([0, 0, 0]), np.array([1.0, 0.0])) == 1


@pytest.mark.parametrize(
    ("value", "target", "side", "holds"),
    [
        (2.9, 3.0, "at most", True),
        (3.1, 3.0, "at most", False),
        (31.0, 30.0, "at least", True),
        (29.0, 30.0, "at least", False),
        (math.nan, 3.0, "at most", False),
        (29.0, None, "at least", None),
        (None, 3.0, "at most", None),
    ],
)
def test_result_holds_on_stated_side_of_target(benchmark, value, target, side, holds):
    assert benchmark.Result("case", value, "×", target, side).holds is holds


def test_small_run_reports_all_results(benchmark, monkeypatch, capsys):
    # Times of so short a walk mean nothing; everything else must be there and hold. So few walkers
    # tell a walk only from one that rests much more.
    monkeypatch.setattr(benchmark, "FEW_WALKERS", 20)
    monkeypatch.setattr(benchmark, "RESTING", 0.3)
    options = ["--people", "3e3", "--rounds", "30", "--repeats", "1", "--format", "json"]
    monkeypatch.setattr(sys, "argv", ["walk.py", *options])
    benchmark.main()
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["results"]}
    assert found["peak memory"]["value"] > 0.01
    assert all(each["holds"] for name, each in found.items() if name.startswith("χ²"))
    assert len(found) >= 6
