"""Attacks on releases, and what can still be learned from them."""

import sys

import numpy as np
import pytest
from scipy.stats import binom

from experiments import order_attacks, order_learnability
from incrowd.errors import InvalidParameter, MissingExtra
from incrowd.graphs import from_edges
from incrowd.protocols.order_shuffle.groupings import from_lists, from_points
from incrowd.randomizers import KRR


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def haversine(first, second):
    lat1, lon1, lat2, lon2 = np.radians([*first, *second])
    inner = np.sin((lat2 - lat1) / 2) ** 2
    inner += np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0088 * np.arcsin(np.sqrt(inner))


class TestVoters:
    def test_nearest_equals_brute_force(self, rng):
        points = rng.random((60, 3))
        found = order_attacks.nearest(points, 7, rng)
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        np.fill_diagonal(apart, np.inf)
        assert np.array_equal(found, np.argsort(apart, axis=1)[:, :7])

    def test_nearest_by_haversine_is_sorted_across_date_line(self, rng):
        places = [(0.0, 179.9), (0.0, -179.9), (0.0, 179.0), (80.0, 0.0), (80.0, 30.0)]
        found = order_attacks.nearest(places, 4, rng, metric="haversine")
        for victim, row in enumerate(found):
            apart = [haversine(places[victim], places[other]) for other in row]
            assert apart == sorted(apart)
        assert found[0, 0] == 1

    def test_neighbours_never_contain_victim(self, rng):
        ages = np.repeat([30.0, 31.0], [50, 3])
        same = np.zeros(53)
        for found in (
            order_attacks.nearest(ages, 10, rng),
            order_attacks.most_similar(ages, 0, same, 10, rng),
        ):
            assert not (found == np.arange(53)[:, None]).any()
            for row in found:
                there = row[row >= 0]
                assert np.unique(there).size == there.size

    def test_neighbours_of_small_crowd_are_padded(self, rng):
        assert np.array_equal(order_attacks.nearest([1.0, 5.0], 3, rng), [[1, -1, -1], [0, -1, -1]])
        found = order_attacks.most_similar([0.0, 0.5, 9.0], 1, [1, 1, 1], 2, rng)
        assert np.array_equal(found, [[1, -1], [0, -1], [-1, -1]])

    @pytest.mark.parametrize("named", [False, True])
    def test_most_similar_equals_brute_force(self, rng, named):
        places = rng.integers(0, 8, (80, 2)).astype(float)
        known = rng.integers(0, 4, 80) if named else rng.random(80)
        privileged = np.array(list("abcd"))[known] if named else known
        found = order_attacks.most_similar(places, 2.0, privileged, 5, rng)
        for victim, row in enumerate(found):
            near = np.flatnonzero(np.linalg.norm(places - places[victim], axis=1) <= 2.0)
            near = near[near != victim]
            apart = (known != known[victim]).astype(float) if named else abs(known - known[victim])
            row = row[row >= 0]
            assert row.size == min(5, near.size)
            assert np.isin(row, near).all()
            assert np.allclose(np.sort(apart[row]), np.sort(apart[near])[: row.size])

    def test_ties_are_broken_evenly(self, rng):
        found = np.array(
            [order_attacks.most_similar([0.0] * 5, 0, [1] * 5, 2, rng)[0] for _ in range(4000)]
        )
        counts = np.bincount(found.ravel(), minlength=5)
        assert counts[0] == 0
        assert abs(counts[1:] - 2000).max() < 5 * np.sqrt(1000)

    def test_nearest_in_graph_are_fewest_steps_away(self, rng):
        path = from_edges([0, 1, 2, 3, 5], [1, 2, 3, 4, 6], 7)
        found = order_attacks.nearest_in_graph(path, 3, rng)
        assert sorted(found[0]) == [1, 2, 3]
        assert sorted(found[2][:2]) == [1, 3]
        assert found[2][2] in (0, 4)
        assert found[5].tolist() == [6, -1, -1]

    def test_impossible_arguments_are_refused(self, rng):
        with pytest.raises(InvalidParameter, match="metric must be euclidean or haversine"):
            order_attacks.nearest([1.0, 2.0], 1, rng, metric="taxi")
        with pytest.raises(InvalidParameter, match="one entry for each of the 3 people"):
            order_attacks.most_similar([1.0, 2.0, 3.0], 1, [1, 2], 1, rng)


