"""Graphs by name and parts of graphs: the same for everyone, connected, and clear where not."""

import numpy as np
import pytest

from incrowd import errors, graphs
from incrowd.graphs import connected_part, named, names_family

NAMES = [
    ("complete", 30),
    ("ring", 31),
    ("line", 30),
    ("star", 30),
    ("regular:8", 400),
    ("regular:3", 30),
    ("erdos-renyi:0.3", 60),
    ("barabasi-albert:4", 50),
    ("geometric:0.4", 80),
]


@pytest.mark.parametrize(("text", "n"), NAMES)
def test_named_graph_is_connected_and_repeats(text: str, n: int) -> None:
    assert names_family(text)
    graph = named(text, n)
    assert graph.n == n
    assert graph.is_connected
    assert graph == named(text, n)


def test_named_graph_has_stated_number() -> None:
    assert set(named("regular:8", 400).degrees.tolist()) == {8}
    assert named("barabasi-albert:4", 50).m == 4 * 46
    assert named("ring", 7) == graphs.ring(7)
    assert named("complete", 7) == graphs.complete(7)
    assert named("erdos-renyi:1", 9) == graphs.complete(9)
    assert named("erdos-renyi:0.3", 60) != named("erdos-renyi:0.31", 60)


FILES = ["friends.npz", "graphs/ring", "ring.txt", "a:b.csv", "C:\\ring", "./ring", "who.docx", ""]


@pytest.mark.parametrize("text", FILES)
def test_names_family_rejects_files(text: str) -> None:
    assert not names_family(text)


WRONG = [
    ("reglar:8", 40, errors.InvalidParameter, "did you mean regular?"),
    ("friends", 40, errors.InvalidParameter, "neither a file (.npz, "),
    ("Regular:8", 40, errors.InvalidParameter, "did you mean regular?"),
    ("regular", 40, errors.InvalidParameter, "regular needs its degree, such as regular:8"),
    ("regular:", 40, errors.InvalidParameter, "such as regular:8"),
    ("regular:2.5", 40, errors.InvalidParameter, "such as regular:8"),
    ("regular:-3", 40, errors.InvalidParameter, "the degree must be positive"),
    ("geometric:nan", 40, errors.InvalidParameter, "the radius must be positive"),
    ("erdos-renyi:1.5", 40, errors.InvalidParameter, "must be positive and at most 1"),
    ("ring:4", 40, errors.InvalidParameter, "ring takes no number"),
    ("regular:40", 40, errors.InvalidCrowd, "graph regular:40: no graph on n = 40"),
    ("regular:3", 41, errors.InvalidCrowd, "n × degree even"),
    ("regular:1", 40, errors.InvalidCrowd, "never connected"),
    ("barabasi-albert:9", 9, errors.InvalidCrowd, "need n > 9"),
    ("ring", 2, errors.InvalidCrowd, "≥ 3"),
    ("ring", 0, errors.InvalidCrowd, "n must be a whole number of people ≥ 1"),
    ("complete", 10**6, errors.InvalidCrowd, "too many edges"),
    ("regular:8", 10**9, errors.InvalidCrowd, "too many edges"),
    ("geometric:9", 10**6, errors.InvalidCrowd, "too many edges"),
    ("erdos-renyi:0.01", 100, errors.InvalidGraph, "parts that never meet: raise its chance"),
    ("geometric:0.01", 100, errors.InvalidGraph, "raise its radius"),
]


@pytest.mark.parametrize(("text", "n", "kind", "said"), WRONG)
def test_named_refuses_impossible_names(
    text: str, n: int, kind: type[errors.IncrowdError], said: str
) -> None:
    with pytest.raises(kind) as caught:
        named(text, n)
    assert type(caught.value) is kind
    assert said in str(caught.value)


def greedy(graph: graphs.Graph, n: int) -> list[int]:
    """The part as its definition says, looking at everybody in every step."""
    taken = [max(range(graph.n), key=lambda v: (graph.degrees[v], -v))]
    while len(taken) < n:
        inside = {
            v: len(set(graph.neighbours(v).tolist()) & set(taken))
            for v in range(graph.n)
            if v not in taken
        }
        taken.append(max(inside, key=lambda v: (inside[v], -v)))
    return sorted(taken)


@pytest.mark.parametrize("seed", range(5))
def test_connected_part_equals_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for graph in (
        graphs.barabasi_albert(40, 2, rng),
        graphs.random_regular(40, 3, rng),
        graphs.erdos_renyi(60, 0.1, rng).largest_component(),
    ):
        for n in (1, 2, 7, 25):
            part = connected_part(graph, n)
            assert part.tolist() == greedy(graph, n)
            assert graph.subgraph(part).is_connected


def test_connected_part_takes_all_and_refuses_more() -> None:
    ring = graphs.ring(9)
    assert connected_part(ring, 9).tolist() == list(range(9))
    with pytest.raises(errors.InvalidCrowd, match="a graph of 9 people has no part of 10"):
        connected_part(ring, 10)
    with pytest.raises(errors.InvalidCrowd):
        connected_part(ring, 0)


def test_connected_part_stays_in_component() -> None:
    graph = graphs.from_edges([0, 1, 2, 4], [1, 2, 0, 5], 7)
    assert connected_part(graph, 3).tolist() == [0, 1, 2]
    with pytest.raises(errors.InvalidGraph, match="only 3 can be reached"):
        connected_part(graph, 4)
