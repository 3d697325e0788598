"""Network shuffling as proven by the library, against exact enumeration: never below the truth.

The oracle works at rational t, the library at ε, a double. δ falls with ε, so that the library is
asked at an ε just below ln t. All graphs up to isomorphism, one victim from each orbit, all data
sets of the others.
"""

import math
import random
from fractions import Fraction as F
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pytest
from network_enumeration import (
    Views,
    connected_graphs,
    edges_of,
    graph_of,
    labels_of,
    local_delta,
    orbits,
    pendant,
    pendant_delta,
    pendant_gap,
    pendant_single_delta,
    pendant_stationary_collision,
)

import incrowd
from experiments.paper_network_shuffle import paper_all_stationary, paper_collision, paper_single
from incrowd.graphs import from_edges
from incrowd.privacy import LocalProfile, ShuffleProfile

TS = (F(1, 2), F(1), F(6, 5), F(3, 2), F(5, 2), F(3) * F(99, 100))
E = F(3)
HALF = F(1, 2)
SLACK = F(1, 10**12)
MODES = ("all", "single")


def _down(t):
    return math.log(t) - 4 * math.ulp(max(1.0, abs(math.log(t))))


def _up(t):
    return math.log(t) + 4 * math.ulp(max(1.0, abs(math.log(t))))


def _protocol(graph, rounds, laziness, mode, odds=E, **absences):
    return incrowd.NetworkShuffle(
        incrowd.RR(epsilon=_up(odds)),
        graph=from_edges(*zip(*edges_of(graph), strict=True), n=len(graph)),
        rounds=rounds,
        laziness=float(laziness),
        hand_in=mode,
        **absences,
    )


def _violations(proven, truth, factor=F(1)):
    """The t at which ``factor`` times the proven δ is below the truth."""
    return [t for t, exact in truth.items() if factor * F(proven(_down(t))) < exact - SLACK]


class Tally(NamedTuple):
    """How many of the proven δ would be caught if they were 2 % lower, and how many are below
    that of the randomizer alone, so that there is something to catch."""

    bites: int
    helps: int


def _table(sets, n):
    return np.array([[v in each for v in range(n)] for each in sets], dtype=bool)


def _check(graph, rounds, laziness, mode, colluders=(), odds=E, ts=TS, away=(), silent=()):
    """Every victim, and the worst of them; returns what makes the comparison worth something."""
    n = len(graph)
    absences = {
        **({"away": _table(away, n)} if away else {}),
        **({"silent": _table([silent], n)[0]} if silent else {}),
    }
    protocol = _protocol(graph, rounds, laziness, mode, odds, **absences)
    # The count of colluders is a number, their names are a list: nobody is just the curator.
    named = {"colluders": list(colluders)} if colluders else {}
    profile = protocol.guarantee("curator", **named).profile
    labels = labels_of(graph, rounds, laziness, away, colluders)
    views = Views(labels, odds, mode, colluders, silent)
    bites = helps = 0
    worst = dict.fromkeys(ts, F(0))
    # Absences break the symmetry of the graph.
    victims = range(n) if away or silent else orbits(graph, fixed=colluders)
    for victim in (v for v in victims if v not in colluders):
        truth = views.worst(victim, ts)
        proven = profile.person(victim).delta
        where = (edges_of(graph), rounds, laziness, mode, colluders, away, silent, victim)
        assert not _violations(proven, truth), where
        bites += len(_violations(proven, truth, F(98, 100)))
        helps += sum(proven(_down(t)) < 0.97 * float(local_delta(odds, t)) for t in ts)
        worst = {t: max(worst[t], truth[t]) for t in ts}
    assert not _violations(profile.delta, worst), (edges_of(graph), rounds, laziness, mode)
    return Tally(bites, helps)


