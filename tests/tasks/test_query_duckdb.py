"""Without lies and caps the answer is that of a database, on random tables and queries."""

from __future__ import annotations

import math
from itertools import combinations

import duckdb
import numpy as np
import pytest

from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.randomness import Seeds
from incrowd.tasks.query import Column, Query

TOWNS = ("Aachen", "Bonn", "Köln", "o'Hara", "Ulm")


def schema(rng):
    """Five columns with random domains, each in a random place."""
    low = int(rng.integers(-5, 5))
    columns = [
        Column(name="town", type="category", values=TOWNS[: rng.integers(1, 6)]),
        Column(name="Sex", type="category", values=("f", "m")),
        Column(name="age", type="integer", low=low, high=low + int(rng.integers(0, 6))),
        Column(name="income", type="integer"),
        Column(name="weight", type="number"),
    ]
    return tuple(columns[i] for i in rng.permutation(5))


def table(columns, people, rng):
    """Raw values that fit; large whole numbers and numbers of all sizes among them."""
    found = {}
    for each in columns:
        if each.type == "category":
            found[each.name] = np.array(each.values)[rng.integers(len(each.values), size=people)]
        elif each.size is not None:
            found[each.name] = rng.integers(int(each.low), int(each.high) + 1, size=people)
        elif each.type == "integer":
            scale = 10 ** int(rng.integers(1, 15))
            found[each.name] = rng.integers(-scale, scale, size=people)
        else:
            found[each.name] = rng.lognormal(3, float(rng.choice([0.1, 2.0])), size=people)
    return found


def pick(rng, options, least=1):
    """Some of these, in random order."""
    count = int(rng.integers(least, len(options) + 1))
    return [options[i] for i in rng.permutation(len(options))[:count]]


def grouping(rng):
    """A random GROUP BY, and the columns that may be shown."""
    columns = pick(rng, ["town", "sex", "AGE"])
    match int(rng.integers(7)):
        case 0:
            return "", []
        case 1:
            return f"GROUP BY {', '.join(columns)}", columns
        case 2:
            return f"GROUP BY ROLLUP ({', '.join(columns)})", columns
        case 3:
            return f"GROUP BY CUBE ({', '.join(columns)})", columns
        case 4:
            first, *rest = columns
            return f"GROUP BY {first}, ROLLUP ({', '.join(rest)})" if rest else "GROUP BY town", (
                columns if rest else ["town"]
            )
        case _:
            names = ["town", "sex", "AGE"]
            subsets = [each for size in range(4) for each in combinations(names, size)]
            chosen = pick(rng, subsets)
            used = [name for name in names if any(name in each for each in chosen)]
            texts = [
                each[0] if len(each) == 1 and rng.random() < 0.5 else f"({', '.join(each)})"
                for each in chosen
            ]
            return f"GROUP BY GROUPING SETS ({', '.join(texts)})", used


def where(rng, columns, depth=2):
    """A random condition."""
    if depth and rng.random() < 0.4:
        left, right = where(rng, columns, depth - 1), where(rng, columns, depth - 1)
        joined = f"({left} {rng.choice(['AND', 'OR'])} {right})"
        return f"NOT {joined}" if rng.random() < 0.3 else joined
    towns = next(each.values for each in columns if each.name == "town")
    town = str(rng.choice(towns)).replace("'", "''")
    test = str(rng.choice(["<", "<=", ">", ">=", "=", "<>"]))
    return str(
        rng.choice(
            [
                f"town {test} '{town}'",
                f"town IN ('{town}')",
                f"town NOT BETWEEN 'B' AND '{town}'",
                f"age {test} {int(rng.integers(-5, 10))}",
                f"{int(rng.integers(-5, 10))}.5 {test} age",
                f"age NOT IN (0, {int(rng.integers(-5, 10))})",
                f"weight {test} {float(rng.integers(1, 90)) / 2}",
                f"income BETWEEN -{int(rng.integers(1, 10**6))} AND 1e{int(rng.integers(1, 12))}",
            ]
        )
    )


AGGREGATES = [
    "COUNT(*)", "COUNT(town)", "SUM(age)", "SUM(income)", "SUM(weight)", "AVG(age)", "AVG(income)",
    "AVG(weight)", "MIN(income)", "MAX(income)", "MIN(weight)", "MAX(age)", "VARIANCE(age)",
    "VAR_SAMP(weight)",
]  # fmt: skip


def same(mine, theirs):
    """Whole numbers exactly, others to the last digits; NULL only where there is one."""
    if mine is None or theirs is None or isinstance(theirs, str):
        return mine == theirs
    if isinstance(theirs, int):
        return isinstance(mine, int) and mine == theirs
    return math.isclose(mine, float(theirs), rel_tol=1e-12, abs_tol=1e-12)


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        yield connection


def by_database(database, columns, rows, sql):
    """What the database answers."""
    kinds = {"category": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE"}
    made = ", ".join(f'"{each.name}" {kinds[each.type]}' for each in columns)
    database.execute(f"CREATE OR REPLACE TABLE people ({made})")
    places = ", ".join(["unnest(?)"] * len(columns))
    listed = [rows[each.name].tolist() for each in columns]
    database.execute(f"INSERT INTO people SELECT {places}", listed)
    return database.execute(sql).fetchall()


@pytest.mark.parametrize("seed", range(150))
def test_random_queries_match_duckdb(seed, database):
    rng = np.random.default_rng(seed)
    columns = schema(rng)
    people = int(rng.choice([1, 2, 7, 60, 400]))
    rows = table(columns, people, rng)
    groups, shown = grouping(rng)
    aggregates = [f"{each} AS a{i}" for i, each in enumerate(pick(rng, AGGREGATES))]
    condition = f"WHERE {where(rng, columns)}" if rng.random() < 0.6 else ""
    sql = f"SELECT {', '.join([*shown, *aggregates])} FROM people {condition} {groups}"
    asked = Query(sql=sql, table="people", columns=columns)

    protocol = ScrambledQuery(
        targets=int(rng.integers(1, 9)), sources=min(5, people), dummies=3, n=people, query=asked
    )
    values = asked.encode(rows)
    answer = asked.estimate(protocol.collect(values, Seeds(seed)), protocol.randomizer)
    expected = by_database(database, columns, rows, sql)

    def key(row):
        return tuple((each is not None, each) for each in row[: len(shown)])

    found = sorted((row.values for row in answer.rows), key=key)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, sorted(expected, key=key), strict=True):
        assert all(map(same, mine, theirs)), f"{sql}\n{mine}\n{theirs}"
    truth = asked.truth(rows)
    np.testing.assert_allclose(truth[answer.positions], answer.value, rtol=1e-12)
    assert [asked.labels[i] for i in answer.positions] == list(answer.labels)
