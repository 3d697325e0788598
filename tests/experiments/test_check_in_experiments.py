"""The tables and figures on shuffled check-in: made, repeatable, consistent and up to date."""

import numpy as np
import pytest

from experiments import check_in
from experiments.check_in_published import distributed_renyi
from experiments.common import FIGURES
from experiments.paper_check_in import (
    TABLE_2,
    paper_lemma_1,
    paper_optimistic_renyi,
    paper_without_replacement_renyi,
)
from incrowd.privacy.renyi import renyi_epsilon, shuffled_gaussian_renyi
from tests.experiments.pieces import (
    assert_made_by,
    number,
    published,
    quick_run,
    read_rows,
    same_row,
)

TABLES = [name for name in check_in.EXPERIMENT.pieces if name.endswith(".md")]
DRAWINGS = [name for name in check_in.EXPERIMENT.pieces if name.endswith(".svg")]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    directory = tmp_path_factory.mktemp("figures")
    return directory, quick_run(check_in.EXPERIMENT.main, directory)


def _number(cell: str) -> float:
    return number(cell, "✗")


def test_experiment_writes_named_files(quick):
    directory, printed = quick
    assert printed == [str(directory / name) for name in check_in.EXPERIMENT.pieces]


@pytest.mark.parametrize("name", TABLES)
def test_documentation_is_up_to_date(quick, name):
    """Every row of the quick run stands in the documentation, but for a last digit."""
    known = published(name)
    for row in read_rows(quick[0] / name):
        same = same_row(row, known, ("ε0", "γ", "σ", "n", "order", "rounds"))
        for column, cell in row.items():
            assert _number(cell) == pytest.approx(_number(same[column]), rel=1.1e-3)


@pytest.mark.parametrize("name", DRAWINGS)
def test_figures_are_drawings(quick, name):
    for directory in (quick[0], FIGURES):
        assert_made_by("experiments.check_in", directory / name)


def test_printed_table_has_three_cells_below_lower_bound():
    rows = published("check_in_table2.md")
    assert len(rows) == len(TABLE_2)
    false = [
        (row["ε0"], row["γ"], column)
        for row in rows
        for column in ("baseline", "approach 1", "approach 2")
        if _number(row[column]) < _number(row["attack"])
    ]
    assert false == [
        ("2", "0.01", "approach 2"),
        ("2", "0.001", "baseline"),
        ("2", "0.001", "approach 1"),
    ]
    for row in rows:
        assert sum("✗" in cell for cell in row.values()) == sum(
            (row["ε0"], row["γ"], column) in false for column in row
        )
        assert _number(row["attack"]) < _number(row["bound"]) < _number(row["Rényi"])


def test_bounds_reproduce_independent_computation():
    """Values of a privacy-loss computation written from the definition, for binary response."""
    known = [0.07363, 0.01918, 2.76294, 0.92406]
    found = [_number(row["bound"]) for row in published("check_in_table2.md")]
    np.testing.assert_allclose(found, known, rtol=5e-3)


def test_printed_lemma_is_below_true_divergence():
    for row in published("check_in_lemma.md"):
        assert _number(row["lemma, δ = 1e-8"]) < _number(row["true"])
    assert paper_lemma_1(1.0, 1e-8, 2) == pytest.approx(6.9e-8, rel=0.01)
    assert paper_lemma_1(1.0, 1e-8, 8) == pytest.approx(3.2e-5, rel=0.01)
    assert paper_lemma_1(1.0, 1e-8, 32) == pytest.approx(0.549, rel=0.01)


def test_pair_divergence_is_enclosed():
    for row in published("check_in_pair.md"):
        forth = _number(row["1→0, at least"])
        assert forth <= _number(row["1→0, at most"]) <= forth * 1.0003
        assert _number(row["0→1, at least"]) <= _number(row["0→1, at most"]) < forth * 1.0003
        assert _number(row["converted"]) > forth


def test_random_crowd_is_not_more_private_than_fixed():
    """What the paper's Figure 5 claims, once the rounds that nobody attends are counted."""
    orders = [2, 3, 8]
    fixed = paper_without_replacement_renyi(orders, 1_000, 100, 1.0)
    random = distributed_renyi(orders, n=1_000, rate=0.1, sigma=1.0)
    assert np.all(fixed < random)
    for row in published("check_in_distributed.md"):
        bounds = [_number(row[each]) for each in ("attack", "bound", "fixed crowd, Rényi")]
        assert bounds == sorted(bounds)


def test_optimistic_estimate_is_far_below_truth():
    """One shuffled report of the paper's σ = 0.86, replaced: the estimate forgets the factor 2."""
    orders = range(2, 40)
    estimates = []
    for sigma in (0.86, 0.43):
        levels = [0.0, 0.0, *shuffled_gaussian_renyi(orders, n=600, sigma=sigma)]
        one = paper_optimistic_renyi(orders, 60_000, 600, levels)
        estimates.append(renyi_epsilon(orders, one, 1e-5))
    assert estimates[0] < estimates[1] / 3
