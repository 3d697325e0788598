import math

import pytest

from incrowd.errors import NumericalFloor
from incrowd.privacy.search import crossing


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
