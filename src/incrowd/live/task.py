"""A survey as it is offered to devices: signed, hash-committed, and complete.

A curator signs a :class:`Spec`: what is asked, by which protocol, with which parameters and
randomizer, of whom and on which graph (both by hash), on which timetable, with which promise. Its
digest stands for all of that. A device that takes part signs the digest (:class:`Join`); a
:class:`Start` carries the joins and the time. So whoever holds a valid start holds the signatures
of a whole crowd under the very same roster, graph and parameters: nobody can be shown another one
than the others without a certified key of each of them.

The crowd of a run are those who joined, numbered anew from 0 in the order of the roster. Nothing
here trusts a hub: every function that reads raises ``Rejected`` for what is not what was signed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal, TypeVar, cast

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from incrowd.errors import IncrowdError, InvalidParameter
from incrowd.graphs.graph import Graph
from incrowd.live.keys import KeyRecord
from incrowd.live.reasons import Reason, Rejected
from incrowd.plugins import Registry
from incrowd.protocols import PROTOCOLS
from incrowd.protocols import load as load_protocol
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import bound_to, check_live, parts_of
from incrowd.protocols.joint import JointProtocol
from incrowd.protocols.joint.roles import MOST
from incrowd.protocols.registry import build, plugin_of
from incrowd.protocols.runtime.context import Timing
from incrowd.protocols.settings import fields_of, public_settings, settings_type
from incrowd.randomizers import OneOf
from incrowd.randomizers.registry import RANDOMIZERS
from incrowd.tasks.base import Asked, Task
from incrowd.tasks.joint import JointTask, OneOfTask
from incrowd.tasks.registry import TASKS

Digest = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
SurveyId = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]

SPEC_LIMIT: Final = 1 << 20
LONGEST: Final = 2000
"""Most characters of a question."""
MOST_WORDS: Final = 1 << 15
"""Most bytes of all questions together: a line of the ledger has room for them."""
Words = Annotated[str, msgspec.Meta(max_length=LONGEST)]
ROSTER_LIMIT: Final = 1 << 30
_TASK, _JOIN, _START = b"incrowd task 1\0", b"incrowd join 1\0", b"incrowd start 1\0"
_ROSTER, _GRAPH = b"incrowd roster 1\0", b"incrowd graph 1\0"

_T = TypeVar("_T")
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Promise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the curator claims is proven; a device recomputes it."""

    view: str
    epsilon: float
    delta: float


