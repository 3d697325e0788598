"""A whole population at once: everyone randomizes, and one shuffle moves the reports.

What a shuffle is (:func:`shuffle_of`) and which parts a row of the data has (:func:`parts`) is the
same for the participants in ``roles``. Invariant: the shuffle is found from places alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import ProtocolFailed
from incrowd.protocols.local.simulate import draw
from incrowd.protocols.order_shuffle.mechanism import Mechanism
from incrowd.protocols.order_shuffle.messages import PlaceFormat
from incrowd.randomizers.base import FloatArray
from incrowd.randomness import Seeds
from incrowd.tasks.release import Placed

if TYPE_CHECKING:
    from incrowd.protocols.order_shuffle.spec import OrderShuffle


Parts = tuple[NDArray[Any], FloatArray | None, tuple[str, ...] | None]
"""Codes, points and groups; a place that is just a person has neither of the last two."""


def parts(values: NDArray[Any], places: PlaceFormat) -> Parts:
    """The parts of encoded values: codes alone, or rows with a place beside the code.

    A point outside the bounds of the survey becomes the origin.
    """
    names = values.dtype.names
    if names is None:
        return values, None, None
    points = places.settled(values["point"]) if "point" in names else None
    groups = tuple(values["groups"].tolist()) if "groups" in names else None
    return values["value"], points, groups


def shuffle_of(
    protocol: OrderShuffle,
    who: NDArray[np.int64],
    points: FloatArray | None,
    groups: tuple[str, ...] | None,
) -> Mechanism:
    """The shuffle of these people at their places: the one that a run is accounted for."""
    nothing = np.zeros(0, np.int64)
    came = Placed(rounds=(), sent=len(who), who=who, at=nothing, points=points, groups=groups)
    found = protocol.conditional_on(came).mechanism
    if found is None:
        raise ProtocolFailed("the groups of these people are not known")
    return found


def collect(protocol: OrderShuffle, values: NDArray[Any], seeds: Seeds) -> Placed:
    """Everyone's report, at the place to which the shuffle took it."""
    codes, points, groups = parts(values, protocol.place_format)
    who = np.arange(len(values))
    shuffle = shuffle_of(protocol, who, points, groups)
    reports = draw(protocol.randomizer, codes, seeds.generator("device", 0))
    sources = shuffle.sources(seeds.generator("shuffler", 0), exact=protocol.exact)
    return Placed(
        rounds=(reports[sources],), sent=len(values), who=who, at=who, points=points, groups=groups
    )
