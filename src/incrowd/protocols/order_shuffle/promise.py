"""What is promised about an order, against one view.

Whoever receives the table, and knows everybody's place, is held off by the shuffle, which hides who
in a group gave which report. Whoever sees reports before they are shuffled is held off by the
randomizer alone, which hides who has which answer. Where reports take few values less has to be
shuffled, as long as nobody can tell equal ones apart; whoever marks their report, or helps the
curator to recognise it, can, and then the promise is the one for reports of any kind.
"""

from __future__ import annotations

import math
from typing import Any

from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.pure import PureProfile
from incrowd.protocols.order_shuffle.grouping import Grouping
from incrowd.protocols.order_shuffle.mechanism import Mechanism
from incrowd.protocols.order_shuffle.parameters import Distance
from incrowd.protocols.order_shuffle.privacy import (
    HAMMING,
    HONEST_SHUFFLER,
    KENDALL,
    ONE_GROUP,
    PUBLIC_PLACES,
    RANDOMIZER_ALONE,
    SAME_RANDOMIZER,
)

__all__ = ["randomized_guarantee", "shuffled_guarantee"]

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
    hoped: bool,
    exact: bool,
    distance: Distance,
    view: frozenset[str],
    colluders: int,
) -> Guarantee | None:
    """What the shuffle promises about the order of reports; none where that is nothing.

    Before the groups are known it is the α that every crowd will be given, if that is how the
    shuffle is set. ``few``: reports are counted on to take few values. ``marked``: somebody's can
    be told from others that say the same. ``hoped``: an order that is found anew for those who came
    can be worse than the one for everybody, and nothing makes up for that.
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
        theorem=HAMMING if distance == "hamming" else KENDALL,
        assumptions=(
            HONEST_SHUFFLER,
            PUBLIC_PLACES,
            _WHO_CAME,
            *((_EVERYBODY,) if hoped else ()),
            ONE_GROUP,
            *((_READABLE,) if few and not told else ()),
            *(() if exact else (_ROUNDED,)),
            *((_told(colluders),) if colluders else ()),
        ),
        neighbours="reports-in-group",
        colluders=colluders,
        notion="order",
        **_groups(None if mechanism is None else mechanism.grouping),
    )


def randomized_guarantee(
    alpha: float, *, grouping: Grouping | None, view: frozenset[str], colluders: int
) -> Guarantee | None:
    """What the randomizer promises about the order of answers, whoever sees which report."""
    if not math.isfinite(alpha):
        return None
    return Guarantee(
        profile=PureProfile(alpha),
        view=view,
        theorem=RANDOMIZER_ALONE,
        assumptions=(
            SAME_RANDOMIZER,
            ONE_GROUP,
            *((_told(colluders),) if colluders else ()),
        ),
        neighbours="answers-in-group",
        colluders=colluders,
        notion="order",
        **_groups(grouping),
    )


def _groups(grouping: Grouping | None) -> dict[str, Any]:
    if grouping is None:
        return {}
    return {"groups": grouping.words, "digest": grouping.digest}


def _told(colluders: int) -> str:
    return (
        f"{colluders} colluding people tell their own reports: what is hidden is the order of the "
        "others"
    )
