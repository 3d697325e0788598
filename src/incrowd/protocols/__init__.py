"""The protocols: how reports travel, and what that hides.

``incrowd.protocols.registry`` is the only place that names them. A protocol's module is imported
when it is first asked for, so that importing the package stays cheap; adding one means adding its
folder, with a declaration in ``plugin``, and a line there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names
from incrowd.protocols.registry import PROTOCOLS, Party, ProtocolPlugin, load

if TYPE_CHECKING:
    from incrowd.protocols.api import Cost, Protocol
    from incrowd.protocols.run import Run

__all__ = ["PROTOCOLS", "Cost", "Party", "Protocol", "ProtocolPlugin", "Run", "load"]

__getattr__ = lazy_names(
    __name__,
    {
        "Cost": "incrowd.protocols.api",
        "Protocol": "incrowd.protocols.api",
        "Run": "incrowd.protocols.run",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
