"""k-means through scramblers: what is guaranteed, what is sent, and that clusters are found."""

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from experiments.scrambled_clustering import rand_index
from incrowd.errors import InvalidCrowd, InvalidEpsilon, InvalidParameter, NotANumber, NotProven
from incrowd.protocols.scrambled_query.kmeans import (
    _STEPS,
    ScrambledKMeans,
    nearest,
)
from incrowd.randomness import Seeds


def blobs(n=3000, seed=0):
    rng = Seeds(seed).generator("blobs")
    centres = np.array([[0.2, 0.2], [0.8, 0.2], [0.5, 0.85]])
    labels = rng.integers(3, size=n)
    return np.clip(centres[labels] + rng.normal(0, 0.05, (n, 2)), 0, 1), labels


def described(**changed):
    settings = {
        "clusters": 3,
        "iterations": 5,
        "dimension": 2,
        "n": 3000,
        "radius": 2.0,
        "redirect_probability": 0.5,
        "sources": 300,
        "dummies": 50,
        "release_epsilon": 1.0,
    }
    return ScrambledKMeans(**(settings | changed))


def inertia(points, centroids):
    return ((points - centroids[nearest(points, centroids)]) ** 2).sum()


# What is guaranteed


def test_guarantee_equals_plan_and_is_within_sum_of_parts():
    kmeans = described()
    delta = 1e-6
    found = kmeans.guarantee()
    assert found.view == {"curator", "network"}
    rule = 5 * (kmeans.routing.profile().epsilon(delta / 5) + 2 * 1.0)
    assert 5 * 1.0 < found.epsilon(delta) <= rule
    assert found.epsilon(delta) == kmeans.plan.profile(released=True).epsilon(delta)
    assert found.theorem.endswith("(docs/theory/plans.md)")
    # The last centroids are not seen by whoever sees only the traffic.
    alone = kmeans.guarantee("network")
    assert alone.epsilon(delta) < found.epsilon(delta)
    assert kmeans.guarantee("hub+network").epsilon(delta) == alone.epsilon(delta)
    assert kmeans.guarantee(colluders=50).epsilon(delta) > found.epsilon(delta)


def test_guarantee_without_release_is_group_privacy():
    kmeans = described(release_epsilon=None)
    with pytest.raises(NotProven, match="set release"):
        kmeans.guarantee()
    stated = kmeans.guarantee("network")
    assert "group privacy" in stated.theorem
    assert stated.epsilon(1e-6) > 1000
    assert kmeans.simulate(blobs()[0], seed=1).guarantee is None


@pytest.mark.parametrize("view", ["scrambler", "everyone", "network+scrambler"])
def test_guarantee_rejects_views_of_point_readers(view):
    with pytest.raises(NotProven, match="in the clear"):
        described().guarantee(view)


# What runs


def test_simulate_with_sampling_and_noise_finds_clusters():
    points, labels = blobs()
    best = max(
        rand_index(described().simulate(points, seed=seed).assign(points), labels)
        for seed in range(3)
    )
    assert best > 0.95


def test_simulate_with_high_sampling_finds_clusters():
    points, labels = blobs(12_000)
    kmeans = described(n=12_000, redirect_probability=0.9, release_epsilon=None)
    found = [kmeans.simulate(points, seed=seed) for seed in range(4)]
    assert max(rand_index(run.assign(points), labels) for run in found) > 0.95
    arrived = found[0].tuples[0] / 12_000
    assert arrived == pytest.approx(1 - 0.9 * (1 - 1 / 3), abs=0.02)


def test_simulate_without_sampling_and_noise_is_lloyds_algorithm():
    points, _ = blobs(500)
    kmeans = described(
        n=500, sources=100, redirect_probability=0.0, release_epsilon=None, iterations=6
    )
    run = kmeans.simulate(points, seed=4)
    assert run.tuples == (500,) * 6
    for before, after in pairwise(run.history):
        member = nearest(points, before)
        for k in range(3):
            inside = points[member == k]
            expected = inside.mean(axis=0) if len(inside) else before[k]
            assert after[k] == pytest.approx(expected, abs=1e-5)
    costs = [inertia(points, centroids) for centroids in run.history]
    assert all(b <= a + 1e-9 for a, b in pairwise(costs))


def test_start_is_independent_of_data():
    kmeans = described()
    points, _ = blobs()
    first, second = kmeans.simulate(points, seed=2), kmeans.simulate(points[::-1] * 0.3, seed=2)
    assert np.array_equal(first.history[0], second.history[0])
    other = kmeans.simulate(points, seed=3)
    assert not np.array_equal(first.history[0], other.history[0])


