"""The control plane: every operation of the hub besides moving cells.

Nothing here is secret and nothing is taken on trust. Whoever asks may read; what is written must be
signed by the party it concerns and certified by the authority, and is checked before it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from incrowd.live.hub import messages as m
from incrowd.live.hub.board import Survey
from incrowd.live.hub.metrics import CONTENT_TYPE
from incrowd.live.hub.web import BYTES, JSON, Call, Route, openapi
from incrowd.live.reasons import Reason, Rejected

if TYPE_CHECKING:
    from incrowd.live.hub.hub import Hub

_LARGE: Final = 1 << 27
"""The longest offer: more than a hundred thousand people."""
_LISTS: Final = 24 << 20
"""The longest revocation list in base64, and then some."""


async def _healthz(hub: Hub, call: Call) -> m.Status:
    del hub, call
    return m.Status(ok=True)


async def _readyz(hub: Hub, call: Call) -> m.Status:
    del call
    # From memory alone: a store that hangs must not keep this from being said.
    if failing := hub.failing():
        raise m.unavailable(failing)
    return m.Status(ok=True)


async def _metrics(hub: Hub, call: Call) -> str:
    del call
    return hub.metrics.render(hub.board.tally())


async def _openapi(hub: Hub, call: Call) -> bytes:
    del hub, call
    return msgspec.json.encode(openapi(ROUTES))


async def _enrol(hub: Hub, call: Call) -> m.Enrolled:
    name = await hub.registry.enrol(call.body.record)
    if name is None:
        raise m.conflict(
            "the registry holds another record for this name or key",
            "use a larger serial for a new sealing key, and a name that is free",
        )
    return m.Enrolled(name=name)


async def _keys(hub: Hub, call: Call) -> m.Keys:
    query: m.KeysQuery = call.query
    if not query.after.isprintable():
        raise Rejected(Reason.malformed, "names are printable")
    found = await hub.registry.listing(query.after, query.limit)
    after = found[-1][0] if len(found) == query.limit else None
    return m.Keys(records=[record for _, record in found], after=after)


async def _key(hub: Hub, call: Call) -> m.Key:
    record = await hub.registry.named(call.path.name)
    if record is None:
        raise m.absent("name")
    return m.Key(record=record)


async def _revoke(hub: Hub, call: Call) -> m.RevocationsHeld:
    if not await hub.revoke(call.body.crl):
        raise m.conflict("a newer revocation list is held", "send the newest one")
    return m.RevocationsHeld(crl=call.body.crl)


async def _revocations(hub: Hub, call: Call) -> m.RevocationsHeld:
    del call
    return m.RevocationsHeld(crl=await hub.registry.crl())


async def _offer(hub: Hub, call: Call) -> m.Offered:
    offer: m.Offer = call.body
    survey = await hub.offer(offer.task, offer.roster, offer.graph)
    return m.Offered(survey=survey.id.hex(), digest=survey.digest)


async def _surveys(hub: Hub, call: Call) -> m.Surveys:
    del call
    found = await hub.committer.do(lambda tables: tables.tasks())
    return m.Surveys(
        surveys=[
            m.Line(survey=line.survey.hex(), state=line.state, expires=line.expires)
            for line in found
        ]
    )


def _found(hub: Hub, call: Call) -> Survey:
    survey = hub.board.get(bytes.fromhex(call.path.survey))
    if survey is None:
        raise m.absent("survey")
    return survey


async def _survey(hub: Hub, call: Call) -> m.Survey:
    survey = _found(hub, call).id
    row, joins = await hub.committer.do(
        lambda tables: (tables.task(survey), len(tables.joins(survey)))
    )
    if row is None:
        raise m.absent("survey")
    return m.Survey(task=row.signed, state=row.state, start=row.start, joins=joins)


async def _roster(hub: Hub, call: Call) -> bytes:
    survey = _found(hub, call).id
    return await hub.committer.do(lambda tables: tables.blob(survey, "roster")) or b""


async def _graph(hub: Hub, call: Call) -> bytes:
    survey = _found(hub, call).id
    found = await hub.committer.do(lambda tables: tables.blob(survey, "graph"))
    if found is None:
        raise m.absent("graph: this survey needs none")
    return found


async def _joins(hub: Hub, call: Call) -> m.Joins:
    survey = _found(hub, call).id
    found = await hub.committer.do(lambda tables: tables.joins(survey))
    return m.Joins(joins=[join for _, join in found])


async def _start(hub: Hub, call: Call) -> m.StateNow:
    survey = _found(hub, call)
    await hub.start(survey, call.body.start)
    return m.StateNow(state=survey.state)


async def _close(hub: Hub, call: Call) -> m.StateNow:
    survey = _found(hub, call)
    await hub.finish(survey, call.body.close)
    return m.StateNow(state=survey.state)


async def _connections(hub: Hub, call: Call) -> m.Connected:
    found = await hub.connections(_found(hub, call), call.body.close)
    return m.Connected(connections=found)


async def _progress(hub: Hub, call: Call) -> m.Progress:
    survey = _found(hub, call)
    joined, counts = await hub.committer.do(
        lambda tables: (len(tables.joins(survey.id)), tables.counts(survey.id))
    )
    return m.Progress(
        state=survey.state, people=survey.spec.people, joined=joined, **counts._asdict()
    )


async def _endpoints(hub: Hub, call: Call) -> m.Endpoints:
    survey = _found(hub, call)
    found = await hub.committer.do(lambda tables: tables.endpoints(survey.id))
    return m.Endpoints(
        endpoints={
            address: endpoint
            for slot, endpoint in found.items()
            if (address := survey.address_of(slot)) is not None
        }
    )


_KEYS, _SURVEYS, _ONE = "/v1/keys", "/v1/surveys", "/v1/surveys/{survey}"
_SIGNED = (403, 409, 422)

ROUTES: Final = (
    Route("GET", "/healthz", "Whether the hub runs.", _healthz, m.Status),
    Route(
        "GET",
        "/readyz",
        "Whether the hub is ready, and what fails if not.",
        _readyz,
        m.Status,
    ),
    Route("GET", "/metrics", "Counters for Prometheus.", _metrics, CONTENT_TYPE),
    Route("GET", "/openapi.json", "This description.", _openapi, JSON),
    Route(
        "POST",
        _KEYS,
        "Enrol a key record, or replace it by one with a larger serial.",
        _enrol,
        m.Enrolled,
        m.Enrolment,
        problems=_SIGNED,
    ),
    Route(
        "GET",
        _KEYS,
        "Enrolled key records in the order of their names.",
        _keys,
        m.Keys,
        query=m.KeysQuery,
        problems=(422,),
    ),
    Route(
        "GET",
        _KEYS + "/{name}",
        "The key record under a name.",
        _key,
        m.Key,
        where=m.KeyPath,
        problems=(404,),
    ),
    Route(
        "POST",
        "/v1/revocations",
        "Put out everyone on a newer revocation list of the authority, at once.",
        _revoke,
        m.RevocationsHeld,
        m.Revocations,
        problems=_SIGNED,
        limit=_LISTS,
    ),
    Route("GET", "/v1/revocations", "The newest list.", _revocations, m.RevocationsHeld),
    Route(
        "POST",
        _SURVEYS,
        "Offer a survey to everyone on its roster.",
        _offer,
        m.Offered,
        m.Offer,
        problems=_SIGNED,
        limit=_LARGE,
    ),
    Route("GET", _SURVEYS, "Every survey, the earliest to expire first.", _surveys, m.Surveys),
    Route(
        "GET",
        _ONE,
        "A survey as its curator signed it, and how far it is.",
        _survey,
        m.Survey,
        where=m.SurveyPath,
        problems=(404,),
    ),
    Route(
        "GET",
        _ONE + "/roster",
        "The roster whose hash the task carries.",
        _roster,
        BYTES,
        where=m.SurveyPath,
        problems=(404,),
    ),
    Route(
        "GET",
        _ONE + "/graph",
        "The graph whose hash the task carries.",
        _graph,
        BYTES,
        where=m.SurveyPath,
        problems=(404,),
    ),
    Route(
        "GET",
        _ONE + "/joins",
        "The joins so far, in the order of the roster.",
        _joins,
        m.Joins,
        where=m.SurveyPath,
        problems=(404,),
    ),
    Route(
        "POST",
        _ONE + "/start",
        "Start a survey with those who joined.",
        _start,
        m.StateNow,
        m.Starting,
        m.SurveyPath,
        problems=(*_SIGNED, 404),
        limit=_LARGE,
    ),
    Route(
        "POST",
        _ONE + "/close",
        "Close a survey; there is no way back.",
        _close,
        m.StateNow,
        m.Close,
        m.SurveyPath,
        problems=(*_SIGNED, 404),
    ),
    Route(
        "POST",
        _ONE + "/connections",
        "From when to when the devices of a closed survey were connected, for its curator.",
        _connections,
        m.Connected,
        m.Close,
        m.SurveyPath,
        problems=(*_SIGNED, 404),
    ),
    Route(
        "GET",
        _ONE + "/progress",
        "Totals of a survey; nothing about a single person.",
        _progress,
        m.Progress,
        where=m.SurveyPath,
        problems=(404,),
    ),
    Route(
        "GET",
        _ONE + "/endpoints",
        "Where parties can be reached directly, by address.",
        _endpoints,
        m.Endpoints,
        where=m.SurveyPath,
        problems=(404,),
    ),
)
