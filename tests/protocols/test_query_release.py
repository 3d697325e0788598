"""Noise in the results of queries: its exact law, what it protects, and that it is unbiased."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from incrowd.errors import InvalidEpsilon, InvalidParameter, InvalidQuery
from incrowd.protocols.scrambled_query.release import (
    Noise,
    check_release,
    laplace_noise,
    released,
)
from incrowd.randomizers import Redirect
from incrowd.randomness import Seeds, system_generator
from incrowd.tasks.query import Column, Folded, Query, Tabulated
from incrowd.tasks.query.grid import Grid

COLUMNS = (
    Column(name="sex", type="category", values=("f", "m"), complete=True),
    Column(name="age", type="integer", low=18, high=99, complete=True),
    Column(name="far", type="integer", low=-(2**40), high=2**41, complete=True),
    Column(name="bmi", type="number", low=12.5, high=60.0, complete=True),
    Column(name="year", type="number", low=1900.0, high=2030.0, complete=True),
    Column(name="free", type="number", complete=True),
)


def query(select, where=""):
    sql = f"SELECT sex, {select} FROM people {where} GROUP BY sex"
    return Query(sql=sql, table="people", columns=COLUMNS)


EVERYTHING = query("COUNT(*), SUM(age), AVG(far), AVG(bmi), SUM(year)")


def rng(seed=1):
    return Seeds(seed).generator("noise")


def law(noise, reach):
    """The exact chances of −reach … reach."""
    q = math.exp(-noise.rate / noise.scale)
    k = np.arange(-reach, reach + 1)
    return (1 - q) / (1 + q) * q ** np.abs(k)


# The law


@pytest.mark.parametrize(("scale", "rate"), [(1, 1), (3, 1), (1, 3), (7, 4), (40, 3)])
@pytest.mark.parametrize("source", [rng(3), system_generator()], ids=["seeded", "system"])
def test_noise_draws_follow_exact_law(scale, rate, source):
    size = 20_000 if source.bit_generator.__class__.__name__ == "PCG64DXSM" else 4000
    drawn = Noise(scale, rate).draw(size, source)
    reach = 1 + 4 * scale // rate
    expected = law(Noise(scale, rate), reach)
    counted = np.array([np.count_nonzero(drawn == k) for k in range(-reach, reach + 1)])
    seen = np.append(counted, size - counted.sum())
    hoped = np.append(expected, 1 - expected.sum()) * size
    large = hoped > 5
    table = [(seen[large], hoped[large]), (seen[~large].sum(), hoped[~large].sum())]
    observed = np.append(table[0][0], table[1][0])
    wanted = np.append(table[0][1], table[1][1])
    keep = wanted > 0
    wanted = wanted[keep] * observed[keep].sum() / wanted[keep].sum()
    assert stats.chisquare(observed[keep], wanted).pvalue > 1e-6


def test_noise_draws_use_whole_numbers_only():
    class Whole:
        """Refuses anything but uniform whole numbers, which are exact."""

        def __init__(self):
            self.inner = rng(5)

        def integers(self, high, size=None):
            return self.inner.integers(high, size=size)

    assert Noise(5, 2).draw(500, Whole()).dtype == np.int64


@pytest.mark.parametrize("noise", [Noise(1, 1), Noise(5, 2), Noise(300, 7)])
def test_noise_variance_is_exact(noise):
    reach = 60 * noise.scale // noise.rate + 60
    k = np.arange(-reach, reach + 1)
    assert noise.variance == pytest.approx(float(law(noise, reach) @ k**2), rel=1e-9)


def test_noise_of_zero_sensitivity_is_zero():
    none = Noise(0, 1)
    assert none.variance == 0
    assert not none.draw(4, rng()).any()


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(2, 0.3), (1, 1.0), (81, 0.7), (7, 1e-3)])
def test_laplace_noise_covers_sensitivity_tightly(sensitivity, epsilon):
    noise = laplace_noise(sensitivity, epsilon)
    loss = sensitivity * noise.rate / noise.scale
    assert epsilon * (1 - 1e-2) <= loss <= epsilon
    assert loss >= epsilon - 2.0**-20


def test_laplace_noise_rejects_too_small_epsilon():
    with pytest.raises(InvalidEpsilon, match="at least"):
        laplace_noise(2, 1e-8)
    with pytest.raises(InvalidEpsilon):
        laplace_noise(2, math.inf)


# What one record changes


def folded(task, rows):
    """The cells of some people: (sex, age, far, bmi, year)."""
    table = {
        name: np.array([row[i] for row in rows]) if rows else np.array([], kind)
        for i, (name, kind) in enumerate(
            (("sex", str), ("age", np.int64), ("far", np.int64), ("bmi", float), ("year", float))
        )
    }
    used = task.asks()
    cells = np.array(
        [[str(table[name][i]) for name in used] for i in range(len(rows))], dtype=np.str_
    ).reshape(len(rows), len(used))
    values = task.encode(cells)
    group = task.sets[0]
    return task.fold(group.cell_of(values), task.measured(values), 0, group.cells)


def counted(task, rows):
    """Counts, and totals in steps around the middle: what noise is added to."""
    found = folded(task, rows)
    parts = [found.count]
    for column, total in zip(task.measures, found.total, strict=True):
        grid = Grid.of(column)
        parts.append(grid.counted(total) - grid.middle * found.count)
    return parts


ENDS = [
    (sex, age, far, bmi, year)
    for sex in ("f", "m")
    for age, far, bmi, year in (
        (18, -(2**40), 12.5, 1900.0),
        (99, 2**41, 60.0, 2030.0),
        (18, 2**41, 60.0, 1900.0),
        (50, 12345, 33.3333, 1977.7),
    )
]


def test_record_change_stays_within_sensitivity():
    some = [ENDS[0], ENDS[5], ENDS[3], *ENDS[2:7]]
    limits = [2] + [Grid.of(column).sensitivity for column in EVERYTHING.measures]
    most = [0] * len(limits)
    without = counted(EVERYTHING, some)
    for first in ENDS:
        here = counted(EVERYTHING, [*some, first])
        for there in (without, *(counted(EVERYTHING, [*some, second]) for second in ENDS)):
            for at, (a, b) in enumerate(zip(here, there, strict=True)):
                most[at] = max(most[at], int(np.abs(a - b).sum()))
    assert all(change <= limit for change, limit in zip(most, limits, strict=True))
    # Counts and whole numbers are tight, others up to what rounding may add.
    assert most[:2] == [2, limits[1]]
    assert all(limit - change <= 4 for change, limit in zip(most, limits, strict=True))


def test_released_tables_of_neighbours_are_within_epsilon():
    """All outcomes near the tables of two people, with their exact chances."""
    task, epsilon = query("COUNT(*), SUM(age)"), 0.8
    noises = [laplace_noise(2, epsilon / 2), laplace_noise(Grid.of(COLUMNS[1]).sensitivity, 0.4)]
    tables = [
        np.concatenate(counted(task, rows))
        for rows in ([ENDS[0], ENDS[1]], [ENDS[0], ENDS[4]], [ENDS[0]])
    ]
    rates = np.repeat([each.rate / each.scale for each in noises], 2)
    worst = 0.0
    for here in tables:
        for there in tables:
            # ln P(z)/P'(z) = Σ rate·(|z − there| − |z − here|) is largest at z = here.
            worst = max(worst, float(rates @ np.abs(here - there)))
    assert worst <= epsilon
    assert worst > 0.6 * epsilon


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (18, 99), (-5, 5), (1000, 1010), (-(2**50), 2**52), (7, 7)]
)
def test_grid_middle_halves_sensitivity_of_integers(low, high):
    grid = Grid.of(Column(name="x", type="integer", low=low, high=high, complete=True))
    width = (high - low) / grid.step
    assert width <= grid.sensitivity <= width + 4
    assert grid.sensitivity < 2**22


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (12.5, 60.0), (1e6, 1e6 + 1), (-3.0, -3.0)])
def test_grid_step_is_finer_than_noise(low, high):
    grid = Grid.of(Column(name="x", type="number", low=low, high=high, complete=True))
    assert math.frexp(grid.step)[0] == 0.5
    assert grid.sensitivity * grid.step >= high - low
    assert grid.sensitivity <= 2100
    # A billion tuples are summed up to within a quarter of a step.
    assert 2**30 * max(abs(low), abs(high)) * 2.0**-52 <= grid.step / 4


# What is returned


def test_release_is_unbiased_with_stated_variance():
    one, draws = folded(EVERYTHING, ENDS), 4000
    many = Folded(
        np.tile(one.count, draws),
        *(
            tuple(np.tile(each, draws) for each in getattr(one, name))
            for name in ("total", "least", "most", "spread")
        ),
    )
    noisy, variances = released(many, EVERYTHING, 2.0, rng(7))
    assert len(variances) == 1 + len(EVERYTHING.measures)
    pairs = [(noisy.count, many.count), *zip(noisy.total, many.total, strict=True)]
    for column, (got, exact), variance in zip(
        (None, *EVERYTHING.measures), pairs, variances, strict=True
    ):
        error = (got - exact).astype(float)
        rounding = 0 if column is None else Grid.of(column).step
        assert abs(error.mean()) <= 5 * math.sqrt(variance / error.size) + rounding
        assert error.var() == pytest.approx(variance, rel=0.15)


def test_release_contains_counts_and_totals_only():
    noisy, _ = released(folded(EVERYTHING, ENDS), EVERYTHING, 1.0, rng())
    assert not any(each.any() for each in (*noisy.least, *noisy.most, *noisy.spread))
    assert [total.dtype.kind for total in noisy.total] == ["i", "i", "f", "f"]
    assert noisy.count.dtype == np.int64


def test_release_of_parts_has_noise_of_whole():
    exact = folded(EVERYTHING, ENDS)
    _, whole = released(exact, EVERYTHING, 1.0, rng())
    part = type(exact)(
        exact.count[:1], *(tuple(each[:1] for each in getattr(exact, name)) for name in
        ("total", "least", "most", "spread"))
    )  # fmt: skip
    small, same = released(part, EVERYTHING, 1.0, rng())
    assert same == whole
    assert len(small.count) == 1


def test_release_of_count_alone_gets_full_epsilon():
    counting = query("COUNT(*)")
    _, (alone,) = released(folded(counting, ENDS), counting, 1.0, rng())
    assert alone == laplace_noise(2, 1.0).variance
    both = query("COUNT(*), SUM(age)")
    _, (shared, _) = released(folded(both, ENDS), both, 1.0, rng())
    assert shared == laplace_noise(2, 0.5).variance


def test_release_with_same_stream_is_equal():
    exact = folded(EVERYTHING, ENDS)
    first, second = (released(exact, EVERYTHING, 1.0, rng(9))[0] for _ in range(2))
    assert np.array_equal(first.count, second.count)
    seen = Counter(int(released(exact, EVERYTHING, 1.0, rng(s))[0].count[0]) for s in range(30))
    assert len(seen) > 3


# What is refused


@pytest.mark.parametrize("function", ["MIN", "MAX", "VARIANCE"])
def test_release_rejects_unsupported_aggregates(function):
    with pytest.raises(InvalidQuery, match="COUNT, SUM and AVG only") as told:
        check_release(query(f"{function}(age)"))
    assert "\n" not in str(told.value)


def test_release_rejects_columns_without_bounds():
    with pytest.raises(InvalidQuery, match="column free: declare low and high"):
        check_release(query("SUM(free)"))
    check_release(EVERYTHING)
    check_release(query("COUNT(*)", "WHERE free > 1"))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan])
def test_release_rejects_zero_epsilon(epsilon):
    with pytest.raises(InvalidParameter):
        released(folded(EVERYTHING, ENDS), EVERYTHING, epsilon, rng())


def test_confidence_interval_of_average_far_from_zero_covers():
    """Noise of sums and counts cancels in an average by the middle of the bounds, as rounded."""
    column = Column(name="x", type="number", low=1e6, high=1e6 + 1, complete=True)
    place = Column(name="g", type="category", values=tuple(map(str, range(2000))), complete=True)
    query = Query(sql="SELECT g, AVG(x) FROM t GROUP BY g", table="t", columns=(place, column))
    cells, each = 2000, 50
    exact = Folded(
        count=np.full(cells, each),
        total=(np.full(cells, each * (1e6 + 0.25)),),
        least=(np.zeros(cells),),
        most=(np.zeros(cells),),
        spread=(np.zeros(cells),),
    )
    noisy, variances = released(exact, query, 8.0, rng(3))
    collected = Tabulated(
        rounds=(), sent=cells * each, folded=(noisy,), present=(cells * each,), kept=(1.0,),
        noise=(variances,), traffic=(),
    )  # fmt: skip
    found = query.estimate(collected, Redirect(targets=2, redirect_probability=0.0))
    error = found.value - (1e6 + 0.25)
    assert np.std(error) == pytest.approx(float(np.median(found.standard_error)), rel=0.15)
