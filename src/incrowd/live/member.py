"""One party over its whole life: it hears of surveys, decides, takes part, and is done.

What happens to a survey, from the point of view of one device or helper:

    offered ──▶ examined ──▶ joined ──▶ started ──▶ compared ──▶ begun ──▶ done ──▶ closed
                    │                       │            │
                    └────── declined ◀──────┴────────────┘   with a reason, and nothing is spent

* **examined**: everything in the task was checked and every promise recomputed (``admission``),
  and the owner's policy allows it, whatever the answer is (``decide``);
* **joined**: the device has signed the task's digest, so that all who do stand on one roster, and
  the cost is reserved;
* **compared**: at least two thirds of those it will talk to have signed that they see the same
  start; when more than a third sign another one, that ends it: nothing has left the device by then.
  Whose report would walk misses the survey when the first round is over before that, so that
  nobody can shorten the walk by a late start or by holding back what others sign;
* **begun**: the ledger's line, the drawn report and the first sealed cells are one commit; this is
  where the answer is read.

Joined surveys are facts in the journal, so a restart goes on where it was. A device answers one
survey once, whatever it is offered.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from incrowd.errors import IncrowdError
from incrowd.live import cells, frames, links
from incrowd.live.admission import Started
from incrowd.live.client import Connection
from incrowd.live.host import Host, keys_for, patiently
from incrowd.live.journal import Fact
from incrowd.live.keys import PrivateKeys
from incrowd.live.party import Party
from incrowd.live.playing import Spend
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.supervisor import TRANSIENT, Service
from incrowd.protocols.capabilities import absence_message, contacts_of
from incrowd.protocols.runtime.actor import (
    CURATOR,
    Actor,
    Address,
    device,
    is_device,
    person_of,
    stands_by,
)
from incrowd.protocols.runtime.context import ActorContext
from incrowd.randomness import system_generator

_log = logging.getLogger(__name__)

_EXCUSE = 10.0
_LOOK = 1.0
OVER = "over"
"""Key of the fact that a survey needs nothing more; its value says when that may be forgotten."""
DIGEST = "digest"
"""Key of the fact that a survey was joined."""
_CURATOR_OFFERS, _OFFERS = 8, 32
"""Most surveys of one curator, and of all, that a member waits for at a time."""
_REMEMBERED = 256
"""Surveys of which a member remembers that it does not take part."""
_EVER = msgspec.msgpack.encode(math.inf)


class Member:
    """What devices, helpers and curators have in common: keys, a connection, and parts to play."""

    def __init__(self, keys: PrivateKeys, host: Host, path: Path | None = None) -> None:
        """``path`` is the directory of the keys, where they are in one."""
        self.keys = keys
        self.path = path
        self.host = host
        self.identity = keys.identity.public_key().public_bytes_raw()
        self.connection = Connection(
            host.hub.url, keys.identity, host.tls, news=self._news, rng=host.rng,
            supervisor=host.supervisor,
        )  # fmt: skip
        self.parties: dict[bytes, Party] = {}
        """The parts it plays, by survey."""
        self.declined: dict[bytes, str] = {}
        """Why it does not take part, by survey; the newest only."""
        self.refusals: Counter[str] = Counter()
        """Surveys that were declined, by the reason."""
        self._open: dict[bytes, bytes] = {}
        """The curators of surveys that were neither declined nor begun."""
        self._lives: dict[bytes, Service] = {}
        self._seen: dict[bytes, dict[Address, bytes]] = {}
        self._heard: dict[bytes, asyncio.Event] = {}
        """Set when a contact has said which start it sees."""

    async def renew(self) -> None:
        """Take up a sealing key that was made since, for the surveys to come."""
        if self.path is not None:
            self.keys = PrivateKeys.load(self.path)
            await patiently(self.enrol)

    async def enrol(self) -> None:
        """Register the keys, or their newest version."""
        await self.host.hub.enrol(self.keys.record())

    async def open(self) -> None:
        """Connect, and go on with what was begun before a restart."""
        await patiently(self.connection.open)
        await self._expire()
        for survey, known in list(self.host.facts(self.identity).items()):
            if DIGEST in known:
                self._live(survey)

    async def close(self) -> None:
        """Leave; whatever is unfinished goes on at the next start."""
        await asyncio.gather(*(life.stop() for life in self._lives.values()))
        await self.connection.close()

    def _news(self, news: frames.News) -> None:
        if news.what in ("offered", "started"):
            self._live(news.survey)
        self.host.heard(news)

    def _live(self, survey: bytes) -> None:
        over = OVER in self.host.facts(self.identity).get(survey, {})
        if not over and survey not in self._lives and survey not in self.declined:
            self.host.news(survey)
            self._lives[survey] = self.host.supervisor.part(
                "a part in a survey", lambda _: self._life(survey), lambda: self._give_up(survey)
            )

    async def _life(self, survey: bytes) -> None:
        with self.host.concerned(survey):
            try:
                await self.live(survey)
                await self._end(survey)
            except TRANSIENT:
                raise  # it is begun again from what was committed
            except IncrowdError as refusal:
                # Also what cannot be done here must not end the other lives of this process.
                await self._decline(survey, refusal)
        self._leave(survey)

    def _give_up(self, survey: bytes) -> None:
        self._remember(survey, "failed")
        self._leave(survey)

    def _leave(self, survey: bytes) -> None:
        self._open.pop(survey, None)
        self._lives.pop(survey, None)

    async def _end(self, survey: bytes) -> None:
        """Note that a survey needs nothing more, for as long as it could be offered again."""
        spec = (await self.host.task(survey))[1]
        expires = msgspec.msgpack.encode(spec.expires)
        await self.host.note(Fact(self.identity, survey, OVER, expires))

    async def _decline(self, survey: bytes, refusal: IncrowdError) -> None:
        reason = why(refusal)
        self._remember(survey, reason)
        if reason != Reason.full or self.refusals[reason] == 1:
            # Offers that are too many must not fill the log either.
            self.host.declined(survey, refusal)
        if reason == Reason.equivocal:
            # Somebody lies, and not even a restart may make it be tried again.
            await self.host.note(Fact(self.identity, survey, OVER, _EVER))
        elif DIGEST in self.host.facts(self.identity).get(survey, {}):
            await self.host.note(Fact(self.identity, survey, DIGEST, None))

    def _remember(self, survey: bytes, reason: str) -> None:
        self.refusals[reason] += 1
        self.declined[survey] = reason
        while len(self.declined) > _REMEMBERED:
            del self.declined[next(iter(self.declined))]

    async def _expire(self) -> None:
        """Forget what can never be offered again."""
        now = self.host.time()
        facts = self.host.facts(self.identity).items()
        gone = [
            Fact(self.identity, survey, key, None)
            for survey, known in facts
            if OVER in known and msgspec.msgpack.decode(known[OVER], type=float) < now
            for key in known
        ]
        if gone:
            await self.host.note(*gone)

    def open_offer(self, survey: bytes, curator: bytes) -> None:
        """Take a place among the surveys that this member waits for, or decline."""
        if survey in self._open or DIGEST in self.host.facts(self.identity).get(survey, {}):
            self._open[survey] = curator  # it has had a place before
            return
        of_curator = sum(each == curator for each in self._open.values())
        if of_curator >= _CURATOR_OFFERS or len(self._open) >= _OFFERS:
            raise Rejected(Reason.full, "too many surveys are open that have not started")
        self._open[survey] = curator

    async def live(self, survey: bytes) -> None:
        """Take part from the offer to the end."""
        raise NotImplementedError

    # The pieces of a life.

    def party(
        self,
        started: Started,
        address: Address,
        read: Callable[[], NDArray[Any]] | None = None,
    ) -> Party:
        """The part to play, not begun yet; ``read`` gives the owner's encoded answer, once."""
        spec = started.offer.spec
        number = cells.number(address)
        record = started.records[address]
        keys = keys_for(self.keys, self.path, record)
        records = self.host.numbered(started)
        sealer = links.HpkeSealer(number, keys, spec.survey, started.context, records)
        plan = started.plan
        timing = spec.timing if plan is None else plan.paced(spec.timing)
        seat = ActorContext(generator=system_generator, sealer=sealer, timing=timing)

        def make() -> Actor:
            return started.protocol.actor(address, seat)

        def first() -> Actor:
            value = None if read is None else read()
            return started.protocol.actor(address, replace(seat, value=value))

        self._seen[spec.survey] = {}
        self._heard[spec.survey] = asyncio.Event()
        return Party(
            address,
            spec.survey,
            make,
            links.Links(number, keys, spec.survey, started.context, records),
            first=first,
            origin=started.start.at,
            round_seconds=spec.timing.round_seconds,
            plan=[] if plan is None else plan.ticks(address, spec.timing),
            compare=partial(self._compared, started, number, frozenset(contacts(started, address))),
        )

    async def play(self, started: Started, party: Party, spend: Spend | None = None) -> None:
        """Go on with the part, or compare and begin; returns when the survey is over."""
        self.parties[started.offer.spec.survey] = party
        transport = await self.host.transport(self, started, party)
        resumed = self.host.play(party, started, transport, spend)
        try:
            if not resumed:
                await self.compare(started, party)
            self.host.player.release(party)
            self._open.pop(started.offer.spec.survey, None)
            await self.until_over(started, party)
        except TRANSIENT:
            raise
        except IncrowdError:
            await self._excuse(started, party)
            raise
        finally:
            await self.host.leave(party)

    async def _excuse(self, started: Started, party: Party) -> None:
        """Let the curator know that nothing of this party is on its way, nor ever was."""
        body = absence_message(started.protocol)
        if body is not None and not party.begun and is_device(party.address):
            party.excuse(body, self.host.clocks.now(party.survey))
            self.host.player.mark(party)
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXCUSE):
                    await self.host.player.drained(party)

    async def compare(self, started: Started, party: Party) -> None:
        """Tell those it will talk to which start it sees, and hear it from most of them."""
        survey, peers = started.offer.spec.survey, contacts(started, party.address)
        clock = self.host.clocks.now
        for peer in peers:
            party.post(
                links.compare_cell(
                    self.keys, survey, party.number, cells.number(peer), started.context
                )
            )
        self.host.player.mark(party)
        wanted = [peer for peer in peers if peer in waited_for(started, party.address)]
        # Whoever stands by counts in the place of whoever is missing.
        needed = len(wanted) - sum(map(stands_by, wanted))
        latest = latest_beginning(started, party.address)
        if clock(survey) > latest:
            raise Rejected(Reason.expired, "it is too late to begin")
        while True:
            seen = self._seen[survey]
            agree = sum(seen.get(peer) == started.context for peer in wanted)
            others = sum(seen.get(peer, started.context) != started.context for peer in wanted)
            if 3 * others > needed:
                raise Rejected(Reason.equivocal, "others were shown another start of this survey")
            # While there is time, also the last ones are heard.
            if agree == len(wanted) or (
                3 * agree >= 2 * needed and clock(survey) >= started.start.at
            ):
                return
            if clock(survey) > latest:
                raise Rejected(
                    Reason.equivocal, "most of the others did not say in time which start they see"
                )
            # A thousand of these wait in one process: each only for what concerns it.
            left = started.start.at - clock(survey)
            self._heard[survey].clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left if left > 0 else _LOOK / 10):
                    await self._heard[survey].wait()

    def _compared(
        self, started: Started, number: int, peers: frozenset[Address], cell: bytes
    ) -> None:
        header = cells.Header.parse(cell)
        if header.survey != started.offer.spec.survey or header.recipient != number:
            raise Rejected(Reason.foreign)
        sender = cells.address(header.sender)
        if sender not in peers:
            raise Rejected(Reason.unknown)
        seen = self._seen[header.survey]
        if sender not in seen:
            seen[sender] = links.read_compare(cell, started.records[sender])
            self._heard[header.survey].set()

    async def until_over(self, started: Started, party: Party) -> None:
        """Go on answering until it is closed, or nobody can be waiting any more."""
        closed = self.host.news(party.survey).closed
        failures, clock = self.host.player.failures, self.host.clocks.now
        while (left := started.ends - clock(party.survey)) > 0 and not closed.is_set():
            # It may be too late to begin by now, or another survey may have used up the budget; or
            # the actor failed, and goes on from its last commit.
            if (failure := failures.pop(party, None)) is not None:
                raise failure
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _LOOK)):
                    await closed.wait()


