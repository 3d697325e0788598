"""A party's side of the hub: requests over HTTP, and one WebSocket for cells.

:class:`HubClient` asks the control plane: keys, surveys, joins, starts. Nothing that it returns is
checked beyond its form; whoever uses it verifies signatures and hashes.

:class:`Connection` is the WebSocket of one party, for all its surveys. It proves who is calling,
keeps listening to what it was told to listen to, and comes back by itself after growing pauses,
with some chance in them, so that a thousand parties do not return to a restarted hub in the same
moment. Whatever waits for an answer when the connection breaks fails as ``Unreachable``: the sender
cannot know, and asks again. What the hub had delivered and nobody took is delivered anew.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import ssl
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from incrowd.errors import HubRefused, HubUnreachable, InvalidParameter
from incrowd.live import frames
from incrowd.live.hub import messages
from incrowd.live.keys import KeyRecord
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.supervisor import Service, Supervisor
from incrowd.live.task import ROSTER_LIMIT
from incrowd.live.transports.base import Unreachable
from incrowd.protocols.runtime.delivery import Backoff

_JSON_LIMIT: Final = 64 << 20
_KNOWN_AT_ONCE: Final = 1000
_MOST_KEYS: Final = 1 << 20
"""A hub that goes round in circles is not followed for ever."""
_PERIOD: Final = 15.0  # seconds between the heartbeats of an idle connection
_POLICY: Final = 1008
"""With this code the hub closes on whom it does not want."""
_T = TypeVar("_T")

Listener = Callable[[frames.Mail | None], None]
"""Called with what arrives, and with none when the connection broke: it will all come again."""


class HubClient:
    """The control plane of one hub, over pooled connections."""

    def __init__(
        self, url: str, tls: ssl.SSLContext | None = None, *, patience: float = 30.0
    ) -> None:
        """``tls`` trusts the hub's authority; it is needed unless the hub is on plain HTTP."""
        self.url = _base(url, tls)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            verify=tls if tls is not None else True,
            timeout=patience,
            limits=httpx.Limits(max_connections=16, max_keepalive_connections=4),
            # Where messages go is not for variables of the environment to say.
            trust_env=False,
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def ready(self) -> None:
        """Return if the hub can store things now."""
        await self._get("/readyz", messages.Status)

    async def enrol(self, record: KeyRecord) -> None:
        """Register a key record, or replace one with a smaller serial."""
        body = messages.Enrolment(record=record.encode())
        await self._post("/v1/keys", body, messages.Enrolled)

    async def key(self, name: str) -> KeyRecord:
        """The record of this name."""
        found = await self._get(f"/v1/keys/{quote(name, safe='')}", messages.Key)
        return KeyRecord.decode(found.record)

    async def keys(self) -> list[KeyRecord]:
        """Every enrolled record in the order of the names."""
        records: list[KeyRecord] = []
        after: str | None = ""
        while after is not None:
            query = {"after": after, "limit": str(_KNOWN_AT_ONCE)}
            page = await self._get("/v1/keys", messages.Keys, query)
            records.extend(map(KeyRecord.decode, page.records))
            after = page.after if page.records else None
            if len(records) > _MOST_KEYS:
                raise HubRefused(
                    f"the hub at {self.url} lists more than {_MOST_KEYS} keys: "
                    "ask for the keys that are needed by their names"
                )
        return records

    async def revoke(self, crl: bytes) -> None:
        """Publish a newer revocation list of the authority."""
        body = messages.Revocations(crl=crl)
        await self._post("/v1/revocations", body, messages.RevocationsHeld)

    async def revocations(self) -> bytes | None:
        """The newest revocation list, if there is one."""
        return (await self._get("/v1/revocations", messages.RevocationsHeld)).crl

    async def offer(self, task: bytes, roster: bytes, graph: bytes | None) -> messages.Offered:
        """Offer a signed task, with the files that it commits to."""
        body = messages.Offer(task=task, roster=roster, graph=graph)
        return await self._post("/v1/surveys", body, messages.Offered)

    async def surveys(self) -> messages.Surveys:
        """The surveys that the hub holds."""
        return await self._get("/v1/surveys", messages.Surveys)

    async def survey(self, survey: bytes) -> messages.Survey:
        """A survey as its curator signed it, and how far it is."""
        return await self._get(_path(survey), messages.Survey)

    async def roster(self, survey: bytes) -> bytes:
        """The encoded roster, to be checked against the task's hash."""
        return await self._request("GET", _path(survey, "roster"), limit=ROSTER_LIMIT)

    async def graph(self, survey: bytes) -> bytes:
        """The encoded graph, to be checked against the task's hash."""
        return await self._request("GET", _path(survey, "graph"), limit=ROSTER_LIMIT)

    async def joins(self, survey: bytes) -> list[bytes]:
        """The encoded joins so far, in the order of the roster."""
        return (await self._get(_path(survey, "joins"), messages.Joins, limit=ROSTER_LIMIT)).joins

    async def start(self, survey: bytes, start: bytes) -> None:
        """Publish a signed start."""
        await self._post(_path(survey, "start"), messages.Starting(start=start), messages.StateNow)

    async def finish(self, survey: bytes, close: bytes) -> None:
        """Publish a signed close."""
        await self._post(_path(survey, "close"), messages.Close(close=close), messages.StateNow)

    async def connections(self, survey: bytes, close: bytes) -> dict[str, list[messages.Span]]:
        """Connections of the devices of a survey that is closed, for the curator who closed it."""
        body = messages.Close(close=close)
        found = await self._post(_path(survey, "connections"), body, messages.Connected)
        return found.connections

    async def progress(self, survey: bytes) -> messages.Progress:
        """Totals of a survey."""
        return await self._get(_path(survey, "progress"), messages.Progress)

    async def endpoints(self, survey: bytes) -> dict[str, str]:
        """Where parties can be reached directly, by address."""
        return (await self._get(_path(survey, "endpoints"), messages.Endpoints)).endpoints

    async def _get(
        self,
        path: str,
        kind: type[_T],
        query: dict[str, str] | None = None,
        limit: int = _JSON_LIMIT,
    ) -> _T:
        return self._decode(await self._request("GET", path, query=query, limit=limit), kind)

    async def _post(self, path: str, body: msgspec.Struct, kind: type[_T]) -> _T:
        answer = await self._request("POST", path, body=msgspec.json.encode(body))
        return self._decode(answer, kind)

    def _decode(self, answer: bytes, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(answer, type=kind)
        except ValueError as error:
            raise HubRefused(
                f"the hub at {self.url} gave an answer of another form ({error}): "
                "use the same version of incrowd on both sides"
            ) from error

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        limit: int = _JSON_LIMIT,
    ) -> bytes:
        headers = {"content-type": "application/json"} if body is not None else None
        try:
            async with self._http.stream(
                method, path, params=query, content=body, headers=headers
            ) as response:
                answer = bytearray()
                async for chunk in response.aiter_bytes():
                    answer += chunk
                    if len(answer) > limit:
                        raise HubRefused(
                            f"the hub at {self.url} answers {method} {path} with more than "
                            f"{limit} bytes: check that the address is a hub's"
                        )
        except (httpx.TransportError, ssl.SSLError) as error:
            raise HubUnreachable(_no_answer(self.url, error)) from error
        if response.is_success:
            return bytes(answer)
        why = _problem(bytes(answer))
        if response.status_code >= 500:
            raise HubUnreachable(
                f"the hub at {self.url} cannot do {method} {path} now "
                f"({response.status_code}): {why}"
            )
        raise HubRefused(
            f"the hub at {self.url} refused {method} {path} ({response.status_code}): {why}"
        )


