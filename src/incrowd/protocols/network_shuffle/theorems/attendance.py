"""Attendance of devices in windows, as far as a curator may know it.

A *window* is the length of a round on the public clock: one for each round, then the settle
windows, then the one that begins with the hand-in. A device notes the windows that it missed
altogether and hands in that record; the hub knows its connections, and alone knows anything of
devices that vanished.

A device that was on throughout the last two grace windows and handed in is *punctual*; every other
is *doubtful*, hands in nothing but the record, and the fate of reports that met it is bounded from
both sides (``docs/theory/network_attendance.md``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.theorems.walk import Bools
from incrowd.protocols.runtime.actor import device
from incrowd.protocols.runtime.context import Connection, Connections

Codes = NDArray[np.int8]

AWAY: Final = 0
"""Off for the whole window: keeps what it holds."""
EITHER: Final = 1
"""Seen for a part of the window only: may have kept what it held, or moved it."""
THERE: Final = 2
"""There for some time of the window, and moved what it held."""
ON: Final = 3
"""On throughout."""
LEFT: Final = -1
"""On until it left for good, at an unknown time."""
UNKNOWN: Final = -2
"""Nothing is known."""

_LAST: Final = 4
"""A device that misses one of this many last windows was not on in the last two before hand-in.

They are those two, the one before, as an absence from it ends during the next, and the one of the
hand-in, as an absence from it begins during the one before.
"""


def on_to_the_end(missed: Iterable[int], windows: int) -> bool:
    """Whether a device that missed these windows may hand in: the rule of devices and curators."""
    return all(number < windows - _LAST for number in missed)


def from_record(missed: Sequence[int], windows: int) -> Codes:
    """Return a device's codes from the windows missed; absences end in neighbouring windows."""
    away = np.zeros(windows + 2, bool)
    away[np.asarray(missed, np.intp) + 1] = True
    beside = away[:-2] | away[2:]
    return np.where(away[1:-1], AWAY, np.where(beside, THERE, ON)).astype(np.int8)


def from_connections(
    connections: Sequence[Connection], clock: Clock, *, certain: bool = False
) -> Codes:
    """Return the codes of one device, from its connections with a hub.

    On in windows between the begin of a connection and the last frame heard on it. Away after the
    end of the last one, as nothing that the device did later reached anyone; where there is no
    connection otherwise, only if that is ``certain``.
    """
    edges = np.array([clock.opens(number) for number in range(clock.windows + 1)])
    on, open_ = np.zeros(clock.windows), np.zeros(clock.windows)
    for begin, heard, end in connections:
        starts = np.maximum(begin, edges[:-1])
        on += np.clip(np.minimum(heard, edges[1:]) - starts, 0.0, None)
        open_ += np.clip(np.minimum(end, edges[1:]) - starts, 0.0, None)
    whole = on >= np.diff(edges) * (1 - 1e-9)
    over = edges[:-1] >= max((each.end for each in connections), default=np.inf)
    away = open_ == 0 if certain else over
    return np.where(whole, ON, np.where(away, AWAY, EITHER)).astype(np.int8)


@dataclass(frozen=True, eq=False)
class Attendance:
    """Everyone's codes, ``table[k, v]`` for window k and person v, and who handed in reports."""

    rounds: int
    table: Codes
    reported: Bools

    @property
    def grace_rounds(self) -> int:
        """Number of grace windows."""
        return len(self.table) - 1 - self.rounds

    @cached_property
    def punctual(self) -> Bools:
        """People on throughout the last two grace windows, who handed in."""
        return np.asarray(self.reported & (self.table[-3:-1] == ON).all(axis=0))

    @property
    def doubtful(self) -> Bools:
        """Everyone else."""
        return ~self.punctual

    @cached_property
    def heard(self) -> Bools:
        """People whose reports at the end may be seen by the curator.

        Not those who handed in nothing and missed a window that forbids it; a refused hand-in is
        seen.
        """
        return np.asarray(self.reported | (self.table[-_LAST:] != AWAY).all(axis=0))

    def merged(self, person: int, seen: Codes) -> Codes:
        """Merge a person's own record, if there is one, with the hub's."""
        own = self.table[:, person]
        if own[0] in (LEFT, UNKNOWN):
            return seen
        return np.where((own == ON) & (seen != ON), THERE, own).astype(np.int8)

    def with_connections(self, connections: Connections, clock: Clock) -> Attendance:
        """Add the hub's record of each person, where there is one."""
        table = self.table.copy()
        for person in range(table.shape[1]):
            seen = connections.of.get(device(person))
            if seen is not None:
                codes = from_connections(seen, clock, certain=connections.certain)
                table[:, person] = self.merged(person, codes)
        return Attendance(self.rounds, table, self.reported)
