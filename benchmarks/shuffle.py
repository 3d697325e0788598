"""The shuffle accountant beside the plain ways to the same numbers, in one run.

1. Growth: the time of the generic ε in a crowd of 1e8 over that in one of 1e6. An exact sum over
   the binomial number of clones takes 10 times as long, a sum over all counts 100 times.
2. One round: our generic ε against that exact sum, vectorised with ``scipy.stats.binom``, with the
   same search for the crossing. Both must name the same number.
3. A thousand rounds: our composition against the pair's probabilities built by hand and composed
   by ``dp_accounting`` on a grid of 1e-5. Ours must be as fast and must not be looser.

All contenders use one process; times are processor times, the best of several runs taken in turns.
The exit code is 1 when a target is missed.

    python benchmarks/shuffle.py [--format json] [--rounds 5]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from comparisons import Comparison, show
from numpy.typing import NDArray

from incrowd.privacy import ComposedProfile
from incrowd.privacy.guarantee import Profile
from incrowd.privacy.mechanisms.shuffle import blanket_profile
from incrowd.privacy.search import crossing
from incrowd.randomizers import Generic

EPSILON = 1.0
DELTA = 1e-6
ROUNDS = 1000
GRID = 1e-5
DEVIATIONS = 9.5
"""Both sums leave out what is further than this from the mean; its mass is charged to δ."""
SAME = 1e-4
"""How far, relatively, our ε may be above the plain one."""
SEARCH = 2e-7
"""How far, relatively, a search may stop above the exact crossing."""

Work = Callable[[], float]


@dataclass
class Timed:
    """A computation of an ε, and the best processor time seen."""

    work: Work
    epsilon: float = math.nan
    seconds: float = math.inf

    def run(self) -> None:
        """Do it once."""
        start = time.process_time()
        self.epsilon = self.work()
        self.seconds = min(self.seconds, time.process_time() - start)


@dataclass
class Case:
    """Two computations, the ratio of their times that is aimed at, and what to think of their ε."""

    name: str
    ours: Timed
    other: Timed
    other_name: str
    target: float
    kind: Literal["growth", "exact", "bound"]
    """The other is our own work in a smaller crowd, the exact ε, or another bound of the same."""

    @property
    def ratio(self) -> float:
        """The other's time over ours; for growth the reverse."""
        ratio = self.other.seconds / self.ours.seconds
        return 1 / ratio if self.kind == "growth" else ratio

    @property
    def agrees(self) -> bool:
        """Whether our ε is not looser than the other and, where that is exact, not below it."""
        if self.kind == "growth":
            return True
        least = self.other.epsilon * (1 - SEARCH) if self.kind == "exact" else 0.0
        return least <= self.ours.epsilon <= self.other.epsilon * (1 + SAME)

    @property
    def holds(self) -> bool:
        """Whether the target is met."""
        met = self.ratio <= self.target if self.kind == "growth" else self.ratio >= self.target
        return met and self.agrees

    def compared(self) -> Comparison:
        """The case as it is shown."""
        return Comparison(
            self.name, self.other_name, self.ours.seconds, self.other.seconds, self.ours.epsilon,
            self.other.epsilon, self.ratio, self.target,
            "at most" if self.kind == "growth" else "at least", self.holds,
        )  # fmt: skip


def _afresh(n: int) -> Profile:
    """A profile that remembers nothing: what was kept from an earlier round must not count."""
    blanket_profile.cache_clear()
    return blanket_profile(Generic(epsilon=EPSILON), n)


def our_epsilon(n: int) -> float:
    return _afresh(n).epsilon(DELTA)


def our_composed_epsilon(n: int) -> float:
    one_round = _afresh(n)
    return ComposedProfile(((one_round, ROUNDS),)).epsilon(DELTA)


def window(n: int, chance: float) -> NDArray[np.int64]:
    """The counts of a binomial near its mean."""
    reach = DEVIATIONS * math.sqrt(n * chance * (1 - chance))
    return np.arange(
        max(0, math.floor(n * chance - reach)), min(n, math.ceil(n * chance + reach)) + 1
    )


