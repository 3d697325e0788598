"""The meaning of numbers in plain English.

Every sentence is true as it stands: a guarantee is put as the success of a guess, which is exactly
what differential privacy bounds, rather than as a metaphor. Facts are put into words by their
values, bounds and units alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from incrowd.blocks import Bound, Fact
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.registry import parties as helpers
from incrowd.randomizers import Randomizer
from incrowd.report.format import (
    count,
    down,
    guesses,
    percent,
    plain,
    right_guesses,
    several,
    small,
    up,
)
from incrowd.views import EVERYONE, view_of

_ROUNDED: Final[Mapping[Bound | None, Callable[[float | None], str]]] = {"up": up, "down": down}
NO_PROTECTION = "no meaningful protection"
_MEANINGLESS = 8.0
"""ε above which a guarantee is no meaningful protection."""
_MANY = 1000.0
"""From here on numbers are written in whole ones."""
_SHOWN = 5
"""Number of entries of a list that are shown."""
_TRANSPORTS = {"hub": "through the hub", "direct": "directly between devices", "nats": "over NATS"}
_PARTIES = {
    "curator": "the party that receives the reports and computes the answer",
    "hub": "the service that stores and forwards messages",
    "peer": "another participant",
    "analyst": "a party that knows public side information about people",
    "network": "an observer who sees who sends messages to whom",
}
"""Parties that any protocol may have; helpers are described by their protocols."""
_TITLES = {"peer": "a peer", "network": "an observer of the network"}
"""Parties of whom there are many."""


def view_title(view: Iterable[str]) -> str:
    """Name a view, such as ``the curator with the shuffler``."""
    if frozenset(view) == EVERYONE:
        return "everyone else together"
    return " with ".join(_TITLES.get(party, f"the {party}") for party in _in_order(view))


def view_description(view: Iterable[str]) -> str:
    """Describe the parties of a view."""
    if frozenset(view) == EVERYONE:
        return "all parties pool what they saw: only your own device protects you"
    known = (_PARTIES.get(party) or helpers()[party].description for party in _in_order(view))
    return "; ".join(known)


def _in_order(parties: Iterable[str]) -> list[str]:
    """Return parties that learn an answer or see a token before those that help them."""
    return sorted(set(parties), key=lambda party: (party not in ("curator", "peer"), party))


def randomized(randomizer: Randomizer) -> str:
    """State in one sentence the treatment of each answer before it left a device."""
    if randomizer.domain == "target":
        return f"{capital(randomizer.treatment())}."
    if randomizer.domain == "joint":
        return (
            "Each answer was randomized on the person’s own device; together their reports have "
            f"ε0 = {up(randomizer.epsilon)}."
        )
    if randomizer.domain == "several":
        return (
            "Each device drew one of the questions, whatever the answers, and randomized the "
            f"answer to it with ε0 = {up(randomizer.epsilon)}."
        )
    return (
        "Each answer was randomized on the person’s own device by "
        f"{randomizer.kind} with ε0 = {up(randomizer.epsilon)}."
    )


def guarantee_meaning(guarantee: Guarantee, delta: float) -> str:
    """Put a guarantee at one δ as the success of a guess."""
    epsilon, who = guarantee.epsilon(delta), view_title(guarantee.view)
    if guarantee.colluders:
        who += f" and {count(guarantee.colluders)} colluding people"
    return (
        f"Suppose {who} knew the answer of every other person, and had narrowed yours down to two "
        "possibilities, equally likely. Of 1,000 blind guesses 500 are right; whatever they do "
        f"with what they see, at most {guesses(epsilon, delta)} are "
        f"(ε = {up(epsilon)}, δ = {small(delta)}){verdict(epsilon)}."
    )


def guess_meaning(who: str, epsilon: float, delta: float) -> str:
    """Put (ε, δ) as the success of guesses by ``who``, the view in words."""
    return (
        f"of 1,000 guesses by {who} between two answers of yours at most "
        f"{count(right_guesses(epsilon, delta))} are right, 500 blind{verdict(epsilon)}"
    )


def verdict(epsilon: float) -> str:
    """Return the end of a sentence about an ε so large that it means nothing."""
    return f": {NO_PROTECTION}" if epsilon > _MEANINGLESS else ""


def cautions(epsilon: float, delta: float, people: int, who: str) -> list[str]:
    """Return sentences about a poor guarantee against ``who``; none about a good one."""
    found = []
    if epsilon > _MEANINGLESS:
        found.append(f"ε = {up(epsilon)} against {who} is {NO_PROTECTION}.")
    if people and delta * people > 1:
        found.append(
            f"δ = {small(delta)} for {count(people)} people: a failure probability above 1/n could "
            "mean one person exposed."
        )
    return found


def unprotected(
    guarantees: Sequence[Mapping[str, Any]],
    stated_views: Collection[str],
    told: str = "",
    clear: Sequence[str] = (),
) -> str:
    """Say in a paragraph who could learn what, in spite of all that is proven.

    Args:
        guarantees: Descriptions of all guarantees at one δ.
        stated_views: Views that results speak of; those without a guarantee are named.
        told: The protocol's own words about views without a guarantee.
        clear: Columns that travel as they are.

    """
    about = [each for each in guarantees if each["notion"] == "dp"]
    known = {frozenset(each["view"].split("+")): each for each in about}
    found = [f"{capital(told.removesuffix('.'))}."] if told else []
    weakest = max((each["epsilon"] for each in about), default=math.inf)
    alone = [view for view, each in known.items() if each["epsilon"] >= weakest]
    if EVERYONE in known and math.isfinite(weakest):
        delta = known[EVERYONE]["delta"]
        found.append(
            f"Against {_either(alone)} only the randomizing on each person's own device protects: "
            f"at most {guesses(weakest, delta)} guesses are right, 500 blind (ε = {up(weakest)})"
            f"{verdict(weakest)}."
        )
    unproven = [view for each in stated_views if (view := view_of(each)) not in known]
    if unproven and not told:
        found.append(f"Nothing is proven against {_either(unproven)}.")
    if clear:
        found.append(f"{capital(' and '.join(clear))} of each person can be read by others.")
    found.append("Participation itself is not hidden.")
    return " ".join(found)


def too_wide(labels: Sequence[str]) -> str:
    """Say which intervals are of no use."""
    return (
        f"The interval of {_first(labels)} covers more than half of all possible answers: too wide "
        "to use. More people, or a larger ε, would narrow it."
    )


def _either(views: Iterable[Iterable[str]]) -> str:
    *first, last = map(view_title, views)
    return f"{', '.join(first)} or {last}" if first else last


def neighbours(guarantee: Guarantee) -> str:
    """Describe what is hidden under the neighbouring relation of a guarantee."""
    if guarantee.neighbours == "replace-one":
        return (
            "what is hidden is the answer of any one person: two possible worlds that differ in "
            "one person's answer look almost alike. That the person took part is not hidden."
        )
    verb = {"reports-in-group": "gave", "answers-in-group": "has"}[guarantee.neighbours]
    return (
        f"what is hidden is who inside a group {verb} which of its {ORDERED[guarantee.neighbours]}:"
        " two possible worlds that differ in the order inside one group look almost alike."
    )


ORDERED: Final = {"reports-in-group": "reports", "answers-in-group": "answers"}
"""Objects of a hidden order, by the neighbouring relation of its guarantee."""


def order_meaning(order: Mapping[str, Any] | None, who: str, diagnostics: Mapping[str, Any]) -> str:
    """Say what the guarantee of a shuffle about an order means.

    Args:
        order: Description of the guarantee; none where nothing is proven.
        who: The view in words.
        diagnostics: Those of the shuffle.

    """
    if "shuffled" in diagnostics:
        return "Everybody is alone in their groups: there is no order to hide, and nothing moves."
    if order is None:
        return f"Nothing is proven about who in a group said what, against {who}."
    alpha = order["alpha"]
    if not alpha:
        return (
            f"What {who} can see is equally likely for every assignment of the reports to the "
            "people of your group (α = 0)."
        )
    right = (
        f"at most {guesses(alpha)} of their guesses are right, 500 blind (α = {up(alpha)})"
        f"{verdict(alpha)}."
    )
    if order["neighbours"] == "answers-in-group":
        return (
            f"Suppose {who} had narrowed down who in your group has which of its answers to two "
            f"possibilities, equally likely. Whatever they do with what they see, {right}"
        )
    return (
        f"Suppose {who} knew everybody's place, every report outside your group, and those inside "
        "it without knowing whose is whose, and found two answers of yours equally likely after "
        f"all that. Whatever they do with the table, {right}"
    )


def lines(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    """Return names and values of facts; sentences have a line each."""
    found = []
    for each in facts:
        name, value = _named(each.name), each.value
        if isinstance(value, list) and any(isinstance(x, str) and " " in x for x in value):
            found += [(name * (not index), told) for index, told in enumerate(value)]
        else:
            found.append((name, said(each)))
    return found


def live_lines(live: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of the statistics of a live run."""
    sent, dummies = live["cells_sent"], live["cells_dummy"]
    share = f", {percent(dummies / sent)} of them dummies" if sent and dummies else ""
    way = _TRANSPORTS.get(live["transport"], live["transport"])
    at_hub = (
        f"{count(live['delivered'])} cells delivered, those of comparing and answering included, "
        f"{count(live['expired'])} expired, {count(live['in_flight'])} not fetched"
    )
    rounds, seconds = live["round_seconds"], f"{plain(live['seconds'], 3)} seconds"
    size = several(live["bytes_per_device"], "byte")
    on, off = (
        "on: in every round each device sent the same to every contact",
        "off: who sent to whom, and when, was to be seen on the network",
    )
    found = {
        "devices": f"{count(live['devices'])} on {several(live['hosts'], 'host')}, messages went "
        f"{way}",
        "cover traffic": on if live["cover"] else off,
        "cells": f"{several(live['cells_per_device'], 'cell')} and {size} per device{share}",
        "at the hub": at_hub if live["transport"] == "hub" else "",
        "refused": settings(live["rejected"]) or "nothing",
        "rounds missed": count(live["missed_rounds"]),
        "time": seconds if rounds is None else f"{seconds}, rounds of {plain(rounds, 3)}",
    }
    return [(name, told) for name, told in found.items() if told]


