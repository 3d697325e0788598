"""The declaration of ``trusted-shuffle``, which imports nothing heavy."""

from __future__ import annotations

from incrowd.protocols.parties import SHUFFLER, SHUFFLER_VIEWS
from incrowd.protocols.registry import ProtocolPlugin

PLUGIN = ProtocolPlugin(
    kind="trusted-shuffle",
    summary="a trusted shuffler permutes the reports of each round",
    target="incrowd.protocols.trusted_shuffle.spec:TrustedShuffle",
    parties=(SHUFFLER,),
    stated_views=SHUFFLER_VIEWS,
    docs="shuffling.md",
)
