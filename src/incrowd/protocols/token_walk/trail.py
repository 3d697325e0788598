"""Where a token has been: a line of visits, with branches where somebody was lost.

Every visit adds to the sum that an earlier one left behind. As long as everyone answers, that is
the visit just before; when somebody is silent, an earlier holder seals its sum once more, and the
walk goes on from there. What came after that sum is a dead branch, which is in no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["NOWHERE", "Visit", "largest_loss", "line"]

NOWHERE = -1
"""In place of a visit: where a new token comes from."""
_MOST_PEOPLE, _MOST_WORK = 4000, 4e8
"""People, and people times steps, up to which the losses of all pairs are computed: seconds."""


class Visit(msgspec.Struct, array_like=True):
    """That a token was brought to somebody."""

    turn: int
    holder: int
    before: int
    """The visit whose sum it adds to."""
    blank: bool
    """Whether only noise was asked for."""


def line(visits: Sequence[Visit], head: int) -> Iterator[int]:
    """The visits that are in the sum of this one, the last one first."""
    while head != NOWHERE:
        yield head
        head = visits[head].before


def largest_loss(visits: Sequence[Visit], head: int, n: int, *, published: bool) -> float | None:
    """The largest sum of k²/m of any pair; none if there are too many.

    ``published``: everyone has seen the sum at ``head``. Whoever was on no dead branch saw nothing
    of any: for them the line counts alone.
    """
    if n > _MOST_PEOPLE or n * len(visits) > _MOST_WORK:
        return None
    from incrowd.protocols.token_walk.realised import realised_losses

    main = list(line(visits, head))[::-1]
    losses = realised_losses(_holders(visits, main), n, published=published)
    strayed = {visits[place].holder for place in set(range(len(visits))).difference(main)}
    straight = [person for person in range(n) if person not in strayed]
    largest = float(losses[:, straight].max(initial=0.0))
    final = {head} if published else set()
    return max([largest, *(_seen_by(visits, final, n, person) for person in strayed)])


def _seen_by(visits: Sequence[Visit], final: set[int], n: int, observer: int) -> float:
    """The largest loss to somebody who saw sums that share a part and differ after it.

    All of these can be computed from the parts between the sums that were seen and the branchings
    of the lines that lead there; parts have no contribution in common, so that their losses add up.
    """
    from incrowd.protocols.token_walk.realised import realised_losses_of

    seen = {each.before for each in visits if each.holder == observer} | final
    known = {place for last in seen for place in line(visits, last)}
    after: dict[int, list[int]] = {}
    for place in sorted(known):
        after.setdefault(visits[place].before, []).append(place)
    cuts = {NOWHERE} | seen | {place for place in known if len(after.get(place, [])) > 1}
    losses = np.zeros(n)
    for first in (each for cut in cuts for each in after.get(cut, [])):
        piece = [first]
        while piece[-1] not in cuts and piece[-1] in after:
            piece += after[piece[-1]]
        losses += realised_losses_of(_holders(visits, piece), n, observer, published=True)
    return float(losses.max())


def _holders(visits: Sequence[Visit], places: Sequence[int]) -> NDArray[np.int64]:
    return np.array([visits[place].holder for place in places], np.int64)
