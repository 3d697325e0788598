"""Whether a device takes part in a survey: a pure function in which no answer can play a part.

:func:`decide` looks at the :class:`Terms` of an examined offer, at the owner's policy, at what was
spent and reserved so far (:class:`Standing`), and at the time; at nothing else. This module and
those that it imports know neither answers nor the encoding of tasks (``tests/test_layers.py``), so
a curator learns nothing from a join or a decline that it could not compute from the policy.

A join **reserves** its cost. What was spent, what is reserved and what a survey would cost are
summed exactly and stay within the owner's budget for life. What one curator has reserved stays
within the limits of its entry, and counts towards the bounds of a day for that curator alone, so
that offers which never start block no other curator; the decision is taken again at the start,
when what others have spent by then counts as well. An entry with a budget of its own is decided
from that budget alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from incrowd.errors import InvalidParameter
from incrowd.live.policy import ColumnRule, CuratorRule, Policy, key_text
from incrowd.live.reasons import Reason

_DAY: Final = 86_400.0
_SHOWN: Final = 20

Cost = tuple[float, float]
"""ε and δ."""


@dataclass(frozen=True)
class Asked:
    """One column that an offer asks for.

    Its declared domain is ``values`` in order or ``bounds``; neither for a column that is sent as
    it is. Without a reserved outcome for a missing answer the offer is ``complete``; ``clear``
    columns are sent without being randomized.
    """

    name: str
    values: tuple[str, ...] | None = None
    bounds: tuple[float, float] | None = None
    complete: bool = False
    clear: bool = False


@dataclass(frozen=True)
class Terms:
    """All of an examined offer, or of its start, that a decision depends on."""

    survey: bytes
    curator: bytes
    """Identity key of the curator."""
    protocol: str
    columns: tuple[Asked, ...]
    roster: int
    """Number of people who were asked."""
    crowd: int
    """Number of people who take part: those on the roster before the start, else who began."""
    stated: Mapping[str, Cost]
    """Recomputed guarantee towards each view when nobody colludes."""
    local: Cost
    """Guarantee of the randomizer alone; infinite ε where there is none."""
    colluders: int
    """Number of colluding people that ``charged`` holds against."""
    charged: Mapping[str, Cost]
    """Recomputed guarantee towards each view together with that number of colluders."""

    def __post_init__(self) -> None:
        """Refuse costs that are no numbers, or negative: they would make room for others."""
        _check_costs(*self.stated.values(), self.local, *self.charged.values())

    def cost(self, view: str) -> Cost:
        """ε and δ to charge towards a view; the local guarantee where none is stated."""
        found = [each[view] for each in (self.stated, self.charged) if view in each]
        if len(found) < 2:
            return self.local
        return max(epsilon for epsilon, _ in found), max(delta for _, delta in found)


@dataclass(frozen=True)
class Charge:
    """The cost of one survey, spent or reserved."""

    survey: bytes
    curator: bytes
    """Identity key of the curator; empty for a line that counts against every budget."""
    at: float
    """Time of the charge, in seconds since 1970."""
    views: Mapping[str, Cost]
    local: Cost

    def __post_init__(self) -> None:
        """Refuse costs that are no numbers, or negative: they would make room for others."""
        _check_costs(*self.views.values(), self.local)

    def cost(self, view: str) -> Cost:
        """ε and δ towards a view; without one of its own, the local guarantee holds for all."""
        return self.views.get(view, self.local)


@dataclass(frozen=True)
class Standing:
    """One owner's account before a decision."""

    spent: tuple[Charge, ...] = ()
    """Lines of the ledger."""
    reserved: tuple[Charge, ...] = ()
    """Open reservations: joined, neither started nor declined nor expired."""
    paused: bool = False


@dataclass(frozen=True)
class Join:
    """Take part, and reserve the cost until the ledger's line replaces it."""

    reservation: Charge
    coarsenings: Mapping[str, str] = field(default_factory=dict)
    """Name of the coarsening to answer with, by column, where the offer asks for one."""


@dataclass(frozen=True)
class Decline:
    """Do not take part; the line says why and holds no answer."""

    reason: Reason
    line: str


class _Declined(Exception):
    def __init__(self, reason: Reason, line: str) -> None:
        super().__init__(line)
        self.decline = Decline(reason, line)


def decide(terms: Terms, policy: Policy | None, ledger: Standing, now: float) -> Join | Decline:
    """Decide on an offer before joining it, and again on its start for the crowd that began.

    Args:
        terms: What of the offer decides.
        policy: The owner's policy; none declines everything.
        ledger: What the owner has spent and reserved. A reservation for the same survey is
            replaced, not added to.
        now: The time, in seconds since 1970.

    """
    try:
        return _decided(terms, policy, ledger, now)
    except _Declined as declined:
        return declined.decline


def _decided(terms: Terms, policy: Policy | None, ledger: Standing, now: float) -> Join:
    if policy is None:
        raise _Declined(
            Reason.policy, "there is no policy: write one with 'incrowd device policy init'"
        )
    rule = _entry(terms, policy)
    coarsenings = {}
    for asked in terms.columns:
        if name := _allowed(asked, rule, policy):
            coarsenings[asked.name] = name
    _check_crowd(terms, policy)
    if ledger.paused:
        raise _Declined(Reason.paused, "the device is paused")
    if any(each.survey == terms.survey for each in ledger.spent):
        raise _Declined(Reason.answered, "a survey is answered once, and this one was")
    views = {view: terms.cost(view) for view in {*terms.stated, *terms.charged}}
    charge = Charge(terms.survey, terms.curator, now, views, terms.local)
    others = tuple(each for each in ledger.reserved if each.survey != terms.survey)
    _check_limits(charge, rule, policy, others)
    _check_budget(charge, rule, policy, ledger.spent, others, now)
    return Join(charge, coarsenings)


