"""The messages between devices, the relay and the curator of a token walk.

They are MessagePack arrays tagged with their name, decoded as strictly as those of
``incrowd.protocols.runtime.wire``. A device's view of a walk is in :class:`Carry` and
:class:`Again`: the token, the number of the request about it, bytes sealed to one of its own
one-time keys, and one fresh key to which it seals. None of them names a person, and no key is ever
seen in two requests.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from incrowd.protocols.token_walk.roles.token import TokenFormat

KEY_BYTES = 32
LOT = 8  # one-time keys that a device makes at a time
HOME = b""  # in place of the key of the next holder: the token goes to the curator
_ROOM = 1024

_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
_Key = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
_Next = Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)]


class _Tagged(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=str.lower
):
    pass


class Restock(_Tagged, frozen=True):
    """From the relay to a device: make this lot of one-time keys."""

    lot: _Number


class Stock(_Tagged, frozen=True):
    """From a device to the relay: one-time keys, each for one token on its way here."""

    lot: _Number
    keys: Annotated[list[_Key], msgspec.Meta(min_length=LOT, max_length=LOT)]


class Carry(_Tagged, frozen=True):
    """From the relay to a device: hold the token, add to it, and seal it to the next holder.

    It was sealed to ``key``; without ``sealed`` it is a new one. ``blank``: add only noise.
    """

    token: _Number
    turn: _Number
    key: _Key
    sealed: bytes
    next: _Next
    blank: bool


class Again(_Tagged, frozen=True):
    """From the relay to a device: seal the sum that left in turn ``of`` to another holder."""

    token: _Number
    turn: _Number
    of: _Number
    next: _Next


class Handed(_Tagged, frozen=True):
    """From a device to the relay: the token, sealed to the next holder."""

    token: _Number
    turn: _Number
    sealed: bytes


class Release(_Tagged, frozen=True):
    """From the relay to a device: forget the sum that left in this turn; others have it."""

    token: _Number
    turn: _Number


class Over(_Tagged, frozen=True):
    """From the relay to a device: all tokens are home; forget everything."""


class Homecoming(_Tagged, frozen=True):
    """From the relay to the curator: a token with its statistics; no bytes when it was lost.

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


class Arrived(_Tagged, frozen=True):
    """From the curator to the relay: this token is safe."""

    token: _Number


def limit_of(token: TokenFormat) -> int:
    """Return the length of the longest body of these messages, with room for seals and keys."""
    return token.nbytes + _ROOM
