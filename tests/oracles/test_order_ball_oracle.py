"""Balls of a k-d tree against all pairs, where distances tie with the radius to the last bit."""

import itertools

import numpy as np
import pytest

from incrowd.protocols.order_shuffle.groupings import balls, from_points
from incrowd.protocols.order_shuffle.groupings.geo import DEGREE, chord, on_sphere

ENLARGED, ROUNDING = 1e-12, 8 * 2.0**-52


def all_pairs(centres, points, reach):
    """The rule in plain Python: squares summed in order, and the widest coordinate by itself."""
    along = int(np.argmax(np.ptp(points, axis=0)))
    near = np.zeros((len(centres), len(points)), bool)
    for (i, a), (j, b) in itertools.product(
        enumerate(centres.tolist()), enumerate(points.tolist())
    ):
        square = 0.0
        for here, there in zip(a, b, strict=True):
            square += (there - here) * (there - here)
        inside = a[along] - reach <= b[along] <= a[along] + reach
        near[i, j] = inside and square <= reach * reach
    return near


def lattice(side, dimensions):
    return np.array(list(itertools.product(range(side), repeat=dimensions)), float)


def tied_crowds():
    """Places, radius and metric; distances between many of the places are the radius itself."""
    twice = np.random.default_rng(1)
    for side, dimensions in ((30, 1), (9, 2), (4, 3)):
        grid = lattice(side, dimensions)
        for square in (0, 1, 2, 4, 5, 8, 9, 25):
            for scale in (1.0, 0.1, 1 / 3, 1e-160, 1e140):
                yield grid * scale, square**0.5 * scale, "euclidean"
        yield grid[twice.integers(len(grid), size=90)], 1.0, "euclidean"
        yield grid[twice.integers(len(grid), size=90)] * 0.1 + 1e6, 0.1, "euclidean"
    degrees = lattice(9, 2) - [4, 4]
    for steps in (0, 1, 2, 5):
        yield degrees, steps * DEGREE, "haversine"
        yield degrees[twice.integers(len(degrees), size=90)], steps * DEGREE, "haversine"
        yield degrees * [20, 40] + [0, 20], steps * 20 * DEGREE, "haversine"
    yield np.array([[0.0], [1e-200], [2.0]]), 0.0, "euclidean"
    yield np.array([[0.0], [1e150], [-1e150]]), 1e308, "euclidean"


@pytest.mark.parametrize("part", range(4))
def test_ball_groups_equal_all_pairs_where_distances_tie_with_radius(part):
    for points, radius, metric in itertools.islice(tied_crowds(), part, None, 4):
        searched, reach = (
            (on_sphere(balls.checked_points(points, metric)), chord(radius))
            if metric == "haversine"
            else (points, radius)
        )
        if reach:
            reach += ENLARGED * reach + ROUNDING * float(np.abs(searched).max())
        near = all_pairs(searched, searched, reach)
        found = from_points(points, radius, metric)
        for person, expected in enumerate(near):
            own = found.group_of(person)
            assert np.array_equal(found.group(own), np.flatnonzero(expected))
            assert found.sizes[own] == expected.sum()
        incidence = found.incidence()
        for group in range(found.count):
            atoms = incidence.atoms[incidence.indptr[group] : incidence.indptr[group + 1]]
            assert (np.diff(atoms) > 0).all()


def pairs_that_differ():
    """How many pairs the tree judges unlike the rule, with a radius that is some pair's distance.

    Eight coordinates, since the tree sums their squares in an order of its own.
    """
    rng = np.random.default_rng(7)
    wrong = 0
    for _ in range(40):
        points = rng.random((25, 8))
        a, b = rng.choice(25, 2, replace=False)
        tie = float(np.linalg.norm(points[a] - points[b]))
        for reach in (tie, float(np.nextafter(tie, 0)), float(np.nextafter(tie, 1))):
            places = balls._Places(points, reach)
            near = np.zeros((25, 25), bool)
            for first, _, centre, place in places.near(points):
                near[first + centre, place] = True
            wrong += int((near[:, places.place_of] != all_pairs(points, points, reach)).sum())
    return wrong


def test_near_pairs_equal_rule_where_reach_is_a_distance():
    assert pairs_that_differ() == 0


def test_rule_oracle_bites_if_radius_is_not_enlarged(monkeypatch):
    monkeypatch.setattr(balls, "_DOUBT", 0.0)
    monkeypatch.setattr(balls, "_TINY", 0.0)
    assert pairs_that_differ() > 0


def test_rule_oracle_bites_if_enlarged_radius_decides(monkeypatch):
    monkeypatch.setattr(balls._Places, "within", lambda self, here, _: np.ones(len(here), bool))
    assert pairs_that_differ() > 0
