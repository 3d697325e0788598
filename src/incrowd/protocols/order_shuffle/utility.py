"""Utility of an order-private shuffle, in people, ranks and kilometres.

* Preservation: which share of the reports inside a set of people comes from that same set. For the
  Hamming law it has a closed form (:mod:`.theorems.preservation`); for the Kendall law it is
  simulated.
* Meaning: how large groups are, how many ranks a report moves, how far away in space that is, and
  how often a report stays in the group that its place belongs to.

Invariant: what is simulated says so, and nothing here is a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.groupings.balls import METRICS
from incrowd.protocols.order_shuffle.groupings.base import Grouping
from incrowd.protocols.order_shuffle.groupings.geo import apart
from incrowd.protocols.order_shuffle.orders.reference import ReferenceOrder
from incrowd.protocols.order_shuffle.samplers import kendall
from incrowd.protocols.order_shuffle.samplers.hamming import expected_moved, hamming_permutation
from incrowd.protocols.order_shuffle.theorems.displacement import expected_displacement
from incrowd.protocols.order_shuffle.theorems.preservation import tolerated
from incrowd.randomness import Seeds

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

_ASKED: Final = 400
"""People who are looked up in their groups, whose lists can be long."""
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class Preservation:
    """Reports inside a set that came from that set, in each of several simulated draws."""

    size: int
    """People in the set."""
    kept: tuple[int, ...]
    """Reports of theirs that came from the set, draw by draw."""

    @property
    def minimum(self) -> float:
        """The smallest share of all draws."""
        return min(self.kept) / self.size

    @property
    def mean(self) -> float:
        """The mean share."""
        return sum(self.kept) / (len(self.kept) * self.size)

    def delta(self, eta: float) -> tuple[float, float]:
        """95 % interval of Clopper and Pearson for the chance that less than ``eta`` stays."""
        least = self.size - tolerated(self.size, eta)
        trials = len(self.kept)
        lost = sum(kept < least for kept in self.kept)
        tail = (1 - _CONFIDENCE) / 2
        low = float(betaincinv(lost, trials - lost + 1, tail)) if lost else 0.0
        high = float(betaincinv(lost + 1, trials - lost, 1 - tail)) if lost < trials else 1.0
        return low, high

    def words(self) -> str:
        """The smallest share, with what it is."""
        return (
            f"at least {self.minimum:.1%} of the {self.size} reports stayed among them in each of"
            f" {len(self.kept)} simulated draws (an estimate)"
        )


def preservation_of_people(
    order: ReferenceOrder, people: ArrayLike, theta: float, *, trials: int = 50, seed: int = 0
) -> Preservation:
    """Kendall preservation of any set of people, by simulation."""
    chosen = np.unique(np.asarray(people, dtype=np.int64))
    n = len(order.people)
    if not chosen.size or chosen[0] < 0 or chosen[-1] >= n:
        raise InvalidCrowd(f"people must be some of 0 to {n - 1}")
    inside = np.zeros(n, dtype=np.bool_)
    inside[chosen] = True
    inside, seeds = inside[order.people], Seeds(seed)
    kept = []
    for trial in range(checks.integer(trials, "trials", 1)):
        rng = seeds.generator("order-preservation", trial)
        tau = kendall.kendall_permutation(inside.size, theta, rng)
        kept.append(int(np.count_nonzero(inside & inside[tau])))
    return Preservation(int(np.count_nonzero(inside)), tuple(kept))


_PRACTICALLY = 0.8
"""From this share of what a uniform shuffle moves on, there is next to no order left."""
_HARDLY = 0.1
"""Ranks; below, next to nobody gets another's report."""


