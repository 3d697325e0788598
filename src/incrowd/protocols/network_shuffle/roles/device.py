"""Actors of network shuffling, where reports walk from person to person.

    device ── Hop(round, id, {[report sealed to the curator]}) ──▶ device
    device ◀── Passed(id) ──────────────────────────────────────── device
    device ── HandIn(id, windows missed, {[report]}) ────────────▶ curator
    device ── Withheld(id, windows missed) ──────────────────────▶ curator
    device ◀── Accepted | Refused ──────────────────────────────── curator

A report is sealed once, by its owner, together with 16 random bytes by which the curator counts it
once; no device on the way can read or change it. Rounds follow a public clock. A device that
is there at any time of a round moves, in that round, every report it holds: each on its own, all
that go to one neighbour in one message. Two rules make the walk that of ``Walk``, whatever the
network does (``docs/theory/network_shuffle.md``):

* rounds are logical. Reports that arrive late are moved immediately for rounds that the device has
  already done, so lateness changes when a report moves and never whereto;
* a device misses only the rounds for which it was away entirely: its reports then stay, even those
  that arrive later. The windows missed, of rounds and after them, are handed in with the reports.

Two more make the guarantee of a run computable from its attendance
(``docs/theory/network_attendance.md``):

* a device that is away in the first round drops its own report, so that every report that is ever
  seen has made its first hop;
* a device that was not on to the end hands in the record and no reports, and so does everyone once
  the curator's time is up: a device that comes back holds what the walk left there by chance.

Invariants: a report is on one device, or on its way between two, never on both for good: a hop is
sent with the same bytes until it is answered, and taken in once. Each draw has its own stream,
numbered by a counter that is part of the state, so a restart neither reuses nor redraws anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.protocols.network_shuffle.messages import MOST_TOGETHER, HandIn, Hop, Passed, Withheld
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Handing, make_dummies
from incrowd.protocols.network_shuffle.theorems.attendance import on_to_the_end
from incrowd.protocols.network_shuffle.theorems.walk import Walk
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Address,
    Done,
    Effect,
    Message,
    Send,
    device,
    owned,
)
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.delivery import Backoff, Outbox, OutboxState, wake_at
from incrowd.randomizers.base import Randomizer

_ANSWER_LIMIT = 1024

_FROM_DEVICE = msgspec.msgpack.Decoder(Hop | Passed)
_FROM_CURATOR = msgspec.msgpack.Decoder(wire.Accepted | wire.Refused)


def sizes(report_bytes: int) -> tuple[int, int, int]:
    """Return the bytes of a hop with one report, of its answer, and of handing in one, unsealed."""
    id_, payload = bytes(wire.ID_BYTES), bytes(wire.ID_BYTES + report_bytes)
    hop, hand_in = Hop(0, id_, [payload]), HandIn(id_, [], [payload])
    return len(wire.encode(hop)), len(wire.encode(Passed(id_))), len(wire.encode(hand_in))


def _hop_pauses(timing: Timing) -> Backoff:
    # At most half a window, so that every window has attempts at each hop that waits. Where the
    # first pause is longer than a window, transports repeat, and devices do not.
    window, pauses = timing.round_seconds, timing.backoff
    return pauses if pauses.first > window else pauses.at_most(window / 2)


@dataclass(frozen=True)
class HandedIn:
    """Output of a device."""

    accepted: bool
    """Whether the curator took in what was handed in; else it came too late."""
    missed: tuple[int, ...]
    """Windows for which the device was away."""
    unanswered: int
    """Hops to neighbours that may or may not have arrived."""


class _DeviceState(msgspec.Struct, array_like=True):
    draws: int = 0
    window: int = 0
    """The first window that neither came nor was missed."""
    missed: list[int] = []
    held: dict[int, list[bytes]] = {}
    """The reports that are here, by the round in which they move next."""
    waiting: dict[bytes, tuple[Address, int]] = {}
    """The hops not answered yet: to whom, and the key in the outbox."""
    seen: dict[Address, list[bytes]] = {}
    handed_in: bytes = b""
    withheld: bool = False
    """Whether what was handed in holds no reports because it is too late for them."""
    finished: bool = False
    hops: OutboxState = msgspec.field(default_factory=OutboxState)
    outbox: OutboxState = msgspec.field(default_factory=OutboxState)


class Device(Actor):
    """Device that sends its own report on its way, passes on others, and hands in at the end."""

    def __init__(
        self,
        context: ActorContext,
        person: int,
        randomizer: Randomizer,
        walk: Walk,
        rounds: int,
        hand_in: Handing,
    ) -> None:
        """The context's generator gives the stream of one draw by its number."""
        self._context, self._value = context, context.value
        self._person, self._randomizer, self._handing = person, randomizer, hand_in
        self._laziness, timing = walk.laziness, context.timing
        self._neighbours = [graph.neighbours(person) for graph in walk.graphs]
        self._clock = Clock.of(rounds, timing)
        self._deadline = self._clock.hand_in + timing.timeout
        # A payload is a report and its identifier, sealed.
        self._payload_limit = wire.report_limit(wire.ID_BYTES + randomizer.report_bytes)
        self._limit = wire.batch_limit(wire.ID_BYTES + randomizer.report_bytes, MOST_TOGETHER)
        self._near = [
            frozenset(device(other) for other in near.tolist() if other != person)
            for near in self._neighbours
        ]
        self._hops, self._outbox = Outbox(_hop_pauses(timing)), Outbox(timing.backoff)
        self._state = _DeviceState(hops=self._hops.state(), outbox=self._outbox.state())
        self._seen: dict[Address, dict[bytes, None]] = {}
        """The hops that were taken in, by sender."""

    def start(self, now: float) -> list[Effect]:
        rng = self._stream()
        report = self._randomizer.randomize_exactly(owned(self._value), rng)
        self._state.held[0] = [self._payload(report, rng)]
        return self._catch_up(now) + self._alarm()

    def receive(self, message: Message, now: float) -> list[Effect]:
        if message.sender == CURATOR:
            return self._answered(message.body)
        if not any(message.sender in near for near in self._near):
            return []
        heard = wire.decode(_FROM_DEVICE, message.body, self._limit)
        if isinstance(heard, Hop) and self._expected(message.sender, heard):
            return self._take_in(message.sender, heard, now)
        if isinstance(heard, Passed) and self._settle(message.sender, heard.id):
            return self._progress(now)
        return []

    def wake(self, now: float) -> list[Effect]:
        if self._state.finished:
            return []
        again = self._hops.retry(now) + self._withhold(now) + self._outbox.retry(now)
        return again + self._catch_up(now) + self._alarm()

    def _expected(self, sender: Address, hop: Hop) -> bool:
        near = self._near[hop.round % len(self._near)]
        fits = all(len(payload) <= self._payload_limit for payload in hop.payloads)
        return hop.round < self._clock.rounds and sender in near and fits

    def _take_in(self, sender: Address, hop: Hop, now: float) -> list[Effect]:
        seen = self._seen.setdefault(sender, {})
        if hop.id not in seen:
            if self._state.handed_in:
                # It comes too late to be handed in, so it is not answered: what was is counted.
                return []
            self._state.held.setdefault(hop.round + 1, []).extend(hop.payloads)
            seen[hop.id] = None
        return [Send(sender, wire.encode(Passed(hop.id))), *self._progress(now)]

    def _settle(self, neighbour: Address, id_: bytes) -> bool:
        to, key = self._state.waiting.get(id_, ("", -1))
        if to != neighbour:
            return False
        del self._state.waiting[id_]
        return self._hops.settle(key)

    def _answered(self, body: bytes) -> list[Effect]:
        answer, state = wire.decode(_FROM_CURATOR, body, _ANSWER_LIMIT), self._state
        if answer is None or answer.id != state.handed_in or not self._outbox.settle(0):
            return []
        accepted = isinstance(answer, wire.Accepted)
        output = HandedIn(accepted, tuple(state.missed), len(state.waiting))
        state.finished, state.waiting, state.hops = True, {}, OutboxState()
        self._hops.resume(state.hops)
        return [Done(output)]

    def _progress(self, now: float) -> list[Effect]:
        # The alarm stays as it is when a message sets nothing in motion.
        effects = self._catch_up(now)
        return effects + self._alarm() if effects else []

    def _catch_up(self, now: float) -> list[Effect]:
        """Note which rounds were missed; move what is behind; hand in when it is time."""
        state, current = self._state, self._clock.current(now)
        if state.handed_in:
            return []
        if current >= state.window:
            state.missed += range(state.window, current)
            state.window = current + 1
        effects: list[Effect] = []
        begun, missed = min(state.window, self._clock.rounds), frozenset(state.missed)
        for number in range(min(state.held, default=begun), begun):
            here = state.held.pop(number, [])
            if number in missed:
                # Before the first round there is only the own report, which is then dropped.
                here = here if number else []
            elif here:
                here, sent = self._pass_on(number, here, now)
                effects += sent
            if here:
                state.held.setdefault(number + 1, []).extend(here)
        if now >= self._clock.hand_in:
            effects.append(self._hand_in(now))
        return effects

    def _pass_on(
        self, number: int, here: list[bytes], now: float
    ) -> tuple[list[bytes], list[Effect]]:
        """Move each report on its own; return those that stay, and a hop per other neighbour."""
        near = self._neighbours[number % len(self._neighbours)]
        if not near.size:
            return here, []
        rng, waiting = self._stream(), self._state.waiting
        stays = rng.random(len(here)) < self._laziness
        chosen = near[rng.integers(near.size, size=len(here))]
        parcels: dict[int, list[bytes]] = {}
        for to, payload in zip(np.where(stays, self._person, chosen).tolist(), here, strict=True):
            parcels.setdefault(to, []).append(payload)
        kept = parcels.pop(self._person, [])
        effects: list[Effect] = []
        for to, parcel in parcels.items():
            # Sealed bytes are random, so that sorting forgets in which order they came.
            parcel.sort()
            for first in range(0, len(parcel), MOST_TOGETHER):
                moved = parcel[first : first + MOST_TOGETHER]
                hop = Hop(number, rng.bytes(wire.ID_BYTES), moved)
                # Keys grow, so that the latest of those that wait is the largest.
                key = next(reversed(waiting.values()), ("", -1))[1] + 1
                waiting[hop.id] = device(to), key
                effects.append(self._hops.put(key, device(to), wire.encode(hop), now))
        return kept, effects

    def _hand_in(self, now: float) -> Send:
        rng, state = self._stream(), self._state
        held = sorted(payload for here in state.held.values() for payload in here)
        to_the_end = on_to_the_end(state.missed, self._clock.windows)
        state.held, state.withheld = {}, now >= self._deadline or not to_the_end
        if not state.withheld and self._handing == "single":
            if held:
                held = [held[int(rng.integers(len(held)))]]
            else:
                held = [self._payload(make_dummies(self._randomizer, 1, rng), rng)]
        state.handed_in = rng.bytes(wire.ID_BYTES)
        return self._outbox.put(0, CURATOR, self._record(held), now)

    def _withhold(self, now: float) -> list[Effect]:
        # After the deadline the record alone is sent: whether the hand-in arrived may be unknown.
        state = self._state
        if state.withheld or not state.handed_in or now < self._deadline:
            return []
        state.withheld = True
        return [self._outbox.put(0, CURATOR, self._record([]), now)]

    def _record(self, payloads: list[bytes]) -> bytes:
        id_, missed = self._state.handed_in, self._state.missed
        withheld = self._state.withheld
        return wire.encode(Withheld(id_, missed) if withheld else HandIn(id_, missed, payloads))

    def _payload(self, reports: NDArray[Any], rng: np.random.Generator) -> bytes:
        (report,) = wire.pack(reports)
        return self._context.sealer.seal(CURATOR, rng.bytes(wire.ID_BYTES) + report)

    def _stream(self) -> np.random.Generator:
        self._state.draws += 1
        return self._context.generator(self._state.draws - 1)

    def _alarm(self) -> list[Effect]:
        state, clock, due = self._state, self._clock, [self._hops.due, self._outbox.due]
        if not state.handed_in:
            due.append(clock.opens(min(state.window, clock.windows - 1)))
        elif not state.withheld:
            due.append(self._deadline)
        return wake_at(*due)

    def state(self) -> bytes:
        self._state.seen = {address: list(ids) for address, ids in self._seen.items()}
        return wire.encode(self._state)

    def resume(self, state: bytes) -> None:
        self._state = msgspec.msgpack.decode(state, type=_DeviceState)
        self._seen = {address: dict.fromkeys(ids) for address, ids in self._state.seen.items()}
        self._hops.resume(self._state.hops)
        self._outbox.resume(self._state.outbox)
