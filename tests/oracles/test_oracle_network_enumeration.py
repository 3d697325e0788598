"""The enumeration of network shuffling against what is known about it, exactly."""

from fractions import Fraction as F
from itertools import product

import pytest
from enumeration import krr_matrix
from enumeration import worst_delta as shuffled_worst_delta
from network_enumeration import (
    Views,
    connected_graphs,
    delta,
    edges_of,
    graph_of,
    holders,
    is_connected,
    labels_of,
    local_delta,
    orbits,
    position_laws,
    worst_delta,
    worst_deltas,
)

TS = (F(2, 3), F(1), F(6, 5), F(3, 2), F(5, 2))
E = F(3)
HALF = F(1, 2)
PAW = graph_of(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
LINE = graph_of(3, [(0, 1), (1, 2)])
STAR = graph_of(4, [(0, 1), (0, 2), (0, 3)])


# Graphs and walks


def test_connected_graphs_are_all_enumerated():
    assert [len(connected_graphs(n)) for n in range(1, 6)] == [1, 1, 2, 6, 21]
    for graph in connected_graphs(5):
        assert is_connected(graph)
        assert all(u in graph[v] for u, row in enumerate(graph) for v in row)
    degrees = sorted(sorted(len(row) for row in graph) for graph in connected_graphs(4))
    assert [1, 2, 2, 3] in degrees  # the paw
    assert [1, 1, 1, 3] in degrees  # the star


def test_orbits_name_one_person_each():
    assert orbits(STAR) == [0, 1]
    assert orbits(PAW) == [0, 2, 3]
    assert orbits(STAR, fixed=[1]) == [0, 2]
    assert orbits(connected_graphs(3)[-1]) == [0]  # the triangle


def test_position_laws_match_known_laws():
    assert position_laws(LINE, 2)[0] == (HALF, 0, HALF)
    assert position_laws(LINE, 1, HALF)[1] == (F(1, 4), HALF, F(1, 4))
    assert position_laws(PAW, 0) == tuple(tuple(F(i == j) for j in range(4)) for i in range(4))
    late = position_laws(PAW, 60, HALF)[3]
    for v, mass in enumerate(late):
        assert abs(mass - F(len(PAW[v]), 8)) < F(1, 10**6)


def test_absent_person_keeps_reports():
    # In the first round she drops the own report.
    assert position_laws(LINE, 1, away=[{0}])[0] == (0, 0, 0)
    # Round 0 brings both ends' reports to the middle; in round 1 she is away and they wait there.
    assert position_laws(LINE, 2, away=[(), {1}])[0] == (0, 1, 0)
    assert position_laws(LINE, 3, away=[(), {1}])[0] == (HALF, 0, HALF)
    assert position_laws(LINE, 2, away=[{0}, {2}])[1] == (0, HALF, HALF)


# Labels


def test_labels_sum_to_one_and_end_at_holder():
    for rounds, lazy in product(range(4), (F(0), F(1, 3))):
        laws = position_laws(PAW, rounds, lazy)
        for j, law in enumerate(labels_of(PAW, rounds, lazy, colluders={2})):
            assert sum(law.values()) == 1
            for v in range(4):
                assert sum(mass for label, mass in law.items() if label[-1] == v) == laws[j][v]


def test_colluders_see_first_contact_of_path():
    line = graph_of(4, [(0, 1), (1, 2), (2, 3)])
    labels = labels_of(line, 3, colluders={3})
    # 0-1-2-3 is seen from the hop before; 0-1-2-1 and 0-1-0-1 only where they end.
    assert labels[0] == {(None, None, 2, 3): F(1, 4), (None, None, None, 1): F(3, 4)}
    # A report that leaves a colluder is known to have gone where it was sent.
    assert labels[2][2, 3, 2, 3] == F(1, 4)
    assert labels[2][2, 3, 2, 1] == F(1, 4)
    assert (3, 2, None, 0) in labels[3]


# Views


@pytest.mark.parametrize("mode", ["all", "single"])
@pytest.mark.parametrize("colluders", [(), (2,)])
def test_view_probabilities_sum_to_one(mode, colluders):
    labels = labels_of(PAW, 1 if colluders else 2, F(1, 3), colluders=colluders)
    views = Views(labels, E, mode, colluders)
    for bits in ((0, 0, 0, 0), (0, 1, 1, 0)):
        assert sum(views.law(bits).values()) == 1


def _by_ordered_outcomes(labels, bits, mode, n):
    """The view from the definition: all labels and bits in order, then their order is dropped."""
    law = {}
    p = {True: E / (E + 1), False: 1 / (E + 1)}
    for places in product(*labels):
        for outcome in product((0, 1), repeat=n):
            chance = F(1)
            for j in range(n):
                chance *= labels[j][places[j]] * p[outcome[j] == bits[j]]
            reports = [(place[-1], bit) for place, bit in zip(places, outcome, strict=True)]
            if mode == "all":
                key = tuple(sorted(reports))
                law[key] = law.get(key, F(0)) + chance
                continue
            held = [[bit for place, bit in reports if place == v] for v in range(n)]
            for forwarded in product((0, 1), repeat=n):
                here = chance
                for hand, bit in zip(held, forwarded, strict=True):
                    here *= F(hand.count(bit), len(hand)) if hand else HALF
                if here:
                    law[forwarded] = law.get(forwarded, F(0)) + here
    return law


@pytest.mark.parametrize("mode", ["all", "single"])
def test_views_match_ordered_outcomes(mode):
    labels = labels_of(LINE, 2, F(1, 4))
    views = Views(labels, E, mode)
    for bits in ((0, 1, 0), (1, 1, 0)):
        slow = _by_ordered_outcomes(labels, bits, mode, 3)
        assert sorted(views.law(bits).values()) == sorted(slow.values())
    slow = [_by_ordered_outcomes(labels, (x, 1, 0), mode, 3) for x in (0, 1)]
    fast = [views.law((x, 1, 0)) for x in (0, 1)]
    for t in TS:
        assert delta(*fast, t) == delta(*slow, t)


@pytest.mark.parametrize("mode", ["all", "single"])
@pytest.mark.parametrize("colluders", [(), (2,)])
def test_worst_is_the_maximum_over_data_sets_and_directions(mode, colluders):
    """Also: one direction is enough, and what the colluders hold does not matter."""
    labels = labels_of(PAW, 1 if colluders else 2, colluders=colluders)
    views = Views(labels, E, mode, colluders)
    pairs = [[views.law((*others, x)) for x in (0, 1)] for others in product((0, 1), repeat=3)]
    worst = views.worst(3, TS)
    for t in TS:
        assert worst[t] == max(delta(P, Q, t) for P, Q in pairs)
    assert worst[F(1)] > 0


def test_colluder_is_rejected_as_victim():
    with pytest.raises(ValueError, match="no victim"):
        worst_delta(PAW, E, 1, F(0), "all", 2, F(1), colluders=[2])


@pytest.mark.parametrize("mode", ["all", "single"])
def test_reports_of_silent_people_are_unseen(mode):
    """A report that surely ends with someone silent says nothing; and none says more for it."""
    law = Views(labels_of(LINE, 1), E, mode, silent={1}).law((0, 1, 1))
    assert sum(law.values()) == 1
    lost = worst_deltas(LINE, E, 1, F(0), mode, 0, TS, silent={1})
    assert all(lost[t] == max(F(0), 1 - t) for t in TS)
    heard = worst_deltas(PAW, E, 2, HALF, "all", 3, TS)
    silenced = worst_deltas(PAW, E, 2, HALF, "all", 3, TS, silent={2})
    assert all(silenced[t] <= heard[t] for t in TS)
    assert silenced[F(1)] < heard[F(1)]


# What must come out


@pytest.mark.parametrize("odds", [F(2), F(5, 2)])
@pytest.mark.parametrize(
    "law", [(F(1, 4), F(1, 4), F(3, 8), F(1, 8)), (F(1, 10), F(1, 5), F(3, 10), F(2, 5))]
)
def test_equal_laws_give_trusted_shuffler(odds, law):
    """Positions that tell nothing of the owner: the profile of the shuffler, whatever the law."""
    truth = shuffled_worst_delta(krr_matrix(2, odds), 4, TS)
    views = Views(holders([law] * 4), odds)
    for victim in range(4):
        assert views.worst(victim, TS) == truth
    single = Views(holders([law] * 4), odds, "single").worst(0, TS)
    assert all(single[t] <= truth[t] for t in TS)
    assert single[F(6, 5)] < truth[F(6, 5)]


@pytest.mark.parametrize("law", [(F(1, 4),) * 4, (F(1, 10), F(1, 5), F(3, 10), F(2, 5))])
def test_single_mode_of_equal_laws_is_shuffled_sample(law):
    """K of n reports are forwarded: (K/n)·δ_shuffle(ε; K) with e^ε' − 1 = (K/n)(e^ε − 1)."""
    n = 4
    kept = [F(0)] * (n + 1)
    for places in product(range(n), repeat=n):
        chance = F(1)
        for v in places:
            chance *= law[v]
        kept[len(set(places))] += chance
    views = Views(holders([law] * n), E, "single")
    every = shuffled_worst_delta(krr_matrix(2, E), n, TS)
    for t in TS[1:]:
        bound = F(0)
        for k in range(1, n + 1):
            inner = 1 + (t - 1) * F(n, k)
            bound += kept[k] * F(k, n) * shuffled_worst_delta(krr_matrix(2, E), k, [inner])[inner]
        assert views.worst(0, [t])[t] <= bound < every[t]


def test_unequal_laws_differ_from_trusted_shuffler():
    truth = shuffled_worst_delta(krr_matrix(2, E), 4, TS)
    leaf = worst_deltas(PAW, E, 2, F(0), "all", 3, TS)
    assert leaf[F(6, 5)] > truth[F(6, 5)]


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("mode", ["all", "single"])
def test_enumeration_never_above_local_and_equal_at_zero_rounds(rounds, mode):
    for graph in connected_graphs(4):
        found = worst_deltas(graph, E, rounds, F(0), mode, 0, TS)
        for t in TS:
            assert found[t] <= local_delta(E, t)
            if rounds == 0:
                assert found[t] == local_delta(E, t)


def test_hub_of_a_star_never_mixes():
    """A simple walk keeps to sides: the hub's report is alone on its side, at every time."""
    for rounds in range(4):
        found = worst_deltas(STAR, E, rounds, F(0), "all", 0, TS)
        assert all(found[t] == local_delta(E, t) for t in TS)
    lazy = worst_deltas(STAR, E, 2, HALF, "all", 0, TS)
    assert lazy[F(6, 5)] < local_delta(E, F(6, 5))


@pytest.mark.parametrize("lazy", [F(0), HALF])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_single_mode_never_above_all(rounds, lazy):
    for graph in connected_graphs(4):
        for victim in orbits(graph):
            every = worst_deltas(graph, E, rounds, lazy, "all", victim, TS)
            single = worst_deltas(graph, E, rounds, lazy, "single", victim, TS)
            assert all(single[t] <= every[t] for t in TS)


@pytest.mark.parametrize(
    ("mode", "rounds", "n"), [("all", 1, 4), ("all", 2, 4), ("single", 1, 4), ("single", 2, 3)]
)
def test_colluders_never_lower_epsilon(mode, rounds, n):
    strictly = 0
    for graph in connected_graphs(n):
        for victim in (v for v in orbits(graph, fixed=[0])):
            alone = worst_deltas(graph, E, rounds, HALF, mode, victim, TS)
            joined = worst_deltas(graph, E, rounds, HALF, mode, victim, TS, colluders=[0])
            assert all(alone[t] <= joined[t] <= local_delta(E, t) for t in TS)
            strictly += alone[F(6, 5)] < joined[F(6, 5)]
    assert strictly > 0


def _first_sight(label, colluders):
    """When and whence the colluders first got the report, or where it ended: the short label."""
    for r, v in enumerate(label):
        if v in colluders:
            return r, (label[r - 1] if r else None)
    return None, label[-1]


@pytest.mark.parametrize("lazy", [F(0), HALF])
@pytest.mark.parametrize(
    ("n", "rounds"), [(3, 3), (4, 2), pytest.param(4, 3, marks=pytest.mark.slow)]
)
def test_view_after_first_contact_adds_nothing(n, rounds, lazy):
    """The whole observation is no better than the time and the sender of its first sight."""
    for graph in connected_graphs(n):
        labels = labels_of(graph, rounds, lazy, colluders={0})
        short = []
        for law in labels:
            merged = {}
            for label, mass in law.items():
                r, v = _first_sight(label, {0})
                key = (r, v, 0)  # the holder is not used in mode "all"
                merged[key] = merged.get(key, F(0)) + mass
            short.append(merged)
        for victim in orbits(graph, fixed=[0]):
            whole = Views(labels, E, "all", {0}).worst(victim, TS)
            assert Views(short, E, "all", {0}).worst(victim, TS) == whole


def test_edges_of_inverts_graph_of():
    assert graph_of(4, edges_of(PAW)) == PAW
