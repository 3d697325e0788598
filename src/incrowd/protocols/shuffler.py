"""What protocols have in common in which reports pass through a shuffler that is trusted to forget.

They differ in who takes part and in what the shuffler does to the reports. What follows for the
views is the same: the shuffle hides nothing from whoever colludes with the shuffler, and with cover
traffic a hub that helps the curator adds nothing to what the curator sees.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from incrowd.privacy.guarantee import Guarantee, view_of
from incrowd.protocols.actor import CURATOR, SHUFFLER, Address
from incrowd.protocols.base import Colluders, Protocol
from incrowd.protocols.cover import COVERED, CoverPlan, against_hub

__all__ = ["ShufflerProtocol"]


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
