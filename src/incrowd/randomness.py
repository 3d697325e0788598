"""Randomness for simulations: one root seed, one independent stream per role, person and round.

Streams are addressed by name, not by the order in which they are asked for, so that a result does
not depend on the number of workers or on the order of events. Nothing here protects a person: what
leaves a real device must be drawn from the operating system's generator, which is another type.
"""

from __future__ import annotations

import secrets
import zlib

import numpy as np

from incrowd import checks

__all__ = ["Seeds"]


class Seeds:
    """A tree of independent random streams under one root seed."""

    __slots__ = ("root",)

    def __init__(self, root: int | None = None) -> None:
        """Grow from ``root``; draw a fresh root, kept in ``self.root``, when none is given."""
        self.root = secrets.randbits(63) if root is None else checks.integer(root, "seed", 0)

    def generator(self, role: str, *index: int) -> np.random.Generator:
        """The stream of one role, such as ``("device", person, round)``; the same every time."""
        key = (zlib.crc32(role.encode()), *index)
        return np.random.Generator(
            np.random.PCG64DXSM(np.random.SeedSequence(self.root, spawn_key=key))
        )
