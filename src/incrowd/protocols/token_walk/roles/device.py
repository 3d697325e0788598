"""The devices of a token walk.

    device  ── Stock(lot, one-time keys) ────────────────────────────────▶ relay
    device  ◀── Carry(token, turn, key, [sum], next key) ───────────────── relay
    device  ── Handed(token, turn, [sum + contribution]) ────────────────▶ relay
                       relay ── Homecoming(token, [sum], statistics) ─────▶ curator

The relay knows the path and never the content: a sum is sealed to a one-time key of the next
holder, and at the end to the curator. A device knows the content and never the path: it cannot tell
the owner of the key to which it seals, nor the sealer of the bytes that it opens.

A device only ever answers the relay. Every request about a token has a number, its *turn*, and a
device takes turns in order: it contributes once in each in which it is given the token, and to a
repeated request it gives the same bytes. Opening burns a one-time key, so that nothing can be
brought to it twice. Sums that it handed on stay with it until the relay has no more use for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    COURIER,
    CURATOR,
    Actor,
    Address,
    Done,
    Effect,
    Message,
    Send,
    Wake,
    owned,
    person_of,
)
from incrowd.protocols.runtime.context import ActorContext
from incrowd.protocols.settings import refuse
from incrowd.protocols.token_walk.roles import messages
from incrowd.protocols.token_walk.roles.curator import Curator
from incrowd.protocols.token_walk.roles.messages import HOME, LOT
from incrowd.protocols.token_walk.roles.relay import Relay, walk_seconds
from incrowd.protocols.token_walk.roles.token import token_format
from incrowd.protocols.token_walk.simulate import noise_alone
from incrowd.randomizers.base import FloatArray

if TYPE_CHECKING:
    from incrowd.protocols.token_walk.spec import TokenWalk

_SPARE_LOTS = 1000  # lots of keys that a device makes beyond the visits of a walk
_TO_DEVICE = msgspec.msgpack.Decoder(
    messages.Restock | messages.Carry | messages.Again | messages.Release | messages.Over
)


def make_actor(protocol: TokenWalk, address: Address, context: ActorContext) -> Actor:
    """Return the actor at this address: a device, the relay, or the curator."""
    refuse(protocol.reads, "task sgd is trained by TokenSGD: it is not played by devices")
    if address == COURIER:
        return Relay(protocol, context)
    if address == CURATOR:
        return Curator(protocol, context.sealer)
    return Device(protocol, person_of(address), context)


@dataclass(frozen=True)
class DeviceResult:
    """The output of a device."""

    contributions: int


def _contribution(
    protocol: TokenWalk, value: NDArray[Any], turn: int, rng: np.random.Generator
) -> FloatArray:
    randomizer, scale, added = protocol.randomizer, 1.0, 0
    if protocol.topology == "ring":
        ring = protocol.ring
        if randomizer.uniform_blanket:
            ends = turn == 0 or (ring.published and turn == ring.steps - 1)
            added = ring.uniform_elements(randomizer.blanket().gamma) if ends else 0
        else:
            scale = ring.noise_scale(turn)
    value = randomizer.filled(value, rng)
    if scale == 1:
        report = randomizer.randomize_exactly(value, rng)
    else:
        report = randomizer.randomize_scaled(value, scale, rng)
    drawn = randomizer.tally(report)
    return drawn + noise_alone(randomizer, added, rng) if added else drawn


class _DeviceState(msgspec.Struct, array_like=True):
    lot: int = -1  # the last lot of keys that was asked for
    keys: list[bytes] = []  # the public halves of that lot
    secrets: dict[bytes, bytes] = {}  # the secret halves of all unused keys, by the public ones
    turns: dict[int, int] = {}  # the last turn of each token that was answered
    answers: dict[int, bytes] = {}  # the answers to them
    sums: dict[int, dict[int, bytes]] = {}  # sums that may be asked for again, by token and turn
    contributions: dict[int, int] = {}  # contributions to each token, without those of noise alone
    over: bool = False
    # The encoded value as type, shape and bytes, from the start until the walk is over: the noise
    # of a contribution depends on the turn and is drawn when the token comes.
    value: tuple[str, list[int], bytes] = ("<i8", [0], b"")


def _unpacked(kind: str, shape: list[int], content: bytes) -> NDArray[Any]:
    return np.frombuffer(content, np.dtype(kind)).reshape(shape)


class Device(Actor):
    """Adds its owner's contribution whenever a token comes."""

    def __init__(self, protocol: TokenWalk, person: int, context: ActorContext) -> None:
        self._protocol, self._format = protocol, token_format(protocol)
        self._person, self._context, self._sealer = person, context, context.sealer
        self._limit = messages.limit_of(self._format)
        self._state = _DeviceState()

    def start(self, now: float) -> list[Effect]:
        """Keep the value, and wait for the relay, but no longer than the walk can last."""
        del now
        value = owned(self._context.value)
        self._state.value = value.dtype.str, list(value.shape), value.tobytes()
        return [Wake(walk_seconds(self._protocol.length, self._context.timing))]

    def receive(self, message: Message, now: float) -> list[Effect]:
        del now
        if message.sender != COURIER or self._state.over:
            return []
        asked = wire.decode(_TO_DEVICE, message.body, self._limit)
        if isinstance(asked, messages.Restock):
            return self._restock(asked)
        if isinstance(asked, messages.Carry | messages.Again):
            return self._take_turn(asked)
        if isinstance(asked, messages.Release):
            self._state.sums.get(asked.token, {}).pop(asked.turn, None)
        return self._end() if isinstance(asked, messages.Over) else []

    def wake(self, now: float) -> list[Effect]:
        del now
        return self._end()

    def _end(self) -> list[Effect]:
        state = self._state
        self._state = _DeviceState(contributions=state.contributions, over=True)
        return [Done(DeviceResult(sum(state.contributions.values())))]

    def _restock(self, asked: messages.Restock) -> list[Effect]:
        state = self._state
        most = self._protocol.tokens * self._protocol.length + _SPARE_LOTS
        if asked.lot == state.lot + 1 and asked.lot < most:
            rng = self._context.generator(0, asked.lot)
            secrets = [rng.bytes(messages.KEY_BYTES) for _ in range(LOT)]
            state.lot, state.keys = asked.lot, [self._sealer.public_of(each) for each in secrets]
            state.secrets.update(zip(state.keys, secrets, strict=True))
        if asked.lot != state.lot:
            return []
        return [Send(COURIER, wire.encode(messages.Stock(state.lot, state.keys)))]

    def _take_turn(self, asked: messages.Carry | messages.Again) -> list[Effect]:
        state, token, turn = self._state, asked.token, asked.turn
        last = state.turns.get(token, -1)
        if token >= self._protocol.tokens or turn < last:
            return []
        if turn > last:
            # A sum that cannot have been sent, or a key that is none, changes nothing.
            try:
                if isinstance(asked, messages.Carry):
                    answer = self._add(asked)
                else:
                    answer = self._seal(asked, state.sums.get(token, {}).get(asked.of))
            except ValueError:
                return []
            state.turns[token], state.answers[token] = turn, answer
        return [Send(COURIER, state.answers[token])]

    def _add(self, asked: messages.Carry) -> bytes:
        state, token, turn, protocol = self._state, asked.token, asked.turn, self._protocol
        so_far = state.contributions.get(token, 0)
        secret = state.secrets.get(asked.key)
        if secret is None or (so_far >= (protocol.cap or protocol.length) and not asked.blank):
            raise ValueError("nothing is to be brought here")
        # Only on a ring do turns and steps agree, since no person is ever passed over.
        own = turn < protocol.length and turn % protocol.n == self._person
        if (asked.blank and not protocol.cap) or (protocol.topology == "ring" and not own):
            raise ValueError("nobody asks for this")
        total = self._format.empty()
        if asked.sealed:
            total = self._format.unpack(self._sealer.open_with(secret, asked.sealed))
        rng = self._context.generator(1, token, turn)
        if asked.blank:
            drawn = noise_alone(protocol.randomizer, 1, rng, exactly=True)
        else:
            drawn = _contribution(protocol, _unpacked(*state.value), turn, rng)
        packed = self._format.pack(total + drawn)
        answer = self._seal(asked, packed)
        # From here on nothing can fail: the key is used up, and the contribution made.
        del state.secrets[asked.key]
        state.contributions[token] = so_far + (not asked.blank)
        state.sums.setdefault(token, {})[turn] = packed
        return answer

    def _seal(self, asked: messages.Carry | messages.Again, packed: bytes | None) -> bytes:
        if packed is None:
            raise ValueError("this sum never left here, or was forgotten")
        home, sealer = asked.next == HOME, self._sealer
        sealed = sealer.seal(CURATOR, packed) if home else sealer.seal_to(asked.next, packed)
        return wire.encode(messages.Handed(asked.token, asked.turn, sealed))

    def state(self) -> bytes:
        return wire.encode(self._state)

    def resume(self, state: bytes) -> None:
        self._state = msgspec.msgpack.decode(state, type=_DeviceState)
