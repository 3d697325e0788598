"""Sensitivities of orders, and what θ and α follow from them: docs/theory/order.md."""

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest
from mpmath import mp, mpf

from incrowd.errors import InvalidParameter
from incrowd.protocols.order_shuffle.groupings import from_lists, from_points
from incrowd.protocols.order_shuffle.theorems.alpha import (
    HAMMING,
    KENDALL,
    RANDOMIZER_ALONE,
    alpha_of,
    largest_posterior,
    local_alpha,
    theta_for,
)
from incrowd.protocols.order_shuffle.theorems.sensitivity import (
    hamming,
    kendall,
    paper_sensitivity,
    widths,
)


def crowd(n, *groups):
    """These groups; everybody else is alone."""
    covered = set().union(*groups)
    return from_lists([list(g) for g in groups] + [[i] for i in range(n) if i not in covered], n=n)


def one(n, group, values=None):
    """The sensitivity of a single group, in the order of the numbers."""
    return int(kendall(crowd(n, group), np.arange(n), values).max())


def subsets(n):
    for size in range(1, n + 1):
        yield from itertools.combinations(range(n), size)


# Single groups, against everything.


@pytest.mark.parametrize("n", [6, 7])
def test_closed_form_equals_largest_difference_between_neighbours(n):
    everything = np.array(list(itertools.permutations(range(n))))
    first, second = np.triu_indices(n, 1)
    count = (everything[:, first] > everything[:, second]).sum(axis=1)
    for group in subsets(n):
        outside = [p for p in range(n) if p not in group]
        key = everything[:, outside] @ (n ** np.arange(len(outside))) if outside else count * 0
        _, where = np.unique(key, return_inverse=True)
        largest = np.full(where.max() + 1, -1)
        least = np.full(where.max() + 1, n * n)
        np.maximum.at(largest, where, count)
        np.minimum.at(least, where, count)
        assert one(n, group) == (largest - least).max()


def test_width_alone_bounds_sensitivity_and_is_rarely_exact():
    for group in subsets(8):
        width = group[-1] - group[0]
        middle = set(range(group[0], group[-1] + 1)) - set(group)
        contiguous = not middle
        only_the_middle = width % 2 == 0 and middle == {(group[0] + group[-1]) // 2}
        exact, bound = one(8, group), paper_sensitivity(width)
        assert exact <= bound
        assert (exact == bound) == (contiguous or only_the_middle)


def in_gaps(group):
    """The closed form, gap by gap."""
    size = len(group)
    gaps = [after - before - 1 for before, after in itertools.pairwise(sorted(group))]
    return size * (size - 1) // 2 + 2 * sum(
        gap * min(r, size - r) for r, gap in enumerate(gaps, start=1)
    )


