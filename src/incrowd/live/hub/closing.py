"""The curator's word that a survey is over, signed like everything else it says.

A close names the digest of the task, so it closes that task only, and has a domain of its own, so
no other signature of a curator can be taken for it. Closing twice is closing once: a close that is
repeated changes nothing, and there is no way back.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from incrowd.live.reasons import Reason, Rejected
from incrowd.live.task import Spec

_CLOSE: Final = b"incrowd close 1\0"
_LIMIT: Final = 256


class _Close(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


def sign_close(digest: bytes, key: Ed25519PrivateKey) -> bytes:
    """The encoded close of the task with this digest, under the curator's signature."""
    return msgspec.msgpack.encode(_Close(digest, key.sign(_CLOSE + digest)))


def read_close(encoded: bytes, spec: Spec, digest: bytes) -> None:
    """Refuse whatever is not the close of this task by its curator."""
    if len(encoded) > _LIMIT:
        raise Rejected(Reason.oversized)
    try:
        close = msgspec.msgpack.decode(encoded, type=_Close)
    except ValueError as error:  # msgspec's errors are ValueErrors.
        raise Rejected(Reason.malformed) from error
    if close.digest != digest:
        raise Rejected(Reason.foreign)
    curator = Ed25519PublicKey.from_public_bytes(spec.helpers["curator"].identity)
    try:
        curator.verify(close.signature, _CLOSE + digest)
    except InvalidSignature as error:
        raise Rejected(Reason.forged) from error
