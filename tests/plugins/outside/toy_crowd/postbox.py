"""A protocol with a helper of its own: a postbox collects sealed reports for the curator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.mechanisms.local import local_guarantee
from incrowd.protocols.api import Colluders, check_colluders, check_randomizer
from incrowd.protocols.families import ReportingProtocol
from incrowd.protocols.local import simulate
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import (
    CURATOR,
    SHUFFLER,
    Actor,
    Address,
    Message,
    Send,
    devices,
)
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.wire import ReportFormat
from incrowd.protocols.settings import Parameters, RoundParameters
from incrowd.protocols.trusted_shuffle import roles
from incrowd.randomizers.base import Randomizer
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected
from incrowd.views import view_of

POSTBOX = "postbox"
VIEWS = ("curator", "curator+hub", "curator+postbox", "everyone")


class PostboxParameters(RoundParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of :class:`ToyPostbox`."""


@dataclass(frozen=True, init=False)
class ToyPostbox(ReportingProtocol):
    """Everyone sends ``rounds`` fresh reports, sealed to the curator, to a postbox."""

    kind: ClassVar[str] = "toy-postbox"
    parameters_type: ClassVar[type[Parameters]] = PostboxParameters

    randomizer: Randomizer
    parameters: PostboxParameters

    def __init__(self, randomizer: Randomizer, *, n: int, rounds: int = 1) -> None:
        object.__setattr__(self, "randomizer", check_randomizer(randomizer))
        object.__setattr__(self, "parameters", PostboxParameters(n=n, rounds=rounds))

    @property
    def views(self) -> tuple[str, ...]:
        return VIEWS

    @property
    def helpers(self) -> tuple[Address, ...]:
        return (POSTBOX, CURATOR)

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """ε0 per round against every view: the postbox keeps the order."""
        count = check_colluders(colluders, self.parameters.n)
        return local_guarantee(self.randomizer, self.parameters.rounds, view_of(view), count)

    def guarantees(self) -> tuple[Guarantee, ...]:
        return tuple(map(self.guarantee, VIEWS))

    def collect(self, values: Any, seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self.randomizer, values, self.parameters.rounds, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        people, reports = self.parameters.n, ReportFormat.of(self.randomizer)
        if address == CURATOR:
            return Curator(people, reports, self.parameters.rounds, sealer=context.sealer)
        if address == POSTBOX:
            return Postbox(
                devices(people), reports.nbytes, self.parameters.rounds,
                generator=context.generator, timing=context.timing,
            )  # fmt: skip
        return self.device(Device, context)


class Device(roles.Device):
    """Sends to the postbox."""

    collector: ClassVar[Address] = POSTBOX


class Postbox(roles.Shuffler):
    """Hands the reports of a round on in the order in which they came."""

    def _permuted(self, number: int, payloads: list[bytes]) -> list[bytes]:
        del number
        return payloads


class Curator(roles.Curator):
    """Takes batches from the postbox, as another takes them from a shuffler."""

    def receive(self, message: Message, now: float) -> list[Any]:
        if message.sender != POSTBOX:
            return []
        effects = super().receive(Message(SHUFFLER, message.body), now)
        return [Send(POSTBOX, each.body) if isinstance(each, Send) else each for each in effects]
