"""The tables and figures of network shuffling: made, repeatable, consistent and up to date."""

import math

import numpy as np
import pytest

from experiments import network_bounds, network_mean, network_real, network_shuffle
from experiments.common import FIGURES
from experiments.network_graphs import PRINTED, small
from experiments.network_rounds import (
    LAZY,
    SHARES,
    WITHIN,
    Case,
    Curve,
    Store,
    binomial_mixture,
    compute,
)
from incrowd.graphs import from_edges
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle.theorems.mixing import measure
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.randomizers import RR
from incrowd.randomness import Seeds
from tests.experiments.pieces import (
    assert_light_and_dark,
    number,
    published,
    quick_run,
    read_rows,
    same_row,
)

EXPERIMENTS = (network_shuffle.EXPERIMENT, network_real.EXPERIMENT)
ALL = [name for experiment in EXPERIMENTS for name in experiment.pieces]
SVG = [name for name in ALL if name.endswith(".svg")]
KEYS = ("graph", "n", "ε0", "degree", "rounds")
SAME_AT_EVERY_SIZE = (
    "network_amplification.md",
    "network_load.md",
    "network_datasets.md",
    "network_stationary.md",
)


@pytest.fixture(scope="module", params=EXPERIMENTS, ids=lambda experiment: experiment.module)
def quick(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("figures")
    return request.param, directory, quick_run(request.param.main, directory)


def _number(cell: str) -> float:
    return number(cell, "%")


def test_experiment_writes_named_files(quick):
    experiment, directory, printed = quick
    assert printed == [str(directory / name) for name in experiment.pieces]
    assert {path.name for path in directory.iterdir()} == set(experiment.pieces)


def test_documentation_is_up_to_date(quick):
    """Every row of the quick run that does not depend on the size stands in the documentation."""
    _, directory, _ = quick
    for name in SAME_AT_EVERY_SIZE:
        if not (directory / name).exists():
            continue
        known = published(name)
        for row in read_rows(directory / name):
            same = same_row(row, known, KEYS)
            for column in row.keys() - set(KEYS):
                assert _number(row[column]) == pytest.approx(_number(same[column]), rel=1.1e-3)


@pytest.mark.parametrize("name", ["network_load.md", "network_stationary.svg"])
def test_experiment_repeats_same_bytes(name):
    make = network_shuffle.EXPERIMENT.pieces[name]
    once, again = (make(network_shuffle.QUICK).render("here") for _ in range(2))
    assert once == again


@pytest.mark.parametrize("name", ALL)
def test_all_results_are_published(name):
    assert (FIGURES / name).exists()


@pytest.mark.parametrize("name", SVG)
def test_figures_stand_on_light_and_dark_pages(name):
    assert_light_and_dark(FIGURES / name)


def test_published_amplification_is_in_order():
    for row in published("network_amplification.md"):
        ours, clones = _number(row["network shuffling, ours"]), _number(row["clones, exact"])
        assert ours <= clones <= _number(row["clones, closed form"])
        assert ours <= _number(row["subsampling"]) < _number(row["swapping"])
        assert ours < _number(row["network shuffling, printed"])


def test_published_modes_are_in_order():
    for row in (*published("network_datasets.md"), *published("network_stationary.md")):
        assert _number(row["single, ours"]) <= _number(row["all, ours"])


def test_published_gamma_equals_one_sided_count():
    rows = published("network_gamma.md")
    assert [row["graph"] for row in rows] == [each.title for each in PRINTED.values()]
    for row, printed in zip(rows, PRINTED.values(), strict=True):
        assert _number(row["n"]) == printed.n
        assert _number(row["one-sided"]) == pytest.approx(printed.irregularity, rel=2e-5)
        assert abs(_number(row["Γ"]) / printed.irregularity - 1) > 0.03


def test_published_rounds_are_in_order():
    rows = published("network_rounds.md")
    assert len(rows) == 4 * len(PRINTED)
    for row in rows:
        needed = [_number(row[share]) for share in SHARES]
        assert needed == sorted(needed)
        assert row["route"]
    for simple, lazy in zip(rows[::2], rows[1::2], strict=True):
        assert _number(lazy["worst"]) > _number(simple["worst"])
    for alone, helped in zip(rows[::4], rows[2::4], strict=True):
        assert _number(helped["worst"]) < _number(alone["worst"])


def test_published_worst_person_is_enclosed():
    facts = {row["what"]: row["value"] for row in published("network_worst.md")}
    least = _number(facts["ε of the worst person, at least (attack)"])
    most = _number(facts["ε of the worst person, at most"])
    trusted = _number(facts["ε behind a trusted shuffler, at most"])
    assert 5 * trusted < least <= most
    assert _number(facts["ε of the median person, at most"]) < WITHIN * trusted


def test_published_mean_improves_with_local_epsilon():
    rows = published("network_mean.md")
    for mode in ("all", "single"):
        errors = [_number(row["squared error"]) for row in rows if row["handed in"] == mode]
        assert errors == sorted(errors, reverse=True)
    for both in zip(*[[row for row in rows if row["handed in"] == m] for m in ("all", "single")],
                    strict=True):  # fmt: skip
        assert _number(both[0]["squared error"]) < _number(both[1]["squared error"])


def test_lazy_walks_are_bounded_by_simple_ones():
    graph = small("twitch_de")
    simple = measure(Walk((graph,)), [0, 1, 2, 3, 5, 8, 12])
    for rounds in (1, 4, 9, 20):
        mixed = binomial_mixture(simple, LAZY, rounds)
        exact = measure(Walk((graph,), LAZY), [rounds])[rounds]
        for what in ("excess", "separation", "collision"):
            above, below = getattr(mixed, what), getattr(exact, what)
            assert np.all(above >= below - 1e-12)
            assert above.shape == below.shape
    # A mean of the rounds that were walked, and no cruder: one round is walked or not.
    one = binomial_mixture(simple, LAZY, 1)
    halves = (simple[0].excess + simple[1].excess) / 2
    assert one.excess == pytest.approx(halves, rel=1e-6)


def test_curves_are_read_again_instead_of_computed(tmp_path):
    case, store = Case("deezer_europe", 0, exact=8), Store(tmp_path, small)
    first = compute(case, store)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert {path.name.split("-")[0] for path in kept} == {"curve", "modes", "sweep"}
    again = compute(case, store)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == kept
    for laziness, curve in first.items():
        assert np.array_equal(curve.epsilon, again[laziness].epsilon)
        assert curve.needed(1.0) == again[laziness].needed(1.0)
    # From a sweep that was kept, rounded up, a curve is not below that of a fresh one.
    fresh = compute(case, Store(None, small))
    for laziness, curve in fresh.items():
        assert np.all(first[laziness].epsilon >= curve.epsilon * (1 - 1e-6))
    other = Store(tmp_path, lambda name: from_edges([0, 1, 2], [1, 2, 0], 3))
    assert other.get(case, 0.0) is None


def test_curves_never_rise_and_end_mixed():
    for case in (Case("twitch_de", 0, 20), Case("deezer_europe", 0)):
        for curve in compute(case, Store(None, small)).values():
            assert np.all(np.diff(curve.rounds) >= 0)
            assert np.all(np.diff(curve.epsilon, axis=0) <= 0)
            assert curve.epsilon[-1].max() <= WITHIN * curve.trusted
            needed = curve.needed(1.0)
            assert needed is not None
            before = curve.at(1.0)[curve.rounds < needed[0]]
            assert np.all(before > WITHIN * curve.trusted)


def test_curve_needed_returns_first_sufficient_rounds():
    epsilon = np.array([[1.0, 1.0, 1.0], [0.1, 0.3, 1.0], [0.1, 0.1, 0.105]])
    curve = Curve(np.array([2, 5, 9]), np.array(["exact", "exact", "spectral"]), epsilon, 0.1)
    assert curve.needed(0.0) == (5, "exact")
    assert curve.needed(1.0) == (9, "spectral")
    assert Curve(curve.rounds[:2], curve.route, epsilon[:2], 0.1).needed(1.0) is None


def test_formulas_match_hand_computation():
    """Closed forms at the size of the paper's Facebook graph, from independent evaluations."""
    n = 22_470
    assert network_bounds.closed_clones(1.0, n) == pytest.approx(0.14755, rel=1e-4)
    assert network_bounds.single_printed(1.0, n, 5.0064) == pytest.approx(0.36891, rel=1e-4)
    assert network_bounds.all_printed(1.0, n, 5.0064) == pytest.approx(2.890, rel=1e-3)
    # To first order a step of ε = x/n each, n times: x·√(2 log(1/δ)/n), and x²/2n more.
    for formula, x in (
        (network_bounds.subsampling, math.e - 1),
        (network_bounds.swapping, math.e**2 * (math.e - 1)),
    ):
        spread = x * math.sqrt(2 * math.log(1e6) / n)
        assert formula(1.0, n) == pytest.approx(spread + x * x / (2 * n), rel=1e-3)


def test_mean_vectors_are_unit_in_two_groups():
    values = network_mean.vectors(400, 50, np.random.default_rng(1))
    assert np.linalg.norm(values, axis=1) == pytest.approx(np.ones(400))
    diagonal = np.full(50, 1 / math.sqrt(50))
    heights = values @ diagonal
    assert heights[200:].min() > 0.98 > 0.9 > heights[:200].mean() > 0.6


def test_measured_load_equals_protocol_load():
    """What the load table counts is what the protocol itself hands in."""
    graph = small("twitch_de")
    protocol = NetworkShuffle(RR(epsilon=1.0), graph=graph, rounds=12)
    values = np.zeros(graph.n, np.int64)
    loads = np.array([protocol.collect(values, Seeds(seed)).load for seed in range(100)])
    expected = graph.degrees / graph.degrees.mean()
    assert loads.sum(axis=1).tolist() == [graph.n] * 100
    assert loads.mean(axis=0) == pytest.approx(expected, abs=0.6)
