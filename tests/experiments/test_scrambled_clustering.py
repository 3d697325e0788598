"""k-means on MNIST, as an experiment: it runs, and says what is claimed and what is proven."""

import math
import os
from itertools import combinations

import numpy as np
import pytest

from experiments import scrambled_clustering as clustering
from incrowd.errors import InvalidParameter
from incrowd.protocols.scrambled_query.cost import query_messages
from incrowd.randomness import Seeds
from tests.experiments.pieces import assert_made_by, published, quick_run, read_rows


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    if "INCROWD_DATA" not in os.environ:
        pytest.skip("INCROWD_DATA is not set")
    directory = tmp_path_factory.mktemp("figures")
    return directory, quick_run(clustering.EXPERIMENT.main, directory)


def test_experiment_writes_named_pieces(quick):
    directory, printed = quick
    assert printed == [str(directory / name) for name in clustering.EXPERIMENT.pieces]
    for name in clustering.EXPERIMENT.pieces:
        assert_made_by("experiments.scrambled_clustering", directory / name)


def test_table_contains_all_settings(quick):
    found = read_rows(quick[0] / "scrambled_kmeans.md")
    size = clustering.QUICK
    assert len(found) == len(size.ways) * len(size.routes) * len(size.releases)
    for row in found:
        assert (row["proven"] == "∞") == (row["ε_c"] == "none")
        assert 0 <= float(row["Rand index"]) <= 1
        low, high = map(float, row["range"].split(" to "))
        assert low <= float(row["adjusted"]) <= high


def test_shrunk_pictures_are_means_of_pixels():
    pictures = np.arange(2 * 28 * 28, dtype=np.float32).reshape(2, 28, 28)
    found = clustering.shrunk(pictures, clustering.SQUARES)
    assert found.shape == (2, 49)
    assert found[1, 8] == pictures[1, 4:8, 4:8].mean()
    same = clustering.shrunk(pictures, clustering.PIXELS)
    np.testing.assert_array_equal(same.reshape(2, 28, 28), pictures)


def test_adjusted_rand_index_of_random_labels_is_zero():
    rng = np.random.default_rng(3)
    labels = rng.integers(5, size=2000)
    assert clustering.adjusted_rand_index(labels, 4 - labels) == 1
    assert abs(clustering.adjusted_rand_index(labels, rng.permutation(labels))) < 0.01
    assert clustering.adjusted_rand_index(np.zeros(2000), labels) == pytest.approx(0)


def test_kmeans_messages_count_all_rounds():
    """Those of a query with one grouping set, and the centroids on their way back."""
    one = query_messages((10,), 1000, 100, 30)
    assert clustering.kmeans_messages(1000, 100, 30) == 10 * (one + 10 * 10 + 1000)


def test_published_table_supports_findings():
    found = published("scrambled_kmeans.md")
    for row in found:
        if row["ε_c"] != "none":
            # What is claimed does not count the centroids, which everybody is told.
            released = 10 * float(row["ε_c"]) * (1 if row["σ"] == "0" else 2)
            # Composed tightly they are less than the sum, which the table rounds up.
            assert float(row["proven"]) <= 1.01 * (float(row["claimed"]) + released)
            assert math.isfinite(float(row["proven"]))
    exact = [float(row["Rand index"]) for row in found if row["ε_c"] == "none"]
    assert min(exact) > 0.85


@pytest.mark.parametrize("seed", range(4))
def test_rand_index_equals_share_of_agreeing_pairs(seed):
    rng = Seeds(seed).generator("labels")
    a, b = rng.integers(4, size=40), rng.integers(3, size=40)
    agree = [(a[i] == a[j]) == (b[i] == b[j]) for i, j in combinations(range(40), 2)]
    assert clustering.rand_index(a, b) == pytest.approx(np.mean(agree))
    assert clustering.rand_index(a, a) == 1.0
    assert clustering.rand_index(a, (a + 1) % 4) == 1.0
    with pytest.raises(InvalidParameter):
        clustering.rand_index(a, b[:-1])
