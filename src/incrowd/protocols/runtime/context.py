"""Per-actor context: value, generator, sealer, timing.

In memory randomness comes from a seed and time is virtual; live it comes from the operating system
and seconds are seconds. The actor is the same.
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
    """Whether a party without a connection is off. Over a network it may go on, and send later."""


ROUND_SECONDS: Final = 30.0
GRACE_ROUNDS: Final = 10
TIMEOUT: Final = 3600.0


class Timing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public durations, the same for everyone."""

    round_seconds: float = ROUND_SECONDS
    """Length of a round: enough for several attempts at one hop, and for a restart."""
    grace_rounds: int = GRACE_ROUNDS
    """Rounds after the last one, in which late messages come in."""
    timeout: float = TIMEOUT
    """Seconds for which a collector waits for the last reports."""
    backoff: Backoff = Backoff()
    """Pauses after which an unanswered message is sent again."""

    def __post_init__(self) -> None:
        for name in ("round_seconds", "timeout"):
            if checks.number(value := getattr(self, name), name) <= 0:
                raise InvalidParameter(
                    f"{name} must be a positive number of seconds, got {value!r}"
                )
        checks.integer(self.grace_rounds, "grace_rounds", 0)


@dataclass(frozen=True)
class ActorContext:
    """Surroundings of one actor in a run."""

    generator: Callable[..., np.random.Generator]
    """The stream of one draw, by its numbers; the same numbers are never used twice."""
    value: NDArray[Any] | None = None
    """One row, encoded as the randomizer wants it; none for a party that is no device."""
    sealer: Sealer = field(default_factory=NullSealer)
    timing: Timing = field(default_factory=Timing)
