"""What protocols have in common in which everyone sends one fresh report per round to a collector.

They differ in who collects and what happens to the reports then; parameters, price, devices and
what a run really amounted to are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import msgspec

from incrowd.graphs.graph import Graph
from incrowd.protocols.base import Cost, Protocol, RoundParameters
from incrowd.protocols.delivery import Reporter
from incrowd.protocols.pricing import expected_error
from incrowd.protocols.seat import Seat
from incrowd.protocols.wire import envelope_bytes
from incrowd.randomizers.base import Randomizer
from incrowd.tasks.base import Collected

__all__ = ["ReportingProtocol"]


class ReportingProtocol(Protocol):
    """Everyone sends ``rounds`` fresh reports; subclasses say to whom, and what that hides."""

    parameters: RoundParameters

    @classmethod
    def make(cls, parameters: Any, randomizer: Randomizer, graph: Graph | None = None) -> Self:
        """Build from parameters; there is no graph."""
        del graph
        return cls(randomizer, **msgspec.structs.asdict(parameters))  # type: ignore[call-arg]

    def cost(self) -> Cost:
        """One message per round."""
        rounds = self.parameters.rounds
        return Cost(
            rounds=rounds,
            messages_per_person=rounds,
            bytes_per_person=rounds * envelope_bytes(self.randomizer.report_bytes, rounds),
            expected_error=expected_error(self.randomizer, self.parameters.n * rounds),
        )

    def realised(self, collected: Collected) -> Self:
        """The rounds that brought reports, with the smallest of their crowds."""
        return self.make(self.parameters.realised(collected), self.randomizer)

    def among(self, people: Sequence[int]) -> Self:
        """A smaller crowd."""
        fewer = msgspec.structs.replace(self.parameters, n=len(people))
        return self.make(fewer, self.randomizer)

    def device(self, kind: type[Reporter], seat: Seat) -> Reporter:
        """One person's device."""
        return kind(
            seat.value,
            self.randomizer,
            self.parameters.rounds,
            rng=seat.generator(),
            sealer=seat.sealer,
            backoff=seat.timing.backoff,
        )
