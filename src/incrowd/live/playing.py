"""The event loop that plays the parties of one host over their transports, with one journal.

For every party the same circle: a cell arrives or a time comes, the party is called, its changes go
into the next group commit, and only after that its cells are sent and what it took in is
acknowledged. A host that is killed anywhere in the circle finds in its journal a state from which
the rest of the circle is repeated. There is one clock for all (a heap of times) and one transaction
for all, so that an idle party costs nothing. The times are those of a steady clock: setting the
machine's clock moves no round.

Sending never gives up: an unreachable holder is tried again after growing, jittered pauses with the
same bytes.

A party whose actor raises is set aside with what it had not yet committed, and the others go on; it
is in ``failures``, and goes on from its last commit when it is added again. While the journal
cannot be written nothing is sent or acknowledged, and everything goes on when it can.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self

from incrowd.errors import IncrowdError
from incrowd.live.cells import Header
from incrowd.live.chain import Entry
from incrowd.live.clocks import Clocks
from incrowd.live.frames import MOST_CELLS
from incrowd.live.journal import Batch, Fact, GroupCommit, Journal, OutboxRow
from incrowd.live.party import Party
from incrowd.live.reasons import Reason
from incrowd.live.supervisor import Service, Supervisor, told
from incrowd.live.transports.base import Transport, Unreachable
from incrowd.protocols.runtime.delivery import Backoff

_log = logging.getLogger(__name__)

_RETRY: Final = Backoff(first=0.25, factor=2.0, cap=5.0)
_PERIOD: Final = 5.0
"""Seconds between two heartbeats of a host that has nothing to do."""
_NOT_NOW: Final = (Reason.full, Reason.busy, Reason.flooding)
"""Refusals that only ask for another time."""
_AT_ONCE: Final = 16
"""So many parties are woken before anything else gets a turn."""

Spend = Callable[[], Entry]
"""Takes the cost of taking part from a ledger; asked when the party begins, and never again."""


class _Lane:
    """Cells on their way to one holder; it goes on until they are there, with the same bytes."""

    def __init__(
        self,
        transport: Transport,
        arrived: Callable[[int, Reason | None], None],
        retry: Backoff,
        most: int | None,
    ) -> None:
        self._transport = transport
        self._arrived = arrived
        self._retry = retry
        self._most = most
        self._rows: list[OutboxRow] = []
        self._wanted = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        return not self._rows

    def put(self, row: OutboxRow) -> None:
        self._rows.append(row)
        self._wanted.set()

    async def run(self) -> None:
        attempts = 0
        while True:
            if not self._rows:
                self._wanted.clear()
                await self._wanted.wait()
            if await self._attempt(self._rows[: self._most]):
                attempts = 0
                continue
            attempts += 1
            await asyncio.sleep(_jittered(self._retry.pause(attempts)))

    async def _attempt(self, batch: list[OutboxRow]) -> bool:
        """Send these once; whether all of them are done with."""
        try:
            outcomes = await self._transport.send([row.cell for row in batch])
        except Unreachable:
            return False
        # Others go first while there is no room for these; nobody counts on an order.
        later = [row for row, why in zip(batch, outcomes, strict=True) if why in _NOT_NOW]
        self._rows = self._rows[len(batch) :] + later
        for row, why in zip(batch, outcomes, strict=True):
            if why not in _NOT_NOW:
                self._arrived(row.id, why)
        return not later


class _Courier:
    """Carries the committed effects of one party: sends its cells, acknowledges what it took.

    Where every recipient holds its own mail, each has a lane, so that one who is away, or slow,
    holds up nobody else; acknowledging never waits for sending, or two who send to each other would
    wait for ever.
    """

    def __init__(
        self,
        transport: Transport,
        arrived: Callable[[int, Reason | None], None],
        retry: Backoff,
        spawn: Callable[[Coroutine[None, None, None]], asyncio.Task[None]],
    ) -> None:
        self._transport = transport
        self._arrived = arrived
        self._retry = retry
        self._spawn = spawn
        self._lanes: dict[int | None, _Lane] = {}
        self._tokens: list[int] = []
        self._wanted = asyncio.Event()
        self._running = False
        self._taking: asyncio.Task[None] | None = None

    @property
    def idle(self) -> bool:
        """Whether everything it was given is with the next holder."""
        return all(lane.idle for lane in self._lanes.values())

    def put(self, rows: Iterable[OutboxRow], tokens: Iterable[int] = ()) -> None:
        """Send these, acknowledge those."""
        shared = self._transport.shared
        for row in rows:
            to = None if shared else Header.parse(row.cell).recipient
            lane = self._lanes.get(to)
            if lane is None:
                most = MOST_CELLS if shared else None
                lane = self._lanes[to] = _Lane(self._transport, self._arrived, self._retry, most)
                if self._running:
                    lane.task = self._spawn(lane.run())
            lane.put(row)
        self._tokens += tokens
        self._wanted.set()

    async def open(self) -> None:
        """Open the transport, however long that takes, and carry from then on."""
        for attempt in itertools.count(1):
            try:
                await self._transport.open()
                break
            except Unreachable:
                await asyncio.sleep(_jittered(self._retry.pause(attempt)))
        self._running = True
        self._taking = self._spawn(self._take())
        for lane in self._lanes.values():
            lane.task = self._spawn(lane.run())

    async def close(self) -> None:
        """Carry no more; what is not there yet is in the journal."""
        self._running = False
        tasks = [lane.task for lane in self._lanes.values()]
        under_way = [task for task in (*tasks, self._taking) if task is not None]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _take(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            tokens, self._tokens = self._tokens, []
            # What could not be acknowledged comes again, and is acknowledged then.
            if tokens:
                with suppress(Unreachable):
                    await self._transport.took(tokens)


def _jittered(pause: float) -> float:
    return pause * random.uniform(0.5, 1.0)  # noqa: S311


class _Seat:
    """One party with its transport; the group commit asks it for changes."""

    def __init__(
        self, party: Party, transport: Transport, spend: Spend | None, held: bool, player: Player
    ) -> None:
        self.party = party
        self.transport = transport
        self.spend = spend
        self.held = held
        self.begins = party.origin
        self.serving: asyncio.Task[None] | None = None
        self.scheduled: float | None = None
        self.failed = False
        self.courier = _Courier(transport, self._arrived, player.retry, self._spawn)
        self._player = player
        self._asked = False

    def changes(self, batch: Batch) -> None:
        self._asked = not self.failed
        if self._asked:
            self.party.changes(batch)

    def committed(self) -> None:
        if self._asked:
            self.courier.put(*self.party.committed())
            self._player.notify()

    def step(self, now: float) -> None:
        """Begin, or do what is due."""
        if self.party.begun:
            self.party.wake(now)
        elif not self.held and now >= self.begins:
            try:
                entry = None if self.spend is None else self.spend()
            except IncrowdError as refusal:
                # Nothing has begun, so nothing is broken: it just stays where it is.
                self.held = True
                self._player.failures[self.party] = refusal
                return
            self.party.begin(now, entry)

    @property
    def due(self) -> float | None:
        if self.party.begun:
            return self.party.due
        return None if self.held else self.begins

    def _arrived(self, id_: int, refused: Reason | None) -> None:
        self.party.arrived(id_, refused)
        self._player.notify()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._player.supervisor.job(work)
        task.add_done_callback(self._carried)
        return task

    def _carried(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self._player.set_aside(self, error)


class Player:
    """Plays parties until stopped; an asynchronous context manager.

    Parties may be added at any time. One that the journal knows continues, any other begins at its
    origin, by the clock of its survey.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        clocks: Clocks | None = None,
        retry: Backoff = _RETRY,
        supervisor: Supervisor | None = None,
    ) -> None:
        self.retry = retry
        self.supervisor = supervisor or Supervisor()
        self.failures: dict[Party, Exception] = {}
        self._clocks = clocks or Clocks()
        self._group = GroupCommit(journal)
        self._journal = journal
        self._added: set[tuple[bytes, int]] = set()
        self._read()
        self._seats: dict[Party, _Seat] = {}
        self._heap: list[tuple[float, int, _Seat]] = []
        self._order = itertools.count()
        self._sooner = asyncio.Event()
        self._news = asyncio.Event()
        self._stopped = False
        self._committing: Service | None = None
        self._ringing: Service | None = None

    def _read(self) -> None:
        """Read where everyone is who was not added yet."""
        self._rows = {(row.survey, row.number): row for row in self._journal.parties()}
        self._outbox = self._journal.outbox()

    async def __aenter__(self) -> Self:
        # What was not committed is in memory alone: only a new process can begin again without it.
        self._committing = self.supervisor.service(
            "journal", self._commit, period=_PERIOD, restart=False
        )
        self._ringing = self.supervisor.service("clock", self._ring, period=_PERIOD)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def add(
        self,
        party: Party,
        transport: Transport,
        spend: Spend | None = None,
        *,
        held: bool = False,
    ) -> None:
        """Play this party from now on; one that is held does not begin before it is released."""
        seat = _Seat(party, transport, spend, held, self)
        key = party.survey, party.number
        if key in self._added:  # it was set aside, and has committed since this was read
            self._read()
        self._added.add(key)
        row = self._rows.pop(key, None)
        if row is not None:
            party.resume(row)
        seat.courier.put(self._outbox.pop(key, []))
        self._seats[party] = seat
        self._schedule(seat)
        seat.serving = self.supervisor.job(self._serve(seat))

    def release(self, party: Party) -> None:
        """Let a party begin that was held: now, so that not everybody begins in one moment.

        Before its origin an actor gets ready, and waits for the time by itself.
        """
        seat = self._seats[party]
        seat.held = False
        seat.begins = min(party.origin, self._clocks.now(party.survey))
        self._schedule(seat)

    async def drained(self, party: Party) -> None:
        """Wait until everything that the party has said is with the next holder."""
        seat = self._seats[party]
        await self.until(lambda: seat.failed or (party.settled and seat.courier.idle))

    async def remove(self, party: Party) -> None:
        """Commit what the party did so far, and play it no more.

        A caller that is being cancelled does not wait for that: the journal may not be writable
        just now, and :meth:`stop` commits what is left.
        """
        seat = self._seats.pop(party, None)
        if seat is None:
            return
        seat.scheduled = None  # Its entries in the heap ring for nobody.
        if seat.serving is not None:
            seat.serving.cancel()
            await asyncio.gather(seat.serving, return_exceptions=True)
        self._group.mark(seat)
        caller = asyncio.current_task()
        if caller is None or not caller.cancelling():
            await self._group.write()
        await seat.transport.close()

    def mark(self, party: Party) -> None:
        """Commit what a caller did to a party itself, such as ``post``."""
        self._group.mark(self._seats[party])

    async def write(self, facts: Iterable[Fact] = (), entries: Iterable[Entry] = ()) -> None:
        """Make these durable together with whatever else is to be written."""
        await self._group.write(facts, entries)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until this holds; it is looked at after every commit and every sending."""
        while not condition():
            self._group.check()
            if self._stopped:
                raise IncrowdError("the player was stopped: start it anew")
            self._news.clear()
            await self._news.wait()

    async def finished(self) -> None:
        """Wait until every party is done and what it had to say is with the next holder."""

        def over() -> bool:
            for error in self.failures.values():
                raise error
            return all(
                seat.party.output is not None and seat.courier.idle for seat in self._seats.values()
            )

        await self.until(over)

    async def stop(self) -> None:
        """Commit what happened so far and let go; what was not sent waits in the journal."""
        if self._ringing is not None:
            await self._ringing.stop()
        serving = [seat.serving for seat in self._seats.values() if seat.serving is not None]
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        try:
            if self._committing is not None:
                for seat in self._seats.values():
                    self._group.mark(seat)
                self._group.close()
                await self._committing.finish()
                self._group.check()
        finally:
            self._stopped = True
            self.notify()
            for seat in self._seats.values():
                await seat.transport.close()

    def notify(self) -> None:
        """Something happened that somebody may be waiting for."""
        self._news.set()

    # The circle.

    async def _commit(self, pulse: Service) -> None:
        try:
            await self._group.run(pulse)
        finally:
            self.notify()

    async def _serve(self, seat: _Seat) -> None:
        """Open the transport, carry what goes out, and take in what comes."""
        try:
            await seat.courier.open()
            async for delivery in seat.transport.deliveries():
                self._call(seat, partial(seat.party.deliver, delivery.cells))
        except Exception as error:
            self.set_aside(seat, error)
        finally:
            await seat.courier.close()

    def _call(self, seat: _Seat, what: Callable[[float], None]) -> None:
        if seat.failed:
            return
        try:
            what(self._clocks.now(seat.party.survey))
        except Exception as error:
            self.set_aside(seat, error)
        else:
            self._group.mark(seat)
            self._schedule(seat)

    def set_aside(self, seat: _Seat, error: Exception) -> None:
        """Play this party no more: it raised what it must not."""
        _log.error("%s was set aside: %s", seat.party.address, told(error))
        seat.failed = True
        self.failures.setdefault(seat.party, error)
        self.notify()

    def _schedule(self, seat: _Seat) -> None:
        due = seat.due
        if due is not None:
            due = self._clocks.moment(seat.party.survey, due)
        if due is None or due == seat.scheduled:
            seat.scheduled = due
            return
        seat.scheduled = due
        if not self._heap or due < self._heap[0][0]:
            self._sooner.set()
        heapq.heappush(self._heap, (due, next(self._order), seat))

    async def _ring(self, pulse: Service) -> None:
        """Call everyone whose time has come; begun again, it looks at everyone's."""
        for seat in self._seats.values():
            self._schedule(seat)
        while True:
            self._sooner.clear()
            due = []
            while self._heap and self._heap[0][0] <= self._clocks.passing():
                at, _, seat = heapq.heappop(self._heap)
                # An alarm that was moved has another entry.
                if at == seat.scheduled:
                    seat.scheduled = None
                    due.append(seat)
            for index, seat in enumerate(due, 1):
                self._call(seat, seat.step)
                if index % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            pulse.beat()
            pause = self._heap[0][0] - self._clocks.passing() if self._heap else _PERIOD
            await pulse.until(self._sooner, min(max(0.0, pause), _PERIOD))
