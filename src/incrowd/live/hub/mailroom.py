"""The mailbox in motion: cells come in, wait, are pushed to whoever listens, and are taken.

The hot path treats cells by the batch. What a cell must say is known before it is looked at, so one
comparison of its first bytes accepts it; only a cell that differs is taken apart to say why. While
one transaction is on its way to the disk, the batches that come and the words of what was taken, of
all connections, gather for the next one, which the store does in a few statements.

A listener has a cursor: every cell up to there that waits for it was pushed. The store says with
every batch what was the last place before it. Where the cursor has reached that place, the new
cells are pushed from memory as soon as they are committed; otherwise mail is read from the store,
behind the cursor and for many listeners at once, until the cursor is at the head again. So nothing
is skipped, whoever else writes to the store; a new connection begins from the start of what was not
taken, so nothing is lost.

Two things bound what a slow listener costs. Only so many frames are handed to its connection before
the network has taken them, and few when all listeners together have many. And it has at most a
window of untaken cells, so that it is not sent more than it can look after. Nobody can take a part
of a message, so a window must not keep the rest of it away: one that stays full while nothing is
taken is doubled.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from incrowd.errors import StoreUnavailable
from incrowd.live.cells import CELL, COMPARE, DATA, Header, prefix
from incrowd.live.frames import MOST_CELLS
from incrowd.live.hub.board import Survey
from incrowd.live.hub.limits import Limits
from incrowd.live.hub.metrics import Metrics
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.store import Committer, Parcel, Placed, Tables
from incrowd.live.supervisor import Service

Refusals = list[tuple[int, Reason]]
"""The places of refused cells in their frame, and why."""
Box = tuple[bytes, int]
"""A survey and a recipient."""

_Put = tuple[list[Parcel], frozenset[int], asyncio.Future[list[Placed]]]
"""Parcels of one survey, the numbers of its helpers, and who waits for the answer."""
_Taken = tuple[Box, Sequence[int], asyncio.Future[None]]
T = TypeVar("T")

_TO = len(prefix(DATA, bytes(16), 0, 0))
"""Where the recipient ends: the bytes so far are the same in all cells of a link."""
_ID = struct.Struct(">16sQ")
"""The session and the counter, which follow the round."""
_READ: Final = 16 * MOST_CELLS
"""Cells read back in one piece of work, roughly."""
_TOGETHER: Final = 32 * MOST_CELLS
"""Cells put, and cells taken, in one transaction, roughly."""
_AHEAD: Final = 32
"""Frames of mail that a connection holds while the network has not taken them: up to 8 MiB."""
_ALL_AHEAD: Final = 1024
"""When all connections together hold more, about 256 MiB, each of them waits for its own."""


class Listener:
    """One connection that takes the mail of one party in one survey.

    Its connection must call :meth:`Mailroom.sent` for every frame that was delivered and sent.
    """

    __slots__ = ("box", "cursor", "deliver", "stalled", "underway", "untaken", "window")

    def __init__(
        self, box: Box, window: int, deliver: Callable[[list[tuple[int, bytes]]], None]
    ) -> None:
        self.box = box
        self.window = window
        self.deliver = deliver
        self.cursor = 0
        self.untaken: set[int] = set()
        self.underway = 0
        self.stalled = False

    def push(self, mail: list[tuple[int, bytes]]) -> None:
        """Hand mail to the connection."""
        self.cursor = mail[-1][0]
        self.untaken.update([place for place, _ in mail])
        self.deliver(mail)


class Mailroom:
    """Takes cells in and hands them out."""

    def __init__(self, committer: Committer, metrics: Metrics, limits: Limits) -> None:
        self._committer = committer
        self._metrics = metrics
        self._limits = limits
        self._listeners: dict[Box, Listener] = {}
        self._woken: dict[Listener, None] = {}
        self._wake = asyncio.Event()
        self._puts: deque[_Put] = deque()
        self._taken: deque[_Taken] = deque()
        self._underway = 0
        self._gathered = asyncio.Event()
        self._failed = False

    async def put(self, survey: Survey, sender: int, cells: Sequence[bytes]) -> Refusals:
        """Store cells of a sender; those refused. What is not refused is durable."""
        refused: Refusals = []
        found = _sorted(survey, sender, cells, refused)
        if found:
            parcels = [parcel for parcel, _ in found]
            helpers = frozenset(survey.helpers.values())
            answer: asyncio.Future[list[Placed]] = asyncio.get_running_loop().create_future()
            self._puts.append((parcels, helpers, answer))
            began = time.perf_counter()
            self._gathered.set()
            placed = await answer
            self._metrics.commits.observe(time.perf_counter() - began)
            for (_, where), each in zip(found, placed, strict=True):
                if None in each.fates:
                    refused += (
                        (place, Reason.full)
                        for place, fate in zip(where, each.fates, strict=True)
                        if fate is None
                    )
        return refused

    async def took(self, box: Box, places: Sequence[int], listener: Listener | None) -> None:
        """Forget cells that are safe with their recipient."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._taken.append((box, places, answer))
        self._gathered.set()
        await answer
        if listener is not None and self._listeners.get(box) is listener:
            blocked = not self._room(listener)
            listener.untaken.difference_update(places)
            listener.stalled = False
            if blocked:
                self._wake_up(box)

    async def commit(self, pulse: Service) -> None:
        """Commit what gathers, for ever.

        When the store fails, the puts under way are told so, because their senders keep the cells
        and send them again; what was taken is tried again here, because nobody would say it again.
        Puts that come while it is known to fail wait, so that they are stored as soon as it works.
        """
        if self._failed:
            await self._committer.do(lambda tables: tables.probe())
        while True:
            if not (self._puts or self._taken):
                self._gathered.clear()
                await pulse.until(self._gathered)
            puts = _some(self._puts, lambda put: sum(len(each.cells) for each in put[0]))
            taken = _some(self._taken, lambda word: len(word[1]))
            try:
                placed, count = await self._committer.do(partial(self._store, puts, taken))
            except StoreUnavailable as error:
                _fail(puts, error)
                self._taken.extendleft(reversed(taken))
                self._failed = True
                raise
            except Exception as error:  # whatever it is, it is for those who wait
                _fail(puts, error)
                _fail(taken, error)
                continue
            if self._failed:
                # A commit that seemed to fail can have happened: its cells are only in the store.
                self._failed = False
                self.poll()
            self._metrics.delivered += count
            for (parcels, _, answer), mine in zip(puts, placed, strict=True):
                for parcel, each in zip(parcels, mine, strict=True):
                    self._metrics.accepted += len(each.cells)
                    if each.cells:
                        self._pass_on((parcel.survey, parcel.recipient), each)
                if not answer.done():
                    answer.set_result(mine)
            for *_, done in taken:
                if not done.done():
                    done.set_result(None)
            pulse.beat()

    def _store(
        self, puts: list[_Put], taken: list[_Taken], tables: Tables
    ) -> tuple[list[list[Placed]], int]:
        """What became of each put, and how many cells were taken."""
        helpers = {parcels[0].survey: numbers for parcels, numbers, _ in puts}
        limits = self._limits

        def quota(parcel: Parcel) -> int:
            helps = parcel.recipient in helpers[parcel.survey]
            return limits.helper_quota if helps else limits.quota

        placed = iter(tables.put([parcel for parcels, *_ in puts for parcel in parcels], quota))
        count = tables.take([(box, places) for box, places, _ in taken])
        return [list(islice(placed, len(parcels))) for parcels, *_ in puts], count

    def _room(self, listener: Listener) -> int:
        """How many cells may be pushed now."""
        # One that holds nothing may always get something: whoever waits has something to wait for.
        ahead = _AHEAD if self._underway < _ALL_AHEAD else 1
        if listener.underway >= ahead:
            return 0
        return max(0, min(MOST_CELLS, listener.window - len(listener.untaken)))

    def _push(self, listener: Listener, mail: list[tuple[int, bytes]]) -> None:
        listener.underway += 1
        self._underway += 1
        listener.push(mail)

    def _pass_on(self, box: Box, placed: Placed) -> None:
        """Push cells that were just committed, if nothing is between them and the cursor."""
        listener = self._listeners.get(box)
        if listener is None or placed.first <= listener.cursor:  # read from the store meanwhile
            return
        if placed.before <= listener.cursor and len(placed.cells) <= self._room(listener):
            self._push(listener, list(enumerate(placed.cells, placed.first)))
        else:
            self._wake_up(box)

    async def expire(self, forget_before: float) -> None:
        """Give up what is over its time, and forget surveys closed before a time."""

        def work(tables: Tables) -> int:
            count = tables.expire(time.time())
            tables.forget(forget_before)
            tables.forget_connections(forget_before)
            return count

        self._metrics.expired += await self._committer.do(work)

    def listen(self, listener: Listener) -> None:
        """Push mail to this listener from now on, and no more to the one before it."""
        self._listeners[listener.box] = listener
        self._wake_up(listener.box)

    def leave(self, listener: Listener) -> None:
        """Push nothing more."""
        self._underway -= listener.underway
        listener.underway = 0
        if self._listeners.get(listener.box) is listener:
            del self._listeners[listener.box]

    def sent(self, listener: Listener) -> None:
        """The network has taken a frame of mail of this listener."""
        blocked = not self._room(listener)
        if listener.underway:  # it has not left
            listener.underway -= 1
            self._underway -= 1
        if blocked:
            self._wake_up(listener.box)

    def widen(self) -> None:
        """Double the windows that are full, and of which nothing was taken since the last call."""
        for box, listener in self._listeners.items():
            full = len(listener.untaken) >= listener.window
            if full and listener.stalled and not listener.underway:
                listener.window *= 2
                self._wake_up(box)
            listener.stalled = full

    def poll(self) -> None:
        """Look for mail of every listener: another hub may have taken it in."""
        for box in self._listeners:
            self._wake_up(box)

    def _wake_up(self, box: Box) -> None:
        listener = self._listeners.get(box)
        if listener is not None:
            self._woken[listener] = None
            self._wake.set()

    async def carry(self, pulse: Service) -> None:
        """Push mail, for ever; begun again, it looks for mail of every listener."""
        self.poll()
        while True:
            await pulse.until(self._wake)
            self._wake.clear()
            asked = [
                (each, *each.box, each.cursor, room)
                for each in self._woken
                if (room := self._room(each)) and self._listeners.get(each.box) is each
            ]
            self._woken.clear()
            if not asked:
                continue
            found = await self._committer.do(partial(_read, asked))
            for (listener, *_, room), (mail, head) in zip(asked, found, strict=False):
                if self._listeners.get(listener.box) is not listener:
                    continue
                # Some of it may have been pushed from memory since it was asked for.
                fresh = [each for each in mail if each[0] > listener.cursor]
                if fresh:
                    self._push(listener, fresh)
                if len(mail) == room:
                    self._wake_up(listener.box)
                else:
                    listener.cursor = max(listener.cursor, head)
            for listener, *_ in asked[len(found) :]:
                self._wake_up(listener.box)
            pulse.beat()


