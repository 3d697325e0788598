"""Rounding for people never guarantees more than was proven."""

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
    assert float(format.up(value).replace(",", "")) == format.round_up(value)
    assert float(format.down(value).replace(",", "")) == format.round_down(value)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (0.05, "0.05", "0.05"),
        (0.123401, "0.1235", "0.1234"),
        (0.12345, "0.1235", "0.1234"),
        (1.0, "1", "1"),
        (99999.0, "100,000", "99,990"),
        (1.23456e-7, "1.235e-7", "1.234e-7"),
        (3e20, "3e20", "3e20"),
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
    assert format.small(200_000.0) == "200,000"


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (38_123.4, 1_234.0, "38,100 ± 1,200"),
        (12.3456, 0.0996, "12.35 ± 0.10"),
        (-0.0001, 1.0, "0 ± 1.0"),
        (3.4e-5, 1.2e-7, "3.4e-5 ± 1.2e-7"),
        (5.0, 0.0, "5 ± 0"),
        (1e20, 3e18, "1e20 ± 3e18"),
    ],
)
def test_estimate_ends_at_second_digit_of_its_error(value: float, error: float, shown: str) -> None:
    assert format.with_error(value, error) == shown


def test_share_has_one_decimal_unless_its_error_is_tiny() -> None:
    assert format.percent(0.331, 0.009) == "33.1 %"
    assert format.percent(0.000123, 0.00001) == "0.012 %"
    assert format.percent(-0.00001) == "0.0 %"
    assert format.percent_with_error(0.331, 0.009) == "33.1 ± 0.9 %"
    assert format.points(0.0123, 0.01, signed=True) == "+1.2 points"


@given(st.floats(0, 20), st.floats(0, 0.5))
def test_right_guesses_never_fall_below_proven_success(epsilon: float, delta: float) -> None:
    right = format.right_guesses(epsilon, delta)
    assert 0 <= right / 1000 - format.guess(epsilon, delta) < 0.001 + 1e-12


def test_guesses_are_told_of_a_thousand() -> None:
    assert format.guesses(0.5, 1e-6) == "623 of 1,000"
    assert format.guesses(0) == "500 of 1,000"
    assert format.guesses(math.inf) == "1,000 of 1,000"


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
