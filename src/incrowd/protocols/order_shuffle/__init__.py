"""Order-private shuffling: reports come out near the places they came from."""

from incrowd.protocols.order_shuffle.parameters import OrderShuffleParameters
from incrowd.protocols.order_shuffle.spec import OrderShuffle

__all__ = ["OrderShuffle", "OrderShuffleParameters"]