def _fail(waiting: Iterable[_Put | _Taken], error: Exception) -> None:
    for *_, answer in waiting:
        if not answer.done():
            answer.set_exception(error)


def _some(queue: deque[T], size: Callable[[T], int]) -> list[T]:
    """The first of a queue, as many as go together."""
    some: list[T] = []
    total = 0
    while queue and total < _TOGETHER:
        some.append(queue.popleft())
        total += size(some[-1])
    return some


def _read(
    asked: Iterable[tuple[Listener, bytes, int, int, int]], tables: Tables
) -> list[tuple[list[tuple[int, bytes]], int]]:
    """Mail of the first listeners, of as many as make a reasonable amount, and their heads."""
    found: list[tuple[list[tuple[int, bytes]], int]] = []
    total = 0
    for _, survey, recipient, cursor, room in asked:
        if total >= _READ:
            break
        mail = tables.waiting(survey, recipient, cursor, room)
        found.append((mail, tables.head(survey, recipient)))
        total += len(mail)
    return found


def _sorted(
    survey: Survey, sender: int, cells: Sequence[bytes], refused: Refusals
) -> list[tuple[Parcel, list[int]]]:
    """Parcels of the good cells with their places; the others are added to the refused."""
    data, compare = (prefix(kind, survey.id, sender, 0)[:-4] for kind in (DATA, COMPARE))
    recipients, out, expires = survey.recipients, survey.out, survey.spec.expires
    found: dict[bytes, tuple[Parcel, list[int]]] = {}
    for place, cell in enumerate(cells):
        # The beginning up to the recipient decides, so it is taken apart once for all like it.
        known = found.get(cell[:_TO]) if len(cell) == CELL else None
        if known is None:
            if len(cell) != CELL or not cell.startswith((data, compare)):
                refused.append((place, _why(cell, survey.id)))
                continue
            recipient = int.from_bytes(cell[_TO - 4 : _TO], "big")
            if recipient not in recipients or recipient in out:
                refused.append((place, Reason.revoked if recipient in out else Reason.unknown))
                continue
            known = Parcel(survey.id, recipient, expires, [], [], []), []
            found[cell[:_TO]] = known
        parcel, places = known
        session, counter = _ID.unpack_from(cell, _TO + 4)
        parcel.sessions.append(session)
        parcel.counters.append(counter)
        parcel.cells.append(cell)
        places.append(place)
    return list(found.values())


def _why(cell: bytes, survey: bytes) -> Reason:
    """Why a cell that does not begin as it must is refused."""
    try:
        header = Header.parse(cell)
    except Rejected as error:
        return error.reason
    return Reason.foreign if header.survey != survey else Reason.forged
