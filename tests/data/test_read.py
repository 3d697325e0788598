"""Records from text files: what is found, what is kept, and one line for everything wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from incrowd import data
from incrowd.errors import (
    EmptyData,
    FileUnreadable,
    IncrowdError,
    InvalidParameter,
    MissingColumn,
    UnmatchedPeople,
)

GERMAN = (
    "id;Straße;Größe;Einkommen\r\n"
    'a1;"Grüner ""Weg""";1,75;1.234,50\r\n'
    "a2; Am Bühl ;1,8;12.345,00\r\n"
    "a3;NA;;987,5\r\n"
    'a4;"A; B";2,0;NA\r\n'
)


def write(
    folder: Path, text: str | bytes, name: str = "people.csv", encoding: str = "utf-8"
) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


def test_semicolons_cp1252_and_decimal_commas_are_found(tmp_path: Path) -> None:
    path = write(tmp_path, GERMAN, encoding="cp1252")
    people = data.read(path, null_values=("", "NA"))
    assert people.names == ("id", "Straße", "Größe", "Einkommen")
    assert people.n == len(people) == 4
    assert people.column("Straße").tolist() == ['Grüner "Weg"', "Am Bühl", "", "A; B"]
    assert people.column("Größe").tolist() == ["1.75", "1.8", "", "2.0"]
    assert people.column("Einkommen").tolist() == ["1234.50", "12345.00", "987.5", ""]
    np.testing.assert_equal(people.numeric("Größe"), [1.75, 1.8, np.nan, 2.0])
    assert people.notes == (
        "people.csv: separator ';', decimal comma, encoding cp1252, 4 columns, 4 rows",
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz"])
def test_encodings_give_the_same_records(tmp_path: Path, encoding: str, name: str) -> None:
    content = GERMAN.encode(encoding)
    path = write(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)
    people = data.read(str(path))
    assert people.column("Straße").tolist() == ['Grüner "Weg"', "Am Bühl", "NA", "A; B"]
    assert f"encoding {encoding.removesuffix('-sig')}" in people.notes[0]


def test_utf_16_big_endian_is_found_by_its_mark(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xfe\xff" + GERMAN.encode("utf-16-be"))
    assert data.read(path).names[1] == "Straße"


def test_compressed_file_without_suffix_is_unpacked(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(b"mode\nbus\n"))
    assert data.read(path).column("mode").tolist() == ["bus"]


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a,b\n1,2\n", "','"),
        ("a;b\n1;2\n", "';'"),
        ("a\tb\n1\t2\n", "a tab"),
        ("a|b\n1|2\n", "'|'"),
        ("a;b, kg;c\n1;2,5;3\n2;3,5;4\n", "';'"),
        ('a,b\n"x;y",2\n"z;w",3\n', "','"),
        ("only\nx\n", "','"),
    ],
)
def test_separator_is_found(tmp_path: Path, text: str, separator: str) -> None:
    assert f"separator {separator}," in data.read(write(tmp_path, text)).notes[0]


