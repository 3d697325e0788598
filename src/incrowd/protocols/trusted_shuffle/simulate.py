"""A whole population at once: in every round all randomize afresh and the reports are permuted."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from incrowd.protocols.local.simulate import draw
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected


def collect(randomizer: Randomizer, values: NDArray[Any], rounds: int, seeds: Seeds) -> Collected:
    """Everyone's reports of all rounds, each round in uniformly random order."""
    return Collected(
        rounds=tuple(
            seeds.generator("shuffler", number).permutation(
                draw(randomizer, values, seeds.generator("device", number))
            )
            for number in range(rounds)
        ),
        sent=len(values) * rounds,
    )
