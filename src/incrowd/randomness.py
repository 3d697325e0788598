"""Random streams: seeded ones for simulations, the operating system's for devices.

* :class:`Seeds`, for simulations: one root seed, one independent stream per role, person and round.
  Streams are addressed by name, not by the order of requests, so that a result depends neither on
  the number of workers nor on the order of events. They protect no one.
* :func:`system_generator`, for real devices: every bit comes from the operating system, and cannot
  be seeded, repeated or stored.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import threading
import zlib
from typing import Any, Final

import numpy as np

from incrowd import checks


class Seeds:
    """Tree of independent random streams under one root seed."""

    __slots__ = ("root",)

    def __init__(self, root: int | None = None) -> None:
        """Grow from ``root``, or from a fresh root that is kept in ``self.root``."""
        self.root = secrets.randbits(63) if root is None else checks.integer(root, "seed", 0)

    def generator(self, role: str, *index: int) -> np.random.Generator:
        """Return the stream of one role, such as ``("device", person, round)``; it repeats."""
        return np.random.Generator(np.random.PCG64DXSM(self._sequence(role, *index)))

    def child(self, role: str, index: int) -> Seeds:
        """Return the tree of one role, independent of the streams of this one."""
        return Seeds(int(self._sequence(role, index).generate_state(1, np.uint64)[0]) >> 1)

    def _sequence(self, role: str, *index: int) -> np.random.SeedSequence:
        key = (zlib.crc32(role.encode()), *index)
        return np.random.SeedSequence(self.root, spawn_key=key)


_WORD: Final = 8
_POOL: Final = 64 * _WORD
"""Bytes per request to the system; each is used once and then overwritten."""


class _SystemBits:
    """Bit generator in the form of numpy's C interface: a capsule around four functions."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._pool = bytearray()
        word, half, unit = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_double
        functions = (
            ctypes.CFUNCTYPE(word, ctypes.c_void_p)(self._next_word),
            ctypes.CFUNCTYPE(half, ctypes.c_void_p)(self._next_half),
            ctypes.CFUNCTYPE(unit, ctypes.c_void_p)(self._next_unit),
            ctypes.CFUNCTYPE(word, ctypes.c_void_p)(self._next_word),
        )
        addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in functions]
        table = (ctypes.c_void_p * 5)(None, *addresses)
        # The capsule holds bare addresses: their targets must live as long as this object.
        self._kept = (functions, table)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.capsule: Any = new(ctypes.addressof(table), b"BitGenerator", None)

    def _next_word(self, _: Any) -> int:
        # numpy cannot be told of a failure, and would go on with whatever is in its registers:
        # a crashed device is better than one with predictable draws.
        try:
            if not self._pool:
                self._pool += os.urandom(_POOL)
            word = int.from_bytes(self._pool[-_WORD:], "little")
            del self._pool[-_WORD:]
        except BaseException:
            os.abort()
        return word

    def _next_half(self, state: Any) -> int:
        return self._next_word(state) >> 32

    def _next_unit(self, state: Any) -> float:
        return (self._next_word(state) >> 11) * 2.0**-53


def system_generator(*numbers: int) -> np.random.Generator:
    """Return a generator that takes every bit from the operating system.

    ``numbers`` are ignored: they let it stand in for a stream of :class:`Seeds`.
    """
    del numbers
    return np.random.Generator(_SystemBits())  # type: ignore[arg-type]