# Nobody colludes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("laziness", [F(0), HALF])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_guarantee_never_below_enumeration_on_small_graphs(n, laziness, mode):
    found = [
        _check(graph, rounds, laziness, mode)
        for graph, rounds in product(connected_graphs(n), (1, 4))
    ]
    # A simple walk on one edge only exchanges the two reports.
    assert (n, laziness) == (2, 0) or sum(tally.helps for tally in found) > 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("laziness", [F(0), F(1, 8), HALF])
@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8])
def test_guarantee_never_below_enumeration_in_sweep(rounds, laziness, mode):
    for n, odds in ((3, F(5, 2)), (4, F(5, 2)), (5, E)):
        for graph in connected_graphs(n):
            _check(graph, rounds, laziness, mode, odds=odds, ts=TS[1:5])


def test_guarantee_never_below_enumeration_when_disconnected():
    """Each component is a crowd of its own; what the others send is no cover."""
    graph = graph_of(5, [(0, 1), (1, 2), (0, 2), (3, 4)])
    for laziness, mode in product((F(0), HALF), MODES):
        _check(graph, 2, laziness, mode)


# People who are away, or never hand in


def _absent(rng, n, chance):
    return {v for v in range(n) if rng.random() < chance}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("laziness", [F(0), HALF])
def test_guarantee_never_below_enumeration_with_absences(laziness, mode):
    rng = random.Random(5)
    found = []
    for graph in connected_graphs(4):
        away = [_absent(rng, 4, 0.3) for _ in range(3)]
        found.append(_check(graph, 3, laziness, mode, away=away, ts=TS[1:5]))
    assert sum(tally.helps for tally in found) > 0


def test_guarantee_never_below_enumeration_with_absences_and_colluder():
    rng = random.Random(7)
    for graph, laziness in product(connected_graphs(4), (F(0), HALF)):
        away = [_absent(rng, 4, 0.3) for _ in range(2)]
        _check(graph, 2, laziness, "all", (rng.randrange(4),), away=away)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("laziness", [F(0), HALF])
def test_guarantee_never_below_enumeration_with_silent_people(laziness, mode):
    rng = random.Random(9)
    found = []
    for graph in connected_graphs(4):
        away, silent = [_absent(rng, 4, 0.2) for _ in range(3)], {rng.randrange(4)}
        found.append(_check(graph, 3, laziness, mode, away=away, silent=silent, ts=TS[1:5]))
    # A report that surely ends with someone silent is not seen at all.
    found.append(_check(graph_of(3, [(0, 1), (1, 2)]), 1, laziness, mode, silent={1}))
    assert sum(tally.helps for tally in found) > 0


# Attacks


@pytest.mark.parametrize("laziness", [F(0), HALF])
def test_lower_bounds_never_above_enumeration(laziness):
    """``lower`` of a person returns an ε at which that person's δ really is as large."""
    alone = graph_of(5, [(0, 1), (1, 2), (0, 2), (3, 4)])
    for graph, rounds in product((*connected_graphs(4), alone), (1, 3)):
        profile = _protocol(graph, rounds, laziness, "all").guarantee("curator").profile
        views = Views(labels_of(graph, rounds, laziness), E)
        for victim, at in product(orbits(graph), (0.2, 0.02)):
            person = profile.person(victim)
            low = person.lower(at)
            if low is not None:
                assert low <= person.epsilon(at)
                t = F(math.exp(low)) * (1 - F(1, 10**6))
                assert views.worst(victim, [t])[t] >= F(at), (edges_of(graph), rounds, victim)


# A named colluder


@pytest.mark.parametrize("laziness", [F(0), HALF])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_guarantee_never_below_enumeration_with_colluder(n, laziness):
    found = [
        _check(graph, 2, laziness, "all", (colluder,))
        for graph in connected_graphs(n)
        for colluder in orbits(graph)
    ]
    assert n < 4 or sum(tally.helps for tally in found) > 0


def test_single_mode_guarantee_never_below_enumeration_with_colluder():
    for graph in connected_graphs(3):
        for colluder, laziness in product(orbits(graph), (F(0), HALF)):
            _check(graph, 2, laziness, "single", (colluder,))


