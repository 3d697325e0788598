"""Views: sets of parties that pool their observations, the adversaries of a guarantee."""

from __future__ import annotations

from collections.abc import Iterable

from incrowd.errors import InvalidParameter
from incrowd.plugins import target

_COMMON = frozenset({"curator", "hub", "peer", "analyst", "network"})
"""Parties of every protocol, without helpers."""
EVERYONE = frozenset({"everyone"})
"""All parties but the victim's own device: only the local randomizer protects."""
_HELPERS = "incrowd.protocols.registry:parties"
"""Function that lists the helpers of protocols, imported only for parties that are not common."""


def known_parties(*, outside: bool = True) -> frozenset[str]:
    """Return the parties that a view can name: the common ones, and helpers of protocols."""
    helpers = target(_HELPERS)(outside=outside).values()
    return _COMMON | {each.name for each in helpers if each.description}


def view_of(view: str | Iterable[str]) -> frozenset[str]:
    """Parse a view: ``"curator"``, ``"curator+shuffler"``, ``"everyone"`` or a set of parties."""
    if isinstance(view, str):
        parties = frozenset(view.split("+"))
    else:
        # Objects that are no parties are then refused by their text.
        parties = frozenset(map(str, view if isinstance(view, Iterable) else (view,)))
    if parties != EVERYONE and not (parties and _known(parties)):
        known = ", ".join(sorted(known_parties()))
        raise InvalidParameter(
            f"unknown view {'+'.join(sorted(parties))!r}: join some of {known} with '+', "
            "or say everyone",
            field="view",
        )
    return parties


def _known(parties: frozenset[str]) -> bool:
    return (
        parties <= _COMMON or parties <= known_parties(outside=False) or parties <= known_parties()
    )


def view_name(view: str | Iterable[str]) -> str:
    """Return the view as one word, such as ``curator+hub``: the key of charges."""
    return "+".join(sorted(view_of(view)))
