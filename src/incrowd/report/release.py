"""What a report says of a release: the map that can be drawn from the table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from incrowd.protocols.api import Protocol
from incrowd.report.figures import map_figure
from incrowd.report.format import count, percent
from incrowd.report.parts import figure, section
from incrowd.tasks.base import Answer
from incrowd.tasks.release import Released, local_shares

__all__ = ["map_section"]

_MOST_MAPS = 4
_ACROSS = 24
"""Squares of a map from one side to the other."""
_AROUND, _LEAST = 0.03, 30
"""The share of people whom a square of a map is estimated from, and the fewest."""


def map_section(answer: Answer, protocol: Protocol) -> str:
    """The table as a map; nothing of other questions, or of places that are not on a plane."""
    if not isinstance(answer, Released) or answer.points is None or answer.points.shape[1] != 2:
        return ""
    points = answer.points
    nearest = min(len(points), max(_LEAST, math.ceil(_AROUND * len(points))))
    grid = _squares(points)
    estimated = local_shares(answer, protocol.randomizer, grid, nearest)
    largest = np.argsort(-answer.value, kind="stable")[:_MOST_MAPS]
    shares = {answer.labels[each]: estimated[:, each] for each in largest}
    geographic = getattr(protocol.parameters, "metric", "") == "haversine"
    middle = math.radians(float(points[:, 0].mean()))
    stretch = 1 / max(math.cos(middle), 0.1) if geographic else 1.0
    told = "; ".join(
        f"{name} from {percent(float(np.clip(each, 0, 1).min()))} to "
        f"{percent(float(np.clip(each, 0, 1).max()))}"
        for name, each in shares.items()
    )
    return section(
        "Where it is",
        "<p>The released table has one report for each place. It need not be that of the person "
        "who is there: it may be that of somebody near. On the left the reports as they "
        f"are; beside them the share of each answer around every square, from the "
        f"{count(nearest)} nearest rows, with the noise of randomizing removed. What shuffling "
        "has mixed stays mixed: details are gone up to how far reports have moved.</p>"
        + figure(
            map_figure(answer, shares, grid, stretch=stretch),
            f"Maps of the released reports. Estimated shares by place: {told}.",
            "The darker, the larger the estimated share; one below zero is drawn as none.",
        ),
    )


def _squares(points: Any) -> Any:
    """The middles of squares that have somebody in them, in a regular grid over all points."""
    low, high = points.min(axis=0), points.max(axis=0)
    step = np.where(high > low, (high - low) / _ACROSS, 1.0)
    cells = np.unique(np.minimum((points - low) // step, _ACROSS - 1), axis=0)
    return low + (cells + 0.5) * step
