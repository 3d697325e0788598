"""What reporting costs, and what error to expect, before anyone has answered.

The expected error is read off a pilot: a few thousand public values, spread evenly over what the
randomizer takes, are randomized once and handed to its own estimator, whose variance shrinks with
one over the number of reports. Where who reports is drawn at random, the luck of that is in it too.
Every randomizer that can draw is priced by the same code that will estimate, so price and estimator
cannot drift apart. It is an estimate, good to a few per cent, and repeats exactly because the
pilot's seed is fixed.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from incrowd.protocols.runtime.wire import public_values
from incrowd.randomizers.base import Randomizer
from incrowd.tasks.base import as_sampled

_PEOPLE = 4096
_ENTRIES = 1 << 24
"""No pilot estimates more than this many entries; wider randomizers get fewer people."""


def expected_error(
    randomizer: Randomizer, reports: float, *, sampled: bool = False
) -> float | None:
    """The root mean square standard error of the coordinates, from this many reports.

    None for a randomizer that cannot draw, and for one so wide that even a pilot of a few people
    would not fit in memory.
    """
    if not randomizer.drawable:
        return None
    variance = _variance_of_one(randomizer, sampled)
    return None if variance is None else math.sqrt(variance / reports)


@lru_cache(maxsize=64)
def _variance_of_one(randomizer: Randomizer, sampled: bool) -> float | None:
    width = int(getattr(randomizer, "categories", getattr(randomizer, "dimension", 1)))
    people = min(_PEOPLE, _ENTRIES // width)
    if people < 64:
        return None
    rng = np.random.default_rng(0)
    values = public_values(randomizer, people)
    # In random order, as a sample comes.
    reports = randomizer.randomize(rng.permutation(values) if sampled else values, rng)
    estimate = randomizer.estimate(reports)
    if sampled:
        estimate = as_sampled(estimate, reports, randomizer)
    return float(np.mean(randomizer.priced(estimate))) * people
