"""Groups are who they are said to be, whatever they are made of, without n² of memory."""

import inspect
import json
import math
import tracemalloc

import numpy as np
import pytest

from incrowd import graphs
from incrowd.errors import EmptyData, FileUnreadable, IncrowdError, InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle import groupings
from incrowd.protocols.order_shuffle.groupings import (
    balls,
    from_graph,
    from_labels,
    from_lists,
    from_owners,
    from_points,
    lists,
    load,
)


def family(found):
    """The groups as a set of sets."""
    return {frozenset(found.group(index).tolist()) for index in range(found.count)}


def haversine(a, b):
    """The textbook formula, in kilometres."""
    (lat1, lon1), (lat2, lon2) = np.radians(a), np.radians(b)
    part = math.sin((lat2 - lat1) / 2) ** 2
    part += math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0088 * math.asin(min(1.0, math.sqrt(part)))


def near(points, radius, distance):
    """Who is within the radius of whom, by comparing all pairs."""
    return {frozenset(j for j, b in enumerate(points) if distance(a, b) <= radius) for a in points}


def euclidean(a, b):
    return math.dist(a, b)


# Lists.


def test_lists_are_kept_once_and_told_apart_by_their_sets():
    one = from_lists([[0, 1, 2], [3, 2], [2, 1, 0]])
    other = from_lists([[2, 3], [0, 2, 1]])
    assert (one.n, one.count, one.largest, one.sizes.tolist()) == (4, 2, 3, [3, 2])
    assert one.digest == other.digest
    assert one == other
    assert hash(one) == hash(other)
    assert one.digest != from_lists([[0, 1, 2], [3]]).digest
    assert one.digest != from_lists([[0, 1, 2], [3, 2], [4]]).digest
    assert one != from_lists([[0, 1, 2], [3, 2], [4]])


def test_own_group_is_largest_of_a_person():
    found = from_lists([[0, 1], [1, 2, 3], [3, 4, 0]])
    assert [found.group_of(person) for person in range(5)] == [2, 1, 1, 1, 2]
    with pytest.raises(InvalidParameter, match="person 5"):
        found.group_of(5)
    with pytest.raises(InvalidParameter, match="group 3"):
        found.group(3)


@pytest.mark.parametrize("entries", [1, 3, 4, 100])
def test_blocks_hold_every_group_once(entries):
    rng = np.random.default_rng(3)
    members = [rng.choice(30, size, replace=False) for size in (1, 5, 2, 30, 4, 4)]
    found = from_lists(members)
    seen, next_group = [], 0
    for block in found.blocks(entries):
        assert block.first == next_group
        assert block.indptr[0] == 0
        assert block.members.dtype == np.int64
        assert block.members.size <= entries or block.indptr.size == 2
        next_group += block.indptr.size - 1
        for start, end in zip(block.indptr, block.indptr[1:], strict=False):
            seen.append(block.members[start:end].tolist())
    assert seen == [sorted(each.tolist()) for each in members]


WRONG_LISTS = [
    ([[0, 1], []], None, "group 1 is empty"),
    ([[0, -1]], None, "group 0 has -1"),
    ([[0, 1], [1, 2.5]], None, "group 1 has 2.5"),
    ([[0, True]], None, "group 0 has True"),
    ([[0, "1"]], None, "group 0 has '1'"),
    ([[0, 1, 0]], None, "group 0 has 0 twice"),
    ([[0, 3]], 3, "group 0 has 3; people are 0 to 2"),
    ([[0, 10**30]], None, "group 0 has 1000"),
    ([[0, 2]], None, "person 1 is in no group"),
    ([[0, 1]], 4, "person 2 is in no group"),
    ([[0], 5], None, "group 1 must be a list of people, got 5"),
    ([[0], "01"], None, "group 1 must be a list of people"),
    ([], None, "no groups"),
    ([np.array([0.5])], None, "group 0 must be a list of whole numbers"),
]


@pytest.mark.parametrize(("given", "n", "words"), WRONG_LISTS)
def test_lists_reject_wrong_groups_by_name(given, n, words):
    with pytest.raises(IncrowdError, match=words):
        from_lists(given, n)


