"""Groups from coordinates: everybody within a radius, computed when they are needed.

The group of a person is the closed ball around their place, d ≤ r, so that people at one same
point share one group. Distances are Euclidean in any number of dimensions, or along the surface of
the earth (:mod:`.geo`), where points on the unit sphere and a chord say who is near.

Nobody is ever left out of a group by rounding: the radius is enlarged by a trillionth and by a few
units in the last place of the largest coordinate. A larger group only promises more. A radius of 0
is kept as it is: people at the very same point.

Only places are held, sorted in rows (:mod:`.kernels`); members are found again whenever they
are read, which takes about as long as reading them from memory would.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.groupings.base import (
    MOST_HELD,
    Block,
    Grouping,
    Incidence,
    IntArray,
    chosen,
    frozen,
)
from incrowd.protocols.order_shuffle.groupings.geo import chord, on_sphere

FloatArray = NDArray[np.float64]

METRICS = ("euclidean", "haversine")

_ENLARGED = 1e-12
_ROUNDING = 8 * 2.0**-52
_MOST_ROWS = 2**20
_GREATEST = 1e150
"""Coordinates stay below this, so that squares of their differences are finite."""


def from_points(points: ArrayLike, radius: float, metric: str = "euclidean") -> BallGroups:
    """Everybody within ``radius``: one group for each distinct point.

    ``points`` has one row per person; for ``haversine`` its columns are latitude and longitude in
    degrees, and the radius is in kilometres.
    """
    return BallGroups(points, radius, metric)


class BallGroups(Grouping):
    """One group around each distinct place: everybody within a radius of it."""

    def __init__(
        self,
        points: ArrayLike,
        radius: float,
        metric: str = "euclidean",
        *,
        centres: tuple[FloatArray, IntArray] | None = None,
    ) -> None:
        """Check the places and count who is near; ``centres`` is for groups of absent people.

        These are centres of groups, in the coordinates that are searched, and the own one of each
        person.
        """
        if metric not in METRICS:
            raise InvalidParameter(
                f"metric: {metric!r} is not known; {checks.did_you_mean(str(metric), METRICS)}"
            )
        if checks.number(radius, "radius") < 0:
            raise InvalidParameter(f"radius must be at least 0, got {radius!r}", field="radius")
        self.metric = metric
        self.radius = float(radius)
        self.points = checked_points(points, metric)
        self.n = len(self.points)
        self.words = _words(self.radius, metric)
        if metric == "haversine":
            searched, reach = on_sphere(self.points), chord(self.radius)
        else:
            searched, reach = self.points, self.radius
        if reach:
            reach += _ENLARGED * reach + _ROUNDING * float(np.abs(searched).max())
        self._grid = _Grid.of(searched, reach)
        if centres is None:
            centres = self._grid.places, self._grid.place_of
        self._find(*centres)

    def _find(self, centres: FloatArray, centre_of: IntArray) -> None:
        """Keep the centres that have somebody near; all around which everybody is are one."""
        sizes, places = self._grid.counts(centres)
        kept = sizes > 0
        everybody = np.flatnonzero(sizes == self.n)
        kept[everybody[1:]] = False
        group = np.cumsum(kept) - 1
        if everybody.size:
            group[everybody] = group[everybody[0]]
        self._centres = centres[kept]
        self._group_of = frozen(group[centre_of])
        self._sizes = frozen(sizes[kept])
        self._places = places[kept]

    @property
    def sizes(self) -> IntArray:
        """How many people each group has."""
        return self._sizes

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of the metric, the radius, everybody's place and the centres of the groups."""
        text = f"balls {self.metric} {self.radius.hex()} {self.n} {self.points.shape[1]} "
        found = hashlib.sha256(text.encode())
        found.update(self.points.astype("<f8").tobytes())
        found.update(self._centres.astype("<f8").tobytes())
        return found.hexdigest()

    @property
    def own(self) -> IntArray:
        """The group around the place of each person."""
        return self._group_of

    def _members(self, first: int, end: int) -> Block:
        indptr = np.zeros(end - first + 1, np.int64)
        np.cumsum(self._sizes[first:end], out=indptr[1:])
        near = self._grid.near(self._centres[first:end], int(self._places[first:end].sum()))
        return Block(first, indptr, self._grid.people_at(near, int(indptr[-1])))

    def subset(self, people: ArrayLike) -> BallGroups:
        """The same balls when only these people take part, also those around absent people."""
        picked = chosen(people, self.n)
        centres = self._centres, self._group_of[picked]
        return BallGroups(self.points[picked], self.radius, self.metric, centres=centres)

    def incidence(self) -> Incidence | None:
        """Which places are in which group, or None where that is too large to hold."""
        total = int(self._places.sum())
        if total > MOST_HELD:
            return None
        grid = self._grid
        indptr = np.zeros(self.count + 1, np.int64)
        np.cumsum(self._places, out=indptr[1:])
        own = self._group_of[grid.people[grid.people_indptr[:-1]]]
        near = grid.near(self._centres, total)
        return Incidence(grid.people_indptr, grid.people, own, indptr, near)

    def breadth_first(self) -> IntArray:
        """People by a breadth-first search from the largest group, without listing any group.

        The same as a search over :meth:`incidence`, for groups of any size.
        """
        from incrowd.protocols.order_shuffle.groupings.kernels import search_near

        grid = self._grid
        own = self._sizes[self._group_of[grid.people[grid.people_indptr[:-1]]]]
        order = np.empty(own.size, np.int64)
        _, along, rows = grid.searched(grid.places)
        roots = np.argsort(-own, kind="stable")
        search_near(*grid.sorted, along, rows, grid.reach, roots, order)
        return np.argsort(np.argsort(order)[grid.place_of], kind="stable")

    def by_place(self) -> IntArray:
        """All people, those at one place one after another."""
        return self._grid.people

    def plane(self) -> FloatArray:
        """Everybody's coordinates, those of the earth flattened around the middle of all people.

        Only good for sorting people: distances are not kept.
        """
        if self.metric == "euclidean":
            return self.points
        latitude, longitude = self.points.T
        turned = np.radians(longitude)
        middle = math.degrees(math.atan2(np.sin(turned).mean(), np.cos(turned).mean()))
        east = (longitude - middle + 180) % 360 - 180
        return np.column_stack([latitude, east * np.cos(np.radians(latitude.mean()))])