@pytest.mark.parametrize(
    ("dimension", "radius", "low"), [(2, 2.0, 0.0), (784, 100.0, 0.0), (50, 4.0, -1.0)]
)
def test_start_and_centroids_stay_within_box_and_radius(dimension, radius, low):
    kmeans = described(
        dimension=dimension, radius=radius, low=low, n=400, sources=100, release_epsilon=0.1
    )
    points = Seeds(1).generator("points").normal(0, 1, (400, dimension))
    for centroids in kmeans.simulate(points, seed=1).history:
        assert centroids.min() >= low
        assert centroids.max() <= 1
        assert np.abs(centroids).sum(axis=1).max() <= radius * (1 + 1e-9)


def test_points_are_clipped_to_noise_sensitivity():
    kmeans = described(dimension=3, radius=0.9, low=-1.0, n=500, sources=100)
    rng = Seeds(3).generator("points")
    points = np.concatenate([rng.normal(0, 3, (400, 3)), rng.uniform(-0.2, 0.2, (100, 3))])
    steps = kmeans._clipped(points)
    assert np.abs(steps).sum(axis=1).max() <= _STEPS
    inside = np.abs(points).sum(axis=1) <= 0.9
    assert inside.sum() > 50
    assert steps[inside] * 0.9 / _STEPS == pytest.approx(points[inside], abs=1e-5)
    exactly = np.array([[0.3, 0.3, 0.3]] * 500)
    assert np.abs(kmeans._clipped(exactly)).sum(axis=1).max() <= _STEPS


def test_noise_covers_move_of_one_point():
    kmeans = described(release_epsilon=0.7)
    counts, sums = kmeans._noises
    # Two counts by one each, and two sums by the radius each.
    loss = 2 * counts.rate / counts.scale + 2 * _STEPS * sums.rate / sums.scale
    assert 0.7 * 0.999 < loss <= 0.7


def test_traffic_has_equal_totals_for_all_scramblers():
    points, _ = blobs(1000)
    kmeans = described(n=1000, sources=300, dummies=40)
    for table in kmeans.simulate(points, seed=5).traffic:
        assert table.shape == (4, 3)
        assert (table.sum(axis=1) == 340).all()


def test_empty_clusters_do_not_move():
    kmeans = described(
        n=50, sources=10, redirect_probability=0.0, release_epsilon=None, iterations=2
    )
    run = kmeans.simulate(np.full((50, 2), 0.5), seed=1)
    winner = int(run.assign(np.full((1, 2), 0.5))[0])
    for k in range(3):
        moved = not np.array_equal(run.history[0][k], run.history[-1][k])
        assert moved == (k == winner)


def test_simulate_with_same_seed_is_equal():
    points, _ = blobs()
    first, second = (described().simulate(points, seed=8) for _ in range(2))
    assert np.array_equal(first.centroids, second.centroids)
    assert first.seed == 8


# What is refused


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"clusters": 0}, InvalidParameter),
        ({"iterations": 0}, InvalidParameter),
        ({"radius": 0.0}, InvalidParameter),
        ({"low": 1.0}, InvalidParameter),
        ({"low": 0.2}, InvalidParameter),
        ({"redirect_probability": 1.5}, InvalidParameter),
        ({"release_epsilon": 0.0}, InvalidEpsilon),
        ({"sources": 5000}, InvalidCrowd),
        ({"dummies": -1}, InvalidParameter),
    ],
)
def test_kmeans_rejects_invalid_settings(changed, error):
    with pytest.raises(error) as told:
        described(**changed)
    assert "\n" not in str(told.value)


def test_simulate_rejects_points_of_other_shape_or_nan():
    with pytest.raises(InvalidCrowd, match="rows"):
        described().simulate(np.zeros((10, 2)))
    with pytest.raises(NotANumber):
        described(n=300, sources=100).simulate(np.full((300, 2), np.nan))


def test_nearest_finds_smallest_squared_distances():
    points, _ = blobs(200)
    centroids = np.array([[0.1, 0.2], [0.7, 0.7]])
    brute = sum(min(((x - c) ** 2).sum() for c in centroids) for x in points)
    assert inertia(points, centroids) == pytest.approx(brute)


DATA = os.environ.get("INCROWD_DATA")


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="INCROWD_DATA is not set")
def test_digits_with_high_sampling_are_clustered_as_well_as_without():
    with np.load(Path(DATA) / "mnist" / "mnist.npz") as file:
        points = file["x_train"].reshape(60_000, 784).astype(np.float32) / 255
        test, labels = file["x_test"].reshape(10_000, 784) / 255, file["y_test"]
    settings = {"clusters": 10, "iterations": 10, "dimension": 784, "n": 60_000, "radius": 120.0}
    found = []
    for sampling in (0.0, 0.9):
        kmeans = ScrambledKMeans(
            **settings, redirect_probability=sampling, sources=600, dummies=100
        )
        found.append(rand_index(kmeans.simulate(points, seed=1).assign(test), labels))
    assert found[0] > 0.86
    assert found[1] > found[0] - 0.015
