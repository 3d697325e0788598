"""The declaration of ``network-shuffle``, which imports nothing heavy."""

from __future__ import annotations

from incrowd.protocols.registry import ProtocolPlugin

PLUGIN = ProtocolPlugin(
    kind="network-shuffle",
    summary="reports walk from person to person over a graph, then are handed in",
    target="incrowd.protocols.network_shuffle.spec:NetworkShuffle",
    docs="network-shuffling.md",
    paper="Network Shuffling: Privacy Amplification via Random Walks (Liew, Takahashi, Takagi, "
    "Kato, Cao, Yoshikawa)",
)
