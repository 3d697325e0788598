"""Cover traffic: a public timetable of who sends how many cells to whom, whatever is in them.

A runtime that follows a plan sends, at each tick, exactly the cells the tick names: queued messages
as far as they fit, dummies for the rest. What does not fit waits for the next tick, and a message
may be cut there. So sizes, counts, times and addressees are a function of the plan alone, and the
plan is a function of public facts: ``docs/theory/cover.md``.

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
"""How often the way to whoever collects is open, one round apart: who misses one has two more."""

ASSUMPTIONS: Final = (
    "the hub may read all traffic and delivers it; cells are sealed, and all alike without the key",
    "devices keep to the timetable of cells, and what they show of cells they received, such as "
    "acknowledgements, does not depend on what is inside",
    "who is there does not depend on the data",
)
"""What every covered guarantee rests on besides those of the curator's view."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_EARLIEST, _LATEST = 0.3, 0.6


@dataclass(frozen=True, slots=True)
class Tick:
    """At this time, seconds after the start, so many cells go to each of these parties."""

    at: float
    cells: Mapping[Address, int]


@dataclass(frozen=True, slots=True)
class CellFormat:
    """How much fits into one cell, in bytes."""

    capacity: int
    """What a cell holds."""
    record: int
    """What each part of a message costs besides its own bytes."""
    seal: int
    """What sealing adds to a payload that others carry."""

    def __post_init__(self) -> None:
        """Refuse cells that can hold nothing."""
        if not 0 <= self.record < self.capacity or self.seal < 0:
            raise InvalidParameter(
                f"a cell of {self.capacity} bytes cannot hold records that cost {self.record} each"
            )

    def needed(self, *lengths: int) -> int:
        """How many cells messages of these lengths take, one after the other.

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
    """Who sends how many cells to whom and when."""

    overflow: float
    """A bound on the chance that a message ever waits for a later tick than the plan means it to.

    What is charged for it is a multiple: :class:`incrowd.privacy.shifted.ShiftedProfile`.
    """

    @abstractmethod
    def ticks(self, address: Address, timing: Timing) -> list[Tick]:
        """The timetable of one party, in order; empty for a party that needs no cover."""

    @abstractmethod
    def paced(self, timing: Timing) -> Timing:
        """The same timing with pauses so long that nothing is queued twice."""


@dataclass(frozen=True)
class ReportCover(CoverPlan):
    """Everyone sends all their reports to one collector, at the start: nothing can overflow.

    There are :data:`TICKS` ticks, each with room for everything, one round apart.
    """

    collector: Address
    cells: int
    overflow: float = 0.0

    def ticks(self, address: Address, timing: Timing) -> list[Tick]:
        """The ticks of a device."""
        return ticks_per_round(address, timing, TICKS, {self.collector: self.cells})

    def paced(self, timing: Timing) -> Timing:
        """A repeat, with the same bytes, never shares a tick with what it repeats."""
        return with_pause(timing, timing.round_seconds)


def against_hub(curator: Guarantee, profile: Profile, *more: str, without: str = "") -> Guarantee:
    """The guarantee against the curator, restated with this profile against curator and hub.

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
    """One tick in each of the first rounds for a device, at its own time; none for others."""
    if not is_device(address):
        return []
    first = phase(person_of(address))
    return [Tick((first + turn) * timing.round_seconds, cells) for turn in range(rounds)]


def with_pause(timing: Timing, least: float) -> Timing:
    """With a first pause of at least so many seconds between attempts."""
    old = timing.backoff
    if old.first >= least:
        return timing
    pauses = Backoff(first=least, factor=old.factor, cap=max(least, old.cap))
    return msgspec.structs.replace(timing, backoff=pauses)


def phase(person: int) -> float:
    """When in a round this person's device sends, as a share of the round.

    It is public and spreads devices evenly. Not before what arrived in the last round has been
    moved, and early enough that what is sent arrives in the same round.
    """
    return _EARLIEST + (_LATEST - _EARLIEST) * (person * _GOLDEN % 1.0)
