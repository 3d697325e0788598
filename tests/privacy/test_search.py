import math

import pytest

from incrowd.errors import NumericalFloor
from incrowd.privacy import LocalProfile
from incrowd.privacy.mixed import Option, mixed_crowd
from incrowd.privacy.search import crossing
from incrowd.randomizers import RR


@pytest.mark.parametrize("rate", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("guess", [1e-9, 1.0, 1e3])
@pytest.mark.parametrize("factor", [1.002, 2.0])
def test_crossing_brackets_solution_within_tolerance(rate, guess, factor):
    def curve(x):
        return math.exp(-rate * x)

    found = crossing(curve, 1e-6, guess, ceiling=1e9, factor=factor)
    assert curve(found.above) > 1e-6 >= curve(found.within)
    assert found.within - found.above <= 1e-6 * found.within


def test_crossing_of_curve_above_target_is_ceiling():
    found = crossing(lambda x: 0.5, 0.1, 1.0, ceiling=4.0)
    assert found.within == 4.0


def test_crossing_of_curve_below_target_is_zero():
    found = crossing(lambda x: 0.0, 0.1, 1.0, ceiling=4.0)
    assert (found.above, found.within) == (0.0, pytest.approx(0.0, abs=1e-14))


def test_crossing_of_step_curve_is_safe():
    found = crossing(lambda x: 1.0 if x < 0.3 else 0.0, 0.1, 1.0, ceiling=4.0)
    assert found.above < 0.3 <= found.within


def test_crossing_of_flat_curve_without_ceiling_raises():
    with pytest.raises(NumericalFloor):
        crossing(lambda x: 0.5, 0.1, 1.0)


@pytest.mark.parametrize("guess", [0.0, 1e-20, 1e-16])
def test_crossing_with_vanishing_guess_is_the_same(guess):
    def curve(x):
        return 0.4 * math.exp(-x)

    found = crossing(curve, 0.1, guess, ceiling=9.0)
    assert curve(found.above) > 0.1 >= curve(found.within)
    assert found.within == pytest.approx(math.log(4), rel=1e-6)


def test_option_whose_crowd_hides_everything_meets_the_target():
    """The crowd's own ε is 0 at this δ, and says nothing about where the excess falls to it."""
    local = LocalProfile(RR(epsilon=1.0))
    option = Option(0.3, mixed_crowd(RR(epsilon=1.0), 200, 1.0))
    found = option.epsilon(0.1, local)
    assert option.delta(found, local) <= 0.1
    assert option.delta(found * (1 - 1e-6), local) > 0.1
