"""Everyone's reports at once: the law of the released table, and what stands where."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from incrowd.errors import InvalidCrowd
from incrowd.protocols.order_shuffle import OrderShuffle, groupings
from incrowd.randomizers import KRR, RR
from incrowd.randomness import Seeds
from incrowd.tasks import Placed, Release
from tests.sim.order_played import KINDS, check, law, own, p_value, placed, truthful

ORDER = [0, 2, 3, 1]
"""Neither its own inverse nor the reverse of it: the laws around these differ."""
EVERYBODY = [[0, 1, 2, 3]]


def tables(protocol: OrderShuffle, runs: int) -> Counter[tuple[int, ...]]:
    """Whose report each person gets, over many runs."""
    people = np.arange(protocol.n)
    return Counter(
        tuple(protocol.collect(people, Seeds(seed)).pooled().tolist()) for seed in range(runs)
    )


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("distance", ["kendall", "hamming"])
def test_simulation_follows_mallows_law(distance, exact):
    """Pearson's test, at the level 0.001, accepts the exact law and tells it from others."""
    protocol = own(4, EVERYBODY, order=ORDER, theta=0.5, distance=distance, exact=exact)
    seen = tables(protocol, 3000)
    assert p_value(seen, law(ORDER, 0.5, distance)) > 1e-3
    assert p_value(seen, law(ORDER, 0.8, distance)) < 1e-6
    if distance == "kendall":
        # The order matters, and a table around it is not one around its inverse, either.
        assert p_value(seen, law(range(4), 0.5)) < 1e-6
        assert p_value(seen, law(np.argsort(ORDER).tolist(), 0.5)) < 1e-6
    else:
        assert law(ORDER, 0.5, distance) == law(range(4), 0.5, distance)


def test_law_follows_from_alpha_and_groups():
    """With a found order: θ is α over the sensitivity, whatever the order is."""
    protocol = own(4, [[0, 3], [1, 2], [3]], alpha=1.5)
    mechanism = protocol.mechanism
    assert mechanism is not None
    assert mechanism.theta * mechanism.sensitivity <= 1.5
    order = mechanism.order.people.tolist()
    assert p_value(tables(protocol, 2000), law(order, mechanism.theta)) > 1e-3


def test_alpha_zero_is_uniform():
    seen = tables(own(4, alpha=0.0), 2000)
    assert p_value(seen, law(range(4), 0.0)) > 1e-3
    assert len(seen) == 24


@pytest.mark.parametrize("distance", ["kendall", "hamming"])
@pytest.mark.parametrize("kind", KINDS)
def test_huge_alpha_leaves_reports_in_place(kind, distance):
    protocol, values = placed(kind, alpha=1e6, distance=distance)
    found = protocol.collect(values, Seeds(1))
    assert found.pooled().tolist() == list(range(7))
    check(protocol, found)


def test_people_alone_keep_their_reports():
    protocol = own(5, [[each] for each in range(5)], alpha=0.0)
    assert protocol.collect(np.arange(5), Seeds(1)).pooled().tolist() == list(range(5))
    assert protocol.mechanism is not None
    assert protocol.mechanism.alpha == 0


@pytest.mark.parametrize("kind", KINDS)
def test_places_stay_and_reports_move(kind):
    protocol, values = placed(kind, alpha=0.5)
    found = protocol.collect(values, Seeds(2))
    assert isinstance(found, Placed)
    check(protocol, found)
    assert found.who.tolist() == list(range(7))
    assert found.pooled().tolist() != list(range(7))


@pytest.mark.parametrize("kind", KINDS)
def test_simulation_repeats_exactly(kind):
    protocol, values = placed(kind, alpha=0.5)
    one, same, other = (protocol.collect(values, Seeds(seed)).pooled() for seed in (4, 4, 5))
    np.testing.assert_array_equal(one, same)
    assert one.tolist() != other.tolist()


def test_reports_are_randomized_before_they_are_shuffled():
    """How many say 1 follows from ε0 alone, and the shuffle is drawn from a stream of its own."""
    values = np.arange(2000) % 2
    groups = groupings.from_lists([[each, each + 1] for each in range(0, 2000, 2)])
    weak, strong = (
        OrderShuffle(RR(epsilon=1.0), groups=groups, alpha=alpha).collect(values, Seeds(3)).pooled()
        for alpha in (0.0, 1e6)
    )
    assert weak.sum() == strong.sum()
    assert (weak != strong).any()
    kept = np.exp(1) / (1 + np.exp(1))
    agree = (strong == values).mean()
    assert abs(agree - kept) < 5 * np.sqrt(kept * (1 - kept) / 2000)


def test_table_reads_like_data():
    task = Release(categories=("bus", "car", "walk"), coordinates=("lat", "lon"), complete=True)
    rows = np.array([["bus", "52.5", "13.4"], ["car", "52.5", "13.4"], ["walk", "48.1", "11.6"]])
    protocol = OrderShuffle(truthful(3), n=3, alpha=1e6, radius=5.0, metric="haversine")
    run = protocol.simulate(rows, task=task, seed=1)
    assert run.result.rows == [[48.1, 11.6, "walk"], [52.5, 13.4, "bus"], [52.5, 13.4, "car"]]
    assert run.result.columns == ("lat", "lon")
    assert run.result.value == pytest.approx([1 / 3] * 3)


def test_numbering_of_people_is_not_released():
    task = Release(categories=("no", "yes"), coordinates=("x",), complete=True)
    rows = np.array([["yes", "30"], ["no", "10"], ["no", "20"], ["yes", "10"]])
    protocol = OrderShuffle(truthful(2), n=4, alpha=1e6, radius=1.0)
    for order in itertools.permutations(range(4)):
        run = protocol.simulate(rows[list(order)], task=task, seed=1)
        assert run.result.rows == [[10, "no"], [10, "yes"], [20, "no"], [30, "yes"]]
        assert isinstance(run.result.rows[0][0], int)  # as the data had it


@pytest.mark.parametrize("n", [4, 8])
def test_simulation_refuses_other_crowd(n):
    with pytest.raises(InvalidCrowd, match=f"n = 7 people but got {n}"):
        own(7).simulate(np.zeros(n, int), seed=1)


def test_large_crowds_lose_nobody():
    n = 100_000
    labels = groupings.from_labels([str(each // 4) for each in range(n)])
    protocol = OrderShuffle(KRR(categories=4, epsilon=30.0), groups=labels, alpha=1.0)
    run = protocol.simulate(np.arange(n) % 4, seed=1)
    assert run.collected.crowds == (n,)
    assert run.result.value == pytest.approx([0.25] * 4)


@pytest.mark.slow
def test_simulation_of_million_people():
    n = 1_000_000
    points = np.random.default_rng(1).random((n, 2)) * 1000
    task = Release(categories=("a", "b"), coordinates=("x", "y"), complete=True)
    values = np.empty(n, task.dtype)
    values["value"], values["point"] = points[:, 0] > 500, points
    protocol = OrderShuffle(
        RR(epsilon=30.0), n=n, alpha=1.0, radius=1.0, method="coordinate"
    ).bound_to(task)
    found = protocol.collect(values, Seeds(1))
    assert found.pooled().sum() == values["value"].sum()
    assert protocol.conditional_on(found).mechanism.alpha <= 1.0
