"""A hub as a process: TLS, one line when it listens, and a stop that loses nothing.

On SIGTERM or SIGINT the server stops accepting, the hub finishes the commits under way and closes
its WebSockets with code 1001, and the process ends well. A kill loses nothing either: what was
answered is in the store, and what was not answered is sent again. On SIGHUP the hub takes up a
certificate that was renewed in its directory, for the connections to come.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from starlette.routing import BaseRoute
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from incrowd.errors import FileUnreadable, InvalidParameter, ServiceFailed
from incrowd.live.authority import load_authority_certificate, renew_keys, server_context
from incrowd.live.frames import FRAME_LIMIT
from incrowd.live.hub.app import Application
from incrowd.live.hub.events import log
from incrowd.live.hub.limits import Limits
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.store import open_store

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_GRACE_SECONDS: Final = 5
_FAREWELL_SECONDS: Final = 0.5
_BACKLOG: Final = 2048


class _Connection(WebSocketsSansIOProtocol):
    """A WebSocket that can also be shut down while its other end is saying goodbye."""

    def shutdown(self) -> None:
        """Close; a connection that is closing must not be told so again, which is an error."""
        if not self.close_sent and self.conn.state in (State.CLOSING, State.CLOSED):
            self.stop_keepalive()
            self.transport.close()
        else:
            super().shutdown()


class HubServer(uvicorn.Server):
    """A server that says when it listens, and drains the hub before it closes connections."""

    def __init__(self, application: Application, keys: Path, ready: Callable[[], None]) -> None:
        """``keys`` is the hub's directory; ``ready`` is called when connections are accepted."""
        context = server_context(keys)
        super().__init__(
            uvicorn.Config(
                application,
                ws=_Connection,
                ws_max_size=FRAME_LIMIT,
                # Sealed bytes do not compress, and compressing leaks what does.
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
                ssl_context_factory=lambda *_: context,
            )
        )
        self._application = application
        self._context = context
        self._keys = keys
        self._ready = ready
        self.failure: ServiceFailed | None = None
        """Why the hub had to stop, unless it was told to."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the hub and listen."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop: because of a signal, or because the hub has had too many faults."""
        self.failure = self._application.hub().supervisor.exhausted
        return await super().on_tick(counter) or self.failure is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, let the hub answer what it took, then close."""
        for server in self.servers:
            server.close()
        # What waits for a store that fails is not answered, and its senders keep it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await self._application.hub().drain()
        hurrying = self._application.hub().supervisor.job(self._hurry())
        try:
            await super().shutdown(sockets)
        finally:
            hurrying.cancel()

    async def _hurry(self) -> None:
        """Let go of callers that do not answer TLS's goodbye, such as idle ones."""
        while True:
            await asyncio.sleep(_FAREWELL_SECONDS)
            for connection in list(self.server_state.connections):
                if connection.transport.is_closing():
                    connection.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal and return; being asked to stop is no failure."""
        before = {each: signal.signal(each, self._asked_to_stop) for each in _SIGNALS}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._asked_to_renew)
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.should_exit = True

    def _asked_to_renew(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        try:
            renew_keys(self._context, self._keys)
            log("keys renewed")
        except (FileUnreadable, OSError):
            log("keys not renewed")


def run(
    keys: Path,
    authority: Path,
    store: str,
    host: str,
    port: int,
    ready: Callable[[str], None],
    limits: Limits | None = None,
    extra: Sequence[BaseRoute] = (),
) -> None:
    """Serve until a signal comes; ``ready`` is called with the hub's address when it listens."""
    certificate = load_authority_certificate(authority)
    mine = PrivateKeys.load(keys)
    if mine.role is not Role.hub:
        raise InvalidParameter(
            f"the keys in {keys} are those of a {mine.role}: make some with 'incrowd keys issue "
            "--role hub'"
        )
    with open_store(store) as opened, _listening(host, port) as listener:
        name, number = listener.getsockname()[:2]
        url = f"https://[{name}]:{number}" if ":" in name else f"https://{name}:{number}"
        application = Application(opened, certificate, limits, extra)
        server = HubServer(application, keys, lambda: ready(url))
        server.run([listener])
        if server.failure is not None:
            raise server.failure


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Naming the protocol matters: the event loop answers without delay only where it is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidParameter(
            f"cannot listen on {host} port {port} ({error.strerror}): choose another port, or 0 "
            "for any that is free"
        ) from error
    return listener
