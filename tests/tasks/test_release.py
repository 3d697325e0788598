"""A table of reports at places: what people hold, what is refused, and what comes out."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.protocols.runtime.outputs import pack_output, unpack_output
from incrowd.randomizers import KRR, OUE, RR, Laplace
from incrowd.tasks import Collected, Histogram, Placed, Release, Released
from incrowd.tasks.base import AnswerContext
from incrowd.tasks.release import MOST_GROUP_TEXT, group_names

NAMES = ("bus", "car", "walk")
BY_POINT = Release(categories=NAMES, coordinates=("lat", "lon"))
BY_GROUP = Release(categories=NAMES, groups="street")
BY_PERSON = Release(categories=NAMES)
TRUE = KRR(categories=4, epsilon=30.0)


def collected(**places):
    """Reports 2, 0 and 1 at three of four places."""
    return Placed(
        rounds=(np.array([2, 0, 1], np.uint8),),
        sent=5,
        who=np.array([0, 2, 3, 4]),
        at=np.array([0, 1, 3]),
        **places,
    )


# What people hold.


@pytest.mark.parametrize(
    ("task", "kind", "asked"),
    [
        (BY_POINT, "points", ("how", "lat", "lon")),
        (BY_GROUP, "groups", ("how", "street")),
        (BY_PERSON, "people", ("how",)),
    ],
)
def test_release_asks_for_the_place_beside_the_answer(task, kind, asked):
    assert task.places == kind
    assert task.asks("how") == asked
    again = msgspec.json.decode(msgspec.json.encode(task), type=Release)
    assert again == task


def test_release_encodes_points_as_numbers_beside_the_answer():
    cells = [["car", "52.5", "-13.25"], ["bus", "1e2", " 7 "]]
    encoded = BY_POINT.encode(BY_POINT.rows(cells))
    assert encoded.dtype == BY_POINT.dtype
    assert encoded["value"].tolist() == [1, 0]
    assert encoded["point"].tolist() == [[52.5, -13.25], [100.0, 7.0]]


def test_release_encodes_groups_as_texts_beside_the_answer():
    cells = [["car", "Elm St; Oak"], ["walk", "x" * MOST_GROUP_TEXT]]
    encoded = BY_GROUP.encode(BY_GROUP.rows(cells))
    assert encoded["value"].tolist() == [1, 2]
    assert encoded["groups"].tolist() == ["Elm St; Oak", "x" * MOST_GROUP_TEXT]


def test_release_without_places_encodes_the_answer_alone():
    column = BY_PERSON.rows([["walk"], ["bus"]])
    assert column.tolist() == ["walk", "bus"]
    assert BY_PERSON.encode(column).tolist() == [2, 0]


def test_release_encodes_a_row_alone_as_among_others():
    cells = [["car", "52.5", "13"], ["bus", "1", "2"]]
    together = BY_POINT.encode(BY_POINT.rows(cells))
    for row, each in enumerate(cells):
        assert BY_POINT.encode(BY_POINT.rows([each])) == together[row : row + 1]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ("a",)),
        (" a ; b;c ", ("a", "b", "c")),
        (";a;;", ("a",)),
        ("a b, c", ("a b, c",)),
        ("", ()),
        (" ; ", ()),
    ],
)
def test_group_names_are_separated_by_semicolons(text, names):
    assert group_names(text) == names


# What is refused.


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"coordinates": tuple("abcdefghi")}, "at most 8"),
        ({"coordinates": "lat"}, "list"),
        ({"coordinates": ("lat", "lat")}, "different"),
        ({"coordinates": ("lat",), "groups": "street"}, "only one"),
    ],
)
def test_release_rejects_inconsistent_places(wrong, complaint):
    with pytest.raises(InvalidParameter, match=complaint):
        Release(categories=NAMES, **wrong)


@pytest.mark.parametrize(
    ("task", "cells", "complaint"),
    [
        (BY_POINT, [["car", "1"]], "3 columns"),
        (BY_POINT, [["car", "1", "2", "3"]], "3 columns"),
        (BY_GROUP, [["car"]], "2 columns"),
    ],
)
def test_encode_when_rows_have_the_wrong_width_names_the_columns(task, cells, complaint):
    with pytest.raises(InvalidParameter, match=complaint):
        task.encode(task.rows(cells))


@pytest.mark.parametrize(
    ("task", "place"),
    [(BY_POINT, ["1", "2"]), (BY_GROUP, ["1"]), (BY_PERSON, [])],
)
@pytest.mark.parametrize("answer", ["tram", "", None, "no answer"])
def test_encode_when_the_answer_is_no_category_is_the_reserved_code(task, place, answer):
    encoded = task.encode(task.rows([["bus", *place], [answer, *place]]))
    codes = encoded if encoded.dtype.names is None else encoded["value"]
    assert codes.tolist() == [0, 3]


@pytest.mark.parametrize(
    "place",
    [("1", "north"), ("1", "nan"), ("-inf", "1"), ("", "2"), (None, "2"), ("1e999", "2")],
)
def test_encode_when_coordinates_are_no_numbers_is_the_origin(place):
    encoded = BY_POINT.encode(BY_POINT.rows([["car", "3", "4"], ["car", *place]]))
    assert encoded["point"].tolist() == [[3, 4], [0, 0]]


@pytest.mark.parametrize("group", ["", " ; ", None, "x" * (MOST_GROUP_TEXT + 1)])
def test_encode_when_no_group_is_named_is_the_group_of_no_answer(group):
    encoded = BY_GROUP.encode(BY_GROUP.rows([["car", "a"], ["car", group]]))
    assert encoded["groups"].tolist() == ["a", "no answer"]


@pytest.mark.parametrize(
    ("task", "clear"), [(BY_POINT, ("lat", "lon")), (BY_GROUP, ("street",)), (BY_PERSON, ())]
)
def test_clear_columns_of_a_release_are_those_of_the_place(task, clear):
    assert task.clear_columns("how") == clear
    assert set(task.domains("how")) == {"how", *clear}
    assert task.domains("how")["how"].categories == NAMES


@pytest.mark.parametrize("randomizer", [OUE(categories=4, epsilon=1.0), Laplace(epsilon=1.0)])
def test_release_rejects_reports_that_are_no_categories(randomizer):
    with pytest.raises(InvalidParameter):
        BY_POINT.require(randomizer)


def test_release_rejects_another_number_of_categories():
    BY_POINT.require(TRUE)
    Release(categories=("no", "yes"), complete=True).require(RR(epsilon=1.0))
    with pytest.raises(InvalidParameter, match="complete"):
        BY_POINT.require(KRR(categories=3, epsilon=1.0))


# What comes out.


def test_released_table_has_the_report_of_each_place_with_one():
    points = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    released = BY_POINT.estimate(collected(points=points), TRUE)
    assert isinstance(released, Released)
    assert released.columns == ("lat", "lon")
    assert released.rows == [[0.0, 1.0, "walk"], [2.0, 3.0, "bus"], [6.0, 7.0, "car"]]
    assert released.who.tolist() == [0, 2, 4]


def test_released_table_lists_groups_or_people():
    released = BY_GROUP.estimate(collected(groups=("a", "b; c", "d", "e")), TRUE)
    assert released.columns == ("street",)
    assert released.rows == [["a", "walk"], ["b; c", "bus"], ["e", "car"]]
    released = BY_PERSON.estimate(collected(), TRUE)
    assert released.columns == ("person",)
    assert released.rows == [[0, "walk"], [2, "bus"], [4, "car"]]


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        (BY_POINT, ("lat", "lon", "how")),
        (BY_GROUP, ("street", "how")),
        (BY_PERSON, ("person", "how")),
        (Histogram(categories=NAMES), ()),
    ],
)
def test_columns_of_a_released_table_are_known_beforehand(task, columns):
    assert task.releases("how") == columns


def shown(released):
    context = AnswerContext(collected=collected(), randomizer=TRUE, shares=True, column="how")
    return {each.key: each for each in released.sections(context)}


def test_sections_of_a_release_have_its_table_for_a_file():
    released = BY_GROUP.estimate(collected(groups=("a", "b; c", "d", "e")), TRUE)
    sections = shown(released)
    table, fact = sections["release"].blocks
    assert (table.file, table.columns) == (True, BY_GROUP.releases("how"))
    assert table.rows == released.rows
    (about,) = fact.value
    assert [(each.name, each.value) for each in about.value] == [
        ("places", ["street"]),
        ("rows", 3),
    ]
    assert "map" not in sections


def test_sections_of_a_release_on_a_plane_have_a_map():
    points = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    *_, figure = shown(BY_POINT.estimate(collected(points=points), TRUE))["map"].blocks
    assert figure.kind == "map"
    assert set(figure.data["maps"]) == set(NAMES)
    assert len(figure.data["maps"]["bus"]["after"]) == len(figure.data["squares"].middles) == 3


def test_released_frequencies_equal_those_of_a_histogram():
    """Whatever was shuffled: they are of all reports together."""
    noisy = KRR(categories=4, epsilon=1.0)
    released = BY_PERSON.estimate(collected(), noisy)
    plain = Histogram(categories=NAMES).estimate(
        Collected(rounds=collected().rounds, sent=5), noisy
    )
    for name in ("labels", "confidence", "people"):
        assert getattr(released, name) == getattr(plain, name)
    for name in ("value", "low", "high", "standard_error"):
        np.testing.assert_array_equal(getattr(released, name), getattr(plain, name))


def test_release_truth_is_that_of_the_answers_alone():
    cells = [["car", "1", "2"], ["car", "3", "4"], ["bus", "5", "6"], ["walk", "7", "8"]]
    np.testing.assert_allclose(BY_POINT.truth(BY_POINT.rows(cells)), [0.25, 0.5, 0.25, 0])
    np.testing.assert_allclose(BY_PERSON.truth(np.array(["bus", "car"])), [0.5, 0.5, 0, 0])


def test_release_rejects_reports_without_places():
    with pytest.raises(InvalidParameter, match="order shuffle"):
        BY_POINT.estimate(Collected(rounds=(np.array([0]),), sent=1), TRUE)
    nobody = Placed(
        rounds=(np.zeros(0, np.uint8),), sent=3, who=np.zeros(0, int), at=np.zeros(0, int)
    )
    with pytest.raises(ProtocolFailed, match="none of the 3"):
        BY_PERSON.estimate(nobody, TRUE)


@pytest.mark.parametrize(
    "places", [{}, {"points": np.array([[0.1], [0.2], [0.3], [0.4]])}, {"groups": tuple("abcd")}]
)
def test_placed_reports_survive_a_restart(places):
    """A journal keeps it as bytes."""
    one = collected(**places)
    again = unpack_output(pack_output(one), Placed)
    assert repr(again) == repr(one) == "Placed(3 of 5 reports, places = 4)"
    for name in ("who", "at"):
        np.testing.assert_array_equal(getattr(again, name), getattr(one, name))
    np.testing.assert_array_equal(again.pooled(), one.pooled())
    assert again.groups == one.groups
    assert (again.points is None) == (one.points is None)
    if one.points is not None:
        np.testing.assert_array_equal(again.points, one.points)
