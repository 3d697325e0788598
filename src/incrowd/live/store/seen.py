"""Which counters of a session were accepted: an exact set, in one small value.

A session counts its cells up, so what was accepted is nearly always everything below some base, and
a few bits say what was accepted above it. The base follows the counters, at most :data:`SPREAD`
behind the largest one: that bounds the value to 8 KiB, whatever a sender does. A counter below the
base counts as accepted, also if it never came; to get there, a cell must be later than 65,536 that
its sender numbered after it, more than three messages of the largest size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

SPREAD: Final = 2**16
_BASE_BYTES: Final = 9
"""One more than a counter has, since the base is behind the largest counter."""


class Seen:
    """The counters of one session so far."""

    __slots__ = ("base", "bits")

    def __init__(self, base: int = 0, bits: int = 0) -> None:
        self.base = base
        self.bits = bits

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """What :meth:`encode` wrote."""
        base = int.from_bytes(value[:_BASE_BYTES], "big")
        return cls(base, int.from_bytes(value[_BASE_BYTES:], "little"))

    def encode(self) -> bytes:
        """The set as it is stored."""
        bits = self.bits.to_bytes(-(-self.bits.bit_length() // 8), "little")
        return self.base.to_bytes(_BASE_BYTES, "big") + bits

    def __contains__(self, counter: int) -> bool:
        return counter < self.base or bool(self.bits >> (counter - self.base) & 1)

    def add(self, counters: Sequence[int]) -> list[bool]:
        """See these counters, at most :data:`SPREAD`; for each, whether it is new."""
        first, count = counters[0], len(counters)
        above = first - self.base >= self.bits.bit_length()
        if above and list(range(first, first + count)) == counters:
            # As an honest sender numbers them: all of them in one step.
            self._mark(first, count)
            return [True] * count
        new = []
        for counter in counters:
            new.append(counter not in self)
            if new[-1]:
                self._mark(counter, 1)
        return new

    def _mark(self, first: int, count: int) -> None:
        """Mark a run of counters that are not below the base."""
        slide = first + count - self.base - SPREAD
        if slide > 0:
            self.base += slide
            self.bits >>= slide
        bits = self.bits | ((1 << count) - 1) << (first - self.base)
        # The number of trailing ones: the lowest zero is the new base.
        run = (~bits & (bits + 1)).bit_length() - 1
        self.base += run
        self.bits = bits >> run