class Helper(Member):
    """Plays a part that is nobody's device, such as the shuffler's."""

    async def live(self, survey: bytes) -> None:
        """Examine, wait for the start, compare, and play."""
        _, spec = await self.host.task(survey)
        self.open_offer(survey, spec.helpers[CURATOR].identity)
        offer = await self.host.offer(survey)
        if self.identity not in {record.identity for record in offer.spec.helpers.values()}:
            raise Rejected(Reason.foreign, "this party has no part in the survey")
        await self.host.note(Fact(self.identity, survey, DIGEST, offer.digest))
        started = await self.host.start_of(offer)
        address = started.address_of(self.identity)
        # Among fewer people than were asked, fewer helpers may be needed.
        if address is None or address not in started.protocol.helpers:
            raise Rejected(Reason.foreign, "this party has no part in the survey")
        await self.play(started, self.party(started, address))


def why(refusal: IncrowdError) -> str:
    """The kind of a refusal in one or two words, for counting."""
    reason = getattr(refusal, "reason", None)
    return str(reason) if reason is not None else "failed"


def contacts(started: Started, address: Address) -> list[Address]:
    """Whom a party tells which start it sees: everyone it exchanges messages with, but curators."""
    if address == CURATOR:
        return []
    if is_device(address):
        near = contacts_of(started.protocol, person_of(address))
        return [peer for peer in near if peer != CURATOR]
    people = range(len(started.start.joins))
    return [device(each) for each in people if address in contacts_of(started.protocol, each)]


def latest_beginning(started: Started, address: Address) -> float:
    """Until when a part may begin: a report that walks has to move in every round."""
    if is_device(address) and any(map(is_device, contacts(started, address))):
        return started.start.at + started.offer.spec.timing.round_seconds
    return started.ends


def waited_for(started: Started, address: Address) -> set[Address]:
    """From whom a party wants to hear it: a helper sees reports of others, and waits for nobody."""
    return set(contacts(started, address)) if is_device(address) else set()
