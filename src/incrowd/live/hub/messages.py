"""The JSON of the control plane: what may be asked, what is answered, and how refusals look.

Signed and encoded things (key records, tasks, joins, starts, revocation lists) travel as base64 of
the very bytes that were signed; the hub reads them, but never writes them anew. Surveys are named
by the 32 hexadecimal digits of their id. Unknown fields are refused everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from incrowd.live.reasons import Reason, Rejected

State = Literal["offered", "started", "closed"]
SurveyHex = Annotated[
    str,
    msgspec.Meta(
        pattern="^[0-9a-f]{32}$", min_length=32, max_length=32, description="A survey's id."
    ),
]
_BASE64: Final = (
    "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$"
)
Bytes = Annotated[bytes, msgspec.Meta(extra_json_schema={"pattern": _BASE64})]
Count = Annotated[int, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

_NOT_NOW: Final = "the hub cannot do this now"
_OTHER: Final = ("absent", "conflict", "method", "unavailable")
_WHY: Final = [*(str(reason) for reason in Reason), *_OTHER]


class _Json(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Nothing(_Json, frozen=True):
    """No parameters."""


class Problem(_Json, frozen=True):
    """Why a request was refused, and what to do about it."""

    error: str
    reason: Annotated[str, msgspec.Meta(extra_json_schema={"enum": _WHY})]
    how: str


class Status(_Json, frozen=True):
    """Whether the hub is well."""

    ok: bool


class Enrolment(_Json, frozen=True):
    """An encoded key record, to be enrolled or to replace one with a smaller serial."""

    record: Bytes


class Enrolled(_Json, frozen=True):
    """The record is what the registry holds for this name now."""

    name: str


class KeyPath(_Json, frozen=True):
    """Whose record."""

    name: Name


class KeysQuery(_Json, frozen=True):
    """Which part of the registry."""

    after: Annotated[
        str, msgspec.Meta(max_length=200, description="Only names behind this one.")
    ] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000, description="How many at most.")] = 1000


class Key(_Json, frozen=True):
    """One enrolled key record."""

    record: Bytes


class Keys(_Json, frozen=True):
    """Enrolled key records in the order of their names; ``after`` asks for the next ones."""

    records: list[Bytes]
    after: str | None


class Revocations(_Json, frozen=True):
    """A certificate revocation list (PEM) signed by the authority."""

    crl: Bytes


class RevocationsHeld(_Json, frozen=True):
    """The newest revocation list, if there ever was one."""

    crl: Bytes | None


class Offer(_Json, frozen=True):
    """A signed task with the files whose hashes it carries."""

    task: Bytes
    roster: Bytes
    graph: Bytes | None


class Offered(_Json, frozen=True):
    """The survey is offered to everyone on its roster."""

    survey: SurveyHex
    digest: Bytes


class SurveyPath(_Json, frozen=True):
    """Which survey."""

    survey: SurveyHex


class Line(_Json, frozen=True):
    """A survey in the list."""

    survey: SurveyHex
    state: State
    expires: float


class Surveys(_Json, frozen=True):
    """Every survey that this hub has not forgotten, the earliest to expire first."""

    surveys: list[Line]


class Survey(_Json, frozen=True):
    """A survey as its curator signed it, and how far it is."""

    task: Bytes
    state: State
    start: Bytes | None
    joins: Count


class Joins(_Json, frozen=True):
    """The joins of a survey in the order of its roster."""

    joins: list[Bytes]


class Starting(_Json, frozen=True):
    """A signed start."""

    start: Bytes


class Close(_Json, frozen=True):
    """A signed close."""

    close: Bytes


class StateNow(_Json, frozen=True):
    """How far the survey is."""

    state: State


class Progress(_Json, frozen=True):
    """Totals of a survey; nothing here is about a single person."""

    state: State
    people: Count
    joined: Count
    sent: Count
    waiting: Count
    delivered: Count
    expired: Count


class Span(_Json, frozen=True):
    """One connection, in seconds since 1970."""

    begin: float
    heard: float
    end: float | None


class Connected(_Json, frozen=True):
    """Connections of the devices of a survey that is closed, by address."""

    connections: dict[str, list[Span]]


class Endpoints(_Json, frozen=True):
    """Where parties can be reached directly, by address."""

    endpoints: dict[str, str]


STATUS_OF: Final[dict[Reason, int]] = {
    Reason.malformed: 422,
    Reason.oversized: 413,
    Reason.version: 422,
    Reason.foreign: 409,
    Reason.expired: 409,
    Reason.unknown: 403,
    Reason.revoked: 403,
    Reason.forged: 403,
    Reason.replayed: 409,
    Reason.flooding: 429,
    Reason.full: 429,
    Reason.busy: 503,
    Reason.unproven: 422,
    Reason.equivocal: 409,
}
_HOW: Final[dict[Reason, str]] = {
    Reason.malformed: "send what the description at /openapi.json asks for",
    Reason.oversized: "send less at a time",
    Reason.version: "use the same version of incrowd on both sides",
    Reason.foreign: "check that it was made for this survey",
    Reason.expired: "check the clocks and make it anew",
    Reason.unknown: "enrol the key first, with a certificate of the hub's authority",
    Reason.revoked: "ask the authority for a new certificate",
    Reason.forged: "sign it with the key that it names",
    Reason.replayed: "nothing needs to be done: it was taken in before",
    Reason.flooding: "wait, then send more slowly",
    Reason.full: "wait until the recipient has taken its mail",
    Reason.busy: "try again soon with the same bytes",
    Reason.unproven: "state only what can be recomputed",
    Reason.equivocal: "show everyone the same",
}


class Refused(Exception):
    """A request cannot be met, for a reason that is not about bytes from elsewhere."""

    def __init__(self, status: int, problem: Problem) -> None:
        super().__init__(problem.error)
        self.status = status
        self.problem = problem


def absent(what: str) -> Refused:
    """There is no such thing."""
    return Refused(404, Problem(error=f"there is no such {what}", reason="absent", how="check it"))


def conflict(error: str, how: str) -> Refused:
    """It contradicts what is held already."""
    return Refused(409, Problem(error=error, reason="conflict", how=how))


def unavailable(failing: Sequence[str] = ()) -> Refused:
    """The hub cannot do it now, on account of these of its parts."""
    how = "try again soon; the hub's log says more"
    error = f"the hub is not ready: {', '.join(failing)}" if failing else _NOT_NOW
    return Refused(503, Problem(error=error, reason="unavailable", how=how))


def problem_of(error: Rejected) -> tuple[int, Problem]:
    """The answer to something that was rejected."""
    reason = error.reason
    text = f"refused as {reason}" + (f": {error.detail}" if error.detail else "")
    return STATUS_OF[reason], Problem(error=text, reason=str(reason), how=_HOW[reason])