# Files.


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_files_hold_lists_or_owners(tmp_path):
    path = written(tmp_path / "g.json", [[2, 0], [1, 2]])
    found = load(path)
    assert family(found) == {frozenset({0, 2}), frozenset({1, 2})}
    assert found.words == "the groups of g.json"
    owned = load(written(tmp_path / "o.json", {"1": [1], "0": [1, 0], "2": [0, 1, 2]}))
    assert [owned.group(owned.group_of(i)).tolist() for i in range(3)] == [[0, 1], [1], [0, 1, 2]]
    assert load(path, n=3) == found


WRONG_FILES = [
    ("", EmptyData, "is empty"),
    ("   \n", EmptyData, "is empty"),
    ("[[0, 1], [1, 2", InvalidParameter, "line 1: not JSON"),
    ("[" * 100_000, InvalidParameter, "JSON"),
    ("3", InvalidParameter, "must hold a list of groups"),
    ("[]", EmptyData, "no groups"),
    ("{}", EmptyData, "no groups"),
    ([[0], [1, 1]], InvalidParameter, "group 1 has 1 twice"),
    ([[0], [-2]], InvalidParameter, "group 1 has -2"),
    ([[0], [1.5]], InvalidParameter, "group 1 has 1.5"),
    ("[[0, NaN]]", InvalidParameter, "group 0 has nan"),
    ([[0], []], InvalidParameter, "group 1 is empty"),
    ([[0], [2]], InvalidCrowd, "person 1 is in no group"),
    ([[0], {"a": 1}], InvalidParameter, "group 1 must be a list"),
    ({"0": [0], "1": [0]}, InvalidParameter, "the group of 1 does not contain 1"),
    ({"0": [0, 2], "1": [1]}, InvalidParameter, "the group of 0 has 2"),
    ({"0": [0], "2": [2]}, InvalidCrowd, "person 1 has no group"),
    ({"0": [0], "x": [1]}, InvalidParameter, "'x' is not a person"),
    ({"0": [0], "01": [1]}, InvalidParameter, "'01' is not a person"),
    ({"0": [0], "-1": [1]}, InvalidParameter, "'-1' is not a person"),
    ('{"0": [0], "0": [0]}', InvalidParameter, "the group of 0 is given twice"),
]


@pytest.mark.parametrize(("content", "error", "words"), WRONG_FILES)
def test_files_reject_wrong_groups_by_file_and_name(tmp_path, content, error, words):
    path = written(tmp_path / "groups.json", content)
    with pytest.raises(error, match=words) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(FileUnreadable, match=r"none\.json: cannot be read"):
        load(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidParameter, match="not UTF-8"):
        load(tmp_path / "b.json")
    path = written(tmp_path / "o.json", {"0": [0], "1": [1]})
    with pytest.raises(InvalidParameter, match="2 people, not of 3"):
        load(path, n=3)


def test_owners_reject_keys_that_are_no_people():
    with pytest.raises(InvalidParameter, match="True is not a person"):
        from_owners({True: [1], 0: [0]})
    with pytest.raises(InvalidParameter, match="-1 is not a person"):
        from_owners({-1: [1], 0: [0]})


# Labels.


def test_labels_one_or_several():
    single = from_labels(["b", "a", "b", "c"])
    assert family(single) == {frozenset({1}), frozenset({0, 2}), frozenset({3})}
    assert single.words == "everybody with the same label"
    several = from_labels(["a", ["a", "b"], {"b"}, ("b", "b")])
    assert family(several) == {frozenset({0, 1}), frozenset({1, 2, 3})}
    assert several.words == "everybody who shares a label"
    assert several.group_of(1) == several.group_of(2)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a", ""], "row 2: a label must be a text that is not empty"),
        (["a", []], "row 2: no label"),
        ([["a", 3]], "row 1: a label"),
        ([3], "row 1: a label"),
        ([], "no labels"),
    ],
)
def test_labels_reject_wrong_rows_by_number(labels, words):
    with pytest.raises(InvalidParameter, match=words):
        from_labels(labels)


