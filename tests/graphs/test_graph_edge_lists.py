"""Edge lists of people by name: headers, further columns, labels, and joins with data."""

from pathlib import Path

import numpy as np
import pytest

from incrowd import data, graphs
from incrowd.errors import EmptyData, GraphMalformed, UnmatchedPeople

NAMES = ["ann", "bob", "cat", "dan"]


def write(folder: Path, text: str | bytes, name: str = "friends.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def neighbours(graph: graphs.Graph) -> dict[str, set[str]]:
    assert graph.labels is not None
    names = graph.labels.tolist()
    return {each: {names[v] for v in graph.neighbours(i)} for i, each in enumerate(names)}


FRIENDS = {
    "ann": {"bob", "cat"},
    "bob": {"ann", "cat"},
    "cat": {"ann", "bob", "dan"},
    "dan": {"cat"},
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("friends.csv", "person,friend\nann,bob\nbob,cat\ncat,ann\ncat,dan\n"),
        ("friends.csv", "person;friend\nann;bob\nbob;cat\ncat;ann\ncat;dan\n"),
        ("friends.csv", "person_id,friend_id\nann,bob\nbob,cat\ncat,ann\ncat,dan\n"),
        ("friends.csv", "Person A,Person B\nann,bob\nbob,cat\ncat,ann\ncat,dan\n"),
        ("friends.csv", "who,whom,weight\nann,bob,1\nbob,cat,2.5\ncat,ann,1\ncat,dan,3\n"),
        ("friends.csv", "# who,whom\nann,bob\nbob,cat\ncat,ann\ncat,dan\n"),
        ("friends.tsv", "from\tto\tsince\nann\tbob\tMay\nbob\tcat\t\ncat\tann\tx\ncat\tdan\ty\n"),
        ("friends.txt", "user1 user2\nann bob\nbob  cat\ncat\tann\ncat dan\n"),
        ("friends.txt", "user1 user2 km\nann bob 1\nbob cat 2\ncat ann 1\ncat dan 3\n"),
        ("friends.txt", "ann,bob\nbob,cat\ncat,ann\ncat,dan\n"),
        (
            "friends.edgelist",
            "ann bob {'weight': 3}\nbob cat {'weight': 3}\n".replace(" 3", "3")
            + "cat ann {}\ncat dan {}\n",
        ),
        ("friends.csv", "ann,bob\nbob,cat\ncat,ann\ncat,dan\n".encode("utf-16")),
    ],
)
def test_header_and_further_columns_are_no_people(tmp_path: Path, name: str, text: str) -> None:
    graph = graphs.load(write(tmp_path, text, name))
    assert graph.n == 4
    assert neighbours(graph) == FRIENDS


def test_unknown_header_is_found_by_the_names_of_the_people(tmp_path: Path) -> None:
    path = write(tmp_path, "Kollegin,Kollege\nann,bob\nbob,cat\ncat,ann\ncat,dan\n")
    assert neighbours(graphs.load(path, people=NAMES)) == FRIENDS
    headless = write(tmp_path, "ann,bob\nbob,cat\ncat,ann\ncat,dan\n")
    assert neighbours(graphs.load(headless, people=NAMES)) == FRIENDS


def test_lone_pair_above_edges_is_refused_rather_than_guessed(tmp_path: Path) -> None:
    path = write(tmp_path, "Kollegin,Kollege\nann,bob\nbob,cat\ncat,ann\ncat,dan\n")
    with pytest.raises(
        GraphMalformed,
        match=r"line 1: 'Kollegin' and 'Kollege' stand in no other "
        r"line: put # in front if they are the header",
    ):
        graphs.load(path)
    assert graphs.load(write(tmp_path, "a,b\nc,d\ne,f\n")).n == 6


def test_titles_that_are_people_below_are_an_edge(tmp_path: Path) -> None:
    assert graphs.load(write(tmp_path, "person,friend\nfriend,ann\nann,person\n")).n == 3


