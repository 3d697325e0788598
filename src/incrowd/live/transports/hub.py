"""Cells through the hub's mailbox, over the party's own WebSocket.

The hub is the next holder: it answers a put after its commit, and keeps a cell until it was taken.
A cell is stored once by its identifier, so sending the same cells again costs bytes and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from incrowd.live import frames
from incrowd.live.client import Connection
from incrowd.live.reasons import Reason
from incrowd.live.transports.base import Delivery, Transport

_AT_ONCE: Final = 8
"""How many puts of one party wait for their answer at the same time."""


class HubTransport(Transport):
    """One survey on a connection, which belongs to whoever made it and may serve others too."""

    def __init__(self, connection: Connection, survey: bytes) -> None:
        self._connection = connection
        self._survey = survey
        self._slots = asyncio.Semaphore(_AT_ONCE)
        # The hub sends no more than a window of cells before it sees some taken.
        self._inbox: asyncio.Queue[Delivery | None] = asyncio.Queue()

    async def open(self) -> None:
        """Listen to the survey."""
        await self._connection.open()
        await self._connection.listen(self._survey, self._mail)

    async def send(self, cells: Sequence[bytes]) -> list[Reason | None]:
        """Store the cells at the hub, several frames at a time."""
        answers: list[Reason | None] = [None] * len(cells)
        starts = range(0, len(cells), frames.MOST_CELLS)
        outcomes = await asyncio.gather(
            *(self._put(cells[start : start + frames.MOST_CELLS]) for start in starts),
            return_exceptions=True,
        )
        for start, outcome in zip(starts, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                raise outcome
            for place, reason in outcome:
                answers[start + place] = reason
        return answers

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """What the hub delivers."""
        while (delivery := await self._inbox.get()) is not None:
            yield delivery

    async def took(self, tokens: Sequence[int]) -> None:
        """Tell the hub; places in its mailbox are the tokens."""
        await self._connection.took(self._survey, tokens)

    async def close(self) -> None:
        """Stop listening; the connection stays open."""
        self._connection.ignore(self._survey)
        self._inbox.put_nowait(None)

    async def _put(self, cells: Sequence[bytes]) -> list[tuple[int, Reason]]:
        async with self._slots:
            return await self._connection.put(self._survey, cells)

    def _mail(self, mail: frames.Mail | None) -> None:
        if mail is not None:
            self._inbox.put_nowait(Delivery(mail.cells))
            return
        # The connection broke: all of this comes again, so it need not be kept twice.
        while not self._inbox.empty():
            self._inbox.get_nowait()
