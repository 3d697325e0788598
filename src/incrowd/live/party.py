"""One actor of one survey, played so that a crash at any point loses and repeats nothing.

A :class:`Party` does no input or output and has no clock: ``playing`` hands it cells and the time,
and asks for its changes. It sits between three parts: the actor, which speaks messages; ``links``,
which seals and opens cells; and the journal. Every call gathers changes in memory; ``changes`` puts
them into a batch, and what they bring about (cells to send, cells to acknowledge) is handed out by
``committed``, once that batch is durable. Calls that happen in between belong to the next batch.

What comes in:

* a cell is acknowledged when every message it carries a part of is complete and the commit of what
  they brought about is durable; in the same commit it is marked, never to be opened again;
* a refused cell changes nothing, is counted by its reason, and is acknowledged too, so that it does
  not come again. That includes cells of another version: both ends of a survey signed up to this
  one. Only ``full`` is left, since it asks for another attempt.

What goes out: a message that is still on its way to the next holder, byte for byte the same, is not
sent again, because the outbox does not lose it. Without cover everything a call sends leaves at
once. With cover (a plan of ticks) it waits: at each tick exactly the named cells are sealed, with
messages as far as they fit and dummies for the rest. When several ticks are overdue only the last
is kept; those before it are missed for good, and that a device was away is public. What still waits
after the last tick is never sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import msgspec

from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.live import cells as cell_format
from incrowd.live.cells import CELL, COMPARE, DUMMY, Header, Reassembler, pack
from incrowd.live.chain import Entry
from incrowd.live.journal import Batch, OutboxRow, PartyRow
from incrowd.live.links import Links
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.supervisor import told
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Address,
    Done,
    Effect,
    Maker,
    Message,
    Send,
    Wake,
)
from incrowd.protocols.runtime.cover import Tick
from incrowd.protocols.runtime.outputs import pack_output


class Statistics(msgspec.Struct, kw_only=True):
    """What one party sent and got since its process started."""

    messages: int = 0
    """Messages handed to the links, retries included."""
    bytes: int = 0
    """Their bytes, before they were packed."""
    cells: int = 0
    """Cells sealed, dummies included."""
    dummies: int = 0
    received: int = 0
    """Messages handed to the actor."""
    missed: int = 0
    """Ticks that went by unused."""
    rejected: dict[Reason, int] = msgspec.field(default_factory=Counter)
    """Cells that came in and were refused."""
    undeliverable: dict[Reason, int] = msgspec.field(default_factory=Counter)
    """Cells that no holder will ever take."""


class Released(NamedTuple):
    """What may happen now that it is durable."""

    cells: list[OutboxRow]
    """To send."""
    tokens: list[int]
    """To acknowledge."""


class _Came(NamedTuple):
    """One cell that was opened: how the transport calls it, and how its link does."""

    token: int
    session: bytes
    counter: int


_Key = tuple[int, bytes]
"""Recipient and body of a message."""


@dataclass(eq=False)
class _Flight:
    """Messages that were sealed together, and how many of their cells are not yet safe."""

    keys: list[_Key]
    cells: int


class _Together:
    """Which finished cells may be acknowledged: under cover, those of one tick all at once.

    Whoever sees acknowledgements must not learn from them which cells belong to a long message.
    Plans are symmetric between devices, so that as many cells come from a contact per tick as go
    to it; and what begins in a tick ends in it, so that all of them are finished when all are here.
    """

    def __init__(self, expected: Mapping[int, int]) -> None:
        self._expected = expected
        self._groups: dict[tuple[int, int], dict[_Came, None]] = {}
        self._group_of: dict[_Came, tuple[int, int]] = {}
        self._finished: set[_Came] = set()

    def add(self, sender: int, round_: int, came: _Came) -> None:
        """A cell has come from a contact in this round of its own."""
        if self._expected.get(sender, 1) > 1:
            self._groups.setdefault((sender, round_), {})[came] = None
            self._group_of[came] = sender, round_

    def over(self, sender: int, finished: Sequence[_Came]) -> list[_Came]:
        """What may be acknowledged, now that these are finished."""
        if self._expected.get(sender, 1) <= 1:
            return list(finished)
        self._finished.update(finished)
        done: list[_Came] = []
        for key in {self._group_of[came] for came in finished if came in self._group_of}:
            group = self._groups[key]
            if len(group) >= self._expected[sender] and self._finished.issuperset(group):
                done += group
                del self._groups[key]
        for came in done:
            self._finished.discard(came)
            self._group_of.pop(came, None)
        return done


class _Waiting(msgspec.Struct, array_like=True):
    number: int
    body: bytes
    gone: int = 0
    """How much of it has left, when it is longer than one tick has room for."""


@dataclass(eq=False)
class _Gathered:
    """The changes of the calls since the last batch."""

    row: bool = False
    """Whether anything but the actor changed."""
    state: bool = False
    """Whether the actor was called."""
    cells: list[tuple[bytes, _Flight | None]] = field(default_factory=list)
    tokens: dict[int, None] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)


class Party:
    """Plays one actor over its links; all times are in seconds since 1970."""

    def __init__(
        self,
        address: Address,
        survey: bytes,
        make: Maker,
        links: Links,
        *,
        origin: float,
        round_seconds: float,
        first: Maker | None = None,
        plan: Sequence[Tick] = (),
        compare: Callable[[bytes], None] | None = None,
    ) -> None:
        """``origin`` is the start of the survey, from which the actor counts its seconds.

        ``first`` makes the actor that begins, where that takes more than one that resumes: a
        device's reads the owner's answer, and is called once the ledger has the line. ``plan`` are
        the ticks of cover traffic in order; none for a party without. ``compare`` is handed the
        compare cells that arrive, since no link carries them.
        """
        if any(later.at < tick.at for tick, later in pairwise(plan)):
            raise InvalidParameter("the ticks of a cover plan must be in order of time")
        self.address = address
        self.survey = survey
        self.number = cell_format.number(address)
        self.origin = origin
        self.statistics = Statistics()
        self.output: bytes | None = None
        """What the actor learned, packed, once it is done and that is durable."""
        self._make = make
        self._first = first or make
        self._links = links
        self._round_seconds = round_seconds
        self._compare = compare
        self._plan = [
            (tick.at, {cell_format.number(to): count for to, count in tick.cells.items()})
            for tick in plan
        ]
        self._room: Counter[int] = Counter()
        """The most cells that ever leave at once, by recipient."""
        for _, planned in self._plan:
            self._room |= Counter(planned)
        self._tick = 0
        self._actor: Actor | None = None
        self._early: list[tuple[int, bytes]] = []
        self._reassembler: Reassembler[_Came] = Reassembler()
        self._together = _Together(self._room)
        self._queue: dict[int, list[_Waiting]] = {}
        self._under_way: set[_Key] = set()
        self._flights: dict[int, _Flight] = {}
        self._alarm: float | None = None
        self._said: bytes | None = None
        self._gathered = _Gathered()
        self._sent: list[int] = []
        self._committing: tuple[Released, bytes | None] | None = None

    # Beginning.

    @property
    def begun(self) -> bool:
        """Whether the actor was started, or resumed."""
        return self._actor is not None

    def begin(self, time: float, entry: Entry | None = None) -> None:
        """Start the actor; the ledger's entry is committed with what it sends first."""
        try:
            actor = self._first()
            effects = actor.start(self._now(time))
        except Exception as error:
            # What goes wrong here has seen the answer: neither log nor ledger may quote it.
            raise ProtocolFailed(f"{self.address} cannot begin: {told(error)}") from None
        self._actor = actor
        if entry is not None:
            self._gathered.entries.append(entry)
        self._do(effects)
        self._settle(time)
        self._take_early(time)

    def resume(self, row: PartyRow) -> None:
        """Continue from the journal; the cells in its outbox are sent again as they are."""
        if row.state is None or (row.survey, row.number) != (self.survey, self.number):
            raise InvalidParameter(f"the journal's row is not one of {self.address}")
        actor = self._make()
        actor.resume(row.state)
        self._links.resume(row.links)
        self._queue = msgspec.msgpack.decode(row.queue, type=dict[int, list[_Waiting]])
        for queue in self._queue.values():
            # A new process has new sessions, and no message is put together from two of them.
            queue[0].gone = 0
        self._under_way = {(to, each.body) for to, row_ in self._queue.items() for each in row_}
        self._alarm, self._tick = row.alarm, row.tick
        self.output = self._said = row.output
        self._actor = actor

    # What happens to it.

    def deliver(self, cells: Sequence[tuple[int, bytes]], time: float) -> None:
        """Take in cells, each with its token; before the beginning they are kept for later."""
        if self._actor is None:
            self._early += cells
            for _, cell in cells:
                # What others say of the start decides whether there is a beginning at all.
                with suppress(Rejected):
                    self._is_compare(cell)
            return
        for token, cell in cells:
            self._take_in(self._actor, token, cell, time)
        self._settle(time)

    def wake(self, time: float) -> None:
        """Do what is due by now."""
        if self._actor is None:
            return
        if self._alarm is not None and time >= self.origin + self._alarm:
            # The actor must not see a time before the one it asked for, rounded or not.
            now = max(self._now(time), self._alarm)
            self._alarm = None
            self._gathered.row = True
            self._do(self._actor.wake(now))
        self._settle(time)

    def post(self, cell: bytes) -> None:
        """Send a cell that was made elsewhere, such as a compare cell."""
        self._gathered.cells.append((cell, None))

    def excuse(self, body: bytes, time: float) -> None:
        """Tell the curator, at once and whatever the plan, that it will never begin."""
        number = cell_format.number(CURATOR)
        self._queue[number] = [_Waiting(self._links.next_number(number), body)]
        self._seal(number, max(0, int(self._now(time) // self._round_seconds)), None)

    def revoke(self, number: int) -> None:
        """Take nothing more from this party."""
        self._links.revoke(number)

    @property
    def due(self) -> float | None:
        """When to call ``wake``; none when nothing is planned."""
        times = [] if self._alarm is None else [self._alarm]
        if self._tick < len(self._plan):
            times.append(self._plan[self._tick][0])
        return self.origin + min(times) if times and self._actor is not None else None

    # Durability.

    @property
    def settled(self) -> bool:
        """Whether nothing waits to be committed."""
        gathered = self._gathered
        return self._committing is None and not (gathered.state or gathered.cells)

    def changes(self, batch: Batch) -> None:
        """Add what was gathered to a batch; the next is not asked for before ``committed``."""
        if self._committing is not None:
            raise ProtocolFailed(f"two commits of {self.address} at once")
        gathered, self._gathered = self._gathered, _Gathered()
        if self._actor is not None and (gathered.row or gathered.state):
            batch.parties.append(self._row(gathered.state))
        batch.entries += gathered.entries
        batch.sent += self._sent
        self._sent = []
        rows = []
        for cell, flight in gathered.cells:
            row = batch.put(self.survey, self.number, cell)
            rows.append(row)
            if flight is not None:
                self._flights[row.id] = flight
        self._committing = Released(rows, list(gathered.tokens)), self._said

    def committed(self) -> Released:
        """The batch is durable: what may be carried out."""
        if self._committing is None:
            raise ProtocolFailed(f"nothing of {self.address} was being committed")
        (released, self.output), self._committing = self._committing, None
        return released

    def arrived(self, id_: int, refused: Reason | None = None) -> None:
        """A cell is safe with the next holder, or never will be; a later batch forgets it."""
        self._sent.append(id_)
        if refused is not None:
            self.statistics.undeliverable[refused] += 1
        flight = self._flights.pop(id_, None)
        if flight is not None:
            flight.cells -= 1
            if flight.cells == 0:
                self._under_way.difference_update(flight.keys)

    def _row(self, changed: bool) -> PartyRow:
        return PartyRow(
            survey=self.survey,
            number=self.number,
            origin=self.origin,
            alarm=self._alarm,
            tick=self._tick,
            queue=msgspec.msgpack.encode(self._queue),
            output=self._said,
            links=self._links.state(),
            state=self._actor.state() if changed and self._actor is not None else None,
        )

    # Inwards.

    def _now(self, time: float) -> float:
        return time - self.origin

    def _take_early(self, time: float) -> None:
        early, self._early = self._early, []
        if early:
            self.deliver(early, time)

    def _take_in(self, actor: Actor, token: int, cell: bytes, time: float) -> None:
        try:
            if self._is_compare(cell):
                self._gathered.tokens[token] = None
                return
            sender, plaintext, session, counter = self._links.open(cell)
            came = _Came(token, session, counter)
            messages = self._reassembler.feed(session, came, plaintext)
        except Rejected as refusal:
            self.statistics.rejected[refusal.reason] += 1
            if refusal.reason is not Reason.full:
                self._gathered.tokens[token] = None
            return
        for body in messages:
            self.statistics.received += 1
            self._do(actor.receive(Message(cell_format.address(sender), body), self._now(time)))
        self._together.add(sender, Header.parse(cell).round, came)
        for finished in self._together.over(sender, self._reassembler.finished()):
            self._links.mark(finished.session, finished.counter)
            self._gathered.tokens[finished.token] = None
            self._gathered.row = True

    def _is_compare(self, cell: bytes) -> bool:
        if self._compare is None or len(cell) != CELL or cell[1] != COMPARE:
            return False
        self._compare(cell)
        return True

    # Outwards.

    def _do(self, effects: Sequence[Effect]) -> None:
        self._gathered.state = True
        for effect in effects:
            match effect:
                case Send(to, body):
                    self._send(to, body)
                case Wake(at):
                    self._alarm = at
                case Done(output):
                    self._said = pack_output(output)

    def _send(self, to: Address, body: bytes) -> None:
        number = cell_format.number(to)
        if self._plan and not self._room[number]:
            raise ProtocolFailed("a message is for a party to which the cover plan sends nothing")
        key = number, body
        if key in self._under_way:
            return
        self._under_way.add(key)
        waiting = _Waiting(self._links.next_number(number), body)
        self._queue.setdefault(number, []).append(waiting)

    def _settle(self, time: float) -> None:
        """Seal what leaves now: everything, or what the latest tick that is due names."""
        round_ = max(0, int(self._now(time) // self._round_seconds))
        if not self._plan:
            for to in list(self._queue):
                self._seal(to, round_, None)
            return
        due = self._tick
        while due < len(self._plan) and time >= self.origin + self._plan[due][0]:
            due += 1
        if due == self._tick:
            return
        self.statistics.missed += due - self._tick - 1
        self._tick = due
        self._gathered.row = True
        for to, count in self._plan[due - 1][1].items():
            self._seal(to, round_, count)

    def _seal(self, to: int, round_: int, count: int | None) -> None:
        """Cells with the messages that wait for this party: as many as it takes, or ``count``."""
        queue = self._queue.pop(to, [])
        ready = [(each.number, each.body) for each in queue]
        plaintexts, left, begun = pack(ready, count, queue[0].gone if queue else 0)
        gone = len(ready) - len(left)
        if left:
            self._queue[to] = queue[gone:]
            self._queue[to][0].gone = begun
        dummies = 0 if count is None else count - len(plaintexts)
        keys = [(to, each.body) for each in queue[:gone]]
        flight = _Flight(keys, len(plaintexts))
        for plaintext in plaintexts:
            self._gathered.cells.append((self._links.seal(to, round_, plaintext), flight))
        for _ in range(dummies):
            self._gathered.cells.append((self._links.seal(to, round_, DUMMY), None))
        self._gathered.row = True
        self.statistics.messages += gone
        self.statistics.bytes += sum(len(body) for _, body in keys)
        self.statistics.cells += len(plaintexts) + dummies
        self.statistics.dummies += dummies
