"""What the numbers mean, in plain English.

Every sentence is true as it stands: what a promise says is put as the success of a guess, which is
exactly what differential privacy bounds, rather than as a metaphor. Facts are put into words by
their values, bounds and units alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from incrowd.blocks import Bound, Fact
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.registry import parties as helpers
from incrowd.report.format import count, down, guess, percent, plain, round_up, several, small, up
from incrowd.views import EVERYONE

if TYPE_CHECKING:
    from incrowd.randomizers import Randomizer

_ROUNDED: Final[Mapping[Bound, Callable[[float | None], str]]] = {"up": up, "down": down}
_MANY = 1000.0
"""From here on numbers are written out, in whole ones."""
_ASTRONOMIC = 1e15
"""And from here on no more."""
_SHOWN = 5
"""How many entries of a list are shown."""
_TRANSPORTS = {
    "hub": "through the hub",
    "direct": "directly between devices",
    "nats": "over NATS",
}
_PARTIES = {
    "curator": "whoever receives the reports and computes the answer",
    "hub": "the service that stores and forwards messages",
    "peer": "another participant",
    "analyst": "somebody who knows public side information about people",
    "network": "somebody who watches who talks to whom",
}
"""Parties that any protocol may have; helpers are described by their protocols."""


_TITLES = {"peer": "a peer", "network": "an observer of the network"}
"""Parties of whom there are many."""


def view_title(view: Iterable[str]) -> str:
    """A view as a person would name it, such as ``the curator with the shuffler``."""
    parties = frozenset(view)
    if parties == EVERYONE:
        return "everyone else together"
    return " with ".join(_TITLES.get(party, f"the {party}") for party in _in_order(parties))


def _in_order(parties: Iterable[str]) -> list[str]:
    """Those who learn an answer or see a token before those who help them."""
    return sorted(parties, key=lambda party: (party not in ("curator", "peer"), party))


def view_who(view: Iterable[str]) -> str:
    """Who the parties of a view are."""
    parties = frozenset(view)
    if parties == EVERYONE:
        return "all parties pool what they saw: only your own device protects you"
    return "; ".join(map(_described, _in_order(parties)))


def _described(party: str) -> str:
    return _PARTIES.get(party) or helpers()[party].description


def randomized(randomizer: Randomizer) -> str:
    """State in one sentence the treatment of each answer before it left a device."""
    if randomizer.domain == "target":
        return f"{capital(randomizer.treatment())}."
    return (
        "Each answer was randomized on the person’s own device by "
        f"{randomizer.kind} with ε0 = {up(randomizer.epsilon)}."
    )


def promise(guarantee: Guarantee, delta: float) -> str:
    """What a guarantee says at one δ, as the success of a guess."""
    epsilon = guarantee.epsilon(delta)
    right = percent(round_up(guess(epsilon, delta), 3))
    who = view_title(guarantee.view)
    if guarantee.colluders:
        who += f" and {guarantee.colluders} colluding people"
    return (
        f"Suppose {who} knew the answer of every other person, and had narrowed yours down to two "
        f"possibilities, equally likely. A blind guess is right 50 % of the time; whatever they do "
        f"with what they see, theirs is right at most {right} of the time "
        f"(ε = {up(epsilon)}, δ = {small(delta)})."
    )


def neighbours(guarantee: Guarantee) -> str:
    """What is hidden, for the neighbouring relation of a guarantee."""
    return {
        "replace-one": "what is hidden is the answer of any one person: two possible worlds that "
        "differ in one person's answer look almost alike. That the person took part is not hidden.",
        "reports-in-group": "what is hidden is who inside a group gave which of its reports: two "
        "possible worlds that differ in the order inside one group look almost alike.",
        "answers-in-group": "what is hidden is who inside a group has which of its answers: two "
        "possible worlds that differ in the order inside one group look almost alike.",
    }[guarantee.neighbours]


ORDERED: Final = {"reports-in-group": "reports", "answers-in-group": "answers"}
"""What the order is of that a promise hides, by its neighbouring relation."""


def order_promise(own: Mapping[str, Any], about: str, who: str) -> str:
    """What a shuffle that so describes itself promises about an order against somebody so named."""
    alpha = own["alpha"]
    if "shuffled" in own:
        return "Everybody is alone in their groups: there is no order to hide, and nothing moves."
    if alpha is None:
        return f"Nothing is promised about who in a group said what, against {who}."
    if not alpha:
        return (
            f"What {who} can see is equally likely whoever in your group gave which of its "
            "reports (α = 0)."
        )
    right = percent(round_up(guess(alpha, 0.0), 3))
    if about == "answers-in-group":
        return (
            f"Suppose {who} had narrowed down who in your group has which of its answers to two "
            "possibilities, equally likely. Whatever they do with what they see, their guess is "
            f"right at most {right} of the time (α = {up(alpha)})."
        )
    return (
        f"Suppose {who} knew everybody's place, every report outside your group, and those inside "
        "it without knowing whose is whose, and found two answers of yours equally likely after "
        "all that. Whatever they do with the table, their guess is right at most "
        f"{right} of the time (α = {up(alpha)})."
    )


def lines(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    """Names and values; sentences have a line each."""
    found = []
    for each in facts:
        if _sentences(each.value):
            found += [(_named(each.name) * (not at), told) for at, told in enumerate(each.value)]
        else:
            found.append((_named(each.name), said(each)))
    return found


def _sentences(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, str) and " " in each for each in value)


def live_lines(live: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values of what a live run was and sent."""
    sent, dummies = live["cells_sent"], live["cells_dummy"]
    share = f", {percent(dummies / sent)} of them dummies" if sent and dummies else ""
    refused = {reason: number for reason, number in live["rejected"].items() if number}
    cover = (
        "on: in every round each device sent the same to every contact"
        if live["cover"]
        else "off: who sent to whom, and when, was to be seen on the network"
    )
    return [
        (
            "devices",
            f"{count(live['devices'])} on {several(live['hosts'], 'host')}, messages went "
            f"{_TRANSPORTS.get(live['transport'], live['transport'])}",
        ),
        ("cover traffic", cover),
        (
            "cells",
            f"{several(live['cells_per_device'], 'cell')} and "
            f"{several(live['bytes_per_device'], 'byte')} per device{share}",
        ),
        *_at_the_hub(live),
        ("refused", settings(refused) if refused else "nothing"),
        ("rounds missed", count(live["missed_rounds"])),
        ("time", f"{plain(live['seconds'], 3)} seconds{_rounds(live['round_seconds'])}"),
    ]


