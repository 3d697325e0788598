"""Decisions: what the policy allows and the budget holds, and nothing else, makes a device join."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from incrowd.errors import InvalidParameter
from incrowd.live.decide import Asked, Charge, Decline, Join, Standing, Terms, decide
from incrowd.live.policy import Policy
from incrowd.live.reasons import Reason
from tests.live.test_live_policy import IDENTITY, policy

NOW = 1_800_000_000.0
OTHER = bytes(reversed(IDENTITY))
VOTE = Asked("vote", values=("keep", "drop", "no matter"))
AGE = Asked("age", bounds=(0.0, 120.0))


def terms(**changes) -> Terms:
    usual = Terms(
        survey=b"s" * 16,
        curator=IDENTITY,
        protocol="network-shuffle",
        columns=(VOTE,),
        roster=1000,
        crowd=1000,
        stated={"curator": (0.2, 1e-6), "everyone": (1.0, 0.0)},
        local=(1.0, 0.0),
        colluders=100,
        charged={"curator": (0.25, 1e-6), "everyone": (1.0, 0.0)},
    )
    return replace(usual, **changes)


def charge(epsilon=0.25, *, survey=b"t" * 16, curator=IDENTITY, at=NOW, delta=1e-6, local=1.0):
    return Charge(survey, curator, at, {"curator": (epsilon, delta)}, (local, 0.0))


def declined(reason: Reason, asked: Terms, rules: Policy | None = None, **standing) -> str:
    found = decide(asked, rules or policy(), Standing(**standing), NOW)
    assert isinstance(found, Decline), found
    assert found.reason is reason
    assert "\n" not in found.line
    return found.line


def joined(asked: Terms, rules: Policy | None = None, **standing) -> Join:
    found = decide(asked, rules or policy(), Standing(**standing), NOW)
    assert isinstance(found, Join), found
    return found


# Default deny.


def test_offer_within_the_policy_is_joined_and_its_charge_reserved():
    found = joined(terms())
    assert found.reservation == Charge(
        b"s" * 16, IDENTITY, NOW, {"curator": (0.25, 1e-6), "everyone": (1.0, 0.0)}, (1.0, 0.0)
    )
    assert found.coarsenings == {}


def test_offer_without_a_policy_is_declined():
    found = decide(terms(), None, Standing(), NOW)
    assert isinstance(found, Decline)
    assert found.reason is Reason.policy


def test_curator_without_an_entry_is_declined():
    assert "no entry" in declined(Reason.policy, terms(curator=OTHER))


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": "local"},
        {"columns": (Asked("sex", values=("f", "m")),)},
        {"columns": (VOTE, Asked("sex", values=("f", "m")))},
    ],
    ids=["protocol", "column", "one column of two"],
)
def test_offer_for_what_the_policy_does_not_name_is_declined(changes):
    declined(Reason.policy, terms(**changes))


def test_column_that_another_curator_may_ask_for_is_declined():
    rules = policy(('["vote", "age", "district"]', '["age"]'))
    declined(Reason.policy, terms(), rules)
    joined(terms(columns=(AGE,)), rules)


# Domains.


@pytest.mark.parametrize(
    "asked",
    [
        Asked("vote", values=("keep", "drop")),
        Asked("vote", values=("drop", "keep", "no matter")),
        Asked("vote", values=("keep", "drop", "no matter", "unsure")),
        Asked("vote", bounds=(0.0, 1.0)),
        Asked("vote"),
        Asked("age", bounds=(0.0, 60.0)),
        Asked("age", bounds=(math.nextafter(0.0, 1.0), 120.0)),
        Asked("age", values=("0", "120")),
        Asked("age"),
    ],
)
def test_offer_with_another_domain_is_declined(asked):
    assert "domain" in declined(Reason.policy, terms(columns=(asked,)))


def test_offer_for_a_named_coarsening_is_joined_and_names_it():
    ages = Asked("age", values=("under 18", "18 to 64", "65 and over"))
    opinion = Asked("vote", values=("has one", "has none"))
    found = joined(terms(columns=(ages, opinion)))
    assert found.coarsenings == {"age": "generation", "vote": "opinion"}
    reordered = replace(ages, values=tuple(reversed(ages.values or ())))
    declined(Reason.policy, terms(columns=(reordered,)))


def test_offer_without_a_reserved_outcome_needs_a_complete_column():
    assert "reserved outcome" in declined(
        Reason.policy, terms(columns=(replace(VOTE, complete=True),))
    )
    joined(terms(columns=(Asked("district", values=("north", "south"), complete=True),)))
    joined(terms(columns=(Asked("district", values=("north", "south")),)))


def test_column_in_the_clear_needs_to_be_public():
    assert "in the clear" in declined(
        Reason.policy, terms(columns=(VOTE, replace(AGE, clear=True)))
    )
    assert "in the clear" in declined(Reason.policy, terms(columns=(Asked("age", clear=True),)))
    joined(terms(columns=(VOTE, Asked("district", clear=True))))
    # A declared domain has to be equal even so.
    declined(Reason.policy, terms(columns=(Asked("district", values=("n", "s"), clear=True),)))


# Crowds.


def test_crowd_below_the_minimum_is_declined():
    for few in ({"roster": 99, "crowd": 99}, {"crowd": 99}):
        assert "100" in declined(Reason.policy, terms(**few))
    joined(terms(roster=100, crowd=100))


def test_guarantee_against_fewer_colluders_than_assumed_is_declined():
    assert "assumes 100" in declined(Reason.policy, terms(colluders=99))
    honest = policy(("max_epsilon = 1.0", "max_epsilon = 1.0\nassume_colluding = 0"))
    joined(terms(colluders=0, charged=terms().stated), honest)


def test_charge_is_never_below_the_guarantee_without_colluders():
    found = joined(terms(charged={"curator": (0.1, 1e-7), "everyone": (1.0, 0.0)}))
    assert found.reservation.cost("curator") == (0.2, 1e-6)


def test_view_without_a_guarantee_under_collusion_costs_the_local_one():
    found = joined(terms(charged={}))
    assert found.reservation.cost("curator") == (1.0, 0.0)
    assert found.reservation.cost("curator+hub") == (1.0, 0.0)


# Limits and budgets.


OWN = (
    "max_epsilon = 1.0",
    "max_epsilon = 1.0\nbudget = { epsilon = 0.5, delta = 1e-5, local_epsilon = 2 }",
)


def two_curators(*changes: tuple[str, str]) -> Policy:
    second = f'[[curator]]\nkey = "ed25519:{OTHER.hex()}"\ncolumns = ["vote"]\nmax_epsilon = 1.0\n'
    second += 'max_local_epsilon = 4.0\nprotocols = ["network-shuffle"]\n[column.vote]'
    return policy(("[column.vote]", second), *changes)


TWO = two_curators()


def test_survey_above_the_limits_of_its_entry_is_declined():
    line = declined(Reason.policy, terms(charged={"curator": (1.001, 0.0)}))
    assert "per survey" in line
    assert "per survey" in declined(Reason.policy, terms(local=(4.001, 0.0)))
    declined(Reason.policy, terms(local=(math.inf, 0.0)))


@pytest.mark.parametrize("cost", [(math.nan, 0.0), (-1.0, 0.0), (0.1, math.nan), (0.1, -1e-9)])
def test_cost_that_is_no_number_or_negative_is_refused(cost):
    for changes in ({"charged": {"curator": cost}}, {"stated": {"hub": cost}}, {"local": cost}):
        with pytest.raises(InvalidParameter, match="at least 0"):
            terms(**changes)
    with pytest.raises(InvalidParameter, match="at least 0"):
        Charge(b"", b"", NOW, {"curator": cost}, (1.0, 0.0))


def test_open_reservations_of_a_curator_stay_within_its_limits():
    rules = policy(("epsilon = 1.0, surveys", "epsilon = 9.0, surveys"))
    three = tuple(charge(survey=bytes([each]) * 16) for each in range(3))
    joined(terms(), rules, reserved=three)
    over = (*three, charge(2**-40, survey=b"u" * 16, local=0.1))
    assert "open surveys" in declined(Reason.budget, terms(), rules, reserved=over)
    # What was spent does not count there, nor what others have reserved.
    joined(terms(), rules, reserved=three, spent=(charge(),))
    joined(terms(), rules, reserved=(*three, charge(0.5, survey=b"u" * 16, curator=OTHER)))


def test_open_reservations_of_one_curator_leave_room_for_others():
    rules = two_curators()
    full = tuple(charge(survey=bytes([each]) * 16) for each in range(4))
    declined(Reason.budget, terms(), rules, reserved=full)
    joined(terms(curator=OTHER), rules, reserved=full)


def test_sums_are_exact_to_the_last_bit():
    rules = policy(("epsilon = 4.0", "epsilon = 0.5"), ("epsilon = 1.0, ", ""))
    joined(terms(), rules, spent=(charge(0.25),))
    declined(Reason.budget, terms(), rules, spent=(charge(math.nextafter(0.25, 1)),))
    # In doubles 0.25 + 2**-60 is 0.25.
    tiny = tuple(charge(2**-60, survey=bytes([each]) * 16, local=2**-60) for each in range(1))
    declined(Reason.budget, terms(), rules, spent=(charge(0.25), *tiny))


@pytest.mark.parametrize(
    ("change", "spent"),
    [
        (("epsilon = 4.0", "epsilon = 0.4"), charge(0.2)),
        (("delta = 1e-5", "delta = 1.5e-6"), charge(0.0)),
        (("local_epsilon = 8.0", "local_epsilon = 1.5"), charge(0.0)),
        (("epsilon = 1.0, surveys", "epsilon = 0.4, surveys"), charge(0.2)),
        (("surveys = 5", "surveys = 1"), charge(0.0)),
    ],
)
def test_survey_above_the_budget_is_declined(change, spent):
    joined(terms(), policy(change))
    declined(Reason.budget, terms(), policy(change), spent=(spent,))
    declined(Reason.budget, terms(), policy(change), reserved=(spent,))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 0.2), st.floats(0, 0.2)), min_size=1, max_size=40))
def test_offers_that_never_start_block_no_other_curator(losses):
    """However many offers one curator makes, another's survey is joined."""
    reserved: tuple[Charge, ...] = ()
    for number, (epsilon, local) in enumerate(losses):
        offer = terms(
            survey=number.to_bytes(16, "big"),
            stated={"curator": (epsilon, 0.0)},
            charged={"curator": (epsilon, 0.0)},
            local=(local, 0.0),
        )
        found = decide(offer, TWO, Standing((), reserved), NOW)
        if isinstance(found, Join):
            reserved = (*reserved, found.reservation)
    assert len(reserved) <= 5
    joined(terms(curator=OTHER), TWO, reserved=reserved)
    # Once they have started, they count for everybody.
    started = (*reserved, *(charge(0.0, survey=bytes([n]) * 16, local=0.0) for n in range(5)))
    declined(Reason.budget, terms(curator=OTHER), TWO, spent=started)