@dataclass(frozen=True, eq=False)
class _Grid:
    """Distinct places, sorted by rows and along them, and who is there."""

    reach: float
    places: FloatArray
    place_of: IntArray
    people_indptr: IntArray
    people: IntArray
    across: int
    """The coordinate that is cut into rows."""
    along: int
    """The coordinate by which rows are sorted."""
    lowest: float
    height: float
    rows: IntArray
    starts: IntArray

    @classmethod
    def of(cls, points: FloatArray, reach: float) -> _Grid:
        """Rows across the widest coordinate but one, sorted along the widest."""
        spread = np.ptp(points, axis=0)
        wide = np.argsort(-spread, kind="stable")
        along, across = int(wide[0]), int(wide[min(1, wide.size - 1)])
        lowest = float(points[:, across].min())
        # A little more than the radius, so that rounding puts nobody two rows away.
        height = max(reach * (1 + 1e-6), float(spread[across]) / _MOST_ROWS) or 1.0
        row = ((points[:, across] - lowest) // height).astype(np.int64)
        order = np.lexsort((*points.T, points[:, along], row))
        ordered = points[order]
        new = np.ones(len(points), bool)
        new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        place_of = np.empty(len(points), np.int64)
        place_of[order] = np.cumsum(new) - 1
        first = np.flatnonzero(new)
        rows, starts = np.unique(row[order][first], return_index=True)
        return cls(
            reach,
            np.ascontiguousarray(ordered[first]),
            place_of,
            np.append(first, len(points)),
            order,
            across,
            along,
            lowest,
            height,
            rows,
            np.append(starts, first.size),
        )

    def searched(self, centres: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
        """Points to search around, how far along they are, and their rows."""
        rows = ((centres[:, self.across] - self.lowest) // self.height).astype(np.int64)
        return centres, np.ascontiguousarray(centres[:, self.along]), rows

    @cached_property
    def sorted(self) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
        """What is searched: places, how far along they are, rows and where these start."""
        return self.places, np.ascontiguousarray(self.places[:, self.along]), self.rows, self.starts

    def counts(self, centres: FloatArray) -> tuple[IntArray, IntArray]:
        """How many people and how many places are near each centre."""
        from incrowd.protocols.order_shuffle.groupings.kernels import count_near

        people = np.empty(len(centres), np.int64)
        places = np.empty(len(centres), np.int64)
        weights = np.diff(self.people_indptr)
        searched = self.searched(centres)
        count_near(*self.sorted, weights, *searched, self.reach, people, places)
        return people, places

    def near(self, centres: FloatArray, total: int) -> NDArray[np.int32]:
        """The places near each centre, of which there are ``total``, increasing for each."""
        from incrowd.protocols.order_shuffle.groupings.kernels import list_near

        found = np.empty(total, np.int32)
        list_near(*self.sorted, *self.searched(centres), self.reach, found)
        return found

    def people_at(self, places: NDArray[np.int32], total: int) -> IntArray:
        """The people at some places, of whom there are ``total``."""
        from incrowd.protocols.order_shuffle.groupings.kernels import list_near_people

        found = np.empty(total, np.int64)
        list_near_people(places, self.people_indptr, self.people, found)
        return found


def checked_points(points: ArrayLike, metric: str) -> FloatArray:
    """One row of finite coordinates per person, in one form for each place."""
    try:
        found: FloatArray = np.array(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter("points must be numbers, with as many columns in each row") from None
    if found.ndim == 1:
        found = found[:, np.newaxis]
    if found.ndim != 2 or found.shape[1] == 0:
        raise InvalidParameter(f"points must have one row per person, got shape {found.shape}")
    if len(found) == 0:
        raise InvalidCrowd("points has no rows: at least one person is needed")
    names: tuple[str, ...] = tuple(f"coordinate {c + 1}" for c in range(found.shape[1]))
    bounds: tuple[float, ...] = (_GREATEST,) * found.shape[1]
    if metric == "haversine":
        if found.shape[1] != 2:
            raise InvalidParameter(
                f"haversine needs two columns, latitude and longitude, got {found.shape[1]}"
            )
        names, bounds = ("latitude", "longitude"), (90.0, 180.0)
    for column, (name, bound) in enumerate(zip(names, bounds, strict=True)):
        wrong = ~(np.abs(found[:, column]) <= bound)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidParameter(
                f"row {row + 1}: {name} must lie between {-bound:g} and {bound:g}, got"
                f" {float(found[row, column])!r}"
            )
    if metric == "haversine":
        found[found[:, 1] == -180, 1] = 180.0
        found[np.abs(found[:, 0]) == 90, 1] = 0.0
    found += 0.0  # No −0.
    return _fixed(found)


def _fixed(array: NDArray[Any]) -> NDArray[Any]:
    return frozen(np.ascontiguousarray(array))


def _words(radius: float, metric: str) -> str:
    if radius == 0:
        return "everybody at the same place"
    unit = " km" if metric == "haversine" else ""
    return f"everybody within {radius:g}{unit}"
