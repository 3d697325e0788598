"""The parameters of network shuffling: flags, survey keys and the signed task come from here."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from incrowd import checks
from incrowd.errors import InvalidParameter
from incrowd.graphs.specs import names_family
from incrowd.protocols.network_shuffle.simulate import Mode
from incrowd.protocols.settings import Parameters, parameter

Rounds = int | Literal["auto"]


class NetworkShuffleParameters(Parameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of :class:`NetworkShuffle`."""

    n: Annotated[
        int,
        parameter(
            "people who take part, the victim included", solve="min", default="counted in the graph"
        ),
    ] = 0
    graph: Annotated[
        str,
        parameter(
            "file that says who can talk to whom, or a family of graphs such as regular:8",
            path=True,
            default="none",
        ),
    ] = ""
    rounds: Annotated[
        Rounds,
        parameter(
            "times that each report moves on; auto: the fewest that come within a factor of the "
            "trusted shuffler",
            solve="min",
        ),
    ] = "auto"
    laziness: Annotated[float, parameter("chance that a report stays where it is in a round")] = 0.0
    mode: Annotated[
        Mode,
        parameter("hand in all reports held at the end, or a single one, or a dummy when none"),
    ] = "all"
    peers: Annotated[
        int, parameter("random others whom everyone knows besides their neighbours in the graph")
    ] = 0
    within: Annotated[
        float, parameter("with rounds = auto: the factor of the trusted shuffler's ε to come to")
    ] = 1.05
    share: Annotated[
        float, parameter("with rounds = auto: the share of people for whom that must hold")
    ] = 1.0
    stationary: Annotated[
        bool, parameter("take the walks as perfectly mixed, as after endless rounds")
    ] = False

    def __post_init__(self) -> None:
        """Refuse what describes no walk."""
        # A file counts its people; what has none takes their number from here.
        sized = names_family(self.graph) or (self.stationary and not self.graph)
        if self.n or sized:
            msgspec.structs.force_setattr(self, "n", checks.crowd(self.n))
        if self.rounds != "auto":
            if isinstance(self.rounds, str):
                raise InvalidParameter(
                    f"rounds must be a whole number or auto, got {self.rounds!r}", field="rounds"
                )
            msgspec.structs.force_setattr(self, "rounds", checks.integer(self.rounds, "rounds", 0))
        checks.probability(self.laziness, "laziness")
        if self.laziness == 1:
            raise InvalidParameter(
                "laziness must be below 1: nothing would ever move", field="laziness"
            )
        if self.mode not in ("all", "single"):
            raise InvalidParameter(f"mode must be all or single, got {self.mode!r}", field="mode")
        msgspec.structs.force_setattr(self, "peers", checks.integer(self.peers, "peers", 0))
        if checks.number(self.within, "within") <= 1:
            raise InvalidParameter(
                f"within must be a factor above 1, got {self.within!r}", field="within"
            )
        if checks.probability(self.share, "share") == 0:
            raise InvalidParameter(f"share must be above 0, got {self.share!r}", field="share")
