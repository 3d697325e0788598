"""Bases of two families of protocols: one report per round, and a trusted shuffler.

Reporting: everyone sends one fresh report per round to a collector. Protocols differ in who
collects and what happens to the reports then; settings, price, devices and what a run really
amounted to are the same.

Shuffler: reports pass through a shuffler that is trusted to forget. Protocols differ in who takes
part and in what the shuffler does to the reports. What follows for the views is the same: the
shuffle hides nothing from a view that colludes with the shuffler, and with cover traffic a hub that
helps the curator adds nothing to what the curator sees.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Self

from incrowd import checks
from incrowd.errors import ProtocolFailed
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Colluders, Cost, Protocol
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Address
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.cover import COVERED, CoverPlan, against_hub
from incrowd.protocols.runtime.delivery import Reporter
from incrowd.protocols.runtime.wire import envelope_bytes
from incrowd.protocols.settings import setting
from incrowd.tasks.base import Collected
from incrowd.views import view_of

Crowd = Annotated[
    int, setting("people who take part, the victim included", solve="min", check=checks.crowd)
]
"""Setting: the number of people."""
Adaptive = Annotated[
    bool,
    setting(
        "the randomizer may depend on a report's place in the shuffled round and on those "
        "before it, never on whose it is"
    ),
]
"""Setting: whether each report may have a randomizer of its own."""


@dataclass(frozen=True)
class ReportingProtocol(Protocol):
    """Everyone sends ``rounds`` fresh reports; subclasses say to whom, and what that hides."""

    _: KW_ONLY
    n: Crowd
    rounds: Annotated[int, setting("fresh reports from every person", solve="max", least=1)] = 1

    def cost(self) -> Cost:
        rounds = self.rounds
        return Cost(
            rounds=rounds,
            messages_per_person=rounds,
            bytes_per_person=rounds * envelope_bytes(self.randomizer.report_bytes, rounds),
            expected_error=expected_error(self.randomizer, self.n * rounds),
        )

    def conditional_on(self, collected: Collected) -> Self:
        """All planned rounds but empty ones, each with the crowd of the smallest.

        Reports of all rounds are sent at the start, and rounds close by the clock: attendance
        alone decides how many arrive. A round without reports reveals nothing. Taking the smallest
        crowd for all is cautious: a larger crowd is a smaller one to which reports of others were
        added. Rounds that are missing were not awaited, perhaps because of what came before: they
        are charged, and unless everyone was there in the others, without a crowd. See
        ``docs/theory/stopping.md``.
        """
        crowds = [crowd for crowd in collected.crowds if crowd > 0]
        if not crowds:
            raise ProtocolFailed(
                f"none of the {collected.sent} reports arrived: lower the faults or give people "
                "more time"
            )
        empty = len(collected.crowds) - len(crowds)
        stopped = len(collected.crowds) < self.rounds
        alone = stopped and (empty > 0 or min(crowds) < self.n)
        crowd = 1 if alone else min(crowds)
        return replace(self, n=crowd, rounds=max(1, self.rounds - empty))

    def subset(self, people: Sequence[int]) -> Self:
        return replace(self, n=len(people))

    def device(self, kind: type[Reporter], context: ActorContext) -> Reporter:
        """One person's device."""
        return kind(
            context.value,
            self.randomizer,
            self.rounds,
            rng=context.generator(),
            sealer=context.sealer,
            backoff=context.timing.backoff,
        )


@dataclass(frozen=True)
class ShufflerProtocol(Protocol):
    """Devices hand in to a shuffler; subclasses say what that proves without cover traffic."""

    cover: CoverPlan | None = field(default=None, kw_only=True)
    """Timetable of cells, with cover traffic."""

    @property
    def helpers(self) -> tuple[Address, ...]:
        return (SHUFFLER, CURATOR)

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """Amplified against the curator, and a covered hub; ε0 for views with the shuffler."""
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
