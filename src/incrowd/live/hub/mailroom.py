"""The mailbox in motion: cells come in, wait, are pushed to whoever listens, and are taken.

The hot path treats cells by the batch. What a cell must say is known before it is looked at, so one
comparison of its first bytes accepts it; only a cell that differs is taken apart to say why. A
batch is one piece of work for the committer, which puts the batches of many connections into one
transaction.

Mail is read back from the store for many listeners at once, always behind the last place that was
pushed. Places become visible in order, so nothing is skipped; a new connection begins from the
start of what was not taken, so nothing is lost. A listener never has more than a window of untaken
cells, so a slow one costs memory for a window and no more.

Where a quota may be reached, the cells that wait for a recipient are counted, by the thread of the
committer alone and beginning with a look into the store.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

from incrowd.live.cells import CELL, COMPARE, DATA, Header, cell_id, prefix
from incrowd.live.frames import MOST_CELLS
from incrowd.live.hub.board import Survey
from incrowd.live.hub.limits import Limits
from incrowd.live.hub.metrics import Metrics
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.store import CellRow, Committer, Tables

__all__ = ["Listener", "Mailroom", "Refusals"]

Refusals = list[tuple[int, Reason]]
"""The places of refused cells in their frame, and why."""
Box = tuple[bytes, int]
"""A survey and a recipient."""

_FROM = len(prefix(DATA, bytes(16), 0, 0)) - 4
"""Where the recipient begins: the bytes before it are the same in all cells of a sender."""
_READ: Final = 16 * MOST_CELLS
"""Cells read back in one piece of work, roughly."""
_RECIPIENT = itemgetter(3)


class Listener:
    """One connection that takes the mail of one party in one survey."""

    __slots__ = ("box", "cursor", "deliver", "untaken", "window")

    def __init__(
        self, box: Box, window: int, deliver: Callable[[list[tuple[int, bytes]]], None]
    ) -> None:
        self.box = box
        self.window = window
        self.deliver = deliver
        self.cursor = 0
        self.untaken: set[int] = set()

    @property
    def room(self) -> int:
        """How many cells may be pushed now."""
        return min(MOST_CELLS, self.window - len(self.untaken))


class Mailroom:
    """Takes cells in and hands them out."""

    def __init__(self, committer: Committer, metrics: Metrics, limits: Limits) -> None:
        self._committer = committer
        self._metrics = metrics
        self._limits = limits
        self._listeners: dict[Box, Listener] = {}
        self._woken: dict[Listener, None] = {}
        self._wake = asyncio.Event()
        self._waiting: dict[Box, int] = {}

    async def put(self, survey: Survey, sender: int, cells: Sequence[bytes]) -> Refusals:
        """Store cells of a sender; those refused. What is not refused is durable."""
        refused: Refusals = []
        rows, places = _sorted(survey, sender, cells, refused)
        began = time.perf_counter()
        if rows:
            quota = self._quota(survey)
            full, new = await self._committer.do(lambda tables: self._store(tables, rows, quota))
            refused += ((places[index], Reason.full) for index in full)
            self._metrics.accepted += new
            self._metrics.commits.observe(time.perf_counter() - began)
            for recipient in set(map(_RECIPIENT, rows)):
                self._wake_up((survey.id, recipient))
        return refused

    def _quota(self, survey: Survey) -> Callable[[int], int]:
        limits, helpers = self._limits, frozenset(survey.helpers.values())
        return lambda number: limits.helper_quota if number in helpers else limits.quota

    def _store(
        self, tables: Tables, rows: list[CellRow], quota: Callable[[int], int]
    ) -> tuple[list[int], int]:
        """Store what there is room for: the indexes of the others, and how many were new."""
        survey = rows[0].survey
        # All that waits in the survey is more than what waits for anyone in it: mostly that is
        # little enough, and nobody has to be counted.
        most = tables.counts(survey).waiting + len(rows)
        room: dict[int, int] = {}
        for recipient, count in Counter(map(_RECIPIENT, rows)).items():
            if quota(recipient) < most:
                free = quota(recipient) - self._count(tables, (survey, recipient))
                if free < count:
                    room[recipient] = max(0, free)
        full: list[int] = []
        if room:
            kept = []
            for index, row in enumerate(rows):
                left = room.get(row.recipient)
                if left == 0:
                    full.append(index)
                    continue
                if left is not None:
                    room[row.recipient] = left - 1
                kept.append(row)
            rows = kept
        flags = tables.put_cells(rows)
        new = (
            rows if all(flags) else [row for row, is_new in zip(rows, flags, strict=True) if is_new]
        )
        for row in new if self._waiting else ():
            if (survey, row.recipient) in self._waiting:
                self._waiting[survey, row.recipient] += 1
        return full, len(new)

    def _count(self, tables: Tables, box: Box) -> int:
        if box not in self._waiting:
            survey, recipient = box
            total, after = 0, 0
            while page := tables.waiting(survey, recipient, after, MOST_CELLS):
                total, after = total + len(page), page[-1][0]
            self._waiting[box] = total
        return self._waiting[box]

    async def took(self, box: Box, places: Sequence[int], listener: Listener | None) -> None:
        """Forget cells that are safe with their recipient."""
        survey, recipient = box

        def work(tables: Tables) -> int:
            count = tables.took(survey, recipient, places)
            if box in self._waiting:
                self._waiting[box] -= count
            return count

        self._metrics.delivered += await self._committer.do(work)
        if listener is not None and self._listeners.get(box) is listener:
            listener.untaken.difference_update(places)
            self._wake_up(box)

    async def expire(self, forget_before: float, *, recount: bool) -> None:
        """Give up what is over its time, and forget surveys closed before a time.

        ``recount`` when the counts may be off: other hubs, and commits that failed, change them.
        """

        def work(tables: Tables) -> int:
            count = tables.expire(time.time())
            tables.forget(forget_before)
            if count or recount:
                self._waiting.clear()
            return count

        self._metrics.expired += await self._committer.do(work)

    def listen(self, listener: Listener) -> None:
        """Push mail to this listener from now on, and no more to the one before it."""
        self._listeners[listener.box] = listener
        self._wake_up(listener.box)

    def leave(self, listener: Listener) -> None:
        """Push nothing more."""
        if self._listeners.get(listener.box) is listener:
            del self._listeners[listener.box]

    def poll(self) -> None:
        """Look for mail of every listener: another hub may have taken it in."""
        for box in self._listeners:
            self._wake_up(box)

    def _wake_up(self, box: Box) -> None:
        listener = self._listeners.get(box)
        if listener is not None:
            self._woken[listener] = None
            self._wake.set()

    async def carry(self) -> None:
        """Push mail, forever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            asked = [
                (each, *each.box, each.cursor, each.room)
                for each in self._woken
                if each.room > 0 and self._listeners.get(each.box) is each
            ]
            self._woken.clear()
            if not asked:
                continue
            found = await self._committer.do(partial(_read, asked))
            for (listener, *_, room), mail in zip(asked, found, strict=False):
                if mail and self._listeners.get(listener.box) is listener:
                    listener.cursor = mail[-1][0]
                    listener.untaken.update(place for place, _ in mail)
                    listener.deliver(mail)
                    if len(mail) == room:
                        self._wake_up(listener.box)
            for listener, *_ in asked[len(found) :]:
                self._wake_up(listener.box)


