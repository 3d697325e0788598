"""Per-actor context: value, generator, sealer, timing.

The same protocol makes the same actor from a context in memory, where randomness comes from a seed
and time is virtual, and live, where it comes from the operating system and seconds are seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.protocols.runtime.actor import Address, NullSealer, Sealer
from incrowd.protocols.runtime.delivery import Backoff


class Connection(NamedTuple):
    """One connection between a party and a hub, in seconds since the start."""

    begin: float
    heard: float
    """Last frame from the party: until then it was on."""
    end: float
    """Infinite while the connection is open."""


@dataclass(frozen=True)
class Connections:
    """A hub's record of its connections with each party; of parties not in it nothing is known."""

    of: Mapping[Address, Sequence[Connection]]
    certain: bool = False
    """Whether a party without a connection is off. Over a network it may go on, and send what it
    did meanwhile once it is connected again."""


ROUND_SECONDS: Final = 30.0
SETTLE: Final = 10
PATIENCE: Final = 3600.0


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long things take, the same for everyone and public."""

    round_seconds: float = ROUND_SECONDS
    """A round: long enough for several attempts at one hop, and for a restart."""
    settle: int = SETTLE
    """So many rounds after the last one, what is late has come in."""
    patience: float = PATIENCE
    """How long a party that collects waits for the last ones, in seconds."""
    backoff: Backoff = Backoff()
    """The pauses after which an unanswered message is sent again."""

    def __post_init__(self) -> None:
        """Refuse rounds that take no time."""
        for name in ("round_seconds", "patience"):
            if checks.number(getattr(self, name), name) <= 0:
                raise InvalidParameter(
                    f"{name} must be a positive number of seconds, got {getattr(self, name)!r}"
                )
        checks.integer(self.settle, "settle", 0)


@dataclass(frozen=True)
class ActorContext:
    """Surroundings of one actor in a run."""

    generator: Callable[..., np.random.Generator]
    """The stream of one draw, by its numbers; the same numbers are never used twice."""
    value: NDArray[Any] | None = None
    """One row, encoded as the randomizer wants it; none for a party that is nobody's device."""
    sealer: Sealer = field(default_factory=NullSealer)
    timing: Timing = field(default_factory=Timing)