class TestVotes:
    NEIGHBOURS = np.array([[1, 2, 3], [0, 2, -1], [3, 0, 1], [-1, -1, -1]])

    def test_vote_breaks_ties_by_nearest_and_marks_empty_rows(self):
        found = order_attacks.vote([[0, 1, 1, 2], [2, 1, 1, 0]], self.NEIGHBOURS, 3)
        # The second person's two neighbours disagree: the nearer one wins.
        assert found.tolist() == [[1, 0, 2, -1], [1, 2, 0, -1]]

    def test_balanced_vote_prefers_unusual_values(self):
        reports = np.array([0] * 90 + [1] * 10)
        neighbours = np.tile([0, 1, 95], (100, 1))
        assert set(order_attacks.vote(reports, neighbours, 2)[0]) == {0}
        assert set(order_attacks.vote(reports, neighbours, 2, balanced=True)[0]) == {1}

    def test_vulnerable_needs_nine_of_ten_correct_votes(self):
        reports = np.ones((50, 2), int)
        reports[:5, 1], reports[:6, 0] = 0, 0
        found = order_attacks.vulnerable([1, 1], reports, np.array([[1], [0]]), 2)
        assert found.tolist() == [True, False]

    def test_majority_probability_is_binomial(self, rng):
        randomizer = KRR(epsilon=0.3, categories=2)
        values = np.ones(400, int)
        reports = np.stack([randomizer.randomize(values, rng) for _ in range(200)])
        neighbours = np.arange(400).reshape(16, 25)[np.arange(400) // 25]
        right = (order_attacks.vote(reports, neighbours, 2)[:, ::25] == 1).mean()
        truth = binom.sf(12, 25, 1 / (1 + np.exp(-0.3)))
        assert abs(right - truth) < 5 * np.sqrt(truth * (1 - truth) / 3200)

    def test_vulnerability_falls_when_all_reports_are_shuffled(self, rng):
        values = np.repeat([0, 1, 2, 3], 100)
        points = values[:, None] * 10 + rng.random((400, 2))
        randomizer = KRR(epsilon=2.0, categories=4)
        reports = np.stack([randomizer.randomize(values, rng) for _ in range(20)])
        asked = order_attacks.nearest(points, order_attacks.VOTERS, rng)
        assert order_attacks.vulnerable(values, reports, asked, 4).mean() > 0.95
        mixed = reports[:, rng.permutation(400)]
        assert order_attacks.vulnerable(values, mixed, asked, 4).mean() < 0.2

    def test_impossible_arguments_are_refused(self):
        with pytest.raises(InvalidParameter, match="reports of 3 people, but neighbours of 4"):
            order_attacks.vote([0, 1, 1], self.NEIGHBOURS, 2)
        with pytest.raises(InvalidParameter, match="a report is 2, but there are 2 values"):
            order_attacks.vote([0, 1, 2, 0], self.NEIGHBOURS, 2)


@pytest.fixture
def blobs(rng):
    values = np.repeat([0, 1, 2], 200)
    points = np.stack([values * 3.0, values % 2 * 3.0], axis=1) + rng.normal(size=(600, 2)) / 2
    return points, values, KRR(epsilon=1.5, categories=3).randomize(values, rng)


class TestRegression:
    def test_gaussian_process_recovers_values_from_noise(self, blobs, rng):
        points, values, reports = blobs
        found = order_attacks.gaussian_process_attack(points, reports, 3, rng)
        assert (reports == values).mean() < 0.75 < 0.97 < (found == values).mean()

    def test_inducing_places_approximate_exact_solution(self, blobs):
        points, _, reports = blobs
        exact, fewer = (
            order_attacks.gaussian_process(points, reports, 3, np.random.default_rng(1), most=most)
            for most in (600, 150)
        )
        assert np.abs(exact - fewer).max() < 0.02
        assert np.allclose(exact.sum(axis=1), 1)

    def test_exact_solution_equals_regression_formula(self, blobs):
        points, _, reports = (each[::10] for each in blobs)
        found = order_attacks.gaussian_process(points, reports, 3, np.random.default_rng(1))
        share = np.bincount(reports, minlength=3) / 60
        target = np.eye(3)[reports] - share
        apart = ((points[:, None] - points[None]) ** 2).sum(axis=2)
        fits = [
            np.abs(share + k @ np.linalg.solve(k + noise * np.eye(60), target) - found).max()
            for length in np.ptp(points, axis=0).max() * np.geomspace(0.01, 1.0, 9)
            for noise in (0.3, 1.0, 3.0, 10.0)
            for k in [np.exp(-apart / (2 * length**2))]
        ]
        assert min(fits) < 1e-9

    def test_regression_of_single_place_and_value(self, rng):
        found = order_attacks.gaussian_process(np.zeros((5, 2)), np.ones(5, int), 2, rng)
        assert np.allclose(found, [0, 1])

    def test_boosting_recovers_values_from_noise(self, blobs):
        pytest.importorskip("sklearn")
        points, values, reports = blobs
        assert (order_attacks.boosting_attack(points, reports, 1) == values).mean() > 0.85
        assert (order_attacks.boosting_attack(points, np.ones(600, int), 1) == 1).all()

    def test_boosting_without_scikit_learn_is_refused(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
        with pytest.raises(MissingExtra, match=r"pip install --group experiments"):
            order_attacks.boosting_attack([[1.0], [2.0]], [0, 1], 1)


class TestLearnability:
    def test_inverting_undoes_randomized_response(self, rng):
        randomizer = KRR(epsilon=0.7, categories=4)
        truth = rng.dirichlet(np.ones(4), 50)
        top = np.exp(0.7)
        channel = (np.ones((4, 4)) + (top - 1) * np.eye(4)) / (top + 3)
        assert np.allclose(order_learnability.inverted(truth @ channel, randomizer), truth)

    def test_inverted_rows_are_probabilities(self, rng):
        predicted = rng.dirichlet(np.full(5, 0.2), 200)
        found = order_learnability.inverted(predicted, KRR(epsilon=0.5, categories=5))
        assert np.allclose(found.sum(axis=1), 1)
        assert found.min() >= 0
        with pytest.raises(InvalidParameter, match="one row of 4 shares per person"):
            order_learnability.inverted(predicted, KRR(epsilon=0.5, categories=4))

    def test_local_truth_equals_frequencies_in_own_group(self, rng):
        points, values = rng.random((120, 2)), rng.integers(0, 3, 120)
        points[100:] = points[:20]
        found = order_learnability.local_truth(from_points(points, 0.2), values, 3)
        for person in range(120):
            near = np.linalg.norm(points - points[person], axis=1) <= 0.2
            expected = np.bincount(values[near], minlength=3) / near.sum()
            assert np.allclose(found[person], expected)
        with pytest.raises(InvalidParameter, match="2 values, but groups of 3 people"):
            order_learnability.local_truth(from_lists([[0, 1], [2]]), [0, 1], 2)

    def test_learnability_is_zero_for_truth_and_one_for_uniform(self):
        truth = np.array([[1.0, 0.0], [0.75, 0.25]])
        even = np.full((2, 2), 0.5)
        assert order_learnability.total_variation(even, truth) == pytest.approx(0.375)
        assert order_learnability.learnability(truth, truth) == 0
        assert order_learnability.learnability(even, truth) == pytest.approx(1)
        with pytest.raises(InvalidParameter, match="λ is undefined"):
            order_learnability.learnability(even, even)

    def test_calibrated_distributions_follow_place(self, rng):
        pytest.importorskip("sklearn")
        place = rng.random(6000)
        randomizer = KRR(epsilon=1.5, categories=2)
        reports = randomizer.randomize((rng.random(6000) < place).astype(int), rng)
        predicted = order_learnability.calibrated(place, reports, 2, 1)
        truth = np.stack([1 - place, place], axis=1)
        assert np.allclose(predicted.sum(axis=1), 1)
        ours = order_learnability.learnability(
            order_learnability.inverted(predicted, randomizer), truth
        )
        assert ours < 0.3 < order_learnability.learnability(predicted, truth)

    def test_rare_values_have_their_share(self, rng):
        pytest.importorskip("sklearn")
        reports = np.repeat([0, 1, 2], [300, 297, 3])
        found = order_learnability.calibrated(rng.random(600), reports, 4, 1)
        assert np.allclose(found.sum(axis=1), 1)
        assert np.allclose(found[:, 2:], [0.005, 0.0])
        alone = order_learnability.calibrated(rng.random(4), [1, 1, 1, 1], 2, 1)
        assert np.allclose(alone, [0, 1])

    def test_accuracy_on_unseen_people_is_high(self, blobs, rng):
        pytest.importorskip("sklearn")
        points, values, reports = blobs
        order = rng.permutation(600)
        train, test = order[:400], order[400:]
        settings = (points[train], reports[train], points[test], values[test], 1)
        assert order_learnability.accuracy(*settings) > 0.8

    def test_embedding_keeps_friends_together(self):
        ends = [(a + s, b + s) for s in (0, 10) for a in range(10) for b in range(a)]
        graph = from_edges(*np.transpose([*ends, (0, 10)]))
        found = order_learnability.embedding(graph, 2)
        assert found.shape == (20, 2)
        assert np.array_equal(found, order_learnability.embedding(graph, 2))
        assert len(set(np.sign(found[:10, 0]))) == 1
        assert set(np.sign(found[:10, 0])) == set(-np.sign(found[10:, 0]))
