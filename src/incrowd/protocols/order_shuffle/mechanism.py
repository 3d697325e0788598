"""The shuffle of one crowd: its groups, its reference order, and how closely it keeps to that.

Everything here is a function of public places and parameters alone, never of a report: the order is
fixed, its exact sensitivity follows, and θ is the largest that keeps the promised α.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidCrowd
from incrowd.protocols.order_shuffle.groupings import Grouping
from incrowd.protocols.order_shuffle.orders.reference import ReferenceOrder
from incrowd.protocols.order_shuffle.samplers import kendall
from incrowd.protocols.order_shuffle.samplers.exact import MOST_THETA
from incrowd.protocols.order_shuffle.samplers.hamming import hamming_permutation
from incrowd.protocols.order_shuffle.settings import Distance
from incrowd.protocols.order_shuffle.theorems import sensitivity
from incrowd.protocols.order_shuffle.theorems.alpha import alpha_of, theta_for


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A Mallows shuffle around ``order``, for α or for θ, whichever is given."""

    grouping: Grouping
    order: ReferenceOrder
    distance: Distance
    values: int | None
    """How many different values a report can take; none for any number."""
    target: float | None
    """The α that is promised; none where θ is given instead."""
    fixed: float | None = None
    """The θ that is given instead of an α."""

    def __post_init__(self) -> None:
        """Refuse an order of other people."""
        if len(self.order.people) != self.grouping.n:
            raise InvalidCrowd(
                f"order has {len(self.order.people)} people, but the groups have {self.grouping.n}",
                field="order",
            )

    @cached_property
    def sensitivities(self) -> NDArray[np.int64]:
        """How sensitive the distance is to the order inside each group."""
        return self.sensitivities_of(self.grouping, self.values)

    def sensitivities_of(self, grouping: Grouping, values: int | None = None) -> NDArray[np.int64]:
        """The same for other groups of the same people, and reports of so many values."""
        if grouping.n != self.grouping.n:
            raise InvalidCrowd(
                f"the groups must be of the same {self.grouping.n} people, got {grouping.n}"
            )
        if self.distance == "hamming":
            return sensitivity.hamming(grouping, values)
        return sensitivity.kendall(grouping, self.order.ranks, values)

    @cached_property
    def sensitivity(self) -> int:
        """The largest of them: α is θ times this."""
        return int(self.sensitivities.max(initial=0))

    @cached_property
    def width(self) -> int:
        """How far apart in the order two people of one group can be."""
        return int(sensitivity.widths(self.grouping, self.order.ranks).max(initial=0))

    @property
    def paper_sensitivity(self) -> int:
        """The bound by the width alone, which the paper uses as the sensitivity."""
        return sensitivity.paper_sensitivity(self.width)

    @cached_property
    def theta(self) -> float:
        """How closely the shuffle keeps to the order; infinite where it changes nothing."""
        if not self.sensitivity:
            return np.inf
        if self.fixed is not None:
            return min(self.fixed, MOST_THETA)
        return min(theta_for(self.target or 0.0, self.sensitivity), MOST_THETA)

    @property
    def alpha(self) -> float:
        """The promise for these groups, rounded up."""
        return alpha_of(self.theta, self.sensitivity)

    def alpha_for(self, grouping: Grouping, *, marked: bool = False) -> float:
        """The promise of the same shuffle for any other groups, after the fact.

        ``marked``: reports that say the same can be told apart, if only one's own.
        """
        other = self.sensitivities_of(grouping, None if marked else self.values)
        return alpha_of(self.theta, int(other.max(initial=0)))

    @cached_property
    def marked_alpha(self) -> float:
        """The promise where reports that say the same can be told apart, if only one's own."""
        return self.alpha if self.values is None else self.alpha_for(self.grouping, marked=True)

    def per_group(self, *, marked: bool = False) -> NDArray[np.float64]:
        """The α of each group, rounded up; the largest is that of the promise."""
        each_group = self.sensitivities_of(self.grouping) if marked else self.sensitivities
        distinct, where = np.unique(each_group, return_inverse=True)
        return np.array([alpha_of(self.theta, int(each)) for each in distinct])[where]

    @cached_property
    def alone(self) -> int:
        """How many people are in no group with anybody else: no order hides anything of theirs."""
        together = np.zeros(self.grouping.n, bool)
        for block in self.grouping.blocks():
            together[block.members[np.repeat(np.diff(block.indptr) > 1, np.diff(block.indptr))]] = (
                True
            )
        return int(self.grouping.n - together.sum())

    def sources(self, rng: np.random.Generator, *, exact: bool = True) -> NDArray[np.int64]:
        """Whose report each person's place gets: drawn anew, without a look at any report."""
        n = self.grouping.n
        if not self.sensitivity:
            return np.arange(n)  # everybody is alone in their groups: there is nothing to hide
        if self.distance == "hamming":
            tau = hamming_permutation(n, self.theta, rng, exact=exact)
        else:
            tau = kendall.kendall_permutation(n, self.theta, rng, exact=exact)
        return kendall.conjugated(self.order.people, tau)
