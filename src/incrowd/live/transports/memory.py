"""Sealed cells between the parties of one process, without a wire.

The network is a set of mailboxes that live as long as the process: a cell stays until its receiver
has taken it, and comes again whenever the receiver opens its transport anew. So it keeps every
promise of a transport except to outlive the process. Two hooks make trouble within these promises:

* ``fate`` is asked for each delivery of a cell and answers with the delays, in seconds, after which
  copies arrive. Several copies are duplicates, different delays reorder, and no copy is a loss:
  the cell is tried again after ``again`` seconds.
* ``reachable`` is asked whenever a party sends; when it says no, the cells are stored up to some
  place (the hook's own choice) and the sender learns nothing but ``Unreachable``.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from incrowd.live.cells import Header, cell_id
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.transports.base import Delivery, Transport, Unreachable

_TOGETHER = 256
"""How many cells are delivered at once at most."""

Fate = Callable[[bytes], Sequence[float]]
"""The delays after which copies of a cell arrive."""

Reachable = Callable[[int, int], int | None]
"""Of so many cells from this party, how many are stored before it breaks off; none: all goes well.
"""


class _Mailbox:
    """What waits for one party, and who listens."""

    def __init__(self) -> None:
        self.cells: dict[int, bytes] = {}
        self.known: set[bytes] = set()
        self.listener: MemoryTransport | None = None


class MemoryNetwork:
    """The mailboxes of all parties."""

    def __init__(
        self, fate: Fate | None = None, reachable: Reachable | None = None, *, again: float = 0.02
    ) -> None:
        self.fate = fate
        self.reachable = reachable
        self.again = again
        self._mailboxes: dict[tuple[bytes, int], _Mailbox] = {}
        self._tokens = itertools.count(1)

    def transport(self, survey: bytes, number: int) -> MemoryTransport:
        """The way to the others for one party of one survey."""
        return MemoryTransport(self, number, self._mailbox(survey, number))

    def waiting(self) -> int:
        """How many cells nobody has taken yet."""
        return sum(len(mailbox.cells) for mailbox in self._mailboxes.values())

    def store(self, cell: bytes) -> Reason | None:
        """Keep a cell for its recipient, once, and deliver it."""
        try:
            header = Header.parse(cell)
        except Rejected as refusal:
            return refusal.reason
        mailbox = self._mailbox(header.survey, header.recipient)
        name = cell_id(cell)
        if name not in mailbox.known:
            mailbox.known.add(name)
            token = next(self._tokens)
            mailbox.cells[token] = cell
            if mailbox.listener is not None:
                mailbox.listener.dispatch(token)
        return None

    def _mailbox(self, survey: bytes, number: int) -> _Mailbox:
        return self._mailboxes.setdefault((survey, number), _Mailbox())


class MemoryTransport(Transport):
    """One party's mailbox."""

    def __init__(self, network: MemoryNetwork, number: int, mailbox: _Mailbox) -> None:
        self._network = network
        self._number = number
        self._mailbox = mailbox
        self._arrived: deque[int] = deque()
        self._news = asyncio.Event()
        self._closed = False

    async def open(self) -> None:
        """Listen; what was not taken comes again."""
        self._mailbox.listener = self
        for token in list(self._mailbox.cells):
            self.dispatch(token)

    async def send(self, cells: Sequence[bytes]) -> list[Reason | None]:
        """Put the cells into the mailboxes of those they are for."""
        await asyncio.sleep(0)
        stored = None
        if self._network.reachable is not None:
            stored = self._network.reachable(self._number, len(cells))
        outcomes = [self._network.store(cell) for cell in cells[:stored]]
        if stored is not None:
            raise Unreachable(f"the network broke off after {stored} of {len(cells)} cells")
        return outcomes

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """What arrives, until closed."""
        while not self._closed:
            await self._news.wait()
            self._news.clear()
            while self._arrived:
                count = min(len(self._arrived), _TOGETHER)
                tokens = [self._arrived.popleft() for _ in range(count)]
                held = self._mailbox.cells
                cells = [(token, held[token]) for token in tokens if token in held]
                if cells:
                    yield Delivery(cells)

    async def took(self, tokens: Sequence[int]) -> None:
        """Forget these cells."""
        for token in tokens:
            self._mailbox.cells.pop(token, None)

    async def close(self) -> None:
        """Stop listening."""
        self._closed = True
        if self._mailbox.listener is self:
            self._mailbox.listener = None
        self._news.set()

    def dispatch(self, token: int) -> None:
        """Let a stored cell arrive, as often and as late as the network likes."""
        cell = self._mailbox.cells.get(token)
        if cell is None or self._closed:
            return
        if self._network.fate is None:
            self._arrive(token)
            return
        loop = asyncio.get_running_loop()
        delays = self._network.fate(cell)
        for delay in delays:
            loop.call_later(delay, self._arrive, token)
        if not delays:
            loop.call_later(self._network.again, self.dispatch, token)

    def _arrive(self, token: int) -> None:
        self._arrived.append(token)
        self._news.set()
