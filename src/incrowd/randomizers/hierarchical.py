"""Levels of a tree over ordered categories: each report is about one level.

Quantiles ask for sums of many neighbouring frequencies, whose errors add up. Here the categories
are leaves of a tree in which each node has ``branching`` children. A device draws a level, whatever
its category is, and reports the node of its category on that level: by k-ary response where the
level has few nodes, by optimised unary encoding where it has many (more than 3·E + 2 of them, where
that errs less). A sum of neighbouring frequencies is then one of few nodes.

Law. This is one of several randomizers (``one_of``), of values that a tree ties together. Two
categories under different top nodes differ on all levels, so they attain the mixture of the laws of
the levels, which dominates all pairs. Proofs: ``docs/theory/channel.md``.

Estimate. Let u hold, level by level, the share of all reports that support each node. E[u] = Pᵀf
with P[x, v] = π·q for a node v and π·p for that of x, where π is the chance of the level. As for a
channel, f̂ = A·u with A = (P·M⁻¹·Pᵀ)⁻¹·P·M⁻¹, M the second moments of one report's supports at even
frequencies: it combines all levels with the least variance there. Given the data its covariance is
(A·M(f)·Aᵀ − diag(f))/n.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.randomizers import _inputs
from incrowd.randomizers._categorical import Categorical
from incrowd.randomizers.base import Estimate, FloatArray, Reports
from incrowd.randomizers.law import PairLaw
from incrowd.randomizers.response import KRR
from incrowd.randomizers.unary import OUE

if TYPE_CHECKING:
    from incrowd.randomizers.one_of import OneOf

_MOST = 1024
"""The estimate solves a system of this many equations."""


class Hierarchical(Categorical, frozen=True, dict=True, tag="hierarchical"):
    """A node of one level of a tree with ``branching`` children per node, the level at random.

    The order of the categories is that of their codes. All levels are equally likely.
    """

    branching: int = 4

    joint: ClassVar[bool] = True
    nested: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        branching = checks.integer(self.branching, "branching", 2)
        msgspec.structs.force_setattr(self, "branching", branching)
        if self.categories > _MOST:
            raise InvalidParameter(
                f"categories must be at most {_MOST} for a hierarchical randomizer, got "
                f"{self.categories}: use fewer bins",
                field="categories",
            )

    @cached_property
    def spans(self) -> tuple[int, ...]:
        """Number of leaves under a node of each level, from the top.

        The top level has up to half as many nodes more than the others have children: a level of
        two or three nodes above it would not be worth its share of the reports.
        """
        found = [1]
        while -(-self.categories // found[-1]) > 1.5 * self.branching:
            found.append(found[-1] * self.branching)
        return tuple(reversed(found))

    @cached_property
    def _parts(self) -> tuple[KRR | OUE, ...]:
        few = 3 * math.exp(self.epsilon) + 2
        nodes = [-(-self.categories // span) for span in self.spans]
        return tuple(
            (KRR if count <= few else OUE)(epsilon=self.epsilon, categories=count)
            for count in nodes
        )

    @cached_property
    def levels(self) -> OneOf:
        """The randomizers of the levels, one of which is drawn."""
        from incrowd.randomizers.one_of import OneOf  # imported late: it may draw trees itself

        return OneOf(self._parts)

    @property
    def report_bytes(self) -> int:
        """Size of the number of a level and the longest of their reports."""
        return self.levels.report_bytes

    def randomize(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """Draw a level and a report about the node of each code."""
        codes = _inputs.codes(values, self.categories, rng)
        return self.levels.randomize(codes.astype(np.int64)[:, None] // np.array(self.spans), rng)

    def estimate(self, reports: Reports) -> Estimate:
        """Estimate the frequencies of the leaves from the supports of nodes on all levels."""
        own = self.levels.split(reports)
        supports = [_support(part, each) for part, each in zip(self._parts, own, strict=True)]
        value = self._inverse @ np.concatenate(supports) / len(reports)
        likely = Estimate(value, np.zeros_like(value), len(reports)).on_simplex()
        variance = np.diag(self.frequency_covariance(likely)) / len(reports)
        return Estimate(value, np.maximum(variance, 0.0), len(reports))

    def frequency_covariance(self, frequencies: FloatArray) -> FloatArray:
        """Return A·M(f)·Aᵀ − diag(f)."""
        spread = self._inverse @ self._moments(frequencies) @ self._inverse.T
        return np.asarray(spread - np.diag(frequencies))

    def noise(self) -> float:
        even = np.full(self.categories, 1 / self.categories)
        return math.sqrt(float(np.mean(np.diag(self.frequency_covariance(even)))))

    def _moments(self, frequencies: FloatArray) -> FloatArray:
        """Second moments of one report's supports: blocks, since a report is about one level."""
        sizes = [part.categories for part in self._parts]
        moments, start = np.zeros((sum(sizes), sum(sizes))), 0
        for part, chance, nodes in zip(
            self._parts, self.levels.chances, self._nodes(frequencies), strict=True
        ):
            end = start + nodes.size
            moments[start:end, start:end] = chance * part.support_moments(nodes)
            start = end
        return moments

    def _nodes(self, frequencies: FloatArray) -> list[FloatArray]:
        return [np.add.reduceat(frequencies, np.arange(0, self.categories, s)) for s in self.spans]

    @cached_property
    def _inverse(self) -> FloatArray:
        """The matrix A of the estimate."""
        leaves = np.arange(self.categories)
        blocks = []
        for part, chance, span in zip(self._parts, self.levels.chances, self.spans, strict=True):
            p, q = part.support_probabilities()
            own = leaves[:, None] // span == np.arange(part.categories)
            blocks.append(chance * np.where(own, p, q))
        supports = np.hstack(blocks)
        even = np.full(self.categories, 1 / self.categories)
        weighted = np.linalg.solve(self._moments(even), supports.T).T
        return np.asarray(np.linalg.solve(weighted @ supports.T, weighted))

    def local_delta(self, epsilon: float) -> float:
        """Return that of categories which differ on all levels."""
        return self.levels.local_delta(epsilon)

    def blanket(self) -> PairLaw:
        """Return that of categories which differ on all levels."""
        return self.levels.blanket()

    def attack(self) -> tuple[PairLaw, ...]:
        """Mix attacks on the levels, which one category of all others makes.

        On levels of few nodes the others are at x1, at x0 or at a third node, on those below at a
        third one: people who share a node need not share its children.
        """
        return self.levels.attack()


def _support(part: KRR | OUE, reports: Reports) -> FloatArray:
    """Number of reports of a level that support each of its nodes."""
    if not len(reports):
        return np.zeros(part.categories)
    p, q = part.support_probabilities()
    return np.asarray((part.estimate(reports).value * (p - q) + q) * len(reports))
