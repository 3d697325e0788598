"""Squares of a grid as groups, and the line along which they lie."""

from itertools import chain, pairwise

import numpy as np
import pytest

from incrowd.errors import InvalidParameter
from incrowd.protocols.order_shuffle.groupings import from_cells, from_labels
from incrowd.protocols.order_shuffle.orders.reference import reference_order
from incrowd.protocols.order_shuffle.theorems.sensitivity import kendall


def town(people=600, seed=1):
    return np.random.default_rng(seed).uniform(0, 10, (people, 2))


def members(grouping):
    return [grouping.group(index).tolist() for index in range(grouping.count)]


def test_groups_are_squares_of_grid():
    points = town()
    square = {tuple(each) for each in np.floor(points / 2.5).astype(int).tolist()}
    found = members(from_cells(points, 2.5))
    assert len(found) == len(square) == 16
    assert sorted(chain(*found)) == list(range(600))
    for group in found:
        assert len({tuple(each) for each in np.floor(points[group] / 2.5).tolist()}) == 1


def test_line_goes_between_adjacent_squares():
    points = town()
    middles = [np.floor(points[group[0]] / 1.25) for group in members(from_cells(points, 1.25))]
    assert all(np.abs(one - other).sum() == 1 for one, other in pairwise(middles))


def test_line_along_squares_is_kept_as_least_sensitive_order():
    grouping = from_cells(town(), 1.0)
    order = reference_order(grouping)
    largest = grouping.largest
    assert order.method == "label"
    assert kendall(grouping, order.ranks).max() == largest * (largest - 1) // 2
    assert order.people.tolist() == [*chain(*members(grouping))]


def test_squares_do_not_depend_on_participants():
    points = town()
    kept = np.flatnonzero(np.arange(600) % 3)
    fewer, again = from_cells(points, 1.0).subset(kept), from_cells(points[kept], 1.0)
    assert sorted(members(fewer)) == sorted(members(again))


@pytest.mark.parametrize(("low", "side"), [(59.0, 20.0), (50.9, 0.2), (36.0, 50.0), (84.0, 30.0)])
def test_squares_on_earth_are_as_wide_as_high(low, side):
    rng = np.random.default_rng(3)
    high = low + min(4.0, 60 * side / 111)
    points = np.column_stack(
        [rng.uniform(low, high, 4000), rng.uniform(10, 10 + 2 * (high - low), 4000)]
    )
    for group in members(from_cells(points, side, "haversine")):
        inside = points[group]
        north, east = np.ptp(inside, axis=0) * 111.195
        assert north <= side
        # No wider than the side in the middle of the row; a little more on its lower edge.
        middle = (np.floor(inside[0, 0] * 111.195 / side) + 0.5) * side / 111.195
        assert east * np.cos(np.radians(middle)) <= side * 1.001


def test_neighbours_across_a_whole_degree_are_not_torn_apart():
    far = np.array([[50.9999, 11.6], [51.0001, 11.8527]])
    assert from_cells(far, 0.2, "haversine").count == 2
    rng = np.random.default_rng(4)
    points = np.column_stack([rng.uniform(50.98, 51.02, 3000), rng.uniform(11.6, 11.66, 3000)])
    grouping = from_cells(points, 0.2, "haversine")
    middles = np.array([points[group].mean(axis=0) for group in members(grouping)])
    steps = np.abs(np.diff(middles, axis=0)) * [111.2, 111.2 * np.cos(np.radians(51))]
    # Squares that follow each other touch, but for the few that are cut off at the rim.
    assert np.mean(steps.max(axis=1) < 0.5) > 0.95


def test_single_coordinate_gives_intervals_in_order():
    ages = np.array([[34.0], [12.0], [19.5], [31.0], [18.0]])
    assert members(from_cells(ages, 10)) == [[1, 2, 4], [0, 3]]


def test_labels_lie_along_their_names():
    grouping = from_labels(["mill 2", "hill", "mill 1", "mill 2"])
    assert members(grouping) == [[1], [2], [0, 3]]
    assert reference_order(grouping).people.tolist() == [1, 2, 0, 3]


def test_digest_depends_on_line():
    one, other = from_labels(["a", "b", "b"]), from_labels(["b", "a", "a"])
    assert sorted(members(one)) == sorted(members(other))
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("points", "side", "said"),
    [
        (np.zeros((3, 2)), 0, "radius"),
        (np.zeros((3, 2)), -1, "radius"),
        (np.zeros((3, 3)), 1, "one or two"),
        (np.full((3, 2), 1e30), 1e-9, "too small"),
    ],
)
def test_squares_reject_impossible_points_and_sides(points, side, said):
    with pytest.raises(InvalidParameter, match=said):
        from_cells(points, side)


def test_squares_reject_impossible_latitudes():
    with pytest.raises(InvalidParameter, match="row 2"):
        from_cells(np.array([[0.0, 0.0], [99.0, 0.0]]), 1, "haversine")
