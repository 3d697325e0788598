"""Reference orders are orders, come from public groups alone, and the least sensitive is kept."""

import inspect
import json
from collections import deque
from typing import get_args

import numpy as np
import pytest

from incrowd import graphs
from incrowd.errors import EmptyData, FileUnreadable, InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.groupings import (
    from_graph,
    from_labels,
    from_lists,
    from_points,
)
from incrowd.protocols.order_shuffle.orders import coordinates, reference, refine, search
from incrowd.protocols.order_shuffle.orders.reference import (
    METHODS,
    ReferenceOrder,
    given_order,
    read_order,
    reference_order,
)
from incrowd.protocols.order_shuffle.settings import Method
from incrowd.protocols.order_shuffle.theorems.sensitivity import kendall, widths


def sensitivity(grouping, order, values=None):
    return int(kendall(grouping, order.ranks, values).max())


def crowds():
    rng = np.random.default_rng(0)
    points = np.round(rng.random((150, 2)), 2)
    yield "plane", from_points(points, 0.1)
    yield "earth", from_points(points * [20, 9] + [40, 170], 100, "haversine")
    yield "space", from_points(rng.random((150, 3)), 0.2)
    yield "line", from_points(rng.integers(0, 40, 150), 2)
    yield "same place", from_points(points, 0)
    yield "graph", from_graph(graphs.barabasi_albert(150, 2, rng), 1)
    two = np.concatenate([np.arange(9), 10 + np.arange(9)])
    yield "two parts", from_graph(graphs.from_edges(two, two + 1, 21), 1)
    yield "lists", from_lists([rng.choice(150, 20, replace=False) for _ in range(60)], 150)
    yield "labels", from_labels([["ab"[i % 2], "xyz"[i * i % 3]] for i in range(150)])
    yield "one person", from_points([[0.0, 0.0]], 1)
    yield "everybody", from_points(points, 5)


CROWDS = dict(crowds())
PLACED = {"plane", "earth", "space", "line", "same place", "one person", "everybody"}


@pytest.fixture(scope="module")
def least():
    return {name: reference_order(grouping) for name, grouping in CROWDS.items()}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CROWDS)
def test_methods_give_order_or_name_their_need(name, method, least):
    grouping = CROWDS[name]
    lacking = {
        "label": name in PLACED,
        "coordinate": name not in PLACED,
        "hilbert": name not in PLACED or name == "line",
        "strips": name not in PLACED or name in {"line", "same place"},
    }
    if lacking.get(method):
        with pytest.raises(InvalidParameter, match=f"method {method} needs "):
            reference_order(grouping, method)
        return
    found = reference_order(grouping, method)
    assert np.array_equal(np.sort(found.people), np.arange(grouping.n))
    assert np.array_equal(found.people[found.ranks], np.arange(grouping.n))
    assert found.method.removesuffix(", refined") in METHODS[1:]
    assert sensitivity(grouping, least[name]) <= sensitivity(grouping, found)
    assert sensitivity(grouping, found) >= refine.floor_of(grouping)


@pytest.mark.parametrize("method", METHODS)
def test_unknown_method_is_refused(method):
    with pytest.raises(InvalidParameter, match="is not known"):
        reference_order(CROWDS["plane"], f"{method}!")


# Public, and nothing but public.


def test_orders_take_nothing_but_groups():
    assert list(inspect.signature(reference_order).parameters) == ["grouping", "method", "values"]
    for functions in (reference._SEARCHED, reference._SORTED):
        for function in functions.values():
            assert len(inspect.signature(function).parameters) == 1
    assert list(inspect.signature(refine.refined).parameters) == [
        "grouping",
        "incidence",
        "people",
    ]
    for module in (reference, search, coordinates, refine):
        source = inspect.getsource(module)
        assert "random" not in source.replace("outside randomness", "")
        assert "import time" not in source


