"""What the compute nodes of a query have counted, and how much of the data reached them.

A grouping set has a *cell* for every combination of values of its columns; each compute node folds
the tuples of its cells into a few numbers per cell, and nothing else of a tuple goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from incrowd.randomizers.base import FloatArray
from incrowd.tasks.base import Collected


@dataclass(frozen=True)
class Folded:
    """The cells of one grouping set, or those of one compute node, in order.

    ``total``, ``least``, ``most`` and ``spread`` have an array per measure, the numeric columns
    that are aggregated: whole numbers for columns of whole numbers, so that sums of them are exact.
    ``spread`` is the sum of squared deviations from the cell's mean. The numbers of an empty cell
    are zero.
    """

    count: NDArray[np.int64]
    total: tuple[NDArray[Any], ...]
    least: tuple[NDArray[Any], ...]
    most: tuple[NDArray[Any], ...]
    spread: tuple[FloatArray, ...]

    @staticmethod
    def joined(parts: Sequence[Folded]) -> Folded:
        """The cells of several compute nodes, one after the other."""

        def beside(name: str) -> tuple[NDArray[Any], ...]:
            columns = zip(*(getattr(part, name) for part in parts), strict=True)
            return tuple(np.concatenate(column) for column in columns)

        return Folded(
            count=np.concatenate([part.count for part in parts]),
            total=beside("total"),
            least=beside("least"),
            most=beside("most"),
            spread=beside("spread"),
        )


@dataclass(frozen=True, kw_only=True)
class Tabulated(Collected):
    """The folded cells of every grouping set.

    ``present`` counts, per set, the people whose message reached a scrambler, or a compute node
    where there are none. ``kept`` is the chance, per set, that a tuple of theirs is among those
    that were folded: whether it is does not depend on what it says. ``noise`` is the variance of
    what a differentially private release added to each number of a set: that of a count, then those
    of the totals; empty where nothing was added. ``traffic`` is what an observer of the network
    counts: per set the messages from each scrambler (or person) to each compute node; empty where
    the result has noise, so that whoever is given it learns nothing else. ``lost`` names, per set,
    the cells whose compute node never answered: what is in them is unknown, and not zero.
    """

    folded: tuple[Folded, ...]
    present: tuple[int, ...]
    kept: tuple[float, ...]
    noise: tuple[tuple[float, ...], ...]
    traffic: tuple[NDArray[np.int64], ...]
    lost: tuple[NDArray[np.int64], ...] = ()

    def __repr__(self) -> str:
        """How many tuples arrived, without what they say."""
        return f"Tabulated({sum(self.crowds)} tuples in {len(self.folded)} grouping sets)"

    @property
    def crowds(self) -> tuple[int, ...]:
        """The tuples behind each grouping set."""
        return tuple(int(each.count.sum()) for each in self.folded)

    @property
    def received(self) -> int:
        """Messages that arrived, whether or not there was a tuple in them."""
        return min(self.sent, sum(self.present))

    @property
    def people(self) -> int:
        """How many people took part."""
        return max(self.present)
