"""A whole population at once: everyone randomizes afresh in every round.

The law is that of the actors; only the order of drawing differs. Values are randomized in slices,
because a randomizer's temporaries can be many times larger than its reports.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers.base import Randomizer, Reports
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected

_SLICE = 1 << 18


def draw(randomizer: Randomizer, values: NDArray[Any], rng: np.random.Generator) -> Reports:
    """Draw one report per value; the result depends on the stream alone, not on the machine."""
    first = randomizer.randomize(values[:_SLICE], rng)
    if len(values) <= _SLICE:
        return first
    reports = np.empty((len(values), *first.shape[1:]), first.dtype)
    reports[:_SLICE] = first
    for start in range(_SLICE, len(values), _SLICE):
        reports[start : start + _SLICE] = randomizer.randomize(values[start : start + _SLICE], rng)
    return reports


def collect(randomizer: Randomizer, values: NDArray[Any], rounds: int, seeds: Seeds) -> Collected:
    """Return everyone's reports of all rounds; nothing is lost in memory."""
    streams = (seeds.generator("device", number) for number in range(rounds))
    found = tuple(draw(randomizer, values, stream) for stream in streams)
    return Collected(rounds=found, sent=len(values) * rounds)
