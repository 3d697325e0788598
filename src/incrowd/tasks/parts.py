"""Reports of people who each answered one of several questions, question by question.

A device draws one part of ``one-of`` whatever its answers are, so that the people of a part are a
random sample of all: their estimate is one of everybody, with errors that cover the draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from incrowd.randomizers.one_of import OneOf, example_of
from incrowd.tasks.base import Collected, Dummies


@dataclass(frozen=True)
class PartCollected(Collected):
    """The reports of one part: those of a random sample of the people."""

    sampled: ClassVar[bool] = True


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
        found.append(PartCollected(rounds=own, sent=sent, dummies=dummies[number]))
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
