"""Shuffled check-in: in every round a random crowd answers, through a shuffler.

Each person joins each round with some probability, by a coin of their own; who is in randomizes
their value afresh and sends it to a shuffler, which forwards the round in random order. Nobody
chooses the crowd, and nobody is told who was in it. Liew, Hasegawa and Takahashi, "Privacy
Amplification via Shuffled Check-Ins"; what is proven is in ``docs/theory/check_in.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from incrowd import checks
from incrowd.blocks import Fact
from incrowd.errors import InvalidCrowd, InvalidParameter, NotProven, ProtocolFailed
from incrowd.privacy.guarantee import Guarantee
from incrowd.protocols.api import Colluders, Cost, check_colluders
from incrowd.protocols.capabilities import Anytime, Coverable, RunDiagnostics
from incrowd.protocols.check_in import accountant, simulate
from incrowd.protocols.check_in.cover import check_in_cover, closes
from incrowd.protocols.check_in.messages import check_in_bytes
from incrowd.protocols.expected_error import expected_error
from incrowd.protocols.families import Adaptive, Crowd, ShufflerProtocol
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, Actor, Address, person_of
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.cover import CellFormat
from incrowd.protocols.runtime.wire import ReportFormat
from incrowd.protocols.settings import setting
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected

_ROUND = 2.0**-50


def _number_or_share(value: float, name: str) -> float:
    if checks.number(value, name) < 0 or (value >= 1 and value != round(value)):
        whole = f"{name} must be a whole number of people or a share of them below 1"
        raise InvalidParameter(f"{whole}, got {value:g}", field=name)
    return value


@dataclass(frozen=True)
class CheckIn(ShufflerProtocol, Coverable, Anytime, RunDiagnostics):
    """In each of ``rounds`` rounds everyone takes part with probability ``rate``.

    Either one ``rate`` for all is given, or ``rates``, one per person.
    """

    kind: ClassVar[str] = "check-in"
    collected_type: ClassVar[type[Collected]] = simulate.CheckedIn

    _: KW_ONLY
    n: Crowd
    rounds: Annotated[
        int, setting("rounds, each with a fresh random crowd", solve="max", least=1)
    ] = 1
    rate: Annotated[
        float,
        setting(
            "the chance that a person takes part in a round, above 0 and up to 1",
            solve="max",
            most=1.0,
            default="",
        ),
    ] = 0.0
    min_participants: Annotated[
        float,
        setting(
            "the smallest crowd to count on, as a number of people or a share of them (below 1): a "
            "round in which fewer are heard of is dropped unread",
            check=_number_or_share,
            default="all n, and no round is dropped",
        ),
    ] = 0
    dummies: Annotated[
        bool, setting("people who stay away send an equal dummy, so that traffic does not show it")
    ] = True
    adaptive: Adaptive = False
    rates: Annotated[
        tuple[float, ...],
        setting("a file with each person's own rate, one per line, in place of one for all"),
    ] = ()
    counts: tuple[int, ...] | None = None
    """Reports of each round of a run without dummies; none before it, and with dummies."""
    attended: bool = False
    """Whether the least crowd is that of a run, rather than one that the shuffler insists on."""

    def _resolved(self) -> Mapping[str, Any]:
        rates, fewest = tuple(self.rates), self.min_participants
        if not rates and not self.rate:
            wanted = "the chance that a person takes part in a round, above 0 and up to 1"
            raise InvalidParameter(f"rate must be given: {wanted}, or rates", field="rate")
        if not rates:
            checks.rate(self.rate)
        elif self.rate:
            twice = "rates are in place of one rate for all: give only one of them"
            raise InvalidParameter(twice, field="rates")
        elif len(rates) != self.n:
            wrong = f"rates has {len(rates)} entries for n = {self.n} people: give one each"
            raise InvalidCrowd(wrong, field="rates")
        if fewest and not self.dummies:
            raise InvalidParameter(
                "min_participants needs dummies: without them nobody can tell who stayed away from "
                "who was not there",
                field="min_participants",
            )
        if fewest > self.n:
            most = f"min_participants must be at most the n = {self.n} people"
            raise InvalidCrowd(f"{most}, got {fewest:g}", field="min_participants")
        own = (checks.rate(each, f"rates (of person {i})", "rates") for i, each in enumerate(rates))
        return {"rates": tuple(own)}

    @property
    def fewest(self) -> int:
        """A round in which fewer people are heard of is dropped."""
        if self.min_participants >= 1:
            return int(self.min_participants)
        # A share such as 0.55 is a little more or less than what it is meant to be.
        return math.ceil(self.min_participants * self.n * (1 - _ROUND))

    @property
    def crowd(self) -> int:
        """The crowd that every round is sure to have."""
        return self.fewest or self.n

    def each_rate(self) -> NDArray[np.float64]:
        """Everybody's chance to take part in a round."""
        return np.array(self.rates) if self.rates else np.full(self.n, self.rate)

    def rate_of(self, person: int) -> float:
        """One person's chance to take part in a round."""
        return self.rates[person] if self.rates else self.rate

    @property
    def participants_expected(self) -> float:
        """Expected number of participants of a round."""
        return sum(self.rates) if self.rates else self.n * self.rate

    def uncovered(self, view: frozenset[str], colluders: Colluders) -> Guarantee:
        return accountant.check_in_guarantee(self, view, check_colluders(colluders, self.crowd))

    def diagnostics(
        self, delta: float, guarantee: Guarantee, colluders: Colluders = 0
    ) -> tuple[Fact, ...]:
        del delta, guarantee, colluders
        return (Fact("participants_expected", self.participants_expected),)

    def run_diagnostics(self, collected: Collected, delta: float) -> tuple[Fact, ...]:
        del delta
        crowds = collected.crowds
        weights = Fact("weights", "people with a higher rate count more")
        return (
            Fact("rounds_held", len(crowds)),
            Fact("participants_fewest", min(crowds)),
            Fact("participants_mean", collected.received / len(crowds)),
            Fact("participants_most", max(crowds)),
            Fact("rounds_empty", crowds.count(0)),
            *([weights] if self.rates else []),
        )

    def cost(self) -> Cost:
        answers = self.participants_expected * self.rounds
        messages = self.rounds if self.dummies else answers / self.n
        return Cost(
            rounds=self.rounds,
            messages_per_person=messages,
            bytes_per_person=messages * check_in_bytes(self.randomizer.report_bytes, self.rounds),
            expected_error=expected_error(self.randomizer, answers, sampled=True),
        )

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self.randomizer, values, self.each_rate(), self.rounds, seeds)

    def conditional_on(self, collected: Collected) -> Self:
        """All planned rounds, each with the smallest number of people that any is sure to have had.

        Fewer rounds than planned are charged as planned: the party that stops may have seen why.
        The people who are counted on in each are those of :meth:`_sure`. Without dummies the
        reports are counted instead, and a round that was not held as one without any. See
        ``docs/theory/stopping.md``.
        """
        held = collected if isinstance(collected, simulate.CheckedIn) else simulate.CheckedIn((), 0)
        if not any(held.present):
            raise ProtocolFailed(
                "no round was held, since too few people were heard of: lower min_participants, or "
                "give people more time"
            )
        if not self.dummies:
            missing = max(0, self.rounds - len(held.rounds))
            return replace(self, counts=(*held.crowds, *(0,) * missing))
        crowd = self._sure(held)
        if crowd == self.crowd:
            return self
        return replace(self, min_participants=crowd, attended=not self.fewest)

    def _sure(self, held: simulate.CheckedIn) -> int:
        """The crowd that every planned round is sure to have.

        Of a single round: the people who were heard of, which nothing seen earlier can have
        decided. Of several: the crowd below which the shuffler drops a round unread, whoever came
        and why. Without such a least crowd: the fewest who were heard of, on the assumption, which
        is stated, that attendance follows no earlier round. If such a run was stopped early nobody
        knows who would have come, unless everyone always did.
        """
        fewest = min(each for each in held.present if each)
        if self.rounds == 1:
            return fewest
        if self.fewest:
            return min(self.fewest, fewest)
        stopped = len(held.present) + held.unheld < self.rounds
        return 1 if stopped and fewest < self.n else fewest

    def with_rounds(self, rounds: int) -> Self:
        return replace(self, rounds=rounds, counts=None, attended=False)

    def subset(self, people: Sequence[int]) -> Self:
        rates = tuple(self.rates[person] for person in people if self.rates)
        planned = replace(self, counts=None, attended=False, cover=None)
        return replace(planned, n=len(people), rates=rates)

    def covered(self, delta: float, cells: CellFormat) -> Self:
        del delta
        if not self.dummies:
            raise NotProven(
                "cover needs dummies: without them the shuffler's answers show who stayed away; "
                "set dummies = true, or leave cover out",
                field="cover",
            )
        drawn = check_in_cover(self.randomizer.report_bytes, self.rounds, cells)
        return replace(self, cover=drawn, counts=None, attended=False)

    def duration(self, timing: Timing) -> float:
        return closes(self.rounds - 1, timing) + super().duration(timing)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        from incrowd.protocols.check_in.roles import Curator, Device, Shuffler

        reports = ReportFormat.of(self.randomizer)
        if address == CURATOR:
            return Curator(self.n, reports, self.rounds, sealer=context.sealer)
        if address == SHUFFLER:
            return Shuffler(self, reports.nbytes, context)
        return Device(self, person_of(address), reports.nbytes, context)
