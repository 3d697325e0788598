"""What an order-private shuffle alone has to say of its promise and of a run, as plain data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import NotProven
from incrowd.protocols.base import Colluders
from incrowd.protocols.order_shuffle.mechanism import Mechanism
from incrowd.protocols.order_shuffle.utility import meaning

if TYPE_CHECKING:
    from incrowd.protocols.order_shuffle.protocol import OrderShuffle

__all__ = ["details", "particulars"]

_MOST_LISTED = 10_000
"""Beyond so many groups their promises are only summed up."""
_SHUFFLED_ALPHA = ("median_alpha", "group_alpha")
_UNCHANGED = "nothing: everybody is alone in their groups, so there is no order to hide"


def particulars(protocol: OrderShuffle, view: str, colluders: Colluders) -> dict[str, Any]:
    """The promise about the order, and the shuffle that keeps it."""
    promised = protocol.order_guarantee(view, colluders)
    found: dict[str, Any] = {"alpha": None}
    if promised is not None:
        found = {
            "alpha": promised.alpha,
            "order_neighbours": promised.neighbours,
            "order_proof": promised.theorem,
            "order_assuming": list(promised.assumptions),
        }
    if protocol.mechanism is None:
        return found | {"local_alpha": _finite(protocol.local_alpha)}
    described = _described(protocol, protocol.mechanism, marked=bool(colluders))
    if promised is None or promised.neighbours != "reports-in-group":
        # Who sees reports before they are shuffled gains nothing by the shuffle of a group.
        described = {name: each for name, each in described.items() if name not in _SHUFFLED_ALPHA}
    return found | described


def details(protocol: OrderShuffle, points: NDArray[Any] | None) -> dict[str, Any]:
    """The shuffle of known groups, and how far reports move in it."""
    mechanism = protocol.mechanism
    if mechanism is None:
        raise NotProven("the groups are not known yet: they follow from the places of people")
    moved = meaning(
        mechanism.grouping,
        mechanism.order,
        mechanism.theta,
        mechanism.distance,
        points=points,
        metric=protocol.parameters.metric if points is not None else None,
    )
    about = protocol.order_guarantee()
    return (
        {"alpha": None if about is None else about.alpha}
        | _described(protocol, mechanism)
        | {"in_places": list(moved.words())}
    )


def _described(
    protocol: OrderShuffle, mechanism: Mechanism, *, marked: bool = False
) -> dict[str, Any]:
    grouping = mechanism.grouping
    alphas = mechanism.per_group(marked=marked or protocol.marked)
    together = grouping.sizes > 1
    return {
        "theta": _finite(mechanism.theta),
        "sensitivity": mechanism.sensitivity,
        "width": mechanism.width,
        "paper_sensitivity": mechanism.paper_sensitivity,
        "order_method": mechanism.order.method,
        "group_count": grouping.count,
        "largest_group": grouping.largest,
        "people_alone": mechanism.alone,
        "local_alpha": _finite(protocol.local_alpha) if together.any() else None,
        "median_alpha": _median(alphas[together]),
        "group_alpha": _each(alphas, together) if alphas.size <= _MOST_LISTED else None,
        **({} if mechanism.sensitivity else {"shuffled": _UNCHANGED}),
    }


def _each(alphas: NDArray[np.float64], together: NDArray[np.bool_]) -> list[float | None]:
    """The α of each group; none for somebody alone, of whom nothing is promised."""
    found = zip(alphas.tolist(), together.tolist(), strict=True)
    return [alpha if several else None for alpha, several in found]


def _median(alphas: NDArray[np.float64]) -> float | None:
    return float(np.quantile(alphas, 0.5, method="higher")) if alphas.size else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
