"""What is known of a run that happened, and whether a theorem covers it.

The order of what may be stated is that of ``docs/theory/network_attendance.md``.
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
"""Settle windows without which nobody can say that what was late has come in."""


def attendance_of(rounds: int, windows: int, collected: Walked) -> Attendance:
    """Who was there when, as those who collected know it."""
    n = collected.sent
    table = collected.attendance
    if table is None:
        table = np.full((windows, n), ON, np.int8)
    reported = np.ones(n, bool) if collected.silent is None else ~collected.silent
    return Attendance(rounds, table, reported)


def with_connections(
    rounds: int, collected: Walked, connections: Connections, timing: Timing
) -> Walked:
    """With what the hub knows: for those who vanished that is all there is."""
    clock = Clock.of(rounds, timing)
    own = attendance_of(rounds, clock.windows, collected)
    table = own.with_connections(connections, clock).table
    # Who was on to the end and is not heard of is doubtful: nobody knows what was lost with them.
    everyone = bool(own.reported.all() and (table == ON).all())
    return replace(collected, attendance=None if everyone else table)


def in_doubt(walk: Walk, rounds: int, attendance: Attendance | None, lost: int) -> bool:
    """Whether devices were not on to the end, or reports are missing that nobody dropped."""
    if attendance is not None and attendance.doubtful.any():
        return True
    # Who was away in the first round dropped the own report.
    return lost > int(np.count_nonzero(~walk.begun(rounds)))


def is_bounded(walk: Walk, rounds: int, attendance: Attendance | None) -> bool:
    """Whether the theorem for doubtful devices covers what happened, and can be computed.

    What is lost although everyone was on to the end refutes that messages arrive.
    """
    return (
        attendance is not None
        and bool(attendance.doubtful.any())
        and attendance.settle >= _SETTLED
        and routes.bearable(walk, rounds)
    )
