"""Distances on the earth, a sphere of 6371.0088 km.

A great circle of length r is a straight line, a *chord*, of 2·sin(r / 2R) earth radii through the
ball. So points on the unit sphere in three dimensions, and a chord, find who is near whom, and
neither the date line nor the poles are special.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

EARTH_RADIUS = 6371.0088
"""The mean radius of the earth, in kilometres."""
DEGREE = math.pi / 180 * EARTH_RADIUS
"""Kilometres in a degree of latitude."""


def on_sphere(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Latitudes and longitudes, in degrees, as points on the unit sphere."""
    latitude, longitude = np.radians(points).T
    flat = np.cos(latitude)
    return np.column_stack([flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)])


def chord(kilometres: float) -> float:
    """The straight line through the earth to what is this far away, in earth radii."""
    return 2 * math.sin(min(kilometres / (2 * EARTH_RADIUS), math.pi / 2))


def apart(here: NDArray[np.float64], there: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kilometres between places in degrees, row by row."""
    straight = np.linalg.norm(on_sphere(here) - on_sphere(there), axis=1)
    return np.asarray(2 * EARTH_RADIUS * np.arcsin(np.minimum(straight / 2, 1.0)))