class Connection:
    """The WebSocket of one party; it comes back by itself until it is closed."""

    def __init__(
        self,
        url: str,
        identity: Ed25519PrivateKey,
        tls: ssl.SSLContext | None = None,
        *,
        news: Callable[[frames.News], None] | None = None,
        backoff: Backoff | None = None,
        patience: float = 30.0,
        rng: random.Random | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """``patience`` is how many seconds an answer may take; ``rng`` jitters the pauses."""
        self.url = _base(url, tls)
        self._cells = f"ws{self.url.removeprefix('http')}/v1/cells"
        self._identity = identity
        self._tls = tls
        self._news = news
        self._backoff = backoff or Backoff(first=0.5, factor=2.0, cap=5.0)
        self._patience = patience
        self._rng = rng or random.SystemRandom()
        self._socket: ClientConnection | None = None
        self._supervisor = supervisor or Supervisor()
        self._reader: Service | None = None
        self._opening = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._pending: dict[int, asyncio.Future[frames.Stored | None]] = {}
        self._listeners: dict[bytes, Listener] = {}

    @property
    def connected(self) -> bool:
        """Whether the hub can be talked to right now."""
        return self._socket is not None

    async def open(self) -> None:
        """Connect for the first time; later calls only say whether the hub can be reached now."""
        async with self._opening:
            if self._reader is None:
                await self._connect()
                self._reader = self._supervisor.service("connection", self._run, period=_PERIOD)
        if not self.connected:
            raise Unreachable(f"the connection to the hub at {self.url} is broken")

    async def close(self) -> None:
        """End the connection for good."""
        async with self._opening:
            reader, self._reader = self._reader, None
            if reader is not None:
                await reader.stop()
            socket = self._socket
            self._lost()
            if socket is not None:
                await socket.close()

    async def put(self, survey: bytes, cells: Sequence[bytes]) -> list[tuple[int, Reason]]:
        """Store at most ``MOST_CELLS`` cells at the hub; which were refused, and why."""
        return await self._ask(lambda number: frames.Put(number, survey, list(cells)))

    async def join(self, survey: bytes, join: bytes) -> Reason | None:
        """Take part in a survey; none, or why not."""
        return _only(await self._ask(lambda number: frames.Join(number, survey, join)))

    async def announce(self, survey: bytes, endpoint: str) -> Reason | None:
        """Say where this party can be reached directly; none, or why the hub does not want it."""
        return _only(await self._ask(lambda number: frames.Announce(number, survey, endpoint)))

    async def listen(self, survey: bytes, listener: Listener) -> None:
        """Deliver this survey's mail to ``listener``, also after every return to the hub."""
        self._listeners[survey] = listener
        await self._say(frames.Listen(survey))

    def ignore(self, survey: bytes) -> None:
        """Deliver no more of this survey; what is not taken stays at the hub."""
        self._listeners.pop(survey, None)

    async def took(self, survey: bytes, places: Sequence[int]) -> None:
        """Let the hub forget these cells; if it cannot hear that now, they come again."""
        most = 16 * frames.MOST_CELLS
        for start in range(0, len(places), most):
            try:
                await self._say(frames.Took(survey, list(places[start : start + most])))
            except Unreachable:
                return

    async def _connect(self) -> ClientConnection:
        """A socket on which the hub knows who is calling, listening as before."""
        socket: ClientConnection | None = None
        try:
            async with asyncio.timeout(self._patience):
                socket = await connect(
                    self._cells,
                    ssl=self._tls,
                    proxy=None,
                    compression=None,
                    user_agent_header=None,
                    open_timeout=None,
                    ping_interval=self._patience / 2,
                    ping_timeout=self._patience,
                    close_timeout=min(5.0, self._patience),
                    max_size=frames.FRAME_LIMIT,
                    max_queue=4,
                )
                await self._greet(socket)
        except (OSError, WebSocketException, Rejected) as error:
            await _abort(socket)
            raise self._explained(error) from error
        except BaseException:
            await _abort(socket)
            raise
        self._socket = socket
        return socket

    async def _greet(self, socket: ClientConnection) -> None:
        challenge = frames.decode_from_hub(await socket.recv(decode=False))
        if not isinstance(challenge, frames.Challenge):
            raise Rejected(Reason.malformed, "the hub does not begin with a challenge")
        signature = self._identity.sign(frames.hello_bytes(challenge.nonce))
        public = self._identity.public_key().public_bytes_raw()
        await socket.send(frames.encode(frames.Hello(public, signature)))
        welcome = frames.decode_from_hub(await socket.recv(decode=False))
        if not isinstance(welcome, frames.Welcome):
            raise Rejected(Reason.malformed, "the hub does not welcome")
        # A survey may end meanwhile.
        for survey in list(self._listeners):
            await socket.send(frames.encode(frames.Listen(survey)))

    def _explained(self, error: Exception) -> Exception:
        """What a failure to connect means: come back later, or something must change first."""
        closed = error.rcvd if isinstance(error, ConnectionClosed) else None
        # Expired means that the greeting took too long, which another time it may not.
        if closed is not None and closed.code == _POLICY and closed.reason != Reason.expired:
            return HubRefused(
                f"the hub at {self.url} does not let this party in "
                f"({closed.reason or 'no reason given'}): enrol its key, or ask for a new one"
            )
        if isinstance(error, InvalidStatus) and 400 <= error.response.status_code < 500:
            return HubRefused(
                f"the hub at {self.url} answers /v1/cells with status "
                f"{error.response.status_code}: check that the address is a hub's"
            )
        return Unreachable(_no_answer(self.url, error))

    async def _run(self, pulse: Service) -> None:
        """Read until the connection breaks, return to the hub, and so on until cancelled."""
        attempts = 0
        while True:
            try:
                socket = self._socket or await self._connect()
                if await self._read(socket, pulse):
                    attempts = 0
                pulse.wait(Unreachable(f"the connection to the hub at {self.url} broke"))
            except (Unreachable, HubRefused) as error:
                pulse.wait(error)
            except Exception:
                await self._hang_up()
                raise
            await self._hang_up()
            attempts += 1
            await asyncio.sleep(self._backoff.pause(attempts) * self._rng.uniform(0.5, 1.0))

    async def _read(self, socket: ClientConnection, pulse: Service) -> bool:
        """Hand on what arrives until the connection breaks; whether anything did."""
        some = False
        try:
            while True:
                pulse.beat()
                try:
                    # Cancelling this loses nothing.
                    async with asyncio.timeout(_PERIOD):
                        frame = await socket.recv(decode=False)
                except TimeoutError:
                    continue
                self._handle(frames.decode_from_hub(frame))
                some = True
        except (ConnectionClosed, OSError, Rejected):
            return some

    async def _hang_up(self) -> None:
        socket = self._socket
        if socket is not None:  # a failed return to the hub loses nothing that was there
            self._lost()
            await _abort(socket)

    def _handle(self, frame: frames.FromHub) -> None:
        if isinstance(frame, frames.Stored):
            future = self._pending.get(frame.number)
            if future is not None and not future.done():
                future.set_result(frame)
        elif isinstance(frame, frames.Mail):
            listener = self._listeners.get(frame.survey)
            if listener is not None:
                listener(frame)
        elif isinstance(frame, frames.News):
            if self._news is not None:
                self._news(frame)
        else:
            raise Rejected(Reason.malformed, "the hub greets twice")

    def _lost(self) -> None:
        self._socket = None
        for future in self._pending.values():
            if not future.done():
                future.set_result(None)
        for listener in self._listeners.values():
            listener(None)

    async def _ask(self, question: Callable[[int], frames.FromParty]) -> list[tuple[int, Reason]]:
        number = next(self._numbers)
        future: asyncio.Future[frames.Stored | None] = asyncio.get_running_loop().create_future()
        self._pending[number] = future
        try:
            async with asyncio.timeout(self._patience):
                await self._say(question(number))
                stored = await future
        except TimeoutError as error:
            raise Unreachable(f"the hub at {self.url} took too long to answer") from error
        finally:
            del self._pending[number]
        if stored is None:
            raise Unreachable(f"the connection to the hub at {self.url} broke")
        return stored.rejected

    async def _say(self, frame: frames.FromParty) -> None:
        socket = self._socket
        if socket is None:
            raise Unreachable(f"the connection to the hub at {self.url} is broken")
        try:
            await socket.send(frames.encode(frame))
        except (ConnectionClosed, OSError) as error:
            raise Unreachable(_no_answer(self.url, error)) from error


async def _abort(socket: ClientConnection | None) -> None:
    if socket is not None:
        socket.transport.abort()
        await socket.wait_closed()


def _base(url: str, tls: ssl.SSLContext | None) -> str:
    if not url.startswith(("http://", "https://")):
        raise InvalidParameter(f"a hub's address begins with https://, got {url!r}")
    if url.startswith("http://") and tls is not None:
        raise InvalidParameter(f"TLS needs an address that begins with https://, got {url!r}")
    return url.rstrip("/")


def _path(survey: bytes, part: str = "") -> str:
    return f"/v1/surveys/{survey.hex()}" + (f"/{part}" if part else "")


def _problem(answer: bytes) -> str:
    """The hub's own words, if these are any."""
    try:
        problem = msgspec.json.decode(answer, type=messages.Problem)
    except ValueError:
        return "no reason given"
    return " ".join(f"{problem.error}: {problem.how}".split())[:500]


def _no_answer(url: str, error: BaseException) -> str:
    what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    if "CERTIFICATE_VERIFY_FAILED" in what:
        return (
            f"the hub at {url} is not certified by the authority that is trusted here ({what}): "
            "check --ca, and the --host for which its keys were made"
        )
    return f"the hub at {url} does not answer ({what}): check the address, and that the hub runs"


def _only(rejected: Sequence[tuple[int, Reason]]) -> Reason | None:
    if rejected and rejected[0][1] is Reason.busy:
        raise Unreachable("the hub's store cannot be written now")
    return rejected[0][1] if rejected else None
