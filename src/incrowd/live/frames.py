"""What a party and the hub say to each other over one WebSocket.

    hub    ── Challenge(nonce) ──────────────────────────▶ party
    party  ── Hello(identity, signature of the nonce) ───▶ hub
    hub    ── Welcome ───────────────────────────────────▶ party
    party  ── Listen(survey) ────────────────────────────▶ hub     from now on: Mail and News
    party  ── Put(number, survey, cells) ────────────────▶ hub
    hub    ── Stored(number, rejected) ──────────────────▶ party   after the commit, never before
    hub    ── Mail(survey, [(place, cell)]) ─────────────▶ party
    party  ── Took(survey, places) ──────────────────────▶ hub     after the party's own commit
    party  ── Join(survey, join) · Announce(survey, endpoint) ──▶ hub, answered by Stored as well
    hub    ── News(survey, what) ────────────────────────▶ party   offered, started, closed, revoked

Frames are tagged MessagePack arrays, decoded strictly and with a limit on their length. Every frame
may be repeated: a cell is stored once by its identifier, and taking twice is taking once.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeVar

import msgspec

from incrowd.live.cells import CELL
from incrowd.live.reasons import Reason, Rejected

MOST_CELLS: Final = 256
"""How many cells travel in one frame at most."""
FRAME_LIMIT: Final = MOST_CELLS * (CELL + 16) + 4096

_Key = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
_Survey = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Cells = Annotated[list[bytes], msgspec.Meta(max_length=MOST_CELLS)]


class _Frame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Challenge(_Frame, frozen=True, tag="challenge"):
    """Fresh bytes to be signed, so that a recorded greeting opens nothing."""

    nonce: _Key


class Hello(_Frame, frozen=True, tag="hello"):
    """Who is calling, and the proof."""

    identity: _Key
    signature: _Signature


class Welcome(_Frame, frozen=True, tag="welcome"):
    """The hub knows the caller."""


class Listen(_Frame, frozen=True, tag="listen"):
    """Deliver what waits for me in this survey, and what comes, until the connection ends."""

    survey: _Survey


class Put(_Frame, frozen=True, tag="put"):
    """Take these sealed cells into the mailbox; ``number`` pairs the answer with the question."""

    number: _Number
    survey: _Survey
    cells: _Cells


class Join(_Frame, frozen=True, tag="join"):
    """I will take part: an encoded ``task.Join``."""

    number: _Number
    survey: _Survey
    join: Annotated[bytes, msgspec.Meta(max_length=1024)]


class Announce(_Frame, frozen=True, tag="announce"):
    """Where others can reach me directly, as ``host:port``."""

    number: _Number
    survey: _Survey
    endpoint: Annotated[str, msgspec.Meta(max_length=256)]


class Stored(_Frame, frozen=True, tag="stored"):
    """What was asked is committed, but for the rejected: their places in the frame, and why."""

    number: _Number
    rejected: list[tuple[int, Reason]]


class Mail(_Frame, frozen=True, tag="mail"):
    """Cells that wait for this party, each with its place in the mailbox."""

    survey: _Survey
    cells: Annotated[list[tuple[_Number, bytes]], msgspec.Meta(max_length=MOST_CELLS)]


class Took(_Frame, frozen=True, tag="took"):
    """These are safe with me; forget them."""

    survey: _Survey
    places: Annotated[list[_Number], msgspec.Meta(max_length=16 * MOST_CELLS)]


class News(_Frame, frozen=True, tag="news"):
    """Something about a survey changed; the facts are fetched, and checked, separately."""

    survey: _Survey
    what: Literal["offered", "started", "closed", "revoked"]


FromParty = Hello | Listen | Put | Took | Join | Announce
FromHub = Challenge | Welcome | Stored | Mail | News

encode = msgspec.msgpack.Encoder().encode
_FROM_PARTY: msgspec.msgpack.Decoder[FromParty] = msgspec.msgpack.Decoder(FromParty)
_FROM_HUB: msgspec.msgpack.Decoder[FromHub] = msgspec.msgpack.Decoder(FromHub)
_F = TypeVar("_F")


def hello_bytes(nonce: bytes) -> bytes:
    """What a caller signs to prove who it is."""
    return b"incrowd hello 1\0" + nonce


def decode_from_party(frame: bytes) -> FromParty:
    """A frame from a party; ``Rejected`` when it is too long or is none."""
    return _decode(_FROM_PARTY, frame)


def decode_from_hub(frame: bytes) -> FromHub:
    """A frame from the hub; ``Rejected`` when it is too long or is none."""
    return _decode(_FROM_HUB, frame)


def _decode(decoder: msgspec.msgpack.Decoder[_F], frame: bytes) -> _F:
    if len(frame) > FRAME_LIMIT:
        raise Rejected(Reason.oversized)
    try:
        return decoder.decode(frame)
    except ValueError as error:  # msgspec's errors are ValueErrors.
        raise Rejected(Reason.malformed) from error