@pytest.mark.parametrize("name", ["plane", "graph", "lists", "labels"])
def test_equal_groups_give_equal_orders(name):
    rng = np.random.default_rng(0)
    points = np.round(rng.random((150, 2)), 2)
    again = from_points(points, 0.1) if name == "plane" else dict(crowds())[name]
    one = reference_order(CROWDS[name])
    other = reference_order(again)
    assert CROWDS[name] == again
    assert np.array_equal(one.people, other.people)
    assert one.method == other.method


@pytest.mark.parametrize("method", METHODS)
def test_orders_do_not_depend_on_listing(method):
    rng = np.random.default_rng(1)
    lists = [rng.choice(60, 9, replace=False).tolist() for _ in range(50)]
    lists.append(list(range(60)))
    shuffled = [rng.permutation(group).tolist() for group in lists[::-1]]
    one, other = from_lists(lists), from_lists(shuffled)
    if method in reference._SORTED:
        return
    first, second = reference_order(one, method), reference_order(other, method)
    assert np.array_equal(first.people, second.people)


# The searches.


def searched(star, sizes):
    """Breadth-first search in a few lines: from the largest group on, neighbours by number."""
    order, seen = [], set()
    for root in sorted(range(len(sizes)), key=lambda person: (-sizes[person], person)):
        queue = deque([root] if root not in seen else [])
        seen.add(root)
        while queue:
            order.append(queue.popleft())
            for other in np.flatnonzero(star[order[-1]]).tolist():
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
    return order


@pytest.mark.parametrize("name", ["graph", "two parts"])
def test_breadth_first_search_is_the_plain_one(name):
    grouping = CROWDS[name]
    sizes = [grouping.sizes[grouping.group_of(person)] for person in range(grouping.n)]
    expected = searched(grouping.incidence().star().toarray(), sizes)
    assert reference_order(grouping, "bfs").people.tolist() == expected


def test_breadth_first_search_keeps_people_at_one_place_together():
    ages = np.random.default_rng(3).integers(0, 30, 400)
    found = reference_order(from_points(ages, 2), "bfs")
    along = ages[found.people]
    assert np.count_nonzero(np.diff(along)) == np.unique(ages).size - 1


def test_searching_from_the_rim_finds_the_line():
    even = np.random.default_rng(4).permutation(np.linspace(-1, 1, 400))
    points = np.sign(even) * np.abs(even) ** 1.2  # Denser in the middle.
    grouping = from_points(points, 0.02)
    middle, rim = reference_order(grouping, "bfs"), reference_order(grouping, "bfs-peripheral")
    assert sensitivity(grouping, rim) < sensitivity(grouping, middle)
    assert int(widths(grouping, rim.ranks).max()) < int(widths(grouping, middle.ranks).max())


def test_parts_that_hang_together_stay_together():
    grouping = CROWDS["two parts"]
    for method in ("bfs", "bfs-peripheral"):
        found = reference_order(grouping, method).people
        part = np.where(found < 10, 0, np.where(found < 20, 1, 2))
        assert np.count_nonzero(np.diff(part)) == 2


# Orders by coordinates.


def test_hilbert_curve_goes_between_adjacent_cells(monkeypatch):
    monkeypatch.setattr(coordinates, "CURVE", 16)
    column, row = (part.ravel() for part in np.meshgrid(np.arange(16), np.arange(16)))
    far = coordinates.along_hilbert(column, row)
    assert np.array_equal(np.sort(far), np.arange(256))
    order = np.argsort(far)
    steps = np.abs(np.diff(column[order])) + np.abs(np.diff(row[order]))
    assert np.all(steps == 1)


def test_strips_go_up_and_down():
    side = np.arange(8) / 8 + 1 / 16
    points = np.array([(x, y) for x in side for y in side])
    grouping = from_points(points, 0.125)
    path = [points[people] for people in coordinates.strips(grouping)]
    steps = np.linalg.norm(np.diff(path[0], axis=0), axis=1)
    assert np.allclose(steps, 0.125)


