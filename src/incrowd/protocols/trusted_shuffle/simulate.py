"""A whole population at once: in every round all randomize afresh and the reports are permuted."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from incrowd.protocols.local.simulate import draw
from incrowd.randomizers.base import Randomizer, Reports
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected


def collect(randomizer: Randomizer, values: NDArray[Any], rounds: int, seeds: Seeds) -> Collected:
    """Return everyone's reports of all rounds, each round in uniformly random order."""

    def permuted(number: int) -> Reports:
        reports = draw(randomizer, values, seeds.generator("device", number))
        return seeds.generator("shuffler", number).permutation(reports)

    return Collected(rounds=tuple(map(permuted, range(rounds))), sent=len(values) * rounds)
