"""A deterministic event loop that plays actors with a virtual clock and faults.

The loop keeps the promise that every runtime makes (see ``incrowd.protocols.actor``): the state
after a call and the effects of the call become durable together, and only then are effects carried
out. A crash is drawn for each call and falls on either side of that point:

* before: the call never happened. A message is lost; a wake or a start is called again later;
* after: an arbitrary first part of the effects is carried out, and after the restart all of them.

A crashed party is rebuilt by its maker and resumed from its last durable state; messages that reach
it while it is down are lost, its alarm waits. All draws come from ``seeds.generator("network")``,
and simultaneous events happen in the order in which they were caused, so a run repeats exactly.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from incrowd import checks
from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.protocols.actor import (
    Actor,
    Address,
    Done,
    Effect,
    Maker,
    Message,
    Send,
    Wake,
    is_device,
)
from incrowd.randomness import Seeds
from incrowd.sim.faults import Faults

__all__ = ["Played", "Statistics", "Traffic", "play"]

_ONE_DAY = 86_400.0
_MOST_RINGS = 1000
"""No party needs to be woken more often than this at one instant."""


class Statistics(msgspec.Struct, kw_only=True):
    """What the network and the parties went through.

    Every message that was sent is delivered or lost, and a duplicate counts as one more: at the
    end ``sent + duplicated`` is ``delivered + lost`` plus what was still on its way.
    """

    sent: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    crashes: int = 0
    absent: int = 0
    """Devices that never took part."""
    duration: float = 0.0
    """Virtual seconds from the start to the last event."""


class Traffic(msgspec.Struct, kw_only=True):
    """What one party sent, retries included."""

    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Played:
    """How it ended: what each party that is done said, and whether all of them are."""

    outputs: dict[Address, Any]
    statistics: Statistics
    traffic: dict[Address, Traffic]
    finished: bool


@dataclass
class _Party:
    """One party and what its runtime has made durable."""

    make: Maker
    actor: Actor
    started: bool = False
    down: bool = False
    alarm: float | None = None
    alarm_number: int = 0
    rung_at: float = -1.0
    rings: int = 0
    unfinished: list[Effect] = field(default_factory=list)


def play(
    actors: Mapping[Address, Maker],
    seeds: Seeds,
    faults: Faults | None = None,
    *,
    until: float = _ONE_DAY,
    progress: Callable[[int, int], None] | None = None,
) -> Played:
    """Play until every party is done, nothing is left to happen, or the virtual time is up.

    ``until`` is in virtual seconds. ``progress`` is told how many parties are done, of how many,
    each time one more is.
    """
    if checks.number(until, "until") <= 0:
        raise InvalidParameter(f"until must be a positive number of seconds, got {until!r}")
    return _Loop(actors, seeds, faults or Faults(), progress).run(until)


class _Loop:
    def __init__(
        self,
        actors: Mapping[Address, Maker],
        seeds: Seeds,
        faults: Faults,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.faults = faults
        self.rng = seeds.generator("network")
        self.progress = progress
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.statistics = Statistics()
        self.outputs: dict[Address, Any] = {}
        self.parties: dict[Address, _Party] = {}
        for address, make in actors.items():
            if is_device(address) and self.chance(faults.dropout):
                self.statistics.absent += 1
            else:
                self.parties[address] = _Party(make, make())
        self.traffic = {address: Traffic() for address in self.parties}

    def run(self, until: float) -> Played:
        for address in self.parties:
            self.at(0.0, partial(self.start, address))
        while self.queue and not self.finished:
            time, _, event = heapq.heappop(self.queue)
            if time > until:
                break
            self.now = time
            event()
        self.statistics.duration = self.now
        return Played(self.outputs, self.statistics, self.traffic, self.finished)

    @property
    def finished(self) -> bool:
        return len(self.outputs) == len(self.parties)

    def at(self, time: float, event: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (time, next(self.order), event))

    def chance(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    # What can happen to a party.

    def start(self, address: Address) -> None:
        party = self.parties[address]
        self.call(address, lambda: party.actor.start(self.now), lost=False)

    def deliver(self, to: Address, message: Message) -> None:
        party = self.parties[to]
        if party.down:
            self.statistics.lost += 1
            return
        self.call(to, lambda: party.actor.receive(message, self.now), lost=True)

    def ring(self, address: Address, number: int) -> None:
        party = self.parties[address]
        if party.down or number != party.alarm_number:
            return
        party.rings = party.rings + 1 if party.rung_at == self.now else 1
        party.rung_at = self.now
        if party.rings > _MOST_RINGS:
            raise ProtocolFailed(
                f"{address} asks to be woken at {self.now:g} s again and again, so the clock "
                "cannot move on: its wake() must ask for a later time"
            )
        alarm, party.alarm = party.alarm, None
        if not self.call(address, lambda: party.actor.wake(self.now), lost=False):
            party.alarm = alarm

    def call(self, address: Address, action: Callable[[], list[Effect]], *, lost: bool) -> bool:
        """Make one call; whether its outcome is durable. ``lost``: the call carries a message."""
        party = self.parties[address]
        crash = self.chance(self.faults.crash)
        if crash and self.chance(0.5):
            self.statistics.lost += lost
            self.crash(address, party.actor.state() if party.started else None)
            return False
        effects = action()
        party.started = True
        self.statistics.delivered += lost
        if crash:
            done = int(self.rng.integers(len(effects) + 1))
            self.carry_out(address, effects[:done])
            party.unfinished = effects
            self.crash(address, party.actor.state())
        else:
            self.carry_out(address, effects)
        return True

    def crash(self, address: Address, durable: bytes | None) -> None:
        party = self.parties[address]
        party.down = True
        party.actor = party.make()
        if durable is not None:
            party.actor.resume(durable)
        self.statistics.crashes += 1
        back = self.now + self.faults.downtime * float(self.rng.exponential())
        self.at(back, partial(self.restart, address))

    def restart(self, address: Address) -> None:
        party = self.parties[address]
        party.down = False
        if not party.started:
            self.start(address)
            return
        effects, party.unfinished = party.unfinished, []
        self.carry_out(address, effects)
        if party.alarm is not None:
            self.set_alarm(address, max(party.alarm, self.now))

    # What a party can cause.

    def carry_out(self, address: Address, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, body):
                    self.send(address, to, body)
                case Wake(time):
                    self.set_alarm(address, max(time, self.now))
                case Done(output):
                    self.done(address, output)

    def send(self, sender: Address, to: Address, body: bytes) -> None:
        self.statistics.sent += 1
        self.traffic[sender].messages += 1
        self.traffic[sender].bytes += len(body)
        copies = 1
        if self.chance(self.faults.duplicate):
            self.statistics.duplicated += 1
            copies = 2
        for _ in range(copies):
            if to not in self.parties or self.chance(self.faults.loss):
                self.statistics.lost += 1
                continue
            arrival = self.now + self.faults.travel(self.rng)
            self.at(arrival, partial(self.deliver, to, Message(sender, body)))

    def set_alarm(self, address: Address, time: float) -> None:
        party = self.parties[address]
        party.alarm = time
        party.alarm_number += 1
        self.at(time, partial(self.ring, address, party.alarm_number))

    def done(self, address: Address, output: Any) -> None:
        if address in self.outputs:
            return
        self.outputs[address] = output
        if self.progress is not None:
            self.progress(len(self.outputs), len(self.parties))
