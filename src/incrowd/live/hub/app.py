"""The ASGI application of a hub: the control plane's routes and the WebSocket for cells.

The hub is opened and closed with the application, inside the server's event loop, because group
commit belongs to one loop. The store is opened before and closed after by whoever runs the server.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from itertools import groupby
from operator import attrgetter

from cryptography import x509
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from incrowd.live.hub import connection
from incrowd.live.hub.hub import Hub
from incrowd.live.hub.limits import Limits
from incrowd.live.hub.metrics import OTHER, Metrics
from incrowd.live.hub.routes import ROUTES
from incrowd.live.hub.web import Endpoint, problem
from incrowd.live.store import Store

CELLS = "/v1/cells"
"""Where cells travel."""


class Application:
    """A hub behind ASGI; further routes can be served next to it."""

    def __init__(
        self,
        store: Store,
        authority: x509.Certificate,
        limits: Limits | None = None,
        extra: Sequence[BaseRoute] = (),
    ) -> None:
        self._store = store
        self._authority = authority
        self._limits = limits or Limits()
        self._metrics = Metrics(route.path for route in ROUTES)
        self._hub: Hub | None = None
        by_path = sorted(ROUTES, key=attrgetter("path"))
        paths = [
            Path(
                # A name may hold anything printable, also slashes.
                path.replace("{name}", "{name:path}"),
                Endpoint(self.hub, self._metrics, path, list(group)),
            )
            for path, group in groupby(by_path, attrgetter("path"))
        ]
        self._starlette = Starlette(
            routes=[*paths, *extra],
            exception_handlers={404: self._absent},
            lifespan=self._lifespan,
        )
        # A path is what it is; a redirect would only hide a mistake.
        self._starlette.router.redirect_slashes = False

    def hub(self) -> Hub:
        """The hub, while the application runs."""
        if self._hub is None:
            raise RuntimeError("the application has not started")
        return self._hub

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection or request."""
        if scope["type"] == "websocket" and scope["path"] == CELLS:
            # Straight to the hub: this is where all the traffic is.
            await self._cells(scope, receive, send)
        else:
            await self._starlette(scope, receive, send)

    async def _cells(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await connection.serve(self.hub(), receive, send)

    async def _absent(self, request: Request, error: Exception) -> Response:
        del request, error
        self._metrics.request(OTHER, 404)
        return problem(404, "absent", "there is no such path", "see /openapi.json")

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        del app
        self._hub = Hub(self._store, self._authority, self._limits, self._metrics)
        try:
            await self._hub.open()
            yield
        finally:
            await self._hub.close()
            self._hub = None
