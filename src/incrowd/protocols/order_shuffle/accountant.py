"""Guarantees about an order against one view, and the diagnostics of a run, as plain data.

A view that receives the table, and knows everybody's place, is held off by the shuffle, which hides
who in a group gave which report. A view that sees reports before they are shuffled is held off by
the randomizer alone, which hides who has which answer. Where reports take few values less has to be
shuffled, as long as nobody can tell equal ones apart; a participant who marks a report, or helps
the curator to recognise it, can, and then the guarantee is the one for reports of any kind.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import NotProven
from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.api import Colluders
from incrowd.protocols.order_shuffle.groupings import Grouping
from incrowd.protocols.order_shuffle.mechanism import Mechanism
from incrowd.protocols.order_shuffle.settings import Distance
from incrowd.protocols.order_shuffle.theorems import alpha as claims
from incrowd.protocols.order_shuffle.utility import meaning

if TYPE_CHECKING:
    from incrowd.protocols.order_shuffle.spec import OrderShuffle

_WHO_CAME = "who takes part does not depend on the data"
_EVERYBODY = "everybody comes: with a given θ it can be more among fewer people"
_READABLE = "every report is one of the categories, and nobody can tell equal ones apart"
_ROUNDED = (
    "the permutation is drawn in doubles, which only approximate its law: for simulations, not for "
    "a real release"
)


def shuffled_guarantee(
    mechanism: Mechanism | None,
    *,
    alpha: float | None,
    few: bool,
    marked: bool,
    prospective: bool,
    exact: bool,
    distance: Distance,
    view: frozenset[str],
    colluders: int,
) -> Guarantee | None:
    """Return the guarantee of the shuffle about the order of reports, if there is one.

    Before the groups are known it is the α that every crowd will be given, if the shuffle is set
    that way. ``few``: reports are counted on to take few values. ``marked``: some can be told from
    others that say the same. ``prospective``: an order that is found anew for those who came can
    be worse than the one for everybody, and nothing makes up for that.
    """
    told = marked or colluders > 0
    if mechanism is not None:
        alpha = mechanism.marked_alpha if told else mechanism.alpha
    elif few and told:
        return None  # By how much that is more depends on groups that are not known.
    if alpha is None or not math.isfinite(alpha):
        return None
    return Guarantee(
        profile=PureProfile(alpha),
        view=view,
        theorem=claims.HAMMING if distance == "hamming" else claims.KENDALL,
        assumptions=(
            claims.HONEST_SHUFFLER,
            claims.PUBLIC_PLACES,
            _WHO_CAME,
            *((_EVERYBODY,) if prospective else ()),
            claims.ONE_GROUP,
            *((_READABLE,) if few and not told else ()),
            *(() if exact else (_ROUNDED,)),
            *_told(colluders),
        ),
        neighbours="reports-in-group",
        colluders=colluders,
        notion="order",
        **_groups(None if mechanism is None else mechanism.grouping),
    )


def randomized_guarantee(
    alpha: float, *, grouping: Grouping | None, view: frozenset[str], colluders: int
) -> Guarantee | None:
    """Return the guarantee of the randomizer about the order of answers, in any view."""
    if not math.isfinite(alpha):
        return None
    return Guarantee(
        profile=PureProfile(alpha),
        view=view,
        theorem=claims.RANDOMIZER_ALONE,
        assumptions=(claims.SAME_RANDOMIZER, claims.ONE_GROUP, *_told(colluders)),
        neighbours="answers-in-group",
        colluders=colluders,
        notion="order",
        **_groups(grouping),
    )


def _groups(grouping: Grouping | None) -> dict[str, Any]:
    return {} if grouping is None else {"groups": grouping.words, "digest": grouping.digest}


def _told(colluders: int) -> tuple[str, ...]:
    hidden = "what is hidden is the order of the others"
    told = f"{colluders} colluding people tell their own reports: {hidden}"
    return (told,) if colluders else ()


UPPER = ("local_alpha", "median_alpha", "group_alpha")
"""Diagnostics that bound something from above."""
_MOST_LISTED = 10_000
"""With more groups, their α are only summed up."""
_SHUFFLED_ALPHA = ("median_alpha", "group_alpha")
_UNCHANGED = "nothing: everybody is alone in their groups, so there is no order to hide"


def diagnostics(protocol: OrderShuffle, view: str, colluders: Colluders) -> dict[str, Any]:
    """Describe the shuffle behind the guarantee about the order against a view."""
    if protocol.mechanism is None:
        return {"local_alpha": _finite(protocol.local_alpha)}
    guarantee = protocol.order_guarantee(view, colluders)
    described = _described(protocol, protocol.mechanism, marked=bool(colluders))
    if guarantee is None or guarantee.neighbours != "reports-in-group":
        # A view of reports before they are shuffled is not held off by the shuffle of a group.
        described = {name: each for name, each in described.items() if name not in _SHUFFLED_ALPHA}
    return described


def run_diagnostics(protocol: OrderShuffle, points: NDArray[Any] | None) -> dict[str, Any]:
    """Describe the shuffle of known groups, and how far reports move in it."""
    mechanism = protocol.mechanism
    if mechanism is None:
        raise NotProven("the groups are not known yet: they follow from the places of people")
    moved = meaning(
        mechanism.grouping,
        mechanism.order,
        mechanism.theta,
        mechanism.distance,
        points=points,
        metric=protocol.metric if points is not None else None,
    )
    return _described(protocol, mechanism) | {"in_places": list(moved.words())}


def _described(
    protocol: OrderShuffle, mechanism: Mechanism, *, marked: bool = False
) -> dict[str, Any]:
    grouping = mechanism.grouping
    alphas = mechanism.per_group(marked=marked or protocol.marked)
    together = grouping.sizes > 1
    held = alphas[together]
    # A person alone has no order to hide, and so no α.
    each = [a if several else None for a, several in zip(alphas.tolist(), together, strict=True)]
    return {
        "theta": _finite(mechanism.theta),
        "sensitivity": mechanism.sensitivity,
        "width": mechanism.width,
        "paper_sensitivity": mechanism.paper_sensitivity,
        "order_method": mechanism.order.method,
        "group_count": grouping.count,
        "largest_group": grouping.largest,
        "people_alone": mechanism.alone,
        "local_alpha": _finite(protocol.local_alpha) if held.size else None,
        "median_alpha": float(np.quantile(held, 0.5, method="higher")) if held.size else None,
        "group_alpha": each if alphas.size <= _MOST_LISTED else None,
        **({} if mechanism.sensitivity else {"shuffled": _UNCHANGED}),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
