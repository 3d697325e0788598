"""Sampling of the participants of a round: everyone by an own coin, or one person at a time.

With a number for a rate, each person is in with that chance, independently (Poisson sampling).
With the rate ``"one"`` exactly one person is in, drawn uniformly from all of them, however often
they were in before: so goes a token. With a ``cap``, a person who was in that often is left out
when drawn again; the channel says what an empty round does.

The participants depend on the root seed and the round alone, never on data.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomness import Seeds

Rate = float | Literal["one"]
_BLOCK = 1024
"""Rounds whose one person is drawn together. Results depend on it: the streams do."""


def check_rate(rate: Rate) -> float | None:
    """Return the chance to be in a round; None where one person is drawn."""
    if not isinstance(rate, str):
        return checks.rate(rate)
    if rate != "one":
        wanted = "a number above 0 and at most 1, or 'one' for one person each round"
        raise InvalidParameter(f"rate must be {wanted}, got {rate!r}", field="rate")
    return None


class Participants:
    """People of each round, asked for in the order of the rounds or again from the start."""

    def __init__(self, seeds: Seeds, people: int, rate: Rate, cap: int | None = None) -> None:
        self._seeds, self._people, self._cap = seeds, people, cap
        self._rate = check_rate(rate)
        self._times = np.zeros(0 if cap is None else people, np.int64)
        self._counted = 0

    def inside(self, number: int) -> NDArray[np.intp]:
        """Draw the people who are in round ``number``."""
        if self._cap is None:
            return self._drawn(number)
        if number < self._counted:
            self._times[:] = self._counted = 0
        while self._counted < number:
            # Rounds that were held before a checkpoint.
            self._times[self._drawn(self._counted)] += 1
            self._counted += 1
        drawn = self._drawn(number)
        return drawn[self._times[drawn] < self._cap]

    def _drawn(self, number: int) -> NDArray[np.intp]:
        if self._rate is None:
            at = number % _BLOCK
            return _holders(self._seeds.root, self._people, number // _BLOCK)[at : at + 1]
        coins = self._seeds.generator("coin", number).random(self._people)
        return np.nonzero(coins < self._rate)[0]


@lru_cache(maxsize=8)
def _holders(root: int, people: int, block: int) -> NDArray[np.intp]:
    drawn = Seeds(root).generator("holder", block).integers(people, size=_BLOCK, dtype=np.intp)
    drawn.setflags(write=False)
    return drawn
