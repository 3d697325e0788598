"""Results at a prompt and in a notebook: as a line, a table, a frame, JSON and a picture.

Everything is rendered by ``incrowd.report.notebook``, which is imported when something is shown, so
that computing alone loads nothing of it.
"""

from __future__ import annotations

from typing import Any

from incrowd.plugins import target

_NOTEBOOK = "incrowd.report.notebook"


class Displayed:
    """Base of results that show themselves."""

    def __repr__(self) -> str:
        return str(target(f"{_NOTEBOOK}:text")(self))

    def _repr_html_(self) -> str:
        return str(target(f"{_NOTEBOOK}:html")(self))

    def to_frame(self) -> Any:
        """Return the rows as a frame of pandas, or of polars where pandas is not installed.

        Raises:
            MissingExtra: with neither of them.

        """
        return target(f"{_NOTEBOOK}:frame")(self)

    def to_json(self) -> str:
        """Return the rows as JSON, with full doubles; null where there is no finite number."""
        return str(target(f"{_NOTEBOOK}:as_json")(self))

    def plot(self) -> Any:
        """Return a figure of matplotlib.

        Raises:
            MissingExtra: without matplotlib.

        """
        return target(f"{_NOTEBOOK}:figure")(self)