class Described(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question of a survey, as plain data."""

    text: Words
    column: Annotated[str, msgspec.Meta(max_length=200)]
    """Which of its owner's answers a device is asked for."""
    task: dict[str, Any]
    parameters: dict[str, Any]
    """Settings of the protocol for this question."""
    randomizer: dict[str, Any]


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about a survey that a device must agree to."""

    version: Literal[1] = 1
    survey: SurveyId
    question: Words
    """What is asked, in words: of several questions their title."""
    questions: Annotated[list[Described], msgspec.Meta(min_length=1, max_length=MOST)]
    protocol: str
    people: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    roster: Digest
    chances: Annotated[list[float], msgspec.Meta(max_length=MOST)] = []
    """Chance with which a device draws each question; none where it answers all of them."""
    graph: Digest | None
    helpers: dict[str, KeyRecord]
    """The curator, and the parties besides people that the protocol needs, by address."""
    timing: Timing
    cover: bool
    transport: Literal["hub", "direct", "nats"]
    min_crowd: Annotated[int, msgspec.Meta(ge=1)]
    promises: list[Promise]
    expires: float
    """When everything about this survey is over, in seconds since 1970."""

    @property
    def column(self) -> str:
        """Column of the only question; a joint task knows its own."""
        return self.questions[0].column if len(self.questions) == 1 else ""

    @property
    def words(self) -> tuple[str, ...]:
        """Words of each of several questions; none of a single one, which ``question`` has."""
        several = len(self.questions) > 1
        return tuple(each.text or each.column for each in self.questions) if several else ()


class Signed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Encoded bytes with the curator's signature."""

    body: bytes
    signature: Signature


class Join(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One device's word that it takes part in exactly this task."""

    number: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    """Its place in the roster of the task."""
    signature: Signature


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The beginning: when, and with whom."""

    digest: Digest
    at: float
    """Round 0 opens at this time, in seconds since 1970."""
    joins: list[Join]
    """Those who take part, in the order of the roster."""
    promises: list[Promise]
    """What is proven for exactly this crowd."""

    @property
    def people(self) -> list[int]:
        """The places of those who take part, in the roster of the task."""
        return [join.number for join in self.joins]


def digest_of(signed: Signed) -> bytes:
    """What stands for a signed task, or start, and all that it commits to."""
    return hashlib.sha256(b"incrowd digest 1\0" + signed.body).digest()


def sign_task(spec: Spec, key: Ed25519PrivateKey) -> Signed:
    """The task under the curator's signature."""
    body = _encode(spec)
    return Signed(body, key.sign(_TASK + body))


def read_task(encoded: bytes) -> tuple[Signed, Spec]:
    """A task as it was signed by the curator it names.

    Whether that curator's key is certified is for :func:`incrowd.live.keys.check` to say.
    """
    signed = _decode(encoded, Signed, SPEC_LIMIT)
    spec = _decode(signed.body, Spec, SPEC_LIMIT)
    if "curator" not in spec.helpers:
        raise Rejected(Reason.malformed)
    _verify(spec.helpers["curator"].identity, signed.signature, _TASK + signed.body)
    if _size(spec.words) > MOST_WORDS:
        raise Rejected(Reason.oversized, f"the questions have more than {MOST_WORDS} bytes of text")
    return signed, spec


def encode_signed(signed: Signed) -> bytes:
    """The bytes that travel."""
    return _encode(signed)


def join_task(digest: bytes, number: int, key: Ed25519PrivateKey) -> Join:
    """Take part in the task with this digest."""
    return Join(number, key.sign(_JOIN + digest))


def read_join(encoded: bytes, digest: bytes, roster: Sequence[KeyRecord]) -> Join:
    """A join that was signed by whom it names."""
    join = _decode(encoded, Join, 1024)
    _check_join(join, digest, roster)
    return join


def encode_join(join: Join) -> bytes:
    """The bytes that travel."""
    return _encode(join)


def sign_start(start: Start, key: Ed25519PrivateKey) -> Signed:
    """The start under the curator's signature."""
    body = _encode(start)
    return Signed(body, key.sign(_START + body))


def read_start(encoded: bytes, spec: Spec, digest: bytes) -> tuple[Signed, Start]:
    """A start of this task, signed by its curator; the joins are not checked yet."""
    signed = _decode(encoded, Signed, ROSTER_LIMIT)
    _verify(spec.helpers["curator"].identity, signed.signature, _START + signed.body)
    start = _decode(signed.body, Start, ROSTER_LIMIT)
    if start.digest != digest:
        raise Rejected(Reason.foreign)
    return signed, start


def check_joins(start: Start, roster: Sequence[KeyRecord], min_crowd: int) -> None:
    """Every join is signed by whom it names, nobody twice, and they are a crowd."""
    people = start.people
    if people != sorted(set(people)) or len(people) < min_crowd:
        raise Rejected(Reason.malformed)
    for join in start.joins:
        _check_join(join, start.digest, roster)


def encode_roster(records: Sequence[KeyRecord]) -> tuple[bytes, bytes]:
    """The roster as bytes, and their hash."""
    return _hashed(_ROSTER, _encode(list(records)))


def decode_roster(encoded: bytes, expected: bytes) -> list[KeyRecord]:
    """The roster whose hash was signed; no key, and no name, is on it twice."""
    _check_hash(_ROSTER, encoded, expected)
    records = _decode(encoded, list[KeyRecord], ROSTER_LIMIT)
    for names in ({each.name for each in records}, {each.identity for each in records}):
        if len(names) != len(records):
            raise Rejected(Reason.malformed)
    return records


def encode_graph(graph: Graph) -> tuple[bytes, bytes]:
    """The graph as bytes, and their hash: n, then row lengths, then neighbours in order."""
    parts = (
        np.array([graph.n, graph.indices.size], "<i8"),
        np.asarray(graph.indptr, "<i8"),
        np.asarray(graph.indices, "<i4"),
    )
    return _hashed(_GRAPH, b"".join(part.tobytes() for part in parts))


def decode_graph(encoded: bytes, expected: bytes) -> Graph:
    """The graph whose hash was signed."""
    if len(encoded) > ROSTER_LIMIT:
        raise Rejected(Reason.oversized)
    _check_hash(_GRAPH, encoded, expected)
    try:
        n, entries = (int(each) for each in np.frombuffer(encoded, "<i8", 2))
        indptr = np.frombuffer(encoded, "<i8", n + 1, 16)
        indices = np.frombuffer(encoded, "<i4", entries, 16 + 8 * (n + 1))
        if len(encoded) != 16 + 8 * (n + 1) + 4 * entries:
            raise Rejected(Reason.malformed)
        return Graph(n, indptr.astype(np.int64), indices.astype(np.int32))
    except (ValueError, OverflowError, IncrowdError) as error:
        raise Rejected(Reason.malformed) from error


def chances_of(protocol: Protocol) -> list[float]:
    """Return the chance of each question where a device draws one; none where it answers all."""
    if protocol.randomizer.domain != "several":
        return []
    return list(cast("OneOf", protocol.randomizer).probabilities)


def describe(protocol: Protocol, task: Task, text: str, column: str) -> list[Described]:
    """The questions of a task, and how each is asked, as plain data."""
    check_live(protocol)
    asked = task.questions(text, column)
    _check_words(text, [each.text for each in asked])
    return [
        Described(
            text=each.text,
            column=each.column,
            task=msgspec.to_builtins(each.task),
            parameters=msgspec.to_builtins(public_settings(part)),
            randomizer=msgspec.to_builtins(part.randomizer),
        )
        for part, each in zip(parts_of(protocol), asked, strict=True)
    ]


def _check_words(title: str, texts: Sequence[str]) -> None:
    """Refuse words that devices would decline."""
    for each in (title, *texts):
        if len(each) > LONGEST:
            raise InvalidParameter(
                f"a question of {len(each)} characters begins {each[:30]!r}: a title and each "
                f"question have at most {LONGEST}"
            )
    if _size(texts) > MOST_WORDS:
        raise InvalidParameter(
            f"the questions have {_size(texts)} bytes of text, at most {MOST_WORDS} in all: "
            "shorten them, or ask fewer"
        )


def _size(texts: Sequence[str]) -> int:
    return sum(len(each.encode()) for each in texts)


def offered_protocol(spec: Spec, graph: Graph | None) -> tuple[Protocol, Task]:
    """The protocol and the question that a spec describes, built from their public parts alone."""
    try:
        kind = load_protocol(_known(spec.protocol, PROTOCOLS))
        asked = [
            Asked(text=each.text, column=each.column, task=_described(each.task, TASKS))
            for each in spec.questions
        ]
        # The task comes first: questions that do not go together are refused before all else.
        task = _asked(asked, drawn=bool(spec.chances))
        pairs = zip(spec.questions, asked, strict=True)
        parts = [_offered_part(kind, each, found.task, graph) for each, found in pairs]
        if spec.chances:
            return _drawn(parts, spec.chances), task
        return parts[0] if len(parts) == 1 else JointProtocol.of(parts), task
    except Rejected:
        raise
    except (ValueError, ArithmeticError, IncrowdError) as error:
        raise Rejected(Reason.malformed, str(error)) from error


def _asked(asked: Sequence[Asked], drawn: bool) -> Task:
    """The task of all questions, of which one is drawn or all are answered."""
    if drawn:
        return OneOfTask(asked=tuple(asked))
    return asked[0].task if len(asked) == 1 else JointTask(asked=tuple(asked))


def _drawn(parts: Sequence[Protocol], chances: Sequence[float]) -> Protocol:
    """The protocol of devices that each draw one of the questions."""
    first, *others = parts
    if any(public_settings(each) != public_settings(first) for each in others):
        raise Rejected(Reason.malformed, "questions of which one is drawn have one protocol")
    if "several" not in plugin_of(first).default_randomizers:
        raise Rejected(Reason.malformed, f"{first.kind} cannot tell questions apart")
    drawn: Any = tuple(each.randomizer for each in parts)
    return replace(first, randomizer=OneOf(drawn, tuple(chances)))


def _offered_part(
    kind: type[Protocol], described: Described, task: Task, graph: Graph | None
) -> Protocol:
    """The protocol of one question."""
    settings = msgspec.convert(described.parameters, settings_type(kind))
    randomizer = _described(described.randomizer, RANDOMIZERS)
    task.require(randomizer)
    task.asks(described.column)
    for name, field in fields_of(type(settings)).items():
        if field.local and getattr(settings, name) != field.default:
            # A device must not be made to read a file of its own, or to build what is not signed.
            raise Rejected(Reason.malformed, f"an offer must not name files, nor set {name}")
    protocol = bound_to(build(kind, settings, randomizer, {"graph": graph}), task)
    check_live(protocol)
    if public_settings(protocol) != settings:
        raise Rejected(Reason.malformed, "an offer has only public parameters")
    return protocol


def _known(name: Any, table: Container[str]) -> str:
    if not isinstance(name, str) or name not in table:
        raise Rejected(Reason.malformed, "an unknown kind of protocol, randomizer or question")
    return name


def _described(table: Mapping[str, Any], registry: Registry[Any]) -> Any:
    """The randomizer or the question of the kind that a table names, with its fields alone.

    The class is found by its name, not in a union of all: it may be of another package.
    """
    kind = registry.load(_known(table.get("kind"), registry))
    if not table.keys() <= {"kind", *kind.__struct_fields__}:
        raise Rejected(Reason.malformed, "an unknown field of a randomizer or a question")
    return msgspec.convert(table, kind)


def _decode(encoded: bytes, kind: type[_T], limit: int) -> _T:
    if len(encoded) > limit:
        raise Rejected(Reason.oversized)
    try:
        return msgspec.msgpack.decode(encoded, type=kind)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors.
        raise Rejected(Reason.malformed) from error


def _hashed(what: bytes, encoded: bytes) -> tuple[bytes, bytes]:
    return encoded, hashlib.sha256(what + encoded).digest()


def _check_hash(what: bytes, encoded: bytes, expected: bytes) -> None:
    if _hashed(what, encoded)[1] != expected:
        raise Rejected(Reason.forged)


def _check_join(join: Join, digest: bytes, roster: Sequence[KeyRecord]) -> None:
    if join.number >= len(roster):
        raise Rejected(Reason.unknown)
    _verify(roster[join.number].identity, join.signature, _JOIN + digest)


def _verify(identity: bytes, signature: bytes, signed: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, signed)
    except (InvalidSignature, ValueError) as error:
        raise Rejected(Reason.forged) from error
