"""Helpers that several protocols share."""

from __future__ import annotations

from typing import Final

from incrowd.protocols.registry import Party

SHUFFLER: Final = Party(
    name="shuffler",
    number=1,
    description="whoever mixes the reports before the curator sees them",
)
