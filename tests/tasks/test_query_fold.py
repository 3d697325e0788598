"""Folding: exact for whole numbers, accurate for numbers, whatever the order and the sharing."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from incrowd.errors import InvalidParameter
from incrowd.tasks.query import Column, Folded, Query

COLUMNS = (
    Column(name="g", type="integer", low=0, high=9),
    Column(name="k", type="integer"),
    Column(name="x", type="number"),
)
ASKED = Query(
    sql="SELECT g, SUM(k), SUM(x), VAR(k), VAR(x), MIN(x) FROM t GROUP BY g",
    table="t",
    columns=COLUMNS,
)


def measured(k, x):
    found = np.empty(len(k), ASKED.measure_dtype)
    found["k"], found["x"] = k, x
    return found


def spread(values):
    exact = [Fraction(each) for each in values]
    mean = sum(exact) / len(exact)
    return float(sum((each - mean) ** 2 for each in exact))


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e9, 1e150])
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
def test_fold_matches_exact_arithmetic(scale, offset):
    rng = np.random.default_rng(3)
    cells = rng.integers(9, size=3000)
    k = rng.integers(-(2**51), 2**51, size=3000)
    x = (rng.standard_normal(3000) + offset) * scale
    folded = ASKED.fold(cells, measured(k, x), 0, 10)
    for cell in range(9):
        mine = cells == cell
        whole, numbers = k[mine].tolist(), x[mine].tolist()
        assert folded.count[cell] == len(whole)
        assert int(folded.total[0][cell]) == sum(whole)
        assert (folded.least[0][cell], folded.most[0][cell]) == (min(whole), max(whole))
        assert (folded.least[1][cell], folded.most[1][cell]) == (min(numbers), max(numbers))
        # Beside the largest number: sums may cancel.
        assert abs(folded.total[1][cell] - math.fsum(numbers)) <= 1e-15 * max(map(abs, numbers))
        assert folded.spread[0][cell] == pytest.approx(spread(whole), rel=1e-12)
        if 1e-150 < scale < 1e150:  # Squares of others are no doubles.
            assert folded.spread[1][cell] == pytest.approx(spread(numbers), rel=1e-9)
    assert folded.count[9] == folded.total[0][9] == folded.least[1][9] == folded.spread[1][9] == 0


def test_fold_sums_are_closer_than_naive_sums():
    x = np.full(10**6, 0.1)
    zeros = np.zeros(10**6, np.int64)
    folded = ASKED.fold(zeros, measured(zeros, x), 0, 1)
    assert folded.total[1][0] == math.fsum(x)
    assert np.bincount(zeros, x)[0] != math.fsum(x)


def test_fold_spread_of_neighbouring_doubles_is_exact():
    """Their mean lies between them and is rounded, which the second sum corrects."""
    x = np.array([1e15, 1e15 + 0.125] * 50)
    zeros = np.zeros(100, np.int64)
    assert ASKED.fold(zeros, measured(zeros, x), 0, 1).spread[1][0] == 100 * 0.0625**2


def test_fold_is_independent_of_order_and_sharing():
    rng = np.random.default_rng(4)
    cells = rng.integers(10, size=20_000)
    data = measured(rng.integers(-5, 1000, size=20_000), rng.lognormal(0, 4, size=20_000) - 3)
    whole = ASKED.fold(cells, data, 0, 10)
    for _ in range(5):
        order = rng.permutation(20_000)
        again = ASKED.fold(cells[order], data[order], 0, 10)
        edges = [0, 3, 4, 10]
        parts = []
        for first, last in pairwise(edges):
            mine = order[(cells[order] >= first) & (cells[order] < last)]
            parts.append(ASKED.fold(cells[mine], data[mine], first, last))
        for other in (again, Folded.joined(parts)):
            assert (other.count == whole.count).all()
            assert (other.total[0] == whole.total[0]).all()
            assert (other.least[1] == whole.least[1]).all()
            for name in ("total", "spread"):
                for mine, theirs in zip(getattr(other, name), getattr(whole, name), strict=True):
                    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_fold_of_no_tuples_is_zero():
    empty = ASKED.fold(np.empty(0, np.int64), measured([], []), 4, 7)
    assert empty.count.tolist() == [0, 0, 0]
    assert [each.dtype for each in empty.total] == [np.int64, np.float64]
    for name in ("total", "least", "most", "spread"):
        assert all((each == 0).all() and len(each) == 3 for each in getattr(empty, name))


def test_fold_sums_whole_numbers_near_the_limits_exactly():
    k = np.array([2**53, 2**53 - 1, -(2**53), 2**53] * 100)
    folded = ASKED.fold(np.zeros(400, np.int64), measured(k, k), 0, 1)
    assert int(folded.total[0][0]) == sum(k.tolist())
    too_many = np.full(1024, 2**53)
    with pytest.raises(InvalidParameter, match="column k: the sum of 1,024 whole numbers of up to"):
        ASKED.fold(np.zeros(1024, np.int64), measured(too_many, too_many), 0, 1)
    fits = np.full(1023, 2**53)
    assert (
        ASKED.fold(np.zeros(1023, np.int64), measured(fits, fits), 0, 1).total[0][0] == 1023 << 53
    )


@pytest.mark.parametrize("cell", [-1, 10, 3])
def test_fold_rejects_cells_of_other_nodes(cell):
    with pytest.raises(InvalidParameter, match="cells must lie between"):
        ASKED.fold(np.array([cell]), measured([1], [1.0]), 4, 10)
