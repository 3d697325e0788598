"""What a shuffle means: displacements against exact laws, preservation and distances by hand."""

import math
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest

from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle import utility
from incrowd.protocols.order_shuffle.groupings import from_lists
from incrowd.protocols.order_shuffle.groupings.balls import from_points
from incrowd.protocols.order_shuffle.samplers import hamming, kendall
from incrowd.protocols.order_shuffle.theorems import displacement
from incrowd.protocols.order_shuffle.theorems.displacement import (
    displacement_law,
    expected_displacement,
    rank_law,
)


def ordered(people):
    return SimpleNamespace(people=np.asarray(people))


def mean_size(law):
    ranks = np.arange(len(law))
    return float((law * abs(ranks[:, None] - ranks)).sum() / len(law))


@pytest.mark.parametrize("theta", [0.0, 0.05, 0.7, 3.0, math.inf])
@pytest.mark.parametrize("n", [1, 2, 6])
def test_rank_law_against_enumeration(n, theta):
    law, total = np.zeros((n, n)), 0.0
    for tau in permutations(range(n)):
        pairs = sum(tau[a] > tau[b] for a in range(n) for b in range(a + 1, n))
        weight = math.exp(-theta * pairs) if pairs else 1.0
        total += weight
        law[np.arange(n), tau] += weight
    assert rank_law(n, theta) == pytest.approx(law / total, abs=1e-13)
    assert expected_displacement(n, theta) == pytest.approx(mean_size(law / total), abs=1e-13)


@pytest.mark.parametrize("theta", [0.05, 1.0, 9.0])
def test_rank_law_is_doubly_stochastic(theta):
    law = rank_law(90, theta)
    assert law.sum(axis=0) == pytest.approx(np.ones(90), abs=1e-11)
    assert law.sum(axis=1) == pytest.approx(np.ones(90), abs=1e-11)
    assert law == pytest.approx(law.T, abs=1e-13)


@pytest.mark.parametrize(("theta", "mean"), [(1.0, 1.05392), (0.1, 13.6076), (0.05, 27.4732)])
def test_displacement_law_far_from_ends(theta, mean):
    law = displacement_law(theta)
    assert law.sum() == pytest.approx(1, abs=1e-12)
    assert law @ np.arange(law.size) == pytest.approx(mean, rel=1e-5)


