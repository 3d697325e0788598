"""Expected error of an estimate, before anyone has answered.

It is read off a pilot: a few thousand public values, spread evenly over the domain, are randomized
once and handed to the randomizer's own estimator, whose variance shrinks with one over the number
of reports; where reporters are drawn at random, that variance is included. So price and estimator
cannot drift apart. It is good to a few per cent, and repeats exactly as the seed is fixed.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from incrowd.protocols.runtime.wire import public_values
from incrowd.randomizers.base import Randomizer
from incrowd.tasks.base import as_sampled

_PEOPLE = 4096
_ENTRIES = 1 << 24  # most entries of a pilot; wider randomizers get fewer people


def expected_error(
    randomizer: Randomizer, reports: float, *, sampled: bool = False
) -> float | None:
    """Return the root mean square standard error of the coordinates, from this many reports.

    None for a randomizer that cannot draw, for one too wide for a pilot in memory, and for one of
    several questions, whose answers have no unit in common.
    """
    priced = randomizer.drawable and randomizer.domain != "several"
    variance = _variance_of_one(randomizer, sampled) if priced else None
    return None if variance is None else math.sqrt(variance / reports)


def error_if_drawn(
    error: float | None, randomizer: Randomizer, chance: float, *, sampled: bool
) -> float | None:
    """Return the expected error of a question that each person draws with this chance.

    ``error`` is that of everyone's answer, which covers the draw of people already if ``sampled``.
    """
    everyone, drawn = (_variance_of_one(randomizer, each) for each in (sampled, True))
    if error is None or everyone is None or drawn is None:
        return None
    return error * math.sqrt(drawn / (everyone * chance))


@lru_cache(maxsize=64)
def _variance_of_one(randomizer: Randomizer, sampled: bool) -> float | None:
    width = int(getattr(randomizer, "categories", getattr(randomizer, "dimension", 1)))
    people = min(_PEOPLE, _ENTRIES // width)
    if people < 64:
        return None
    rng = np.random.default_rng(0)
    values = public_values(randomizer, people)
    if sampled:  # In random order, as a sample comes.
        values = rng.permutation(values)
    reports = randomizer.randomize(values, rng)
    estimate = randomizer.estimate(reports)
    estimate = as_sampled(estimate, reports, randomizer) if sampled else estimate
    return float(np.mean(randomizer.priced(estimate))) * people
