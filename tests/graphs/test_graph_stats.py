"""Statistics of a graph, and the command that prints them."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from incrowd import graphs
from incrowd.cli.graph import app
from incrowd.errors import GraphMalformed, InvalidGraph

LOLLIPOP = graphs.from_edges([0, 1, 2, 2, 3, 0], [1, 2, 0, 3, 4, 0], 5, self_loops=True)


def test_stats_fields_equal_independent_values() -> None:
    found = graphs.stats(LOLLIPOP)
    values = np.sort(np.linalg.eigvals(LOLLIPOP.transition().toarray()).real)
    assert found == graphs.GraphStats(
        vertices=5,
        edges=6,
        self_loops=1,
        degree_min=1,
        degree_mean=pytest.approx(11 / 5),
        degree_median=2.0,
        degree_max=3,
        components=1,
        largest_components=(5,),
        connected=True,
        bipartite=False,
        gamma=pytest.approx(5 * (9 + 4 + 9 + 4 + 1) / 121),
        lambda_2=pytest.approx(values[-2]),
        lambda_min=pytest.approx(values[0]),
        spectral_gap=pytest.approx(1 - max(values[-2], -values[0])),
        lazy_spectral_gap=pytest.approx((1 - values[-2]) / 2),
        eigen_residual=pytest.approx(0, abs=1e-14),
        mixing_rounds=graphs.mixing_rounds(LOLLIPOP),
        lazy_mixing_rounds=graphs.mixing_rounds(LOLLIPOP, 0.5),
    )
    assert msgspec.json.decode(msgspec.json.encode(found), type=graphs.GraphStats) == found
    with pytest.raises(AttributeError):
        found.vertices = 3  # type: ignore[misc]


def test_stats_of_disconnected_and_bipartite_graphs() -> None:
    pairs = graphs.from_edges([0, 2, 4, 6, 8, 10, 12], [1, 3, 5, 7, 9, 11, 13], 14)
    found = graphs.stats(pairs)
    assert (found.components, found.largest_components) == (7, (2, 2, 2, 2, 2))
    assert (found.connected, found.bipartite) == (False, True)
    assert (found.spectral_gap, found.lazy_spectral_gap) == (0, 0)
    assert (found.mixing_rounds, found.lazy_mixing_rounds) == (None, None)
    star = graphs.stats(graphs.star(5))
    assert (star.mixing_rounds, star.spectral_gap) == (None, 0)
    assert star.lazy_mixing_rounds is not None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lollipop.npz"
    graphs.save(LOLLIPOP, path)
    return path


def test_graph_command_prints_only_json(file: Path) -> None:
    result = CliRunner().invoke(app, ["stats", str(file), "--self-loops", "--format", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == msgspec.to_builtins(
        graphs.stats(LOLLIPOP), builtin_types=()
    ) | {"largest_components": [5], "self_loops_dropped": 0}


def test_graph_command_prints_table(file: Path) -> None:
    result = CliRunner().invoke(app, ["stats", str(file)])
    assert result.exit_code == 0, result.output
    for row in ("vertices", "irregularity", "spectral gap", "connected"):
        assert row in result.stdout
    line = next(each for each in result.stdout.splitlines() if "self-loops" in each)
    assert "0" in line


def test_graph_command_table_has_row_per_statistic(file: Path) -> None:
    from incrowd.cli.graph import _LABELS

    counted = [name for name in _LABELS if name != "self_loops_dropped"]
    assert counted == [field.name for field in msgspec.structs.fields(graphs.GraphStats)]


def test_graph_command_refuses_isolated_vertices_unless_reduced(tmp_path: Path) -> None:
    path = tmp_path / "g.npz"
    np.savez(path, u=np.array([0, 1, 4]), v=np.array([1, 2, 5]), n=np.int64(7))
    result = CliRunner().invoke(app, ["stats", str(path)])
    assert isinstance(result.exception, InvalidGraph)
    result = CliRunner().invoke(app, ["stats", str(path), "--largest-component"])
    assert result.exit_code == 0, result.output
    assert "never" in result.stdout
    result = CliRunner().invoke(app, ["stats", str(tmp_path / "g.what")])
    assert isinstance(result.exception, GraphMalformed)
