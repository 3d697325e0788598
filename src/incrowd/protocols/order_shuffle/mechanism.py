"""The shuffle of one crowd: its groups, its reference order, and how closely it keeps to that.

Everything here is a function of public places and parameters alone, never of a report: the order is
fixed, its exact sensitivity follows, and θ is the largest that keeps the guaranteed α.
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
    """Number of values that a report can take; none for any number."""
    target: float | None
    """The α of the guarantee; none where θ is given instead."""
    fixed: float | None = None
    """The θ that is given instead of an α."""

    def __post_init__(self) -> None:
        if len(self.order.people) != self.grouping.n:
            raise InvalidCrowd(
                f"order has {len(self.order.people)} people, but the groups have {self.grouping.n}",
                field="order",
            )

    @cached_property
    def sensitivities(self) -> NDArray[np.int64]:
        """Sensitivity of the distance to the order inside each group."""
        return self.sensitivities_of(self.grouping, self.values)

    def sensitivities_of(self, grouping: Grouping, values: int | None = None) -> NDArray[np.int64]:
        """Sensitivity for any groups of the same people, and reports of this many values."""
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
        """The largest distance in the order between two people of one group."""
        return int(sensitivity.widths(self.grouping, self.order.ranks).max(initial=0))

    @property
    def paper_sensitivity(self) -> int:
        """The bound by the width alone, which the paper uses as the sensitivity."""
        return sensitivity.paper_sensitivity(self.width)

    @cached_property
    def theta(self) -> float:
        """Closeness of the shuffle to the order; infinite where it changes nothing."""
        if not self.sensitivity:
            return np.inf
        if self.fixed is not None:
            return min(self.fixed, MOST_THETA)
        return min(theta_for(self.target or 0.0, self.sensitivity), MOST_THETA)

    @property
    def alpha(self) -> float:
        """The α for these groups, rounded up."""
        return alpha_of(self.theta, self.sensitivity)

    def alpha_for(self, grouping: Grouping, *, marked: bool = False) -> float:
        """The α for other groups, after the fact; where ``marked``, as in :attr:`marked_alpha`."""
        other = self.sensitivities_of(grouping, None if marked else self.values)
        return alpha_of(self.theta, int(other.max(initial=0)))

    @cached_property
    def marked_alpha(self) -> float:
        """The α where reports that say the same can be told apart, if only one's own."""
        return self.alpha if self.values is None else self.alpha_for(self.grouping, marked=True)

    def per_group(self, *, marked: bool = False) -> NDArray[np.float64]:
        """The α of each group, rounded up; the largest is that of the guarantee."""
        each_group = self.sensitivities_of(self.grouping) if marked else self.sensitivities
        distinct, where = np.unique(each_group, return_inverse=True)
        return np.array([alpha_of(self.theta, int(each)) for each in distinct])[where]

    @cached_property
    def alone(self) -> int:
        """Number of people in no group with anybody else: no order hides anything of theirs."""
        together = np.zeros(self.grouping.n, bool)
        for _, indptr, members in self.grouping.blocks():
            sizes = np.diff(indptr)
            together[members[np.repeat(sizes > 1, sizes)]] = True
        return int(self.grouping.n - together.sum())

    def sources(self, rng: np.random.Generator, *, exact: bool = True) -> NDArray[np.int64]:
        """Draw whose report each person's place gets, without a look at any report."""
        n = self.grouping.n
        if not self.sensitivity:
            return np.arange(n)  # everybody is alone in their groups: there is nothing to hide
        hamming = self.distance == "hamming"
        draw = hamming_permutation if hamming else kendall.kendall_permutation
        return kendall.conjugated(self.order.people, draw(n, self.theta, rng, exact=exact))
