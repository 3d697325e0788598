"""The curator: offers a survey to a crowd, starts it, receives what is handed in, and concludes.

A curator is a party like the others: it has keys, a connection and a journal, and its actor's state
is durable. What it alone does is sign: the task, the start, and the close. The parts of a survey
that it needs later are facts in its journal, so opening, watching and concluding may be done by
different processes, one after the other.

No result is given for a crowd smaller than the task's own minimum.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.live import task as tasks
from incrowd.live.accounting import CELLS, promises_of
from incrowd.live.admission import Offer, Started
from incrowd.live.host import patiently
from incrowd.live.hub.closing import sign_close
from incrowd.live.hub.messages import Span
from incrowd.live.journal import Fact
from incrowd.live.keys import KeyRecord, Role, check
from incrowd.live.member import Member
from incrowd.live.options import LiveOptions
from incrowd.live.party import Party
from incrowd.live.reasons import Rejected
from incrowd.live.task import Join, Signed, Spec, Start
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import attested, covered, graph_of, parts_of
from incrowd.protocols.run import Run
from incrowd.protocols.run import conclude as conclude_run
from incrowd.protocols.runtime.actor import CURATOR, Address
from incrowd.protocols.runtime.context import Connection, Connections, Timing
from incrowd.protocols.runtime.delivery import Backoff
from incrowd.protocols.runtime.outputs import unpack_output
from incrowd.tasks.base import Task

_ROUND = 2.0
"""A round's length where the survey says nothing, in seconds."""
_LEAD = 5.0
_PAUSE = 0.2
_ANSWERS = 10.0
_ABOUT, _DIGEST, _OUTPUT, _CONNECTIONS = "about", "digest", "output", "connections"
"""The keys of what a curator notes about its surveys."""


@dataclass(frozen=True)
class Proposal:
    """A survey ready to be offered."""

    signed: Signed
    spec: Spec
    roster: bytes
    graph: bytes | None

    @property
    def survey(self) -> bytes:
        """Its identifier."""
        return self.spec.survey


def timing_of(options: LiveOptions, round_seconds: float = _ROUND) -> Timing:
    """The timetable of a live run.

    The hub and the outboxes do not lose what they hold, so an unanswered message is sent again only
    after rounds enough for its answer, which under cover travels with the next rounds.
    """
    length = options.round_seconds or round_seconds
    pause = max(5.0, 6 * length)
    return Timing(
        round_seconds=length,
        grace_rounds=options.grace_rounds,
        timeout=options.timeout,
        backoff=Backoff(first=pause, factor=2.0, cap=8 * pause),
    )


def propose(
    protocol: Protocol,
    task: Task,
    *,
    question: str,
    column: str,
    delta: float,
    roster: Sequence[KeyRecord],
    helpers: Mapping[Address, KeyRecord],
    keys: Any,
    options: LiveOptions,
    timing: Timing,
    expires: float,
) -> Proposal:
    """Sign a survey of the people on the roster; person i of the protocol is the i-th of them."""
    for part in parts_of(protocol):
        if not part.randomizer.exact:
            raise InvalidParameter(
                f"devices refuse {part.randomizer.kind}, which is drawn in floating point: choose "
                "krr, onebit or another randomizer that answers with whole numbers"
            )
    if protocol.n != len(roster):
        raise InvalidCrowd(
            f"the protocol is set up for {protocol.n} people, and {len(roster)} are on "
            "the roster: set it up for those who are enrolled"
        )
    if len(roster) < options.min_crowd:
        raise InvalidCrowd(
            f"only {len(roster)} people are enrolled and min_crowd is {options.min_crowd}: wait "
            "for more, or lower it"
        )
    promised = covered(protocol, delta, CELLS) if options.cover else protocol
    people, committed = tasks.encode_roster(roster)
    graph, shown = None, None
    if (edges := graph_of(protocol)) is not None:
        graph, shown = tasks.encode_graph(edges)
    spec = Spec(
        survey=secrets.token_bytes(16),
        question=question,
        questions=tasks.describe(protocol, task, question, column),
        chances=tasks.chances_of(protocol),
        protocol=protocol.kind,
        people=len(roster),
        roster=committed,
        graph=shown,
        helpers=dict(helpers),
        timing=timing,
        cover=options.cover,
        transport=options.transport,
        min_crowd=options.min_crowd,
        promises=promises_of(promised, delta),
        expires=expires,
    )
    return Proposal(tasks.sign_task(spec, keys.identity), spec, people, graph)


