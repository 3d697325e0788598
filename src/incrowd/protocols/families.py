"""Bases of two families of protocols: one report per round, and a trusted shuffler.

Reporting: everyone sends one fresh report per round to a collector. Protocols differ in who
collects and what happens to the reports then; parameters, price, devices and what a run really
amounted to are the same.

Shuffler: reports pass through a shuffler that is trusted to forget. Protocols differ in who takes
part and in what the shuffler does to the reports. What follows for the views is the same: the
shuffle hides nothing from a view that colludes with the shuffler, and with cover traffic a hub that
helps the curator adds nothing to what the curator sees.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import msgspec

from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Colluders, Cost, Protocol
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Address
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.cover import COVERED, CoverPlan, against_hub
from incrowd.protocols.runtime.delivery import Reporter
from incrowd.protocols.runtime.wire import envelope_bytes
from incrowd.protocols.settings import RoundParameters
from incrowd.randomizers.base import Randomizer
from incrowd.tasks.base import Collected
from incrowd.views import view_of


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

    def conditional_on(self, collected: Collected) -> Self:
        """The rounds that brought reports, with the smallest of their crowds."""
        return self.make(self.parameters.conditional_on(collected), self.randomizer)

    def subset(self, people: Sequence[int]) -> Self:
        """A smaller crowd."""
        fewer = msgspec.structs.replace(self.parameters, n=len(people))
        return self.make(fewer, self.randomizer)

    def device(self, kind: type[Reporter], context: ActorContext) -> Reporter:
        """One person's device."""
        return kind(
            context.value,
            self.randomizer,
            self.parameters.rounds,
            rng=context.generator(),
            sealer=context.sealer,
            backoff=context.timing.backoff,
        )


class ShufflerProtocol(Protocol):
    """Devices hand in to a shuffler; subclasses say what that proves without cover traffic."""

    stated: ClassVar[tuple[str, ...]] = ("curator", "curator+hub", "curator+shuffler", "everyone")
    """The views of which something is said after a run."""

    cover: CoverPlan | None
    """The timetable of cells, with cover traffic."""

    @property
    def helpers(self) -> tuple[Address, ...]:
        """The shuffler, and the curator."""
        return (SHUFFLER, CURATOR)

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """Amplified against the curator; ε0 for views with the shuffler.

        With cover, a hub that helps the curator adds nothing.
        """
        parties = view_of(view)
        if self.hides_traffic_from(parties):
            alone = self.guarantee("curator", colluders)
            return against_hub(alone, alone.profile)
        return self.uncovered(parties, colluders)

    @abstractmethod
    def uncovered(self, view: frozenset[str], colluders: Colluders) -> Guarantee:
        """What is proven where no cover traffic helps."""

    def hides_traffic_from(self, view: frozenset[str]) -> bool:
        """Whether cover traffic makes this view as blind as the curator."""
        return self.cover is not None and view == COVERED

    def guarantees(self) -> tuple[Guarantee, ...]:
        """The curator, with the hub, with the shuffler, and everyone."""
        return tuple(self.guarantee(view) for view in self.stated)
