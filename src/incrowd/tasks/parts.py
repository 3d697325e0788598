"""Reports to each of several questions: everybody's, or those of the people who drew it.

A device draws one part of ``one-of`` whatever its answers are, so that the people of a part are a
random sample of all: their estimate is one of everybody, with errors that cover the draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from incrowd.errors import ProtocolFailed
from incrowd.randomizers.base import Randomizer, Reports
from incrowd.randomizers.one_of import OneOf, example_of
from incrowd.tasks.base import Collected, Dummies


@dataclass(frozen=True)
class PartCollected(Collected):
    """The reports of one part: those of a random sample of the people."""

    sampled: ClassVar[bool] = True
    whole: int = 0
    """Number of people of whom they are a sample."""

    @property
    def people(self) -> int:
        return self.whole

    def pooled(self) -> Reports:
        if self.received == 0:
            raise ProtocolFailed(
                "no device drew one of the questions, so there is nothing to estimate: ask more "
                'people, or everyone all questions (ask = "all")'
            )
        return super().pooled()


def answered(
    collected: Collected, randomizer: Randomizer
) -> Iterator[tuple[Collected, Randomizer]]:
    """Yield what was collected for each question, and the randomizer of these reports."""
    several: Any = randomizer
    if randomizer.domain == "several":
        yield from zip(parts_of(collected, several), several.parts, strict=True)
    elif randomizer.domain == "joint":
        yield from zip(collected.parts, several.parts, strict=True)
    else:
        yield collected, randomizer


def parts_of(collected: Collected, randomizer: OneOf) -> tuple[Collected, ...]:
    """Return what was collected for each part; a task estimates from it with its own randomizer.

    Every part was sent by those whose report of it arrived: who never reported drew no known part.
    """
    rounds = [randomizer.split(reports) for reports in collected.rounds if len(reports)]
    dummies = _dummies(collected, randomizer)
    found = []
    for number in range(len(randomizer.parts)):
        own = tuple(each[number] for each in rounds)
        sent = sum(map(len, own))
        part = PartCollected(own, sent, dummies[number], whole=collected.people)
        found.append(part)
    return tuple(found)


def _dummies(collected: Collected, randomizer: OneOf) -> list[Dummies | None]:
    if collected.dummies is None:
        return [None] * len(randomizer.parts)
    sizes = [np.shape(part.estimand(example_of(part))) for part in randomizer.parts]
    ends = np.cumsum([0, *(int(np.prod(size)) for size in sizes)])
    center = collected.dummies.center
    return [
        Dummies(collected.dummies.share, np.asarray(center[start:end]).reshape(size))
        for (start, end), size in zip(pairwise(ends.tolist()), sizes, strict=True)
    ]
