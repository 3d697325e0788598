"""The hub itself: its parts, who is connected, and what it does by itself.

A hub that starts on a store continues where the last one on it stopped; it keeps nothing that it
could not read from there. It tells connected parties what changed in surveys that concern them,
puts out whoever is revoked, gives up mail that is over its time, and, when it has to stop, finishes
the commits under way before it lets go.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Final

from cryptography import x509

from incrowd.errors import StoreUnavailable
from incrowd.live import frames
from incrowd.live.hub.board import Board, Change, Survey
from incrowd.live.hub.closing import read_close
from incrowd.live.hub.connection import Connection
from incrowd.live.hub.events import log
from incrowd.live.hub.limits import Limits
from incrowd.live.hub.mailroom import Mailroom
from incrowd.live.hub.messages import Span, conflict
from incrowd.live.hub.metrics import Metrics
from incrowd.live.hub.presence import Presence
from incrowd.live.hub.registry import Registry
from incrowd.live.store import Committer, SqliteStore, Store, Tables
from incrowd.live.supervisor import Service, Supervisor
from incrowd.protocols.runtime.actor import Address

_TICK: Final = 1.0
"""The period of every service, in seconds."""
_EXPIRE_TICKS: Final = 2
_REGULAR_TICKS: Final = 60


class Hub:
    """One hub on one store. Make it inside the event loop that it is to run in."""

    def __init__(
        self, store: Store, authority: x509.Certificate, limits: Limits, metrics: Metrics
    ) -> None:
        self.limits = limits
        self.metrics = metrics
        self.committer = Committer(store)
        self.registry = Registry(self.committer, authority)
        self.board = Board(self.committer, self.registry)
        self.mailroom = Mailroom(self.committer, metrics, limits)
        self.draining = False
        self._over = False
        self._shared = not isinstance(store, SqliteStore)
        self._connections: dict[bytes, set[Connection]] = {}
        self.presence = Presence()
        self.supervisor = Supervisor(proves_writes=True)

    async def open(self) -> None:
        """Continue from the store, and begin to work; ready from the first moment."""
        await self._catch_up()
        await self._probe()
        for name, work in (
            ("commit", self.mailroom.commit),
            ("delivery", self.mailroom.carry),
            ("upkeep", self._tend),
            ("probe", self._prove),
        ):
            self.supervisor.service(name, work, period=_TICK)
        log("opened")

    async def drain(self) -> None:
        """Take no more from anyone, answer what was taken, and close every connection."""
        self.draining = True
        log("draining")
        await asyncio.gather(*(each.drain() for each in self._everyone()))

    async def close(self) -> None:
        """Stop working; everything that was answered is in the store."""
        await self.supervisor.close()
        with contextlib.suppress(StoreUnavailable):
            await self._probe()
        await self.committer.close()
        log("closed")

    def failing(self) -> list[str]:
        """Why the hub is not ready; nothing when it is."""
        return [*(["draining"] if self.draining else []), *self.supervisor.failing()]

    def enter(self, connection: Connection) -> None:
        """A party is here: tell it what concerns it."""
        identity = connection.identity
        self._connections.setdefault(identity, set()).add(connection)
        self.presence.enter(connection, identity)
        self.metrics.connections += 1
        if identity in self.registry.revoked:
            connection.revoke()
            return
        if self.draining:
            connection.leave()
            return
        for survey in self.board.concerning(identity):
            if survey.state != "closed":
                connection.tell(frames.News(survey.id, survey.state))

    def leave(self, connection: Connection) -> None:
        """A party is gone."""
        self.presence.leave(connection)
        held = self._connections[connection.identity]
        held.discard(connection)
        if not held:
            del self._connections[connection.identity]
        self.metrics.connections -= 1

    async def offer(self, signed: bytes, roster: bytes, graph: bytes | None) -> Survey:
        """Offer a survey to everyone on its roster."""
        survey, fresh = await self.board.offer(signed, roster, graph)
        if fresh:
            self._publish([(survey, "offered")])
        return survey

    async def start(self, survey: Survey, start: bytes) -> None:
        """Start a survey."""
        if await self.board.start(survey, start):
            self._publish([(survey, "started")])

    async def finish(self, survey: Survey, close: bytes) -> None:
        """Close a survey."""
        if await self.board.close(survey, close):
            self._publish([(survey, "closed")])

    async def connections(self, survey: Survey, close: bytes) -> dict[Address, list[Span]]:
        """Connections of the devices of a survey that its curator has closed.

        Only then are they the whole record: nothing that a device sends later reaches anybody.
        """
        read_close(close, survey.spec, survey.digest)
        if survey.state != "closed":
            raise conflict("the survey is not closed", "close it first")
        since = time.time() - self.limits.keep_seconds
        stored = await self.committer.do(lambda tables: tables.connections(since))
        return self.presence.spans(survey, stored)

    async def revoke(self, crl: bytes) -> bool:
        """Put out whoever is on this revocation list; False when a newer one is held."""
        newest, out = await self.registry.revoke(crl)
        self._put_out(out)
        return newest

    def _put_out(self, revoked: set[bytes]) -> None:
        self.board.strike(revoked)
        for identity in revoked:
            for connection in list(self._connections.get(identity, ())):
                connection.revoke()
        if revoked:
            log("revoked")

    def _publish(self, changes: Iterable[Change]) -> None:
        for survey, state in changes:
            log(f"survey {state}")
            self._over |= state == "closed"
            news = frames.News(survey.id, state)
            for identity, connections in self._connections.items():
                if survey.slot(identity) is not None:
                    for connection in connections:
                        connection.tell(news)
                        connection.started(survey)

    def _everyone(self) -> list[Connection]:
        return [each for held in self._connections.values() for each in held]

    async def _catch_up(self) -> None:
        """Read what other hubs, or the one before this, have written."""
        self._put_out(await self.registry.refresh())
        self._publish(await self.board.refresh())
        self.mailroom.poll()

    async def _prove(self, pulse: Service) -> None:
        """Show again and again that the store takes writes; a read would prove nothing."""
        while True:
            try:
                await self._probe()
            except StoreUnavailable as error:
                # Not after growing pauses: the others wait for this one to find that it works.
                pulse.wait(error)
                await asyncio.sleep(_TICK)
            else:
                await pulse.sleep(_TICK)

    async def _probe(self) -> None:
        def work(tables: Tables) -> None:
            tables.probe()
            tables.put_connections(rows)

        with self.presence.writing() as rows:
            await self.committer.do(work)
        self.supervisor.committed()

    async def _tend(self, pulse: Service) -> None:
        tick = 0
        while True:
            await pulse.sleep(_TICK)
            tick += 1
            self.mailroom.widen()
            if self._shared:
                await self._catch_up()
            if tick % _EXPIRE_TICKS == 0:
                self._publish(await self.board.close_overdue())
                await self._expire(regular=tick % _REGULAR_TICKS == 0)

    async def _expire(self, *, regular: bool) -> None:
        """Give up mail after a survey was closed, and now and then in any case."""
        if not (self._over or regular):
            return
        self._over = False
        try:
            await self.mailroom.expire(time.time() - self.limits.keep_seconds)
            if not self._shared:
                await self.board.refresh()
        except StoreUnavailable:
            self._over = True
            raise