def test_middle_of_finite_order_has_law_of_long_order():
    n, theta = 161, 0.5
    row, law = rank_law(n, theta)[n // 2], displacement_law(theta)
    for away in range(20):
        both = row[n // 2 - away] + row[n // 2 + away] if away else row[n // 2]
        assert both == pytest.approx(law[away], rel=1e-9)


def test_small_theta_continues_the_series():
    just_below = displacement._bulk(displacement._SMALL * (1 - 1e-12))
    assert just_below == pytest.approx(displacement._bulk(displacement._SMALL), rel=3e-6)


@pytest.mark.parametrize(
    ("beta", "share"), [(0.0, 1 / 3), (1e-5, 0.333333), (1, 0.2996), (5, 0.1865), (20, 0.0635)]
)
def test_share_equals_known_values(beta, share):
    assert displacement._share(beta) == pytest.approx(share, abs=5e-5)
    n = 10**7
    assert expected_displacement(n, beta / n) / n == pytest.approx(share, abs=5e-5)


@pytest.mark.parametrize("beta", [displacement._SLIGHT, displacement._FAR])
def test_shares_are_continuous_between_ranges(beta):
    below, above = displacement._share(beta * (1 - 1e-9)), displacement._share(beta * (1 + 1e-9))
    assert below == pytest.approx(above, rel=1e-7)


@pytest.mark.parametrize("n", [129, 180, 300])
@pytest.mark.parametrize("theta", [0.0, 1e-4, 0.003, 0.02, 0.08, 0.2, 0.31])
def test_limit_law_is_within_thousandth_of_exact_mean(n, theta):
    assert expected_displacement(n, theta) == pytest.approx(mean_size(rank_law(n, theta)), rel=1e-3)


@pytest.mark.parametrize("theta", [0.3126, 1.0, 6.0])
def test_large_theta_is_exact_for_any_crowd(theta):
    assert expected_displacement(280, theta) == pytest.approx(
        mean_size(rank_law(280, theta)), rel=1e-10
    )


@pytest.mark.parametrize("theta", [1e-6, 1e-4, 1e-2, 1.0])
def test_displacement_of_a_million(theta):
    n = 10**6
    tau = kendall.kendall_permutation(n, theta, np.random.default_rng(3))
    mean = np.abs(tau - np.arange(n)).mean()
    assert mean == pytest.approx(expected_displacement(n, theta), rel=0.01)


@pytest.mark.parametrize("theta", [0.0, 1.3, 4.0, math.inf])
def test_hamming_displacement(theta):
    n = 6
    total, away = 0.0, 0.0
    for tau in permutations(range(n)):
        moved = sum(k != each for k, each in enumerate(tau))
        weight = math.exp(-theta * moved) if moved else 1.0
        total += weight
        away += weight * sum(abs(k - each) for k, each in enumerate(tau)) / n
    found = expected_displacement(n, theta, "hamming")
    assert found == pytest.approx(away / total, rel=1e-12, abs=1e-300)


def test_displacement_rejects_impossible_parameters():
    with pytest.raises(InvalidParameter, match="kendall or hamming"):
        expected_displacement(5, 1.0, "cayley")
    with pytest.raises(InvalidParameter, match=r"at least 0\.001"):
        displacement_law(1e-5)
    assert displacement_law(math.inf).tolist() == [1.0]


def at_ranks(n, ranks, theta, **options):
    return utility.preservation_of_people(ordered(range(n)), ranks, theta, **options)


def test_preservation_of_ranks_and_of_people_agree():
    order = ordered(np.random.default_rng(1).permutation(500))
    by_rank = at_ranks(500, range(100, 160), 0.05, trials=20, seed=4)
    people = order.people[100:160]
    by_person = utility.preservation_of_people(order, people, 0.05, trials=20, seed=4)
    assert by_rank == by_person
    assert by_rank.size == 60
    assert by_rank.minimum == min(by_rank.kept) / 60
    assert 0 < by_rank.minimum <= by_rank.mean < 1
    assert "20 simulated draws (an estimate)" in by_rank.words()


def test_preservation_against_the_exact_mean():
    # In the mean, the share that stays is the chance of a rank inside to have come from inside.
    n, ranks, theta = 80, range(30, 55), 0.2
    exact = rank_law(n, theta)[30:55, 30:55].sum() / 25
    found = at_ranks(n, ranks, theta, trials=400, seed=1)
    assert found.mean == pytest.approx(exact, abs=0.01)


def test_preservation_of_everybody_and_without_a_shuffle():
    assert at_ranks(50, range(50), 0.0, trials=3).minimum == 1
    assert at_ranks(50, range(7, 9), math.inf, trials=3).minimum == 1


def test_confidence_of_preservation():
    found = utility.Preservation(10, (10, 9, 9, 8) * 25)
    # A share of 0.9 tolerates one loss of ten; a quarter of the draws lost two.
    low, high = found.delta(0.9)
    assert low < 0.25 < high
    assert (low, high) == (pytest.approx(0.1688, abs=1e-4), pytest.approx(0.3466, abs=1e-4))
    assert found.delta(0.8)[0] == 0
    assert found.delta(0.8)[1] == pytest.approx(1 - 0.025 ** (1 / 100))
    assert utility.Preservation(10, (0, 0)).delta(0.5)[1] == 1


@pytest.mark.parametrize("people", [[], [-1], [10]])
def test_preservation_rejects_impossible_people(people):
    with pytest.raises(InvalidCrowd, match="some of 0 to 9"):
        utility.preservation_of_people(ordered(range(10)), people, 1.0)


@pytest.fixture(scope="module")
def line():
    """People along a meridian, one kilometre apart, in a random numbering."""
    place = np.random.default_rng(2).permutation(1000)
    latitude = place / (math.pi * 6371.0088 / 180)
    points = np.column_stack([latitude, np.full(1000, 7.0)])
    return points, from_points(points, 20.5, "haversine"), ordered(np.argsort(place))


def test_meaning_in_kilometres(line):
    points, grouping, order = line
    theta = 0.1
    found = utility.meaning(grouping, order, theta, points=points, metric="haversine", seed=1)
    assert (found.people, found.median_group, found.largest_group) == (1000, 41, 41)
    assert found.displacement == expected_displacement(1000, theta)
    # One rank is one kilometre; the displacement is logistic with scale 1/θ = 10.
    assert found.median_distance == pytest.approx(10 * math.log(3), rel=0.15)
    assert found.most_distance == pytest.approx(10 * math.log(19), rel=0.15)
    assert found.stayed == pytest.approx(math.tanh(20.5 / 20), abs=0.08)
    text = " | ".join(found.words())
    assert "everybody within 20.5 km" in text
    assert text.count("(an estimate)") == 2
    assert f"within {found.median_distance:.3g} km" in text
    again = utility.meaning(grouping, order, theta, points=points, metric="haversine", seed=1)
    assert again == found


def test_meaning_without_places():
    grouping = from_lists([[0, 1, 2], [2, 3], [4, 5, 6, 7, 8, 9]])
    found = utility.meaning(grouping, ordered(range(10)), 0.5)
    assert found.median_distance is None
    assert (found.median_group, found.largest_group, found.asked) == (3, 6, 10)
    assert not any("km" in each for each in found.words())


def test_meaning_of_the_hamming_law(line):
    points, grouping, order = line
    found = utility.meaning(grouping, order, 5.0, "hamming", points=points[:, 0])
    assert found.moved == hamming.expected_moved(1000, 5.0)
    assert any("not theirs" in each for each in found.words())


def test_meaning_of_no_shuffle(line):
    points, grouping, order = line
    found = utility.meaning(grouping, order, math.inf, points=points)
    assert found.stayed == 1
    assert found.most_distance == 0
    assert found.words()[-1] == "every report stays at its place"


def test_meaning_rejects_impossible_places(line):
    points, grouping, order = line
    with pytest.raises(InvalidParameter, match="metric: 'miles' is not known"):
        utility.meaning(grouping, order, 1.0, points=points, metric="miles")
    with pytest.raises(InvalidCrowd, match="points are of 999 people"):
        utility.meaning(grouping, order, 1.0, points=points[1:], metric="haversine")
