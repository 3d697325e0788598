"""A whole population at once: each round everyone flips their coin, and those in are shuffled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import ProtocolFailed
from incrowd.protocols.local.simulate import draw
from incrowd.randomizers.base import Randomizer, Reports
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected


@dataclass(frozen=True, repr=False)
class CheckedIn(Collected):
    """Reports of the rounds that were held; an empty round is part of what is seen.

    ``present`` counts the people of each who were heard of, also those who stayed away by their
    coin; without dummies, everyone. ``sent`` counts the reports that reached the shuffler,
    ``unheld`` the rounds that it closed without enough people.
    """

    sampled: ClassVar[bool] = True

    present: tuple[int, ...] = ()
    unheld: int = 0

    @property
    def smallest_crowd(self) -> int:
        """Number of people in the round that had the fewest, whatever their coins said."""
        return min(self.present, default=0)

    @property
    def people(self) -> int:
        """Number of people who were there, in a round or not."""
        return max(self.present, default=0)

    def first(self, rounds: int) -> Self:
        kept = self.rounds[:rounds]
        return replace(
            self, rounds=kept, sent=sum(map(len, kept)), present=self.present[:rounds], unheld=0
        )

    def pooled(self) -> Reports:
        if self.received == 0:
            raise ProtocolFailed(
                f"nobody took part in any of {len(self.rounds)} rounds, so there is nothing to "
                "estimate: raise the rate, the rounds or the number of people"
            )
        return super().pooled()


def collect(
    randomizer: Randomizer,
    values: NDArray[Any],
    rates: NDArray[np.float64],
    rounds: int,
    seeds: Seeds,
) -> CheckedIn:
    """Return the reports of those who were in, round by round, each in uniformly random order."""
    found = []
    for number in range(rounds):
        joins = np.nonzero(seeds.generator("coin", number).random(len(values)) < rates)[0]
        order = seeds.generator("shuffler", number).permutation(joins)
        # Randomizing in a random order is as good as permuting the reports.
        found.append(draw(randomizer, values[order], seeds.generator("device", number)))
    return CheckedIn(tuple(found), sum(map(len, found)), present=(len(values),) * rounds)
