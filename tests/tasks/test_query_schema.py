"""Schemas are read, or refused with the key; values are encoded, or refused with the row."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from incrowd.errors import (
    EmptyData,
    FileUnreadable,
    IncrowdError,
    InvalidConfig,
    InvalidParameter,
    MalformedConfig,
    MissingColumn,
)
from incrowd.tasks.query import Column, Query, Schema

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS = (
    Column(name="town", type="category", values=("Bonn", "Köln", "7")),
    Column(name="age", type="integer", low=18, high=21),
    Column(name="weight", type="number", low=0, high=200),
    Column(name="steps", type="integer"),
)
ASKED = Query(
    sql="SELECT town, AVG(weight), SUM(steps) FROM people WHERE age > 18 GROUP BY town",
    table="people",
    columns=COLUMNS,
)


def test_example_data_fit_their_schema():
    schema = Schema.load(EXAMPLES / "patients.toml")
    with (EXAMPLES / "patients.csv").open(encoding="utf-8") as stream:
        people = list(csv.DictReader(stream))
    names = ", ".join(each.name for each in schema.columns if not each.numeric)
    asked = Query.of(
        f"SELECT COUNT(*), AVG(insulin) FROM patients GROUP BY CUBE ({names})",
        schema,
    )
    assert asked.asks() == tuple(people[0])
    values = asked.encode(asked.rows([list(each.values()) for each in people]))
    assert len(values) == 1000
    assert all(np.unique(values[each.name]).size == each.size for each in schema.columns[:2])


def write(tmp_path, text):
    path = tmp_path / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return path


GOOD = '[columns.a]\ntype = "category"\nvalues = ["x"]\n'


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ('table = "t', MalformedConfig, "not valid TOML"),
        ("", InvalidConfig, "table: missing"),
        (GOOD, InvalidConfig, "table: missing"),
        ('table = " "\n' + GOOD, InvalidConfig, "table must be the name of the data"),
        ('table = "t"', InvalidConfig, "columns: missing; add a table [columns.name]"),
        ('table = "t"\ncolumns = 3', InvalidConfig, "columns: missing"),
        ('table = "t"\ncolumn = 3', InvalidConfig, "column: unknown key; did you mean columns?"),
        ('table = "t"\n[columns]\na = 3', InvalidConfig, "columns.a: expected a table, written as"),
        ('table = "t"\n[columns.a]\n', InvalidConfig, "columns.a.type: expected one of category"),
        (
            'table = "t"\n[columns.a]\ntype = "text"',
            InvalidConfig,
            "columns.a.type: expected one of category, integer, number, got 'text'",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "integer"\nlo = 3',
            InvalidConfig,
            "columns.a.lo: unknown key; did you mean low?",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "category"',
            InvalidConfig,
            "columns.a.values: missing; list what may stand",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "category"\nvalues = "ab"',
            InvalidConfig,
            "columns.a.values: missing; list what may stand",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "category"\nvalues = ["x", 2]',
            InvalidConfig,
            "columns.a.values: expected texts, got 2: put it in quotes",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "category"\nvalues = ["x", "x"]',
            InvalidConfig,
            "columns.a.values: 'x' is listed twice",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "category"\nvalues = ["x"]\nlow = 3',
            InvalidConfig,
            "columns.a.low: is for integers and numbers",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "integer"\nvalues = ["x"]',
            InvalidConfig,
            "columns.a.values: is for categories",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "integer"\nlow = 2.5',
            InvalidConfig,
            "columns.a.low: expected a whole number, got 2.5",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "integer"\nhigh = 9007199254740993',
            InvalidConfig,
            "columns.a.high: must be at most 2^53 in size",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "number"\nhigh = inf',
            InvalidConfig,
            "columns.a.high: expected a finite number, got inf",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "number"\nlow = true',
            InvalidConfig,
            "columns.a.low: expected a finite number, got True",
        ),
        (
            'table = "t"\n[columns.a]\ntype = "number"\nlow = 3\nhigh = 2',
            InvalidConfig,
            "columns.a.low: must not be above high = 2, got 3",
        ),
        (
            'table = "t"\n' + GOOD + GOOD.replace("columns.a", "columns.A"),
            InvalidConfig,
            "columns 'a' and 'A' are the same in SQL",
        ),
    ],
)
def test_schema_errors_name_file_and_key(tmp_path, text, kind, expected):
    path = write(tmp_path, text)
    with pytest.raises(kind) as refused:
        Schema.load(path)
    said = str(refused.value)
    assert said.startswith(f"{path}: ")
    assert expected in said
    assert said.splitlines() == [said]


def test_schema_load_names_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileUnreadable, match="cannot read the schema"):
        Schema.load(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'table = "\xe9"')
    with pytest.raises(MalformedConfig, match="not UTF-8"):
        Schema.load(tmp_path / "latin.toml")


def test_column_schema_and_query_reject_wrong_arguments():
    with pytest.raises(InvalidParameter, match="column 'a': low: must not be above"):
        Column(name="a", type="integer", low=3, high=2)
    with pytest.raises(InvalidParameter, match="at least one Column"):
        Schema("t", ())
    with pytest.raises(InvalidParameter, match="such as Schema"):
        Query.of("SELECT COUNT(*) FROM t", None)
    assert [each.size for each in COLUMNS] == [3, 4, None, None]


GOOD_ROWS = [["Bonn", "18", "1.5", "-3"], ["7", "21", "2e2", "9007199254740992"]]


def test_encode_gives_codes_and_numbers_of_columns():
    values = ASKED.encode(np.array(GOOD_ROWS))
    assert values.dtype == [("town", "<i8"), ("age", "<i8"), ("weight", "<f8"), ("steps", "<i8")]
    assert values.tolist() == [(0, 18, 1.5, -3), (2, 21, 200.0, 2**53)]
    by_name = {
        "extra": [0, 0],
        "town": ["Bonn", 7],
        "age": np.array([18.0, 21.0]),
        "weight": [1.5, 200],
        "steps": np.array([-3, 2**53]),
    }
    assert (ASKED.encode(by_name) == values).all()
    texts = {"town": ["Bonn", "7"], "age": [" 18", "21 "]}
    assert (ASKED.encode({**by_name, **texts}) == values).all()
    named = np.array([("Bonn", 18, 1.5, -3)], "U4,i4,f4,i8")
    named.dtype.names = ("town", "age", "weight", "steps")
    assert (ASKED.encode(named) == values[:1]).all()
    assert (ASKED.encode(np.array(GOOD_ROWS, object)) == values).all()
    assert (ASKED.encode(ASKED.rows(GOOD_ROWS)) == values).all()
    assert ASKED.measured(values).tolist() == [(1.5, -3), (200.0, 2**53)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((0, value) for value in ("Ulm", "", "bonn", " ")),
        *((1, value) for value in ("17", "22", "18.5", "x", "")),
        *((2, value) for value in ("-0.001", "nan", "inf", "1,5")),
        *((3, value) for value in ("9007199254740993", "9" * 23, "-9007199254740993")),
    ],
)
def test_encode_when_a_value_is_outside_its_domain_is_the_reserved_code(column, value):
    rows = [*GOOD_ROWS, list(GOOD_ROWS[0])]
    rows[2][column] = value
    encoded = ASKED.encode(np.array(rows))
    present = [each.present(encoded[each.name]).tolist() for each in COLUMNS]
    assert present == [[True, True, place != column] for place in range(len(COLUMNS))]


@pytest.mark.parametrize(
    ("name", "value"), [("age", True), ("age", 18.5), ("weight", np.nan), ("age", None)]
)
def test_encode_when_an_object_is_outside_its_domain_is_the_reserved_code(name, value):
    rows = {"town": ["7"], "age": [18], "weight": [1], "steps": [1], name: [value]}
    encoded = ASKED.encode(rows)
    assert [each.name for each in COLUMNS if not each.present(encoded[each.name])[0]] == [name]


@pytest.mark.parametrize(
    ("rows", "kind", "expected"),
    [
        (np.empty((0, 4)), EmptyData, "no rows"),
        ([["Bonn", "18"]], InvalidParameter, "columns town, age, weight, steps"),
        ([["Bonn"], ["Bonn", "18"]], InvalidParameter, "the same length"),
        ("Bonn", InvalidParameter, "got an array"),
        ({"town": ["Bonn"]}, MissingColumn, "no column 'age' in the data; known: town"),
        (
            {"town": ["7"], "age": [18, 19], "weight": [1], "steps": [1]},
            InvalidParameter,
            "one length",
        ),
        (
            {"town": [["7"]], "age": [18], "weight": [1], "steps": [1]},
            InvalidParameter,
            "column town: expected one value per person",
        ),
    ],
)
def test_encode_rejects_what_is_no_table(rows, kind, expected):
    with pytest.raises(kind) as refused:
        ASKED.encode(rows)
    assert expected in str(refused.value)
    assert isinstance(refused.value, IncrowdError)
