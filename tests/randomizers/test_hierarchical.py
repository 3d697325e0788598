"""Levels of a tree: its shape, its law among all pairs of categories, and its joint errors."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from incrowd.errors import InvalidParameter
from incrowd.privacy import LocalProfile, ShuffleProfile
from incrowd.randomizers import KRR, OUE, SUE, Channel, Hierarchical, PairLaw, Randomizer

SMALL = Hierarchical(epsilon=1.2, categories=9, branching=3)


def matrix_of(tree: Hierarchical) -> np.ndarray:
    """All outputs of a tree of k-ary responses, from their definition alone."""
    rows = []
    for x in range(tree.categories):
        cells = []
        for part, chance, span in zip(
            tree.levels.parts, tree.levels.chances, tree.spans, strict=True
        ):
            top = math.exp(tree.epsilon)
            weights = [top if node == x // span else 1.0 for node in range(part.categories)]
            cells += [chance * weight / sum(weights) for weight in weights]
        rows.append(cells)
    return np.array(rows)


@pytest.mark.parametrize(
    ("categories", "branching", "spans"),
    [(65, 4, (16, 4, 1)), (65, 8, (8, 1)), (9, 3, (3, 1)), (5, 4, (1,)), (257, 4, (64, 16, 4, 1))],
)
def test_spans_leave_no_narrow_level_on_top(categories, branching, spans):
    assert Hierarchical(epsilon=1.0, categories=categories, branching=branching).spans == spans


def test_levels_of_many_nodes_use_unary_encoding():
    kinds = [part.kind for part in Hierarchical(epsilon=1.0, categories=65).levels.parts]
    assert kinds == ["krr", "oue", "oue"]
    kinds = [part.kind for part in Hierarchical(epsilon=4.0, categories=65).levels.parts]
    assert kinds == ["krr", "krr", "krr"]


@pytest.mark.parametrize(
    ("wrong", "field"), [({"branching": 1}, "branching"), ({"categories": 2000}, "categories")]
)
def test_wrong_tree_is_refused(wrong, field):
    with pytest.raises(InvalidParameter, match=field):
        Hierarchical(**{"epsilon": 1.0, "categories": 9, **wrong})


def test_law_dominates_all_pairs_of_categories():
    table = matrix_of(SMALL)
    least = table.min(axis=0)
    law = SMALL.blanket()
    for x0, x1 in combinations(range(9), 2):
        pair = PairLaw.of(table[x0] / least, table[x1] / least, least)
        for t, c in product((0.3, 1.0, 1.5, 3.0), np.linspace(-4, 4, 33)):
            assert stop_loss(pair, t, c) <= stop_loss(law, t, c) + 1e-12
    far = PairLaw.of(table[0] / least, table[8] / least, least)
    for t, c in product((1.0, 1.5), np.linspace(-4, 4, 33)):
        assert stop_loss(far, t, c) == pytest.approx(stop_loss(law, t, c), abs=1e-9)


def stop_loss(law: PairLaw, t: float, c: float) -> float:
    value = np.append(law.a - t * law.b, 0.0)
    mass = np.append(law.mass, 1 - law.mass.sum())
    return float(mass @ np.maximum(value - c, 0))


def test_accounting_equals_that_of_its_matrix():
    channel = Channel(matrix_of(SMALL))
    assert channel.epsilon == pytest.approx(SMALL.epsilon, rel=1e-9)
    exact = max(
        ShuffleProfile(law, 300, LocalProfile(channel)).epsilon(1e-6)
        for law in (channel.blankets() if len(channel.blankets()) > 1 else (SMALL.blanket(),))
    )
    mine = ShuffleProfile(SMALL.blanket(), 300, LocalProfile(SMALL), SMALL.attack())
    assert mine.epsilon(1e-6) == pytest.approx(exact, rel=1e-4)
    assert mine.lower(1e-6) <= mine.epsilon(1e-6)


def test_attacks_are_data_sets_of_its_matrix():
    table = matrix_of(SMALL)
    n = len(table)
    for law in SMALL.attack():
        found = False
        for x0, x1, others in product(range(n), repeat=3):
            real = PairLaw.of(table[x0] / table[others], table[x1] / table[others], table[others])
            close = all(
                abs(stop_loss(real, t, c) - stop_loss(law, t, c)) < 1e-9
                for t, c in product((1.0, 1.7), (-1.0, -0.2, 0.0, 0.4))
            )
            found = found or close
        assert found


def test_estimate_equals_that_of_its_matrix(rng):
    channel = Channel(matrix_of(SMALL))
    reports = SMALL.randomize(np.minimum(rng.geometric(0.3, 2000) - 1, 8), rng)
    offsets = np.cumsum([0, *(part.categories for part in SMALL.levels.parts)])
    outputs = offsets[reports[:, 0]] + reports[:, 1]
    found, known = SMALL.joint_estimate(reports), channel.joint_estimate(outputs)
    np.testing.assert_allclose(found.value, known.value, atol=1e-9)
    np.testing.assert_allclose(found.covariance, known.covariance, atol=1e-9)


@pytest.mark.parametrize(
    "randomizer",
    [
        KRR(epsilon=1.0, categories=4),
        OUE(epsilon=1.0, categories=4),
        SUE(epsilon=1.0, categories=4),
        Hierarchical(epsilon=1.0, categories=30),
        Hierarchical(epsilon=2.5, categories=12, branching=3),
    ],
    ids=lambda each: f"{each.kind}-{each.categories}",
)
def test_joint_errors_of_sums_are_those_of_many_runs(randomizer: Randomizer, rng):
    k = randomizer.categories
    values = np.minimum(rng.geometric(0.2, 600) - 1, k - 1)
    runs = [randomizer.joint_estimate(randomizer.randomize(values, rng)) for _ in range(1200)]
    prefix = np.tri(k)[k // 3 :: k // 4]
    found = np.array([prefix @ run.value for run in runs])
    stated = np.mean([np.diag(prefix @ run.covariance @ prefix.T) for run in runs], axis=0)
    ratio = found.var(axis=0, ddof=1)[stated > 1e-12] / stated[stated > 1e-12]
    assert ratio == pytest.approx(np.ones(ratio.size), abs=0.25)
    for run in runs[:3]:
        np.testing.assert_allclose(np.diag(run.covariance), run.variance, rtol=0.5)
