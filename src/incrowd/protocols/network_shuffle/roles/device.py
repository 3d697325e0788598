"""The participants when reports walk from person to person.

    device ── Hop(round, id, {[report sealed to the curator]}) ──▶ device
    device ◀── Passed(id) ──────────────────────────────────────── device
    device ── HandIn(id, windows missed, {[report]}) ────────────▶ curator
    device ── Withheld(id, windows missed) ──────────────────────▶ curator
    device ◀── Accepted | Refused ──────────────────────────────── curator

A report is sealed once, by its owner, together with 16 random bytes by which the curator counts it
once; nobody on the way can read or change it. Rounds follow a public clock. A device that
is there at any time of a round moves, in that round, every report it holds: each on its own, all
that go to one neighbour in one message. Two rules make the walk what ``Walk`` describes, whatever
the network does (``docs/theory/network_shuffle.md``):

* rounds are logical. Reports that arrive late are moved at once for the rounds that the device has
  already done, so lateness changes when a report moves and never whereto;
* only who was away for a whole round misses it: in that round what was there stays there, even
  what arrives later. The windows missed, of rounds and after them, are handed in with the reports.

Two more make what a run promises computable from who was there when
(``docs/theory/network_attendance.md``):

* who is away in the first round drops the own report, so that every report that is ever seen has
  made its first hop;
* who was not on to the end hands in the record and no reports, and so does everyone once the
  curator's time is up: a device that comes back holds what the walk left there by chance.

Invariants: a report is on one device, or on its way between two, never on both for good: a hop is
sent with the same bytes until it is answered, and taken in once. Each draw has its own stream,
numbered by a counter that is part of the state, so a restart neither reuses nor redraws anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidParameter
from incrowd.protocols.network_shuffle.roles.curator import Curator
from incrowd.protocols.network_shuffle.roles.timetable import Clock
from incrowd.protocols.network_shuffle.simulate import Mode, expected_dummies, make_dummies
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
    Sealer,
    Send,
    device,
    owned,
    person_of,
)
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.delivery import Backoff, Outbox, OutboxState, wake_at
from incrowd.randomizers.base import Randomizer

_ANSWER_LIMIT = 1024

_FROM_DEVICE = msgspec.msgpack.Decoder(wire.Hop | wire.Passed)
_FROM_CURATOR = msgspec.msgpack.Decoder(wire.Accepted | wire.Refused)


def sizes(report_bytes: int) -> tuple[int, int, int]:
    """The bytes of a hop with one report, of its answer, and of handing in one; not sealed."""
    id_, payload = bytes(wire.ID_BYTES), bytes(wire.ID_BYTES + report_bytes)
    messages = (wire.Hop(0, id_, [payload]), wire.Passed(id_), wire.HandIn(id_, [], [payload]))
    hop, answer, hand_in = (len(wire.encode(message)) for message in messages)
    return hop, answer, hand_in


def _hop_pauses(timing: Timing) -> Backoff:
    """At most half a window, so that every window has attempts at each hop that waits.

    Where the first pause is longer than a window, transports repeat, and devices do not.
    """
    window, pauses = timing.round_seconds, timing.backoff
    return pauses if pauses.first > window else pauses.at_most(window / 2)


@dataclass(frozen=True)
class HandedIn:
    """What a device knows at the end."""

    accepted: bool
    """Whether the curator took in what was handed in; else it came too late."""
    missed: tuple[int, ...]
    """The windows for which it was away."""
    unanswered: int
    """Hops to neighbours of which nobody knows whether they arrived."""


class _DeviceState(msgspec.Struct, array_like=True):
    draws: int
    window: int
    missed: list[int]
    held: dict[int, list[bytes]]
    waiting: dict[bytes, tuple[Address, int]]
    seen: dict[Address, list[bytes]]
    handed_in: bytes
    withheld: bool
    finished: bool
    hops: OutboxState
    outbox: OutboxState


class Device(Actor):
    """Sends its own report on its way, passes on those of others, and hands in at the end."""

    def __init__(
        self,
        person: int,
        value: NDArray[Any] | None,
        randomizer: Randomizer,
        *,
        neighbours: tuple[NDArray[np.int32], ...],
        rounds: int,
        laziness: float,
        mode: Mode,
        generator: Callable[[int], np.random.Generator],
        sealer: Sealer,
        timing: Timing,
    ) -> None:
        """``value`` is an array of one row, encoded as the randomizer wants it; none to resume.

        ``neighbours`` has one array per graph, used in turn by round. ``generator`` gives the
        stream of one draw by its number.
        """
        self._person = person
        self._value = value
        self._randomizer = randomizer
        self._neighbours = neighbours
        self._laziness = laziness
        self._mode = mode
        self._generator = generator
        self._sealer = sealer
        self._clock = Clock.of(rounds, timing)
        self._deadline = self._clock.hand_in + timing.patience
        # A payload is a report and its identifier, sealed.
        self._payload_limit = wire.report_limit(wire.ID_BYTES + randomizer.report_bytes)
        self._limit = wire.batch_limit(wire.ID_BYTES + randomizer.report_bytes, wire.MOST_TOGETHER)
        self._near = [
            frozenset(device(each) for each in near.tolist() if each != person)
            for near in neighbours
        ]
        self._waiting: dict[bytes, tuple[Address, int]] = {}
        """The hops not answered yet: to whom, and the key in the outbox."""
        self._hops = Outbox(_hop_pauses(timing))
        self._seen: dict[Address, dict[bytes, None]] = {}
        """The hops that were taken in, by sender."""
        self._draws = 0
        self._window = 0
        """The first window that neither came nor was missed."""
        self._missed: set[int] = set()
        self._held: dict[int, list[bytes]] = {}
        """The reports that are here, by the round in which they move next."""
        self._handed_in = b""
        self._withheld = False
        """Whether what was handed in holds no reports because it is too late for them."""
        self._finished = False
        self._outbox = Outbox(timing.backoff)

    def start(self, now: float) -> list[Effect]:
        """Draw and seal the report, and send it on its way if the walk has begun."""
        rng = self._stream()
        report = self._randomizer.randomize_exactly(owned(self._value), rng)
        self._held[0] = [self._payload(report, rng)]
        return self._catch_up(now) + self._alarm()

    def receive(self, message: Message, now: float) -> list[Effect]:
        """Reports from a neighbour, a neighbour's word that a hop is safe, or the curator's."""
        if message.sender == CURATOR:
            return self._answered(message.body)
        if not any(message.sender in near for near in self._near):
            return []
        heard = wire.decode(_FROM_DEVICE, message.body, self._limit)
        if isinstance(heard, wire.Hop) and self._expected(message.sender, heard):
            return self._take_in(message.sender, heard, now)
        if isinstance(heard, wire.Passed) and self._settle(message.sender, heard.id):
            return self._progress(now)
        return []

    def wake(self, now: float) -> list[Effect]:
        """Begin the round, or hand in, if it is time; send again what was not answered."""
        if self._finished:
            return []
        again = self._hops.retry(now) + self._withhold(now) + self._outbox.retry(now)
        return again + self._catch_up(now) + self._alarm()

    def _expected(self, sender: Address, hop: wire.Hop) -> bool:
        near = self._near[hop.round % len(self._near)]
        fits = all(len(payload) <= self._payload_limit for payload in hop.payloads)
        return hop.round < self._clock.rounds and sender in near and fits

    def _take_in(self, sender: Address, hop: wire.Hop, now: float) -> list[Effect]:
        seen = self._seen.setdefault(sender, {})
        if hop.id not in seen:
            if self._handed_in:
                # It comes too late to be handed in, so it is not answered: what was is counted.
                return []
            self._held.setdefault(hop.round + 1, []).extend(hop.payloads)
            seen[hop.id] = None
        answer: list[Effect] = [Send(sender, wire.encode(wire.Passed(hop.id)))]
        return answer + self._progress(now)

    def _settle(self, neighbour: Address, id_: bytes) -> bool:
        to, key = self._waiting.get(id_, ("", -1))
        if to != neighbour:
            return False
        del self._waiting[id_]
        return self._hops.settle(key)

    def _answered(self, body: bytes) -> list[Effect]:
        answer = wire.decode(_FROM_CURATOR, body, _ANSWER_LIMIT)
        if answer is None or answer.id != self._handed_in or not self._outbox.settle(0):
            return []
        self._finished = True
        unanswered = len(self._waiting)
        self._waiting = {}
        self._hops.resume(OutboxState({}))
        accepted = isinstance(answer, wire.Accepted)
        return [Done(HandedIn(accepted, tuple(sorted(self._missed)), unanswered))]

    def _progress(self, now: float) -> list[Effect]:
        """What a message that arrived sets in motion; the alarm stays when that is nothing."""
        effects = self._catch_up(now)
        return effects + self._alarm() if effects else []

    def _catch_up(self, now: float) -> list[Effect]:
        """Note which rounds were missed; move what is behind; hand in when it is time."""
        if self._handed_in:
            return []
        current = self._clock.current(now)
        if current >= self._window:
            self._missed.update(range(self._window, current))
            self._window = current + 1
        effects: list[Effect] = []
        begun = self._begun
        for number in range(min(self._held, default=begun), begun):
            here = self._held.pop(number, [])
            if number == 0 and number in self._missed:
                here = []  # The own report, as no other is here before the first round.
            if here and number not in self._missed:
                here, sent = self._pass_on(number, here, now)
                effects += sent
            if here:
                self._held.setdefault(number + 1, []).extend(here)
        if now >= self._clock.hand_in:
            effects.append(self._hand_in(now))
        return effects

    def _pass_on(
        self, number: int, here: list[bytes], now: float
    ) -> tuple[list[bytes], list[Effect]]:
        """Move each report on its own; those that stay, and one hop for each other neighbour."""
        near = self._neighbours[number % len(self._neighbours)]
        if not near.size:
            return here, []
        rng = self._stream()
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
            for first in range(0, len(parcel), wire.MOST_TOGETHER):
                moved = parcel[first : first + wire.MOST_TOGETHER]
                hop = wire.Hop(number, rng.bytes(wire.ID_BYTES), moved)
                # Keys grow, so that the latest of those that wait is the largest.
                key = next(reversed(self._waiting.values()), ("", -1))[1] + 1
                self._waiting[hop.id] = device(to), key
                effects.append(self._hops.put(key, device(to), wire.encode(hop), now))
        return kept, effects

    @property
    def _begun(self) -> int:
        """How many rounds have begun."""
        return min(self._window, self._clock.rounds)

    def _hand_in(self, now: float) -> Send:
        rng = self._stream()
        held = sorted(payload for here in self._held.values() for payload in here)
        self._held = {}
        self._withheld = now >= self._deadline or not on_to_the_end(
            self._missed, self._clock.windows
        )
        if not self._withheld and self._mode == "single":
            if held:
                held = [held[int(rng.integers(len(held)))]]
            else:
                held = [self._payload(make_dummies(self._randomizer, 1, rng), rng)]
        self._handed_in = rng.bytes(wire.ID_BYTES)
        return self._outbox.put(0, CURATOR, self._record(held), now)

    def _withhold(self, now: float) -> list[Effect]:
        """After the deadline the record alone is sent, for what was handed in may not be known."""
        if self._withheld or not self._handed_in or now < self._deadline:
            return []
        self._withheld = True
        return [self._outbox.put(0, CURATOR, self._record([]), now)]

    def _record(self, payloads: list[bytes]) -> bytes:
        missed = sorted(self._missed)
        if self._withheld:
            return wire.encode(wire.Withheld(self._handed_in, missed))
        return wire.encode(wire.HandIn(self._handed_in, missed, payloads))

    def _payload(self, reports: NDArray[Any], rng: np.random.Generator) -> bytes:
        (report,) = wire.pack(reports)
        return self._sealer.seal(CURATOR, rng.bytes(wire.ID_BYTES) + report)

    def _stream(self) -> np.random.Generator:
        self._draws += 1
        return self._generator(self._draws - 1)

    def _alarm(self) -> list[Effect]:
        clock, due = self._clock, [self._hops.due]
        if not self._handed_in:
            due.append(clock.opens(min(self._window, clock.windows - 1)))
        elif not self._withheld:
            due.append(self._deadline)
        return wake_at(self._outbox.due, *due)

    def state(self) -> bytes:
        """What is here and on its way, what was taken in, and how far the walk is."""
        return wire.encode(
            _DeviceState(
                draws=self._draws,
                window=self._window,
                missed=sorted(self._missed),
                held=self._held,
                waiting=self._waiting,
                seen={address: list(ids) for address, ids in self._seen.items()},
                handed_in=self._handed_in,
                withheld=self._withheld,
                finished=self._finished,
                hops=self._hops.state(),
                outbox=self._outbox.state(),
            )
        )

    def resume(self, state: bytes) -> None:
        """Continue with the same reports, the same bytes and the next stream."""
        stored = msgspec.msgpack.decode(state, type=_DeviceState)
        self._draws, self._window = stored.draws, stored.window
        self._missed, self._held = set(stored.missed), stored.held
        self._handed_in, self._finished = stored.handed_in, stored.finished
        self._withheld = stored.withheld
        self._seen = {address: dict.fromkeys(ids) for address, ids in stored.seen.items()}
        self._waiting = stored.waiting
        self._hops.resume(stored.hops)
        self._outbox.resume(stored.outbox)


def make_actor(
    address: Address,
    context: ActorContext,
    walk: Walk,
    rounds: int,
    mode: Mode,
    randomizer: Randomizer,
) -> Actor:
    """One person's device, or the curator."""
    if not walk.present:
        raise InvalidParameter(
            "who is away is decided by the run itself when devices are played: leave away and "
            "silent out"
        )
    if address == CURATOR:
        dummies = expected_dummies(randomizer, walk, rounds) if mode == "single" else None
        return Curator(
            walk.n,
            wire.ReportFormat.of(randomizer),
            rounds=rounds,
            mode=mode,
            dummies=dummies,
            sealer=context.sealer,
            timing=context.timing,
        )
    person = person_of(address)
    return Device(
        person,
        context.value,
        randomizer,
        neighbours=tuple(graph.neighbours(person) for graph in walk.graphs),
        rounds=rounds,
        laziness=walk.laziness,
        mode=mode,
        generator=context.generator,
        sealer=context.sealer,
        timing=context.timing,
    )
