"""Records from frames and columnar files equal those of a CSV file of the same table."""

import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from incrowd import data
from incrowd.errors import (
    EmptyData,
    FileUnreadable,
    InvalidParameter,
    MissingColumn,
    MissingExtra,
)

DAY = date(2024, 5, 1)
VALUES: dict[str, list[Any]] = {
    "id": ["ann", "bob", "cat"],
    "age": [31, None, 54],
    "height": [1.75, 2.0, None],
    "member": [True, False, None],
    "since": [DAY, None, DAY],
    "seen": [datetime(2024, 5, 1, 10), None, datetime(2024, 5, 1, 10, 30, 1)],
    "town": [" Köln ", "Zürich", None],
}
TEXTS = {
    "id": ["ann", "bob", "cat"],
    "age": ["31", "", "54"],
    "height": ["1.75", "2", ""],
    "member": ["true", "false", ""],
    "since": ["2024-05-01", "", "2024-05-01"],
    "seen": ["2024-05-01 10:00:00", "", "2024-05-01 10:30:01"],
    "town": ["Köln", "Zürich", ""],
}


def texts(records: data.Records) -> dict[str, list[str]]:
    return {name: records.column(name).tolist() for name in records.names}


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} is not installed")


def pandas_frame() -> Any:
    return library("pandas").DataFrame(VALUES)


def polars_frame() -> Any:
    return library("polars").DataFrame(VALUES)


def pyarrow_table() -> Any:
    return library("pyarrow").table(VALUES)


@pytest.mark.parametrize("make", [pandas_frame, polars_frame, pyarrow_table])
def test_frame_gives_the_texts_of_a_csv_file(make: Any) -> None:
    records = data.read(make())
    assert texts(records) == TEXTS
    assert (records.n, records.people("id").tolist()) == (3, TEXTS["id"])
    assert records.notes[0].endswith("frame: 7 columns, 3 rows")


def test_pandas_types_with_gaps_are_read() -> None:
    pandas = library("pandas")
    frame = pandas.DataFrame(
        {
            "whole": pandas.array([1, None], dtype="Int64"),
            "flag": pandas.array([True, None], dtype="boolean"),
            "kind": pandas.Categorical(["a", None]),
            "day": pandas.to_datetime(["2024-05-01 00:00:00", None]),
            "single": pandas.Series([0.1, 3.0], dtype="float32"),
            "mixed": pandas.Series(["x", 2.0], dtype=object),
            "comma": ["1,5", "2,5"],
        }
    )
    assert texts(data.read(frame)) == {
        "whole": ["1", ""],
        "flag": ["true", ""],
        "kind": ["a", ""],
        "day": ["2024-05-01 00:00:00", ""],
        "single": ["0.1", "3"],
        "mixed": ["x", "2"],
        "comma": ["1.5", "2.5"],
    }


def test_null_values_hold_for_frames() -> None:
    frame = library("pandas").DataFrame({"x": ["a", "NA"], 7: [1e300, float("nan")]})
    records = data.read(frame, null_values=["NA"])
    assert texts(records) == {"x": ["a", ""], "7": ["1e+300", ""]}


def write_parquet(path: Path, query: str) -> Path:
    library("duckdb").connect().execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path


PEOPLE = """SELECT * FROM (VALUES
  ('ann', 31, 1.75::DOUBLE, true, DATE '2024-05-01', TIMESTAMP '2024-05-01 10:00:00', ' Köln '),
  ('bob', NULL, 2.0, false, NULL, NULL, 'Zürich'),
  ('cat', 54, NULL, NULL, DATE '2024-05-01', TIMESTAMP '2024-05-01 10:30:01', NULL)
) AS t(id, age, height, member, since, seen, town)"""


@pytest.mark.parametrize("name", ["people.parquet", "people [2024]*.parquet"])
def test_parquet_gives_the_texts_of_a_csv_file(tmp_path: Path, name: str) -> None:
    records = data.read(write_parquet(tmp_path / name, PEOPLE))
    assert texts(records) == TEXTS
    assert records.notes == (f"{name}: 7 columns, 3 rows",)


def test_parquet_keeps_order_and_single_floats(tmp_path: Path) -> None:
    query = 'SELECT i::INTEGER AS "a ""b", (i / 10)::FLOAT AS f FROM range(50000) AS t(i)'
    records = data.read(write_parquet(tmp_path / "many.parquet", query))
    assert records.column('a "b').tolist() == [str(each) for each in range(50000)]
    assert records.column("f")[:11].tolist() == [
        *("0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1"),
    ]


def test_nested_column_is_refused_when_it_is_asked_for(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "nested.parquet", "SELECT 1 AS a, [1, 2] AS l")
    records = data.read(path)
    assert records.column("a").tolist() == ["1"]
    with pytest.raises(MissingColumn, match=r"'l' holds values of type INTEGER\[\]: turn them"):
        records.column("l")
    frame = library("polars").DataFrame({"l": [[1], [2]]})
    with pytest.raises(MissingColumn, match="column 'l' holds values of type"):
        data.read(frame).column("l")


def test_parquet_without_duckdb_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.parquet"
    path.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(
        MissingExtra, match=r"duckdb, .* pip install 'incrowd\[data\]', or save it as CSV"
    ):
        data.read(path)


def test_arrow_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.feather"
    path.write_bytes(b"ARROW1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        MissingExtra, match=r"pyarrow, .* pip install 'incrowd\[data\]', or save it as CSV"
    ):
        data.read(path)


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_arrow_gives_the_texts_of_a_csv_file(tmp_path: Path, kind: str) -> None:
    table = pyarrow_table()
    ipc = library("pyarrow.ipc")
    path = tmp_path / "people.arrow"
    make = ipc.new_file if kind == "file" else ipc.new_stream
    with make(str(path), table.schema) as writer:
        writer.write_table(table)
    assert texts(data.read(path)) == TEXTS


@pytest.mark.parametrize(("begin", "needs"), [(b"PAR1", "duckdb"), (b"ARROW1", "pyarrow")])
def test_damaged_columnar_file_is_refused_in_one_line(
    tmp_path: Path, begin: bytes, needs: str
) -> None:
    library(needs)
    path = tmp_path / "people"
    path.write_bytes(begin + b"garbage")
    with pytest.raises(FileUnreadable, match="that cannot be read") as caught:
        data.read(path)
    assert "\n" not in str(caught.value)


def test_other_objects_are_refused() -> None:
    for wrong in ([1, 2], None, {"a": [1]}, library("polars").LazyFrame({"a": [1]})):
        with pytest.raises(InvalidParameter, match="must be a file or a frame of pandas, polars"):
            data.read(wrong)


def test_frame_problems_are_named() -> None:
    pandas = library("pandas")
    with pytest.raises(EmptyData, match="pandas frame: no rows"):
        data.read(pandas.DataFrame({"a": []}))
    with pytest.raises(MissingColumn, match="pandas frame: "):
        data.read(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(MissingColumn, match="no column 'b': the file has a"):
        data.read(pandas.DataFrame({"a": [1]}), columns=["b"])
