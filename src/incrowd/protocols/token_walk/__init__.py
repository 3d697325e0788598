"""Token walks: one token goes from person to person, and each adds a noisy contribution."""

from incrowd.protocols.token_walk.parameters import TokenWalkParameters
from incrowd.protocols.token_walk.spec import TokenWalk

__all__ = ["TokenWalk", "TokenWalkParameters"]
