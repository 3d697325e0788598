"""SQL: the subset is read as SQL means it, and everything else is refused in one line."""

from __future__ import annotations

import re
import subprocess
import sys

import msgspec
import numpy as np
import pytest

from incrowd.errors import IncrowdError, InvalidParameter, InvalidQuery, MissingExtra
from incrowd.randomizers import Redirect
from incrowd.tasks import TASKS, Query, natural_task
from incrowd.tasks.query import Column

COLUMNS = (
    Column(name="town", type="category", values=("Bonn", "Köln", "Ulm")),
    Column(name="age", type="integer", low=18, high=21),
    Column(name="weight", type="number", low=0, high=200),
    Column(name="steps", type="integer"),
    Column(name="wide", type="integer", low=0, high=60_000),
)


def query(sql):
    return Query(sql=sql, table="people", columns=COLUMNS)


def sets(grouping):
    return [each.columns for each in query(f"SELECT COUNT(*) FROM people {grouping}").sets]


@pytest.mark.parametrize(
    ("grouping", "expected"),
    [
        ("", [()]),
        ("GROUP BY town", [("town",)]),
        ("GROUP BY (town)", [("town",)]),
        ("GROUP BY Town, AGE", [("town", "age")]),
        ("GROUP BY (town, age)", [("town", "age")]),
        ("GROUP BY ()", [()]),
        (
            "GROUP BY GROUPING SETS ((town, age), (town), age, ())",
            [("town", "age"), ("town",), ("age",), ()],
        ),
        ("GROUP BY ROLLUP (town, age)", [("town", "age"), ("town",), ()]),
        ("GROUP BY CUBE (town, age)", [("town", "age"), ("town",), ("age",), ()]),
        ("GROUP BY ROLLUP ((town, age), wide)", None),
        ("GROUP BY age, ROLLUP (town)", [("age", "town"), ("age",)]),
        ("GROUP BY CUBE (town), age", [("town", "age"), ("age",)]),
        ("GROUP BY GROUPING SETS (ROLLUP (town), age)", [("town",), (), ("age",)]),
        ("GROUP BY people.town", [("town",)]),
    ],
)
def test_group_by_gives_its_grouping_sets(grouping, expected):
    if expected is None:
        with pytest.raises(InvalidQuery, match="1,200,040 cells"):
            sets(grouping)
    else:
        assert sets(grouping) == expected


def test_cells_are_row_major_and_shared_in_ranges():
    (both,) = query("SELECT COUNT(*) FROM people GROUP BY town, age").sets
    assert both.cells == 20
    assert both.texts(np.array([0, 8, 9])) == [["Bonn", "Köln", "Köln"], ["18", "21", "no answer"]]
    values = np.array([(1, 21), (2, 18), (3, -(2**63))], [("town", "<i8"), ("age", "<i8")])
    assert both.cell_of(values).tolist() == [8, 10, 19]
    for targets in range(1, 21):
        edges = both.edges(targets)
        sizes = np.diff(edges)
        assert (edges[0], edges[-1], sizes.sum()) == (0, 20, 20)
        assert sizes.max() - sizes.min() <= 1
        owners = both.target_of(np.arange(20), targets)
        assert (np.searchsorted(edges, np.arange(20), side="right") - 1 == owners).all()


def test_parse_reads_items_sets_and_measures():
    asked = query(
        "SELECT p.town AS t, avg(Weight), COUNT(*), COUNT(town) AS n, min(steps) AS least,"
        " VAR(weight) AS v, VARIANCE(steps), VAR_SAMP(age) FROM people AS p"
        " WHERE wide > 3 /* enough */ GROUP BY town -- that is all"
    )
    assert [each.name for each in asked.plan.items] == [
        "t", "AVG(weight)", "COUNT(*)", "n", "least", "v", "VARIANCE(steps)", "VARIANCE(age)",
    ]  # fmt: skip
    assert [each.name for each in asked.measures] == ["age", "weight", "steps"]
    assert asked.measure_dtype == [("age", "<i8"), ("weight", "<f8"), ("steps", "<i8")]
    assert asked.asks("ignored") == ("town", "age", "weight", "steps", "wide")
    assert query("SELECT COUNT(*) FROM people").asks() == ("town",)
    assert query("SELECT MAX(weight) FROM people").labels == ("all: MAX(weight)",)
    assert query("SELECT COUNT(*), SUM(age) FROM people GROUP BY age").labels[:3] == (
        "age=18: COUNT(*)", "age=18: SUM(age)", "age=19: COUNT(*)",
    )  # fmt: skip


