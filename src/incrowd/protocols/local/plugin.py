"""The declaration of ``local``, which imports nothing heavy."""

from __future__ import annotations

from incrowd.protocols.registry import ProtocolPlugin

PLUGIN = ProtocolPlugin(
    kind="local",
    summary="every report goes straight to the curator; only the randomizer hides",
    target="incrowd.protocols.local.spec:Local",
    docs="shuffling.md",
)
