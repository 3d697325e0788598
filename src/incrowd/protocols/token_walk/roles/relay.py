"""The relay, addressed as the courier: draws the next holder of a token, and carries it unread.

    waiting ──▶ drawing ──▶ asked ──▶ drawing ──▶ … ──▶ asked ──▶ counted ──▶ home ──▶ over
                   ▲          │ silent
                   └──────────┘

A request (``Carry``, or ``Again`` after a loss) goes to one person and names a one-time key of the
next. While it is *asked*, the same bytes are repeated; the answer to any other request changes
nothing, so that there is never more than one token. A person who is silent for a round is passed
over: not drawn again until they answer with new keys. An earlier holder then seals its sum to
another person, and the visits after that sum are a dead branch, which is in no result; if all of
those who still have theirs are silent again and again, the walk begins anew. So that people who
went away do not count as people who could have been drawn, everyone not heard of for the settling
time is asked for a sign of life, and everyone before a token comes home.

Holders are uniform among those who are there, on a graph by its weights, and on a ring everyone in
turn; there people are never passed over, and the token waits. A visit counts as a step of the walk
when it is asked for, answered or not, so that a walk never has more steps than planned. All draws
are durable before any message tells of them, and each has a stream of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Done,
    Effect,
    Message,
    Send,
    device,
    is_device,
    person_of,
)
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.runtime.delivery import Outbox, OutboxState, wake_at
from incrowd.protocols.token_walk.accountant import weights_of
from incrowd.protocols.token_walk.roles import messages
from incrowd.protocols.token_walk.roles.messages import HOME
from incrowd.protocols.token_walk.roles.token import token_format
from incrowd.protocols.token_walk.spec import FEWEST
from incrowd.protocols.token_walk.theorems.conditional_on_path import largest_loss

if TYPE_CHECKING:
    from incrowd.protocols.token_walk.spec import TokenWalk

_KEPT: Final = 8  # last holders who keep their sums
_PATIENCE: Final = 3  # requests to each of them before the walk begins anew
_LOW: Final = messages.LOT // 2  # keys left of a person below which more are asked for
_CALLS: Final = 4  # requests for a sign of life within a round
_NOBODY: Final = -1
_NOWHERE: Final = -1  # in place of a visit: the origin of a new token

_FROM_DEVICE = msgspec.msgpack.Decoder(messages.Stock | messages.Handed)
_FROM_CURATOR = msgspec.msgpack.Decoder(messages.Arrived)

_WAITING, _DRAWING, _ASKED, _COUNTED, _HOME, _OVER = range(6)
_UNDER_WAY = (_DRAWING, _ASKED, _COUNTED)


class Visit(msgspec.Struct, array_like=True):
    """A request to a person to add to a token."""

    turn: int
    holder: int
    before: int  # the visit whose sum it adds to
    blank: bool  # whether only noise was asked for


def line(visits: Sequence[Visit], head: int) -> Iterator[int]:
    """Yield the visits that are in the sum of this one, the last one first."""
    while head != _NOWHERE:
        yield head
        head = visits[head].before


def walk_seconds(length: int, timing: Timing) -> float:
    """Return the latest end of a walk of this length in seconds, with any absences."""
    return _last_call(length, timing) + timing.grace_rounds * timing.round_seconds


def _last_call(length: int, timing: Timing) -> float:
    """From then on a token is brought home instead of on."""
    return (timing.grace_rounds + length) * timing.round_seconds


class _Person(msgspec.Struct, array_like=True):
    lot: int = -1  # the last lot of keys that was asked for
    keys: list[bytes] = []
    present: bool = False
    heard: float = 0.0  # the time of the last message from them
    called: int = 0  # requests for a sign of life since then


class _TokenState(msgspec.Struct, array_like=True):
    stage: int
    crowd: int  # the fewest people among whom a holder was drawn
    outbox: OutboxState
    turn: int = -1  # the number of the request that is asked or prepared
    due: float = np.inf  # when the person who is waited for is passed over
    visits: list[Visit] = []
    head: int = _NOWHERE  # the visit whose sum is the last that came back
    tries: int = 0  # requests to earlier holders since then
    again: int = _NOWHERE  # the visit whose sum is asked for again, unless the token goes on
    holder: int = _NOBODY  # the person who is asked, or will be
    key: bytes = b""  # the one-time key of the holder to which the token is sealed
    sealed: bytes = b""
    next: int = _NOBODY  # the person who was drawn to hold it next
    next_key: bytes = b""
    since: float = np.inf  # since when everyone is counted before the token comes home
    contributed: dict[int, int] = {}
    """With a cap: requests for a contribution to each person, answered or not."""


class _RelayState(msgspec.Struct, array_like=True):
    people: list[_Person]
    walks: list[_TokenState]
    restocks: OutboxState
    over: bool


class Relay(Actor):
    """Runs all tokens side by side."""

    def __init__(self, protocol: TokenWalk, context: ActorContext) -> None:
        self._protocol, timing = protocol, context.timing
        self._n, self._length, self._cap = protocol.n, protocol.length, protocol.cap
        self._ring = protocol.topology == "ring"
        self._weights = None if protocol.graph is None else weights_of(protocol.graph)
        self._limit = messages.limit_of(token_format(protocol))
        self._generator, self._timing = context.generator, timing
        self._begins = timing.grace_rounds * timing.round_seconds
        # A part of a lap must not come home: the noise that hides it may not be in it yet.
        self._last_call = np.inf if self._ring else _last_call(protocol.length, timing)
        self._ends = walk_seconds(protocol.length, timing)
        self._people = [_Person() for _ in range(protocol.n)]
        tokens = range(protocol.tokens)
        self._walks = [_TokenState(_WAITING, protocol.n, OutboxState({})) for _ in tokens]
        self._restocks = Outbox(timing.backoff)
        self._over = self._was_away = False

    def start(self, now: float) -> list[Effect]:
        asked = [each for person in range(self._n) for each in self._restock(person, now)]
        return asked + self._go_on(now)

    def receive(self, message: Message, now: float) -> list[Effect]:
        if message.sender == CURATOR:
            arrived = wire.decode(_FROM_CURATOR, message.body, self._limit)
            walks = [] if arrived is None else self._walks[arrived.token : arrived.token + 1]
            if not walks or walks[0].stage != _HOME:
                return []
            walks[0].stage, walks[0].outbox = _OVER, OutboxState({})
            return self._go_on(now)
        person = person_of(message.sender) if is_device(message.sender) else _NOBODY
        said = wire.decode(_FROM_DEVICE, message.body, self._limit)
        if not 0 <= person < self._n or said is None:
            return []
        self._people[person].heard, self._people[person].called = now, 0
        if self._over:
            return [Send(message.sender, wire.encode(messages.Over()))]
        if isinstance(said, messages.Stock):
            return self._stocked(person, said, now)
        return self._handed(person, said, now)

    def wake(self, now: float) -> list[Effect]:
        """Repeat requests without an answer, and pass over people silent for too long."""
        return self._restocks.retry(now) + self._go_on(now)

    def _go_on(self, now: float) -> list[Effect]:
        if self._over:
            return [Done()]
        if self._was_away:
            # Silence counts only while the relay listened.
            for who in self._people:
                who.heard, who.called = now, 0
            for walk in self._walks:
                walk.due = max(walk.due, now + self._timing.round_seconds)
            self._was_away = False
        effects: list[Effect] = []
        for token, walk in enumerate(self._walks):
            if walk.stage < _COUNTED:
                effects += self._move(token, walk, now)
            effects += self._outbox(walk).retry(now)
        calls, next_call = self._call_out(now)
        effects += calls
        for token, walk in enumerate(self._walks):
            if walk.stage == _COUNTED:
                effects += self._counted(token, walk, now)
        if all(walk.stage == _OVER for walk in self._walks):
            self._over, self._restocks = True, Outbox(self._timing.backoff)
            over = wire.encode(messages.Over())
            return [*effects, *(Send(device(each), over) for each in range(self._n)), Done()]
        times: list[float | None] = [self._restocks.due, next_call]
        for walk in self._walks:
            times.append(self._outbox(walk).due)
            if walk.stage < _HOME:
                times.append(min(walk.due, self._ends))
                times.append(self._last_call if now < self._last_call else None)
            if walk.stage == _WAITING and now < self._begins:
                times.append(self._begins)
        return effects + wake_at(*(time for time in times if time != np.inf))

    def _outbox(self, walk: _TokenState) -> Outbox:
        outbox = Outbox(self._timing.backoff)
        outbox.resume(walk.outbox)
        return outbox

    # People.

    def _call_out(self, now: float) -> tuple[list[Effect], float | None]:
        """Ask for signs of life, pass over people who give none, and say when to look again."""
        effects: list[Effect] = []
        if self._ring or not any(walk.stage in _UNDER_WAY for walk in self._walks):
            return effects, None
        times, pause = [], self._timing.round_seconds / _CALLS
        since = min((w.since for w in self._walks if w.stage == _COUNTED), default=np.inf)
        for person, who in enumerate(self._people):
            if not who.present:
                continue
            quiet = who.heard + self._begins
            first = min(quiet, since) if who.heard < since else quiet
            if now >= first + _CALLS * pause:
                effects += self._pass_over(person, now)
                continue
            if now >= first + who.called * pause:
                # The same lot once more: a device that is there answers with the same keys.
                effects.append(Send(device(person), wire.encode(messages.Restock(who.lot))))
                while now >= first + who.called * pause:
                    who.called += 1
            times.append(first + who.called * pause)
        return effects, min(times, default=None)

    def _restock(self, person: int, now: float) -> list[Effect]:
        if person in self._restocks.state().pending:
            return []
        self._people[person].lot += 1
        body = wire.encode(messages.Restock(self._people[person].lot))
        return [self._restocks.put(person, device(person), body, now)]

    def _stocked(self, person: int, said: messages.Stock, now: float) -> list[Effect]:
        who = self._people[person]
        if said.lot != who.lot or len(set(said.keys)) < len(said.keys):
            return []
        if self._restocks.settle(person):
            who.keys, who.present = who.keys + said.keys, True
        # Else it is a sign of life, which may be the last that was waited for.
        return self._go_on(now)

    def _pass_over(self, person: int, now: float) -> list[Effect]:
        self._people[person].keys, self._people[person].present = [], False
        return self._restock(person, now)

    def _take_key(self, person: int, now: float) -> tuple[bytes, list[Effect]]:
        keys = self._people[person].keys
        key = keys.pop(0) if keys else b""
        return key, self._restock(person, now) if len(keys) < _LOW else []

    # Moving on.

    def _move(self, token: int, walk: _TokenState, now: float) -> list[Effect]:
        if now >= self._ends:
            return self._bring_home(token, walk, b"", now)
        if walk.stage == _WAITING:
            here = sum(each.present for each in self._people)
            wanted = self._n if self._ring or now < self._begins else FEWEST
            return self._prepare(token, walk, now) if here >= wanted else []
        if now < walk.due:
            return self._ask(token, walk, now) if walk.stage == _DRAWING else []
        if walk.stage == _ASKED:
            return self._pass_over(walk.holder, now) + self._go_back(token, walk, now)
        # The person drawn gives no keys, or none could be drawn.
        effects: list[Effect] = []
        if walk.again == _NOWHERE and not walk.key and walk.holder != _NOBODY:
            effects += self._pass_over(walk.holder, now)
            walk.holder = _NOBODY
        if walk.next != _NOBODY and not walk.next_key:
            effects += self._pass_over(walk.next, now)
        return effects + self._prepare(token, walk, now)

    def _prepare(self, token: int, walk: _TokenState, now: float) -> list[Effect]:
        """Begin another request, which is asked as soon as the next holder is known."""
        walk.stage, walk.turn = _DRAWING, walk.turn + 1
        walk.next, walk.next_key = _NOBODY, b""
        walk.due = np.inf if self._ring else now + self._timing.round_seconds
        return self._ask(token, walk, now)

    def _ask(self, token: int, walk: _TokenState, now: float) -> list[Effect]:
        carries = walk.again == _NOWHERE
        effects: list[Effect] = []
        if carries and not walk.key:
            if walk.holder == _NOBODY:
                walk.holder = self._draw(token, walk, 0, _NOBODY)
            if walk.holder != _NOBODY:
                walk.key, effects = self._take_key(walk.holder, now)
            if not walk.key:
                return effects
        if len(walk.visits) + carries < self._length and now < self._last_call:
            if walk.next == _NOBODY:
                walk.next = self._draw(token, walk, 1, walk.holder)
            if walk.next != _NOBODY and not walk.next_key:
                walk.next_key, more = self._take_key(walk.next, now)
                effects += more
            if not walk.next_key:
                return effects
        else:
            walk.next, walk.next_key = _NOBODY, HOME
        return [*effects, self._request(token, walk, now)]

    def _request(self, token: int, walk: _TokenState, now: float) -> Send:
        body: msgspec.Struct
        if walk.again == _NOWHERE:
            blank = False
            if self._cap:
                so_far = walk.contributed.get(walk.holder, 0)
                blank = so_far >= self._cap
                walk.contributed[walk.holder] = min(so_far + 1, self._cap)
            walk.visits.append(Visit(walk.turn, walk.holder, walk.head, blank))
            body = messages.Carry(token, walk.turn, walk.key, walk.sealed, walk.next_key, blank)
        else:
            body = messages.Again(token, walk.turn, walk.visits[walk.again].turn, walk.next_key)
        walk.stage = _ASKED
        walk.due = np.inf if self._ring else now + self._timing.round_seconds
        walk.outbox = OutboxState({})
        return self._outbox(walk).put(token, device(walk.holder), wire.encode(body), now)

    def _handed(self, person: int, said: messages.Handed, now: float) -> list[Effect]:
        if said.token >= len(self._walks):
            return []
        walk = self._walks[said.token]
        if walk.stage != _ASKED or (said.turn, person) != (walk.turn, walk.holder):
            return []
        effects: list[Effect] = []
        walk.tries, walk.sealed = 0, said.sealed
        if walk.again == _NOWHERE:
            walk.head = len(walk.visits) - 1
            for place in islice(line(walk.visits, walk.head), _KEPT, _KEPT + 1):
                done = walk.visits[place]
                release = wire.encode(messages.Release(said.token, done.turn))
                effects.append(Send(device(done.holder), release))
        else:
            walk.head = walk.again
        if walk.next_key == HOME:
            # Everyone is asked for a sign of life before the token comes home: a person who gives
            # none was perhaps gone for longer, and no part of the crowd.
            walk.stage, walk.outbox = _COUNTED, OutboxState({})
            walk.since, walk.due = now, np.inf
            return effects + self._go_on(now)
        walk.again, walk.holder, walk.key = _NOWHERE, walk.next, walk.next_key
        return effects + self._prepare(said.token, walk, now) + self._go_on(now)

    def _counted(self, token: int, walk: _TokenState, now: float) -> list[Effect]:
        """Bring the token home when all were heard of who were not passed over."""
        here = [each.heard >= walk.since for each in self._people if each.present]
        if not self._ring:
            if not all(here) and now < self._ends:
                return []
            walk.crowd = min(walk.crowd, sum(here))
        return self._bring_home(token, walk, walk.sealed, now)

    def _go_back(self, token: int, walk: _TokenState, now: float) -> list[Effect]:
        """Ask an earlier holder, or begin anew when all of them were asked often enough."""
        kept = list(islice(line(walk.visits, walk.head), _KEPT))
        if walk.tries < _PATIENCE * len(kept):
            walk.again = kept[walk.tries % len(kept)]
            walk.holder, walk.key, walk.sealed = walk.visits[walk.again].holder, b"", b""
            walk.tries += 1
        elif len(walk.visits) < self._length and now < self._last_call:
            walk.again, walk.head, walk.tries = _NOWHERE, _NOWHERE, 0
            walk.holder, walk.key, walk.sealed = _NOBODY, b"", b""
        else:
            return self._bring_home(token, walk, b"", now)
        return self._prepare(token, walk, now)

    def _bring_home(self, token: int, walk: _TokenState, sealed: bytes, now: float) -> list[Effect]:
        """Send the token to the curator with its statistics; one that is lost brings nothing."""
        walk.stage, walk.outbox = _HOME, OutboxState({})
        own = list(line(walk.visits, walk.head)) if sealed else []
        reports = sum(not walk.visits[place].blank for place in own)
        noise = self._protocol.ring_noise if self._ring and own else float(len(own))
        told = messages.Homecoming(
            token, sealed, reports, noise, len(walk.visits), walk.crowd, self._losses(walk, own)
        )
        return [self._outbox(walk).put(token, CURATOR, wire.encode(told), now)]

    def _losses(self, walk: _TokenState, own: list[int]) -> float | None:
        """The largest loss of any pair, if the path may be public and nothing was lost."""
        protocol = self._protocol
        # Of a hidden path nothing must be told that depends on it.
        hidden = self._ring or protocol.path_known == "hidden"
        if hidden or len(own) < len(walk.visits) or protocol.randomizer.normal_shift is None:
            return None
        path = np.array([each.holder for each in walk.visits])
        return largest_loss(path, self._n, published=protocol.published)

    def _draw(self, token: int, walk: _TokenState, which: int, after: int) -> int:
        """The holder after this person, or the first one; nobody if there are too few."""
        if self._ring:
            return (after + 1) % self._n
        here = [person for person, each in enumerate(self._people) if each.present]
        if len(here) < FEWEST:
            return _NOBODY
        rng = self._generator(token, walk.turn, which)
        if self._weights is None or after == _NOBODY:
            drawn = here[int(rng.integers(len(here)))]
        else:
            row = slice(*self._weights.indptr[after : after + 2])
            near, weights = self._weights.indices[row], self._weights.data[row]
            weights = weights * np.isin(near, here)
            if not weights.sum() > 0:
                return _NOBODY
            drawn = int(rng.choice(near, p=weights / weights.sum()))
        walk.crowd = min(walk.crowd, len(here))
        return drawn

    def state(self) -> bytes:
        restocks = self._restocks.state()
        return wire.encode(_RelayState(self._people, self._walks, restocks, self._over))

    def resume(self, state: bytes) -> None:
        stored = msgspec.msgpack.decode(state, type=_RelayState)
        self._people, self._walks, self._over = stored.people, stored.walks, stored.over
        self._restocks.resume(stored.restocks)
        self._was_away = True