PEOPLE = np.array(
    [("Bonn", 18, 1.5, -3, 0), ("Köln", 19, 60.0, 5, 7), ("Ulm", 21, 200.0, 2**53, 60_000)], object
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("town = 'Bonn'", [0]),
        ("town <> 'Bonn'", [1, 2]),
        ("town != 'Bonn' AND age < 20", [1]),
        ("town > 'C' OR steps = -3", [0, 1, 2]),
        ("town BETWEEN 'A' AND 'K'", [0]),
        ("town IN ('Ulm', 'Bonn')", [0, 2]),
        ("town NOT IN ('Ulm', 'Bonn')", [1]),
        ("NOT (town = 'Ulm' OR age = 18)", [1]),
        ("age BETWEEN 19 AND 21", [1, 2]),
        ("age NOT BETWEEN 19 AND 21", [0]),
        ("19 < age", [2]),
        ("20.5 >= age", [0, 1]),
        ("age > 18.5", [1, 2]),
        ("age = 18.5", []),
        ("age <> 18.5", [0, 1, 2]),
        ("age IN (18, 19.0, 1.9e1)", [0, 1]),
        ("steps >= 9007199254740992", [2]),
        ("steps < 9007199254740991.5", [0, 1]),
        ("steps < 1e300", [0, 1, 2]),
        ("steps > -1e300 AND (weight <= 60)", [0, 1]),
        ("weight = 1.5", [0]),
        ("weight > -0.1", [0, 1, 2]),
        (" AND ".join(["age >= 18"] * 1200) + " AND wide = 7", [1]),
    ],
)
def test_condition_selects_tuples_as_sql_does(where, expected):
    asked = query(
        f"SELECT COUNT(*), MIN(age), MIN(weight), MIN(steps), MIN(wide) FROM people"
        f" WHERE {where} GROUP BY town"
    )
    assert np.flatnonzero(asked.matches(asked.encode(PEOPLE))).tolist() == expected


