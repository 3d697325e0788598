"""The check-in accountant beside the plain way to the same numbers, in one run.

1. A thousand rounds of a million people, against the pair built point by point and composed by
   ``dp_accounting``. The points grow with the 1.5th power of the crowd, so that way cannot reach a
   million: the crowd is doubled while the next size is expected to end within the time limit, and
   the largest that was managed is compared as it is, without extrapolation. At that size both must
   name the same ε. The largest takes about 8 GB of memory; a lower limit stops before it.
2. Growth: our time for a hundred times the people, and for a hundred times the rounds.

Both use one process; times are processor times, ours the best of several runs. The exit code is 1
when a target is missed.

    python benchmarks/check_in.py [--format json] [--repeats 5] [--limit 120]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from comparisons import Comparison, show

from incrowd.privacy import ComposedProfile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.randomizers import Generic

EPSILON = 2.0
RATE = 0.01
DELTA = 1e-6
ROUNDS = 1000
PEOPLE = 10**6
GRID = 1e-7
"""Coarser grids save the other way little time and, rounded up a thousand times, cost it its ε."""
DEVIATIONS = 9.5
"""What is further than this from the mean of a count is left out and charged to δ."""
FIRST = 2_500
"""The crowd with which the other way starts."""
POWER = 1.5
SAME = 1e-4
"""How far, relatively, our ε may be above the plain one; below it by what that one rounds up."""


def our_epsilon(n: int, rounds: int) -> float:
    """Afresh: what an earlier run kept must not count."""
    blanket_profile.cache_clear()
    one_round = blanket_profile(Generic(epsilon=EPSILON), n, RATE)
    return ComposedProfile(((one_round, rounds),)).epsilon(DELTA)


def timed(work: Callable[[], float], repeats: int) -> tuple[float, float]:
    """The best processor time, and the answer."""
    best, found = math.inf, math.nan
    for _ in range(repeats):
        start = time.process_time()
        found = work()
        best = min(best, time.process_time() - start)
    return best, found


def window(n: int, chance: float) -> range:
    """The counts of a binomial near its mean, and one more for the victim."""
    reach = DEVIATIONS * math.sqrt(n * chance) + 12
    return range(max(0, math.floor(n * chance - reach)), min(n, math.ceil(n * chance + reach)) + 2)


def point_by_point(n: int) -> float:
    """A thousand rounds: the two laws of (zeros, ones, revealed), given to dp-accounting.

    Others say 0 or 1 with probability γ/(E + 1) each and reveal their report with γ(E − 1)/(E + 1);
    the victim says 0 or 1 with γE/(E + 1) and γ/(E + 1), or the reverse. What is left is silence.
    """
    from dp_accounting.pld import privacy_loss_distribution
    from scipy.special import gammaln

    E = math.exp(EPSILON)
    says, reveals = RATE / (E + 1), RATE * (E - 1) / (E + 1)
    counts, revealed = np.arange(window(n, says)[0], window(n, says)[-1] + 1), window(n, reveals)
    zeros, ones = (each.ravel() for each in np.meshgrid(counts, counts, indexing="ij"))
    upper: dict[Any, float] = {}
    lower: dict[Any, float] = {}
    for shown in revealed:
        silent = n - zeros - ones - shown
        chance = (
            gammaln(n + 1.0) - gammaln(zeros + 1.0) - gammaln(ones + 1.0) - gammaln(shown + 1.0)
            - gammaln(silent + 1.0) + (zeros + ones) * math.log(says)
            + shown * math.log(reveals) + silent * math.log1p(-RATE)
        )  # fmt: skip
        likely = chance > -46.0
        a, b, quiet, kept = zeros[likely], ones[likely], silent[likely], chance[likely]
        keys = zip(a.tolist(), b.tolist(), [shown] * a.size, strict=True)
        first = (kept + np.log((E * a + b + quiet) / n)).tolist()
        second = (kept + np.log((a + E * b + quiet) / n)).tolist()
        for key, p, q in zip(keys, first, second, strict=True):
            upper[key] = p
            lower[key] = q
    missing = 1 - math.fsum(map(math.exp, upper.values()))
    if missing > 0:
        upper["outside"] = math.log(missing)
    one_round = privacy_loss_distribution.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=GRID
    )
    return float(one_round.self_compose(ROUNDS).get_epsilon_for_delta(DELTA))


def largest(limit: float) -> tuple[int, float, float]:
    """The largest crowd that the other way manages within the limit, its seconds and its ε."""
    n = FIRST
    while True:
        seconds, epsilon = timed(lambda n=n: point_by_point(n), 1)  # type: ignore[misc]
        print(f"point by point: n = {n:,}, {seconds:.1f} s", file=sys.stderr)
        if seconds * 2**POWER > limit:
            return n, seconds, epsilon
        n *= 2


def measure(repeats: int, limit: float) -> list[Comparison]:
    our_epsilon(1000, 2)  # imports what it needs
    seconds, epsilon = timed(lambda: our_epsilon(PEOPLE, ROUNDS), repeats)
    n, their_seconds, their_epsilon = largest(limit)
    _, same_size = timed(lambda: our_epsilon(n, ROUNDS), 1)
    agrees = their_epsilon - ROUNDS * GRID <= same_size <= their_epsilon * (1 + SAME)
    ratio = their_seconds / seconds
    found = [
        Comparison(
            f"n = {PEOPLE:,}, {ROUNDS} rounds", f"point by point, n = {n:,}", seconds,
            their_seconds, epsilon, math.nan, ratio, 20.0, "at least", ratio >= 20,
        ),
        Comparison(
            f"the same ε at n = {n:,}", "point by point", math.nan, their_seconds,
            same_size, their_epsilon, same_size / their_epsilon, 1.0, "about", agrees,
        ),
    ]  # fmt: skip
    for name, work, target in (
        (f"n = {100 * PEOPLE:,}, {ROUNDS} rounds", (100 * PEOPLE, ROUNDS), 20.0),
        (f"n = {PEOPLE:,}, {100 * ROUNDS} rounds", (PEOPLE, 100 * ROUNDS), 40.0),
    ):
        more, grown = timed(lambda work=work: our_epsilon(*work), repeats)  # type: ignore[misc]
        ratio = more / seconds
        found.append(
            Comparison(
                name, f"ours, n = {PEOPLE:,}, {ROUNDS} rounds", more, seconds, grown, epsilon,
                ratio, target, "at most", ratio <= target,
            )
        )  # fmt: skip
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The check-in accountant beside the plain way.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--repeats", type=int, default=5, help="how often to repeat; best counts")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for the other way")
    options = parser.parse_args()
    found = measure(options.repeats, options.limit)
    setting = {"epsilon0": EPSILON, "rate": RATE, "delta": DELTA}
    return show(found, setting, options.format)


if __name__ == "__main__":
    sys.exit(main())
