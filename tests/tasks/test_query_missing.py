"""Missing values in queries: as NULL in SQL, but for the group that they are in."""

from __future__ import annotations

import numpy as np
import pytest

from incrowd.tasks import Column, Query

COLUMNS = (
    Column(name="town", type="category", values=("Bonn", "Köln")),
    Column(name="age", type="integer", low=18, high=21),
    Column(name="weight", type="number", low=0, high=200),
    Column(name="sex", type="category", values=("f", "m"), complete=True),
)
NUMBER = {"integer": int, "number": float}


def query(sql):
    return Query(sql=sql, table="people", columns=COLUMNS)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    cells = {
        "town": rng.choice(["Bonn", "Köln", "", "Ulm"], 500),
        "age": rng.choice(["18", "19", "20", "21", "", "17", "x"], 500),
        "weight": rng.choice(["50", "70.5", "90", "", "999"], 500),
        "sex": rng.choice(["f", "m", "", "x"], 500),
    }
    return np.column_stack(list(cells.values()))


@pytest.fixture(scope="module")
def database(people):
    """The same people, with NULL for what is missing or outside its domain."""
    duckdb = pytest.importorskip("duckdb")
    link = duckdb.connect()
    link.execute("CREATE TABLE people (town TEXT, age INT, weight DOUBLE, sex TEXT)")
    rows = []
    for row in people.tolist():
        cells = [
            cell
            if cell in column.values
            else None
            if column.type == "category"
            else _number(column, cell)
            for column, cell in zip(COLUMNS, row, strict=True)
        ]
        rows.append(cells)
    link.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    return link


def _number(column, cell):
    try:
        value = NUMBER[column.type](cell)
    except ValueError:
        return None
    return value if column.low <= value <= column.high else None


CONDITIONS = [
    "town = 'Bonn'",
    "town <> 'Bonn'",
    "NOT town = 'Bonn'",
    "NOT (town = 'Bonn' AND age >= 20)",
    "NOT (town = 'Bonn' OR age >= 20)",
    "NOT (NOT age < 20)",
    "age BETWEEN 19 AND 20 OR NOT weight > 60",
    "weight <> 50",
    "age <> 18.5",
    "NOT age IN (18, 21)",
    "sex <> 'f'",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_condition_when_values_are_missing_counts_as_sql_does(condition, people, database):
    asked = query(f"SELECT town, COUNT(*), SUM(age) FROM people WHERE {condition} GROUP BY town")
    values = asked.rows(people[:, [_place(name) for name in asked.asks()]].tolist())
    (expected,) = database.execute(
        f"SELECT COUNT(*) FROM people WHERE ({condition}) AND age IS NOT NULL"
    ).fetchone()
    assert int(asked.matches(asked.encode(values)).sum()) == expected


def test_groups_when_values_are_missing_have_one_of_no_answer(people, database):
    asked = query("SELECT town, age, COUNT(*), AVG(weight) FROM people GROUP BY town, age")
    values = asked.rows(people[:, [_place(name) for name in asked.asks()]].tolist())
    truth = dict(zip(asked.labels, asked.truth(values).tolist(), strict=True))
    rows = database.execute(
        "SELECT town, age, COUNT(*), AVG(weight) FROM people WHERE weight IS NOT NULL"
        " GROUP BY town, age"
    ).fetchall()
    assert len(rows) == 15
    for town, age, count, mean in rows:
        cell = f"town={town or 'no answer'}, age={age or 'no answer'}"
        assert truth[f"{cell}: COUNT(*)"] == count
        assert truth[f"{cell}: AVG(weight)"] == pytest.approx(mean)


def test_groups_of_a_complete_column_have_none_of_no_answer(people):
    asked = query("SELECT sex, COUNT(*) FROM people GROUP BY sex")
    values = asked.rows(people[:, [_place("sex")]].tolist())
    assert asked.labels == ("sex=f: COUNT(*)", "sex=m: COUNT(*)")
    counts = [float((people[:, 3] == each).sum()) for each in "fm"]
    assert asked.truth(values).tolist() == counts


def _place(name):
    return [each.name for each in COLUMNS].index(name)