def test_sum_over_gaps_equals_sum_of_distances_from_median():
    for group in subsets(9):
        spread = sum(abs(k - sorted(group)[len(group) // 2]) for k in group)
        assert in_gaps(group) == 2 * spread - len(group) // 2 == one(9, group)
        assert one(9, group, 2) == spread
        assert hamming(crowd(9, group)).max() == (len(group) if len(group) > 1 else 0)
        assert hamming(crowd(9, group), 2).max() == len(group) // 2 * 2
        assert hamming(crowd(9, group), 3).max() == hamming(crowd(9, group)).max()


def attained(n, group, values):
    """The most inversions that sorting a group one way or the other can change, by listing."""
    found = 0
    inside, size = sorted(group), len(group)
    gaps = [p for p in range(inside[0], inside[-1] + 1) if p not in inside]
    for word in itertools.combinations_with_replacement(range(values), size):
        total = sum(a != b for a, b in itertools.combinations(word, 2))
        for p in gaps:
            r = sum(k < p for k in inside)
            most = 0
            for c in range(values):
                up = sum(a > c for a in word[:r]) + sum(a < c for a in word[r:])
                falling = word[::-1]
                down = sum(a > c for a in falling[:r]) + sum(a < c for a in falling[r:])
                most = max(most, down - up)
            total += most
        found = max(found, total)
    return found


def test_few_values_against_sorted_words():
    """A sorted release attains the inversions between two words, so this is a lower bound."""
    for group in subsets(8):
        for values in (2, 3, 4, 5):
            truth, bound = attained(8, group, values), one(8, group, values)
            assert truth <= bound
            if values != 4 or values > len(group) or group[-1] - group[0] == len(group) - 1:
                assert truth == bound
            # One value more than an odd number is never stated below what the odd number attains.
            assert one(8, group, max(2, values - 1)) <= bound <= one(8, group)


# Published examples.


def ranked(*one_based):
    order = np.array(one_based) - 1
    return order, np.argsort(order)


def test_published_examples():
    _, ranks = ranked(2, 4, 6, 8, 1, 3, 5, 7)
    grouping = crowd(8, (1, 5, 7))
    assert widths(grouping, ranks).max() == 3
    assert paper_sensitivity(3) == 6
    assert kendall(grouping, ranks).max() == 5
    _, ranks = ranked(5, 2, 3, 8, 4, 1, 6, 7)
    grouping = crowd(8, (3, 4, 6))
    assert paper_sensitivity(int(widths(grouping, ranks).max())) == 28
    assert kendall(grouping, ranks).max() == 13


def test_worked_example_holds_in_single_reading():
    order, ranks = ranked(5, 2, 3, 8, 4, 1, 6, 7)
    drawn, _ = ranked(3, 2, 5, 4, 8, 1, 7, 6)
    tau = ranks[drawn]
    z = np.empty(8, int)
    z[order] = order[tau] + 1
    assert z.tolist() == [1, 2, 5, 8, 3, 7, 6, 4]
    assert (z - 1).tolist() == drawn[ranks].tolist() != ranks[drawn].tolist()


# Many groups at once.


def test_many_groups_against_sorted_ranks():
    rng = np.random.default_rng(5)
    n = 300
    groups = [sorted(rng.choice(n, rng.integers(1, 60), replace=False).tolist()) for _ in range(80)]
    grouping, ranks = crowd(n, *groups), rng.permutation(n)
    found, width, two = (
        kendall(grouping, ranks),
        widths(grouping, ranks),
        kendall(grouping, ranks, 2),
    )
    assert found.dtype == width.dtype == hamming(grouping).dtype == np.int64
    assert len(found) == grouping.count
    for index in range(grouping.count):
        places = ranks[grouping.group(index)].tolist()
        assert found[index] == in_gaps(places)
        assert width[index] == max(places) - min(places)
        assert 2 * two[index] - len(places) // 2 == found[index] <= paper_sensitivity(width[index])


def test_balls_in_blocks_agree_with_lists():
    rng = np.random.default_rng(6)
    points = rng.uniform(size=(400, 2))
    balls = from_points(points, 0.1)
    lists = from_lists([balls.group(i).tolist() for i in range(balls.count)], n=400)
    ranks = np.argsort(np.argsort(points[:, 0]))
    # Balls around two people may hold the same people; of lists one is kept.
    for values in (None, 2, 3, 4):
        assert set(kendall(balls, ranks, values)) == set(kendall(lists, ranks, values))
    assert set(widths(balls, ranks)) == set(widths(lists, ranks))
    places = [ranks[balls.group(i)].tolist() for i in range(balls.count)]
    assert kendall(balls, ranks).tolist() == list(map(in_gaps, places))


def test_groups_of_single_people_have_no_sensitivity():
    alone = from_lists([[i] for i in range(4)], n=4)
    for values in (None, 2, 3):
        assert not kendall(alone, np.arange(4), values).any()
        assert not hamming(alone, values).any()
    assert not widths(alone, np.arange(4)).any()


@pytest.mark.parametrize(
    "ranks", [[0, 1, 1], [0, 1, 3], [-1, 0, 1], [0, 1], [0.0, 1.0, 2.0], [[0, 1, 2]]]
)
def test_sensitivity_rejects_ranks_that_are_no_order(ranks):
    with pytest.raises(InvalidParameter, match="ranks must hold each of 0 … 2 once"):
        kendall(crowd(3, (0, 1)), np.array(ranks))


def test_too_few_values_and_negative_widths_are_refused():
    with pytest.raises(InvalidParameter, match="values must be a whole number ≥ 2"):
        kendall(crowd(3, (0, 1)), np.arange(3), 1)
    with pytest.raises(InvalidParameter, match="values"):
        hamming(crowd(3, (0, 1)), 0)
    with pytest.raises(InvalidParameter, match="width"):
        paper_sensitivity(-1)


# θ is rounded down and α up.


def test_theta_is_the_largest_that_keeps_alpha():
    rng = np.random.default_rng(7)
    for _ in range(500):
        alpha, sensitivity = float(rng.exponential(3)), int(rng.integers(1, 10**12))
        theta = theta_for(alpha, sensitivity)
        assert F(theta) * sensitivity <= F(alpha) < F(math.nextafter(theta, 9)) * sensitivity
        again = alpha_of(theta, sensitivity)
        assert F(theta) * sensitivity <= F(again)
        assert again <= alpha
        up = alpha_of(alpha, sensitivity)
        assert F(math.nextafter(up, 0)) < F(alpha) * sensitivity <= F(up)


def test_alpha_and_theta_at_zero_and_infinity():
    assert theta_for(0.0, 5) == 0.0
    assert theta_for(1.0, 0) == math.inf
    assert theta_for(math.inf, 5) == math.inf
    assert theta_for(5e-324, 10) == 0.0
    assert alpha_of(math.inf, 0) == 0.0
    assert alpha_of(math.inf, 1) == math.inf
    assert alpha_of(0.0, 7) == 0.0
    assert alpha_of(1e308, 10) == math.inf
    for bad in (-1.0, math.nan, "1", True):
        with pytest.raises(InvalidParameter, match="alpha"):
            theta_for(bad, 1)
        with pytest.raises(InvalidParameter, match="theta"):
            alpha_of(bad, 1)
    with pytest.raises(InvalidParameter, match="sensitivity"):
        theta_for(1.0, -1)


def test_local_alpha_charges_changed_answers():
    assert [local_alpha(1.0, m, 2) for m in range(1, 6)] == [0, 2, 2, 4, 4]
    assert [local_alpha(1.0, m, 3) for m in range(1, 6)] == [0, 2, 3, 4, 5]
    assert F(local_alpha(0.1, 3)) >= 3 * F(0.1)
    assert local_alpha(math.inf, 2) == math.inf
    assert local_alpha(math.inf, 1) == 0
    with pytest.raises(InvalidParameter, match="epsilon0"):
        local_alpha(-1.0, 2)


def test_largest_posterior_shifts_log_odds_by_alpha():
    assert largest_posterior(0.5, math.log(3)) == pytest.approx(0.75, rel=1e-14)
    assert largest_posterior(0.2, 0.0) == 0.2
    assert largest_posterior(0.0, 5.0) == 0.0
    assert largest_posterior(0.3, math.inf) == 1.0
    assert largest_posterior(0.3, 800.0) == 1.0
    mp.dps = 40
    rng = np.random.default_rng(8)
    for prior, alpha in zip(
        rng.beta(0.3, 0.3, 400).tolist(), rng.exponential(3, 400).tolist(), strict=True
    ):
        truth = mpf(prior) / (prior + (1 - mpf(prior)) * mp.exp(-mpf(alpha)))
        assert truth <= largest_posterior(prior, alpha) <= truth * (1 + mpf(2) ** -48)


def test_theorems_name_their_page():
    for each in (KENDALL, HAMMING, RANDOMIZER_ALONE):
        assert each.endswith("(docs/theory/order.md)")