class Curator(Member):
    """Runs surveys of its own."""

    def _live(self, survey: bytes) -> None:
        """Its own surveys go on when it is told to watch them."""

    async def devices(self) -> list[KeyRecord]:
        """The devices that are enrolled and certified, in the order of their names."""
        return await self._enrolled(Role.device)

    async def helpers(self, wanted: Sequence[Address]) -> dict[Address, KeyRecord]:
        """The keys of the parties besides people that a protocol needs; helpers go by address."""
        enrolled = {each.name: each for each in await self._enrolled(Role.helper)}
        found = {CURATOR: self.keys.record()}
        for address in wanted:
            if address != CURATOR and address not in enrolled:
                raise InvalidCrowd(
                    f"no {address} is enrolled: issue keys of the role helper to that name, and "
                    "host them with 'incrowd device run --helper'"
                )
            if address != CURATOR:
                found[address] = enrolled[address]
        return found

    async def _enrolled(self, role: Role) -> list[KeyRecord]:
        await self.host.refresh()
        found = []
        for record in await patiently(self.host.hub.keys):
            # Whoever is not certified, for whatever reason, is nobody.
            with suppress(Rejected):
                granted = check(record, self.host.authority, self.host.time(), self.host.revoked)
                if granted is role:
                    found.append(record)
        return sorted(found, key=lambda each: each.name)

    def chosen(self, prefix: str) -> bytes:
        """The survey of this curator whose identifier begins so."""
        known = [each for each in self.host.facts(self.identity) if each.hex().startswith(prefix)]
        if len(known) != 1:
            raise InvalidParameter(
                f"{len(known)} surveys of this curator begin with {prefix!r}: give the identifier "
                "that was printed when it was opened"
            )
        return known[0]

    def about(self, survey: bytes) -> bytes:
        """What was kept about a survey when it was opened."""
        return self.host.facts(self.identity)[survey][_ABOUT]

    async def open_survey(self, proposal: Proposal, about: bytes = b"") -> None:
        """Offer the survey to everyone on its roster; ``about`` is kept for the curator itself."""
        digest = tasks.digest_of(proposal.signed)
        await self.host.note(
            Fact(self.identity, proposal.survey, _ABOUT, about),
            Fact(self.identity, proposal.survey, _DIGEST, digest),
        )
        signed = tasks.encode_signed(proposal.signed)
        await patiently(lambda: self.host.hub.offer(signed, proposal.roster, proposal.graph))

    async def gather(
        self,
        survey: bytes,
        *,
        wait: float,
        lead: float = _LEAD,
        progress: Callable[[int, int], None] | None = None,
    ) -> Started:
        """Start with those who join: at once when everyone has, else after ``wait`` seconds."""
        offer = await self.host.offer(survey)
        clock = partial(self.host.clocks.now, survey)
        deadline = clock() + wait
        everyone = len(offer.roster)
        while True:
            found = await patiently(lambda: self.host.hub.survey(survey))
            if found.state == "closed":
                raise ProtocolFailed("the survey is closed: open it anew")
            if found.start is not None:
                return await self.host.started(offer, found.start)
            if progress is not None:
                progress(found.joins, everyone)
            late = clock() >= deadline
            if found.joins == everyone or late:
                joins = await self._joins(offer)
                if len(joins) == everyone or (late and len(joins) >= offer.spec.min_crowd):
                    return await self._start(offer, joins, lead)
                if late:
                    raise ProtocolFailed(
                        f"{len(joins)} of {everyone} people joined within {wait:g} seconds, and "
                        f"at least {offer.spec.min_crowd} must: wait longer, or close the survey"
                    )
            await asyncio.sleep(_PAUSE)

    async def _joins(self, offer: Offer) -> list[Join]:
        """The joins that really are: a hub cannot make them up."""
        found: dict[int, Join] = {}
        await self.host.refresh()
        for encoded in await patiently(lambda: self.host.hub.joins(offer.spec.survey)):
            try:
                join = tasks.read_join(encoded, offer.digest, offer.roster)
            except Rejected:
                continue
            if offer.serials[join.number] not in self.host.revoked:
                found[join.number] = join
        return [found[number] for number in sorted(found)]

    async def _start(self, offer: Offer, joins: list[Join], lead: float) -> Started:
        people = [join.number for join in joins]
        clock = partial(self.host.clocks.now, offer.spec.survey)
        promises = offer.spec.promises
        if len(people) < len(offer.roster):
            before = clock()
            promises = await asyncio.to_thread(self._promises, offer, people)
            # Everyone has to compute the same before the first round is over.
            lead += 2 * (clock() - before)
        start = Start(digest=offer.digest, at=clock() + lead, joins=joins, promises=promises)
        signed = tasks.encode_signed(tasks.sign_start(start, self.keys.identity))
        await patiently(lambda: self.host.hub.start(offer.spec.survey, signed))
        return await self.host.started(offer, signed)

    @staticmethod
    def _promises(offer: Offer, people: list[int]) -> list[tasks.Promise]:
        protocol = offer.protocol.subset(people)
        if offer.spec.cover:
            protocol = covered(protocol, offer.delta, CELLS)
        return promises_of(protocol, offer.delta)

    async def receive(
        self, started: Started, progress: Callable[[Party], None] | None = None
    ) -> Run:
        """Play the curator's part until everything is in or the time is up, and conclude."""
        party = self.party(started, CURATOR)
        playing = self.host.supervisor.job(self.play(started, party))
        try:
            while party.output is None and not playing.done():
                self.host.supervisor.check()
                if progress is not None:
                    progress(party)
                await asyncio.wait([playing], timeout=_PAUSE)
            if playing.done():
                await playing
            else:
                # People who handed in must hear that it arrived, so that they can stop.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ANSWERS):
                        await self.host.player.drained(party)
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        if party.output is None:
            raise ProtocolFailed("the survey ended before the curator had everything: no result")
        survey = started.offer.spec.survey
        await self.host.note(Fact(self.identity, survey, _OUTPUT, party.output))
        connections = None
        if unpack_output(party.output, started.protocol.collected_type).vanished:
            connections = await self._connections(started)
        return conclude(started, party.output, connections)

    async def _connections(self, started: Started) -> bytes | None:
        """The hub's record of its connections, where cells travel through the hub alone.

        The survey is closed first: a device that came back later could still hand in what it held.
        """
        spec = started.offer.spec
        if spec.transport != "hub":
            return None
        await self.close_survey(spec.survey)
        body = self._signed_close(spec.survey)
        found = await patiently(lambda: self.host.hub.connections(spec.survey, body))
        encoded = msgspec.msgpack.encode(
            {
                address: [_since(started.start.at, each) for each in spans]
                for address, spans in found.items()
            }
        )
        await self.host.note(Fact(self.identity, spec.survey, _CONNECTIONS, encoded))
        return encoded

    async def close_survey(self, survey: bytes) -> None:
        """Tell everyone that it is over; what is on its way then is lost."""
        body = self._signed_close(survey)
        await patiently(lambda: self.host.hub.finish(survey, body))

    def _signed_close(self, survey: bytes) -> bytes:
        return sign_close(self.host.facts(self.identity)[survey][_DIGEST], self.keys.identity)

    async def result(self, survey: bytes) -> tuple[Started, Run]:
        """A survey whose reports are in, and its result."""
        known = self.host.facts(self.identity).get(survey, {})
        offer = await self.host.offer(survey)
        found = await patiently(lambda: self.host.hub.survey(survey))
        if _OUTPUT not in known or found.start is None:
            raise ProtocolFailed("the reports are not in yet: watch the survey until they are")
        started = await self.host.started(offer, found.start)
        return started, conclude(started, known[_OUTPUT], known.get(_CONNECTIONS))


def _since(start: float, span: Span) -> Connection:
    end = math.inf if span.end is None else span.end - start
    return Connection(span.begin - start, span.heard - start, end)


def conclude(started: Started, output: bytes, connections: bytes | None = None) -> Run:
    """Estimate, with the guarantee of what really happened; refused for too small a crowd.

    ``connections`` is the hub's record, encoded; of devices that are neither in it nor in the
    output nothing is known.
    """
    protocol, least = started.protocol, started.offer.spec.min_crowd
    collected = unpack_output(output, protocol.collected_type)
    if connections is not None:
        seen = msgspec.msgpack.decode(connections, type=dict[Address, list[Connection]])
        timing = started.offer.spec.timing
        collected = attested(protocol, collected, Connections(seen), timing)
    if collected.smallest_crowd < least:
        raise ProtocolFailed(
            f"{collected.smallest_crowd} reports arrived and the task asks for a crowd of at least "
            f"{least}: there is no result"
        )
    return conclude_run(protocol, collected, started.offer.task, None)
