"""Two runs with the same seeds except for one person's answer: all but the sealed report is equal.

Whole nodes are played in memory on one virtual clock: actors, cover traffic, packing and links,
with randomness injected. Reports are sealed by an ideal sealer, whose ciphertexts are random names
that say nothing but a length; what they stand for is kept beside. Then every byte that enters a
link, its time, its recipient and the length of its cell can be compared, and what was sealed too.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

from incrowd.graphs import families
from incrowd.live import cells
from incrowd.live.accounting import CELLS
from incrowd.live.authority import Authority
from incrowd.live.journal import Batch
from incrowd.live.keys import KeyRecord, PrivateKeys, Role
from incrowd.live.links import SEAL, Links
from incrowd.live.party import Party
from incrowd.protocols.api import Protocol
from incrowd.protocols.check_in.spec import CheckIn
from incrowd.protocols.local.spec import Local
from incrowd.protocols.network_shuffle.spec import NetworkShuffle
from incrowd.protocols.order_shuffle.spec import OrderShuffle
from incrowd.protocols.runtime.actor import CURATOR, Address, device, devices, is_device
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.token_walk.spec import TokenWalk
from incrowd.protocols.trusted_shuffle.spec import TrustedShuffle
from incrowd.randomizers import KRR
from incrowd.randomness import Seeds
from incrowd.tasks.base import Task
from incrowd.tasks.histogram import Histogram
from incrowd.tasks.release import Release

PEOPLE, VICTIM, SEED = 6, 2, 5
SURVEY, CONTEXT, ORIGIN = b"s" * 16, b"c" * 32, 1000.0
LATENCY, ENDS = 0.01, 400.0
VOTES = Histogram(categories=("no", "yes"))
COMPLETE = Histogram(categories=("no", "yes"), complete=True)
"""Of a column that everybody has: who has no answer all the same reports a uniform one.

