"""Encoding is total: no value raises, and one row is read as it is among others."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from incrowd.randomizers.base import ABSENT
from incrowd.tasks import Column, Histogram, Mean, Quantiles, Query, Release, Sum, Vector
from incrowd.tasks.raw import ColumnDomain

HISTOGRAM = Histogram(categories=("1", "2"))
COMPLETE = Histogram(categories=("1", "2"), complete=True)
AGE = Mean(bounds=(0, 120))
PLACED = Release(categories=("1", "2"), coordinates=("x", "y"))
GROUPED = Release(categories=("1", "2"), groups="street")
COLUMNS = (
    Column(name="town", type="category", values=("Bonn", "Köln")),
    Column(name="age", type="integer", low=18, high=21),
    Column(name="weight", type="number", low=0, high=200),
)
QUERY = Query(
    sql="SELECT town, age, AVG(weight) FROM people GROUP BY town, age",
    table="people",
    columns=COLUMNS,
)
INCOME = Quantiles(bounds=(0, 120), bins=8)
TEXT_TASKS = (HISTOGRAM, COMPLETE, AGE, INCOME, Sum(bounds=(-3, 5)), PLACED, GROUPED, QUERY)
ODD = [None, "", " ", "\t", "nan", "inf", "-1e999", "0x1", "1_0", "²", "x" * 5000, "\ud800", "1\0"]


def cells_of(task, texts):
    """A row of texts for each column that a task asks for."""
    width = len(task.asks("answer"))
    return [[text] * width for text in texts]


@pytest.mark.parametrize("task", TEXT_TASKS, ids=lambda task: task.kind)
@given(texts=st.lists(st.none() | st.text() | st.floats().map(str), min_size=1, max_size=8))
def test_encode_of_any_texts_is_the_same_row_by_row(task, texts):
    together = task.encode(task.rows(cells_of(task, texts)))
    assert len(together) == len(texts)
    for row, text in enumerate(texts):
        alone = task.encode(task.rows(cells_of(task, [text])))
        assert alone.tobytes() == together[row : row + 1].tobytes()


@pytest.mark.parametrize("task", TEXT_TASKS, ids=lambda task: task.kind)
@pytest.mark.parametrize("text", ODD)
def test_encode_of_odd_texts_does_not_raise(task, text):
    rows = task.rows(cells_of(task, [text, "1"]))
    assert len(task.encode(rows)) == 2
    task.gaps(rows)
    task.truth(rows)


@pytest.mark.parametrize(
    "value",
    [None, math.nan, math.inf, 10**400, 1 + 2j, object(), b"1", Decimal("NaN"), [1], True, {}],
)
@pytest.mark.parametrize("task", [HISTOGRAM, AGE, INCOME])
def test_encode_of_any_object_does_not_raise(task, value):
    column = np.empty(2, object)
    column[:] = [value, 1]
    assert len(task.encode(column)) == 2


@pytest.mark.parametrize("value", [np.nan, 1.5, -1, None, "", "3"])
def test_histogram_code_of_what_is_no_category_is_the_last(value):
    column = np.array([1, value], object)
    assert HISTOGRAM.encode(column).tolist() == [0, 2]
    assert COMPLETE.encode(column).tolist() == [0, ABSENT]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [("-5", 0.0), ("120.5", 1.0), ("inf", 1.0), ("-inf", 0.0), ("60", 0.5)],
)
def test_mean_encode_of_a_number_outside_its_bounds_is_clipped(value, encoded):
    assert AGE.encode(np.array([value])).tolist() == [encoded]


@pytest.mark.parametrize("value", ["old", "", None, "nan"])
def test_mean_encode_of_what_is_no_number_is_absent(value):
    assert np.isnan(AGE.encode(np.array([value], object))).all()


def test_vector_encode_scales_to_length_one_and_marks_what_has_no_direction():
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [np.nan, 1.0], [1e200, 1e200], [1.0, 0.0]])
    encoded = Vector(dimension=2).encode(rows)
    np.testing.assert_allclose(encoded[[0, 4]], [[0.6, 0.8], [1.0, 0.0]])
    assert np.isnan(encoded[1:4]).all()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (["Bonn", "18", "70"], (0, 18, 70.0)),
        (["Ulm", "17", "-0.001"], (2, -(2**63), math.nan)),
        (["", "18.5", "201"], (2, -(2**63), math.nan)),
        ([None, None, None], (2, -(2**63), math.nan)),
        (["bonn", "99999999999999999999999", "inf"], (2, -(2**63), math.nan)),
        (["Köln", "x", "1,5"], (1, -(2**63), math.nan)),
    ],
)
def test_query_encode_reserves_a_code_per_column(row, expected):
    found = QUERY.encode(QUERY.rows([row]))[0].tolist()
    assert found[:2] == expected[:2]
    assert found[2] == pytest.approx(expected[2], nan_ok=True)


def test_gaps_count_missing_rows_apart_from_those_outside_the_domain():
    found = HISTOGRAM.gaps(np.array(["1", "", "3", "2", "x", " "]))
    assert (found.missing, found.outside, found.first) == (2, 2, 3)
    found = AGE.gaps(np.array(["1", "", "300", "old"]))
    assert (found.missing, found.outside, found.first) == (1, 2, 3)
    found = QUERY.gaps(QUERY.rows([["Bonn", "18", "1"], ["", "18", "1"], ["Ulm", "18", "1"]]))
    assert (found.missing, found.outside, found.first) == (1, 1, 3)


def test_domains_state_what_an_offer_takes_a_column_to_hold():
    assert HISTOGRAM.domains("a") == {"a": ColumnDomain("category", categories=("1", "2"))}
    assert COMPLETE.domains("a")["a"].complete
    assert AGE.domains("a") == {"a": ColumnDomain("number", low=0, high=120)}
    assert QUERY.domains("people") == {
        "town": ColumnDomain("category", categories=("Bonn", "Köln")),
        "age": ColumnDomain("integer", low=18, high=21),
        "weight": ColumnDomain("number", low=0, high=200),
    }
    for task in (HISTOGRAM, AGE, QUERY):
        assert task.clear_columns("a") == ()
