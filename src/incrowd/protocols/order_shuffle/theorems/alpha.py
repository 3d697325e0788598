"""Guarantees about the order of reports that a Mallows shuffle releases.

*Order privacy* α for some groups: any two sequences of reports that differ by a permutation inside
one group are e^α-indistinguishable by the release and everything else. A shuffle
around a reference order with dispersion θ has α = θ·Δ, with Δ the sensitivity of that order
(:mod:`~incrowd.protocols.order_shuffle.theorems.sensitivity`) for those groups: for the ones it was
made for as for any others, after the fact. Releases of the same crowd add up. The randomizer alone
already guarantees something about the order of the true values, and the better of the two holds.

Proofs are on ``docs/theory/order.md``. Invariants: every α is rounded up and every θ down, in exact
arithmetic; where all groups are of one person there is no order to hide, Δ = 0 and θ is infinite.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.privacy.rounding import rounded_down, rounded_up

KENDALL = "Mallows shuffle, inversions (docs/theory/order.md)"
HAMMING = "Mallows shuffle, those who moved (docs/theory/order.md)"
RANDOMIZER_ALONE = "order under the randomizer alone (docs/theory/order.md)"

HONEST_SHUFFLER = "the shuffler draws its permutation honestly and does not collude with the view"
PUBLIC_PLACES = (
    "groups, reference order and θ follow from public places alone, never from a value or a report"
)
ONE_GROUP = (
    "neighbours differ by a permutation of the reports inside one group; a change that takes "
    "several groups one after the other costs the sum of its steps"
)
SAME_RANDOMIZER = "everybody randomizes independently and in the same way"

_SAFE = 1 + 2.0**-50
"""More than the rounding of an exponential, two sums, a product and a quotient."""


def theta_for(alpha: float, sensitivity: int) -> float:
    """Return the largest θ whose shuffle guarantees this α: rounded down, infinite for Δ = 0."""
    goal, delta = amount(alpha, "alpha"), checks.integer(sensitivity, "sensitivity", 0)
    if delta == 0 or math.isinf(goal):
        return math.inf
    return rounded_down(Fraction(goal) / delta)


def alpha_of(theta: float, sensitivity: int) -> float:
    """Return the α of a shuffle with this θ for groups of this sensitivity: rounded up."""
    given, delta = amount(theta, "theta"), checks.integer(sensitivity, "sensitivity", 0)
    if delta == 0:
        return 0.0
    return math.inf if math.isinf(given) else rounded_up(Fraction(given) * delta)


def local_alpha(epsilon0: float, size: int, values: int | None = None) -> float:
    """Return the α of an ε0-private randomizer alone, inside a group of this size: rounded up.

    A permutation changes at most ``size`` values, and of two different ones an even number;
    ``values`` is how many a person can have, none for any number.
    """
    people, each = checks.crowd(size, "size"), amount(epsilon0, "epsilon0")
    changed = people if people > 1 else 0
    if values is not None and checks.integer(values, "values", 2) == 2:
        changed = people // 2 * 2
    if not changed:
        return 0.0
    return math.inf if math.isinf(each) else rounded_up(Fraction(each) * changed)


def largest_posterior(prior: float, alpha: float) -> float:
    """Bound the posterior of an observer of the release about one person's value: rounded up.

    ``prior`` is the chance of one of two values, given all reports outside the person's group and,
    without their order, those inside; the log odds change by at most α.
    """
    before, change = checks.probability(prior, "prior"), amount(alpha, "alpha")
    if before in (0.0, 1.0) or not change:
        return before
    if math.isinf(change):
        return 1.0
    against = (1 - before) * math.exp(-change)
    return min(1.0, before / (before + against) * _SAFE)


def amount(value: float, name: str) -> float:
    """Return a number that is zero or more; it may be infinite."""
    if not isinstance(value, Real) or isinstance(value, bool) or not value >= 0:
        raise InvalidParameter(
            f"{name} must be a number ≥ 0, or infinite, got {value!r}", field=name
        )
    return float(value)