@pytest.mark.parametrize("seed", range(3))
def test_sorted_order_is_best_on_line(seed):
    points = np.random.default_rng(seed).random(2000)
    grouping = from_points(points, 0.01)
    found = reference_order(grouping)
    assert found.method == "coordinate"
    assert np.all(np.diff(points[found.people]) >= 0)
    m = grouping.largest
    assert sensitivity(grouping, found) == m * (m - 1) // 2
    assert sensitivity(grouping, reference_order(grouping, values=2), 2) == m**2 // 4


def test_labels_that_do_not_overlap_are_kept_apart():
    grouping = from_labels([f"{i * 7 % 13}" for i in range(400)])
    found = reference_order(grouping)
    m = grouping.largest
    assert sensitivity(grouping, found) == m * (m - 1) // 2


# Refining.


def measured(grouping, order):
    """Every group's sensitivity, by the kernel that refining relies on."""
    from incrowd.protocols.order_shuffle.orders.kernels import measure

    found = grouping.incidence()
    by_atom = found.matrix().T.tocsr()
    atom_of = np.empty(grouping.n, np.int64)
    atom_of[found.people] = np.repeat(np.arange(found.own.size), found.weights)
    sizes = found.matrix().astype(np.int64) @ found.weights
    pairs = by_atom.indptr.astype(np.int64), by_atom.indices.astype(np.int32)
    middles, costs = np.empty(sizes.size, np.int64), np.empty(sizes.size, np.int64)
    measure(order, np.ones(grouping.n, np.int64), atom_of, *pairs, sizes, middles, costs)
    return costs


@pytest.mark.parametrize("name", ["plane", "line", "graph", "lists", "everybody"])
def test_refining_measures_the_exact_sensitivity(name):
    grouping = CROWDS[name]
    order = np.random.default_rng(5).permutation(grouping.n)
    expected = kendall(grouping, ReferenceOrder(order, "random").ranks)
    assert sorted(measured(grouping, order)) == sorted(expected)


@pytest.mark.parametrize("name", ["plane", "graph", "lists", "labels", "earth"])
def test_refining_never_makes_an_order_worse(name, monkeypatch):
    monkeypatch.setattr(refine, "_SWAPS_EACH", 50)
    grouping = CROWDS[name]
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(grouping.n)
        before = sensitivity(grouping, ReferenceOrder(order, "random"))
        found = refine.refined(grouping, grouping.incidence(), order.copy())
        after = sensitivity(grouping, ReferenceOrder(found, "refined"))
        assert after < before


