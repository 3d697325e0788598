"""A simulated query: the observer's counts have their exact law, and estimates their mean."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare

from incrowd.errors import InvalidParameter
from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query.simulate import collect, coverage
from incrowd.randomness import Seeds
from incrowd.tasks.query import Column, Query

GROUP = Column(name="g", type="category", values=("a", "b", "c"), complete=True)
PAIR = Column(name="h", type="integer", low=1, high=2, complete=True)
NUMBER = Column(name="x", type="number", low=10, high=30, complete=True)
WHOLE = Column(name="k", type="integer", low=100, high=140, complete=True)


def asking(sql, **settings):
    query = Query(sql=sql, table="t", columns=(GROUP, PAIR, NUMBER, WHOLE))
    return query, ScrambledQuery(query=query, **settings)


# The exact law of what an observer counts, by enumeration.


def truthful(target, targets, sampling):
    """The law of where one message goes; ``None`` has no target."""
    lie = Fraction(sampling) / targets
    if target is None:
        return {each: Fraction(1, targets) for each in range(targets)}
    return {each: lie + (1 - Fraction(sampling)) * (each == target) for each in range(targets)}


def histogram_law(people, targets, sampling, sources, dummies, capped=False):
    """The chance of each histogram of one scrambler, of whose people these are the targets."""
    law = {(0,) * targets: Fraction(1)}

    def go_on(law, chances):
        found = defaultdict(Fraction)
        for counts, chance in law.items():
            for target, more in chances(counts).items():
                then = tuple(count + (each == target) for each, count in enumerate(counts))
                found[then] += chance * more
        return found

    for person in (*people, *[None] * (sources - len(people))):
        law = go_on(law, lambda _, person=person: truthful(person, targets, sampling))
    for _ in range(dummies):

        def dummy(counts):
            open_ = [each for each in range(targets) if not capped or counts[each] < sources]
            return {each: Fraction(1, len(open_)) for each in open_}

        law = go_on(law, dummy)
    assert sum(law.values()) == 1
    return law


def doubt(traffic, law):
    """The p-value of observed histograms; those that cannot be have none."""
    seen = defaultdict(int)
    for row in traffic.tolist():
        seen[tuple(row)] += 1
    cells = sorted((each for each, chance in law.items() if chance), key=law.get)
    if not seen.keys() <= set(cells):
        return 0.0
    if len(cells) == 1:
        return 1.0
    expected = np.array([float(law[each]) for each in cells]) * len(traffic)
    observed = np.array([seen[each] for each in cells])
    # Rare ones together, so that the approximation holds.
    rare = np.cumsum(expected) < 8
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        observed = np.append(observed[~rare], observed[rare].sum())
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


SQL = "SELECT g, COUNT(*) FROM t GROUP BY g"


def crowd(codes, groups):
    """Everybody of a group in turn: the i-th person of every group has the i-th code."""
    names = np.repeat(np.array(GROUP.values)[codes], groups)
    people = len(names)
    return {"g": names, "h": np.ones(people), "x": np.full(people, 20.0), "k": np.full(people, 100)}


@pytest.mark.parametrize("mode", ["scrambler", "capped"])
@pytest.mark.parametrize(
    ("codes", "sampling", "dummies"),
    [
        ([0, 1], 0.5, 2),
        ([0, 0, 0], 0.3, 0),
        ([2, 2, 1], 0.3, 2),
        ([0, 0, 0], 0.0, 3),
        ([1], 0.9, 1),
    ],
)
def test_scrambler_traffic_has_enumerated_law(mode, codes, sampling, dummies):
    groups, sources = 20_000, len(codes)
    query, protocol = asking(
        SQL, targets=3, redirect_probability=sampling, sources=sources, dummies=dummies,
        hiding=mode, n=groups * sources,
    )  # fmt: skip
    collected = collect(protocol, query.encode(crowd(codes, groups)), Seeds(11))
    (traffic,) = collected.traffic
    assert traffic.shape == (groups, 3)
    assert (traffic.sum(axis=1) == sources + dummies).all()
    law = histogram_law(codes, 3, sampling, sources, dummies, mode == "capped")
    assert doubt(traffic, law) > 1e-3
    # It tells laws apart: that of a tenth more lies, and that without the cap.
    if sampling > 0:
        other = histogram_law(codes, 3, sampling * 1.1, sources, dummies, mode == "capped")
        assert doubt(traffic, other) < 1e-6
    if dummies > 1 and mode == "capped":
        assert doubt(traffic, histogram_law(codes, 3, sampling, sources, dummies)) < 1e-6
    if mode == "capped":
        assert traffic.max() <= max(sources, 1)


def test_tuples_outside_where_go_to_uniform_target():
    groups = 20_000
    query, protocol = asking(
        "SELECT g, COUNT(*) FROM t WHERE g <> 'b' GROUP BY g",
        targets=3, redirect_probability=0.3, sources=2, dummies=1, n=2 * groups,
    )  # fmt: skip
    collected = collect(protocol, query.encode(crowd([0, 1], groups)), Seeds(2))
    assert doubt(collected.traffic[0], histogram_law([0, None], 3, 0.3, 2, 1)) > 1e-3
    assert doubt(collected.traffic[0], histogram_law([0, 1], 3, 0.3, 2, 1)) < 1e-6
    assert collected.folded[0].count[1] == 0


@pytest.mark.parametrize("mode", ["scrambler", "capped"])
def test_missing_people_are_replaced_by_dummies(mode):
    """Four people in groups of at most three: each scrambler has two, and replaces one."""
    query, protocol = asking(
        "SELECT g, h, COUNT(*) FROM t GROUP BY GROUPING SETS ((g), (h), ())",
        targets=3, redirect_probability=0.4, sources=3, dummies=2, n=4, hiding=mode,
    )  # fmt: skip
    # Persons 0 and 2 are in one group, 1 and 3 in the other: both groups have codes 0 and 1.
    values = query.encode(crowd([0, 0, 1, 1], 1))
    runs = [collect(protocol, values, Seeds(seed)).traffic for seed in range(4000)]
    first, second, third = (np.concatenate(each) for each in zip(*runs, strict=True))
    capped = mode == "capped"
    assert doubt(first, histogram_law([0, 1], 3, 0.4, 3, 2, capped)) > 1e-3
    assert doubt(first, histogram_law([0, 1], 3, 0.4, 2, 2, capped)) < 1e-6
    # All have the same h.
    assert doubt(second, histogram_law([0, 0], 2, 0.4, 3, 2, capped)) > 1e-3
    # One target: nothing to hide, and no dummies.
    assert (third == 3).all()


def test_people_with_one_set_each_send_one_message():
    """Every scrambler of a set has people of that set only, and is as full as with all answers."""
    groups = 4_000
    query, protocol = asking(
        "SELECT g, h, COUNT(*) FROM t GROUP BY GROUPING SETS ((g), (h))",
        targets=3, redirect_probability=0.4, sources=3, dummies=2, n=6 * groups,
        sets_per_person="one",
    )  # fmt: skip
    collected = collect(protocol, query.encode(crowd([1], 6 * groups)), Seeds(3))
    for traffic, targets, code in zip(collected.traffic, (3, 2), (1, 0), strict=True):
        assert traffic.shape == (groups, targets)
        assert doubt(traffic, histogram_law([code] * 3, targets, 0.4, 3, 2)) > 1e-3


def flood_law(target, targets, sampling, dummies):
    law = defaultdict(Fraction)
    for first, chance in truthful(target, targets, sampling).items():
        others = [each for each in range(targets) if each != first]
        ways = list(combinations(others, dummies))
        for some in ways:
            sent = tuple(int(each == first or each in some) for each in range(targets))
            law[sent] += chance / len(ways)
    return law


@pytest.mark.parametrize("dummies", [0, 1, 2])
def test_flooding_traffic_has_enumerated_law(dummies):
    query, protocol = asking(
        SQL, targets=3, redirect_probability=0.4, dummies=dummies, hiding="local", n=30_000
    )
    values = query.encode(crowd([1], 30_000))
    (traffic,) = collect(protocol, values, Seeds(4)).traffic
    assert doubt(traffic, flood_law(1, 3, 0.4, dummies)) > 1e-3
    if dummies < 2:
        assert doubt(traffic, flood_law(1, 3, 0.5, dummies)) < 1e-6
    else:
        assert (traffic == 1).all()


def test_folded_tuples_never_exceed_traffic():
    rng = np.random.default_rng(8)
    query, protocol = asking(SQL, targets=3, redirect_probability=0.5, sources=10, dummies=4, n=999)
    rows = {"g": np.array(GROUP.values)[rng.integers(3, size=999)]}
    collected = collect(protocol, query.encode(rows), Seeds(1))
    (folded,), (traffic,) = collected.folded, collected.traffic
    assert (folded.count <= traffic.sum(axis=0)).all()
    assert folded.count.sum() < collected.received == collected.sent == 999
    assert collected.present == (999,)
    assert collected.people == 999


def test_dummies_above_cap_are_rejected():
    query, protocol = asking(
        SQL, targets=3, redirect_probability=0.5, sources=2, dummies=5, hiding="capped", n=4
    )
    with pytest.raises(InvalidParameter, match="5 dummies do not fit under the cap of 2"):
        collect(protocol, query.encode(crowd([0, 1], 2)), Seeds(1))


def test_result_depends_on_seed_alone():
    rng = np.random.default_rng(6)
    rows = people(500, rng)
    both = "SELECT g, h, AVG(x) FROM t GROUP BY GROUPING SETS ((g), (h))"
    one = "SELECT g, AVG(x) FROM t GROUP BY g"
    settings = {"targets": 3, "redirect_probability": 0.5, "sources": 20, "dummies": 4, "n": 500}
    found = []
    for sql, seed in ((both, 5), (both, 5), (one, 5), (both, 6)):
        query, protocol = asking(sql, **settings)
        found.append(collect(protocol, query.encode(rows), Seeds(seed)))
    first, again, alone, other = found
    assert (first.folded[1].total[0] == again.folded[1].total[0]).all()
    assert (first.traffic[0] == again.traffic[0]).all()
    # The lies of a set do not depend on which others are asked.
    assert (first.traffic[0] == alone.traffic[0]).all()
    assert (first.traffic[0] != other.traffic[0]).any()
    assert (first.traffic[0][:, :2] != first.traffic[1]).any()


# Estimates.


def people(count, rng):
    return {
        "g": rng.choice(GROUP.values, size=count, p=[0.6, 0.3, 0.1]),
        "h": rng.integers(1, 3, size=count),
        "x": np.clip(rng.normal(18, 3, size=count), 10, 30),
        "k": rng.integers(100, 141, size=count),
    }


EVERYTHING = (
    "SELECT g, h, COUNT(*), SUM(x), SUM(k), AVG(x), AVG(k), VARIANCE(x), VARIANCE(k), MIN(k) FROM t"
    " WHERE k < 135 GROUP BY GROUPING SETS ((g, h), (g), ())"
)


@pytest.mark.parametrize("mode", ["scrambler", "local"])
def test_estimates_are_unbiased_and_intervals_cover(mode):
    rng = np.random.default_rng(7)
    rows = people(400, rng)
    sources = {"sources": 40} if mode == "scrambler" else {}
    query, protocol = asking(
        EVERYTHING, targets=3, redirect_probability=0.6, dummies=2, hiding=mode, n=400, **sources
    )
    values, truth = query.encode(rows), query.truth(rows)
    runs = 800
    found = np.full((runs, len(truth)), np.nan)
    errors, covered = found.copy(), found.copy()
    for seed in range(runs):
        answer = query.estimate(collect(protocol, values, Seeds(seed)), protocol.randomizer)
        at = answer.positions
        found[seed, at], errors[seed, at] = answer.value, answer.standard_error
        with np.errstate(invalid="ignore"):
            inside = (answer.low <= truth[at]) & (truth[at] <= answer.high)
        covered[seed, at] = inside
    width = len(query.aggregates)
    assert np.isfinite(found).all(), "every cell must have come every time"
    kinds = np.tile(np.arange(width), len(truth) // width)
    names = np.array([aggregate.function for _, aggregate in query.aggregates])[kinds]
    # One compute node: nothing is lost.
    exact = np.arange(len(truth)) >= len(truth) - width
    assert (found[:, exact] == truth[exact]).all()
    assert (errors[:, exact] == 0).all()
    unbiased = ~exact & (names != "MIN")
    z = (found - truth).mean(axis=0) / (found.std(axis=0, ddof=1) / math.sqrt(runs) + 1e-300)
    assert np.abs(z[unbiased]).max() < 4.2
    assert (found[:, names == "MIN"] >= truth[names == "MIN"]).all()
    limited = unbiased & (names != "VAR")
    ratio = errors.mean(axis=0)[limited] / found.std(axis=0)[limited]
    assert 0.9 < ratio.min() <= ratio.max() < 1.1
    share = covered.mean(axis=0)[limited]
    assert 0.89 < share.min() <= share.mean() < 0.97
    assert np.isnan(errors[:, ~exact & np.isin(names, ["VAR", "MIN"])]).all()


def test_unbiasedness_check_detects_two_percent_error():
    """The z-test above sees a factor that is two per cent off."""
    query, protocol = asking(SQL, targets=3, redirect_probability=0.6, sources=40, dummies=2, n=400)
    values = query.encode(people(400, np.random.default_rng(7)))
    truth = query.truth(people(400, np.random.default_rng(7)))
    runs = [
        query.estimate(collect(protocol, values, Seeds(seed)), protocol.randomizer).value
        for seed in range(800)
    ]
    spread = np.std(runs, axis=0) / math.sqrt(800)
    assert (np.abs(np.mean(runs, axis=0) - truth) < 4.2 * spread).all()
    assert (np.abs(0.98 * np.mean(runs, axis=0) - truth) > 4.2 * spread).any()


def test_estimates_from_one_set_each_are_about_everybody():
    rng = np.random.default_rng(9)
    rows = people(600, rng)
    sql = "SELECT g, h, COUNT(*), AVG(x) FROM t GROUP BY GROUPING SETS ((g), (h))"
    settings = {"targets": 3, "redirect_probability": 0.4, "sources": 30, "dummies": 2, "n": 600}
    query, protocol = asking(sql, sets_per_person="one", **settings)
    truth, found = query.truth(rows), []
    for seed in range(600):
        order = rng.permutation(600)
        mixed = {name: np.asarray(column)[order] for name, column in rows.items()}
        collected = collect(protocol, query.encode(mixed), Seeds(seed))
        assert collected.present == (600, 600)
        assert collected.sent == 600
        answer = query.estimate(collected, protocol.randomizer)
        assert answer.people == 600
        found.append(answer.value)
    z = (np.mean(found, axis=0) - truth) / (np.std(found, axis=0) / math.sqrt(600))
    assert np.abs(z).max() < 4.2
    present, kept = coverage(protocol, [0, 0])
    assert present == (0, 0)
    assert kept == tuple(protocol.redirect(index).kept for index in range(2))


@pytest.mark.parametrize("sampling", [0.0, 0.5])
def test_released_answers_have_stated_noise(sampling):
    rng = np.random.default_rng(10)
    rows = people(3000, rng)
    sql = (
        "SELECT g, h, COUNT(*), SUM(x), SUM(k), AVG(x), AVG(k) FROM t"
        " GROUP BY GROUPING SETS ((g), (h))"
    )
    query, protocol = asking(
        sql,
        targets=3,
        redirect_probability=sampling,
        sources=100,
        dummies=2,
        n=3000,
        release_epsilon=2.0,
    )
    values, truth = query.encode(rows), query.truth(rows)
    found, errors = [], []
    for seed in range(400):
        collected = collect(protocol, values, Seeds(seed))
        assert collected.traffic == ()
        answer = query.estimate(collected, protocol.randomizer)
        assert len(answer.rows) == 5
        found.append(answer.value)
        errors.append(answer.standard_error)
    z = (np.mean(found, axis=0) - truth) / (np.std(found, axis=0) / math.sqrt(400))
    assert np.abs(z).max() < 4.2
    ratio = (np.mean(errors, axis=0) / np.std(found, axis=0)).reshape(-1, 5)
    assert 0.87 < ratio.min() <= ratio[:, :3].max() < 1.13
    # Where people lie the spread of a cell matters to its mean, and only its bound is known.
    bounds = np.sqrt([12 * 8, 20 * 20]) / [rows["x"].std(), rows["k"].std()] if sampling else 1.0
    assert (ratio[:, 3:] < 1.13 * np.asarray(bounds)).all()


def test_release_shows_all_cells():
    query, protocol = asking(SQL, targets=3, sources=3, dummies=1, n=3, release_epsilon=5.0)
    rows = {"g": ["a", "a", "a"]}
    answer = query.estimate(collect(protocol, query.encode(rows), Seeds(1)), protocol.randomizer)
    assert [row.values[0] for row in answer.rows] == ["a", "b", "c"]
    assert all(isinstance(row.values[1], float) for row in answer.rows)


def test_answer_prints_as_table():
    query, protocol = asking(
        "SELECT h AS half, g, COUNT(*) AS n, AVG(k), MAX(x), VAR(x) FROM t WHERE x < 29"
        " GROUP BY GROUPING SETS ((g, h), ())",
        targets=2, sources=2, n=4,
    )  # fmt: skip
    rows = {
        "g": list("abba"),
        "h": [2, 1, 1, 2],
        "x": [11, 12.5, 14.5, 30],
        "k": [100, 101, 104, 9],
    }
    rows["k"][3] = 140
    run = protocol.simulate(rows, task=query, seed=3)
    answer = run.result
    assert answer.columns == ("half", "g", "n", "AVG(k)", "MAX(x)", "VARIANCE(x)")
    assert [(row.set, row.cell, row.values, row.tuples) for row in answer.rows] == [
        (0, 1, (2, "a", 1, 100.0, 11.0, None), 1),
        (0, 2, (1, "b", 2, 102.5, 14.5, 2.0), 2),
        (1, 0, (None, None, 3, pytest.approx(305 / 3), 14.5, pytest.approx(37 / 12)), 3),
    ]
    assert answer.labels[:2] == ("g=a, h=2: n", "g=a, h=2: AVG(k)")
    assert answer.value[:4].tolist() == [1, 100, 11, pytest.approx(np.nan, nan_ok=True)]
    assert answer.lost == (0, 0)
    assert "g=a, h=2: n = 1 ± 0" in repr(answer)