def test_stated_dialect_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path, "a;b\n1:x,y\n".replace(";", ":"), encoding="utf-16-le")
    people = data.read(path, separator=":", encoding="utf-16-le")
    assert people.columns(["a", "b"]) == [["1", "x,y"]]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (("1,5", "2"), ("1.5", "2")),
        (("0,123", "1,234"), ("0.123", "1.234")),
        (("1.234,5", "1.000"), ("1234.5", "1000")),
        (("1.234.567", "12"), ("1234567", "12")),
        (("1,234.5", "1,000"), ("1234.5", "1000")),
        (("1,234,567", "12"), ("1234567", "12")),
        (("-1,5", "+2,5e3"), ("-1.5", "+2.5e3")),
        (("1,234", "2,345"), ("1,234", "2,345")),
        (("1.234", "2.345"), ("1.234", "2.345")),
        (("1,5", "3,5", "soon"), ("1.5", "3.5", "soon")),
        (("1,5 l", "3,5 l", "2,5"), ("1,5 l", "3,5 l", "2,5")),
        (("1,5", "2,5", "3.5"), ("1.5", "2.5", "3.5")),
        (("1.5", "2.5"), ("1.5", "2.5")),
        (("a,b", "c"), ("a,b", "c")),
    ],
)
def test_numbers_are_written_with_a_point_where_their_mark_is_clear(
    tmp_path: Path, cells: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    path = write(tmp_path, "x;y\n" + "".join(f"{each};a\n" for each in cells))
    assert tuple(data.read(path).column("x")) == expected


def test_unclear_numbers_follow_the_other_columns(tmp_path: Path) -> None:
    clear = write(tmp_path, "x;y\n1,234;0,5\n2,345;0,25\n")
    assert data.read(clear).column("x").tolist() == ["1.234", "2.345"]
    unclear = write(tmp_path, "x;y\n1,234;a\n2,345;b\n")
    people = data.read(unclear)
    assert people.column("x").tolist() == ["1,234", "2,345"]
    assert people.notes[1] == (
        "people.csv: 'x': numbers such as 1,234 may mean 1234 or 1.234, and are left as text: "
        "state the decimal mark"
    )
    assert data.read(unclear, decimal=",").column("x").tolist() == ["1.234", "2.345"]
    assert data.read(unclear, decimal=".").column("x").tolist() == ["1234", "2345"]


def test_blank_lines_are_people_in_one_column_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "mode\nbus\n\ncar\n\n\n")
    assert data.read(path).column("mode").tolist() == ["bus", "", "car"]


def test_names_of_people_stay_as_they_are_written(tmp_path: Path) -> None:
    path = write(tmp_path, "id;x\n1,5;0,5\n1.001;0,25\n007;1,5\n")
    people = data.read(path)
    assert people.people("id").tolist() == ["1,5", "1.001", "007"]


def test_columns_without_a_name_may_be_several(tmp_path: Path) -> None:
    assert data.read(write(tmp_path, "a;b;;\n1;2;;\n")).columns(["b", "a"]) == [["2", "1"]]


def test_wanted_columns_leave_other_doubled_names_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,b\n1,2,3\n")
    assert data.read(path, columns=["a"]).column("a").tolist() == ["1"]
    with pytest.raises(MissingColumn, match="more than one column 'b': rename all of them but one"):
        data.read(path)


WRONG = [
    ("", {}, EmptyData, "the file is empty; it needs a header"),
    ("\na\n1\n", {}, EmptyData, "the first line is blank; it needs a header"),
    ("a,b\n\n\n", {}, EmptyData, "no rows after the header"),
    (
        "a,b\n1\n2,3\n4,5,6\n",
        {},
        MissingColumn,
        "2 problems: row 1 (line 2) has 1 fields where the header has 2, row 3 (line 4) has 3 "
        "fields where the header has 2: complete the row, and quote values that contain ','",
    ),
    (
        "a,a\n1\n",
        {"columns": ["a", "bb"]},
        MissingColumn,
        "3 problems: more than one column 'a': rename all of them but one; no column 'bb': the "
        "file has a, a; row 1 (line 2) has 1 fields",
    ),
    (
        "mode,minutes\nbus,1\n",
        {"columns": ["mod"]},
        MissingColumn,
        "no column 'mod': did you mean 'mode'? the file has mode, minutes",
    ),
    (
        "straße,b\nä,1\nö,2\n".encode() + b"\xff,3\n",
        {},
        FileUnreadable,
        "row 3 (line 4), column 'stra?e': byte 0xff is not utf-8: save the file as UTF-8, or state",
    ),
    (b"a,b\n\x81,3\nx\n", {}, FileUnreadable, "2 problems: row 1 (line 2), column 'a': byte 0x81"),
    (b"a\n\xe4\n", {"encoding": "ascii"}, FileUnreadable, "byte 0xe4 is not ascii"),
    (b"\xff\xfea", {}, FileUnreadable, "not utf-16 text"),
    ("a\nb\n".encode("utf-16-le"), {}, FileUnreadable, "state the encoding (utf-16-le)"),
    (b"PK\x03\x04...", {}, FileUnreadable, "a spreadsheet or an archive, not text: save it as CSV"),
    ('a,b\n"x,1\n', {}, FileUnreadable, "line 2: not valid CSV"),
    ("a\n1\n", {"encoding": "utf-9"}, InvalidParameter, "encoding 'utf-9' is unknown"),
    ("a\n1\n", {"separator": ";;"}, InvalidParameter, "separator ';;' is not one character"),
    ("a\n1\n", {"decimal": "'"}, InvalidParameter, "is not '.' or ','"),
]