REFUSALS = [
    ("SELECT COUNT(*) FROM people WHERE", "1, column 29: not SQL near 'WHERE'"),
    ("", "1, column 1: empty"),
    ("-- nothing", "1, column 1: empty"),
    ("DROP TABLE people", "1, column 1: DROP: expected SELECT"),
    ("WITH q AS (SELECT 1) SELECT COUNT(*) FROM people", "1, column 1: WITH: expected SELECT"),
    ("SELECT COUNT(*) FROM people; SELECT 1", "1, column 30: SELECT: a second statement"),
    ("SELECT COUNT(*)\nFROM people WHERE town = 'Bonn", "2, column 26: not SQL: is a quotation"),
    ("SELECT COUNT(*)", "1, column 8: COUNT(*): FROM is missing: add FROM people"),
    ("SELECT COUNT(*) FROM person", "1, column 22: person: unknown table; did you mean people?"),
    ("SELECT COUNT(*) FROM public.people", "1, column 22: public.people: expected a table and"),
    ("SELECT COUNT(*) FROM (SELECT * FROM people)", "1, column 17: FROM: subqueries are not"),
    ("SELECT COUNT(*) FROM people, other", "1, column 30: JOIN: a person has one tuple of one"),
    ("SELECT COUNT(*)\nFROM people\nJOIN o ON o.a = 1", "3, column 1: JOIN: a person has one"),
    ("SELECT COUNT(*) FROM people UNION SELECT 1", "1, column 29: UNION: queries are not"),
    ("SELECT DISTINCT COUNT(*) FROM people", "1, column 8: DISTINCT: every cell has one row"),
    ("SELECT COUNT(*) FROM people HAVING COUNT(*) > 2", "1, column 29: HAVING: cells are not"),
    ("SELECT COUNT(*) FROM people\n ORDER BY 1", "2, column 2: ORDER BY: rows come by grouping"),
    ("SELECT COUNT(*) FROM people LIMIT 5", "1, column 29: LIMIT: every cell is answered"),
    ("SELECT COUNT(*) FROM people LIMIT 5 OFFSET 2", "LIMIT: every cell is answered"),
    ("SELECT COUNT(*) FROM people USING SAMPLE 10%", "1, column 35: SAMPLE: sampling is a"),
    ("SELECT COUNT(*) FROM people TABLESAMPLE 10%", "1, column 22: people TABLESAMPLE 10"),
    ("SELECT COUNT(*) FROM people FOR UPDATE", "1, column 29: FOR: there is nothing to lock"),
    ("SELECT COUNT(*) FROM people AS p(a)", "1, column 22: people AS p(a): columns are not"),
    ("SELECT q.town, COUNT(*) FROM people GROUP BY town", "8: q.town: unknown table; known:"),
    ("SELECT * FROM people", "1, column 8: *: expected a grouped column or one of AVG"),
    ("SELECT town FROM people GROUP BY town", "8: town: nothing is aggregated: add COUNT(*)"),
    ("SELECT age, COUNT(*) FROM people GROUP BY town", "8: age: is neither grouped nor"),
    ("SELECT AVG(wieght) FROM people", "12: wieght: unknown column; did you mean weight?"),
    ("SELECT SUM(town) FROM people", "8: SUM(town): town is a category: declare it as integer"),
    ("SELECT MEDIAN(age) FROM people", "8: MEDIAN(age): unknown function; known: AVG, COUNT"),
    ("SELECT STDEV(age) FROM people", "unknown function; known: AVG, COUNT"),
    ("SELECT SUM(age + 1) FROM people", "8: SUM(age + 1): expected one column: have people"),
    ("SELECT SUM(age) / 2 FROM people", "8: SUM(age) / 2: expected a grouped column or one of"),
    ("SELECT COUNT(DISTINCT town) FROM people", "8: COUNT(DISTINCT town): expected one column:"),
    ("SELECT COUNT(1) FROM people", "8: COUNT(1): expected one column: write COUNT(*)"),
    ("SELECT COUNT(town, age) FROM people", "8: COUNT(town, age): expected one column: write"),
    ("SELECT SUM(age) OVER () FROM people", "8: SUM(age): expected a grouped column or one of"),
    ("SELECT SUM(age) FILTER (WHERE age > 2) FROM people", "8: SUM(age) FILTER (WHERE age > 2):"),
    ("SELECT AVG(age ORDER BY age) FROM people", "8: AVG(age ORDER BY age): expected one column"),
    ("SELECT COUNT(people.*) FROM people", "14: people.*: expected the name of a column"),
    ("SELECT COUNT(*), COUNT(*) FROM people", "18: COUNT(*): a second column 'COUNT(*)': rename"),
    ("SELECT COUNT(*) FROM people GROUP BY weight", "38: weight: a number has too many values"),
    ("SELECT COUNT(*) FROM people GROUP BY steps", "38: steps: an integer without bounds has no"),
    ("SELECT COUNT(*) FROM people GROUP BY 1", "38: 1: expected the name of a column to group by"),
    ("SELECT COUNT(*) FROM people GROUP BY age % 2", "38: age % 2: expected the name of a column"),
    ("SELECT COUNT(*) FROM people GROUP BY ALL", "29: GROUP BY: ALL is not answered: name"),
    ("SELECT COUNT(*) FROM people GROUP BY age WITH ROLLUP", "29: GROUP BY: ROLLUP is not"),
    (
        "SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ((age, town), (town, age))",
        "29: GROUP BY: grouping set (town, age) is asked twice",
    ),
    ("SELECT COUNT(*) FROM people GROUP BY age, ROLLUP(age)", "grouping set (age) is asked twice"),
    (
        "SELECT COUNT(*) FROM people GROUP BY wide, age",
        "29: GROUP BY: grouping set (wide, age) has 300,010 cells, more than 100,000",
    ),
    (
        f"SELECT COUNT(*) FROM people GROUP BY CUBE ({', '.join(['age'] * 10)})",
        "1,024 grouping sets are more than 1,000",
    ),
    (f"SELECT COUNT(*) FROM people GROUP BY CUBE ({', '.join(['age'] * 3000)})", "grouping sets"),
    ("SELECT COUNT(*) FROM people WHERE age > steps", "41: steps: expected a literal to compare"),
    ("SELECT COUNT(*) FROM people WHERE age + 1 > 2", "35: age + 1 > 2: expected a column on one"),
    ("SELECT COUNT(*) FROM people WHERE town = 'Boon'", "42: 'Boon': is no value of town; did you"),
    ("SELECT COUNT(*) FROM people WHERE town IN ('Bonn', 'X')", "52: 'X': is no value of town"),
    ("SELECT COUNT(*) FROM people WHERE town = 3", "42: 3: town is a category: compare it with"),
    ("SELECT COUNT(*) FROM people WHERE age = '3'", "41: '3': age is an integer: leave out the"),
    ("SELECT COUNT(*) FROM people WHERE age IS NULL", "35: age: a missing value matches no"),
    ("SELECT COUNT(*) FROM people WHERE town LIKE 'B%'", "35: town LIKE 'B%': expected a compar"),
    ("SELECT COUNT(*) FROM people WHERE age IN (SELECT 1)", "35: age IN (SELECT 1): expected a"),
    ("SELECT COUNT(*) FROM people WHERE TRUE", "35: TRUE: expected a comparison of a column"),
    ("SELECT COUNT(*) FROM people WHERE age < 1e999", "41: 1e999: no number that a double can"),
    ("SELECT COUNT(*) FROM people WHERE age < 1e-99999999", "41: 1e-99999999: no number that"),
    (f"SELECT COUNT(*) FROM people WHERE {'(' * 3000}age = 1{')' * 3000}", "nested too deeply"),
    ("SELECT COUNT(*) FROM people" + " " * 20_000, "at most 20,000 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "expected"), REFUSALS, ids=[sql[:60] for sql, _ in REFUSALS])
def test_refused_query_raises_one_line_with_its_place(sql, expected, capfd):
    with pytest.raises(InvalidQuery) as refused:
        query(sql)
    said = str(refused.value)
    assert expected in said
    assert said.startswith("query: ")
    assert said.splitlines() == [said]
    if "deeply" not in said and "characters" not in said:
        assert said.startswith("query: line ")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("sql", [b"SELECT", None, 3])
def test_query_that_is_no_text_is_refused(sql):
    with pytest.raises(InvalidQuery, match="expected SQL"):
        query(sql)


MANGLED = """
SELECT town, AVG(weight) AS a, COUNT(*) FROM people WHERE NOT (age >= 19 OR town IN ('Ulm', 'Bonn'))
GROUP BY GROUPING SETS ((town, age), ROLLUP (wide))
"""


def test_mangled_queries_are_refused_in_one_line():
    """Words of a good query left out, doubled and exchanged: one clean line, or an answer."""
    rng = np.random.default_rng(5)
    words = re.findall(r"'\w+'|>=|\w+|\S", MANGLED)
    odd = [*words, "'", '"', ";", "--", "/*", "*/", "\x00", "é", "0x", "1e", ".", "::INT", "[", "?"]
    refused = []
    for _ in range(400):
        text = list(words)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(text)))
            text[at : at + int(rng.integers(0, 3))] = [str(rng.choice(odd))] * int(rng.integers(3))
        try:
            query(" ".join(text))
        except InvalidQuery as error:
            refused.append(str(error))
    assert 100 < len(refused) < 395
    assert all(len(each.splitlines()) == 1 and len(each) < 400 for each in refused)


def test_query_is_a_task_like_others():
    asked = query("SELECT town, AVG(weight) FROM people GROUP BY town")
    assert TASKS.load("query") is Query
    assert msgspec.json.decode(msgspec.json.encode(asked), type=Query) == asked
    assert hash(asked) == hash(query(asked.sql))
    asked.require(Redirect(targets=3, redirect_probability=0.5))
    with pytest.raises(InvalidParameter, match="pass a Query as task"):
        natural_task(Redirect(targets=3, redirect_probability=0.5))
    broken = {"kind": "query", "sql": "SELECT 1", "table": "people", "columns": []}
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(broken, Query)
    assert isinstance(refused.value.__cause__, IncrowdError)
    with pytest.raises(InvalidParameter, match="table must be"):
        Query(sql=asked.sql, table=" ", columns=COLUMNS)


def test_query_without_sqlglot_names_the_extra(monkeypatch):
    for name in ("sql", "source"):
        monkeypatch.delitem(sys.modules, f"incrowd.tasks.query.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(MissingExtra, match=r"pip install 'incrowd\[sql\]'"):
        query("SELECT COUNT(*) FROM people")


def test_tasks_are_imported_without_the_parser():
    code = "import sys, incrowd.tasks; sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
