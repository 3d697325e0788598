"""Order-private shuffling: reports come out near the places they came from."""

from typing import TYPE_CHECKING

from incrowd.plugins import lazy_names

if TYPE_CHECKING:
    from incrowd.protocols.order_shuffle.spec import OrderShuffle

__all__ = ["OrderShuffle"]

__getattr__ = lazy_names(__name__, {"OrderShuffle": "incrowd.protocols.order_shuffle.spec"})
