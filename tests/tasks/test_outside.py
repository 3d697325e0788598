"""Answers that are no category: no answer, or a public category of their own."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from incrowd.errors import InvalidParameter
from incrowd.protocols.trusted_shuffle import TrustedShuffle
from incrowd.randomizers import KRR
from incrowd.randomizers.base import ABSENT
from incrowd.sim import run
from incrowd.tasks import Histogram
from incrowd.tasks.joint import Asked, JointTask

OTHER = Histogram(categories=("bus", "car"), outside="other")
COMPLETE = Histogram(categories=("bus", "car"), outside="other", complete=True)
PLAIN = Histogram(categories=("bus", "car"))
COLUMN = np.array(["bus", "boat", "", "car", " ", "boat", "other"], object)


def test_other_is_a_category_between_those_declared_and_no_answer() -> None:
    assert OTHER.labels == ("bus", "car", "other", "no answer")
    assert COMPLETE.labels == ("bus", "car", "other")
    assert PLAIN.labels == ("bus", "car", "no answer")
    assert (OTHER.outcomes, COMPLETE.outcomes) == (4, 3)


def test_encode_tells_what_is_no_category_from_what_is_missing() -> None:
    assert OTHER.encode(COLUMN).tolist() == [0, 2, 3, 1, 3, 2, 2]
    assert COMPLETE.encode(COLUMN).tolist() == [0, 2, ABSENT, 1, ABSENT, 2, 2]
    assert PLAIN.encode(COLUMN).tolist() == [0, 2, 2, 1, 2, 2, 2]
    assert OTHER.encode(np.array([1.5, np.nan])).tolist() == [2, 3]


@pytest.mark.parametrize("task", [OTHER, COMPLETE], ids=["some missing", "complete"])
@given(texts=st.lists(st.none() | st.text() | st.floats().map(str), min_size=1, max_size=6))
def test_encode_of_any_texts_is_the_same_row_by_row(
    task: Histogram, texts: list[str | None]
) -> None:
    together = task.encode(task.rows([[text] for text in texts]))
    for row, text in enumerate(texts):
        assert task.encode(task.rows([[text]])).tolist() == [together[row]]
    assert set(together.tolist()) <= {ABSENT, *range(task.outcomes)}


def test_truth_and_gaps_count_other_as_an_answer() -> None:
    np.testing.assert_allclose(OTHER.truth(COLUMN), np.array([1, 1, 3, 2]) / 7)
    np.testing.assert_allclose(COMPLETE.truth(COLUMN), np.array([1, 1, 3]) / 5)
    found, plain = OTHER.gaps(COLUMN), PLAIN.gaps(COLUMN)
    assert (found.missing, found.outside, found.first) == (2, 0, None)
    assert (plain.missing, plain.outside, plain.first) == (2, 3, 2)


def test_effect_says_what_an_answer_that_is_no_category_counts_as() -> None:
    randomizer = KRR(categories=4, epsilon=1.0)
    assert OTHER.effect(randomizer).startswith(
        "An answer that is no category counts as 'other'. A missing answer counts as 'no answer':"
    )
    assert "'other'" in COMPLETE.effect(randomizer)
    assert "k = 3 categories" in COMPLETE.effect(randomizer)
    assert "'other'" not in PLAIN.effect(randomizer)


def test_declared_categories_are_those_of_the_policy() -> None:
    assert OTHER.domains("mode") == PLAIN.domains("mode")
    assert OTHER.domains("mode")["mode"].categories == ("bus", "car")
    # So that both may be asked of one column.
    assert JointTask(asked=tuple(Asked(column="mode", task=each) for each in (OTHER, PLAIN)))


def test_randomizer_needs_a_category_for_other() -> None:
    OTHER.require(KRR(categories=4, epsilon=1.0))
    with pytest.raises(InvalidParameter, match="has 4 categories"):
        OTHER.require(KRR(categories=3, epsilon=1.0))


def test_other_travels_with_the_question() -> None:
    assert msgspec.convert(msgspec.to_builtins(OTHER), Histogram) == OTHER
    assert msgspec.to_builtins(OTHER)["outside"] == "other"


def test_histogram_refuses_a_declared_other_and_unknown_rules() -> None:
    with pytest.raises(InvalidParameter, match="adds the category 'other'"):
        Histogram(categories=("bus", "other"), outside="other")
    with pytest.raises(InvalidParameter, match="outside must be"):
        Histogram(categories=("bus", "car"), outside="clamp")  # type: ignore[arg-type]
    assert Histogram(categories=("bus", "other")).labels == ("bus", "other", "no answer")


@pytest.mark.parametrize("execution", ["simulate", "actors"])
def test_other_is_estimated_like_any_category(execution: str) -> None:
    """At an ε0 that all but always tells the truth, the answer is the truth."""
    protocol = TrustedShuffle(KRR(categories=4, epsilon=30.0), n=len(COLUMN))
    if execution == "simulate":
        found = protocol.simulate(COLUMN, task=OTHER, seed=1).result
    else:
        found = run(protocol, COLUMN, OTHER, seed=1).result
    np.testing.assert_allclose(found.value, OTHER.truth(COLUMN), atol=1e-6)


def test_law_of_a_report_is_that_of_its_code_alone() -> None:
    """All answers that are no category are reported alike."""
    randomizer, rng = KRR(categories=4, epsilon=1.0), np.random.default_rng(2)
    counts = [
        np.bincount(randomizer.randomize(OTHER.encode(np.array([text] * 4000)), rng), minlength=4)
        for text in ("boat", "other")
    ]
    law = np.full(4, 1 / (3 + np.e))
    law[2] *= np.e
    for seen in counts:
        assert chisquare(seen, law * 4000).pvalue > 1e-4
