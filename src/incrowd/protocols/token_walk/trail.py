"""Where a token has been: a line of visits, with branches where somebody was lost.

Every visit adds to the sum that an earlier one left behind. As long as everyone answers, that is
the visit just before; when somebody is silent, an earlier holder seals its sum once more, and the
walk goes on from there. What came after that sum is a dead branch, which is in no result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

__all__ = ["NOWHERE", "Visit", "line"]

NOWHERE = -1
"""In place of a visit: where a new token comes from."""


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
