"""Actors with recorded messages, for tests of the information each party receives."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from incrowd.protocols.api import Protocol
from incrowd.protocols.run import make_actors
from incrowd.protocols.runtime.actor import CURATOR, Actor, Address, Maker, Message, Send
from incrowd.protocols.runtime.context import Timing
from incrowd.randomness import Seeds
from incrowd.sim import Faults, play

Change = Callable[[dict[Address, Maker]], dict[Address, Maker]]


class Watched(Actor):
    """An actor whose received and sent messages are recorded."""

    def __init__(self, actor: Actor, told: list[Message], said: list[Send]) -> None:
        self.actor, self.told, self.said = actor, told, said

    def start(self, now):
        return self.heard(self.actor.start(now))

    def receive(self, message, now):
        self.told.append(message)
        return self.heard(self.actor.receive(message, now))

    def wake(self, now):
        return self.heard(self.actor.wake(now))

    def heard(self, effects):
        self.said.extend(each for each in effects if isinstance(each, Send))
        return effects

    def state(self):
        return self.actor.state()

    def resume(self, state):
        self.actor.resume(state)


class WatchedPlay:
    """A protocol played by ``sim``, with all received and sent messages."""

    def __init__(
        self,
        protocol: Protocol,
        values: Any,
        timing: Timing,
        seed: int = 0,
        faults: Faults | None = None,
        change: Change = lambda makers: makers,
        sealers: Mapping[Address, Any] | None = None,
    ) -> None:
        self.protocol: Any = protocol
        self.values = values
        self.told: dict[Address, list[Message]] = defaultdict(list)
        self.said: dict[Address, list[Send]] = defaultdict(list)
        self.last: dict[Address, Any] = {}
        seeds = Seeds(seed)
        makers = change(make_actors(protocol, values, seeds, sealers, timing))
        watched = {each: self.watch(each, make) for each, make in makers.items()}
        self.played = play(watched, seeds, faults, until=protocol.duration(timing) + 86_400)
        self.found: Any = self.played.outputs[CURATOR]

    def watch(self, address: Address, make: Maker) -> Maker:
        def made() -> Actor:
            self.last[address] = make()
            return Watched(self.last[address], self.told[address], self.said[address])

        return made