def test_notes_say_what_was_found(tmp_path: Path) -> None:
    graph = graphs.load(write(tmp_path, "person,friend,km,year\nann,bob,1,x\nbob,cat,2,y\n"))
    assert graph.notes == (
        "friends.csv: the first line (person, friend, km, year) is the header",
        "friends.csv: edges are in the first two columns; 2 further columns are ignored (km, year)",
    )
    plain = graphs.load(write(tmp_path, "0 1 0.5\n1 2 1.5\n", "plain.txt"))
    assert plain.notes == (
        "plain.txt: edges are in the first two columns; 1 further column is ignored",
    )
    umlauts = graphs.load(write(tmp_path, "jörg,ann\nann,zoë\n".encode("cp1252")))
    assert umlauts.notes == ("friends.csv: encoding cp1252",)
    assert umlauts.labels.tolist() == ["ann", "jörg", "zoë"]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("0,1\n1,2\n", None),
        ("u,v\n0,1\n1,2\n", None),
        ("1,2\n2,3\n", ["1", "2", "3"]),
        ("10,20\n20,9\n", ["9", "10", "20"]),
        ("a,b\nb,c\n", ["a", "b", "c"]),
    ],
)
def test_labels_are_absent_only_where_vertices_are_numbered_from_0(
    tmp_path: Path, text: str, labels: list[str] | None
) -> None:
    found = graphs.load(write(tmp_path, text)).labels
    assert (None if found is None else found.tolist()) == labels


def test_graph_is_joined_to_data_by_name(tmp_path: Path) -> None:
    table = write(tmp_path, "id;x\ncat;1\ndan;2\nann;3\nbob;4\n", "people.csv")
    path = write(tmp_path, "person,friend\nann,bob\nbob,cat\ncat,ann\ncat,dan\n")
    people = data.read(table).people("id")
    graph = graphs.load(path, people=people).aligned(people)
    assert graph.labels.tolist() == people.tolist() == ["cat", "dan", "ann", "bob"]
    assert neighbours(graph) == FRIENDS
    assert graph == graphs.from_edges([0, 0, 0, 2], [1, 2, 3, 3], 4)


def test_names_of_digits_are_joined_as_they_are_written(tmp_path: Path) -> None:
    people = ["007", "12", "3"]
    path = write(tmp_path, "person,friend\n3,007\n12,3\n")
    assert graphs.load(path, people=people).aligned(people).degrees.tolist() == [1, 1, 2]


def test_join_lists_people_on_one_side_alone(tmp_path: Path) -> None:
    graph = graphs.load(write(tmp_path, "person,friend\nann,bob\nbob,eve\n"))
    with pytest.raises(UnmatchedPeople, match=r"2 people of the data not in the graph \('cat', 'd"):
        graph.aligned(NAMES)


def test_numbered_graph_is_joined_to_numbers_alone() -> None:
    line = graphs.line(3)
    assert line.labels is None
    assert line.aligned(["1", "0", "2"]).degrees.tolist() == [2, 1, 1]
    with pytest.raises(UnmatchedPeople, match="3 people of the data not in the graph"):
        line.aligned(["ann", "bob", "cat"])


def test_labels_survive_files_and_parts(tmp_path: Path) -> None:
    graph = graphs.load(write(tmp_path, "ann,bob\nbob,cat\neve,flo\n"))
    assert graph.largest_component().labels.tolist() == ["ann", "bob", "cat"]
    assert graph.subgraph([4, 3]).labels.tolist() == ["eve", "flo"]
    graphs.save(graph, tmp_path / "graph.npz")
    assert graphs.load(tmp_path / "graph.npz").labels.tolist() == graph.labels.tolist()


def test_wrong_labels_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "graph.npz", u=[0], v=[1], n=2, labels=["a"])
    with pytest.raises(GraphMalformed, match=r"graph.npz: labels must be 2 texts"):
        graphs.load(tmp_path / "graph.npz")


def test_all_problems_of_an_edge_list_are_in_one_message(tmp_path: Path) -> None:
    with pytest.raises(
        GraphMalformed, match=r"2 problems: line 2: .* found 1 .*, line 4: .*: write"
    ):
        graphs.load(write(tmp_path, "a,b\nc\nd,e\nf,g,h\n"))
    with pytest.raises(EmptyData, match="no edges in the file"):
        graphs.load(write(tmp_path, "person,friend\n"))