def test_line_that_names_no_curator_counts_in_every_budget():
    spent = Charge(b"x" * 16, b"", 0.0, {}, (math.inf, 1.0))
    unbounded = (
        ("epsilon = 4.0", "epsilon = inf"),
        ("local_epsilon = 8.0", "local_epsilon = inf"),
        ("epsilon = 1.0, surveys = 5", "surveys = 5"),
    )
    for rules in (policy(), policy(OWN), two_curators(OWN), policy(*unbounded)):
        joined(terms(), rules)
        declined(Reason.budget, terms(), rules, spent=(spent,))
        if rules.rule_of(OTHER):
            declined(Reason.budget, terms(curator=OTHER), rules, spent=(spent,))


def test_day_ends_after_24_hours_and_the_budget_does_not():
    rules = policy(("surveys = 5", "surveys = 1"))
    declined(Reason.budget, terms(), rules, spent=(charge(at=NOW - 86_399),))
    joined(terms(), rules, spent=(charge(at=NOW - 86_400),))
    # A clock that was set back makes no room.
    declined(Reason.budget, terms(), rules, spent=(charge(at=NOW + 10**6),))
    # A reservation counts on whatever day it was made: it may start today.
    declined(Reason.budget, terms(), rules, reserved=(charge(at=NOW - 10**6),))
    old = tuple(charge(0.5, survey=bytes([n]) * 16, at=0.0, local=0.5) for n in range(8))
    declined(Reason.budget, terms(), rules, spent=old)