@pytest.mark.parametrize(("text", "options", "kind", "said"), WRONG)
def test_wrong_file_is_explained_in_one_line(
    tmp_path: Path, text: str | bytes, options: dict, kind: type[IncrowdError], said: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(kind) as caught:
        data.read(path, **options)
    assert said in str(caught.value)
    assert kind is InvalidParameter or str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_many_problems_are_counted_after_the_first_ten(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n" + "1\n" * 500)
    with pytest.raises(MissingColumn) as caught:
        data.read(path)
    assert "500 problems: row 1 (line 2)" in str(caught.value)
    assert str(caught.value).endswith("; and 490 more")
    assert len(str(caught.value)) < 1200


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable, match=r"none\.csv: cannot read the data: No such file"):
        data.read(tmp_path / "none.csv")
    with pytest.raises(FileUnreadable, match="directory"):
        data.read(tmp_path)
    packed = gzip.compress(GERMAN.encode())
    for damaged in (b"mode\nbus\n", packed[:-12]):
        with pytest.raises(FileUnreadable, match="cannot read the data"):
            data.read(write(tmp_path, damaged, "people.csv.gz"))


def test_missing_columns_are_named_together(tmp_path: Path) -> None:
    people = data.read(write(tmp_path, "mode,minutes\nbus,1\n"))
    with pytest.raises(MissingColumn, match=r"2 problems: no column 'mod': did you .* 'minute'"):
        people.columns(["mod", "minute"])
    with pytest.raises(MissingColumn, match="no column 'x': the file has mode, minutes"):
        people.column("x")


def test_people_without_a_name_of_their_own_are_listed(tmp_path: Path) -> None:
    people = data.read(write(tmp_path, "id,x\nann,1\n,2\nbob,3\nann,4\nNA,5\n"), null_values=["NA"])
    with pytest.raises(UnmatchedPeople) as caught:
        people.people("id")
    assert str(caught.value).endswith(
        "people.csv: column 'id': 3 problems: row 2 has no name, row 5 has no name: give every "
        "person a name; 'ann' stands in rows 1, 4: give every person a name of their own"
    )


def test_align_gives_positions_in_the_other_order() -> None:
    other = np.array(["b", "c", "a"])
    names = ["a", "b", "c"]
    assert other[data.align(names, other)].tolist() == names


def test_align_lists_people_on_one_side_alone() -> None:
    with pytest.raises(UnmatchedPeople) as caught:
        data.align(["ann", "bob", "cat"], ["bob", "eve", "flo"], that="friends.csv")
    assert str(caught.value) == (
        "2 people of the data not in friends.csv ('ann', 'cat'); 2 people of friends.csv not in "
        "the data ('eve', 'flo'): people are joined by name, so correct the names, or take out "
        "those who are in one of the two alone"
    )
    many = [f"p{number}" for number in range(5000)]
    with pytest.raises(UnmatchedPeople, match=r"5,000 people .* and 4,990 more\); 1 person of"):
        data.align(many, ["x"])


def test_align_refuses_a_doubled_name() -> None:
    with pytest.raises(UnmatchedPeople, match="the graph: 'a' stands in rows 1, 2"):
        data.align(["a", "b"], ["a", "a"])


def test_numbers_of_a_file_are_read(tmp_path: Path) -> None:
    assert data.read_numbers(write(tmp_path, "1\n2.5\n\n")) == (1.0, 2.5)
    with pytest.raises(InvalidParameter, match="line 2: 'x' is not a number"):
        data.read_numbers(write(tmp_path, "1\nx\n"))
    with pytest.raises(EmptyData, match="write one number per line"):
        data.read_numbers(write(tmp_path, ""))