# Graphs.


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 40])
def test_graph_groups_are_balls_of_path_length(steps, monkeypatch):
    from scipy.sparse.csgraph import shortest_path

    monkeypatch.setattr(lists, "_AT_ONCE", 1000)
    graph = graphs.barabasi_albert(60, 1, np.random.default_rng(2))
    far = shortest_path(graph.adjacency(), unweighted=True)
    found = from_graph(graph, steps)
    for person in range(graph.n):
        expected = np.flatnonzero(far[person] <= steps)
        assert np.array_equal(found.group(found.group_of(person)), expected)
    if steps == 40:
        assert found.count == 1


def test_graph_groups_reject_too_many_members(monkeypatch):
    monkeypatch.setattr(lists, "MOST_HELD", 100)
    graph = graphs.ring(60)
    with pytest.raises(InvalidParameter, match="too many to hold"):
        from_graph(graph, 1)
    with pytest.raises(InvalidParameter, match="radius must be a whole number"):
        from_graph(graph, 1.5)
    with pytest.raises(InvalidParameter, match="radius must be a whole number ≥ 0"):
        from_graph(graph, -1)


# Balls.


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5])
@pytest.mark.parametrize("radius", [0.0, 1e-9, 0.05, 0.3, 10.0])
def test_balls_equal_comparison_of_all_pairs(dimensions, radius):
    rng = np.random.default_rng(dimensions)
    points = np.round(rng.random((120, dimensions)), 2)  # Some people share a place, or nearly.
    found = from_points(points, radius)
    expected = near(points, radius * (1 + 1e-11), euclidean)
    assert family(found) == expected
    assert sorted(found.sizes) == sorted(len(found.group(i)) for i in range(found.count))
    for person, point in enumerate(points):
        own = found.group(found.group_of(person))
        inside = [j for j, p in enumerate(points) if math.dist(p, point) <= radius * (1 + 1e-11)]
        assert own.tolist() == inside


@pytest.mark.parametrize("radius", [0.0, 1.0, 80.0, 600.0, 5000.0, 15_000.0, 30_000.0])
def test_balls_on_earth_equal_haversine_formula(radius):
    rng = np.random.default_rng(5)
    points = np.column_stack([rng.uniform(-90, 90, 150), rng.uniform(-180, 180, 150)])
    points[:60] = points[0] + rng.normal(scale=0.3, size=(60, 2))
    points[60:70] = points[:10]
    assert np.abs(points[:, 0]).max() < 90
    found = from_points(points, radius, "haversine")
    expected = near(points, radius + 1e-6 * (radius > 0), haversine)
    assert family(found) == expected


def test_balls_cross_date_line_and_poles():
    points = [[10, 179.99], [10, -179.99], [10, 179.0], [90, 0], [90, 120], [89.99, -60]]
    found = from_points(points, 5, "haversine")
    assert family(found) == {frozenset({0, 1}), frozenset({2}), frozenset({3, 4, 5})}
    same = from_points([[10, 180], [10, -180], [90, 3], [90, 77]], 0, "haversine")
    assert family(same) == {frozenset({0, 1}), frozenset({2, 3})}


def test_balls_stay_closed_under_rounding():
    tenths = np.arange(50) / 10
    found = from_points(tenths, 0.1)
    assert [found.group(found.group_of(i)).size for i in range(50)] == [2, *[3] * 48, 2]
    # A degree of latitude is R·π/180 km, from wherever it starts.
    degree = 6371.0088 * math.pi / 180
    for start in (-89.5, -3.3, 0.0, 17.123, 71.7):
        pair = [[start, 5.0], [start + 1, 5.0]]
        assert from_points(pair, degree, "haversine").count == 1
        assert from_points(pair, degree * (1 - 1e-9), "haversine").count == 2


