"""The tables and figures of the documentation: made, repeatable, consistent and up to date."""

import re

import pytest

from experiments import shuffle
from experiments.common import FIGURES
from incrowd.privacy import functional
from incrowd.randomizers import KRR, Generic, Laplace
from tests.experiments.pieces import (
    assert_light_and_dark,
    number,
    published,
    quick_run,
    read_rows,
    same_row,
)

TABLES = [name for name in shuffle.EXPERIMENT.pieces if name.endswith(".md")]
DRAWINGS = [name for name in shuffle.EXPERIMENT.pieces if name.endswith(".svg")]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    directory = tmp_path_factory.mktemp("figures")
    return directory, quick_run(shuffle.EXPERIMENT.main, directory)


def _number(cell: str) -> float:
    return number(cell, "×%")


def _numeric(cell: str) -> bool:
    return re.fullmatch(r"[\d.,]+(e[-+]?\d+)?( [×%])?", cell) is not None


def test_experiment_writes_named_files(quick):
    directory, printed = quick
    assert printed == [str(directory / name) for name in shuffle.EXPERIMENT.pieces]
    assert {path.name for path in directory.iterdir()} == set(shuffle.EXPERIMENT.pieces)


def test_quick_run_keeps_full_results(capsys):
    with pytest.raises(SystemExit) as stop:
        shuffle.EXPERIMENT.main(["--quick"])
    assert stop.value.code == 2
    assert "--out" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["shuffle_variation_ratio.md", "shuffle_profile.svg"])
def test_experiment_repeats_same_bytes(quick, name):
    again = shuffle.EXPERIMENT.pieces[name](shuffle.QUICK).render("experiments.shuffle")
    assert (quick[0] / name).read_text(encoding="utf-8") == again


@pytest.mark.parametrize("name", TABLES)
def test_documentation_is_up_to_date(quick, name):
    """Every row of the quick run stands in the documentation, but for a last digit."""
    known = published(name)
    for row in read_rows(quick[0] / name):
        same = same_row(row, known, ("n", "ε0", "k", "randomizer"))
        for column, cell in row.items():
            if column in ("gap", "saved"):
                assert _number(cell) == pytest.approx(_number(same[column]), abs=0.11)
            elif _numeric(cell):
                assert _number(cell) == pytest.approx(_number(same[column]), rel=1.1e-3)
            else:
                assert cell == same[column]


@pytest.mark.parametrize("name", TABLES[:4])
def test_documentation_is_consistent(name):
    for row in published(name):
        bound = _number(row["bound"])
        assert _number(row["attack"]) <= bound
        assert bound <= min(_number(row.get(other, "inf")) for other in ("clones 2021", "Bennett"))
        assert bound <= _number(row.get("generic", "inf"))


@pytest.mark.parametrize("name", DRAWINGS)
def test_figures_stand_on_light_and_dark_pages(name):
    assert_light_and_dark(FIGURES / name)


def test_variation_ratio_equals_generic_bound_for_two_categories():
    law, generic = shuffle.paper_variation_ratio(1.5, 2), Generic(epsilon=1.5).blanket()
    for epsilon in (0.0, 0.2, 1.0):
        ours = functional(generic, 40, epsilon)
        assert functional(law, 40, epsilon).upper == pytest.approx(ours.upper, rel=1e-6)


def test_variation_ratio_of_small_crowd_is_below_lower_bound():
    """By enumeration it is 1.21e−3, and the attack attains 2.39e−3."""
    assert functional(shuffle.paper_variation_ratio(1.0, 3), 8, 0.8).upper == pytest.approx(
        1.21e-3, rel=5e-3
    )
    attacks = KRR(epsilon=1.0, categories=3).attack()
    assert max(functional(law, 8, 0.8).lower for law in attacks) >= 2.39e-3


def test_counterexamples_equal_multinomial_sums():
    """Against plain multinomial sums: the ε that is claimed and the δ that is true there."""
    summed = [
        (7.3745, 4.61e-3),
        (5.8970, 1.15e-5),
        (6.39361, 6.702e-6),
        (4.4364, 1.26e-6),
        (0.68709, 1.128e-6),
        (1.37486, 1.048e-6),
    ]
    found = published("shuffle_variation_ratio.md")
    assert len(found) == len(shuffle.VARIATION_RATIO_CASES)
    for (claimed, truth), row in zip(summed, found, strict=True):
        attained = _number(row["true δ there, at least"])
        assert _number(row["claimed ε"]) == pytest.approx(claimed, rel=1e-4)
        assert attained == pytest.approx(truth, rel=1e-2)
        assert attained > shuffle.DELTA
        assert _number(row["bound"]) > _number(row["claimed ε"])


@pytest.mark.parametrize(
    ("randomizer", "n", "published"),
    [
        (KRR(epsilon=1.0, categories=16), 1_000, 0.0807785),
        (KRR(epsilon=1.0, categories=128), 1_000, 0.0308148),
        (KRR(epsilon=2.0, categories=16), 1_000, 0.293068),
        (KRR(epsilon=8.0, categories=128), 10**6, 0.354855),
        (Laplace(epsilon=1.0), 10_000, 0.0450179),
    ],
)
def test_bennett_epsilon_equals_published_values(randomizer, n, published):
    """Values from the implementation that accompanies the paper."""
    assert shuffle.bennett_epsilon(randomizer, n) == pytest.approx(published, rel=2e-5)
