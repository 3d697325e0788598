"""Surveys of fewer people, on graphs by name, and the options of a live run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from incrowd import errors, graphs, survey
from incrowd.live.options import LiveOptions

PEOPLE = 60
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A survey whose answers are the numbers of the rows, so that it shows who is left."""
    rows = "\n".join(str(row) for row in range(PEOPLE))
    (tmp_path / "people.csv").write_text(f"row\n{rows}\n")

    def make(protocol: str, more: str = "") -> Path:
        path = tmp_path / "survey.toml"
        path.write_text(
            'version = 2\n[data]\nfile = "people.csv"\n'
            f'[[question]]\nkind = "mean"\ncolumn = "row"\nbounds = [0, {PEOPLE}]\n'
            f"[budget]\nepsilon = 1.0\ndelta = 1e-3\n[protocol]\n{protocol}\n{more}\n"
        )
        return path

    return make


def rows(loaded: survey.Survey) -> list[int]:
    return [int(each) for each in loaded.values]


def walking(graph: str, more: str = "") -> str:
    return f'kind = "network-shuffle"\ngraph = "{graph}"\nrounds = 6\n{more}'


def test_subset_without_graph_takes_first_rows(write: Write) -> None:
    path = write('kind = "trusted-shuffle"')
    everyone, few = survey.load(path), survey.load(path, people=20)
    assert rows(few) == list(range(20))
    assert few.protocol.n == 20
    assert few.randomizer.epsilon < everyone.randomizer.epsilon
    assert few.protocol.guarantee().epsilon(1e-3) <= 1
    assert few.met_by(few.run(seed=1))
    assert rows(survey.load(path, people=PEOPLE)) == rows(everyone)


def test_graph_family_has_size_of_subset(write: Write) -> None:
    path = write(walking("regular:8"))
    for people in (None, 20):
        loaded = survey.load(path, people=people)
        n = people or PEOPLE
        assert loaded.protocol.names == {"graph": "regular:8"}
        assert loaded.protocol.graph == graphs.named("regular:8", n)
        assert rows(loaded) == list(range(n))
        assert loaded.met_by(loaded.run(seed=1))


def test_graph_file_named_like_family_is_read(write: Write, tmp_path: Path) -> None:
    graphs.save(graphs.ring(PEOPLE), tmp_path / "complete.npz")
    loaded = survey.load(write(walking("complete.npz", "laziness = 0.5")))
    assert loaded.protocol.graph == graphs.ring(PEOPLE)


def test_subset_of_graph_keeps_rows_of_connected_part(write: Write, tmp_path: Path) -> None:
    graph = graphs.barabasi_albert(PEOPLE, 6, np.random.default_rng(3))
    graphs.save(graph, tmp_path / "friends.npz")
    path = write(walking("friends.npz"))
    few, again = (survey.load(path, people=30) for _ in range(2))
    part = graphs.connected_part(graph, 30)
    assert rows(few) == rows(again) == part.tolist()
    assert few.protocol.graph == graph.subgraph(part)
    assert few.protocol.guarantee().epsilon(1e-3) <= 1
    assert survey.load(path, people=PEOPLE).protocol.graph == graph


def test_random_peers_are_drawn_for_subset(write: Write, tmp_path: Path) -> None:
    graph = graphs.ring(PEOPLE)
    graphs.save(graph, tmp_path / "friends.npz")
    few = survey.load(write(walking("friends.npz", "random_peers = 3")), people=30)
    line = graph.subgraph(graphs.connected_part(graph, 30))
    assert few.protocol.graph == graphs.with_random_peers(line, 3, 0)


def test_subset_refuses_more_people_than_rows(write: Write, tmp_path: Path) -> None:
    path = write('kind = "trusted-shuffle"')
    with pytest.raises(errors.InvalidCrowd, match="there are no 61 people: the data have 60 rows"):
        survey.load(path, people=61)
    with pytest.raises(errors.InvalidCrowd, match="people must be"):
        survey.load(path, people=0)
    graphs.save(graphs.ring(50), tmp_path / "friends.npz")
    with pytest.raises(errors.InvalidCrowd, match="has 50 people, but the data have 60 rows"):
        survey.load(write(walking("friends.npz")), people=20)


def test_subset_refuses_disconnected_graph(write: Write, tmp_path: Path) -> None:
    u, v = graphs.complete(10).edges()
    graphs.save(graphs.from_edges(u, v, PEOPLE), tmp_path / "friends.npz")
    with pytest.raises(errors.InvalidGraph, match=r"friends.npz: no 20 people .* only 10 can be"):
        survey.load(write(walking("friends.npz")), people=20)


def test_load_reads_live_options(write: Write) -> None:
    assert survey.load(write('kind = "trusted-shuffle"')).live == LiveOptions()
    stated = survey.load(
        write(
            'kind = "trusted-shuffle"',
            '[live]\ncover = true\ntransport = "direct"\nround_seconds = 2',
        )
    )
    assert stated.live == LiveOptions(cover=True, transport="direct", round_seconds=2.0)
    assert stated.column == "row"


def test_run_live_receives_protocol_values_and_options(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def run_live(protocol: Any, values: Any, task: Any, **more: Any) -> str:
        asked.update(more, protocol=protocol, values=values, task=task)
        return "ran"

    monkeypatch.setattr("incrowd.live.run.run_live", run_live)
    loaded = survey.load(write('kind = "trusted-shuffle"', "[live]\nmin_crowd = 40"))
    assert loaded.run_live() == "ran"
    assert asked["protocol"] is loaded.protocol
    assert asked["values"] is loaded.values
    assert (asked["options"], asked["column"], asked["delta"]) == (loaded.live, "row", 1e-3)
    other = LiveOptions(cover=True)
    loaded.run_live(other)
    assert asked["options"] is other
    with pytest.raises(errors.InvalidCrowd, match="at most the 60 people who are asked, got 61"):
        loaded.run_live(LiveOptions(min_crowd=61))


def test_run_live_without_cryptography_names_extra(write: Write) -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from incrowd import errors, survey\n"
        "loaded = survey.load(sys.argv[1])\n"
        "try:\n    loaded.run_live()\n"
        "except errors.MissingExtra as error:\n    print(error)"
    )
    words = [sys.executable, "-c", program, str(write('kind = "trusted-shuffle"'))]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ended.stdout == (
        "live runs need cryptography, which is not installed: pip install 'incrowd[live]'\n"
    )
