"""Groups from coordinates: everybody within a radius, computed when they are needed.

The group of a person is the closed ball around their place, d ≤ r, so that people at one same
point share one group. Distances are Euclidean in any number of dimensions, or along the surface of
the earth (:mod:`.geo`), by a chord between points on the unit sphere.

Nobody is left out of a group by rounding: the radius is enlarged by a trillionth and by a few units
in the last place of the largest coordinate. A larger group only guarantees more. A radius of 0 is
kept as it is: people at the very same point.

Only places are held; members are found again by a k-d tree whenever they are read. A tree rounds in
its own way, so that it is asked for a little more than the radius, and one fixed formula decides
about places that are neither clearly inside nor clearly outside.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from incrowd import checks
from incrowd.errors import InvalidCrowd, InvalidParameter
from incrowd.protocols.order_shuffle.groupings import base
from incrowd.protocols.order_shuffle.groupings.base import MOST_HELD, Grouping, Incidence, IntArray
from incrowd.protocols.order_shuffle.groupings.geo import chord, on_sphere

FloatArray = NDArray[np.float64]

METRICS = ("euclidean", "haversine")

_ENLARGED = 1e-12
_ROUNDING = 8 * 2.0**-52
_DOUBT, _TINY = 1e-9, 1e-150
"""Margins around the radius in which the formula decides: relative, and where squares vanish."""
_PAIRS = 2**18
"""Pairs of places that are found at once."""
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
        """Check the places and count who is near.

        ``centres``: those of the groups, in the coordinates that are searched, and the own one of
        each person; for groups around absent people.
        """
        if metric not in METRICS:
            raise InvalidParameter(
                f"metric: {metric!r} is not known; {checks.did_you_mean(str(metric), METRICS)}"
            )
        if checks.number(radius, "radius") < 0:
            raise InvalidParameter(f"radius must be at least 0, got {radius!r}", field="radius")
        self.metric, self.radius = metric, float(radius)
        self.points = checked_points(points, metric)
        self.n, self.words = len(self.points), _words(self.radius, metric)
        searched, reach = self.points, self.radius
        if metric == "haversine":
            searched, reach = on_sphere(self.points), chord(self.radius)
        if reach:
            reach += _ENLARGED * reach + _ROUNDING * float(np.abs(searched).max())
        self._places = _Places(searched, reach)
        self._find(*(centres or (self._places.points, self._places.place_of)))

    def _find(self, centres: FloatArray, centre_of: IntArray) -> None:
        """Keep the centres with people near; all around which everybody is are one."""
        weights = np.diff(self._places.people_indptr)
        sizes, near = np.empty((2, len(centres)), np.int64)
        for first, end, centre, place in self._places.near(centres):
            sizes[first:end] = np.bincount(centre, weights[place], end - first)
            near[first:end] = np.bincount(centre, minlength=end - first)
        kept = sizes > 0
        everybody = np.flatnonzero(sizes == self.n)
        kept[everybody[1:]] = False
        group = np.cumsum(kept) - 1
        group[everybody] = group[everybody[:1]]
        self._centres, self._near = centres[kept], near[kept]
        self._group_of, self._sizes = base.frozen(group[centre_of]), base.frozen(sizes[kept])

    @property
    def sizes(self) -> IntArray:
        return self._sizes

    @cached_property
    def digest(self) -> str:
        text = f"balls {self.metric} {self.radius.hex()} {self.n} {self.points.shape[1]} "
        found = hashlib.sha256(text.encode())
        found.update(self.points.astype("<f8").tobytes())
        found.update(self._centres.astype("<f8").tobytes())
        return found.hexdigest()

    @property
    def own(self) -> IntArray:
        return self._group_of

    def _members(self, first: int, end: int) -> base.Block:
        indptr = np.append(0, np.cumsum(self._sizes[first:end]))
        at, people = self._places.people_indptr, self._places.people
        members = (base.runs(at, people, places) for places in self._listed(first, end))
        return base.Block(first, indptr, _joined(members, np.empty(indptr[-1], np.int64)))

    def _listed(self, first: int, end: int) -> Iterator[IntArray]:
        """The places of some groups, one group after another, increasing in each."""
        found = self._places.near(self._centres[first:end], self._near[first:end])
        for *_, centre, place in found:
            keys = place, place >> 16, centre  # Sixteen bits at a time, which is the fastest.
            yield place[np.lexsort([key.astype(np.uint16) for key in keys])]

    def subset(self, people: ArrayLike) -> BallGroups:
        """The same balls when only these people take part, also those around absent people."""
        picked = base.chosen(people, self.n)
        centres = self._centres, self._group_of[picked]
        return BallGroups(self.points[picked], self.radius, self.metric, centres=centres)

    def incidence(self) -> Incidence | None:
        indptr = np.append(0, np.cumsum(self._near))
        if indptr[-1] > MOST_HELD:
            return None
        atoms = _joined(self._listed(0, self.count), np.empty(indptr[-1], np.int32))
        at, people = self._places.people_indptr, self._places.people
        return Incidence(at, people, self._group_of[people[at[:-1]]], indptr, atoms)

    def breadth_first(self) -> IntArray:
        """People by the search over :meth:`incidence`, but for groups too large to be listed."""
        own = self._group_of[self._places.people[self._places.people_indptr[:-1]]]
        points, reached, order = self._places.points, np.zeros(own.size, bool), []
        for root in np.argsort(-self._sizes[own], kind="stable"):
            level = np.array([] if reached[root] else [root], np.int64)
            reached[level] = True
            while level.size:
                order.append(level)
                found = []
                for *_, centre, place in self._places.near(points[level], self._near[own[level]]):
                    new = ~reached[place]
                    place = place[new][np.lexsort((place[new], centre[new]))]
                    found.append(place[np.sort(np.unique(place, return_index=True)[1])])
                    reached[place] = True
                level = np.concatenate(found)
        rank = np.argsort(np.concatenate(order))
        return np.argsort(rank[self._places.place_of], kind="stable")

    def by_place(self) -> IntArray:
        """All people, those at one place one after another."""
        return self._places.people

    def plane(self) -> FloatArray:
        """Coordinates to sort people by: those of the earth flattened around the middle of all."""
        if self.metric == "euclidean":
            return self.points
        latitude, longitude = self.points.T
        turned = np.radians(longitude)
        middle = math.degrees(math.atan2(np.sin(turned).mean(), np.cos(turned).mean()))
        east = (longitude - middle + 180) % 360 - 180
        return np.column_stack([latitude, east * np.cos(np.radians(latitude.mean()))])


class _Places:
    """Distinct places, their people, and a tree that finds the places near a point."""

    def __init__(self, points: FloatArray, reach: float) -> None:
        """Number places row by row, rows as high as the reach: neighbours have close numbers."""
        from scipy.spatial import cKDTree

        spread = np.ptp(points, axis=0)
        wide = np.argsort(-spread, kind="stable")
        across = points[:, wide[min(1, wide.size - 1)]]
        self.reach, self.along = reach, int(wide[0])
        height = max(reach * (1 + 1e-6), float(np.ptp(across)) / _MOST_ROWS) or 1.0
        row = (across - across.min()) // height
        self.people = np.lexsort((*points.T, points[:, self.along], row))
        ordered = points[self.people]
        new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
        self.place_of = np.empty(len(points), np.int64)
        self.place_of[self.people] = np.cumsum(new) - 1
        self.people_indptr = np.append(np.flatnonzero(new), len(points))
        self.points = ordered[new]
        self._tree = cKDTree(self.points)

    def near(
        self, centres: FloatArray, counts: IntArray | None = None
    ) -> Iterator[tuple[int, int, IntArray, IntArray]]:
        """Pairs of centre and place that are near, in no order, for a range of centres at a time.

        Yields the range, and of all pairs the centre, counted from the first, and the place; at
        most 2^16 centres at a time. ``counts``: about how many places are near each, if known.
        """
        from scipy.spatial import cKDTree

        wide, narrow = self.reach * (1 + _DOUBT) + _TINY, self.reach * (1 - _DOUBT) - _TINY
        if counts is None:
            counts = np.asarray(self._tree.query_ball_point(centres, wide, return_length=True))
        for first, end in base.spans(counts + _PAIRS // 2**16, _PAIRS):
            here = centres[first:end]
            found = cKDTree(here).sparse_distance_matrix(self._tree, wide, output_type="ndarray")
            centre, place = found["i"], found["j"]
            doubtful = np.flatnonzero(found["v"] > narrow)
            if doubtful.size:
                near = np.ones(centre.size, bool)
                near[doubtful] = self.within(here[centre[doubtful]], self.points[place[doubtful]])
                centre, place = centre[near], place[near]
            yield first, end, centre, place

    def within(self, here: FloatArray, there: FloatArray) -> NDArray[np.bool_]:
        """The rule that decides, row by row; squares are summed in the order of coordinates."""
        square = np.zeros(len(here))
        for a, b in zip(here.T, there.T, strict=True):
            square += (a - b) ** 2
        from_, to = here[:, self.along], there[:, self.along]
        inside = (from_ - self.reach <= to) & (to <= from_ + self.reach)
        return np.asarray(inside & (square <= self.reach * self.reach))


def _joined(parts: Iterable[NDArray[Any]], out: NDArray[Any]) -> NDArray[Any]:
    filled = 0
    for part in parts:
        out[filled : filled + part.size] = part
        filled += part.size
    return out


def checked_points(points: ArrayLike, metric: str) -> FloatArray:
    """One row of finite coordinates per person, in one form for each place."""
    try:
        found: FloatArray = np.array(points, dtype=np.float64, order="C")
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
    return base.frozen(found)


def _words(radius: float, metric: str) -> str:
    if radius == 0:
        return "everybody at the same place"
    unit = " km" if metric == "haversine" else ""
    return f"everybody within {radius:g}{unit}"
