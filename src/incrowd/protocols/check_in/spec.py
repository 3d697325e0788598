"""Shuffled check-in: in every round a random crowd answers, through a shuffler.

Each person joins each round with some probability, by a coin of their own; who is in randomizes
their value afresh and sends it to a shuffler, which forwards the round in random order. Nobody
chooses the crowd, and nobody is told who was in it. Liew, Hasegawa and Takahashi, "Privacy
Amplification via Shuffled Check-Ins"; what is proven is in ``docs/theory/check_in.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import msgspec
from numpy.typing import NDArray

from incrowd.errors import NotProven, ProtocolFailed
from incrowd.graphs.graph import Graph
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Colluders, Cost, check_colluders, check_randomizer
from incrowd.protocols.capabilities import Anytime, Coverable
from incrowd.protocols.check_in import accountant, simulate
from incrowd.protocols.check_in.cover import check_in_cover, closes
from incrowd.protocols.check_in.messages import check_in_bytes
from incrowd.protocols.check_in.parameters import CheckInParameters
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.families import ShufflerProtocol
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Actor, Address, devices, person_of
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.cover import CellFormat, CoverPlan, phase
from incrowd.protocols.runtime.wire import ReportFormat
from incrowd.protocols.settings import Parameters
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected


@dataclass(frozen=True, init=False)
class CheckIn(ShufflerProtocol, Coverable, Anytime):
    """In each of ``rounds`` rounds everyone takes part with probability ``rate``."""

    kind: ClassVar[str] = "check-in"
    parameters_type: ClassVar[type[Parameters]] = CheckInParameters
    collected_type: ClassVar[type[Collected]] = simulate.CheckedIn

    randomizer: Randomizer
    parameters: CheckInParameters
    cover: CoverPlan | None
    """The timetable of cells, with cover traffic."""
    counts: tuple[int, ...] | None
    """The reports of each round of a run without dummies; none before it, and with dummies."""
    attended: bool
    """Whether the least crowd is that of a run, rather than one that the shuffler insists on."""

    def __init__(
        self,
        randomizer: Randomizer,
        *,
        n: int,
        rate: float = 0.0,
        rounds: int = 1,
        least: float = 0,
        dummies: bool = True,
        adaptive: bool = False,
        rates: Iterable[float] = (),
    ) -> None:
        """Either one ``rate`` for all, or ``rates``, one per person."""
        parameters = CheckInParameters(
            n=n, rate=rate, rounds=rounds, least=least, dummies=dummies, adaptive=adaptive,
            rates=tuple(rates),
        )  # fmt: skip
        object.__setattr__(self, "randomizer", check_randomizer(randomizer))
        object.__setattr__(self, "parameters", parameters)
        object.__setattr__(self, "cover", None)
        object.__setattr__(self, "counts", None)
        object.__setattr__(self, "attended", False)

    @classmethod
    def make(cls, parameters: Any, randomizer: Randomizer, graph: Graph | None = None) -> Self:
        """Build from parameters; there is no graph."""
        del graph
        return cls(randomizer, **msgspec.structs.asdict(parameters))

    def uncovered(self, view: frozenset[str], colluders: Colluders) -> Guarantee:
        """Amplified by rate and crowd against the curator; ε0 for views with the shuffler."""
        return accountant.check_in_guarantee(
            self.randomizer,
            self.parameters,
            view,
            check_colluders(colluders, self.parameters.crowd),
            counts=self.counts,
            attended=self.attended,
        )

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> dict[str, Any]:
        """How many people a round is expected to have."""
        del delta, guarantee, colluders
        return {"participants_expected": self.parameters.participants_expected}

    def run_diagnostics(self, collected: Collected, delta: float) -> dict[str, Any]:
        """How many people took part in the rounds that were held, and how many were heard of."""
        del delta
        crowds = collected.crowds
        return {
            "rounds_held": len(crowds),
            "participants_fewest": min(crowds),
            "participants_mean": collected.received / len(crowds),
            "participants_most": max(crowds),
            "rounds_empty": crowds.count(0),
            **(
                {"weights": "people with a higher rate count more"} if self.parameters.rates else {}
            ),
        }

    def cost(self) -> Cost:
        """One message per round with dummies; else one per round in which the person is in."""
        chosen = self.parameters
        answers = chosen.participants_expected * chosen.rounds
        messages = chosen.rounds if chosen.dummies else answers / chosen.n
        return Cost(
            rounds=chosen.rounds,
            messages_per_person=messages,
            bytes_per_person=messages * check_in_bytes(self.randomizer.report_bytes, chosen.rounds),
            expected_error=expected_error(self.randomizer, answers, sampled=True),
        )

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        """Everyone's rounds at once."""
        check_crowd(self, values)
        rates, rounds = self.parameters.each_rate(), self.parameters.rounds
        return simulate.collect(self.randomizer, values, rates, rounds, seeds)

    def conditional_on(self, collected: Collected) -> Self:
        """All planned rounds, each with the smallest number of people that any is sure to have had.

        Fewer rounds than planned are charged as planned: whoever stops may have seen why. How many
        people are counted on in each is said in :meth:`_sure`. Without dummies the reports are
        counted instead, and a round that was not held as one without any. See
        ``docs/theory/stopping.md``.
        """
        held = collected if isinstance(collected, simulate.CheckedIn) else simulate.CheckedIn((), 0)
        if not any(held.present):
            raise ProtocolFailed(
                "no round was held, since too few people were heard of: lower least, or give "
                "people more time"
            )
        planned = self.parameters
        if not planned.dummies:
            missing = max(0, planned.rounds - len(held.rounds))
            return self._under(self.cover, planned, counts=(*held.crowds, *(0,) * missing))
        crowd = self._sure(held)
        if crowd == planned.crowd:
            return self
        happened = msgspec.structs.replace(planned, least=crowd)
        return self._under(self.cover, happened, attended=not planned.fewest)

    def _sure(self, held: simulate.CheckedIn) -> int:
        """The crowd that every planned round is sure to have.

        Of a single round: the people who were heard of, which nothing seen earlier can have
        decided. Of several: the crowd below which the shuffler drops a round unread, whoever came
        and why. Without such a least crowd: the fewest who were heard of, on the assumption, which
        is stated, that attendance follows no earlier round. If such a run was stopped early nobody
        knows who would have come, unless everyone always did.
        """
        planned, fewest = self.parameters, min(each for each in held.present if each)
        if planned.rounds == 1:
            return fewest
        if planned.fewest:
            return min(planned.fewest, fewest)
        stopped = len(held.present) + held.unheld < planned.rounds
        return 1 if stopped and fewest < planned.n else fewest

    def with_rounds(self, rounds: int) -> Self:
        """The same check-in, planned with another number of rounds."""
        return self._under(self.cover, msgspec.structs.replace(self.parameters, rounds=rounds))

    def subset(self, people: Sequence[int]) -> Self:
        """A smaller crowd, each with their own rate."""
        rates = tuple(self.parameters.rates[person] for person in people if self.parameters.rates)
        fewer = msgspec.structs.replace(self.parameters, n=len(people), rates=rates)
        return self.make(fewer, self.randomizer)

    def covered(self, delta: float, cells: CellFormat) -> tuple[Self, CoverPlan]:
        """With the same cells from everyone to the shuffler in each round; that needs no δ."""
        del delta
        if not self.parameters.dummies:
            raise NotProven(
                "cover needs dummies: without them the shuffler's answers show who stayed away; "
                "set dummies = true, or leave cover out",
                field="cover",
            )
        plan = check_in_cover(self.randomizer.report_bytes, self.parameters.rounds, cells)
        return self._under(plan, self.parameters), plan

    def _under(
        self,
        cover: CoverPlan | None,
        parameters: CheckInParameters,
        *,
        counts: tuple[int, ...] | None = None,
        attended: bool = False,
    ) -> Self:
        same = self.make(parameters, self.randomizer)
        object.__setattr__(same, "cover", cover)
        object.__setattr__(same, "counts", counts)
        object.__setattr__(same, "attended", attended)
        return same

    def duration(self, timing: Timing) -> float:
        """Until the last round is over for good, and the curator has got it."""
        return closes(self.parameters.rounds - 1, timing) + super().duration(timing)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        """One person's device, the shuffler, or the curator."""
        from incrowd.protocols.check_in.roles import Curator, Device, Shuffler

        chosen, reports = self.parameters, ReportFormat.of(self.randomizer)
        if address == CURATOR:
            return Curator(chosen.n, reports, chosen.rounds, sealer=context.sealer)
        if address == SHUFFLER:
            return Shuffler(
                devices(self.parameters.n),
                reports.nbytes,
                chosen.rounds,
                least=chosen.fewest,
                dummies=chosen.dummies,
                generator=context.generator,
                timing=context.timing,
            )
        person = person_of(address)
        return Device(
            context.value,
            self.randomizer,
            chosen.rounds,
            report_bytes=reports.nbytes,
            rate=chosen.rate_of(person),
            dummies=chosen.dummies,
            # Under cover the cells leave at the device's time, and what is in them is there before.
            share=phase(person) if self.cover is None else 0.0,
            rng=context.generator(),
            sealer=context.sealer,
            timing=context.timing,
        )
