"""Mixtures of randomizers against exact enumeration of crowds that hold several values."""

from __future__ import annotations

import math
from fractions import Fraction as F
from itertools import product

import pytest
from enumeration import krr_matrix, worst_delta

from incrowd.privacy import LocalProfile, ShuffleProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.randomizers import Channel, OneOf

TS = (F(1, 4), F(2, 3), F(1), F(6, 5), F(3, 2), F(5, 2))
PARTS = {
    "two and three": ((krr_matrix(2, F(3)), krr_matrix(3, F(2))), (F(1, 2), F(1, 2))),
    "uneven": ((krr_matrix(2, F(5)), krr_matrix(2, F(2))), (F(3, 4), F(1, 4))),
    "skewed": (
        (((F(7, 10), F(3, 10)), (F(2, 5), F(3, 5))), krr_matrix(2, F(4))),
        (F(1, 4), F(3, 4)),
    ),
}


def joint(parts, chances):
    """The matrix of all rows of values over the disjoint outputs of all parts."""
    inputs = product(*(range(len(part)) for part in parts))
    return tuple(
        tuple(
            chance * cell
            for chance, part, x in zip(chances, parts, held, strict=True)
            for cell in part[x]
        )
        for held in inputs
    )


def described(parts, chances) -> OneOf:
    matrices = [[[float(cell) for cell in row] for row in part] for part in parts]
    return OneOf(tuple(map(Channel, matrices)), tuple(map(float, chances)))


@pytest.mark.parametrize("case", PARTS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_one_of_bound_never_below_enumeration(case, n):
    parts, chances = PARTS[case]
    truth = worst_delta(joint(parts, chances), n, TS)
    profile = blanket_profile(described(parts, chances), n)
    for t in TS:
        # Doubles near t, and the integers that stand for these thirds, are off by rounding.
        epsilon = math.log(t) - 1e-14
        assert truth[t] <= profile.delta(epsilon) * (1 + 1e-12) + 1e-15


def test_one_of_bound_is_tight_for_one_person_and_two_answers():
    """All values change and each part is binary: the curve is the truth, so 2 % less is wrong."""
    parts, chances = PARTS["uneven"]
    for t in (F(1), F(6, 5), F(3, 2)):
        truth = worst_delta(joint(parts, chances), 1, [t])[t]
        bound = blanket_profile(described(parts, chances), 1).delta(math.log(t) - 1e-14)
        assert 0.98 * bound < truth


def test_one_of_attacks_never_above_enumeration():
    for parts, chances in PARTS.values():
        randomizer = described(parts, chances)
        for n in (1, 2, 3):
            truth = worst_delta(joint(parts, chances), n, TS)
            for law in randomizer.attack():
                profile = ShuffleProfile(law, n, LocalProfile(randomizer))
                for t in TS[2:]:
                    found = profile.bracket(math.log(t) + 1e-14).lower
                    assert found <= truth[t] * (1 + F(1, 10**9))