@pytest.mark.slow
@pytest.mark.parametrize("laziness", [F(0), F(1, 8), HALF])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_guarantee_never_below_enumeration_in_sweep_with_colluder(rounds, laziness):
    for n in (2, 3, 4):
        for graph in connected_graphs(n):
            for colluder in orbits(graph):
                _check(graph, rounds, laziness, "all", (colluder,))
                if rounds == 1 or n < 4:
                    _check(graph, rounds, laziness, "single", (colluder,))


# The comparison bites


def test_oracle_detects_two_percent_less_without_mixing():
    """The hub of a star is alone on its side of a simple walk: its report is as good as named."""
    star = graph_of(4, [(0, 1), (0, 2), (0, 3)])
    for rounds in (1, 2, 3):
        profile = _protocol(star, rounds, F(0), "all").guarantee("curator").profile
        views = Views(labels_of(star, rounds), E)
        truth = views.worst(0, TS)
        assert truth == {t: local_delta(E, t) for t in TS}
        assert set(_violations(profile.person(0).delta, truth, F(98, 100))) == set(TS)
        assert set(_violations(profile.delta, truth, F(98, 100))) == set(TS)


def test_oracle_detects_two_percent_less_when_mixed():
    """One round on a complete graph with laziness 1/n is the trusted shuffler."""
    for n in (2, 4):
        complete = graph_of(n, combinations(range(n), 2))
        assert _check(complete, 1, F(1, n), "all").bites > 0


def test_oracle_detects_two_percent_less_next_to_colluder():
    """Whoever knows only the colluder hands it her report with her name on it."""
    star = graph_of(4, [(0, 1), (0, 2), (0, 3)])
    assert _check(star, 1, F(0), "all", (0,)).bites > 0


def test_oracle_detects_trusted_shuffler_claim():
    """What holds after endless rounds, claimed after two: only the complete graph is so fast."""
    own = incrowd.RR(epsilon=_up(E))
    shuffler = ShuffleProfile(own.blanket(), 4, LocalProfile(own))
    for graph in connected_graphs(4):
        views = Views(labels_of(graph, 2, HALF), E)
        caught = any(_violations(shuffler.delta, views.worst(v, TS)) for v in orbits(graph))
        assert caught == (len(edges_of(graph)) < 6)


# A victim who hangs on one vertex of a complete graph: where the printed bounds fail


def _claim_fails(epsilon, at, exact):
    return exact(math.exp(epsilon)) > at


@pytest.mark.parametrize("mode", MODES)
def test_guarantee_never_below_enumeration_of_pendant_victim(mode):
    m, odds = 300, math.exp(0.5)
    truth = pendant_delta if mode == "all" else pendant_single_delta
    profile = _protocol(pendant(m), 1, F(0), mode, odds).guarantee("curator").profile
    exact = {t: F(truth(m, odds, float(t))) for t in (F(1), F(9, 8), F(5, 4), F(3, 2))}
    assert not _violations(profile.person(m).delta, exact)
    assert not _violations(profile.delta, exact)
    assert exact[F(5, 4)] > F(5, 100)


def test_oracle_detects_printed_bounds():
    m, odds = 300, math.exp(0.5)
    collision = paper_collision(pendant_stationary_collision(m), pendant_gap(m), 1)
    at = 0.02
    single = paper_single(0.5, collision, at)
    assert _claim_fails(single, at, lambda t: pendant_single_delta(m, odds, t))
    ours = _protocol(pendant(m), 1, F(0), "single", odds).guarantee("curator").profile
    assert not _claim_fails(ours.epsilon(at), at, lambda t: pendant_single_delta(m, odds, t))

    m = 10**5
    collision = paper_collision(pendant_stationary_collision(m), pendant_gap(m), 1)
    every = paper_all_stationary(0.5, m + 1, collision, 1e-6, 1e-6)
    assert _claim_fails(every, 2e-6, lambda t: pendant_delta(m, odds, t))
