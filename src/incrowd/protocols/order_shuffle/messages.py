"""The messages of an order-private shuffle, and which places make sense in one.

They are tagged MessagePack arrays, decoded as strictly as those of
``incrowd.protocols.runtime.wire``. A place is public, but a report is not, so that nothing about a
message may depend on the report: payloads of one survey have one size, and a number always takes
nine bytes. The names of groups are sent as they are, and counted at the longest that they can be
(:func:`placed_bytes`). So without cover a message tells by its length how long the names
are, which is public; with cover there are cells for the longest, and not even that shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.order_shuffle.settings import Metric
from incrowd.protocols.runtime import wire
from incrowd.randomizers.base import FloatArray
from incrowd.tasks.base import PlaceKind
from incrowd.tasks.release import MOST_GROUP_TEXT, group_names

_MOST_AXES: Final = 8
_GREATEST: Final = 1e150
"""Beyond this the square of a distance is not finite."""
_FARTHEST: Final = 2.0**40
"""Radii beyond which a distance is rounded by a five-hundredth of a radius."""
_EARTH: Final = (90.0, 180.0)
"""Bounds of latitude and longitude."""
_WIDEST: Final = "\U0010ffff"
"""A character that takes as many bytes as any."""

_Point = Annotated[list[float], msgspec.Meta(min_length=1, max_length=_MOST_AXES)]
_Names = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_GROUP_TEXT)]

Place = _Point | _Names | None
"""Coordinates, the names of groups, or nothing where a place is just a person."""


class PlacedReport(wire.Body, frozen=True, tag="placed"):
    """From a device to the shuffler: where its owner is, and a report that only the curator reads.

    The identifier tells a repeated message from a new one, and stays with the shuffler.
    """

    id: wire.Id
    place: Place
    payload: Annotated[bytes, msgspec.Meta(min_length=1)]


class PlacedBatch(wire.Body, frozen=True, tag="placed-batch"):
    """From the shuffler to the curator: who came, where they are, and the report at each place.

    Aligned, and in the order of ``who``, which is increasing, so that the order of the rows says
    nothing. Whose report a payload was does not travel.
    """

    round: ClassVar[int] = 0
    """There is only one."""

    who: list[wire.Count]
    places: list[Place]
    payloads: list[bytes]


@dataclass(frozen=True)
class PlaceFormat:
    """Format of the places of one survey."""

    kind: PlaceKind
    bounds: tuple[float, ...]
    """Largest size of each coordinate, with either sign."""

    @staticmethod
    def of(kind: PlaceKind, axes: int, metric: Metric, radius: float | None) -> PlaceFormat:
        """The format of a survey.

        A single point at the end of the world, where not even the radius can be told from nothing,
        would put everybody into one group: it is no place in any survey.
        """
        if metric == "haversine":
            return PlaceFormat(kind, _EARTH)
        most = min(_GREATEST, _FARTHEST * radius) if radius else _GREATEST
        return PlaceFormat(kind, (most,) * axes)

    def settled(self, points: FloatArray) -> FloatArray:
        """The points, with the origin in place of each that is outside the bounds."""
        return np.where(self.inside(points)[:, None], points, 0.0)

    def inside(self, points: FloatArray) -> NDArray[np.bool_]:
        """Whether each of these points is within the bounds."""
        return np.asarray((np.abs(points) <= np.array(self.bounds)).all(axis=1))

    def fits(self, place: Place) -> bool:
        """Whether a person can be there."""
        if self.kind == "people":
            return place is None
        if self.kind == "groups":
            return isinstance(place, str) and bool(group_names(place))
        return (
            isinstance(place, list)
            and len(place) == len(self.bounds)
            # Not true of what is no number, either.
            and all(abs(each) <= most for each, most in zip(place, self.bounds, strict=True))
        )


def placed_bytes(payload: int, places: PlaceKind, axes: int) -> int:
    """The size of an unsealed :class:`PlacedReport` with such a payload; at most, with groups."""
    names = _WIDEST * MOST_GROUP_TEXT if places == "groups" else None
    longest: Place = [0.0] * axes if places == "points" else names
    return len(wire.encode(PlacedReport(bytes(wire.ID_BYTES), longest, bytes(payload))))
