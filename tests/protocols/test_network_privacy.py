"""What network shuffling proves: limits, order, routes, modes, colluders and attacks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from incrowd import NetworkShuffle, graphs
from incrowd.blocks import values_of
from incrowd.errors import BudgetInfeasible, InvalidCrowd, InvalidParameter
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.privacy.mixed import MixedProfile, Option, mixed_crowd
from incrowd.protocols.network_shuffle.accountant import CollisionProfile, SampledProfile
from incrowd.protocols.network_shuffle.theorems.attack import NeighbourhoodAttack
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.randomizers import KRR, RR, Gaussian, Generic, Laplace

DELTA = 1e-6
GENERIC = Generic(epsilon=1.0)


def regular(n=300, degree=8, seed=1):
    return graphs.random_regular(n, degree, np.random.default_rng(seed))


def stationary(n, randomizer, **more):
    return NetworkShuffle(randomizer, n=n, stationary=True, **more)


# The limit: a trusted shuffler.


@pytest.mark.parametrize(
    ("eps0", "clones"),
    [(0.2, 0.004165), (0.5, 0.013147), (1.0, 0.034279), (1.5, 0.063174), (2.0, 0.100403)],
)
def test_stationary_guarantee_equals_trusted_shuffler_and_beats_clones(eps0, clones):
    guarantee = stationary(22470, Generic(epsilon=eps0)).guarantee()
    epsilon = guarantee.epsilon(DELTA)
    assert epsilon == blanket_profile(Generic(epsilon=eps0), 22470).epsilon(DELTA)
    assert guarantee.lower(DELTA) <= epsilon <= clones


@pytest.mark.parametrize(
    "randomizer", [GENERIC, KRR(categories=5, epsilon=1.0), Laplace(epsilon=1.0),
                   Gaussian(epsilon=1.0, delta=1e-9)],
)  # fmt: skip
def test_guarantee_converges_to_trusted_shuffler(randomizer):
    graph = regular()
    trusted = blanket_profile(randomizer, 300).epsilon(DELTA)
    guarantee = NetworkShuffle(randomizer, graph=graph, rounds=60).guarantee()
    assert trusted <= guarantee.epsilon(DELTA) <= trusted * 1.002
    assert guarantee.per_person(DELTA).max() == pytest.approx(guarantee.epsilon(DELTA), rel=1e-6)


def test_guarantee_converges_on_irregular_graphs():
    """The limit does not depend on the degrees: hubs neither help nor hurt."""
    graph = graphs.barabasi_albert(300, 4, np.random.default_rng(1))
    assert graph.gamma > 1.5
    trusted = blanket_profile(GENERIC, 300).epsilon(DELTA)
    assert (
        NetworkShuffle(GENERIC, graph=graph, rounds=80).guarantee().epsilon(DELTA) < trusted * 1.002
    )


def test_guarantee_of_zero_rounds_is_local():
    guarantee = NetworkShuffle(GENERIC, graph=regular(40, 4), rounds=0).guarantee()
    assert guarantee.epsilon(DELTA) == pytest.approx(1.0, rel=1e-5)
    assert guarantee.delta(0.5) == pytest.approx((math.e - math.exp(0.5)) / (math.e + 1))
    with pytest.raises(InvalidParameter, match="rounds"):
        NetworkShuffle(GENERIC, graph=regular(40, 4), rounds=-1)


def test_guarantee_improves_with_rounds_worst_person_last():
    graph = graphs.barabasi_albert(2000, 3, np.random.default_rng(2))
    worst, median = [], []
    for rounds in (6, 12, 24, 48):
        people = NetworkShuffle(GENERIC, graph=graph, rounds=rounds).guarantee().per_person(DELTA)
        worst.append(people.max())
        median.append(np.median(people))
    assert worst == sorted(worst, reverse=True)
    assert median == sorted(median, reverse=True)
    assert min(median) < 0.5 * max(worst)


# One person.


def test_per_person_maximum_equals_epsilon():
    graph = graphs.barabasi_albert(200, 2, np.random.default_rng(3))
    profile = NetworkShuffle(RR(epsilon=1.0), graph=graph, rounds=14).guarantee().profile
    people = profile.per_person(1e-4)
    some = [0, 5, int(people.argmax()), int(people.argmin()), 199]
    each = [profile.person(who).epsilon(1e-4) for who in some]
    assert people[some] == pytest.approx(each, rel=5e-3)
    assert (people[some] >= np.array(each) * (1 - 1e-6)).all()
    assert profile.epsilon(1e-4) >= max(each) * (1 - 1e-9)
    for epsilon in (-0.3, 0.0, 0.2, 0.7):
        deltas = [profile.person(who).delta(epsilon) for who in range(0, 200, 7)]
        assert profile.delta(epsilon) >= max(deltas) * (1 - 1e-12)
    with pytest.raises(InvalidCrowd, match="person 200"):
        profile.person(200)


def test_mixed_profile_charges_excess():
    mixed = mixed_crowd(GENERIC, 10_000, 1.0)
    alone = MixedProfile(GENERIC, (Option(0.0, mixed),))
    leaky = MixedProfile(GENERIC, (Option(1e-7, mixed),))
    bad = MixedProfile(GENERIC, (Option(1e-4, mixed),))
    assert alone.epsilon(DELTA) == mixed.epsilon(DELTA)
    assert alone.epsilon(DELTA) < leaky.epsilon(DELTA) < alone.epsilon(DELTA) * 1.02
    assert bad.epsilon(DELTA) > 0.9
    # Of several proven bounds the best one counts.
    both = MixedProfile(
        GENERIC, (Option(1e-4, mixed), Option(0.0, mixed_crowd(GENERIC, 5000, 1.0)))
    )
    assert both.epsilon(DELTA) == mixed_crowd(GENERIC, 5000, 1.0).epsilon(DELTA)


def test_mixed_crowd_at_half_share_is_near_half_crowd():
    half = mixed_crowd(GENERIC, 20_000, 0.5).epsilon(DELTA)
    assert half == pytest.approx(mixed_crowd(GENERIC, 10_000, 1.0).epsilon(DELTA), rel=0.01)
    assert half > mixed_crowd(GENERIC, 10_000, 1.0).epsilon(DELTA)


def test_mixed_crowd_curve_is_mean_over_size():
    """Against the sum over how many join, each by a profile of its own."""
    people, share, epsilon = 12, 0.7, 0.2
    chances = [
        math.comb(people - 1, k) * share**k * (1 - share) ** (people - 1 - k) for k in range(people)
    ]
    direct = sum(
        chance * mixed_crowd(GENERIC, k + 1, 1.0).delta(epsilon) if k else
        chance * GENERIC.local_delta(epsilon)
        for k, chance in enumerate(chances)
    )  # fmt: skip
    assert mixed_crowd(GENERIC, people, share).delta(epsilon) == pytest.approx(direct, rel=2e-3)


# Graphs that do not mix.


def test_bipartite_walk_hides_within_side_only():
    graph = graphs.ring(40)
    stuck = NetworkShuffle(GENERIC, graph=graph, rounds=4000)
    lazy = NetworkShuffle(GENERIC, graph=graph, rounds=4000, laziness=0.5)
    side = blanket_profile(GENERIC, 20).epsilon(0.01)
    assert stuck.guarantee().epsilon(0.01) == pytest.approx(side, rel=1e-3)
    assert lazy.guarantee().epsilon(0.01) < side
    assert (
        "laziness" in values_of(stuck.diagnostics(0.01, stuck.guarantee()))["worst_person"]["why"]
    )
    with pytest.raises(BudgetInfeasible, match="laziness"):
        NetworkShuffle(GENERIC, graph=graph).planned(0.01)


def test_isolated_person_has_local_guarantee():
    graph = graphs.from_edges([0, 1, 2], [1, 2, 0], 4)
    protocol = NetworkShuffle(GENERIC, graph=graph, rounds=30)
    assert protocol.guarantee().epsilon(DELTA) == pytest.approx(1.0, rel=1e-5)
    told = values_of(protocol.diagnostics(DELTA, protocol.guarantee()))
    assert told["component_sizes"] == [3, 1]
    assert told["worst_person"]["person"] == 3
    assert "alone" in told["worst_person"]["why"]


def test_guarantee_reports_smallest_component():
    big, small = regular(200, 6), regular(20, 4)
    u, v = big.edges()
    x, y = small.edges()
    graph = graphs.from_edges(np.r_[u, x + 200], np.r_[v, y + 200], 220)
    guarantee = NetworkShuffle(GENERIC, graph=graph, rounds=80).guarantee()
    trusted = blanket_profile(GENERIC, 20).epsilon(0.01)
    assert guarantee.epsilon(0.01) == pytest.approx(trusted, rel=0.01)
    people = guarantee.per_person(0.01)
    assert people[:200].max() < 0.5 * people[200:].min()


# Rounds = auto.


@pytest.mark.parametrize(("within", "share"), [(1.05, 1.0), (1.05, 0.5), (1.5, 1.0)])
def test_planned_auto_finds_fewest_rounds(within, share):
    graph = graphs.barabasi_albert(300, 3, np.random.default_rng(4))
    protocol = NetworkShuffle(GENERIC, graph=graph, target_ratio=within, target_quantile=share)
    with pytest.raises(InvalidParameter, match="planned"):
        protocol.guarantee()
    planned = protocol.planned(DELTA)
    trusted = blanket_profile(GENERIC, 300).epsilon(DELTA)

    def near(rounds):
        people = NetworkShuffle(GENERIC, graph=graph, rounds=rounds).guarantee().per_person(DELTA)
        return np.mean(people <= within * trusted)

    assert near(planned.rounds) >= share
    assert near(planned.rounds - 1) < share


# Mode single.


def test_single_mode_is_never_worse_than_all():
    graph = graphs.barabasi_albert(300, 3, np.random.default_rng(5))
    for rounds in (5, 20, 60):
        one = NetworkShuffle(GENERIC, graph=graph, rounds=rounds, hand_in="single").guarantee()
        all_ = NetworkShuffle(GENERIC, graph=graph, rounds=rounds).guarantee()
        assert (one.per_person(DELTA) <= all_.per_person(DELTA) * (1 + 1e-9)).all()
        assert one.epsilon(DELTA) <= all_.epsilon(DELTA) * (1 + 1e-9)
        assert one.lower(DELTA) is None


def test_single_mode_once_mixed_is_sampled_shuffle():
    graph = regular(2000, 12)
    one = (
        NetworkShuffle(GENERIC, graph=graph, rounds=80, hand_in="single").guarantee().epsilon(DELTA)
    )
    trusted = blanket_profile(GENERIC, 2000).epsilon(DELTA)
    kept = 2000 * (1 - math.exp(2000 * math.log1p(-1 / 2000)))
    assert one == pytest.approx(SampledProfile(GENERIC, 2000, kept, 0.0).epsilon(DELTA), rel=1e-3)
    assert one < 0.9 * trusted


@pytest.mark.parametrize("collision", [1e-6, 1e-4, 1e-2])
def test_collision_profile_equals_closed_form(collision):
    profile = CollisionProfile(0.5, collision)
    a = math.exp(0.5) * math.expm1(0.5)
    closed = a * a * collision / 2 + a * math.sqrt(2 * collision * math.log(1e6))
    assert profile.epsilon(DELTA) == pytest.approx(min(0.5, closed), rel=1e-9)
    if closed < 0.5:
        assert profile.delta(profile.epsilon(DELTA)) == pytest.approx(DELTA, rel=1e-6)
    assert profile.delta(0.5) == 0


# Colluders.


def test_exposures_split_colluder_neighbours_from_hidden():
    graph = regular(300, 8)
    protocol = NetworkShuffle(GENERIC, graph=graph, rounds=30)
    found = protocol.exposures(DELTA, [5, 90])
    nobody = protocol.guarantee().epsilon(DELTA)
    assert protocol.guarantee(colluders=[5, 90]).epsilon(DELTA) == pytest.approx(1.0, rel=1e-4)
    assert protocol.guarantee(colluders=[5, 90]).colluders == 2
    assert not found.honest[[5, 90]].any()
    neighbour = int(graph.neighbours(5)[0])
    # The very first hop lands on the colluder with probability one in eight.
    assert found.exposure[neighbour] >= 1 / 8
    assert found.exposure[found.worst] >= found.exposure[neighbour]
    exposure, epsilon = found.median
    assert 0 < exposure < 0.5
    assert nobody < epsilon < 3 * nobody


def test_colluder_share_is_drawn_by_fixed_seed():
    protocol = NetworkShuffle(GENERIC, graph=regular(200, 6), rounds=20)
    assert protocol.guarantee(colluders=0.05).colluders == 10
    assert protocol.guarantee(colluders=10).colluders == 10
    same = protocol.exposures(DELTA, 0.05).honest == protocol.exposures(DELTA, 10).honest
    assert same.all()
    with pytest.raises(InvalidCrowd, match="leave nobody"):
        protocol.guarantee(colluders=200)
    with pytest.raises(InvalidCrowd, match="colluder 200"):
        protocol.guarantee(colluders=[200])


# Views, lower bounds, composition.


@pytest.mark.parametrize("view", ["curator+hub", "everyone", "curator+network"])
def test_guarantee_against_other_views_is_local(view):
    guarantee = NetworkShuffle(GENERIC, graph=regular(), rounds=30).guarantee(view)
    assert guarantee.epsilon(DELTA) == pytest.approx(1.0, rel=1e-5)


def test_neighbourhood_attack_bounds_unmixed_person_from_below():
    """A pendant person: soon after the start their report is still at their one neighbour."""
    u, v = np.triu_indices(100, 1)
    graph = graphs.from_edges(np.r_[u, 100], np.r_[v, 0], 101)
    rr = RR(epsilon=1.0)
    attack = NeighbourhoodAttack(Walk((graph,)), 1, 100, rr)
    protocol = NetworkShuffle(rr, graph=graph, rounds=1)
    assert 0.9 < attack.lower(DELTA) <= protocol.guarantee().epsilon(DELTA)
    for rounds in (1, 2, 3, 6):
        guarantee = NetworkShuffle(rr, graph=graph, rounds=rounds).guarantee()
        assert guarantee.lower(1e-3) <= guarantee.epsilon(1e-3)


def test_neighbourhood_attack_is_exact_for_whole_crowd():
    """With everybody in the set, one round on the complete graph with loops is a shuffle."""
    u, v = np.triu_indices(4)
    graph = graphs.from_edges(u, v, 4, self_loops=True)
    rr = RR(epsilon=1.0)
    found = NeighbourhoodAttack(Walk((graph,)), 1, 0, rr).lower(0.05)
    assert found == pytest.approx(blanket_profile(rr, 4).lower(0.05), rel=1e-3)


def test_guarantee_composes_over_surveys():
    guarantee = NetworkShuffle(GENERIC, graph=regular(), rounds=40).guarantee()
    twice = guarantee.compose(guarantee)
    once = guarantee.epsilon(DELTA)
    assert once < twice.epsilon(DELTA) < 2 * once


def test_guarantee_accounts_for_absences():
    graph = regular(200, 6)
    away = np.zeros((20, 200), bool)
    away[:, 7] = True
    protocol = NetworkShuffle(GENERIC, graph=graph, rounds=20, away=away)
    guarantee = protocol.guarantee()
    people = guarantee.per_person(DELTA)
    # The own report is dropped in the first round, and what comes there stays.
    assert people[7] == 0.0
    present = NetworkShuffle(GENERIC, graph=graph, rounds=20).guarantee().per_person(DELTA)
    assert (people > 1.05 * present).sum() == 199
    assert any("away" in each for each in guarantee.assumptions)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"rounds": 1.5}, "rounds"),
        ({"rounds": "many"}, "rounds"),
        ({"laziness": 1.0}, "laziness"),
        ({"laziness": -0.1}, "laziness"),
        ({"hand_in": "some"}, "hand_in"),
        ({"target_ratio": 1.0}, "target_ratio"),
        ({"target_quantile": 0.0}, "target_quantile"),
    ],
)
def test_network_shuffle_refuses_parameters(wrong, match):
    with pytest.raises(InvalidParameter, match=match):
        NetworkShuffle(GENERIC, graph=graphs.ring(5), **{"rounds": 3, **wrong})
