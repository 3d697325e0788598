"""Shuffling by one trusted party: the ideal that other protocols approach.

Every device hands its report to a shuffler, which forwards all of them in random order. Against the
curator the crowd then hides the person; against a curator who colludes with the shuffler only the
randomizer does. See ``docs/theory/blanket.md`` and ``docs/theory/clones.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from numpy.typing import NDArray

from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.mechanisms.shuffle import shuffle_guarantee
from incrowd.protocols.api import Colluders, check_colluders, check_randomizer
from incrowd.protocols.capabilities import Coverable
from incrowd.protocols.families import ReportingProtocol, ShufflerProtocol
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Actor, Address, devices
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.cover import CellFormat, ReportCover
from incrowd.protocols.runtime.wire import ReportFormat, envelope_bytes
from incrowd.protocols.settings import Parameters, RoundParameters, parameter
from incrowd.protocols.trusted_shuffle import simulate
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected


class TrustedShuffleParameters(
    RoundParameters, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """The parameters of :class:`TrustedShuffle`."""

    adaptive: Annotated[
        bool,
        parameter(
            "the randomizer may depend on a report's place in the shuffled round and on those "
            "before it, never on whose it is"
        ),
    ] = False


@dataclass(frozen=True, init=False)
class TrustedShuffle(ShufflerProtocol, ReportingProtocol, Coverable):
    """Everyone sends ``rounds`` fresh reports through a shuffler that is trusted to forget."""

    kind: ClassVar[str] = "shuffle"
    parameters_type: ClassVar[type[Parameters]] = TrustedShuffleParameters

    randomizer: Randomizer
    parameters: TrustedShuffleParameters
    cover: ReportCover | None
    """The timetable of cells, with cover traffic."""

    def __init__(
        self, randomizer: Randomizer, *, n: int, rounds: int = 1, adaptive: bool = False
    ) -> None:
        parameters = TrustedShuffleParameters(n=n, rounds=rounds, adaptive=adaptive)
        object.__setattr__(self, "randomizer", check_randomizer(randomizer))
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "cover", None)

    def uncovered(self, view: frozenset[str], colluders: Colluders) -> Guarantee:
        """Amplified by the crowd against the curator; ε0 for a view that includes the shuffler."""
        return shuffle_guarantee(
            self.randomizer,
            n=self.parameters.n,
            rounds=self.parameters.rounds,
            adaptive=self.parameters.adaptive,
            view=view,
            colluders=check_colluders(colluders, self.parameters.n),
        )

    def covered(self, delta: float, cells: CellFormat) -> tuple[Self, ReportCover]:
        """With the same cells from everyone to the shuffler; their number needs no δ."""
        del delta
        rounds, report = self.parameters.rounds, self.randomizer.report_bytes + cells.seal
        plan = ReportCover(SHUFFLER, cells.needed(*[envelope_bytes(report, rounds)] * rounds))
        return self._under(plan), plan

    def _under(self, cover: ReportCover | None) -> Self:
        same = self.make(self.parameters, self.randomizer)
        object.__setattr__(same, "cover", cover)
        return same

    def conditional_on(self, collected: Collected) -> Self:
        """The rounds that brought reports, with the smallest of their crowds, under the cover."""
        return super().conditional_on(collected)._under(self.cover)

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        """Everyone's reports at once."""
        check_crowd(self, values)
        return simulate.collect(self.randomizer, values, self.parameters.rounds, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        """One person's device, the shuffler, or the curator."""
        from incrowd.protocols.trusted_shuffle.roles import Curator, Device, Shuffler

        reports, rounds = ReportFormat.of(self.randomizer), self.parameters.rounds
        if address == CURATOR:
            return Curator(self.parameters.n, reports, rounds, sealer=context.sealer)
        if address == SHUFFLER:
            return Shuffler(
                devices(self.parameters.n),
                reports.nbytes,
                rounds,
                generator=context.generator,
                timing=context.timing,
            )
        return self.device(Device, context)