def test_entry_with_its_own_budget_is_decided_from_that_alone():
    rules = policy(OWN)
    others = tuple(charge(1.0, survey=bytes([n]) * 16, curator=OTHER) for n in range(9))
    joined(terms(), rules, spent=others, reserved=others)
    declined(Reason.budget, terms(), policy(), spent=others)
    declined(Reason.budget, terms(), rules, spent=(charge(0.3),))


def test_budget_of_all_leaves_out_entries_with_their_own():
    rules = two_curators(OWN)
    own = tuple(charge(1.0, survey=bytes([n]) * 16) for n in range(9))
    joined(terms(curator=OTHER), rules, spent=own)
    gone = two_curators()
    declined(Reason.budget, terms(curator=OTHER), gone, spent=own)


def test_view_of_the_budget_decides_which_charge_counts():
    rules = policy(("local_epsilon = 8.0", 'local_epsilon = 8.0\nview = "network"'))
    query = {"network": (0.5, 1e-6)}
    found = joined(terms(stated=query, charged=query), rules)
    assert found.reservation.cost("network") == (0.5, 1e-6)
    declined(Reason.policy, terms(local=(2.0, 0.0)), rules)


# The device's own state.


def test_paused_device_declines_what_it_would_join():
    declined(Reason.paused, terms(), paused=True)


