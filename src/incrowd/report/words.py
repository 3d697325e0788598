"""What the numbers mean, in plain English.

Every sentence is true as it stands: what a promise says is put as the success of a guess, which is
exactly what differential privacy bounds, rather than as a metaphor.
"""

from __future__ import annotations

from collections.abc import Iterable

from incrowd.privacy.guarantee import EVERYONE, Guarantee
from incrowd.report.format import guess, percent, round_up, small, up

__all__ = ["neighbours", "promise", "view_title", "view_who"]

_PARTIES = {
    "curator": "whoever receives the reports and computes the answer",
    "shuffler": "whoever mixes the reports before the curator sees them",
    "hub": "the service that stores and forwards messages",
    "peer": "another participant",
    "analyst": "somebody who knows public side information about people",
    "network": "somebody who watches who talks to whom",
}


def view_title(view: Iterable[str]) -> str:
    """A view as a person would name it, such as ``the curator with the shuffler``."""
    parties = frozenset(view)
    if parties == EVERYONE:
        return "everyone else together"
    first, *rest = sorted(parties, key=lambda party: (party != "curator", party))
    article = "a peer" if first == "peer" else f"the {first}"
    return " with ".join([article, *(f"the {party}" for party in rest)])


def view_who(view: Iterable[str]) -> str:
    """Who the parties of a view are."""
    parties = frozenset(view)
    if parties == EVERYONE:
        return "all parties pool what they saw: only your own device protects you"
    ordered = sorted(parties, key=lambda party: (party != "curator", party))
    return "; ".join(_PARTIES[party] for party in ordered)


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
        "differ in one person's answer look almost alike. That the person took part is not hidden."
    }[guarantee.neighbours]
