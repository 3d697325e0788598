"""Cells from device to device, over mutual TLS: nobody holds mail but the parties themselves.

Every party listens on a port of its own and announces it; who wants to send looks it up, connects,
and accepts only a certificate of the authority whose key is the one that the roster has for this
party. So a wrong address, or a directory that lies, costs time and nothing else. Endpoints are what
others say, and must not make a device knock at services of its own machine or network: only
addresses that ``dial`` allows are connected to. A name is resolved once, and what was checked is
dialled.

The receiver is the next holder: a put is answered when all of its cells that were not refused have
been taken, that is, after the receiver's own commit. Messages of several cells are taken all
together, so a sender must not wait for one send before it begins the next. The receiver keeps each
waiting cell once, however often it is sent, and refuses as ``full`` what is beyond its room.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import socket
import ssl
import time
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

from cryptography import x509

from incrowd.errors import HubRefused, HubUnreachable
from incrowd.live import frames
from incrowd.live.authority import client_context, server_context
from incrowd.live.cells import Header, address, cell_id
from incrowd.live.client import Connection, HubClient
from incrowd.live.keys import check_certificate
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.supervisor import Supervisor
from incrowd.live.transports.base import Delivery, Transport, Unreachable
from incrowd.live.transports.peers import (
    BROKEN,
    Inbound,
    Inbox,
    Link,
    close_stream,
    identity_of,
    next_frame,
)

_REMEMBERED: Final = 65_536
"""How many answers that nobody waited for are kept for when the same cells are sent again."""
_SHUTDOWN: Final = 2.0
_Answers = dict[bytes, Reason | None]
"""For identifiers of cells: none, or why they were refused."""
_T = TypeVar("_T")


class Directory(Protocol):
    """Where parties say how to reach them."""

    async def announce(self, endpoint: str) -> None:
        """Say that this party listens at ``host:port``; ``Unreachable`` if that cannot be said."""

    async def find(self, number: int, *, fresh: bool) -> str | None:
        """Where that party listens, if it said; ``fresh`` asks anew instead of remembering."""


class EndpointBook:
    """Everybody's endpoints in one survey, as the hub lists them.

    All parties of a process share it, and it asks the hub no more often than ``least`` seconds: at
    the start of a survey everybody looks for everybody at once.
    """

    def __init__(self, client: HubClient, survey: bytes, *, least: float = 0.3) -> None:
        self.known: dict[str, str] = {}
        self._client = client
        self._survey = survey
        self._least = least
        self._asking = asyncio.Lock()
        self._asked = -math.inf

    async def renew(self) -> None:
        """Ask the hub, unless somebody has just done so."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now < self._asked + self._least:
                return
            try:
                self.known = await self._client.endpoints(self._survey)
            except (HubUnreachable, HubRefused) as error:
                raise Unreachable(str(error)) from error
            self._asked = asyncio.get_running_loop().time()


class HubDirectory:
    """The directory that the hub keeps for a survey."""

    def __init__(
        self,
        client: HubClient,
        connection: Connection,
        survey: bytes,
        book: EndpointBook | None = None,
    ) -> None:
        self._client = client
        self._connection = connection
        self._survey = survey
        self._book = book or EndpointBook(client, survey)

    async def announce(self, endpoint: str) -> None:
        """Tell the hub."""
        await self._connection.open()
        reason = await self._connection.announce(self._survey, endpoint)
        if reason is not None:
            raise HubRefused(
                f"the hub at {self._client.url} does not list {endpoint} as this party's "
                f"endpoint ({reason}): check that it takes part in the survey"
            )

    async def find(self, number: int, *, fresh: bool) -> str | None:
        """Ask the hub for everybody's endpoints, unless this one is remembered."""
        party = address(number)
        if fresh or party not in self._book.known:
            await self._book.renew()
        return self._book.known.get(party)


