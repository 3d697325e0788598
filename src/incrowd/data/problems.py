"""Problems of an input, gathered first and raised as one message of bounded length.

Who mends a file wants to hear of everything that is wrong with it, but not ten thousand times. A
message names the first problems, each with its place, says each cure once, and counts the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from incrowd.errors import IncrowdError

MOST_NAMED = 10
"""Number of problems, names or rows that a message spells out."""


@dataclass(frozen=True)
class _Problem:
    kind: type[IncrowdError]
    text: str
    cure: str


class Problems:
    """Problems of one input, in the order in which they were found."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._first: list[_Problem] = []
        self._count = 0

    def add(self, kind: type[IncrowdError], text: str, cure: str) -> None:
        """Note a problem with its place in the input, and the way to mend it."""
        self._count += 1
        if len(self._first) < MOST_NAMED:
            self._first.append(_Problem(kind, text, cure))

    def require_none(self) -> None:
        """Raise all problems as one error, of the kind of the first one."""
        if not self._first:
            return
        by_cure: dict[str, list[str]] = {}
        for each in self._first:
            by_cure.setdefault(each.cure, []).append(each.text)
        told = "; ".join(f"{', '.join(texts)}: {cure}" for cure, texts in by_cure.items())
        many = f"{self._count:,} problems: " if self._count > 1 else ""
        rest = self._count - len(self._first)
        more = f"; and {rest:,} more" if rest else ""
        raise self._first[0].kind(f"{self.source}: {many}{told}{more}")


def listed(texts: Iterable[object]) -> str:
    """The first texts, separated by commas, and the number of the others."""
    found = [str(each) for each in texts]
    rest = len(found) - MOST_NAMED
    return ", ".join(found[:MOST_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