def test_people_at_one_place_share_a_group():
    ages = np.random.default_rng(1).integers(17, 90, 30_000)
    found = from_points(ages, 5)
    assert found.count == np.unique(ages).size == 73
    times = np.bincount(ages, minlength=100)
    for age in (17, 40, 89):
        person = int(np.argmax(ages == age))
        expected = times[age - 5 : age + 6].sum()
        assert found.sizes[found.group_of(person)] == expected
    assert from_points(ages, 0).sizes.sum() == ages.size
    assert from_points(ages, 100).count == 1


@pytest.mark.parametrize("entries", [1, 50, 10_000])
def test_ball_blocks_hold_every_group_once(entries):
    points = np.round(np.random.default_rng(8).random((300, 2)), 2)
    found = from_points(points, 0.1)
    next_group = 0
    for block in found.blocks(entries):
        assert block.first == next_group
        for index in range(block.indptr.size - 1):
            members = np.sort(block.members[block.indptr[index] : block.indptr[index + 1]])
            assert np.array_equal(members, found.group(next_group))
            next_group += 1
    assert next_group == found.count


@pytest.mark.parametrize(
    ("points", "radius", "metric", "words"),
    [
        ([[0, 0], [91, 0]], 1, "haversine", "row 2: latitude .* got 91.0"),
        ([[0, 0], [1, 0], [0, -180.5]], 1, "haversine", "row 3: longitude .* got -180.5"),
        ([[0, math.nan]], 1, "haversine", "row 1: longitude .* got nan"),
        ([[0], [math.inf]], 1, "euclidean", "row 2: coordinate 1 .* got inf"),
        ([[0], [math.nan]], 1, "euclidean", "row 2: coordinate 1 .* got nan"),
        ([[0]], -1, "euclidean", "radius must be at least 0, got -1"),
        ([[0]], math.nan, "euclidean", "radius must be a finite number"),
        ([[0]], 1, "manhattan", "metric: 'manhattan' is not known"),
        ([[0]], 1, "haversin", "did you mean haversine"),
        ([[0, 1, 2]], 1, "haversine", "two columns, latitude and longitude, got 3"),
        ([["a"]], 1, "euclidean", "points must be numbers"),
        ([[1, 2], [3]], 1, "euclidean", "points must be numbers"),
        (np.zeros((0, 2)), 1, "euclidean", "at least one person"),
        (np.zeros((2, 2, 2)), 1, "euclidean", "one row per person"),
    ],
)
def test_points_reject_wrong_rows_by_number(points, radius, metric, words):
    with pytest.raises(InvalidParameter, match=words):
        from_points(points, radius, metric)


def test_words_for_readers():
    assert from_points([[0, 0]], 5, "haversine").words == "everybody within 5 km"
    assert from_points([[0, 0]], 0.05).words == "everybody within 0.05"
    assert from_points([[0, 0]], 0).words == "everybody at the same place"
    assert from_graph(graphs.ring(5), 1).words == "everybody within 1 step"
    assert from_graph(graphs.ring(5), 2).words == "everybody within 2 steps"


def test_digests_tell_places_and_radii_apart():
    points = np.random.default_rng(0).random((20, 2))
    one = from_points(points, 0.1)
    assert one == from_points(points.copy(), 0.1)
    assert one.digest == from_points(points.tolist(), 0.1).digest
    moved = points.copy()
    moved[3, 0] += 1e-12
    others = [from_points(moved, 0.1), from_points(points, 0.2), from_points(points[::-1], 0.1)]
    assert len({one.digest, *(other.digest for other in others)}) == 4
    assert one != "a grouping"


# Some people only.


def makers():
    rng = np.random.default_rng(4)
    points = np.round(rng.random((40, 2)), 1)
    yield from_points(points, 0.15)
    yield from_points(points * 50, 900, "haversine")
    yield from_graph(graphs.barabasi_albert(40, 2, rng), 1)
    yield from_lists([rng.choice(40, 12, replace=False) for _ in range(30)], 40)
    yield from_labels([["ab"[i % 2], "xyz"[i % 3]] for i in range(40)])


