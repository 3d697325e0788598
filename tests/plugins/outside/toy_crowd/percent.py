"""A task: a histogram in percent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from incrowd.randomizers.base import Estimate, FloatArray
from incrowd.tasks import Histogram


class ToyPercent(Histogram, frozen=True, kw_only=True, tag="toy-percent"):
    """The share of people in each category, in percent."""

    def scale(self, people: int) -> float:
        del people
        return 100.0

    def truth(self, column: Any) -> FloatArray:
        return 100 * super().truth(column)

    def in_units(self, estimate: Estimate, people: int) -> Estimate:
        del people
        return replace(estimate, value=100 * estimate.value, variance=1e4 * estimate.variance)
