"""Messages of network shuffling: hops between devices, and hand-ins to the curator."""

from __future__ import annotations

from typing import Annotated

import msgspec

from incrowd.protocols.runtime import wire

MOST_TOGETHER = 4096
"""Most reports that travel from one device to another in one message."""


class Hop(wire.Body, frozen=True, tag="hop"):
    """From a device to a neighbour: the reports that move there in this round, in no order."""

    round: wire.Count
    id: wire.Id
    payloads: Annotated[list[bytes], msgspec.Meta(min_length=1, max_length=MOST_TOGETHER)]


class Passed(wire.Body, frozen=True, tag="passed"):
    """From a neighbour to a device: the reports of this hop are safe; stop sending it."""

    id: wire.Id


class HandIn(wire.Body, frozen=True, tag="hand-in"):
    """From a device to the curator: the reports it holds at the end, in no order, and absences.

    ``missed`` are the windows of the clock, of rounds and after them, in which it was off from the
    first moment to the last.
    """

    id: wire.Id
    missed: list[wire.Count]
    payloads: list[bytes]


class Withheld(wire.Body, frozen=True, tag="withheld"):
    """From a device to the curator in place of a hand-in: absences, and no reports.

    Sent by a device that was not on to the end, or for which it is too late. That there are no
    reports is said, not left to be seen: a device that holds none hands in none as well.
    """

    id: wire.Id
    missed: list[wire.Count]


class Absent(wire.Body, frozen=True, tag="absent"):
    """From a device to the curator: it never began, and nothing of it is on its way."""
