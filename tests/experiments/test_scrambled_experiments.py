"""The tables and figures on scrambled queries: made, repeatable, consistent and up to date."""

import itertools
import re
from math import comb, exp, factorial, inf, log, prod

import numpy as np
import pytest

from experiments import scrambled_figures as figures
from experiments import scrambled_query
from experiments import scrambled_tradeoffs as tradeoffs
from experiments.common import FIGURES
from experiments.paper_scrambled_query import (
    paper_bennett_delta,
    paper_bennett_epsilon,
    paper_kmeans,
    paper_theorem_3,
    paper_theorem_4_delta,
)
from incrowd.protocols.scrambled_query.theorems.capped import capped_epsilon
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from tests.experiments.pieces import (
    assert_made_by,
    number,
    published,
    quick_run,
    read_rows,
    same_row,
)

TABLES = [name for name in scrambled_query.EXPERIMENT.pieces if name.endswith(".md")]
DRAWINGS = [name for name in scrambled_query.EXPERIMENT.pieces if name.endswith(".svg")]
KEYS = (
    "σ",
    "people",
    "dummies",
    "sets",
    "group",
    "budget ε",
    "limit",
    "data",
    "records",
    "setting",
)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    directory = tmp_path_factory.mktemp("figures")
    return directory, quick_run(scrambled_query.EXPERIMENT.main, directory)


def _number(cell: str) -> float:
    return inf if cell == "∞" else number(cell, "%")


def test_experiment_writes_named_pieces(quick):
    directory, printed = quick
    assert printed == [str(directory / name) for name in scrambled_query.EXPERIMENT.pieces]


@pytest.mark.parametrize("name", TABLES)
def test_documentation_is_up_to_date(quick, name):
    """Every row of the quick run stands in the documentation."""
    known, found = published(name), read_rows(quick[0] / name)
    assert found
    for row in found:
        # What was fitted is a result, not a key.
        keys = KEYS[5:7] + KEYS[3:4] if "budget ε" in row else KEYS
        same = same_row(row, known, keys)
        for column, cell in row.items():
            if re.fullmatch(r"[\d,.e+-]+( %)?", cell):
                assert _number(cell) == pytest.approx(_number(same[column]), rel=1.1e-2)
            else:
                assert cell == same[column]


@pytest.mark.parametrize("name", DRAWINGS)
def test_figures_are_drawings(quick, name):
    for directory in (quick[0], FIGURES):
        assert_made_by("experiments.scrambled_query", directory / name)


class TestPaperFormulas:
    """Values that were computed from the paper's formulas by hand, and what is wrong with them."""

    @pytest.mark.parametrize(
        ("sampling", "dummies", "printed"),
        [(0.1, 50, 4.8882), (0.5, 50, 1.8127), (0.1, 99, 4.7136), (0.5, 99, 1.4886)],
    )
    def test_paper_theorem_3_is_below_exact_epsilon(self, sampling, dummies, printed):
        settings = (20, sampling, 100, dummies)
        assert paper_theorem_3(*settings) == pytest.approx(printed, abs=1e-4)
        assert paper_theorem_3(*settings) < capped_epsilon(*settings)

    def test_paper_theorem_4_delta_is_negative(self):
        assert paper_theorem_4_delta(1.0, 20, 0.3, 100, 50) < 0

    @pytest.mark.parametrize(
        ("sampling", "sources", "dummies", "printed"),
        [
            (0.1, 100, 300, 0.7611),
            (0.1, 600, 1000, 0.2937),
            (0.3, 600, 0, 0.8939),
            (0.9, 100, 0, 0.1894),
            (0.7, 60, 60, 0.5313),
        ],
    )
    def test_paper_bennett_epsilon_equals_values_by_hand(self, sampling, sources, dummies, printed):
        found = paper_bennett_epsilon(20, sampling, sources, dummies, 1e-4)
        assert found == pytest.approx(printed, abs=1.1e-4)

    def test_paper_bennett_epsilon_is_violated(self):
        """Without lies the proven δ is exact: the printed ε has another one, 24 times as large."""
        claimed = paper_bennett_epsilon(20, 0.0, 100, 300, 1e-4)
        assert ScramblerProfile(20, 0.0, 100, 300).delta(claimed) > 2.3e-3
        assert paper_bennett_delta(np.array([claimed]), 20, 0.0, 100, 300) <= 1e-4

    def test_paper_kmeans_is_sum_over_rounds(self):
        assert paper_kmeans(0.25, 10) == 2.5


