"""Graph files: round trips, dialects, and one clear line for each thing that can be wrong."""

from pathlib import Path

import numpy as np
import pytest
from scipy import io, sparse

from incrowd import graphs
from incrowd.errors import (
    EmptyData,
    FileNotWritable,
    FileUnreadable,
    GraphMalformed,
    IncrowdError,
    InvalidGraph,
    InvalidParameter,
)

SOME = graphs.barabasi_albert(30, 2, np.random.default_rng(0))


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    "graph",
    [
        graphs.line(2),
        graphs.star(9),
        SOME,
        graphs.from_edges([0, 1, 1], [1, 1, 2], 3, self_loops=True),
        graphs.from_edges([0, 3], [1, 4], 6),
    ],
)
def test_npz_round_trip_keeps_graph(tmp_path: Path, graph: graphs.Graph) -> None:
    path = tmp_path / "graph.npz"
    graphs.save(graph, path)
    assert graphs.load(path, allow_isolated=True, self_loops=True) == graph
    with np.load(path) as stored:
        assert set(stored.files) == {"u", "v", "n"}
        assert stored["u"].size == graph.m


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_load_reads_scipy_npz_of_any_format(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "matrix.npz"
    sparse.save_npz(path, SOME.adjacency().asformat(kind))
    assert graphs.load(path) == SOME
    sparse.save_npz(path, sparse.triu(SOME.adjacency(), format=kind))
    assert graphs.load(str(path)) == SOME


@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_load_reads_matrix_market(tmp_path: Path, symmetry: str) -> None:
    path = tmp_path / "graph.mtx"
    io.mmwrite(path, SOME.adjacency(), symmetry=symmetry)
    assert graphs.load(path) == SOME
    io.mmwrite(path, SOME.adjacency().toarray())
    assert graphs.load(path) == SOME


TRIANGLE_WITH_TAIL = graphs.from_edges([0, 1, 2, 2], [1, 2, 0, 3], 4)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.csv", "0,1\n1,2\n2,0\n2,3\n"),
        ("g.csv", "u,v\n0,1\n1,2\n2,0\n2,3"),
        ("g.csv", "anything,else\n0,1\n1,2\n2,0\n2,3"),
        ("g.csv", "\ufeffid_1,id_2\r\n0,1\r\n1,2\r\n2,0\r\n2,3\r\n"),
        ("g.csv", "# a comment\n\n10, 20\n20, 30\n30, 10\n30, 40\n\n"),
        ("g.csv", "9,10\n10,11\n11,9\n11,100\n"),
        ("g.csv", "0,1\n1,0\n1,2\n2,0\n2,0\n2,3\n1,1\n"),
        ("g.csv", "source,target\nann,bob\nbob,cat\ncat,ann\ncat,dan\n"),
        ("g.csv", "ann,bob\nbob,cat\ncat,ann\ncat,dan\n"),
        ("g.csv", '"a, jr",b\nb,"c d"\n"c d","a, jr"\n"c d",e\n'),
        ("g.CSV", "0,1\n1,2\n2,0\n2,3\n"),
        ("g.tsv", "from\tto\n0\t1\n1\t2\n2\t0\n2\t3\n"),
        ("g.tsv", "a a\tb\nb\tc\nc\ta a\nc\td\n"),
        ("g.txt", "# SNAP\n# FromNodeId ToNodeId\n0\t1\n1\t2\n2 0\n 2   3\n"),
        ("g.edges", "% networks\n5 6\n6 7\n7 5\n7 8\n"),
        ("g.edgelist", "0 1\n1 2\n2 0\n2 3\n"),
    ],
)
def test_load_reads_edge_lists(tmp_path: Path, name: str, text: str) -> None:
    assert graphs.load(write(tmp_path, name, text)) == TRIANGLE_WITH_TAIL


def test_load_numbers_labels_in_sorted_order(tmp_path: Path) -> None:
    # 9 < 10 as numbers; "10" < "9" as names, next to a name.
    assert graphs.load(write(tmp_path, "g.csv", "10,9\n10,11\n")).degrees.tolist() == [1, 2, 1]
    assert graphs.load(write(tmp_path, "g.csv", "x,9\n9,10\n")).degrees.tolist() == [1, 2, 1]