def test_refining_weights_of_places_are_counted():
    # The descent moves whole places: what it measures for them is what people see.
    ages = np.random.default_rng(3).integers(0, 30, 300)
    places = np.column_stack([ages % 6, ages // 6]).astype(float)
    grouping = from_points(places, 1)
    order = np.random.default_rng(0).permutation(grouping.n)
    found = refine.refined(grouping, grouping.incidence(), order)
    straight = reference_order(grouping, "coordinate")
    best = reference_order(grouping)
    assert sensitivity(grouping, best) <= sensitivity(grouping, straight)
    assert sensitivity(grouping, ReferenceOrder(found, "refined")) < 1.5 * sensitivity(
        grouping, straight
    )


def test_refining_stops_where_nothing_can_be_gained():
    grouping = from_lists([[0, 1, 2, 3], [3, 4]])
    found = refine.refined(grouping, grouping.incidence(), np.array([0, 4, 1, 2, 3]))
    assert sensitivity(grouping, ReferenceOrder(found, "refined")) == 6


def test_refined_order_beats_methods_in_plane_and_scale_free_graph():
    rng = np.random.default_rng(1)
    plane = from_points(rng.random((700, 2)), 0.08)
    free = from_graph(graphs.barabasi_albert(700, 2, rng), 1)
    for grouping, share in ((plane, 0.75), (free, 0.5)):
        best = sensitivity(grouping, reference_order(grouping))
        methods = reference._SORTED if grouping is plane else reference._SEARCHED
        others = [sensitivity(grouping, reference_order(grouping, method)) for method in methods]
        assert best < share * min(others)


def test_groups_too_large_to_hold_are_sorted_by_coordinates(monkeypatch):
    grouping = from_points(np.random.default_rng(2).random((300, 2)), 0.2)
    monkeypatch.setattr("incrowd.protocols.order_shuffle.groupings.balls.MOST_HELD", 100)
    monkeypatch.setattr(reference, "_MEASURED", 1)
    found = reference_order(grouping)
    assert found.method in {"coordinate", "hilbert", "strips"}
    for method in ("rcm", "bfs-peripheral"):
        with pytest.raises(InvalidParameter, match=f"{method} needs groups with fewer members"):
            reference_order(grouping, method)


@pytest.mark.parametrize("name", sorted(PLACED))
def test_breadth_first_without_incidence_gives_same_order(name, monkeypatch):
    grouping = CROWDS[name]
    expected = reference_order(grouping, "bfs").people
    monkeypatch.setattr("incrowd.protocols.order_shuffle.groupings.balls.MOST_HELD", 0)
    assert grouping.incidence() is None
    assert np.array_equal(reference_order(grouping, "bfs").people, expected)
    part = grouping.subset(np.arange(0, grouping.n, 3))
    assert np.array_equal(np.sort(part.breadth_first()), np.arange(part.n))


def test_first_of_equally_good_methods_is_kept():
    grouping = from_lists([[0], [1], [2]])
    assert reference_order(grouping).method == "label"
    assert sensitivity(grouping, reference_order(grouping)) == 0


# Orders that are given.


def test_given_order_is_kept_unchanged(tmp_path):
    path = tmp_path / "order.json"
    path.write_text("[2, 0, 1]")
    for found in (read_order(path, 3), read_order(path), given_order([2, 0, 1])):
        assert found.people.tolist() == [2, 0, 1]
        assert found.ranks.tolist() == [1, 2, 0]
        assert found.method == "given"
    with pytest.raises(ValueError, match="read-only"):
        found.people[0] = 1
    with pytest.raises(InvalidCrowd, match="the order has 3 people, but 4 take part"):
        given_order([2, 0, 1], 4)


def test_order_does_not_follow_its_source_array():
    array = np.array([1, 0])
    found = given_order(array)
    array[0] = 0
    assert found.people.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        ("", EmptyData, "is empty"),
        ("[0, 1", InvalidParameter, "line 1: not JSON"),
        ("{}", InvalidParameter, "must hold a list of people"),
        ("[0, 1.0]", InvalidParameter, "must hold a list of people"),
        ("[0, true]", InvalidParameter, "must hold a list of people"),
        ("[]", InvalidParameter, "must hold a list of people"),
        ("[0, 3, 1]", InvalidParameter, "has 3; people are 0 to 2"),
        ("[0, -1, 1]", InvalidParameter, "has -1; people are 0 to 2"),
        ("[0, 0, 1]", InvalidParameter, "lacks 2 and has 0 more than once"),
        ("[0, 1]", InvalidCrowd, "the order has 2 people, but 3 take part"),
        (json.dumps([10**30]), InvalidParameter, "beyond any crowd"),
    ],
)
def test_order_file_rejects_wrong_content_by_name(tmp_path, content, error, words):
    path = tmp_path / "order.json"
    path.write_text(content)
    with pytest.raises(error, match=words) as caught:
        read_order(path, 3)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).count(str(path)) == 1


def test_missing_order_file_is_named(tmp_path):
    with pytest.raises(FileUnreadable, match="cannot be read"):
        read_order(tmp_path / "none.json", 3)


@pytest.mark.slow
def test_order_of_hundred_thousand_stays_below_two_gigabytes():
    import subprocess
    import sys

    code = """
import numpy as np, resource
from incrowd.protocols.order_shuffle.groupings import from_points
from incrowd.protocols.order_shuffle.orders.reference import reference_order
rng = np.random.default_rng(0)
points = np.column_stack([rng.uniform(45, 52, 100_000), rng.uniform(0, 10, 100_000)])
reference_order(from_points(points, 12, "haversine"))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2 * 1024**2


def test_methods_can_all_be_asked_for():
    assert set(get_args(Method)) == set(METHODS)
