"""One trusted shuffler between devices and curator: the ideal that other protocols approach."""

from incrowd.protocols.trusted_shuffle.spec import TrustedShuffle, TrustedShuffleParameters

__all__ = ["TrustedShuffle", "TrustedShuffleParameters"]
