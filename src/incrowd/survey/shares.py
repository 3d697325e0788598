"""Division of one person's ε0 among several questions, by their weights.

Behind a shuffler, what a report of ε0 reveals is measured by its shuffle index v(ε0), the blanket's
mean of (a − b)²: √v is, up to the crowd, the parameter of the Gaussian that the privacy loss comes
close to, and the error of the answer falls as 1/√v. Questions share the budget so that √v is in
proportion to their weights: twice the weight, about half the standard error. Only the division
rests on that; whatever comes out is accounted for exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import IncrowdError
from incrowd.randomizers.base import Randomizer

_GRID = np.geomspace(2.0**-10, 2.0**5, 61)
"""Values of ε0 at which the index is computed; between them it is close to a power."""
_STEPS = 80

Draw = Callable[[float], Randomizer]
"""The randomizer of a question as a function of its ε0."""


class Shares:
    """Shares of several questions in a total ε0."""

    def __init__(self, draws: Sequence[Draw], weights: Sequence[float]) -> None:
        self._curves = [_indices(draw) for draw in draws]
        self._weights = [float(np.log(weight)) for weight in weights]

    def of(self, total: float) -> list[float]:
        """Return the ε0 of each question; their sum is at most ``total``."""
        low, high = -60.0, 60.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if sum(self._at(middle)) < total else (low, middle)
        found = self._at(low)
        return [each * (total / sum(found)) * (1 - 2.0**-50) for each in found]

    def _at(self, scale: float) -> list[float]:
        """The ε0 at which √v is the weight times this scale, in logarithms."""
        pairs = zip(self._curves, self._weights, strict=True)
        return [float(np.exp(_along(curve, scale + weight))) for curve, weight in pairs]


def _along(curve: tuple[NDArray[np.float64], NDArray[np.float64]], height: float) -> float:
    """Interpolate log ε0 at a height; beyond the ends ε0 grows with √v."""
    places, heights = curve
    beyond = height - float(np.clip(height, heights[0], heights[-1]))
    return float(np.interp(height, heights, places)) + beyond


def _indices(draw: Draw) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    places, heights = [], []
    for epsilon in _GRID:
        try:
            law = draw(float(epsilon)).blanket()
        except IncrowdError:
            continue  # no such randomizer with so much or so little noise
        places.append(np.log(epsilon))
        heights.append(np.log(float(law.mass @ (law.a - law.b) ** 2)) / 2)
    return np.array(places), np.maximum.accumulate(np.array(heights))
