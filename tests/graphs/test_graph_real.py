"""Four public social graphs, measured independently; set INCROWD_DATA to where they are."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from incrowd import graphs

DATA = os.environ.get("INCROWD_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="INCROWD_DATA is not set")
NAMES = ["facebook_page", "twitch_de", "deezer_europe", "enron_email"]


def edges_of(name: str) -> Path:
    return Path(str(DATA)) / name / "edges.npz"


@pytest.mark.parametrize("name", NAMES)
def test_stats_of_real_graphs_equal_stored_values(name: str) -> None:
    expected = json.loads((Path(str(DATA)) / "graph_stats.json").read_text())["graphs"][name]
    found = graphs.stats(graphs.load(edges_of(name)))
    assert (found.vertices, found.edges) == (expected["n"], expected["m"])
    assert (found.degree_min, found.degree_max) == (expected["deg_min"], expected["deg_max"])
    assert found.degree_mean == pytest.approx(expected["deg_mean"], rel=1e-12)
    assert (found.connected, found.bipartite) == (True, False)
    assert found.gamma == pytest.approx(expected["gamma"], rel=1e-12)
    assert found.lambda_2 == pytest.approx(expected["lambda2"], abs=1e-10)
    assert found.lambda_min == pytest.approx(expected["lambda_min"], abs=1e-10)
    assert found.spectral_gap == pytest.approx(expected["alpha"], abs=1e-10)
    assert found.eigen_residual < 1e-11


def test_facebook_self_loops_are_kept_on_request() -> None:
    with np.load(edges_of("facebook_page")) as stored:
        u, v, n, loops = (stored[key].astype(np.int64) for key in ("u", "v", "n", "self_loops"))
    u, v = np.concatenate([u, loops]), np.concatenate([v, loops])
    dropped = graphs.from_edges(u, v, int(n))
    assert dropped == graphs.load(edges_of("facebook_page"))
    kept = graphs.from_edges(u, v, int(n), self_loops=True)
    assert (kept.self_loops, kept.m) == (179, 171_002)
    assert kept.degrees.sum() == dropped.degrees.sum() + 179


def test_text_and_npz_give_equal_graphs(tmp_path: Path) -> None:
    graph = graphs.load(edges_of("twitch_de"))
    text = tmp_path / "twitch.csv"
    np.savetxt(text, np.stack(graph.edges(), axis=1), "%d", ",", header="from,to", comments="")
    assert graphs.load(text) == graph
