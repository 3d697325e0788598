"""A policy in words: a bound on what each curator can learn.

The meaning of ε in a sentence: whatever a curator knew before, the odds it gives to one answer over
another change by a factor of at most e^ε, except with the failure probability δ. Numbers that bound
what is learnt are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from incrowd.live.policy import Allowance, CuratorRule, Policy
from incrowd.report.format import count, round_up, small, up

_FEW_PEOPLE = 20
_LARGE = 10**6


def describe_policy(policy: Policy) -> dict[str, Any]:
    """Describe a policy as plain data, with sentences for its owner."""
    return {
        "budget": _allowance(policy.budget),
        "crowd": {"min": policy.crowd.min, "assume_colluding": policy.crowd.assume_colluding},
        "consent": {"mode": policy.consent.mode, "on_refusal": policy.consent.on_refusal},
        "curators": [_curator(policy, rule) for rule in policy.curator],
        "together": _together(policy),
        "consent_words": _consent(policy),
        "warnings": list(policy_warnings(policy)),
    }


def policy_warnings(policy: Policy) -> Iterator[str]:
    """Yield settings that are allowed and that an owner may not have meant."""
    if not policy.curator:
        yield "no curator may ask for anything: add a [[curator]] entry"
    if policy.crowd.min < _FEW_PEOPLE:
        yield f"crowds of {policy.crowd.min} hide little: raise crowd.min"
    if policy.crowd.assume_colluding == 0:
        yield "nobody is assumed to collude with a curator: set crowd.assume_colluding, such as 0.1"
    used = {name for rule in policy.curator for name in rule.columns}
    for name in policy.column:
        if name not in used:
            yield f"no curator may ask for {name}: name it in an entry, or remove it"
    for index, rule in enumerate(policy.curator):
        budget = policy.allowance_of(rule)
        for key, limit, bound in (
            ("max_epsilon", rule.max_epsilon, budget.epsilon),
            ("max_local_epsilon", rule.max_local_epsilon, budget.local_epsilon),
        ):
            if limit == math.inf:
                yield f"curator[{index}].{key} is no bound: write a number"
            elif limit > bound:
                yield f"curator[{index}].{key} is above the budget, which bounds it"


def _curator(policy: Policy, rule: CuratorRule) -> dict[str, Any]:
    budget = policy.allowance_of(rule)
    share = rule.assume_colluding
    share = policy.crowd.assume_colluding if share is None else share
    helped = f", even if {up(100 * share, 3)} % of the people asked help it"
    clear = [name for name in rule.columns if policy.column[name].public]
    shared = ", together with curators without an own budget" if rule.budget is None else ""
    return {
        "key": rule.key,
        "columns": list(rule.columns),
        "clear_columns": clear,
        "protocols": list(rule.protocols),
        "assume_colluding": share,
        "max_epsilon": rule.max_epsilon,
        "max_local_epsilon": rule.max_local_epsilon,
        "budget": _allowance(budget),
        "own_budget": rule.budget is not None,
        "words": [
            f"may ask for {_listed(rule.columns)} by {_listed(rule.protocols, 'or')}, in crowds of "
            f"{count(policy.crowd.min)} people or more",
            f"one survey: {_learnt(rule.max_epsilon, budget.view)}"
            f"{helped if share else ', if nobody else colludes with it'}",
            f"one survey, if everybody else colludes: {_learnt(rule.max_local_epsilon)}",
            f"all its surveys for life{shared}: {_learnt(budget.epsilon, budget.view)}, "
            f"but for δ = {small(budget.delta)}",
            f"for life, if everybody else colludes: {_learnt(budget.local_epsilon)}",
            *_daily(budget),
            *_columns(policy, rule, clear),
        ],
    }


def _allowance(budget: Allowance) -> dict[str, Any]:
    return {"view": budget.view, **msgspec.to_builtins(budget)}


def _learnt(epsilon: float, view: str = "curator") -> str:
    if epsilon == math.inf:
        return "no bound: it may learn the answers"
    towards = "" if view == "curator" else f" towards {view}"
    return f"ε ≤ {up(epsilon)}{towards} (odds between two answers change by {_factor(epsilon)})"


def _factor(epsilon: float) -> str:
    try:
        factor = round_up(math.nextafter(math.exp(epsilon), math.inf), 3)
    except OverflowError:
        return "any factor"
    return f"a factor of {factor:,g} or less" if factor < _LARGE else "any factor that matters"


def _daily(budget: Allowance) -> list[str]:
    day = budget.per_day
    bounds = [] if day.epsilon == math.inf else [f"ε ≤ {up(day.epsilon)}"]
    if day.surveys is not None:
        bounds.append(f"{count(day.surveys)} surveys or fewer")
    return [f"in any 24 hours: {' and '.join(bounds)}"] if bounds else []


def _columns(policy: Policy, rule: CuratorRule, clear: Sequence[str]) -> Iterator[str]:
    exactly = f"may leave in the clear, to be known exactly: {_listed(clear)}"
    yield exactly if clear else "nothing leaves in the clear"
    for name in rule.columns:
        for key, coarse in policy.column[name].coarse.items():
            yield f"{name} may also be asked for as {key} ({len(coarse.values)} categories)"


def _together(policy: Policy) -> str:
    """Bound what curators learn who pool what they learnt, by the sum of all budgets."""
    budgets = [rule.budget for rule in policy.curator if rule.budget is not None]
    if any(rule.budget is None for rule in policy.curator):
        budgets.append(policy.budget)
    if not budgets:
        return "all curators together: nothing"
    total, local = (
        math.fsum(sums) if len(sums) == 1 else math.nextafter(math.fsum(sums), math.inf)
        for sums in zip(*((each.epsilon, each.local_epsilon) for each in budgets), strict=True)
    )  # a sum in doubles may be a last digit too small
    return (
        f"all curators together, for life: {_learnt(total)}; if everybody else colludes: "
        f"{_learnt(local)}"
    )


def _consent(policy: Policy) -> str:
    if policy.consent.mode == "standing":
        return "surveys within these bounds are answered without asking"
    if policy.consent.on_refusal == "leave":
        return "each survey asks first; without consent the device leaves, which others can see"
    return "each survey asks first; without consent the device reports that there is no answer"


def _listed(names: Sequence[str], last: str = "and") -> str:
    if not names:
        return "nothing"
    *others, final = names
    return f"{', '.join(others)} {last} {final}" if others else final
