"""Helpers that several protocols share, and the views that follow."""

from __future__ import annotations

from typing import Final

from incrowd.protocols.registry import Party

SHUFFLER: Final = Party(
    name="shuffler",
    number=1,
    description="the party that mixes the reports before the curator sees them",
)

SHUFFLER_VIEWS: Final = ("curator", "curator+hub", "curator+shuffler", "everyone")
"""Views that results of protocols with a shuffler state."""
