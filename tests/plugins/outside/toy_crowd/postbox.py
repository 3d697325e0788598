"""A protocol with a helper of its own: a postbox collects sealed reports for the curator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.mechanisms.local import local_guarantee
from incrowd.protocols.api import Colluders, check_colluders
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
from incrowd.protocols.trusted_shuffle import roles
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected
from incrowd.views import view_of

POSTBOX = "postbox"
VIEWS = ("curator", "curator+hub", "curator+postbox", "everyone")


@dataclass(frozen=True)
class ToyPostbox(ReportingProtocol):
    """Everyone sends ``rounds`` fresh reports, sealed to the curator, to a postbox."""

    kind: ClassVar[str] = "toy-postbox"

    @property
    def views(self) -> tuple[str, ...]:
        return VIEWS

    @property
    def helpers(self) -> tuple[Address, ...]:
        return (POSTBOX, CURATOR)

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        """ε0 per round against every view: the postbox keeps the order."""
        count = check_colluders(colluders, self.n)
        return local_guarantee(self.randomizer, self.rounds, view_of(view), count)

    def collect(self, values: Any, seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self.randomizer, values, self.rounds, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        people, reports = self.n, ReportFormat.of(self.randomizer)
        if address == CURATOR:
            return Curator(people, reports, self.rounds, sealer=context.sealer)
        if address == POSTBOX:
            return Postbox(
                devices(people), reports.nbytes, self.rounds,
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
