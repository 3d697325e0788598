"""Devices with certified keys that do not keep to the protocol, against a hub and honest peers."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from incrowd.graphs import families
from incrowd.live import cells, frames, links
from incrowd.live import host as hosts
from incrowd.live import task as tasks
from incrowd.live.admission import Started
from incrowd.live.authority import Authority
from incrowd.live.cells import CAPACITY, CELL, DATA, HEADER, Header, pack
from incrowd.live.client import Connection
from incrowd.live.curator import Proposal
from incrowd.live.journal import Journal
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.party import Party
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.transports.base import Unreachable
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.network_shuffle import messages as network_messages
from incrowd.protocols.runtime import wire
from incrowd.protocols.runtime.actor import device
from incrowd.protocols.runtime.context import ActorContext, Timing
from incrowd.protocols.trusted_shuffle import messages as shuffle_messages
from incrowd.randomizers import KRR
from tests.live.crowds import ROUND, Crowd, Process, crowd, until, walk
from tests.live.worlds import LiveHub

NUMBER = 3
"""The hostile device's number, among honest 0, 1 and 2."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveHub]:
    hub = LiveHub(tmp_path_factory.mktemp("hostile-device"))
    yield hub
    hub.stop()


class Mallory:
    """Certified, enrolled, on the roster, and free to send whatever it likes."""

    def __init__(self, people: Crowd) -> None:
        self.keys = people.keys[NUMBER]
        self.people = people
        self.connection = Connection(people.network.hub, self.keys.identity, people.host.tls)
        self.got: list[bytes] = []

    async def open(self) -> None:
        await self.people.host.hub.enrol(self.keys.record())
        await self.connection.open()
        self.people.guests.append(self.connection)

    async def join(self, proposal: Proposal) -> None:
        self.survey = proposal.survey
        digest = tasks.digest_of(proposal.signed)
        join = tasks.encode_join(tasks.join_task(digest, NUMBER, self.keys.identity))
        assert await self.connection.join(self.survey, join) is None
        await self.connection.listen(self.survey, self._mail)

    def _mail(self, mail: frames.Mail | None) -> None:
        self.got += [] if mail is None else [cell for _, cell in mail.cells]

    def begin(self, started: Started) -> None:
        self.started = started
        records = {cells.number(each): record for each, record in started.records.items()}
        self.links = links.Links(NUMBER, self.keys, self.survey, started.context, records)

    def compare(self, to: int, digest: bytes | None = None) -> bytes:
        said = digest or self.started.context
        return links.compare_cell(self.keys, self.survey, NUMBER, to, said)

    async def put(self, *batch: bytes) -> dict[int, Reason]:
        return dict(await self.connection.put(self.survey, batch))

    def garbage(self, to: int) -> bytes:
        """Noise behind a header that is all right."""
        header = Header(
            DATA, self.survey, NUMBER, to, 0, os.urandom(16), 0, os.urandom(cells.WRAPPED)
        )
        return header.pack() + os.urandom(CELL - HEADER)


async def against(people: Crowd, **options: object) -> tuple[Process, Mallory, Proposal]:
    """Three honest devices and a hostile one that have all joined a survey."""
    honest = await people.process("honest", range(NUMBER))
    mallory = Mallory(people)
    await mallory.open()
    # Reports that walked to a hostile device would be gone, so that nobody could be counted on.
    proposal = await people.offered(protocol=walk(4, rounds=0), **options)
    await mallory.join(proposal)
    await people.joined(proposal)
    return honest, mallory, proposal


def readdressed(cell: bytes, **changes: object) -> bytes:
    """A recorded cell under another header."""
    header = msgspec.structs.replace(Header.parse(cell), **changes)
    return header.pack() + cell[HEADER:]


