"""Shuffling by one trusted party: the ideal that other protocols approach.

Every device hands its report to a shuffler, which forwards all of them in random order. Against the
curator the crowd then hides the person; against a curator who colludes with the shuffler only the
randomizer does. See ``docs/theory/blanket.md`` and ``docs/theory/clones.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.mechanisms.shuffle import shuffle_guarantee
from incrowd.protocols.api import Colluders, check_colluders
from incrowd.protocols.capabilities import Coverable
from incrowd.protocols.families import Adaptive, ReportingProtocol, ShufflerProtocol
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Actor, Address, devices
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.cover import CellFormat, ReportCover
from incrowd.protocols.runtime.wire import ReportFormat, envelope_bytes
from incrowd.protocols.trusted_shuffle import simulate
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected


@dataclass(frozen=True)
class TrustedShuffle(ShufflerProtocol, ReportingProtocol, Coverable):
    """Everyone sends ``rounds`` fresh reports through a shuffler that is trusted to forget."""

    kind: ClassVar[str] = "trusted-shuffle"

    _: KW_ONLY
    adaptive: Adaptive = False

    def uncovered(self, view: frozenset[str], colluders: Colluders) -> Guarantee:
        return shuffle_guarantee(
            self.randomizer,
            n=self.n,
            rounds=self.rounds,
            adaptive=self.adaptive,
            view=view,
            colluders=check_colluders(colluders, self.n),
        )

    def covered(self, delta: float, cells: CellFormat) -> Self:
        del delta
        rounds, report = self.rounds, self.randomizer.report_bytes + cells.seal
        needed = cells.needed(*[envelope_bytes(report, rounds)] * rounds)
        return replace(self, cover=ReportCover(SHUFFLER, needed))

    def subset(self, people: Sequence[int]) -> Self:
        return replace(self, n=len(people), cover=None)

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self.randomizer, values, self.rounds, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        from incrowd.protocols.trusted_shuffle.roles import Curator, Device, Shuffler

        reports, rounds = ReportFormat.of(self.randomizer), self.rounds
        if address == CURATOR:
            return Curator(self.n, reports, rounds, sealer=context.sealer)
        if address == SHUFFLER:
            roster, streams, timing = devices(self.n), context.generator, context.timing
            return Shuffler(roster, reports.nbytes, rounds, generator=streams, timing=timing)
        return self.device(Device, context)