class TestHistograms:
    def test_histogram_contains_all_outcomes(self):
        found = figures.histogram_losses((5, 5, 5, 5))
        assert len(found.losses) == comb(43, 3)
        assert (np.diff(found.losses) <= 0).all()
        # All 40 messages go to one target, and the largest loss is that of one message alone.
        assert found.losses[0] == pytest.approx(log(1 + 0.8 * 4 / 0.2))

    def test_histogram_losses_equal_enumeration(self, monkeypatch):
        """Against a sum over everybody's choices, in a small case."""
        monkeypatch.setattr(figures, "HISTOGRAM", (3, 0.4, 2, 1))
        found = figures.histogram_losses.__wrapped__((1, 1, 0))

        def law(true):
            chances = {}
            for sent in itertools.product(range(3), repeat=3):
                key = tuple(sent.count(each) for each in range(3))
                chance = prod(0.6 * (s == t) + 0.4 / 3 for s, t in zip(sent, true, strict=False))
                chances[key] = chances.get(key, 0) + chance / 3
            return chances

        one, other = law((0, 1)), law((1, 1))
        expected = sorted(
            (abs(log(one[key] / other[key])), (one[key] + other[key]) / 2) for key in one
        )
        assert len(expected) == factorial(5) // factorial(3) // 2
        same = sorted(zip(found.losses, found.chances, strict=True))
        np.testing.assert_allclose(same, expected, atol=1e-12)

    def test_histogram_curve_is_below_guarantee(self):
        """δ of the two laws at some ε, which no bound may be below."""
        profile = ScramblerProfile(*figures.HISTOGRAM)
        for name, true in figures.INPUTS.items():
            found = figures.histogram_losses(true)
            for epsilon in (0.5, 1.0, 2.0):
                # Of P and Q with the mean M and the ratio t: P − e^ε·Q = 2M·(t − e^ε)/(1 + t).
                ratio = np.exp(found.losses)
                gains = np.maximum(0, ratio - exp(epsilon)) / (1 + ratio) * 2 * found.chances
                # Half of the sum is the mean of both directions.
                attained = gains.sum() / 2
                assert attained <= profile.delta(epsilon)
                assert name != "all elsewhere" or profile.delta(epsilon) < 1.1 * attained


class TestPublishedTables:
    def test_published_capped_table_shows_printed_below_exact(self):
        """The conclusion of the paper is the other way round."""
        for row in published("scrambled_capped.md"):
            printed, exact, own = (
                _number(row[each]) for each in ("printed", "exact", "one dummy each")
            )
            assert printed < exact <= _number(row["alone"])
            assert own < exact

    def test_published_bounds_equal_reference_values(self):
        """Computed independently in many digits."""
        known = {
            ("0.1", "100", "300"): 1.157602, ("0.3", "600", "0"): 1.129310,
            ("0.5", "100", "1,000"): 0.268390, ("0.9", "600", "50"): 0.059659,
            ("0", "100", "300"): 1.4379, ("0", "100", "1,000"): 0.6261,
        }  # fmt: skip
        rows = published("scrambled_bounds.md")
        for row in rows:
            exact = _number(row["exact"])
            value = known.pop((row["σ"], row["people"], row["dummies"]), None)
            if value is not None:
                assert value * (1 - 1e-4) <= exact <= value * 1.001
            for older in ("Hoeffding", "Bennett"):
                assert row[older] == "–" or _number(row[older]) > exact
        assert not known
        unsafe = [row for row in rows if row["δ there"] != "–" and _number(row["δ there"]) > 1e-4]
        assert len(unsafe) > len(rows) / 2

    def test_tight_composition_beats_sum(self):
        for row in published("scrambled_sets.md"):
            assert _number(row["ε"]) <= _number(row["sum"])

    def test_fitted_parameters_keep_budget_and_limit(self):
        rows = published("scrambled_fit.md")
        for row in rows:
            assert _number(row["ε"]) <= _number(row["budget ε"])
            if row["limit"] == "–":
                assert row["σ"] == "0"
            else:
                assert _number(row["messages"]) <= _number(row["limit"])

    def test_sampling_needs_more_people_for_same_tuples(self):
        assert tradeoffs.people_for(0.0) == 10_000
        assert tradeoffs.people_for(0.5) == pytest.approx(10_000 / 0.525, abs=1)

    def test_published_answers_are_exact_only_without_sampling_and_noise(self):
        for row in published("scrambled_answers.md"):
            plainly = row["setting"].startswith("1,000 dummies") and row["with the result"] == "–"
            assert (_number(row["count error"]) == 0) == plainly
            if row["with the result"] != "–":
                assert _number(row["with the result"]) > _number(row["network"])
            elif plainly:
                assert row["arrived"] == "100.0 %"

    def test_local_epsilon_of_figure_equals_closed_form(self):
        assert exp(figures.bounds(0.5, 100, 50).alone) == pytest.approx(21)