def test_cells_that_nobody_honest_would_send(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, 4) as people:
            honest, mallory, proposal = await against(people, timeout=1.5, grace_rounds=4)
            survey = proposal.survey
            started = await people.start(proposal)
            mallory.begin(started)
            receiving = asyncio.create_task(people.conclude(started))
            assert await mallory.put(*(mallory.compare(each) for each in range(3))) == {}
            parties = [each.parties for each in honest.devices.values()]
            await until(lambda: all(survey in each and each[survey].begun for each in parties))
            victim = honest.devices[0].parties[survey]

            # What the hub sees, it refuses, to the sender's face.
            good = mallory.links.seal(0, 0, cells.DUMMY)
            refused = await mallory.put(
                readdressed(good, sender=1),
                readdressed(good, sender=cells.number("curator")),
                good + b"\0",
                good[:-1],
                readdressed(good, survey=bytes(16)),
                readdressed(good, recipient=4),
                b"\2" + good[1:],
            )
            assert refused == {
                0: Reason.forged, 1: Reason.forged, 2: Reason.oversized, 3: Reason.malformed,
                4: Reason.foreign, 5: Reason.unknown, 6: Reason.version,
            }  # fmt: skip
            assert victim.statistics.rejected == {}

            # What only the recipient can see, the recipient refuses and counts.
            flipped = bytearray(mallory.links.seal(0, 0, cells.DUMMY))
            flipped[-1] ^= 1
            another = mallory.links.seal(1, 0, cells.DUMMY)
            sent = [
                good,
                mallory.garbage(0),
                bytes(flipped),
                # Sealed to somebody else, and under another counter than it was sealed with.
                readdressed(another, recipient=0),
                readdressed(good, counter=77),
                mallory.links.seal(0, 0, b"\xff" * CAPACITY),
            ]
            assert await mallory.put(*sent) == {}
            await until(lambda: sum(victim.statistics.rejected.values()) >= 5)
            assert victim.statistics.rejected == {Reason.forged: 4, Reason.oversized: 1}
            # The cell that was good is good once, also past a hub that does not remember it.
            victim.deliver([(1 << 40, good)], people.host.time())
            assert victim.statistics.rejected[Reason.replayed] == 1

            run = await receiving
            assert run.collected.received == 3
            assert honest.refusals(survey) == [None] * 3
            assert [len(honest.lines(person)) for person in range(3)] == [1] * 3

    asyncio.run(main())


def test_what_others_say_of_the_start_must_be_signed_by_them(hub: LiveHub, tmp_path: Path) -> None:
    async def main() -> None:
        async with crowd(hub, tmp_path, 4) as people:
            honest, mallory, proposal = await against(people, timeout=1.5)
            survey = proposal.survey
            started = await people.start(proposal)
            mallory.begin(started)
            seen = honest.devices[0]._seen
            await until(lambda: survey in seen)
            party = honest.devices[0].parties[survey]
            # A hub that lets it through: Mallory speaks for 1, and repeats what 1 told 2.
            other = bytes(32)
            for cell in (
                links.compare_cell(mallory.keys, survey, 1, 0, other),
                links.compare_cell(mallory.keys, survey, 9, 0, other),
                links.compare_cell(people.keys[1], survey, 1, 2, other),
                links.compare_cell(people.keys[1], bytes(16), 1, 0, other),
                mallory.compare(0, other)[:-1] + b"\1",
            ):
                party.deliver([(1 << 40, cell)], people.host.time())
            assert other not in seen[survey].values()
            assert await mallory.put(*(mallory.compare(each) for each in range(3))) == {}
            run = await people.conclude(started)
            assert run.collected.received == 3
            assert honest.refusals(survey) == [None] * 3

    asyncio.run(main())


def test_who_is_revoked_is_out_at_once(
    hub: LiveHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "_WATCH", 0.1)

    async def main() -> None:
        async with crowd(hub, tmp_path, 4) as people:
            honest = await people.process("honest", range(NUMBER))
            out = await people.process("out", [NUMBER])
            proposal = await people.offered(protocol=walk(4, rounds=0), timeout=1.5, grace_rounds=6)
            survey = proposal.survey
            started = await people.start(proposal)
            receiving = asyncio.create_task(people.conclude(started))
            everyone = [*honest.devices.values(), *out.devices.values()]
            await until(
                lambda: (
                    all(survey in each.parties for each in everyone)
                    and all(each.parties[survey].begun for each in everyone)
                )
            )
            mallory = Mallory(people)
            mallory.survey = survey
            mallory.begin(started)
            device_ = out.devices[NUMBER]
            await people.host.hub.revoke(hub.deployment.revoke(people.keys[NUMBER]))
            # The hub lets go of it, and takes nothing more, from it or for it.
            await until(lambda: not device_.connection.connected)
            with pytest.raises(Unreachable):
                await device_.connection.put(survey, [mallory.links.seal(0, 0, cells.DUMMY)])
            friend = honest.devices[1]
            letter = links.compare_cell(friend.keys, survey, 1, NUMBER, started.context)
            assert await friend.connection.put(survey, [letter]) == [(0, Reason.revoked)]
            # Peers take nothing more either, whichever way it comes.
            await until(lambda: bool(honest.host.revoked))
            for person, each in honest.devices.items():
                party = each.parties[survey]
                party.deliver(
                    [(1 << 40, mallory.links.seal(person, 0, cells.DUMMY))], people.host.time()
                )
                assert party.statistics.rejected == {Reason.revoked: 1}
            run = await receiving
            assert run.collected.received == 3
            # And the next survey cannot be asked of it.
            with pytest.raises(Rejected, match="revoked"):
                await people.offered()

    asyncio.run(main())


# A neighbour's messages, behind seals that are all right.