def _read(
    asked: Iterable[tuple[Listener, bytes, int, int, int]], tables: Tables
) -> list[list[tuple[int, bytes]]]:
    """Mail of the first listeners, of as many as make a reasonable amount."""
    found: list[list[tuple[int, bytes]]] = []
    total = 0
    for _, survey, recipient, cursor, room in asked:
        if total >= _READ:
            break
        found.append(tables.waiting(survey, recipient, cursor, room))
        total += len(found[-1])
    return found


def _sorted(
    survey: Survey, sender: int, cells: Sequence[bytes], refused: Refusals
) -> tuple[list[CellRow], list[int]]:
    """The rows of good cells and their places; the others are added to the refused."""
    data, compare = (prefix(kind, survey.id, sender, 0)[:_FROM] for kind in (DATA, COMPARE))
    recipients, out, expires = survey.recipients, survey.out, survey.spec.expires
    rows: list[CellRow] = []
    places: list[int] = []
    for place, cell in enumerate(cells):
        head = cell[:_FROM]
        if len(cell) != CELL or (head != data and head != compare):
            refused.append((place, _why(cell, survey.id)))
            continue
        recipient = int.from_bytes(cell[_FROM : _FROM + 4], "big")
        if recipient not in recipients or recipient in out:
            refused.append((place, Reason.revoked if recipient in out else Reason.unknown))
            continue
        rows.append(CellRow(survey.id, cell_id(cell), sender, recipient, expires, cell))
        places.append(place)
    return rows, places


def _why(cell: bytes, survey: bytes) -> Reason:
    """Why a cell that does not begin as it must is refused."""
    try:
        header = Header.parse(cell)
    except Rejected as error:
        return error.reason
    return Reason.foreign if header.survey != survey else Reason.forged
