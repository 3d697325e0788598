"""How sealed cells get from one party to another, at least once each.

A transport serves one party of one survey. What all of them promise:

* ``send`` returns when the cells are durable with the next holder (the hub, the stream, or the
  receiving party itself), or says for each why it will never be. Until then the sender keeps them
  in its outbox; after a failure it sends the same bytes again.
* a delivered cell comes again, also after a restart of either side, until the receiver has called
  ``took`` on it. The receiver does so after its own commit.
* cells may be repeated, delayed and overtaken. Nothing else: what arrives was sent.

A transport never looks inside a cell beyond its public header.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from incrowd.live.reasons import Reason


class Unreachable(Exception):
    """The next holder cannot be reached now; try again later with the same bytes."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Cells that arrived together, each with the token by which it is later taken."""

    cells: Sequence[tuple[int, bytes]]


class Transport(ABC):
    """One party's way to the others."""

    shared: ClassVar[bool] = True
    """Whether one holder takes cells for all recipients, so that they are best sent together; else
    every recipient holds its own, and answers only when it has taken them."""

    @abstractmethod
    async def open(self) -> None:
        """Get ready to send and receive; raises ``Unreachable`` when that is not possible yet."""

    @abstractmethod
    async def send(self, cells: Sequence[bytes]) -> list[Reason | None]:
        """Hand the cells on; for each none when it is durable, or why it never will be.

        Raises ``Unreachable`` when nothing, or not everything, is known to be durable.
        """

    @abstractmethod
    def deliveries(self) -> AsyncIterator[Delivery]:
        """What arrives, until the transport is closed; it reconnects by itself."""

    @abstractmethod
    async def took(self, tokens: Sequence[int]) -> None:
        """These cells are safe with the receiver; they need not come again."""

    @abstractmethod
    async def close(self) -> None:
        """Stop; what is unacknowledged on either side stays where it is durable."""
