"""The hub's record of its connections: who could be reached from when to when.

A curator needs it for devices that vanish in the middle of a walk: it is all that is known of them
(``docs/theory/network_attendance.md``). The record says nothing of what was sent. It is written
every second together with the proof that the store takes writes, so that it costs no commit of its
own; what is not written yet when a hub is killed is missing, which makes the record vaguer and
never wrong: a connection without an end may have ended at any time.

Times are the wall clock's when the hub began, and pass as a steady clock does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from incrowd.live.clocks import steady
from incrowd.live.hub.board import Survey
from incrowd.live.hub.messages import Span
from incrowd.live.store import ConnectionRow
from incrowd.protocols.runtime.actor import Address, is_device


class Presence:
    """The connections of one hub, and which of them are to be written."""

    def __init__(self) -> None:
        self._anchor = time.time() - steady()
        self._open: dict[object, ConnectionRow] = {}
        self._unwritten: dict[bytes, ConnectionRow] = {}

    def enter(self, connection: object, identity: bytes) -> None:
        """A connection that begins now."""
        now = self._now()
        row = ConnectionRow(os.urandom(16), identity, now, now, None)
        self._open[connection] = self._unwritten[row.connection] = row

    def hear(self, connection: object) -> None:
        """A frame has come on this connection, if it is one of those that are recorded."""
        if (row := self._open.get(connection)) is not None:
            self._open[connection] = row._replace(heard=self._now())

    def leave(self, connection: object) -> None:
        """A connection that ends now."""
        row = self._open.pop(connection)._replace(ended=self._now())
        self._unwritten[row.connection] = row

    @contextmanager
    def writing(self) -> Iterator[list[ConnectionRow]]:
        """Rows to be written; they stay so unless the block succeeds."""
        rows = self._unwritten
        self._unwritten = {}
        try:
            yield list(rows.values())
        except BaseException:
            self._unwritten = rows | self._unwritten
            raise

    def spans(self, survey: Survey, stored: Iterable[ConnectionRow]) -> dict[Address, list[Span]]:
        """Connections of a survey's devices: what is stored, and what this hub knows beyond it."""
        rows = {row.connection: row for row in stored} | self._unwritten
        rows |= {row.connection: row for row in self._open.values()}
        found: dict[Address, list[Span]] = {}
        for row in sorted(rows.values(), key=lambda row: row.began):
            slot = survey.slot(row.identity)
            address = None if slot is None else survey.address_of(slot)
            if address is not None and is_device(address):
                span = Span(begin=row.began, heard=row.heard, end=row.ended)
                found.setdefault(address, []).append(span)
        return found

    def _now(self) -> float:
        return self._anchor + steady()
