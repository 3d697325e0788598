"""Simulation of a protocol by its actors, from values to the concluded result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from incrowd.errors import ProtocolFailed
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import attested, bound_to
from incrowd.protocols.run import Run, conclude, make_actors, resolve_task
from incrowd.protocols.runtime.actor import CURATOR, Address
from incrowd.protocols.runtime.context import Connection, Connections, Timing
from incrowd.randomness import Seeds
from incrowd.sim.faults import Faults, Outage
from incrowd.sim.play import Played, play
from incrowd.tasks.base import Task

_ONE_DAY = 86_400.0
"""Virtual seconds beyond the planned duration, for runs with many losses."""


@dataclass(frozen=True, repr=False)
class PlayedRun(Run):
    """A run together with the result of its simulation."""

    played: Played


def run(
    protocol: Protocol,
    values: NDArray[Any],
    task: Task | None = None,
    faults: Faults | None = None,
    seed: int | None = None,
    *,
    outages: Mapping[Address, Sequence[Outage]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PlayedRun:
    """Play a protocol over raw values and conclude, as ``protocol.simulate`` does at once.

    ``outages`` holds those of some parties; the others' are drawn. A run whose curator never
    finished fails; one that lost people concludes with the guarantee of the actual run.
    """
    asked = resolve_task(protocol, task)
    protocol = bound_to(protocol, asked)
    seeds = Seeds(seed)
    actors = make_actors(protocol, asked.encode(values), seeds)
    until = protocol.duration(Timing()) + _ONE_DAY
    played = play(actors, seeds, faults, until=until, outages=outages, progress=progress)
    if CURATOR not in played.outputs:
        raise ProtocolFailed(
            f"the curator of {protocol.kind} had not finished after "
            f"{played.statistics.duration:.0f} virtual seconds: "
            f"{played.statistics.lost} messages were lost, lower the faults"
        )
    spans = {address: _between(off) for address, off in played.outages.items()}
    connections = Connections(spans, certain=True)
    collected = attested(protocol, played.outputs[CURATOR], connections, Timing())
    concluded = conclude(protocol, collected, asked, seeds.root)
    return PlayedRun(**vars(concluded), played=played)


def _between(outages: Sequence[Outage]) -> list[Connection]:
    """Connections to a hub between the outages of a party."""
    begins = [-math.inf, *(end for _, end in outages)]
    ends = [*(begin for begin, _ in outages), math.inf]
    pairs = zip(begins, ends, strict=True)
    return [Connection(begin, end, end) for begin, end in pairs if begin < end]
