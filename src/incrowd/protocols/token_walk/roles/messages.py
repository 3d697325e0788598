"""The messages between people's devices, the courier and the curator of a token walk.

They are tagged MessagePack arrays, decoded as strictly as those of
``incrowd.protocols.runtime.wire``. What a device gets to see of a walk is in :class:`Carry` and
:class:`Again`: which token, the how-manieth request about it this is, bytes that were sealed to one
of its own one-time keys, and one fresh key to which it seals. None of them names a person, and no
key is ever seen in two requests.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from incrowd.protocols.token_walk.roles.token import TokenFormat

KEY_BYTES = 32
LOT = 8
"""How many one-time keys a device makes at a time."""
HOME = b""
"""In place of the key of whoever is next: the token goes to the curator."""
_ROOM = 1024

_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Key = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
_Next = Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)]


class Restock(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="restock"
):
    """From the courier to a device: make this lot of one-time keys."""

    lot: _Number


class Stock(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="stock"):
    """From a device to the courier: one-time keys, each for one token on its way here."""

    lot: _Number
    keys: Annotated[list[_Key], msgspec.Meta(min_length=LOT, max_length=LOT)]


class Carry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="carry"):
    """From the courier to a device: hold the token, add to it, and seal it to whoever is next.

    It was sealed to ``key``; without ``sealed`` it is a new one. ``blank``: add only noise.
    """

    token: _Number
    turn: _Number
    key: _Key
    sealed: bytes
    next: _Next
    blank: bool


class Again(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="again"):
    """From the courier to a device: seal once more, to somebody else, what left in turn ``of``."""

    token: _Number
    turn: _Number
    of: _Number
    next: _Next


class Handed(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="handed"
):
    """From a device to the courier: the token, sealed to whoever is next."""

    token: _Number
    turn: _Number
    sealed: bytes


class Release(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="release"
):
    """From the courier to a device: what left in this turn is safe with others; forget it."""

    token: _Number
    turn: _Number


class Over(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="over"):
    """From the courier to a device: all tokens are home; forget everything."""


class Homecoming(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="homecoming"
):
    """From the courier to the curator: a token, and how it fared; no bytes when it was lost.

    The fields after ``sealed`` are those of
    :class:`incrowd.protocols.token_walk.roles.token.Carried`.
    """

    token: _Number
    sealed: bytes
    reports: _Number
    noise: Annotated[float, msgspec.Meta(ge=0)]
    steps: _Number
    crowd: _Number
    losses: Annotated[float, msgspec.Meta(ge=0)] | None


class Arrived(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="arrived"
):
    """From the curator to the courier: this token is safe."""

    token: _Number


def limit_of(token: TokenFormat) -> int:
    """The longest body of any of these messages, with room for seals and keys."""
    return token.nbytes + _ROOM
