"""The declaration of ``token-walk``, which imports nothing heavy."""

from __future__ import annotations

from incrowd.protocols.registry import Party, ProtocolPlugin

PLUGIN = ProtocolPlugin(
    kind="token-walk",
    summary="a token goes from person to person, and each adds a noisy answer",
    target="incrowd.protocols.token_walk.spec:TokenWalk",
    default_randomizers={"category": ("krr",), "interval": ("gaussian",)},
    parties=(
        Party(
            name="courier",
            number=2,
            description="the party that carries tokens between people, without reading them",
        ),
    ),
    docs="token-walk.md",
    paper="Privacy Amplification by Decentralization (Cyffers, Bellet)",
    stated_views=("peer", "peer+hub", "curator", "curator+hub", "everyone"),
    default_view="peer",
    exports={"TokenSGD": "incrowd.protocols.token_walk.learning"},
)
