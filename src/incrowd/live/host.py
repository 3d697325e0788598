"""What the parties of one process share: a hub, a journal, a player, and what was examined.

Checking a task, above all recomputing its promises, depends on nothing that is a device's own, so a
process does it once per task, in a thread beside the event loop. The journal and the clock are
shared because that is what makes a thousand devices in one process affordable; keys, connections,
outboxes and ledgers are each device's own.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec
from cryptography import x509

from incrowd.errors import HubRefused, HubUnreachable, IncrowdError, InvalidParameter
from incrowd.live import cells, frames
from incrowd.live.accounting import Costs, check_limits
from incrowd.live.admission import Offer, Started, examine
from incrowd.live.authority import client_context, load_authority_certificate, revoked_serials
from incrowd.live.client import HubClient
from incrowd.live.clocks import Clocks
from incrowd.live.journal import Fact, Journal
from incrowd.live.keys import KeyRecord, PrivateKeys
from incrowd.live.ledger import Ledger
from incrowd.live.party import Party
from incrowd.live.playing import Player, Spend
from incrowd.live.policy import NetworkRule
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.supervisor import TRANSIENT, Service, Supervisor
from incrowd.live.task import Spec, read_task
from incrowd.live.transports.base import Transport, Unreachable
from incrowd.live.transports.hub import HubTransport
from incrowd.protocols.runtime.actor import CURATOR

if TYPE_CHECKING:
    from incrowd.live.member import Member
    from incrowd.live.transports.direct import EndpointBook

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_EVERYONE, _REVOKED = b"host", "revoked"
"""Under whose name, and which, the host notes whom it must not believe any more."""
_PAUSE = 0.5
_MOST_PAUSE = 5.0
_FETCHES = 8
"""Tasks that are fetched at the same time, however many are offered."""
_WATCH = 15.0
"""How often to ask for revocations, in seconds; the hub itself acts on them at once."""


@dataclass(frozen=True)
class Network:
    """Where the hub is, whom to trust, and how to be reached."""

    hub: str
    authority: Path
    """The certificate of the authority."""
    nats: str = ""
    """The server of the NATS transport."""
    listen: str = "127.0.0.1"
    """Where the direct transport listens."""
    advertise: str | None = None
    """What others reach that under, where it differs."""
    dial: NetworkRule = field(default_factory=NetworkRule)
    """Addresses that the direct transport may connect to."""


@dataclass
class _Once:
    """Results that are computed once, and shared by everyone who asks."""

    supervisor: Supervisor
    found: dict[Any, asyncio.Task[Any]] = field(default_factory=dict)

    async def get(self, key: Any, compute: Callable[[], Awaitable[_T]]) -> _T:
        task = self.found.get(key)
        if task is None or (task.done() and _worth_another(task)):

            async def run() -> _T:
                return await compute()

            task = self.found[key] = self.supervisor.job(run())
        # One who is cancelled must not take the others' result away.
        result: _T = await asyncio.shield(task)
        return result

    def forget(self, wanted: Callable[[Any], bool]) -> None:
        """Let go of what was computed under these keys; what is under way is not interrupted."""
        for key in [key for key, task in self.found.items() if task.done() and wanted(key)]:
            del self.found[key]


def _worth_another(task: asyncio.Task[Any]) -> bool:
    """Whether a result is to be computed anew, because it failed and may not the next time.

    What took more than its bounds, or is not proven, stays so: each of a thousand devices would
    otherwise spend those bounds once more.
    """
    if task.cancelled():
        return True
    error = task.exception()
    if isinstance(error, Rejected):
        return error.reason not in (Reason.oversized, Reason.unproven)
    return error is not None


@dataclass
class _News:
    """What was heard of one survey; news may be lost, so nobody relies on them alone."""

    started: asyncio.Event = field(default_factory=asyncio.Event)
    closed: asyncio.Event = field(default_factory=asyncio.Event)


class Host:
    """One process with its parties; an asynchronous context manager."""

    def __init__(
        self,
        network: Network,
        journal: Journal,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.network = network
        self.time = clock
        self.rng = random.SystemRandom()
        self.authority: x509.Certificate = load_authority_certificate(network.authority)
        self.tls: ssl.SSLContext = client_context(network.authority)
        self.hub = HubClient(network.hub, self.tls)
        self.journal = journal
        self.ledger = Ledger(journal)
        self.supervisor = Supervisor()
        self.clocks = Clocks(clock)
        self.player = Player(journal, clocks=self.clocks, supervisor=self.supervisor)
        self.revoked = _remembered(journal)
        self._begun = {row.survey for row in journal.parties()}
        self._facts: dict[bytes, dict[bytes, dict[str, bytes]]] = {}
        self._tasks = _Once(self.supervisor)
        self._fetching = asyncio.Semaphore(_FETCHES)
        self._offers = _Once(self.supervisor)
        self._starts = _Once(self.supervisor)
        self._charges = _Once(self.supervisor)
        self._examining: dict[bytes, asyncio.Lock] = {}
        """Held while something of this curator is examined."""
        self._playing: dict[Party, Started] = {}
        self._books: dict[bytes, EndpointBook] = {}
        self._news: dict[bytes, _News] = {}
        self._numbered: dict[bytes, dict[int, KeyRecord]] = {}
        self._living: Counter[bytes] = Counter()
        """Members that are concerned with a survey."""
        self._running: set[bytes] = set()
        """Surveys that had started when they were first asked for."""

    async def __aenter__(self) -> Self:
        await self.player.__aenter__()
        self.supervisor.service("revocations", self._watch, period=_WATCH)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.player.stop()
        finally:
            await self.supervisor.close()
            await self.hub.close()

    # What is known.

    def facts(self, owner: bytes) -> dict[bytes, dict[str, bytes]]:
        """What this owner noted, by survey and key."""
        if owner not in self._facts:
            self._facts[owner] = self.journal.facts(owner)
        return self._facts[owner]

    async def note(self, *facts: Fact) -> None:
        """Note these together for good, or forget them; returns when that is durable."""
        await self.player.write(facts)
        for fact in facts:
            known = self.facts(fact.owner)
            if fact.value is not None:
                known.setdefault(fact.survey, {})[fact.key] = fact.value
            elif fact.survey in known:
                known[fact.survey].pop(fact.key, None)
                if not known[fact.survey]:
                    del known[fact.survey]

    @contextmanager
    def concerned(self, survey: bytes) -> Iterator[None]:
        """Keep what is known of a survey for as long as a member is concerned with it."""
        self._living[survey] += 1
        self.news(survey)
        try:
            yield
        finally:
            self._living[survey] -= 1
            if not self._living[survey]:
                del self._living[survey]
                self._forget(survey)

    def _forget(self, survey: bytes) -> None:
        self._running.discard(survey)
        offers = [task for key, task in self._offers.found.items() if key == survey and task.done()]
        digests = {
            task.result().digest
            for task in offers
            if not task.cancelled() and task.exception() is None
        }
        self._tasks.forget(lambda key: key == survey)
        self._offers.forget(lambda key: key == survey)
        self._starts.forget(lambda key: (key[0] if isinstance(key, tuple) else key) in digests)
        self._charges.forget(lambda key: key[0] in digests)
        self._news.pop(survey, None)
        self._books.pop(survey, None)

    async def task(self, survey: bytes) -> tuple[bytes, Spec]:
        """The signed task of a survey, as bytes and read; asked for once, whoever wants it.

        Nothing of it is examined yet but its curator's signature.
        """
        return await self._tasks.get(survey, lambda: self._fetch(survey))

    async def _fetch(self, survey: bytes) -> tuple[bytes, Spec]:
        async with self._fetching:
            found = await patiently(lambda: self.hub.survey(survey))
        _, spec = read_task(found.task)
        if spec.survey != survey:
            raise Rejected(Reason.foreign, "the hub answers with another survey")
        if found.start is not None:
            self._running.add(survey)
        return found.task, spec

    def had_started(self, survey: bytes) -> bool:
        """Whether the survey had started when this process first asked for it."""
        return survey in self._running

    async def offer(self, survey: bytes) -> Offer:
        """The examined task of a survey; computed once, whoever asks."""
        return await self._offers.get(survey, lambda: self._examine(survey))

    async def _examine(self, survey: bytes) -> Offer:
        signed, spec = await self.task(survey)
        # Before anything large is fetched, let alone computed.
        check_limits(spec)
        roster = await patiently(lambda: self.hub.roster(survey))
        graph = None
        if spec.graph is not None:
            graph = await patiently(lambda: self.hub.graph(survey))
        await self.refresh()
        return await self._computed(
            spec,
            lambda: examine(
                signed,
                roster,
                graph,
                authority=self.authority,
                revoked=self._revoked_for(survey),
                now=self.clocks.now(survey),
            ),
        )

    async def started(self, offer: Offer, start: bytes) -> Started:
        """The examined start of a task; computed once, whoever asks."""
        return await self._starts.get(
            (offer.digest, start),
            lambda: self._computed(
                offer.spec,
                lambda: offer.started(
                    start,
                    self.clocks.now(offer.spec.survey),
                    self._revoked_for(offer.spec.survey),
                ),
            ),
        )

    async def charged(self, examined: Offer | Started, colluders: int) -> Costs:
        """Costs of an offer or start with any such number of colluders; computed once."""
        offer = examined if isinstance(examined, Offer) else examined.offer
        context = offer.digest if isinstance(examined, Offer) else examined.context
        return await self._charges.get(
            (offer.digest, context, colluders),
            lambda: self._computed(offer.spec, lambda: examined.charged(colluders)),
        )

    async def _computed(self, spec: Spec, compute: Callable[[], _T]) -> _T:
        """Compute in a thread, for each curator one at a time: none may hold up the others."""
        curator = spec.helpers[CURATOR].identity
        async with self._examining.setdefault(curator, asyncio.Lock()):
            return await asyncio.to_thread(compute)

    def _revoked_for(self, survey: bytes) -> frozenset[int]:
        """Whose certificates do not count: nobody's in a survey that this process had begun.

        Whoever was revoked since then is shut out of it, but what others entrusted to its devices
        must not be lost because the process started again.
        """
        return frozenset() if survey in self._begun else self.revoked

    async def start_of(self, offer: Offer) -> Started:
        """The examined start of a task, once there is one; asked for once, whoever waits."""
        return await self._starts.get(offer.digest, lambda: self._await_start(offer))

    async def _await_start(self, offer: Offer) -> Started:
        survey = offer.spec.survey
        pause = _PAUSE
        while True:
            found = await patiently(lambda: self.hub.survey(survey))
            if found.start is not None:
                return await self.started(offer, found.start)
            if found.state == "closed" or self.clocks.now(survey) > offer.spec.expires:
                raise Rejected(Reason.expired, "the survey ended before it started")
            # News tell at once; asking again is for news that were lost.
            try:
                async with asyncio.timeout(pause):
                    await self.news(survey).started.wait()
            except TimeoutError:
                pause = min(2 * pause, _MOST_PAUSE)

    def news(self, survey: bytes) -> _News:
        """What was heard of a survey."""
        return self._news.setdefault(survey, _News())

    def heard(self, news: frames.News) -> None:
        """One of the members was told something."""
        heard = self._news.get(news.survey)
        if heard is None:
            return
        if news.what == "started":
            heard.started.set()
        elif news.what == "closed":
            heard.closed.set()

    async def refresh(self) -> None:
        """Learn which certificates were withdrawn; a hub can hide a list, but not invent one."""
        await patiently(self._refresh)

    async def _refresh(self) -> None:
        crl = await self.hub.revocations()
        if crl is not None and not (fresh := revoked_serials(crl, self.authority)) <= self.revoked:
            self.revoked |= fresh
            # At once: whoever learns of the list may count on it.
            for party, started in self._playing.items():
                self._shut_out(party, started)
            # A hub that forgets a list, or shows an older one, must not bring anybody back.
            serials = msgspec.msgpack.encode([str(each) for each in sorted(self.revoked)])
            await self.player.write([Fact(_EVERYONE, bytes(16), _REVOKED, serials)])

    async def _watch(self, pulse: Service) -> None:
        """Look for new revocations, and take nothing more from whom they name."""
        while True:
            try:
                await self._refresh()
            except TRANSIENT:
                raise
            except IncrowdError as error:  # a hub that lies must not end the watch
                pulse.wait(error)
                await asyncio.sleep(_WATCH)
            await pulse.sleep(_WATCH)

    def _shut_out(self, party: Party, started: Started) -> None:
        for number, serial in started.serials.items():
            if serial in self.revoked:
                party.revoke(number)

    def numbered(self, started: Started) -> Mapping[int, KeyRecord]:
        """Everyone's keys by their number in cells."""
        found = self._numbered.get(started.context)
        if found is None:
            found = {cells.number(address): each for address, each in started.records.items()}
            self._numbered[started.context] = found
        return found

    # What is played.

    async def transport(self, member: Member, started: Started, party: Party) -> Transport:
        """The way on which this survey's cells travel."""
        kind, survey = started.offer.spec.transport, started.offer.spec.survey
        if kind == "hub":
            return HubTransport(member.connection, survey)
        if kind == "nats":
            from incrowd.live.transports.nats import NatsTransport

            if not self.network.nats:
                raise InvalidParameter(
                    "this survey travels over NATS: say where its server is with --nats"
                )
            return NatsTransport(self.network.nats, survey, party.number)
        from incrowd.live.transports.direct import (
            DirectTransport,
            EndpointBook,
            HubDirectory,
            mutual_contexts,
        )

        if member.path is None:
            raise InvalidParameter("the direct transport needs keys that are in a directory")
        book = self._books.setdefault(survey, EndpointBook(self.hub, survey))
        identities = {number: each.identity for number, each in self.numbered(started).items()}
        return DirectTransport(
            survey,
            party.number,
            identities,
            self.authority,
            mutual_contexts(member.path, self.network.authority),
            HubDirectory(self.hub, member.connection, survey, book),
            dial=self.network.dial.allows,
            host=self.network.listen,
            advertise=self.network.advertise,
            revoked=lambda: self.revoked,
            supervisor=self.supervisor,
        )

    def play(
        self, party: Party, started: Started, transport: Transport, spend: Spend | None
    ) -> bool:
        """Play from now on; whether the party goes on with what it had begun."""
        if self.revoked:
            self._shut_out(party, started)
        self._playing[party] = started
        self.player.add(party, transport, spend, held=True)
        return party.begun

    async def leave(self, party: Party) -> None:
        """Play it no more; what it did so far is durable."""
        started = self._playing.pop(party, None)
        if all(each is not started for each in self._playing.values()) and started is not None:
            self._numbered.pop(started.context, None)
        await self.player.remove(party)

    def declined(self, survey: bytes, error: Exception) -> None:
        """Say in the log why somebody does not take part; never who."""
        _log.warning("survey %s is declined: %s", survey.hex(), error)


def _remembered(journal: Journal) -> frozenset[int]:
    """The certificates that were known to be withdrawn when the process last ran."""
    stored = journal.facts(_EVERYONE).get(bytes(16), {}).get(_REVOKED)
    if stored is None:
        return frozenset()
    return frozenset(map(int, msgspec.msgpack.decode(stored, type=list[str])))


def keys_for(keys: PrivateKeys, path: Path | None, record: KeyRecord) -> PrivateKeys:
    """The keys that a survey was signed with, which may be the ones before the newest."""
    if record.serial == keys.serial:
        return keys
    if path is None:
        raise InvalidParameter("the survey was sealed to older keys, which are not at hand")
    return PrivateKeys.load(path, record.serial)


async def patiently(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Ask until the hub can be reached, with growing pauses; what it refuses is refused."""
    pause = _PAUSE
    while True:
        try:
            return await ask()
        except (Unreachable, HubUnreachable) as error:
            if pause == _PAUSE:
                _log.warning("trying again until it works: %s", error)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(2 * pause, _MOST_PAUSE)
        except HubRefused as refusal:
            raise Rejected(Reason.unknown, str(refusal)) from refusal
