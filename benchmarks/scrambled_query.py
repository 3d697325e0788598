"""Scrambled queries beside a database and a plain double sum, in one run.

1. A query with four grouping sets over many tuples: the simulation
   (:func:`incrowd.protocols.scrambled_query.simulate.collect`, which draws everybody's lies and
   every scrambler's dummies, and folds what arrives, and the estimate from it) beside DuckDB, which
   answers the same SQL over the same rows in memory with its threads as they come. Both by the
   clock on the wall, in turns, the best of several. Without lies both must give the same answer.
2. How the cost of the simulation grows with the tuples: the slope of the line that fits the
   logarithms of the times for a tenth, for all and for four times as many tuples best, from the
   best processor times of several runs taken in turns. 1 is linear.
3. The accountant: ε at δ = 1e-4 of a scrambler with as many dummies as sources, beside the same
   formula summed point by point with scipy: all numbers of lies and all sums of two counts within
   nine standard deviations, two binomial tails each. One such δ is computed in full; an ε takes as
   many as scipy's root finder asks for, which is counted on the accountant's curve. Both by
   processor time, and both must have the same ε at the δ of the double sum.

The exit code is 1 when a target is missed.

    python benchmarks/scrambled_query.py [--format json] [--tuples 1e6] [--sources 1e5]
        [--repeats 5]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import bdtrc
from scipy.stats import binom
from targets import Result, show

from incrowd.protocols.scrambled_query import ScrambledQuery
from incrowd.protocols.scrambled_query.simulate import collect
from incrowd.protocols.scrambled_query.theorems.exact import ScramblerProfile
from incrowd.randomness import Seeds
from incrowd.tasks.query import Column, Query, QueryAnswer

DUCKDB_TARGET = 0.05
GROWTH_TARGET = 1.1
"""Linear, and some room for what no longer fits into the cache."""
SUM_TARGET = 50.0
ROUNDING = 1e-12
ACCOUNTED = 3e-7
"""What the accountant may add to ε by putting numbers of lies together."""
TARGETS, SAMPLING, DELTA = 20, 0.5, 1e-4
DEVIATIONS = 9.0

COLUMNS = (
    Column(
        name="age_range",
        type="category",
        values=tuple(f"{10 * n}s" for n in range(2, 9)),
        complete=True,
    ),
    Column(name="bmi", type="integer", low=15, high=45, complete=True),
    Column(name="sex", type="category", values=("female", "male"), complete=True),
    Column(name="insulin", type="number", low=0, high=300, complete=True),
    Column(name="visits", type="integer", low=0, high=100, complete=True),
)
SQL = (
    "SELECT age_range, bmi, sex, COUNT(*), AVG(insulin), SUM(visits) FROM patients WHERE bmi <> 20"
    " GROUP BY GROUPING SETS ((age_range, bmi), (age_range, sex), (bmi), ())"
)


@dataclass
class Timed:
    """Work, the best time seen by this clock, and what came out last."""

    work: Callable[[], Any]
    clock: Callable[[], float] = time.process_time
    seconds: float = field(default=math.inf)
    result: Any = None

    def run(self) -> None:
        """Do it once."""
        start = self.clock()
        self.result = self.work()
        self.seconds = min(self.seconds, self.clock() - start)


def patients(people: int) -> dict[str, NDArray[Any]]:
    """Raw values, as codes where they are categories."""
    rng = np.random.default_rng(5)
    return {
        "age_range": rng.integers(7, size=people),
        "bmi": rng.integers(15, 46, size=people),
        "sex": rng.integers(2, size=people),
        "insulin": np.clip(rng.gamma(2.0, 40.0, size=people), 0, 300),
        "visits": rng.integers(101, size=people),
    }


def encoded(query: Query, people: int) -> NDArray[Any]:
    """The same as the query holds them."""
    raw = patients(people)
    values = np.empty(people, [(each.name, each.dtype) for each in query.used])
    for each in query.used:
        values[each.name] = raw[each.name]
    return values


def protocol_for(query: Query, people: int, sampling: float) -> ScrambledQuery:
    """Scramblers of a hundred people and as many dummies."""
    return ScrambledQuery(
        targets=TARGETS,
        redirect_probability=sampling,
        sources=min(100, people),
        dummies=100,
        n=people,
        query=query,
    )


def simulated(query: Query, values: NDArray[Any], sampling: float) -> QueryAnswer:
    """The answer of a whole simulation."""
    protocol = protocol_for(query, len(values), sampling)
    return query.estimate(collect(protocol, values, Seeds(1)), protocol.randomizer)


def difference(answer: QueryAnswer, expected: list[tuple[Any, ...]]) -> float:
    """The largest relative difference of two answers; infinite where rows or counts differ."""

    def by_group(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple((each is not None, each) for each in row[:3])

    found = sorted((row.values for row in answer.rows), key=by_group)
    wanted = sorted(expected, key=by_group)
    if len(found) != len(wanted):
        return math.inf
    largest = 0.0
    for mine, theirs in zip(found, wanted, strict=True):
        if (*mine[:4], mine[5]) != (*theirs[:4], theirs[5]):
            return math.inf
        largest = max(largest, abs(float(mine[4] or 0) / theirs[4] - 1))
    return largest


def beside_database(tuples: int, repeats: int) -> list[Result]:
    query = Query(sql=SQL, table="patients", columns=COLUMNS)
    values = encoded(query, tuples)
    ours = Timed(lambda: simulated(query, values, SAMPLING), time.perf_counter)
    name = "speed, simulation over DuckDB"
    try:
        import duckdb
    except ImportError:
        ours.run()
        note = f"skipped: no duckdb; {tuples / ours.seconds:.3g} tuples per second"
        return [Result(name, None, "×", DUCKDB_TARGET, "at least", note)]
    with duckdb.connect() as database:
        raw = patients(tuples)  # noqa: F841 (DuckDB finds it by its name)
        lists = {each.name: list(each.values) for each in COLUMNS if each.values}
        database.execute(
            "CREATE TABLE patients AS SELECT $ages[age_range + 1] AS age_range, bmi,"
            " $sexes[sex + 1] AS sex, insulin, visits FROM raw",
            {"ages": lists["age_range"], "sexes": lists["sex"]},
        )
        threads = database.execute("SELECT current_setting('threads')").fetchone()
        theirs = Timed(lambda: database.execute(SQL).fetchall(), time.perf_counter)
        for _ in range(repeats):
            ours.run()
            theirs.run()
    apart = difference(simulated(query, values, 0.0), theirs.result)
    note = (
        f"{tuples / ours.seconds:.3g} tuples per second, DuckDB {tuples / theirs.seconds:.3g} "
        f"with {threads[0] if threads else '?'} threads; {len(query.sets)} grouping sets"
    )
    ratio = theirs.seconds / ours.seconds
    return [
        Result(name, ratio, "×", DUCKDB_TARGET, "at least", note),
        Result("difference of the answers", apart, "", ROUNDING, "at most", "without lies"),
    ]


def growth(sizes: list[int], repeats: int) -> list[Result]:
    query = Query(sql=SQL, table="patients", columns=COLUMNS)
    timed = []
    for size in sizes:
        values = encoded(query, size)
        timed.append(Timed(lambda values=values: simulated(query, values, SAMPLING)))  # type: ignore[misc]
    for _ in range(repeats):
        for each in timed:
            each.run()
    exponent = float(np.polyfit(np.log(sizes), np.log([each.seconds for each in timed]), 1)[0])
    note = ", ".join(
        f"{each.seconds:.3g} s for {size:,}" for each, size in zip(timed, sizes, strict=True)
    )
    return [Result("growth with the tuples", exponent, "", GROWTH_TARGET, "at most", note)]


def double_sum(targets: int, sampling: float, sources: int, dummies: int, epsilon: float) -> float:
    """δ by the formula of the theory page, term by term."""
    odds = math.exp(epsilon)
    centre, reach = (sources - 1) * sampling, math.sqrt((sources - 1) * sampling * (1 - sampling))
    lies = np.arange(
        max(0, math.floor(centre - DEVIATIONS * reach)),
        min(sources - 1, math.ceil(centre + DEVIATIONS * reach)) + 1,
    )
    total, chances = 0.0, binom.pmf(lies, sources - 1, sampling)
    for lie, chance in zip(lies, chances.tolist(), strict=True):
        size = int(lie) + dummies + 1
        middle, width = 2 * size / targets, math.sqrt(2 * size / targets * (1 - 2 / targets))
        both = np.arange(
            max(1, math.floor(middle - DEVIATIONS * width)),
            min(size, math.ceil(middle + DEVIATIONS * width)) + 1,
        )
        shift = size * sampling * (odds - 1) / ((1 - sampling) * targets)
        # Beyond all of them there is nothing left.
        least = np.minimum(np.floor((shift + odds * both) / (1 + odds)), both)
        terms = (1 + odds) * both / 2 * bdtrc(least - 1, both - 1, 0.5)
        terms -= (odds * both + shift) * bdtrc(least, both, 0.5)
        inside = float(binom.pmf(both, size, 2 / targets) @ np.maximum(terms, 0.0))
        total += chance * (1 - sampling) * targets * inside / size
    return total


def accountant(sources: int, repeats: int) -> list[Result]:
    ScramblerProfile(TARGETS, SAMPLING, 100, 100).epsilon(DELTA)  # compiles
    # Another number of dummies each time: nothing may be remembered.
    numbers = iter(range(sources, sources + repeats))
    ours = Timed(lambda: ScramblerProfile(TARGETS, SAMPLING, sources, next(numbers)).epsilon(DELTA))
    for _ in range(repeats):
        ours.run()
    profile = ScramblerProfile(TARGETS, SAMPLING, sources, sources)
    epsilon = profile.epsilon(DELTA)
    calls = 0

    def curve(at: float) -> float:
        nonlocal calls
        calls += 1
        return math.log(max(profile.delta(at), 1e-300) / DELTA)

    brentq(curve, epsilon / 4, 4 * epsilon, rtol=1e-9)
    theirs = Timed(lambda: double_sum(TARGETS, SAMPLING, sources, sources, epsilon))
    theirs.run()
    apart = abs(profile.epsilon(theirs.result) - epsilon)
    ratio = calls * theirs.seconds / ours.seconds
    note = (
        f"{ours.seconds:.3g} s for ε = {epsilon:.4g}; {calls} double sums of {theirs.seconds:.3g} s"
    )
    return [
        Result("speed, accountant over double sum", ratio, "×", SUM_TARGET, "at least", note),
        Result("difference of ε", apart, "", ACCOUNTED, "at most", "at the δ of the double sum"),
    ]


def main() -> int:
    def whole(text: str) -> int:
        return int(float(text))

    parser = argparse.ArgumentParser(description="Scrambled queries beside DuckDB and plain sums.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--tuples", type=whole, default=10**6, help="of the query")
    parser.add_argument("--repeats", type=int, default=5, help="the best time counts")
    parser.add_argument("--sources", type=whole, default=10**5, help="of the accountant")
    options = parser.parse_args()
    print("beside a database", file=sys.stderr)
    results = beside_database(options.tuples, options.repeats)
    print("growth", file=sys.stderr)
    sizes = [options.tuples // 10, options.tuples, 4 * options.tuples]
    results += growth(sizes, options.repeats)
    print("accountant", file=sys.stderr)
    results += accountant(options.sources, options.repeats)
    setting = {"tuples": options.tuples, "sources of the accountant": options.sources}
    times = "wall time beside DuckDB, else processor time"
    return show(results, setting, options.format, times)


if __name__ == "__main__":
    sys.exit(main())
