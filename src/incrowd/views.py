"""Views: the parties who pool what they see, from whom an answer is kept."""

from __future__ import annotations

from collections.abc import Iterable

from incrowd.errors import InvalidParameter

__all__ = ["EVERYONE", "PARTIES", "view_name", "view_of"]

PARTIES = frozenset(
    {"curator", "hub", "shuffler", "courier", "peer", "analyst", "network", "scrambler"}
)
EVERYONE = frozenset({"everyone"})
"""All parties but the victim's own device: only the local randomizer protects."""


def view_of(view: str | Iterable[str]) -> frozenset[str]:
    """A view from ``"curator"``, ``"curator+shuffler"``, ``"everyone"`` or a set of parties."""
    if isinstance(view, str):
        parties = frozenset(view.split("+"))
    else:
        # Whatever is no party, of whatever type, is then refused by its text.
        parties = frozenset(map(str, view if isinstance(view, Iterable) else (view,)))
    if parties != EVERYONE and (not parties or not parties <= PARTIES):
        known = ", ".join(sorted(PARTIES))
        raise InvalidParameter(
            f"unknown view {'+'.join(sorted(parties))!r}: join some of {known} with '+', "
            "or say everyone",
            field="view",
        )
    return parties


def view_name(view: str | Iterable[str]) -> str:
    """The view as one word under which charges are kept, such as ``curator+hub``."""
    return "+".join(sorted(view_of(view)))
