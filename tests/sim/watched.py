"""An actor under observation, for tests of who learns what."""

from incrowd.protocols.actor import Actor, Message, Send


class Watched(Actor):
    """An actor of which everything that it is told and says is written down."""

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