def test_survey_that_was_answered_is_declined():
    declined(Reason.answered, terms(), spent=(charge(survey=b"s" * 16),))


def test_start_replaces_the_reservation_of_its_survey():
    held = joined(terms()).reservation
    full = policy(("epsilon = 4.0", "epsilon = 0.3"))
    assert joined(terms(), full, reserved=(held,)).reservation == held
    smaller = terms(crowd=500, charged={"curator": (0.29, 1e-6)})
    assert joined(smaller, full, reserved=(held,)).reservation.cost("curator") == (0.29, 1e-6)
    declined(Reason.budget, terms(charged={"curator": (0.31, 1e-6)}), full, reserved=(held,))


# For all offers.

losses = st.floats(0, 3, allow_nan=False) | st.sampled_from([0.0, 0.1, 0.25, 1.0, 2**-60, math.inf])
costs = st.tuples(losses, st.sampled_from([0.0, 1e-7, 3e-6, 1e-5]))


@st.composite
def offers(draw) -> Terms:
    views = draw(st.sampled_from([("curator",), ("curator", "everyone"), ("network",)]))
    return terms(
        survey=draw(st.binary(min_size=16, max_size=16)),
        curator=draw(st.sampled_from([IDENTITY, OTHER])),
        columns=tuple(draw(st.lists(st.sampled_from([VOTE, AGE]), max_size=2))),
        stated={view: draw(costs) for view in views},
        charged={view: draw(costs) for view in views},
        local=draw(costs),
    )


ROOMY = policy(("max_epsilon = 1.0", "max_epsilon = 2.0"), ("epsilon = 1.0, ", "epsilon = 3.0, "))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(offers(), st.booleans(), st.floats(0, 40_000)), max_size=30))
def test_reservations_and_lines_never_exceed_the_budget(offered):
    """Offers come, some start, none is ever withdrawn: every sum stays within its bound."""
    spent: tuple[Charge, ...] = ()
    reserved: tuple[Charge, ...] = ()
    now = NOW
    for offer, starts, passes in offered:
        now += passes
        found = decide(offer, ROOMY, Standing(spent, reserved), now)
        if isinstance(found, Join):
            reserved = (*(each for each in reserved if each.survey != offer.survey),)
            if starts:
                spent = (*spent, found.reservation)
            else:
                reserved = (*reserved, found.reservation)
        budget = ROOMY.budget
        for charges, view, bound in (
            ((*spent, *reserved), "curator", budget.epsilon),
            ((*spent, *reserved), "local", budget.local_epsilon),
            (reserved, "curator", 2.0),
            (reserved, "local", 4.0),
        ):
            amounts = [each.local[0] if view == "local" else each.cost(view)[0] for each in charges]
            assert sum(map(Fraction, amounts), Fraction(0)) <= Fraction(bound)
        deltas = [each.cost("curator")[1] for each in (*spent, *reserved)]
        assert sum(map(Fraction, deltas), Fraction(0)) <= Fraction(budget.delta)
        today = [each for each in spent if each.at > now - 86_400]
        assert len(today) <= 5
        assert sum((Fraction(each.cost("curator")[0]) for each in today), Fraction(0)) <= 3


@settings(max_examples=100, deadline=None)
@given(offers(), st.lists(costs, max_size=4), st.booleans(), st.floats(0, 4e9))
def test_decision_is_a_function_of_its_four_arguments(offer, before, paused, now):
    """Equal arguments, made anew, give an equal decision, and are not changed by it."""

    def standing() -> Standing:
        lines = [charge(epsilon, delta=delta, survey=bytes([n]) * 16)
                 for n, (epsilon, delta) in enumerate(before)]  # fmt: skip
        return Standing(tuple(lines[::2]), tuple(lines[1::2]), paused)

    rules, held = policy(), standing()
    copied = msgspec.convert(msgspec.to_builtins(rules), Policy)
    first = decide(offer, rules, held, now)
    assert decide(replace(offer), copied, standing(), now) == first
    assert decide(offer, rules, held, now) == first
    assert held == standing()
    assert copied == rules
