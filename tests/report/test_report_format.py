"""Rounding for people never promises more than was proven."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from incrowd.report import format

NUMBERS = st.floats(min_value=1e-300, max_value=1e300)


@given(NUMBERS, st.integers(1, 9))
def test_rounding_errs_to_its_side_within_digits(value: float, digits: int) -> None:
    above, below = format.round_up(value, digits), format.round_down(value, digits)
    assert below <= value <= above
    assert above <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-12)
    assert below >= value * (1 - 10.0 ** (1 - digits)) * (1 - 1e-12)


@given(NUMBERS)
def test_formatted_number_reads_back_as_rounded(value: float) -> None:
    assert float(format.up(value)) == format.round_up(value)
    assert float(format.down(value)) == format.round_down(value)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (0.05, "0.05", "0.05"),
        (0.123401, "0.1235", "0.1234"),
        (0.12345, "0.1235", "0.1234"),
        (1.0, "1", "1"),
        (99999.0, "1e+05", "9.999e+04"),
        (math.inf, "inf", "inf"),
        (0.0, "0", "0"),
    ],
)
def test_up_and_down_round_examples(value: float, up: str, down: str) -> None:
    assert (format.up(value), format.down(value)) == (up, down)


def test_unknown_number_is_formatted_as_dash() -> None:
    assert format.up(None) == format.down(None) == "–"


def test_counts_and_shares_are_formatted_for_people() -> None:
    assert format.count(1_000_000) == "1,000,000"
    assert format.count(2.5) == "2.5"
    assert format.several(1, "message") == "1 message"
    assert format.several(3, "message") == "3 messages"
    assert format.percent(0.1234) == "12.3 %"
    assert format.small(1e-6) == "1e-6"
    assert format.small(0.001) == "0.001"


@given(st.floats(0, 20), st.floats(0, 0.5))
def test_guess_equals_best_test_in_privacy_region(epsilon: float, delta: float) -> None:
    """The best test under (ε, δ): maximise (1 + detection − false alarm)/2 over the region."""
    alarms = [i / 1000 for i in range(1001)] + [(1 - delta) / (1 + math.exp(epsilon))]
    best = max(
        min(1, math.exp(epsilon) * a + delta, 1 - math.exp(-epsilon) * (1 - delta - a)) - a
        for a in alarms
    )
    assert format.guess(epsilon, delta) == pytest.approx((1 + best) / 2, abs=1e-9)


def test_guess_at_extreme_epsilon_and_delta() -> None:
    assert format.guess(0, 0) == 0.5
    assert format.guess(math.inf, 0) == 1
    assert format.guess(1, 1) == 1
