from __future__ import annotations

import msgspec
import numpy as np
import pytest

from incrowd.errors import EmptyData, InvalidParameter, ProtocolFailed
from incrowd.randomizers import KRR, RR, Generic, Laplace, OneBit, PrivUnit, Ternary
from incrowd.tasks import TASKS, Collected, Histogram, Mean, Vector, natural_task

COLOURS = Histogram(categories=("red", "green", "blue"), complete=True)


class TestHistogram:
    @pytest.mark.parametrize(
        "column",
        [
            np.array(["blue", "red", "red"]),
            np.array(["blue", "red", "red"], object),
            ["blue", "red", "red"],
        ],
    )
    def test_encode_gives_the_code_of_each_text(self, column):
        assert COLOURS.encode(column).tolist() == [2, 0, 0]

    @pytest.mark.parametrize("kind", [np.int64, np.uint8, np.float64, object, str])
    def test_encode_matches_numbers_by_name(self, kind):
        task = Histogram(categories=("7", "3"))
        assert task.encode(np.array([3, 7, 7]).astype(kind)).tolist() == [1, 0, 0]

    def test_truth(self):
        assert COLOURS.truth(np.array(["red", "blue", "red", "red"])).tolist() == [0.75, 0, 0.25]

    @pytest.mark.parametrize("categories", [(), ("a",), ("a", "a"), (1, "1")])
    def test_rejects_too_few_or_repeated_categories(self, categories):
        with pytest.raises(InvalidParameter, match="at least two different"):
            Histogram(categories=categories)

    @pytest.mark.parametrize("categories", ["ab", b"ab", "", None, 3])
    def test_rejects_a_text_as_categories(self, categories):
        with pytest.raises(InvalidParameter, match="must be a list of names, got"):
            Histogram(categories=categories)

    def test_encode_rejects_an_empty_column(self):
        with pytest.raises(EmptyData):
            COLOURS.encode(np.array([], str))

    def test_encode_rejects_a_table(self):
        with pytest.raises(InvalidParameter, match="axes"):
            COLOURS.encode(np.array([["red"]]))

    @pytest.mark.parametrize("column", [None, "red", 5, {"red", "blue"}])
    def test_encode_rejects_values_without_rows(self, column):
        with pytest.raises(InvalidParameter, match=f"per person, got a {type(column).__name__}"):
            COLOURS.encode(column)

    def test_encode_rejects_ragged_rows(self):
        with pytest.raises(InvalidParameter, match="same length"):
            COLOURS.encode([["red"], ["red", "blue"]])


class TestMean:
    AGE = Mean(bounds=(0, 120))

    @pytest.mark.parametrize("kind", [np.int64, np.float32, object, str])
    def test_encode_scales_to_the_unit_interval(self, kind):
        assert self.AGE.encode(np.array([0, 30, 120]).astype(kind)).tolist() == [0, 0.25, 1]

    def test_encode_keeps_ends_inside_the_interval(self):
        task = Mean(bounds=(-0.1, 0.7))
        encoded = task.encode(np.array([-0.1, 0.7, np.nextafter(0.7, 0)]))
        assert encoded.min() >= 0
        assert encoded.max() <= 1

    def test_truth(self):
        assert self.AGE.truth(np.array([10, 20, 60])).tolist() == [30, 0]

    @pytest.mark.parametrize(
        "bounds", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (-1e308, 1e308), (0, 1, 2)]
    )
    def test_rejects_bounds_out_of_order(self, bounds):
        with pytest.raises(InvalidParameter, match="bounds"):
            Mean(bounds=bounds)

    @pytest.mark.parametrize("bounds", [None, 5, "01", ("0", "1"), (0, None), (False, True)])
    def test_rejects_bounds_that_are_no_numbers(self, bounds):
        with pytest.raises(InvalidParameter, match="bounds must be"):
            Mean(bounds=bounds)


class TestVector:
    def test_encode_rejects_another_dimension(self):
        with pytest.raises(InvalidParameter, match="3 coordinates"):
            Vector(dimension=2).encode(np.eye(3))

    def test_truth(self):
        assert Vector(dimension=2).truth(np.eye(2)).tolist() == [0.5, 0.5]