def test_load_takes_two_letters_as_edge(tmp_path: Path) -> None:
    assert graphs.load(write(tmp_path, "g.csv", "u,v\nv,w\n")) == graphs.line(3)
    assert graphs.load(write(tmp_path, "g.csv", "u,v\n")) == graphs.line(2)


def test_load_drops_self_loops_unless_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "g.txt", "0 0\n0 1\n1 2\n")
    assert graphs.load(path) == graphs.line(3)
    assert graphs.load(path, self_loops=True).self_loops == 1
    alone = write(tmp_path, "alone.txt", "0 1\n2 2\n")
    with pytest.raises(InvalidGraph, match=r"alone.txt has 1 isolated vertex \(2\)"):
        graphs.load(alone)
    assert graphs.load(alone, self_loops=True).n == 3


def test_load_refuses_isolated_vertices_unless_allowed(tmp_path: Path) -> None:
    path = tmp_path / "isolated.npz"
    np.savez(path, u=np.array([0, 1]), v=np.array([1, 2]), n=np.int64(5))
    with pytest.raises(InvalidGraph, match=r"isolated vertices \(3, 4\).*largest") as caught:
        graphs.load(path)
    assert caught.value.exit_code == 40
    assert graphs.load(path, allow_isolated=True).largest_component() == graphs.line(3)


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("g.csv", "", EmptyData, "empty"),
        ("g.npz", "", EmptyData, "empty"),
        ("g.mtx", "", EmptyData, "empty"),
        ("g.csv", "# nothing\n\n", EmptyData, "no edges"),
        ("g.csv", "source,target\n", EmptyData, "no edges"),
        ("g.csv", "0,1\n1\n", GraphMalformed, "line 2: expected two vertices, found 1 fields: 1"),
        ("g.csv", "0,1\n1,2,3\n", GraphMalformed, "line 2: expected two vertices, found 3 fields"),
        ("g.txt", "0 1 0.5\n1 2\n", GraphMalformed, "line 2: expected 3 fields as in the first"),
        ("g.txt", "Ann Lee Bob\n", GraphMalformed, "names that contain spaces need commas"),
        ("g.csv", "0,1\n\n1,\n", GraphMalformed, "line 3: expected two vertices"),
        ("g.csv", "0,1\n1,x\n", GraphMalformed, "line 2: 'x' is not a whole number"),
        ("g.csv", "a,b\n0,1\n1,x\n", GraphMalformed, "line 3: 'x' is not a whole number"),
        ("g.csv", "0,1\n1,2.0\n", GraphMalformed, "line 2: '2.0' is not a whole number"),
        ("g.csv", "0.0,1.0\n", GraphMalformed, "line 1: '0.0' is a decimal number"),
        ("g.csv", "0,1\n-1,2\n", GraphMalformed, "line 2: vertex -1 is out of range"),
        ("g.csv", "0,1\n+-1,2\n", GraphMalformed, "line 2: '\\+-1' is not a whole number"),
        ("g.csv", f"0,1\n{10**19},2\n", GraphMalformed, "line 2: vertex 10+ is out of range"),
        ("g.csv", "0,1\n" + "9" * 9000 + ",2\n", GraphMalformed, "line 2: vertex 9+… is out"),
        ("g.csv", "٣,٤\n0,1\n٣,1\n", GraphMalformed, "line 3: '٣' is not a whole number"),
        ("g.csv", '0,1\n"2\n3",4\n', GraphMalformed, "line 3: '2.*3' is not a whole number"),
        ("g.tsv", "0 1\n", GraphMalformed, "line 1: expected two vertices, found 1 fields: 0 1"),
        ("g.txt", "# x\n0 1\n1 2 0.5\n", GraphMalformed, "line 3: .*3 fields"),
        ("g.txt", b"0 1\n\xff\xfe 2\n", GraphMalformed, "line 2: 'ÿþ' is not a whole number"),
        ("g.txt", b"0 1\n\x81 2\n", GraphMalformed, "line 2: byte 0x81 is not cp1252: save"),
        ("g.csv", "0,1\n" + "x" * 200_000 + ",2\n", GraphMalformed, "not a table of text"),
        ("g.npz", "0,1\n1,2\n", GraphMalformed, "not an .npz archive"),
        ("g.npz", b"PK\x03\x04 truncated", GraphMalformed, "not an .npz archive"),
        ("g.mtx", "0 1\n", GraphMalformed, "not a Matrix Market file"),
        (
            "g.mtx",
            "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 x\n",
            GraphMalformed,
            "not a Matrix Market file .*[Ll]ine 3",
        ),
        (
            "g.mtx",
            "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 5\n",
            GraphMalformed,
            "g.mtx",
        ),
        (
            "g.mtx",
            "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n1 2\n",
            GraphMalformed,
            "g.mtx: an adjacency matrix is square",
        ),
        ("g.json", "{}", GraphMalformed, "unknown kind of graph file '.json'; use one of .npz"),
        ("graph", "0 1", GraphMalformed, "unknown kind"),
    ],
)
def test_load_refuses_malformed_files(
    tmp_path: Path, name: str, text: str | bytes, error: type[IncrowdError], message: str
) -> None:
    with pytest.raises(error, match=f"(?s){message}") as caught:
        graphs.load(write(tmp_path, name, text))
    assert name in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"u": [0], "v": [1]}, "has the keys u, v; a graph needs u, v and n"),
        ({}, r"has the keys \(none\)"),
        ({"u": [0], "v": [1], "n": 0}, "n must be a single whole number"),
        ({"u": [0], "v": [1], "n": [2]}, "n must be a single whole number"),
        ({"u": [0], "v": [1], "n": 2.0}, "n must be a single whole number"),
        ({"u": [0], "v": [2], "n": 2}, r"v\[0\] = 2 is out of range: ids are from 0 to 1"),
        ({"u": [-1], "v": [1], "n": 2}, r"u\[0\] = -1 is out of range"),
        ({"u": [0, 1], "v": [1], "n": 2}, "u has 2 entries but v has 1"),
        ({"u": [0.5], "v": [1.0], "n": 2}, "u must hold integers"),
        ({"u": [[0]], "v": [[1]], "n": 2}, "one-dimensional"),
        ({"u": np.array([None]), "v": [1], "n": 2}, "not an .npz archive of plain arrays"),
        ({"format": b"what", "shape": [2, 2], "data": [1]}, "not an .npz archive"),
    ],
)
def test_load_refuses_malformed_npz(tmp_path: Path, arrays: dict, message: str) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(GraphMalformed, match=rf"bad\.npz: .*{message}|bad\.npz: {message}"):
        graphs.load(path)


def test_load_of_garbage_does_not_advise_pickles(tmp_path: Path) -> None:
    path = tmp_path / "garbage.npz"
    path.write_bytes(b"garbage")
    with pytest.raises(GraphMalformed, match=r"not an \.npz archive") as caught:
        graphs.load(path)
    assert "pickle" not in str(caught.value)


def test_load_refuses_single_array(tmp_path: Path) -> None:
    path = tmp_path / "single.npz"
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(GraphMalformed, match="a single array"):
        graphs.load(path)


def test_load_refuses_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "damaged.npz"
    graphs.save(SOME, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:60] + bytes(30) + whole[90:])
    with pytest.raises(GraphMalformed, match=r"not an \.npz archive"):
        graphs.load(path)


def test_load_and_save_report_unreachable_files(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable, match=r"none\.npz: cannot be read \(No such file"):
        graphs.load(tmp_path / "none.npz")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileUnreadable, match="directory"):
        graphs.load(tmp_path / "folder.csv")
    with pytest.raises(FileNotWritable, match="cannot be written"):
        graphs.save(SOME, tmp_path / "nowhere" / "g.npz")
    with pytest.raises(InvalidParameter, match=r"saved as \.npz"):
        graphs.save(SOME, tmp_path / "g.csv")
