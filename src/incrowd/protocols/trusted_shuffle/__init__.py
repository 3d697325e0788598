"""One trusted shuffler between devices and curator: the ideal that other protocols approach."""

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names

if TYPE_CHECKING:
    from incrowd.protocols.trusted_shuffle.spec import TrustedShuffle

__all__ = ["TrustedShuffle"]

__getattr__ = lazy_names(__name__, {"TrustedShuffle": "incrowd.protocols.trusted_shuffle.spec"})
