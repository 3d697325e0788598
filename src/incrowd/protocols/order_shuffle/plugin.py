"""The declaration of ``order-shuffle``, which imports nothing heavy."""

from __future__ import annotations

from incrowd.protocols.parties import SHUFFLER, SHUFFLER_VIEWS
from incrowd.protocols.registry import ProtocolPlugin

PLUGIN = ProtocolPlugin(
    kind="order-shuffle",
    summary="a trusted shuffler releases reports near the places they came from",
    target="incrowd.protocols.order_shuffle.spec:OrderShuffle",
    default_randomizers={"category": ("krr",)},
    tasks=("release",),
    parties=(SHUFFLER,),
    stated_views=SHUFFLER_VIEWS,
    docs="order-shuffle.md",
    paper="A Shuffling Framework for Local Differential Privacy (Meehan, Roy Chowdhury, "
    "Chaudhuri, Jha)",
    accounting_randomizer="incrowd.randomizers.response:Unstated",
    default_delta=0.0,
    commands={
        "release": (
            "incrowd.cli.release:release_command",
            "Release a table of answers near the places they came from.",
        ),
    },
)
