"""Token walks: one token goes from person to person, and each adds a noisy contribution."""

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names

if TYPE_CHECKING:
    from incrowd.protocols.token_walk.spec import TokenWalk

__all__ = ["TokenWalk"]

__getattr__ = lazy_names(__name__, {"TokenWalk": "incrowd.protocols.token_walk.spec"})
