"""Cover traffic: a public timetable of who sends how many cells to whom, whatever is in them.

A runtime that follows a plan sends, at each tick, exactly the cells the tick names: queued messages
as far as they fit, dummies for the rest; a message may be cut and go on in the next tick. So sizes,
counts, times and addressees are a function of the plan, and that of public facts:
``docs/theory/cover.md``.

Repeats would fill the cells of others, and transports repeat by themselves until a cell is safe, so
that actors under cover are given :meth:`CoverPlan.paced` timing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from incrowd.errors import InvalidParameter
from incrowd.privacy.guarantee import Guarantee, Profile
from incrowd.protocols.runtime.actor import Address, is_device, person_of
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.runtime.delivery import Backoff

COVERED: Final = frozenset({"curator", "hub"})
"""The view against which cover is proven."""

TICKS: Final = 3
"""Ticks to the collector, one round apart: a device that misses one has two more."""

ASSUMPTIONS: Final = (
    "the hub may read all traffic and delivers it; cells are sealed, and all alike without the key",
    "devices keep to the timetable of cells, and what they show of cells they received, such as "
    "acknowledgements, does not depend on what is inside",
    "who is there does not depend on the data",
)
"""Assumptions of every covered guarantee, besides those of the curator's view."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_EARLIEST, _LATEST = 0.3, 0.6


@dataclass(frozen=True, slots=True)
class Tick:
    """Numbers of cells to send to parties at one time, in seconds after the start."""

    at: float
    cells: Mapping[Address, int]


@dataclass(frozen=True, slots=True)
class CellFormat:
    """Sizes in bytes: of a cell, added by each part of a message, and added by sealing."""

    capacity: int
    record: int
    seal: int

    def __post_init__(self) -> None:
        if not 0 <= self.record < self.capacity or self.seal < 0:
            raise InvalidParameter(
                f"a cell of {self.capacity} bytes cannot hold records that cost {self.record} each"
            )

    def needed(self, *lengths: int) -> int:
        """Count the cells that messages of these lengths take, one after the other.

        A message goes on in the next cell where it does not end, and begins in a new one where not
        even a byte of it would fit.
        """
        whole = self.capacity - self.record
        cells = free = 0
        for length in lengths:
            room = free - self.record
            if room < min(1, length):
                cells, room = cells + 1, whole
            more = max(0, -(-(length - room) // whole))
            cells, free = cells + more, room + more * whole - length
        return cells


class CoverPlan(ABC):
    """Plan of who sends how many cells to whom and when."""

    overflow: float
    """Upper bound on the chance that a message ever waits for a later tick than planned.

    A multiple of it is charged: :class:`incrowd.privacy.shifted.ShiftedProfile`.
    """

    @abstractmethod
    def ticks(self, address: Address, timing: Timing) -> list[Tick]:
        """Return the timetable of one party, in order; empty for a party that needs no cover."""

    @abstractmethod
    def paced(self, timing: Timing) -> Timing:
        """Return the same timing with pauses so long that nothing is queued twice."""


@dataclass(frozen=True)
class ReportCover(CoverPlan):
    """All reports to one collector at the start, with room in each tick: nothing can overflow."""

    collector: Address
    cells: int
    overflow: float = 0.0

    def ticks(self, address: Address, timing: Timing) -> list[Tick]:
        return ticks_per_round(address, timing, TICKS, {self.collector: self.cells})

    def paced(self, timing: Timing) -> Timing:
        """Return pauses such that a repeat never shares a tick with what it repeats."""
        return with_pause(timing, timing.round_seconds)


def against_hub(curator: Guarantee, profile: Profile, *more: str, without: str = "") -> Guarantee:
    """Restate the guarantee against the curator, with this profile, against curator and hub.

    ``without`` is an assumption that cover makes needless.
    """
    kept = (each for each in curator.assumptions if each != without)
    return replace(
        curator,
        profile=profile,
        view=COVERED,
        theorem=f"{curator.theorem} under cover (docs/theory/cover.md)",
        assumptions=(*kept, *ASSUMPTIONS, *more),
    )


def ticks_per_round(
    address: Address, timing: Timing, rounds: int, cells: Mapping[Address, int]
) -> list[Tick]:
    """Return one tick in each of the first rounds for a device, at its own time, or none."""
    if not is_device(address):
        return []
    first = phase(person_of(address))
    return [Tick((first + turn) * timing.round_seconds, cells) for turn in range(rounds)]


def with_pause(timing: Timing, least: float) -> Timing:
    """Return the timing with a first pause of at least this many seconds between attempts."""
    old = timing.backoff
    if old.first >= least:
        return timing
    pauses = Backoff(first=least, factor=old.factor, cap=max(least, old.cap))
    return msgspec.structs.replace(timing, backoff=pauses)


def phase(person: int) -> float:
    """Return the share of a round after which this person's device sends: public, and even.

    Not before what arrived in the last round has been moved, and early enough to arrive in time.
    """
    return _EARLIEST + (_LATEST - _EARLIEST) * (person * _GOLDEN % 1.0)
