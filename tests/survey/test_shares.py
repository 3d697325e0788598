"""Division of one budget among questions: in all of it, and by weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incrowd.randomizers import KRR, OUE, OneBit, Randomizer, Ternary
from incrowd.survey.shares import Draw, Shares

DRAWS: dict[str, Draw] = {
    "krr": lambda epsilon: KRR(categories=6, epsilon=epsilon),
    "oue": lambda epsilon: OUE(categories=6, epsilon=epsilon),
    "ternary": lambda epsilon: Ternary(epsilon=epsilon),
    "onebit": lambda epsilon: OneBit(epsilon=epsilon),
}


def shares(weights: Sequence[float], names: Sequence[str] = ("krr", "ternary", "oue")) -> Shares:
    return Shares([DRAWS[name] for name in names], weights)


EVEN = shares((1, 1, 1))
UNEVEN = shares((4, 1, 0.5))


@settings(max_examples=60, deadline=None)
@given(total=st.floats(1e-6, 80.0))
@pytest.mark.parametrize("divided", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_shares_sum_to_at_most_the_total_and_use_it(divided: Shares, total: float) -> None:
    found = divided.of(total)
    assert min(found) > 0
    assert sum(found) <= total
    assert sum(found) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("divided", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_larger_total_gives_every_question_more(divided: Shares) -> None:
    table = np.array([divided.of(total) for total in np.geomspace(1e-3, 60, 80)])
    assert (np.diff(table, axis=0) > 0).all()


def test_shares_of_equal_questions_are_equal() -> None:
    found = shares((1, 1), ("krr", "krr")).of(3.0)
    assert found[0] == pytest.approx(found[1])
    assert shares((7, 7), ("krr", "krr")).of(3.0) == pytest.approx(found)


def error(randomizer: Randomizer, n: int = 4000) -> float:
    """Largest standard error of an estimate from the reports of evenly spread people."""
    values = np.arange(n) % 6
    reports = randomizer.randomize(values, np.random.default_rng(1))
    return float(np.sqrt(randomizer.estimate(reports).variance.max()))


@pytest.mark.parametrize("name", ["krr", "oue"])
@pytest.mark.parametrize("total", [1.0, 2.0, 4.0])
def test_twice_the_weight_gives_about_half_the_standard_error(name: str, total: float) -> None:
    heavy, light = shares((2, 1), (name, name)).of(total)
    ratio = error(DRAWS[name](light)) / error(DRAWS[name](heavy))
    assert ratio == pytest.approx(2.0, rel=0.2)
