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
def test_both_ends_were_seen_and_are_close(rate, guess, factor):
    def curve(x):
        return math.exp(-rate * x)

    found = crossing(curve, 1e-6, guess, ceiling=1e9, factor=factor)
    assert curve(found.above) > 1e-6 >= curve(found.within)
    assert found.within - found.above <= 1e-6 * found.within


def test_a_curve_that_never_meets_the_target_gives_the_ceiling():
    found = crossing(lambda x: 0.5, 0.1, 1.0, ceiling=4.0)
    assert found.within == 4.0


def test_a_curve_that_always_meets_it_gives_zero():
    found = crossing(lambda x: 0.0, 0.1, 1.0, ceiling=4.0)
    assert (found.above, found.within) == (0.0, pytest.approx(0.0, abs=1e-14))


def test_a_cliff_is_found_from_the_safe_side():
    found = crossing(lambda x: 1.0 if x < 0.3 else 0.0, 0.1, 1.0, ceiling=4.0)
    assert found.above < 0.3 <= found.within


def test_without_a_ceiling_a_flat_curve_raises():
    with pytest.raises(NumericalFloor):
        crossing(lambda x: 0.5, 0.1, 1.0)


@pytest.mark.parametrize("guess", [0.0, 1e-20, 1e-16])
def test_crossing_with_a_vanishing_guess_is_the_same(guess):
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