def summed_epsilon(n: int) -> float:
    """The generic ε by the exact sum over the number of clones, C ~ Bin(n − 1, 2/(E + 1)).

    Given C = c, the first of two counts is A + Bernoulli(E/(E + 1)), A ~ Bin(c, 1/2), under one
    value of the victim and A + Bernoulli(1/(E + 1)) under the other; the likelihood ratio rises
    with that count, so that the best event is a tail.
    """
    from scipy.stats import binom

    E = math.exp(EPSILON)
    chance = 2 / (E + 1)
    clones = window(n - 1, chance)
    weight = binom.pmf(clones, n - 1, chance)
    missing = binom.cdf(clones[0] - 1, n - 1, chance) + binom.sf(clones[-1], n - 1, chance)

    def delta(epsilon: float) -> float:
        t = math.exp(epsilon)
        least = np.floor((clones + 1) * (E * t - 1) / ((E - 1) * (1 + t)))
        here, above = binom.sf(least - 1, clones, 0.5), binom.sf(least, clones, 0.5)
        gain = E * here + above - t * (here + E * above)
        return float(weight @ gain) / (E + 1) + float(missing)

    guess = math.sqrt(2 * math.log(1 / DELTA) / n)
    return crossing(delta, DELTA, guess, EPSILON).within


def composed_by_hand(n: int) -> float:
    """A thousand rounds: the two laws of (count of zeros, count of ones), given to dp-accounting.

    Mass outside the window goes to an outcome that only the upper law has.
    """
    from dp_accounting.pld import privacy_loss_distribution
    from scipy.stats import binom

    E = math.exp(EPSILON)
    chance = 2 / (E + 1)
    clones = window(n - 1, chance)
    widest = math.ceil(DEVIATIONS * math.sqrt(clones[-1]) / 2)
    upper: dict[Any, float] = {}
    lower: dict[Any, float] = {}
    for c, weight in zip(clones.tolist(), binom.pmf(clones, n - 1, chance).tolist(), strict=True):
        zeros = np.arange(max(0, c // 2 - widest), min(c + 1, c // 2 + widest) + 1)
        stay, move = binom.pmf(zeros - 1, c, 0.5), binom.pmf(zeros, c, 0.5)
        keys = [(zero, c) for zero in zeros.tolist()]
        first = weight * (E * stay + move) / (E + 1)
        second = weight * (stay + E * move) / (E + 1)
        upper.update(zip(keys, np.log(first).tolist(), strict=True))
        lower.update(zip(keys, np.log(second).tolist(), strict=True))
    missing = 1 - math.fsum(map(math.exp, upper.values()))
    if missing > 0:
        upper["outside"] = math.log(missing)
    one_round = privacy_loss_distribution.from_two_probability_mass_functions(
        lower, upper, value_discretization_interval=GRID
    )
    return float(one_round.self_compose(ROUNDS).get_epsilon_for_delta(DELTA))


def cases() -> list[Case]:
    million, most = Timed(partial(our_epsilon, 10**6)), Timed(partial(our_epsilon, 10**8))
    summed = "exact sum"
    return [
        Case("one round, n = 1e8", most, million, "ours, n = 1e6", 20, "growth"),
        Case(
            "one round, n = 1e6", million, Timed(partial(summed_epsilon, 10**6)), summed, 5, "exact"
        ),
        Case(
            "one round, n = 1e8", most, Timed(partial(summed_epsilon, 10**8)), summed, 50, "exact"
        ),
        *(
            Case(
                f"{ROUNDS} rounds, n = 1e{exponent}",
                Timed(partial(our_composed_epsilon, 10**exponent)),
                Timed(partial(composed_by_hand, 10**exponent)),
                "by hand",
                1,
                "bound",
            )
            for exponent in (3, 4)
        ),
    ]


def measure(repeats: int) -> list[Case]:
    found = cases()
    contenders = list(
        {id(each): each for case in found for each in (case.ours, case.other)}.values()
    )
    for contender in contenders:
        contender.work()  # imports what it needs
    for turn in range(repeats):
        print(f"measuring, turn {turn + 1} of {repeats}", file=sys.stderr)
        for contender in contenders:
            contender.run()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="The shuffle accountant beside plain ways.")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument("--rounds", type=int, default=5, help="how often to repeat; best counts")
    options = parser.parse_args()
    found = measure(options.rounds)
    compared = [case.compared() for case in found]
    return show(compared, {"epsilon0": EPSILON, "delta": DELTA}, options.format)


if __name__ == "__main__":
    sys.exit(main())