class TestEstimate:
    def test_histogram_estimate_is_that_of_the_randomizer(self):
        krr = KRR(categories=3, epsilon=1.0)
        rounds = (np.array([0, 1, 1], np.uint8), np.array([2, 1], np.uint8))
        answer = COLOURS.estimate(Collected(rounds, sent=7), krr)
        expected = krr.estimate(np.concatenate(rounds))
        np.testing.assert_array_equal(answer.value, expected.value)
        np.testing.assert_array_equal(answer.standard_error, np.sqrt(expected.variance))
        assert (answer.labels, answer.people) == (COLOURS.categories, 3)

    def test_mean_estimate_is_rescaled_to_the_bounds(self):
        onebit = OneBit(epsilon=1.0)
        reports = np.array([0, 1, 1, 1], np.uint8)
        answer = Mean(bounds=(-10, 30)).estimate(Collected((reports,), sent=4), onebit)
        expected = onebit.estimate(reports)
        assert answer.value == pytest.approx([-10 + 40 * expected.value])
        assert answer.standard_error == pytest.approx([40 * np.sqrt(expected.variance)])
        assert answer.low[0] < answer.value[0] < answer.high[0]

    def test_limits_cover_the_truth_as_often_as_stated(self):
        rng = np.random.default_rng(5)
        task, laplace = Mean(bounds=(2, 6)), Laplace(epsilon=1.0)
        column = rng.uniform(2, 6, 400)
        covered = 0
        for _ in range(500):
            reports = laplace.randomize(task.encode(column), rng)
            answer = task.estimate(Collected((reports,), sent=400), laplace, confidence=0.9)
            covered += answer.low[0] <= task.truth(column)[0] <= answer.high[0]
        assert covered == pytest.approx(450, abs=4 * np.sqrt(500 * 0.9 * 0.1))

    def test_estimate_without_reports_fails(self):
        with pytest.raises(ProtocolFailed, match="none of the 4 reports"):
            COLOURS.estimate(
                Collected((np.array([], np.uint8),), sent=4), KRR(categories=3, epsilon=1.0)
            )

    def test_collected_counts_sent_received_and_dropped(self):
        collected = Collected((np.zeros(3), np.zeros(1)), sent=10)
        assert collected.crowds == (3, 1)
        assert (collected.received, collected.dropped, collected.smallest_crowd) == (4, 6, 1)


class TestFit:
    @pytest.mark.parametrize(
        ("task", "randomizer", "fitting"),
        [
            (COLOURS, Laplace(epsilon=1.0), "krr"),
            (Mean(bounds=(0, 1)), RR(epsilon=1.0), "laplace"),
            (Vector(dimension=2), RR(epsilon=1.0), "privunit"),
        ],
    )
    def test_require_of_another_domain_names_fitting_randomizers(self, task, randomizer, fitting):
        with pytest.raises(InvalidParameter, match=rf"{task.kind} needs.*{fitting}"):
            task.require(randomizer)

    def test_require_rejects_another_number_of_categories(self):
        with pytest.raises(InvalidParameter, match="3 categories but krr has 4"):
            COLOURS.require(KRR(categories=4, epsilon=1.0))

    def test_require_rejects_another_dimension(self):
        with pytest.raises(InvalidParameter, match="2 coordinates but privunit has 3"):
            Vector(dimension=2).require(PrivUnit(dimension=3, epsilon=1.0))

    @pytest.mark.parametrize(
        ("randomizer", "task"),
        [
            (RR(epsilon=1.0), Histogram(categories=("0", "1"), complete=True)),
            (
                KRR(categories=3, epsilon=1.0),
                Histogram(categories=("0", "1", "2"), complete=True),
            ),
            (OneBit(epsilon=1.0), Mean(bounds=(0, 1), complete=True)),
            (Ternary(epsilon=1.0), Mean(bounds=(0, 1))),
            (PrivUnit(dimension=3, epsilon=1.0), Vector(dimension=3)),
        ],
    )
    def test_natural_task_matches_the_randomizer(self, randomizer, task):
        assert natural_task(randomizer) == task

    def test_natural_task_of_a_generic_randomizer_is_refused(self):
        with pytest.raises(InvalidParameter, match="generic"):
            natural_task(Generic(epsilon=1.0))


@pytest.mark.parametrize(
    "task", [COLOURS, Mean(bounds=(1, 2)), Vector(dimension=3)], ids=lambda task: task.kind
)
def test_task_survives_a_round_trip_through_plain_data(task):
    table = msgspec.to_builtins(task)
    assert table["kind"] == task.kind
    assert TASKS.load(task.kind) is type(task)
    assert msgspec.convert(table, TASKS.load(table["kind"])) == task