class Pair:
    """An honest device of a walk, its neighbour's links, and no network at all."""

    def __init__(self) -> None:
        authority = Authority.create()
        keys = [authority.issue(f"p{each}", Role.device) for each in range(4)]
        curator = authority.issue("census", Role.curator)
        self.records = {number: each.record() for number, each in enumerate(keys)}
        self.records[cells.number("curator")] = curator.record()
        self.survey, self.context = os.urandom(16), os.urandom(32)
        self.neighbour = self._links(1, keys[1])
        self.curator = self._links(cells.number("curator"), curator)
        self.actor = None
        sealer = links.HpkeSealer(0, keys[0], self.survey, self.context, self.records)
        seat = ActorContext(
            generator=lambda *_: np.random.default_rng(1),
            value=np.array([1]),
            sealer=sealer,
            timing=Timing(round_seconds=ROUND),
        )
        protocol = NetworkShuffle(KRR(categories=2, epsilon=1.0), graph=families.ring(4), rounds=3)

        def make() -> object:
            self.actor = protocol.actor(device(0), seat)
            return self.actor

        self.party = Party(
            device(0), self.survey, make, self._links(0, keys[0]), origin=1000.0,
            round_seconds=ROUND,
        )  # fmt: skip
        self.party.begin(1000.0)
        self.stranger = self._links(2, keys[2])

    def _links(self, number: int, keys: PrivateKeys) -> links.Links:
        return links.Links(number, keys, self.survey, self.context, self.records)

    def say(self, sender: links.Links, *bodies: bytes) -> None:
        numbered = [(sender.next_number(0), body) for body in bodies]
        plaintexts, left, _ = pack(numbered)
        assert not left
        batch = [(each, sender.seal(0, 0, plain)) for each, plain in enumerate(plaintexts)]
        self.party.deliver(batch, 1000.0)


def hop(**changes: object) -> bytes:
    fields = {"round": 0, "id": bytes(16), "payloads": [b"x"]} | changes
    return wire.encode(network_messages.Hop(**fields))


SENSELESS = [
    b"",
    b"\xc1",
    b"\x91" * 5000,
    os.urandom(300),
    hop(round=3),
    hop(round=2**32 - 1),
    hop(payloads=[b"x" * 5000]),
    hop() + b"\0",
    hop(id=bytes(15)),
    hop(payloads=[]),
    wire.encode(network_messages.Passed(os.urandom(16))),
    wire.encode(network_messages.HandIn(bytes(16), [], [b"x"])),
    wire.encode(wire.Accepted(0, bytes(16))),
    wire.encode(wire.Refused(0, bytes(16))),
    wire.encode(shuffle_messages.Batch(0, [b"x"])),
    wire.encode(wire.Report(0, bytes(16), b"x")),
]


@pytest.mark.parametrize("body", SENSELESS, ids=range(len(SENSELESS)))
def test_senseless_messages_change_nothing(body: bytes) -> None:
    pair = Pair()
    before = pair.actor.state()
    cells_before = pair.party.statistics.cells
    for sender in (pair.neighbour, pair.stranger):
        pair.say(sender, body)
    assert pair.actor.state() == before
    assert pair.party.statistics.cells == cells_before
    assert pair.party.statistics.received == 2
    assert pair.party.output is None
    # The link is as good as before, for what makes sense.
    pair.say(pair.neighbour, hop())
    assert pair.actor.state() != before


def test_a_stranger_cannot_hand_on_reports() -> None:
    """Who is on the roster but no neighbour is not part of this person's walk."""
    pair = Pair()
    before = pair.actor.state()
    pair.say(pair.stranger, hop(), hop(round=1, id=os.urandom(16)))
    assert pair.actor.state() == before


def test_the_same_hop_is_taken_in_once() -> None:
    pair = Pair()
    pair.say(pair.neighbour, hop())
    once = pair.actor.state()
    pair.say(pair.neighbour, hop(), hop())
    assert pair.actor.state() == once
    assert pair.party.statistics.received == 3


def test_plaintexts_that_are_no_records_are_counted() -> None:
    pair = Pair()
    before = pair.actor.state()
    rng = np.random.default_rng(5)
    noise = [rng.bytes(CAPACITY) for _ in range(50)]
    pair.party.deliver(
        [(place, pair.neighbour.seal(0, 0, each)) for place, each in enumerate(noise)], 1000.0
    )
    assert pair.actor.state() == before
    assert set(pair.party.statistics.rejected) <= {Reason.malformed, Reason.oversized}
    assert Counter(pair.party.statistics.rejected).total() > 0
    pair.say(pair.neighbour, hop())
    assert pair.actor.state() != before


def test_senseless_messages_are_acknowledged(tmp_path: Path) -> None:
    """What a hostile neighbour said is acknowledged like anything else, and costs no more."""
    pair = Pair()
    pair.say(pair.neighbour, *SENSELESS)
    with Journal(tmp_path / "journal.sqlite") as journal:
        batch = journal.batch()
        pair.party.changes(batch)
        journal.commit(batch)
        released = pair.party.committed()
        assert released.tokens
        (row,) = journal.parties()
        assert row.state == pair.actor.state()
