"""The declaration of ``check-in``, which imports nothing heavy."""

from __future__ import annotations

from incrowd.protocols.parties import SHUFFLER, SHUFFLER_VIEWS
from incrowd.protocols.registry import ProtocolPlugin

PLUGIN = ProtocolPlugin(
    kind="check-in",
    summary="a random crowd each round, through a shuffler",
    target="incrowd.protocols.check_in.spec:CheckIn",
    parties=(SHUFFLER,),
    stated_views=SHUFFLER_VIEWS,
    docs="check-in.md",
    paper="Privacy Amplification via Shuffled Check-Ins (Liew, Hasegawa, Takahashi)",
    exports={"CheckInSGD": "incrowd.protocols.check_in.learning"},
)
