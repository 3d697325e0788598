"""Attendance of a run that happened, and whether a theorem covers it.

See ``docs/theory/network_attendance.md``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Walked
from incrowd.protocols.network_shuffle.theorems import routes
from incrowd.protocols.network_shuffle.theorems.attendance import ON, Attendance
from incrowd.protocols.runtime.context import Connections, Timing

if TYPE_CHECKING:
    from incrowd.protocols.network_shuffle.theorems.walk import Walk

_SETTLED = 2
"""Settle windows without which late messages cannot be said to have come in."""


def attendance_of(rounds: int, windows: int, collected: Walked) -> Attendance:
    """Return the attendance that the curator knows of."""
    n, table, silent = collected.sent, collected.attendance, collected.silent
    table = np.full((windows, n), ON, np.int8) if table is None else table
    return Attendance(rounds, table, np.ones(n, bool) if silent is None else ~silent)


def with_connections(
    rounds: int, collected: Walked, connections: Connections, timing: Timing
) -> Walked:
    """Add the hub's record, which is all there is of devices that vanished."""
    clock = Clock.of(rounds, timing)
    own = attendance_of(rounds, clock.windows, collected)
    table = own.with_connections(connections, clock).table
    # A device on to the end and not heard of is doubtful: what was lost with it is unknown.
    everyone = own.reported.all() and (table == ON).all()
    return replace(collected, attendance=None if everyone else table)


def in_doubt(walk: Walk, rounds: int, attendance: Attendance | None, lost: int) -> bool:
    """Whether devices were not on to the end, or reports are missing that nobody dropped."""
    if attendance is not None and attendance.doubtful.any():
        return True
    # Devices away in the first round dropped their own reports.
    return lost > int(np.count_nonzero(~walk.begun(rounds)))


def is_bounded(walk: Walk, rounds: int, attendance: Attendance | None) -> bool:
    """Whether the theorem for doubtful devices covers the run, and can be computed."""
    # Reports lost although everyone was on to the end would refute that messages arrive.
    if attendance is None or not attendance.doubtful.any():
        return False
    return attendance.grace_rounds >= _SETTLED and routes.bearable(walk, rounds)