def _entry(terms: Terms, policy: Policy) -> CuratorRule:
    rule = policy.rule_of(terms.curator)
    if rule is None:
        raise _Declined(
            Reason.policy,
            f"the policy has no entry for the curator {key_text(terms.curator)[:_SHOWN]}…",
        )
    if terms.protocol not in rule.protocols:
        raise _Declined(Reason.policy, f"the policy does not let this curator use {terms.protocol}")
    return rule


def _allowed(asked: Asked, rule: CuratorRule, policy: Policy) -> str:
    """The coarsening that a column is asked for in; an empty text for the column itself."""
    column = policy.column.get(asked.name)
    if column is None or asked.name not in rule.columns:
        raise _Declined(
            Reason.policy, f"the policy does not let this curator ask for {asked.name!r}"
        )
    if asked.clear:
        if not column.public:
            raise _Declined(
                Reason.policy, f"{asked.name!r} would be sent in the clear, and is not public"
            )
        if asked.values is None and asked.bounds is None:
            return ""
    return _same_domain(asked, column)


def _same_domain(asked: Asked, column: ColumnRule) -> str:
    found = column.matches(asked.values, asked.bounds)
    if found is None:
        raise _Declined(
            Reason.policy,
            f"{asked.name!r} is asked for with another domain than the policy's: its categories, "
            "their order and its bounds must be equal",
        )
    if asked.complete and not column.complete:
        raise _Declined(
            Reason.policy,
            f"{asked.name!r} is asked for without a reserved outcome for a missing answer, and "
            "the policy does not call it complete",
        )
    return found


def _check_crowd(terms: Terms, policy: Policy) -> None:
    if min(terms.crowd, terms.roster) < policy.crowd.min:
        raise _Declined(
            Reason.policy, f"fewer people than the policy's {policy.crowd.min} take part"
        )
    assumed = policy.colluders(terms.curator, terms.roster)
    if terms.colluders < assumed:
        raise _Declined(
            Reason.policy,
            f"the guarantee was recomputed against {terms.colluders} colluders, where the policy "
            f"assumes {assumed}",
        )


def _check_limits(
    charge: Charge, rule: CuratorRule, policy: Policy, reserved: Iterable[Charge]
) -> None:
    """Refuse what exceeds the entry's limits, alone or with its open reservations."""
    view = policy.allowance_of(rule).view
    of_curator = [charge, *(each for each in reserved if each.curator == charge.curator)]
    for name, amounts, bound in (
        (f"ε towards the {view}", [each.cost(view)[0] for each in of_curator], rule.max_epsilon),
        ("local ε", [each.local[0] for each in of_curator], rule.max_local_epsilon),
    ):
        if _exceeds(amounts[:1], bound):
            raise _Declined(
                Reason.policy,
                f"{name} would be {amounts[0]:.6g}, above the {bound:.6g} that the policy allows "
                "this curator per survey",
            )
        if _exceeds(amounts, bound):
            raise _Declined(
                Reason.budget,
                f"{name} of this curator's open surveys would exceed {bound:.6g} together",
            )


def _check_budget(
    charge: Charge,
    rule: CuratorRule,
    policy: Policy,
    spent: Iterable[Charge],
    reserved: tuple[Charge, ...],
    now: float,
) -> None:
    """Refuse what exceeds the budget that this entry is decided from."""
    budget = policy.allowance_of(rule)
    apart = {each.identity for each in policy.curator if each.budget is not None}

    def counts(each: Charge) -> bool:
        """Whether a charge is in the same budget: the entry's own, or all without one.

        A line that names no curator, such as that of a ledger of unknown age, is in every budget.
        """
        if not each.curator:
            return True
        if rule.budget is not None:
            return each.curator == charge.curator
        return each.curator not in apart

    before = [each for each in spent if counts(each)]
    opened = [charge, *(each for each in reserved if counts(each))]
    # The curator's own reservations count for today, as any of them may start now. Those of others
    # would let five offers that never start keep everybody else away: they count once they start.
    own = [each for each in opened if each.curator == charge.curator]
    today = [*own, *(each for each in before if each.at > now - _DAY)]
    everything = [*opened, *before]
    view, day = budget.view, budget.per_day
    sums = (
        (f"ε towards the {view}", [each.cost(view)[0] for each in everything], budget.epsilon),
        (f"δ towards the {view}", [each.cost(view)[1] for each in everything], budget.delta),
        ("local ε", [each.local[0] for each in everything], budget.local_epsilon),
        ("local δ", [each.local[1] for each in everything], budget.delta),
        (f"ε of a day towards the {view}", [each.cost(view)[0] for each in today], day.epsilon),
    )
    for name, amounts, bound in sums:
        if _exceeds(amounts, bound):
            raise _Declined(Reason.budget, f"{name} would exceed the budget of {bound:.6g}")
    if day.surveys is not None and len(today) > day.surveys:
        raise _Declined(Reason.budget, f"{day.surveys} surveys a day are all the policy allows")


def _check_costs(*costs: Cost) -> None:
    for epsilon, delta in costs:
        if not (epsilon >= 0 and delta >= 0):
            raise InvalidParameter(
                f"a cost must be at least 0, got ε = {epsilon!r} and δ = {delta!r}"
            )


def _exceeds(amounts: Iterable[float], bound: float) -> bool:
    """Whether the exact sum is above the bound."""
    if bound == math.inf:
        return False
    values = list(amounts)
    return math.inf in values or sum(map(Fraction, values)) > Fraction(bound)
