"""The protocols: how reports travel, and what that hides.

This registry is the only place that names them. A protocol's module is imported when it is first
asked for, so that importing the package stays cheap; adding one means adding its folder and a line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from incrowd.errors import InvalidParameter
from incrowd.protocols.api import Cost, Protocol
from incrowd.protocols.run import Run
from incrowd.protocols.settings import Parameters

__all__ = ["PROTOCOLS", "Cost", "Parameters", "Protocol", "Run", "load"]

PROTOCOLS: Final[dict[str, str]] = {
    "check-in": "incrowd.protocols.check_in:CheckIn",
    "local": "incrowd.protocols.local:Local",
    "network-shuffle": "incrowd.protocols.network_shuffle:NetworkShuffle",
    "order-shuffle": "incrowd.protocols.order_shuffle:OrderShuffle",
    "scrambler": "incrowd.protocols.scrambled_query:ScrambledQuery",
    "token-walk": "incrowd.protocols.token_walk:TokenWalk",
    "shuffle": "incrowd.protocols.trusted_shuffle:TrustedShuffle",
}
"""Every protocol by its name in survey files and on the command line: module and class."""


def load(kind: str) -> type[Protocol]:
    """The class of a protocol, imported now."""
    try:
        module, name = PROTOCOLS[kind].split(":")
    except KeyError:
        known = ", ".join(sorted(PROTOCOLS))
        raise InvalidParameter(f"unknown protocol {kind!r}: choose one of {known}") from None
    protocol: type[Protocol] = getattr(import_module(module), name)
    return protocol
