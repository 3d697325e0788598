"""Common frame of the actors of a scrambled query: topology, deadlines, unanswered messages."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import msgspec

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import Actor, Effect
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import Outbox
from incrowd.protocols.scrambled_query.messages import RecordFormat
from incrowd.protocols.scrambled_query.topology import Places, deadlines

if TYPE_CHECKING:
    from incrowd.protocols.scrambled_query.spec import ScrambledQuery

SHORT = 1024
"""The longest body without records, sets of units or results."""


class QueryActor(Actor):
    """An actor that proceeds whenever something happens, and repeats unanswered messages."""

    _state: Any  # a struct with the messages of its ``outbox`` among others

    def __init__(self, protocol: ScrambledQuery, context: ActorContext) -> None:
        self._protocol = protocol
        self._places = Places.of(protocol)
        self._records = RecordFormat(protocol.asked)
        self._generator, self._sealer = context.generator, context.sealer
        self._until = deadlines(context.timing)
        self._outbox = Outbox(context.timing.backoff)

    def start(self, now: float) -> list[Effect]:
        return self._go_on(now)

    def wake(self, now: float) -> list[Effect]:
        """Repeat what was not answered, and proceed without silent parties if it is time."""
        return self._outbox.retry(now) + self._go_on(now)

    @abstractmethod
    def _go_on(self, now: float) -> list[Effect]:
        """Do what is due, and ask to be woken for the rest."""

    def state(self) -> bytes:
        return wire.encode(self._state)

    def resume(self, state: bytes) -> None:
        self._set_state(msgspec.msgpack.decode(state, type=type(self._state)))

    def _set_state(self, state: Any) -> None:
        self._state = state
        self._outbox.resume(state.outbox)
