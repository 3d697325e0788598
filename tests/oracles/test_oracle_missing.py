"""Absent inputs never have a worse curve than stated: docs/theory/missing.md.

Small crowds in which some people have no answer are enumerated from the definition of the
mechanism alone, in exact fractions, and compared with the blanket bound of the stated law.
"""

from fractions import Fraction as F
from itertools import product

import pytest
from enumeration import atoms_under, functional, krr_matrix, worst_delta

TOPS = (F(2), F(5))
TS = (F(1), F(3, 2), F(3))


def mixture(rows, weights) -> tuple[F, ...]:
    return tuple(
        sum((w * row[y] for w, row in zip(weights, rows, strict=True)), F(0))
        for y in range(len(rows[0]))
    )


def absent_category(top: F, k: int) -> tuple[tuple[F, ...], ...]:
    """k-ary response, and last the report of a person without an answer."""
    rows = krr_matrix(k, top)
    return (*rows, mixture(rows, (F(1, k),) * k))


def ternary(top: F) -> tuple[tuple[F, ...], ...]:
    """Ternary response to none, and to numbers in steps of a quarter."""
    low, high, none = krr_matrix(3, top)
    numbers = (mixture((low, high), (1 - F(v, 4), F(v, 4))) for v in range(5))
    return (none, *numbers)


@pytest.mark.parametrize("top", TOPS)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("t", TS)
def test_response_with_absent_people_never_above_blanket_bound(top, k, t):
    rows, plain = absent_category(top, k), krr_matrix(k, top)
    blanket = [min(column) for column in zip(*plain, strict=True)]
    for n in (1, 2, 3):
        stated = functional(atoms_under(plain, 0, 1, blanket), n, t)
        assert worst_delta(rows, n, [t])[t] <= stated


@pytest.mark.parametrize("top", TOPS)
@pytest.mark.parametrize("t", TS)
def test_ternary_enumeration_never_above_krr_bound(top, t):
    rows, plain = ternary(top), krr_matrix(3, top)
    blanket = [min(column) for column in zip(*plain, strict=True)]
    for n in (1, 2):
        stated = functional(atoms_under(plain, 0, 1, blanket), n, t)
        assert worst_delta(rows, n, [t])[t] <= stated
    for x0, x1 in product(range(len(rows)), repeat=2):
        stated = functional(atoms_under(plain, 0, 1, blanket), 4, t)
        assert functional(atoms_under(rows, x0, x1, blanket), 4, t) <= stated


def test_enumeration_exceeds_bound_when_absence_is_not_randomized():
    """An outcome for none that is not randomized has mass that no crowd hides."""
    top, t = F(2), F(3, 2)
    plain = krr_matrix(2, top)
    rows = (*((*row, F(0)) for row in plain), (F(0), F(0), F(1)))
    blanket = [min(column) for column in zip(*plain, strict=True)]
    stated = functional(atoms_under(plain, 0, 1, blanket), 2, t)
    assert worst_delta(rows, 2, [t])[t] > stated
