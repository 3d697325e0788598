"""Network shuffling: reports walk from person to person before they are handed in."""

from incrowd.protocols.network_shuffle.spec import NetworkShuffle, NetworkShuffleParameters

__all__ = ["NetworkShuffle", "NetworkShuffleParameters"]
