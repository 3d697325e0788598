"""A deterministic event loop that plays actors with a virtual clock and faults.

The loop keeps the promise that every runtime makes (see ``incrowd.protocols.runtime.actor``): the
state after a call and the effects of the call become durable together, and only then are effects
carried out. Two things can happen to a party:

* a *crash* is drawn for each call, takes no time, and falls on either side of that point. Before
  it, the call never happened: a message is lost, a wake or a start is called again. After it, an
  arbitrary first part of the effects is carried out, and after the restart all of them;
* an *outage* is planned before anything is called: by the caller, or drawn from a stream that is
  the party's own. Messages that reach it while it is off are lost, and its alarm waits.

Who is there when therefore depends on outages alone, never on how often anybody is called: a device
through which many reports pass is off no more often than another. After either a party is
rebuilt by its maker and resumed from its last durable state. All other draws come from
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
    outages: int = 0
    """How often parties were switched off, those that never took part not counted."""
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
    outages: dict[Address, tuple[Outage, ...]]
    """When each party was off, as it had been planned; for ever is until infinity."""


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


def play(
    actors: Mapping[Address, Maker],
    seeds: Seeds,
    faults: Faults | None = None,
    *,
    until: float = _ONE_DAY,
    outages: Mapping[Address, Sequence[Outage]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Played:
    """Play until every party is done, nothing is left to happen, or the virtual time is up.

    ``until`` is in virtual seconds. ``outages`` says when some parties are off, in the order of
    time; when the others are is drawn. ``progress`` is told how many parties are done, of how many,
    each time one more is.
    """
    if checks.number(until, "until") <= 0:
        raise InvalidParameter(f"until must be a positive number of seconds, got {until!r}")
    planned = {address: _in_order(address, each) for address, each in (outages or {}).items()}
    return _Loop(actors, seeds, faults or Faults(), planned, progress).run(until)


def _in_order(address: Address, outages: Sequence[Outage]) -> tuple[Outage, ...]:
    """Outages that follow each other; raises for those that do not."""
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
        self.actors = actors
        self.faults = faults
        self.seeds = seeds
        self.planned = planned
        self.rng = seeds.generator("network")
        self.progress = progress
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
        """Every party's, before anything is called; of simultaneous events these come first."""
        for number, address in enumerate(self.actors):
            if address not in self.parties:
                continue
            planned = self.planned.get(address)
            if planned is None:
                planned = self.faults.plan(self.seeds.generator("outages", number), until)
            self.outages[address] = planned
            self.await_outage(address, iter(planned))

    def await_outage(self, address: Address, left: Iterator[Outage]) -> None:
        """The next of a party's outages, if there is one."""
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

    # What can happen to a party.

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
        """A call that is made again until its outcome is durable."""
        while not self.call(address, action):
            pass

    def call(self, address: Address, action: Callable[[], list[Effect]]) -> bool:
        """Make one call; whether its outcome is durable."""
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
        """Made anew, and resumed from what was durable."""
        durable = party.actor.state() if party.started else None
        party.actor = party.make()
        if durable is not None:
            party.actor.resume(durable)

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
