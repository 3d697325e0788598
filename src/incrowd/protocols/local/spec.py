"""Local differential privacy: the randomizer is all that protects.

The baseline of every comparison: no crowd, no helper, nothing to trust, and therefore ε0 against
everyone. See ``docs/theory/local.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from incrowd.privacy.guarantee import Guarantee
from incrowd.privacy.mechanisms.local import local_guarantee
from incrowd.protocols.api import Colluders, check_colluders
from incrowd.protocols.families import ReportingProtocol
from incrowd.protocols.local import simulate
from incrowd.protocols.run import check_crowd
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address, devices
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.wire import ReportFormat
from incrowd.randomness import Seeds
from incrowd.tasks.base import Collected
from incrowd.views import view_of


@dataclass(frozen=True)
class Local(ReportingProtocol):
    """Everyone sends ``rounds`` fresh reports straight to the curator."""

    kind: ClassVar[str] = "local"

    def guarantee(self, view: str = "curator", colluders: Colluders = 0) -> Guarantee:
        count = check_colluders(colluders, self.n)
        return local_guarantee(self.randomizer, self.rounds, view_of(view), count)

    def collect(self, values: NDArray[Any], seeds: Seeds) -> Collected:
        check_crowd(self, values)
        return simulate.collect(self.randomizer, values, self.rounds, seeds)

    def actor(self, address: Address, context: ActorContext) -> Actor:
        from incrowd.protocols.local.roles import Curator, Device

        if address == CURATOR:
            people, reports = devices(self.n), ReportFormat.of(self.randomizer)
            return Curator(people, reports, self.rounds, timing=context.timing)
        return self.device(Device, context)