def settings(parameters: Mapping[str, Any]) -> str:
    """Parameters on one line; those that say nothing, as those that are zero, are left out."""
    stated = {name: value for name, value in parameters.items() if value or isinstance(value, bool)}
    return ", ".join(f"{name} = {_setting(value)}" for name, value in stated.items())


def said(fact: Fact) -> str:
    """The value of a fact in words."""
    value = fact.value
    if value is None:
        return "–"
    if isinstance(value, tuple):
        # What is known of one thing; the reason, where there is one, comes last.
        known = ", ".join(f"{_named(x.name)} {said(x)}" for x in value if x.name != "why")
        return ": ".join([known, *(x.value for x in value if x.name == "why")])
    if isinstance(value, list):
        if fact.unit:
            return _sizes(fact.unit, value)
        return _first(value, _ROUNDED[fact.bound] if fact.bound else _setting)
    if isinstance(value, float) and fact.bound:
        return _ROUNDED[fact.bound](value)
    if isinstance(value, float):
        return count(round(value)) if _MANY <= value < _ASTRONOMIC else plain(value)
    return _setting(value)


def _at_the_hub(live: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What became of the cells that the hub held; on other ways it holds none."""
    if live["transport"] != "hub":
        return []
    return [
        (
            "at the hub",
            f"{count(live['delivered'])} cells delivered, those of comparing and answering "
            f"included, {count(live['expired'])} expired, {count(live['in_flight'])} not fetched",
        )
    ]


def _rounds(seconds: float | None) -> str:
    return "" if seconds is None else f", rounds of {plain(seconds, 3)}"


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _first(value)
    return small(value) if isinstance(value, float) else str(value)


def _first(values: Sequence[Any], shown_as: Callable[[Any], str] | None = None) -> str:
    more = len(values) - _SHOWN
    shown = ", ".join(map(shown_as or _setting, values[:_SHOWN]))
    return f"{shown} and {count(more)} more" if more > 0 else shown


def _sizes(thing: str, sizes: Sequence[int]) -> str:
    """How many there are and how large; those of one person are only counted."""
    together = sorted((size for size in sizes if size > 1), reverse=True)
    alone = len(sizes) - len(together)
    parts = [_first(together)] if together else []
    if alone:
        parts.append("1 person alone" if alone == 1 else f"{count(alone)} people alone")
    return f"{several(len(sizes), _named(thing))}: {', '.join(parts)}"


def capital(text: str) -> str:
    """The text with a capital letter."""
    return text[:1].upper() + text[1:]


def _named(name: str) -> str:
    return name.replace("_", " ")
