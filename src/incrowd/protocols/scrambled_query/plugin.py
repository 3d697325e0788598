"""The declaration of ``scrambled-query``, which imports nothing heavy."""

from __future__ import annotations

from incrowd.protocols.registry import Party, ProtocolPlugin

PLUGIN = ProtocolPlugin(
    kind="scrambled-query",
    summary="tuples go through scramblers, among dummies, to compute nodes",
    target="incrowd.protocols.scrambled_query.spec:ScrambledQuery",
    default_randomizers={"target": ("redirect",)},
    parties=(
        Party(
            name="scrambler",
            family=0,
            description="the party that mixes messages on their way, and knows where each goes",
        ),
        Party(name="spare", family=1),
        Party(name="compute", family=2),
    ),
    docs="scrambled-query.md",
    paper="Mitigating Leakage from Data Dependent Communications in Decentralized Computing using "
    "Differential Privacy (Ladjel, Anciaux, Bellet, Scerri)",
    stated_views=("network", "network+scrambler", "curator", "curator+network"),
    any_crowd=True,
    default_view="network",
    commands={
        "query": (
            "incrowd.cli.query:query_command",
            "Answer an SQL aggregate between people's devices.",
        ),
    },
    exports={"ScrambledKMeans": "incrowd.protocols.scrambled_query.kmeans"},
)
