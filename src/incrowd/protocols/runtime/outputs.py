"""Outputs of actors as bytes: what a curator collected, with its arrays."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np

T = TypeVar("T")


def pack_output(output: Any) -> bytes:
    """Encode an output."""
    return msgspec.msgpack.encode(output, enc_hook=_pack_array)


def unpack_output(packed: bytes, kind: type[T]) -> T:
    """Decode an output of this type."""
    return msgspec.msgpack.decode(packed, type=kind, dec_hook=_unpack_array)


def _pack_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"a {type(value).__name__} cannot be kept in the journal")


def _unpack_array(kind: Any, packed: Any) -> Any:
    del kind
    dtype, shape, content = packed
    return np.frombuffer(content, np.dtype(dtype)).reshape(shape).copy()
