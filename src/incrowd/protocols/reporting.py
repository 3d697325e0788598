"""What protocols have in common in which everyone sends one fresh report per round to a collector.

They differ in who collects and what happens to the reports then; parameters, price, devices and
what a run really amounted to are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import msgspec
from numpy.typing import NDArray

from incrowd.protocols.actor import Address, Maker, NullSealer, Sealer, device
from incrowd.protocols.base import Cost, Protocol, RoundParameters
from incrowd.protocols.delivery import Reporter
from incrowd.protocols.pricing import expected_error
from incrowd.protocols.wire import envelope_bytes
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected

__all__ = ["ReportingProtocol"]


class ReportingProtocol(Protocol):
    """Everyone sends ``rounds`` fresh reports; subclasses say to whom, and what that hides."""

    parameters: RoundParameters

    @classmethod
    def make(cls, parameters: Any, randomizer: Randomizer) -> Self:
        """Build from parameters."""
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

    def devices(
        self,
        kind: type[Reporter],
        values: NDArray[Any],
        seeds: Seeds,
        sealers: Mapping[Address, Sealer],
    ) -> dict[Address, Maker]:
        """How to make each person's device, each with its own stream and sealer."""
        self.check_crowd(values)

        def make(person: int) -> Reporter:
            return kind(
                values[person : person + 1],
                self.randomizer,
                self.parameters.rounds,
                rng=seeds.generator("device", person),
                sealer=sealers.get(device(person), NullSealer()),
            )

        return {device(person): partial(make, person) for person in range(len(values))}
