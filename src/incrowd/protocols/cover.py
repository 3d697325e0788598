"""Cover traffic: a public timetable of who sends how many cells to whom, whatever is in them.

A runtime that follows a plan sends, at each tick, exactly the cells the tick names: queued messages
as far as they fit, dummies for the rest. What does not fit waits for the next tick. So sizes,
counts, times and addressees are a function of the plan alone, and the plan is a function of public
facts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from incrowd.protocols.actor import Address
from incrowd.protocols.seat import Timing

__all__ = ["CellFormat", "CoverPlan", "Tick"]


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


class CoverPlan(ABC):
    """Who sends how many cells to whom and when."""

    overflow: float
    """The most probable that messages ever wait for a later tick: a bound, charged to δ."""

    @abstractmethod
    def ticks(self, address: Address, timing: Timing) -> list[Tick]:
        """The timetable of one party, in order; empty for a party that needs no cover."""
