"""A deterministic event loop that plays actors with a virtual clock and faults.

The loop keeps the contract of every runtime (see ``incrowd.protocols.runtime.actor``): the state
after a call and the effects of the call become durable together, and only then are effects carried
out. A party has two kinds of faults:

* a *crash* is drawn for each call, takes no time, and falls on either side of that point. Before
  it, the call never happened: a message is lost, a wake or a start is called again. After it, an
  arbitrary first part of the effects is carried out, and after the restart all of them;
* an *outage* is planned before any call: by the caller, or drawn from the party's own stream.
  Messages that reach it while it is off are lost, and its alarm waits.

Presence therefore depends on outages alone, never on the number of calls: a device through which
many reports pass is off no more often than another. After either fault a party is rebuilt by its
maker and resumed from its last durable state. All other draws come from
``seeds.generator("network")``, and simultaneous events happen in the order in which they were
caused, so a run repeats exactly.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from incrowd import checks
from incrowd.errors import InvalidParameter, ProtocolFailed
from incrowd.protocols.runtime.actor import (
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
from incrowd.sim.faults import Faults, Outage

_ONE_DAY = 86_400.0
_MOST_RINGS = 1000
"""Largest number of wakes of one party at one instant."""


class Statistics(msgspec.Struct, kw_only=True):
    """Counts of messages and faults.

    Every message that was sent is delivered or lost, and a duplicate counts as one more: at the
    end ``sent + duplicated`` is ``delivered + lost`` plus messages still in flight.
    """

    sent: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    crashes: int = 0
    outages: int = 0
    """Outages of parties that took part."""
    absent: int = 0
    """Devices that never took part."""
    duration: float = 0.0
    """Virtual seconds from the start to the last event."""


class Traffic(msgspec.Struct, kw_only=True):
    """Messages and bytes that one party sent, retries included."""

    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Played:
    """Result of :func:`play`: outputs of the finished parties, and whether all are finished."""

    outputs: dict[Address, Any]
    statistics: Statistics
    traffic: dict[Address, Traffic]
    finished: bool
    outages: dict[Address, tuple[Outage, ...]]
    """Planned outages of each party; a permanent one ends at infinity."""


@dataclass
class _Party:
    """One party and its durable state."""

    make: Maker
    actor: Actor
    started: bool = False
    down: bool = False
    alarm: float | None = None
    alarm_number: int = 0
    rung_at: float = -1.0
    rings: int = 0


def play(
    actors: Mapping[Address, Maker],
    seeds: Seeds,
    faults: Faults | None = None,
    *,
    until: float = _ONE_DAY,
    outages: Mapping[Address, Sequence[Outage]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Played:
    """Play until every party is done, no event is left, or the virtual time is up.

    ``until`` is in virtual seconds. ``outages`` holds those of some parties, in the order of time;
    the outages of the others are drawn. ``progress`` receives the number of finished parties and
    their total.
    """
    if checks.number(until, "until") <= 0:
        raise InvalidParameter(f"until must be a positive number of seconds, got {until!r}")
    planned = {address: _in_order(address, each) for address, each in (outages or {}).items()}
    return _Loop(actors, seeds, faults or Faults(), planned, progress).run(until)


def _in_order(address: Address, outages: Sequence[Outage]) -> tuple[Outage, ...]:
    last = -math.inf
    for begin, end in outages:
        if not last < begin < end:
            raise InvalidParameter(
                f"the outages of {address} must follow each other, each from one time to a later "
                f"one, got {list(outages)}"
            )
        last = end
    return tuple(outages)


class _Loop:
    def __init__(
        self,
        actors: Mapping[Address, Maker],
        seeds: Seeds,
        faults: Faults,
        planned: Mapping[Address, tuple[Outage, ...]],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.actors, self.seeds, self.faults = actors, seeds, faults
        self.planned, self.progress = planned, progress
        self.rng = seeds.generator("network")
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.statistics = Statistics()
        self.outputs: dict[Address, Any] = {}
        self.outages: dict[Address, tuple[Outage, ...]] = {}
        self.parties: dict[Address, _Party] = {}
        for address, make in actors.items():
            if is_device(address) and self.chance(faults.dropout):
                self.statistics.absent += 1
                self.outages[address] = ((0.0, math.inf),)
            else:
                self.parties[address] = _Party(make, make())
        self.traffic = {address: Traffic() for address in self.parties}

    def run(self, until: float) -> Played:
        self.plan_outages(until)
        for address in self.parties:
            self.at(0.0, partial(self.start, address))
        while self.queue and not self.finished:
            time, _, event = heapq.heappop(self.queue)
            if time > until:
                break
            self.now = time
            event()
        self.statistics.duration = self.now
        return Played(self.outputs, self.statistics, self.traffic, self.finished, self.outages)

    def plan_outages(self, until: float) -> None:
        # Before any call, so that of simultaneous events outages come first.
        for number, address in enumerate(self.actors):
            if address not in self.parties:
                continue
            planned = self.planned.get(address)
            if planned is None:
                planned = self.faults.plan(self.seeds.generator("outages", number), until)
            self.outages[address] = planned
            self.await_outage(address, iter(planned))

    def await_outage(self, address: Address, left: Iterator[Outage]) -> None:
        if (outage := next(left, None)) is not None:
            begin, end = outage
            self.at(max(0.0, begin), partial(self.switch_off, address, end, left))

    @property
    def finished(self) -> bool:
        return len(self.outputs) == len(self.parties)

    def at(self, time: float, event: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (time, next(self.order), event))

    def chance(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    # Events of a party.

    def start(self, address: Address) -> None:
        party = self.parties[address]
        if not party.down:
            self.insist(address, lambda: party.actor.start(self.now))

    def deliver(self, to: Address, message: Message) -> None:
        party = self.parties[to]
        if party.down or not party.started:
            self.statistics.lost += 1
            return
        done = self.call(to, lambda: party.actor.receive(message, self.now))
        self.statistics.delivered += done
        self.statistics.lost += not done

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
        party.alarm = None
        self.insist(address, lambda: party.actor.wake(self.now))

    def switch_off(self, address: Address, end: float, left: Iterator[Outage]) -> None:
        self.parties[address].down = True
        self.statistics.outages += 1
        if end < math.inf:
            self.at(max(0.0, end), partial(self.switch_on, address, left))

    def switch_on(self, address: Address, left: Iterator[Outage]) -> None:
        self.await_outage(address, left)
        party = self.parties[address]
        party.down = False
        if not party.started:
            self.start(address)
            return
        self.rebuild(party)
        if party.alarm is not None:
            self.set_alarm(address, max(party.alarm, self.now))

    def insist(self, address: Address, action: Callable[[], list[Effect]]) -> None:
        """Repeat a call until its outcome is durable."""
        while not self.call(address, action):
            pass

    def call(self, address: Address, action: Callable[[], list[Effect]]) -> bool:
        """Make one call; return whether its outcome is durable."""
        party = self.parties[address]
        crash = self.chance(self.faults.crash)
        self.statistics.crashes += crash
        if crash and self.chance(0.5):
            self.rebuild(party)
            return False
        effects = action()
        party.started = True
        if crash:
            done = int(self.rng.integers(len(effects) + 1))
            self.carry_out(address, effects[:done])
            self.rebuild(party)
        self.carry_out(address, effects)
        return True

    @staticmethod
    def rebuild(party: _Party) -> None:
        durable = party.actor.state() if party.started else None
        party.actor = party.make()
        if durable is not None:
            party.actor.resume(durable)

    # Effects of a party.

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
        twice = self.chance(self.faults.duplicate)
        self.statistics.duplicated += twice
        for _ in range(1 + twice):
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
        if address not in self.outputs:
            self.outputs[address] = output
            if self.progress is not None:
                self.progress(len(self.outputs), len(self.parties))