That takes other draws than a randomized answer. Twins are compared where nothing else is drawn from
the same stream afterwards.
"""
COIN = KRR(categories=3, epsilon=6.0)
"""Truthful enough that the answers make a difference to the curator."""
BIT = KRR(categories=2, epsilon=6.0)
TIMING = Timing(round_seconds=1.0, grace_rounds=2, timeout=20.0)
ANSWERS = ["no", "yes", None, "", "maybe", "y" * 3000]


class Sealed(NamedTuple):
    """One report as it was sealed: by whom, to whom, and its content."""

    sender: Address
    to: str
    plain: bytes


class IdealSealer:
    """Ciphertexts are random names of a length; ``table`` knows what they stand for."""

    def __init__(self, own: Address, table: dict[bytes, Sealed]) -> None:
        self._own, self._table = own, table
        self._numbers = itertools.count()

    def _name(self, to: str, plain: bytes) -> bytes:
        start = f"{self._own} {next(self._numbers)}".encode()
        length = len(plain) + SEAL
        blocks = (hashlib.sha256(start + bytes([each])).digest() for each in itertools.count())
        name = b"".join(itertools.islice(blocks, -(-length // 32)))[:length]
        self._table[name] = Sealed(self._own, to, plain)
        return name

    def _read(self, to: str, sealed: bytes) -> bytes:
        found = self._table.get(sealed)
        if found is None or found.to != to:
            raise ValueError("sealed to someone else")
        return found.plain

    def seal(self, to: Address, plain: bytes) -> bytes:
        return self._name(to, plain)

    def open(self, sealed: bytes) -> bytes:
        return self._read(self._own, sealed)

    def public_of(self, secret: bytes) -> bytes:
        return hashlib.sha256(secret).digest()

    def seal_to(self, public: bytes, plain: bytes) -> bytes:
        return self._name(public.hex(), plain)

    def open_with(self, secret: bytes, sealed: bytes) -> bytes:
        return self._read(self.public_of(secret).hex(), sealed)


class Sent(NamedTuple):
    """One cell as it left, before it was encrypted for its link."""

    at: float
    sender: Address
    to: int
    round: int
    plaintext: bytes
    length: int


class Overheard(Links):
    """Links that note what they encrypt."""

    def note(self, tell: Callable[[int, int, bytes, int], None]) -> Overheard:
        self._tell = tell
        return self

    def seal(self, to: int, round_: int, plaintext: bytes) -> bytes:
        cell = super().seal(to, round_, plaintext)
        self._tell(to, round_, plaintext, len(cell))
        return cell


@pytest.fixture(scope="module")
def keys() -> Mapping[Address, PrivateKeys]:
    authority = Authority.create()
    helpers = [CURATOR, "shuffler", "courier"]
    roles = {each: Role.curator if each == CURATOR else Role.helper for each in helpers}
    roles |= {device(person): Role.device for person in range(PEOPLE)}
    return {each: authority.issue(each.replace("/", "-"), role) for each, role in roles.items()}


@dataclass
class Theatre:
    """All parties of one run, on a clock that jumps from event to event."""

    protocol: Protocol
    values: np.ndarray[Any, Any]
    keys: Mapping[Address, PrivateKeys]
    cover: bool
    now: float = ORIGIN
    sent: list[Sent] = field(default_factory=list)
    table: dict[bytes, Sealed] = field(default_factory=dict)
    acted: list[tuple[float, Address]] = field(default_factory=list)

    def play(self) -> Theatre:
        plan, protocol = None, self.protocol
        if self.cover:
            protocol = protocol.covered(0.05, CELLS)
            plan = protocol.cover
        timing = TIMING if plan is None else plan.paced(TIMING)
        addresses = [*devices(protocol.n), *protocol.helpers]
        records = {cells.number(each): self.keys[each].record() for each in addresses}
        parties = {}
        for address in addresses:
            ticks = [] if plan is None else plan.ticks(address, TIMING)
            parties[address] = self._party(protocol, address, timing, ticks, records)
        self._run(parties)
        self.parties = parties
        return self

    def _party(
        self,
        protocol: Protocol,
        address: Address,
        timing: Timing,
        ticks: list[Any],
        records: Mapping[int, KeyRecord],
    ) -> Party:
        value = None
        if is_device(address):
            person = int(address.partition("/")[2])
            value = self.values[person : person + 1]
        seeds = Seeds(SEED)
        seat = ActorContext(
            generator=lambda *index: seeds.generator(address, *index),
            value=value,
            sealer=IdealSealer(address, self.table),
            timing=timing,
        )
        number = cells.number(address)
        links = Overheard(number, self.keys[address], SURVEY, CONTEXT, records).note(
            lambda to, round_, plain, length: self.sent.append(
                Sent(self.now, address, to, round_, plain, length)
            )
        )
        return Party(
            address, SURVEY, partial(protocol.actor, address, seat), links,
            origin=ORIGIN, round_seconds=TIMING.round_seconds, plan=ticks,
        )  # fmt: skip

    def _run(self, parties: Mapping[Address, Party]) -> None:
        order, ids = itertools.count(), itertools.count(1)
        events: list[tuple[float, int, Address, list[tuple[int, bytes]] | None]] = []
        numbered = {party.number: address for address, party in parties.items()}

        def settle(address: Address) -> None:
            party = parties[address]
            batch = Batch(ids)
            party.changes(batch)
            for row in party.committed().cells:
                to = numbered[cells.Header.parse(row.cell).recipient]
                later = self.now + LATENCY
                heapq.heappush(events, (later, next(order), to, [(row.id, row.cell)]))
                party.arrived(row.id)
            if party.due is not None:
                heapq.heappush(events, (max(party.due, self.now), next(order), address, None))

        for address, party in parties.items():
            party.begin(self.now)
            settle(address)
        while events and events[0][0] < ORIGIN + ENDS:
            self.now, _, address, cell = heapq.heappop(events)
            party = parties[address]
            if cell is not None:
                party.deliver(cell, self.now)
            elif party.due is None or party.due > self.now:
                continue
            else:
                party.wake(self.now)
            self.acted.append((self.now, address))
            settle(address)


def encoded(task: Task, answer: str | None) -> np.ndarray[Any, Any]:
    """Everybody's answer, as devices encode it; one of them is the victim's."""
    texts: list[str | None] = ["no", "yes", None, "yes", "no", "else"]
    texts[VICTIM] = answer
    width = len(task.asks("vote"))
    return np.concatenate(
        [task.encode(task.rows([[each] + ["north"] * (width - 1)])) for each in texts]
    )


def cases() -> Iterator[Any]:
    walk = NetworkShuffle(COIN, graph=families.complete(PEOPLE), rounds=4)
    grouped = Release(categories=VOTES.categories, groups="district")
    yield pytest.param(Local(COIN, n=PEOPLE), VOTES, False, id="local")
    yield pytest.param(TrustedShuffle(COIN, n=PEOPLE), VOTES, False, id="shuffle")
    yield pytest.param(walk, VOTES, False, id="network-shuffle")
    yield pytest.param(walk, VOTES, True, id="network-shuffle under cover")
    yield pytest.param(CheckIn(COIN, n=PEOPLE, rounds=3, rate=0.7), VOTES, False, id="check-in")
    yield pytest.param(TokenWalk(COIN, n=PEOPLE, steps=12), VOTES, False, id="token-walk")
    full = NetworkShuffle(BIT, graph=families.complete(PEOPLE), rounds=4)
    yield pytest.param(full, COMPLETE, False, id="network-shuffle, complete")
    yield pytest.param(TokenWalk(BIT, n=PEOPLE, steps=12), COMPLETE, False, id="token, complete")
    yield pytest.param(
        OrderShuffle(COIN, n=PEOPLE, alpha=1.0).bound_to(grouped),
        grouped,
        False,
        id="order-shuffle",
    )


def without_report(sent: Sent, protocol: Protocol) -> Sent:
    """The cell without the victim's report, where nothing but the link seals that."""
    if protocol.kind == "local" and sent.sender == device(VICTIM):
        return sent._replace(plaintext=bytes(len(sent.plaintext)))
    return sent


@pytest.mark.parametrize(("protocol", "task", "cover"), list(cases()))
def test_twins_that_differ_in_one_answer_differ_in_its_sealed_report_alone(
    keys, protocol, task, cover
):
    runs = [Theatre(protocol, encoded(task, each), keys, cover).play() for each in ANSWERS]
    first = runs[0]
    assert first.parties[CURATOR].output is not None
    assert len(first.sent) > PEOPLE
    for twin in runs[1:]:
        assert [without_report(each, protocol) for each in twin.sent] == [
            without_report(each, protocol) for each in first.sent
        ]
        # Also when each party was called, by which its disk and its acknowledgements show.
        assert twin.acted == first.acted
        assert list(twin.table) == list(first.table)
        for one, other in zip(first.table.values(), twin.table.values(), strict=True):
            assert one[:2] == other[:2]
            assert len(one.plain) == len(other.plain)
            if one.sender != device(VICTIM) and protocol.kind != "token-walk":
                assert one.plain == other.plain
    # The answers did reach somebody: else nothing was compared.
    assert len({theatre.parties[CURATOR].output for theatre in runs}) > 1
