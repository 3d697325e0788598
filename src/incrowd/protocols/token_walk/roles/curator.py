"""The curator of a token walk: takes in every token once, and adds up their sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import COURIER, Actor, Done, Effect, Message, Sealer, Send
from incrowd.protocols.token_walk.roles import messages
from incrowd.protocols.token_walk.roles.token import Carried, largest_known, token_format
from incrowd.protocols.token_walk.simulate import correlation

if TYPE_CHECKING:
    from incrowd.protocols.token_walk.spec import TokenWalk

_TO_CURATOR = msgspec.msgpack.Decoder(messages.Homecoming)


class _Arrival(msgspec.Struct, array_like=True):
    packed: bytes | None
    told: messages.Homecoming


class Curator(Actor):
    """Takes in every token once, and is done when all are home."""

    def __init__(self, protocol: TokenWalk, sealer: Sealer) -> None:
        self._protocol, self._sealer = protocol, sealer
        self._format = token_format(protocol)
        self._limit = messages.limit_of(self._format)
        self._came: dict[int, _Arrival] = {}

    def start(self, now: float) -> list[Effect]:
        del now
        return []

    def receive(self, message: Message, now: float) -> list[Effect]:
        del now
        if message.sender != COURIER:
            return []
        told, walk = wire.decode(_TO_CURATOR, message.body, self._limit), self._protocol
        if told is None or told.token >= walk.tokens:
            return []
        if not told.reports <= told.steps <= walk.length or told.crowd > walk.n:
            return []
        effects: list[Effect] = [Send(COURIER, wire.encode(messages.Arrived(told.token)))]
        if told.token not in self._came:
            # The sealed bytes are read here and now, and not kept a second time.
            bare = msgspec.structs.replace(told, sealed=b"")
            self._came[told.token] = _Arrival(self._opened(told), bare)
            if len(self._came) == walk.tokens:
                effects.append(Done(self._carried()))
        return effects

    def wake(self, now: float) -> list[Effect]:
        """Do nothing: the relay is the one to ask again."""
        del now
        return []

    def _opened(self, told: messages.Homecoming) -> bytes | None:
        """The bytes of the sum, if it can have come about as it is told."""
        if not told.sealed or not told.reports:
            return None
        try:
            packed = self._sealer.open(told.sealed)
            count = self._format.unpack(packed).sum()
        except ValueError:
            return None
        # Every category in a histogram is one contribution, or one element of noise.
        fits = not self._format.counts or count == told.noise <= self._format.most
        return packed if fits else None

    def _carried(self) -> Carried:
        walk, came, graph = self._protocol, self._came.values(), self._protocol.graph
        home = [each.told for each in came if each.packed is not None]
        sums = (self._format.unpack(each.packed) for each in came if each.packed is not None)
        total = sum(sums, start=self._format.empty())
        return Carried(
            rounds=(),
            sent=sum(each.told.steps for each in came),
            total=total.reshape(()) if walk.randomizer.domain == "interval" else total,
            reports=sum(told.reports for told in home),
            noise=sum(told.noise for told in home),
            steps=max(each.told.steps for each in came),
            crowd=min(each.told.crowd for each in came),
            losses=largest_known([each.told.losses for each in came]),
            drawn=walk.topology != "ring",
            correlation=1.0 if graph is None else correlation(graph, walk.length),
        )

    def state(self) -> bytes:
        return wire.encode(self._came)

    def resume(self, state: bytes) -> None:
        self._came = msgspec.msgpack.decode(state, type=dict[int, _Arrival])