@pytest.mark.parametrize("whole", list(makers()), ids=lambda found: found.words)
def test_subset_of_groups_is_restriction_of_all(whole):
    people = np.random.default_rng(6).permutation(40)[:13]
    part = whole.subset(people)
    number = {int(person): index for index, person in enumerate(people)}
    left = {frozenset(number[p] for p in group if p in number) for group in family(whole)}
    assert family(part) == left - {frozenset()}
    assert part.n == 13
    assert part.words == whole.words
    for index, person in enumerate(people):
        assert index in part.group(part.group_of(index))
        if not isinstance(whole, lists.ListedGroups) or whole._owned is not None:
            own = whole.group(whole.group_of(int(person)))
            expected = sorted(number[p] for p in own.tolist() if p in number)
            assert part.group(part.group_of(index)).tolist() == expected
    again = part.subset([2, 0])
    small = {frozenset({2: 0, 0: 1}[p] for p in group if p in {0, 2}) for group in family(part)}
    assert family(again) == small - {frozenset()}
    assert whole.subset(np.arange(40)) == whole


@pytest.mark.parametrize("people", [[], [0, 0], [-1], [40], [0.5], [[1]]])
def test_subset_rejects_impossible_people(people):
    with pytest.raises(InvalidParameter):
        from_points(np.arange(40.0), 1).subset(people)


# Incidence and stars.


@pytest.mark.parametrize("whole", list(makers()), ids=lambda found: found.words)
def test_incidence_and_star_say_the_same_as_groups(whole):
    found = whole.incidence()
    atoms = [
        set(found.people[found.people_indptr[a] : found.people_indptr[a + 1]].tolist())
        for a in range(found.own.size)
    ]
    assert sorted(p for atom in atoms for p in atom) == list(range(whole.n))
    members = [
        set().union(*(atoms[a] for a in found.atoms[found.indptr[g] : found.indptr[g + 1]]))
        for g in range(found.indptr.size - 1)
    ]
    assert {frozenset(group) for group in members} == family(whole)
    atom_of = np.empty(whole.n, int)
    atom_of[found.people] = np.repeat(np.arange(found.own.size), found.weights)
    star = found.star().toarray()[np.ix_(atom_of, atom_of)]
    expected = np.zeros((whole.n, whole.n), bool)
    for person in range(whole.n):
        atom = next(a for a, people in enumerate(atoms) if person in people)
        own = whole.group(whole.group_of(person))
        if isinstance(whole, lists.ListedGroups) and whole._owned is None:
            assert len(members[found.own[atom]]) == own.size  # Of equally large ones either.
            own = sorted(members[found.own[atom]])
        expected[person, own] = expected[own, person] = True
    assert np.array_equal(star, expected)


def test_incidence_too_large_to_hold_is_none(monkeypatch):
    found = from_points(np.random.default_rng(0).random((500, 2)), 0.5)
    monkeypatch.setattr(balls, "MOST_HELD", 1000)
    assert found.incidence() is None
    assert sum(block.members.size for block in found.blocks(5000)) == found.sizes.sum()


def test_listing_order_does_not_matter_to_orders():
    rng = np.random.default_rng(11)
    members = [rng.choice(50, size, replace=False).tolist() for size in rng.integers(1, 20, 40)]
    members.append(list(range(50)))
    one, other = from_lists(members).incidence(), from_lists(members[::-1]).incidence()
    for name in ("own", "indptr", "atoms"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def test_groupings_take_no_values():
    for name in groupings.__all__:
        maker = getattr(groupings, name)
        if name.startswith("from_") or name == "load":
            assert not {"values", "data", "reports", "rng", "seed"} & set(
                inspect.signature(maker).parameters
            )


def test_balls_of_hundred_thousand_need_no_quadratic_memory():
    n = 100_000
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(45, 52, n), rng.uniform(0, 10, n)])
    from_points(points[:100], 10, "haversine").group(0)  # Compiles.
    tracemalloc.start()
    try:
        found = from_points(points, 12, "haversine")
        total = sum(block.members.size for block in found.blocks(2**20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == found.sizes.sum()
    assert 50 < found.sizes.mean() < 100
    assert peak < 100e6
