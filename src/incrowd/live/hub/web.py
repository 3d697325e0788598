"""A table of routes becomes an ASGI application and its OpenAPI document.

A route says what it takes and gives as types, so what is documented is what is checked: both come
from the same line. Whatever a caller sends, the answer is what the route gives or a ``Problem``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from incrowd._version import __version__
from incrowd.live.hub.events import log
from incrowd.live.hub.messages import Nothing, Problem, Refused, problem_of, unavailable
from incrowd.live.hub.metrics import Metrics
from incrowd.live.reasons import Reason, Rejected

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
_SMALL: Final = 1 << 20
_ALWAYS: Final = (400, 503)
_MEANING: Final = {
    400: "The request is not what this description asks for.",
    403: "It is signed by nobody whom the authority vouches for, or not by whom it names.",
    404: "There is no such thing.",
    405: "The path has no such method.",
    409: "It contradicts what the hub holds, or comes too late.",
    413: "The body is too long.",
    422: "A part of it does not decode, or contradicts another part.",
    429: "Too much at a time.",
    503: "The hub cannot do this now.",
}


@dataclass(frozen=True)
class Call:
    """A request after its parts were checked against the types of its route."""

    path: Any
    query: Any
    body: Any


@dataclass(frozen=True)
class Route:
    """One operation: everything there is to know about it."""

    method: str
    path: str
    summary: str
    handler: Callable[[Any, Call], Awaitable[Any]]
    gives: type[msgspec.Struct] | str
    """A type answered in JSON, or a media type."""
    takes: type[msgspec.Struct] | None = None
    where: type[msgspec.Struct] = Nothing
    """The parameters in the path."""
    query: type[msgspec.Struct] = Nothing
    problems: tuple[int, ...] = ()
    limit: int = _SMALL
    """The longest body."""

    @property
    def statuses(self) -> tuple[int, ...]:
        """Every status of a refusal."""
        own = (*_ALWAYS, *self.problems, *((413,) if self.takes is not None else ()))
        return tuple(sorted(set(own)))


class Endpoint:
    """The ASGI application behind one path."""

    def __init__(
        self, context: Callable[[], Any], metrics: Metrics, path: str, routes: Sequence[Route]
    ) -> None:
        self._context = context
        self._metrics = metrics
        self._path = path
        self._routes = {route.method: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        route = self._routes.get(request.method)
        if route is None:
            response = problem(405, "method", "this path has no such method", "see /openapi.json")
            response.headers["Allow"] = ", ".join(sorted(self._routes))
        else:
            response = await self._answered(route, request)
        self._metrics.request(self._path, response.status_code)
        await response(scope, receive, send)

    async def _answered(self, route: Route, request: Request) -> Response:
        try:
            given = await route.handler(self._context(), await _call(route, request))
        except Rejected as error:
            status, body = problem_of(error)
            return _json(status, body)
        except Refused as error:
            return _json(error.status, error.problem)
        except Exception as error:
            # The store failed, or this program is wrong; either way the caller is told so.
            log("request failed", logging.ERROR, route=self._path, kind=type(error).__name__)
            refused = unavailable()
            return _json(refused.status, refused.problem)
        return (
            answer(given)
            if isinstance(route.gives, type)
            else Response(given, 200, None, route.gives)
        )


def answer(given: msgspec.Struct) -> Response:
    """Success, in JSON."""
    return _json(200, given)


def problem(status: int, reason: str, error: str, how: str) -> Response:
    """A refusal, in JSON."""
    return _json(status, Problem(error=error, reason=reason, how=how))


def _json(status: int, body: Any) -> Response:
    return Response(msgspec.json.encode(body), status, None, JSON)


async def _call(route: Route, request: Request) -> Call:
    body = await _body(request, route.limit)
    try:
        pairs = parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(request.scope["query_string"]),
            errors="strict",
            max_num_fields=16,
        )
        query = dict(pairs)
        if len(query) != len(pairs):
            raise ValueError("a parameter is given twice")
        return Call(
            msgspec.convert(request.path_params, route.where),
            msgspec.convert(query, route.query, strict=False),
            None if route.takes is None else msgspec.json.decode(body, type=route.takes),
        )
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors.
        text = str(error) if isinstance(error, msgspec.MsgspecError) else "not readable"
        why = Problem(
            error=f"the request is malformed: {text}",
            reason=str(Reason.malformed),
            how="send what the description at /openapi.json asks for",
        )
        raise Refused(400, why) from None


async def _body(request: Request, limit: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise Rejected(Reason.oversized)
        parts.append(part)
    return b"".join(parts)


def openapi(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these routes."""
    routes = list(routes)
    kinds: set[type[msgspec.Struct]] = {Problem}
    for route in routes:
        kinds |= {kind for kind in (route.takes, route.gives) if isinstance(kind, type)}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    _, components = msgspec.json.schema_components(
        ordered, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "incrowd hub",
            "version": __version__,
            "description": "A registry of keys, a notice board of signed surveys, and a mailbox "
            "of sealed cells. Cells travel over the WebSocket at /v1/cells.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route) -> dict[str, Any]:
    given = _content(route.gives)
    found: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{route.path.title().translate(_NO_MARKS)}",
        "responses": {
            "200": {"description": "Done.", "content": given},
            **{
                str(status): {"description": _MEANING[status], "content": _content(Problem)}
                for status in route.statuses
            },
        },
    }
    parameters = [*_parameters(route.where, "path"), *_parameters(route.query, "query")]
    if parameters:
        found["parameters"] = parameters
    if route.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(route.takes)}
    return found


_NO_MARKS = str.maketrans("", "", "/{}._")


def _content(kind: type[msgspec.Struct] | str) -> dict[str, Any]:
    if isinstance(kind, type):
        return {JSON: {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}}
    return {kind: {"schema": {} if kind == JSON else {"type": "string"}}}


def _parameters(kind: type[msgspec.Struct], place: str) -> Iterable[dict[str, Any]]:
    (schema,) = msgspec.json.schema(kind)["$defs"].values()
    for name, described in schema["properties"].items():
        yield {
            "name": name,
            "in": place,
            "required": name in schema["required"],
            "schema": described,
        }
