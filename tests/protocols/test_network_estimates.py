"""What is estimated after a walk: unbiased, with intervals that cover the truth as guaranteed."""

from __future__ import annotations

import numpy as np
import pytest

from incrowd import NetworkShuffle, graphs
from incrowd.blocks import values_of
from incrowd.protocols.run import resolve_task
from incrowd.randomizers import KRR, OneBit, PrivUnit, Ternary

GRAPH = graphs.barabasi_albert(1500, 4, np.random.default_rng(1))
CODES = np.repeat([0, 1, 2], [900, 450, 150])
NUMBERS = np.linspace(0, 1, 1500) ** 2


def covered(mode, randomizer, values, truth, runs, rounds=40):
    """The share of intervals that cover the truth, and the mean error in standard errors."""
    protocol = NetworkShuffle(randomizer, graph=GRAPH, rounds=rounds, hand_in=mode)
    hits, errors = [], []
    for seed in range(runs):
        result = _answer(protocol, values, seed)
        hits.append((result.low <= truth) & (truth <= result.high))
        errors.append((result.value - truth) / result.standard_error)
    return np.mean(hits), np.mean(errors, axis=0)


def _answer(protocol, values, seed):
    """The answer alone: the guarantee of every run is the same, and takes longer."""
    from incrowd.randomness import Seeds

    task = resolve_task(protocol, None)
    return task.estimate(protocol.collect(task.encode(values), Seeds(seed)), protocol.randomizer)


def encoded(values, randomizer):
    if randomizer.domain == "category":
        return values.astype(str), np.bincount(values, minlength=3) / values.size
    if isinstance(randomizer, Ternary):
        return values, np.array([np.nanmean(values), np.isnan(values).mean()])
    return values, np.array([values.mean()])


@pytest.mark.parametrize("mode", ["all", "single"])
@pytest.mark.parametrize(
    ("randomizer", "values"),
    [
        (KRR(categories=3, epsilon=2.0), CODES),
        (OneBit(epsilon=2.0), NUMBERS),
        (Ternary(epsilon=3.0), np.where(np.arange(1500) % 10 < 3, np.nan, NUMBERS)),
    ],
)
def test_estimate_is_unbiased(mode, randomizer, values):
    column, truth = encoded(values, randomizer)
    share, bias = covered(mode, randomizer, column, truth, 60)
    assert share > 0.85
    assert np.abs(bias) == pytest.approx(0, abs=4 / np.sqrt(60))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["all", "single"])
@pytest.mark.parametrize(
    ("randomizer", "values"),
    [(KRR(categories=3, epsilon=2.0), CODES), (OneBit(epsilon=2.0), NUMBERS)],
)
def test_confidence_intervals_cover_truth(mode, randomizer, values):
    """A thousand runs: 95 % within three standard errors.

    They cover a little more where the variance is only bounded: that of one bit from the unknown
    spread of the values, and that of ``single`` from a sample taken as if with replacement.
    """
    column, truth = encoded(values, randomizer)
    share, bias = covered(mode, randomizer, column, truth, 1000)
    spread = 3 * np.sqrt(0.95 * 0.05 / 1000)
    exact = mode == "all" and randomizer.kind == "krr"
    assert 0.95 - spread <= share <= (0.95 + spread if exact else 0.985)
    assert np.abs(bias) == pytest.approx(0, abs=4 / np.sqrt(1000))


def test_single_mode_on_vectors_corrects_for_dummies():
    vectors = np.tile(np.eye(8)[0], (1500, 1))
    protocol = NetworkShuffle(
        PrivUnit(epsilon=6.0, dimension=8), graph=GRAPH, rounds=40, hand_in="single"
    )
    values = [_answer(protocol, vectors, seed).value for seed in range(20)]
    assert np.mean(values, axis=0)[0] == pytest.approx(1, abs=0.05)
    assert np.abs(np.mean(values, axis=0)[1:]).max() < 0.05


def test_load_counts_reports_held_at_end():
    protocol = NetworkShuffle(
        KRR(categories=3, epsilon=2.0), graph=GRAPH, rounds=30, hand_in="single"
    )
    run = protocol.simulate(CODES.astype(str), seed=3)
    details = values_of(protocol.run_diagnostics(run.collected, 1e-6))
    assert details["load"]["mean"] == 1
    assert details["load"]["max"] == run.collected.load.max() >= details["load"]["p99"]
    assert run.collected.received == 1500
    assert details["dummies"] == np.count_nonzero(run.collected.load == 0)
    assert details["dummies"] + 1500 - details["dropped"] == 1500
    assert details["expected_dummies"] == pytest.approx(details["dummies"], rel=0.1)
    assert sorted(run.collected.holders.tolist()) == list(range(1500))


def test_simulated_positions_follow_walk_law():
    """χ² of where one person's report ends, against the exact law."""
    from scipy.stats import chisquare

    from incrowd.graphs import walk
    from incrowd.graphs.propagate import Step

    graph = graphs.barabasi_albert(30, 2, np.random.default_rng(2))
    ends = walk(graph, np.full(50_000, 7), 4, np.random.default_rng(3), 0.2)
    law = np.eye(30)[:, 7:8]
    for _ in range(4):
        law = Step(graph, 0.2)(np.ascontiguousarray(law))
    likely = law[:, 0] > 1e-4
    counts = np.bincount(ends, minlength=30)[likely]
    expected = law[likely, 0] / law[likely, 0].sum() * counts.sum()
    assert chisquare(counts, expected).pvalue > 1e-4
