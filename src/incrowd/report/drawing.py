"""Colours and texts that all figures share."""

from __future__ import annotations

COLOURS = {
    "ink": "#1d2129",
    "muted": "#5d6470",
    "line": "#e4e2dd",
    "truth": "#b4471a",
    "series-1": "#1f5fbf",
    "series-2": "#b4471b",
    "series-3": "#6b4fa0",
    "series-4": "#1d7a4c",
}
"""Colours by the custom property of the page; no two are the same."""
INK, MUTED, GRID, TRUTH, *SERIES = COLOURS.values()


def literal(name: str) -> str:
    """Return a name in which matplotlib sees no formula."""
    return str(name).replace("$", r"\$")