def mutual_contexts(keys: Path, authority: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for being called and for calling, both ways with certificates of the authority.

    Host names are not compared: a party is known by its key, wherever it is.
    """
    calling = client_context(authority, keys)
    calling.check_hostname = False
    return server_context(keys, clients=authority), calling


class _NotAllowed(Exception):
    """The endpoint is at an address that this party does not connect to."""


class _SomeoneElse(Exception):
    """The endpoint is not the party's, or not any more."""


def _certificate(writer: asyncio.StreamWriter) -> x509.Certificate:
    """What the other side showed in the TLS handshake."""
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    try:
        return x509.load_der_x509_certificate(shown)
    except (ValueError, TypeError) as error:
        raise ConnectionError("the peer shows no certificate that can be read") from error


class DirectTransport(Transport):
    """One party of one survey that talks to the others without anyone between them."""

    shared: ClassVar[bool] = False

    def __init__(
        self,
        survey: bytes,
        number: int,
        identities: Mapping[int, bytes],
        authority: x509.Certificate,
        contexts: tuple[ssl.SSLContext, ssl.SSLContext],
        directory: Directory,
        *,
        dial: Callable[[str], bool],
        host: str = "127.0.0.1",
        port: int = 0,
        advertise: str | None = None,
        revoked: Callable[[], Collection[int]] = frozenset,
        room: int = 65_536,
        share: int = 24_576,
        most: int = 256,
        idle: float = 60.0,
        patience: float = 60.0,
        supervisor: Supervisor | None = None,
    ) -> None:
        """``identities`` are the parties' public keys by their numbers in cells.

        ``contexts`` are those of :func:`mutual_contexts`, and ``revoked`` gives the serial numbers
        of certificates that no longer count. ``dial`` says whether an address may be connected to.
        The party listens on ``host`` and ``port`` and
        announces itself as ``advertise``, by default that host. It holds at most ``room`` cells
        that are not taken yet, ``share`` of them from one peer, which is more than the largest
        message has; it keeps at most ``most`` connections each way, and none that is unused for
        ``idle`` seconds. An answer may take ``patience`` seconds.
        """
        self._survey, self._number = survey, number
        self._identities = identities
        self._authority = authority
        self._called, self._calling = contexts
        self._directory = directory
        self._may_dial = dial
        self._host, self._port = host, port
        self._advertise = advertise or host
        self._revoked = revoked
        self._most, self._idle, self._patience = most, idle, patience
        self._server: asyncio.Server | None = None
        self._inbox = Inbox(room, share)
        self._inbound: OrderedDict[bytes, Inbound] = OrderedDict()
        self._links: OrderedDict[int, Link] = OrderedDict()
        self._dialing: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._freed = asyncio.Event()
        self._supervisor = supervisor or Supervisor()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._under_way: dict[bytes, asyncio.Task[_Answers]] = {}
        self._answered: OrderedDict[bytes, Reason | None] = OrderedDict()

    @property
    def port(self) -> int:
        """Where this party listens, once it is open."""
        return self._port

    @property
    def connections(self) -> int:
        """How many connections there are, both ways."""
        return len(self._links) + len(self._inbound)

    async def open(self) -> None:
        """Listen, and say where."""
        try:
            if self._server is None:
                self._server = await asyncio.start_server(
                    self._accept,
                    self._host,
                    self._port,
                    ssl=self._called,
                    ssl_handshake_timeout=self._patience,
                    ssl_shutdown_timeout=_SHUTDOWN,
                )
                self._port = self._server.sockets[0].getsockname()[1]
        except OSError as error:
            raise Unreachable(f"cannot listen on {self._host}:{self._port}: {error}") from error
        await self._directory.announce(f"{self._advertise}:{self._port}")

    async def send(self, cells: Sequence[bytes]) -> list[Reason | None]:
        """Hand every cell to its recipient, to all recipients at the same time.

        The first failure ends the wait, because what waits may wait for what failed. The rest stays
        under way, and when the same cells are sent again their answers count.
        """
        refused: dict[int, Reason] = {}
        known: dict[bytes, Reason | None] = {}
        fresh: dict[int, dict[bytes, bytes]] = {}
        waiting: set[asyncio.Task[_Answers]] = set()
        for place, cell in enumerate(cells):
            try:
                recipient = self._check_own(cell)
            except Rejected as error:
                refused[place] = error.reason
                continue
            name = cell_id(cell)
            if name in self._answered:
                known[name] = self._answered[name]
            elif name in self._under_way:
                waiting.add(self._under_way[name])
            else:
                fresh.setdefault(recipient, {})[name] = cell
        for recipient, named in fresh.items():
            for start in range(0, len(named), frames.MOST_CELLS):
                batch = dict(itertools.islice(named.items(), start, start + frames.MOST_CELLS))
                waiting.add(self._begin(recipient, batch))
        if waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                if task.cancelled():
                    raise Unreachable("this party is closed")
                known |= task.result()
        for name in known:
            self._answered.pop(name, None)
        return [
            refused[place] if place in refused else known[cell_id(cell)]
            for place, cell in enumerate(cells)
        ]

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """What peers hand to this party."""
        while (held := await self._inbox.queue.get()) is not None:
            for each in held:
                each.queued = False
            yield Delivery([(each.token, each.cell) for each in held])

    async def took(self, tokens: Sequence[int]) -> None:
        """Answer the senders."""
        for token in tokens:
            self._inbox.take(token)

    async def close(self) -> None:
        """Stop listening and end all connections; senders keep what was not taken."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if server is not None:
            await server.wait_closed()
        self._inbox.queue.put_nowait(None)

    def _check_own(self, cell: bytes) -> int:
        """Whom a cell of this party is for."""
        header = Header.parse(cell)
        if header.survey != self._survey:
            raise Rejected(Reason.foreign)
        if header.sender != self._number:
            raise Rejected(Reason.forged)
        if header.recipient not in self._identities:
            raise Rejected(Reason.unknown)
        return header.recipient

    def _check_arrived(self, inbound: Inbound, cell: bytes) -> None:
        """Refuse what this peer may not send, or not to this party."""
        header = Header.parse(cell)
        if header.survey != self._survey or header.recipient != self._number:
            raise Rejected(Reason.foreign)
        if header.sender not in self._identities:
            raise Rejected(Reason.unknown)
        if self._identities[header.sender] != inbound.identity:
            raise Rejected(Reason.forged)
        if inbound.serial in self._revoked():
            raise Rejected(Reason.revoked)

    def _begin(self, to: int, named: Mapping[bytes, bytes]) -> asyncio.Task[_Answers]:
        """Have cells carried to a peer, whoever waits for it."""
        task = self._spawn(self._carry(to, named))
        self._under_way.update(dict.fromkeys(named, task))
        task.add_done_callback(lambda _: [self._under_way.pop(name) for name in named])
        return task

    async def _carry(self, to: int, named: Mapping[bytes, bytes]) -> _Answers:
        try:
            async with asyncio.timeout(self._patience):
                link = await self._link(to)
                reasons = dict(await link.put(self._survey, list(named.values())))
        except TimeoutError as error:
            raise Unreachable(f"{address(to)} took too long to answer") from error
        except Rejected as error:
            # The peer is who it should be, and may not take part any more.
            reasons = dict.fromkeys(range(len(named)), error.reason)
        finally:
            self._freed.set()
        answers = {name: reasons.get(place) for place, name in enumerate(named)}
        self._answered |= answers
        while len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return answers

    async def _link(self, to: int) -> Link:
        """The connection to a peer, made anew if there is none."""
        if self._server is None:
            raise Unreachable("this party is not open")
        async with self._dialing[to]:
            link = self._links.get(to)
            if link is None or link.writer.is_closing():
                await self._make_room()
                link = await self._dial(to)
                self._links[to] = link
                self._spawn(self._follow(to, link))
            self._links.move_to_end(to)
            return link

    async def _follow(self, to: int, link: Link) -> None:
        try:
            await link.read(self._idle, self._patience)
        finally:
            if self._links.get(to) is link:
                del self._links[to]
            self._freed.set()

    async def _make_room(self) -> None:
        """Close the connection that was unused for longest, or wait until one is unused."""
        while len(self._links) >= self._most:
            unused = next((to for to, link in self._links.items() if not link.pending), None)
            if unused is None:
                self._freed.clear()
                await self._freed.wait()
                continue
            await close_stream(self._links.pop(unused).writer)

    async def _dial(self, to: int) -> Link:
        tried = None
        failure: Exception | None = None
        for fresh in (False, True):
            endpoint = await self._directory.find(to, fresh=fresh)
            if endpoint is None or endpoint == tried:
                continue
            tried = endpoint
            try:
                return await self._connect(to, endpoint)
            except (OSError, EOFError, ValueError, _NotAllowed, _SomeoneElse) as error:
                failure = error
        raise Unreachable(f"{address(to)} cannot be reached at {tried}: {failure!r}") from failure

    async def _connect(self, to: int, endpoint: str) -> Link:
        host, _, port = endpoint.rpartition(":")
        reader, writer = await asyncio.open_connection(
            await self._allowed(host.strip("[]"), int(port)),
            int(port),
            ssl=self._calling,
            ssl_handshake_timeout=self._patience,
            ssl_shutdown_timeout=_SHUTDOWN,
        )
        try:
            certificate = _certificate(writer)
            if identity_of(certificate) != self._identities[to]:
                raise _SomeoneElse(f"someone else listens at {endpoint}")
            self._check_certificate(certificate)
        except BaseException:
            await close_stream(writer)
            raise
        return Link(reader, writer)

    async def _allowed(self, host: str, port: int) -> str:
        """An address of this host that may be dialled."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, address_ in found:
            if self._may_dial(str(address_[0])):
                return str(address_[0])
        raise _NotAllowed("its address is not one that may be dialled")

    def _check_certificate(self, certificate: x509.Certificate) -> None:
        """Refuse what the authority did not certify, or has withdrawn."""
        check_certificate(certificate, self._authority, time.time(), self._revoked())

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take in what a peer sends until one of us is done."""
        inbound: Inbound | None = None
        try:
            certificate = _certificate(writer)
            self._check_certificate(certificate)
            inbound = self._admit(Inbound(certificate, writer))
            while True:
                frame = await next_frame(
                    reader, lambda: inbound.unanswered > 0, self._idle, self._patience
                )
                if frame is None:
                    return
                put = frames.decode_from_party(frame)
                if not isinstance(put, frames.Put):
                    return
                self._inbound.move_to_end(inbound.identity)
                self._inbox.add(inbound, put, lambda cell: self._check_arrived(inbound, cell))
                # A peer that does not read its answers is not read from either.
                async with asyncio.timeout(self._patience):
                    await writer.drain()
        except BROKEN:
            return
        finally:
            if inbound is not None and self._inbound.get(inbound.identity) is inbound:
                del self._inbound[inbound.identity]
            await close_stream(writer)

    def _admit(self, inbound: Inbound) -> Inbound:
        """One connection per peer, the latest; strangers and what is too many are refused."""
        if inbound.identity not in self._identities.values():
            raise Rejected(Reason.unknown)
        before = self._inbound.pop(inbound.identity, None)
        if before is None and len(self._inbound) >= self._most:
            before = next((each for each in self._inbound.values() if not each.unanswered), None)
            if before is None:
                raise Rejected(Reason.full)
            del self._inbound[before.identity]
        if before is not None:
            before.writer.transport.abort()
        self._inbound[inbound.identity] = inbound
        return inbound

    def _spawn(self, work: Coroutine[None, None, _T]) -> asyncio.Task[_T]:
        task = self._supervisor.job(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # A failure is the business of whoever waits, and there may be nobody.
            task.exception()