@dataclass(frozen=True)
class Meaning:
    """Effect of θ in people, ranks and space."""

    people: int
    groups: str
    median_group: float
    largest_group: int
    moved: float
    """Expected number of people with a report that is not theirs; Hamming only, else n."""
    displacement: float
    """Expected number of ranks that a report moves."""
    stayed: float
    """The share of people who got a report of their own group: an estimate from one draw."""
    asked: int
    """People of whom that is the share."""
    median_distance: float | None = None
    """Between a place and where its report came from: an estimate from one draw."""
    most_distance: float | None = None
    """The same, for nine in ten people."""
    unit: str = ""

    def words(self) -> tuple[str, ...]:
        """Sentences for readers."""
        told = [
            f"groups: {self.groups}; the median one has {_people(self.median_group)}, the largest"
            f" {_people(self.largest_group)}"
        ]
        if self.displacement == 0:
            return (*told, "every report stays at its place")
        told.append(
            f"a report is expected to move by {_short(self.displacement)} of {self.people:,} ranks;"
            f" a uniform shuffle moves it by {_short(self.people / 3)}"
        )
        if self.displacement > _PRACTICALLY * self.people / 3:
            told.append(
                "that is practically a uniform shuffle: for more of a map take smaller groups, "
                "groups that do not overlap (squares, labels), or a larger alpha"
            )
        elif self.displacement < _HARDLY:
            told.append("that is practically no shuffle: most reports stay at their places")
        if self.moved < self.people:
            told.append(
                f"{_short(self.moved)} of {self.people:,} people are expected to get a report that"
                " is not theirs"
            )
        told.append(
            f"in a trial draw {self.stayed:.0%} of {self.asked:,} people got a report of their own"
            " group (an estimate)"
        )
        if self.median_distance is not None and self.most_distance is not None:
            told.append(
                f"in a trial draw half of all reports came from within"
                f" {_short(self.median_distance)}{self.unit} of where they are shown, and nine in"
                f" ten from within {_short(self.most_distance)}{self.unit} (an estimate)"
            )
        return tuple(told)


def meaning(
    grouping: Grouping,
    order: ReferenceOrder,
    theta: float,
    distance: str = "kendall",
    *,
    points: ArrayLike | None = None,
    metric: str | None = None,
    seed: int = 0,
) -> Meaning:
    """Describe the effect of a shuffle with this θ, partly from one seeded draw.

    ``points`` are the places of people, as rows of coordinates; for the metric "haversine" latitude
    and longitude in degrees, with distances in kilometres.
    """
    n = grouping.n
    rng = Seeds(seed).generator("order-meaning")
    hamming = distance == "hamming"
    draw = hamming_permutation if hamming else kendall.kendall_permutation
    sources = kendall.conjugated(order.people, draw(n, theta, rng))
    asked = rng.permutation(n)[:_ASKED]
    found: dict[str, float] = {}
    if points is not None:
        apart = _apart(points, sources, metric or "euclidean")
        found = {
            "median_distance": float(np.median(apart)),
            "most_distance": float(np.quantile(apart, 0.9)),
        }
    return Meaning(
        people=n,
        groups=grouping.words,
        median_group=float(np.median(grouping.sizes)),
        largest_group=grouping.largest,
        moved=expected_moved(n, theta) if hamming else float(n),
        displacement=expected_displacement(n, theta, distance),
        stayed=_stayed(grouping, asked.tolist(), sources),
        asked=asked.size,
        unit=" km" if metric == "haversine" else "",
        **found,
    )


def _stayed(grouping: Grouping, asked: Sequence[int], sources: IntArray) -> float:
    """Share of these people with a report of their group."""
    by_group: dict[int, list[int]] = {}
    for person in asked:
        by_group.setdefault(grouping.group_of(person), []).append(person)
    stayed = (np.isin(sources[who], grouping.group(index)) for index, who in by_group.items())
    return sum(int(each.sum()) for each in stayed) / len(asked)


def _apart(points: ArrayLike, sources: IntArray, metric: str) -> FloatArray:
    """Distance of each place from the place whose report it gets."""
    if metric not in METRICS:
        raise InvalidParameter(
            f"metric: {metric!r} is not known; {checks.did_you_mean(str(metric), METRICS)}"
        )
    here = np.asarray(points, dtype=np.float64)
    here = here[:, None] if here.ndim == 1 else here
    if len(here) != sources.size:
        raise InvalidCrowd(f"points are of {len(here)} people, but the groups have {sources.size}")
    there = here[sources]
    if metric == "euclidean":
        return np.asarray(np.sqrt(((here - there) ** 2).sum(axis=1)))
    return apart(here, there)


def _people(count: float) -> str:
    return "1 person" if count == 1 else f"{_short(count)} people"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or not math.isfinite(value) else f"{value:.3g}"
