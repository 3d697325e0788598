"""Network shuffling: reports walk from person to person before they are handed in."""

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names

if TYPE_CHECKING:
    from incrowd.protocols.network_shuffle.spec import NetworkShuffle

__all__ = ["NetworkShuffle"]

__getattr__ = lazy_names(__name__, {"NetworkShuffle": "incrowd.protocols.network_shuffle.spec"})
