"""One party of a joint run: an actor for each question, which share addresses and the clock.

Every message carries the number of its question in front, and so does everything that is sealed for
another party: a report that is handed in under another question does not open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.api import Protocol
from incrowd.protocols.joint.collected import JointCollected, collected_type
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Address,
    Done,
    Effect,
    Message,
    Sealer,
    Send,
    Wake,
)
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.runtime.delivery import wake_at
from incrowd.protocols.runtime.outputs import pack_output, unpack_output

MOST: Final = 255
"""Most questions; the last number of a byte is for messages to all of them."""
_EVERY: Final = bytes([MOST])


def to_every(body: bytes) -> bytes:
    """Address a message to the actors of all questions."""
    return _EVERY + body


class _State(msgspec.Struct, array_like=True):
    actors: list[bytes]
    wakes: list[float | None]
    outputs: list[bytes | None]


class JointActor(Actor):
    """Plays one party's actors side by side; done when all of them are."""

    def __init__(self, address: Address, parts: Sequence[Protocol], context: ActorContext) -> None:
        self._curator = address == CURATOR
        self._kinds = [part.collected_type for part in parts]
        self._actors = [
            part.actor(address, _context(context, number, part))
            for number, part in enumerate(parts)
        ]
        self._wakes: list[float | None] = [None] * len(parts)
        self._outputs: list[bytes | None] = [None] * len(parts)

    def start(self, now: float) -> list[Effect]:
        return self._joined((number, actor.start(now)) for number, actor in enumerate(self._actors))

    def receive(self, message: Message, now: float) -> list[Effect]:
        number, body = message.body[:1], message.body[1:]
        named = range(len(self._actors)) if number == _EVERY else number
        inner = Message(message.sender, body)
        return self._joined(
            (each, self._actors[each].receive(inner, now))
            for each in named
            if each < len(self._actors)
        )

    def wake(self, now: float) -> list[Effect]:
        due = [number for number, at in enumerate(self._wakes) if at is not None and at <= now]
        for number in due:
            self._wakes[number] = None
        return self._joined((number, self._actors[number].wake(now)) for number in due)

    def _joined(self, found: Any) -> list[Effect]:
        """Effects of all actors: messages with their numbers, the earliest time, one end."""
        effects: list[Effect] = []
        over = False
        for number, part in found:
            for effect in part:
                match effect:
                    case Send(to, body):
                        effects.append(Send(to, bytes([number]) + body))
                    case Wake(at):
                        self._wakes[number] = at
                    case Done(output):
                        over = True
                        self._outputs[number] = pack_output(output if self._curator else None)
        effects += wake_at(*self._wakes)
        if over and None not in self._outputs:
            effects.append(Done(self._output()))
        return effects

    def _output(self) -> JointCollected | None:
        if not self._curator:
            return None
        pairs = zip(self._outputs, self._kinds, strict=True)
        parts = tuple(unpack_output(packed or b"", kind) for packed, kind in pairs)
        return collected_type(tuple(self._kinds)).of(parts)

    def state(self) -> bytes:
        states = [actor.state() for actor in self._actors]
        return wire.encode(_State(states, self._wakes, self._outputs))

    def resume(self, state: bytes) -> None:
        stored = msgspec.msgpack.decode(state, type=_State)
        self._wakes, self._outputs = stored.wakes, stored.outputs
        for actor, each in zip(self._actors, stored.actors, strict=True):
            actor.resume(each)


def column_of(values: NDArray[Any], number: int, part: Protocol) -> NDArray[Any]:
    """Return one question's column of encoded values, as its randomizer takes it."""
    column = values[:, number]
    return column.astype(np.int64) if part.randomizer.domain == "category" else column


def _context(context: ActorContext, number: int, part: Protocol) -> ActorContext:
    value = None if context.value is None else column_of(context.value, number, part)
    return replace(
        context,
        generator=partial(context.generator, number),
        value=value,
        sealer=_NumberedSealer(context.sealer, bytes([number])),
    )


class _NumberedSealer:
    """Seals bytes together with the number of their question."""

    def __init__(self, sealer: Sealer, number: bytes) -> None:
        self._sealer, self._number = sealer, number
        self.public_of = sealer.public_of

    def seal(self, to: Address, plain: bytes) -> bytes:
        return self._sealer.seal(to, self._number + plain)

    def open(self, sealed: bytes) -> bytes:
        return self._stripped(self._sealer.open(sealed))

    def seal_to(self, public: bytes, plain: bytes) -> bytes:
        return self._sealer.seal_to(public, self._number + plain)

    def open_with(self, secret: bytes, sealed: bytes) -> bytes:
        return self._stripped(self._sealer.open_with(secret, sealed))

    def _stripped(self, plain: bytes) -> bytes:
        if plain[:1] != self._number:
            raise ValueError("sealed for another question")
        return plain[1:]