def settings(parameters: Mapping[str, Any]) -> str:
    """Return parameters on one line without those that are empty or zero."""
    stated = {name: value for name, value in parameters.items() if value or isinstance(value, bool)}
    return ", ".join(f"{name} = {_setting(value)}" for name, value in stated.items())


def said(fact: Fact) -> str:
    """Return the value of a fact in words."""
    value, rounded = fact.value, _ROUNDED.get(fact.bound)
    match value:
        case None:
            return "–"
        case tuple():
            # The reason, where there is one, comes last.
            known = ", ".join(f"{_named(x.name)} {said(x)}" for x in value if x.name != "why")
            return ": ".join([known, *(x.value for x in value if x.name == "why")])
        case list():
            return _sizes(fact.unit, value) if fact.unit else _first(value, rounded or _setting)
        case float():
            whole = plain(round(value), 15) if _MANY <= value < math.inf else plain(value)
            return rounded(value) if rounded else whole
    return _setting(value)


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _first(value)
    return small(value) if isinstance(value, float) else str(value)


def _first(values: Sequence[Any], shown_as: Callable[[Any], str] = _setting) -> str:
    more = len(values) - _SHOWN
    shown = ", ".join(map(shown_as, values[:_SHOWN]))
    return f"{shown} and {count(more)} more" if more > 0 else shown


def _sizes(thing: str, sizes: Sequence[int]) -> str:
    """Return the number of things and their sizes; those of one person are only counted."""
    together = sorted((size for size in sizes if size > 1), reverse=True)
    alone = len(sizes) - len(together)
    parts = [_first(together)] if together else []
    if alone:
        parts.append("1 person alone" if alone == 1 else f"{count(alone)} people alone")
    return f"{several(len(sizes), _named(thing))}: {', '.join(parts)}"


def capital(text: str) -> str:
    """Return the text with a capital letter."""
    return text[:1].upper() + text[1:]


def _named(name: str) -> str:
    return name.replace("_", " ")
