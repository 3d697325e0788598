"""Whole crowds on real keys: everyone is counted exactly once, whatever breaks, and whenever."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
import signal
import time
from functools import partial

import pytest

from incrowd.errors import FileUnreadable, IncrowdError
from incrowd.live import cells
from incrowd.live.cells import CELL, Header
from incrowd.live.clocks import Clocks
from incrowd.live.journal import Fact, Journal
from incrowd.live.ledger import Ledger, Line
from incrowd.live.playing import Player
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.transports.base import Unreachable
from incrowd.live.transports.memory import MemoryNetwork
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, device
from tests.live.played import (
    QUICK,
    SURVEY,
    Cast,
    Host,
    make_keys,
    play_and_die,
    play_to_the_end,
)

PEOPLE = 6
EVERYONE = list(range(PEOPLE))
PATIENCE = 10.0


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    directories = {}
    for kind in ("local", "shuffle"):
        directories[kind] = tmp_path_factory.mktemp(kind)
        make_keys(directories[kind], kind, PEOPLE)
    return directories


@pytest.fixture(params=["local", "shuffle"])
def cast(request, keys):
    return Cast(keys[request.param], request.param, PEOPLE)


def troubled(seed):
    """Drops, doubles, delays, reorders, and breaks off."""
    rng = random.Random(seed)

    def fate(cell):
        return [rng.uniform(0, 0.02) for _ in range(rng.choice([0, 1, 1, 2, 3]))]

    def reachable(sender, count):
        return rng.randint(0, count) if rng.random() < 0.3 else None

    return MemoryNetwork(fate, reachable, again=0.01)


def test_everyone_is_counted_once(cast, tmp_path):
    async def main():
        network = MemoryNetwork()
        host = Host(cast, network, tmp_path / "journal.db")
        assert await play_to_the_end(host) == EVERYONE
        assert host.player.failures == {}
        for person in EVERYONE:
            statistics = host.parties[device(person)].statistics
            assert (statistics.dummies, statistics.rejected) == (0, {})

    asyncio.run(main())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_network_that_loses_doubles_and_reorders(cast, tmp_path, seed):
    async def main():
        host = Host(cast, troubled(seed), tmp_path / "journal.db")
        assert await play_to_the_end(host) == EVERYONE

    asyncio.run(main())


class Crash(Exception):
    """The process ends here."""


class Crashing(Journal):
    """A journal that fails at one of its commits, before or after it."""

    def __init__(self, path, commit, after):
        super().__init__(path)
        self.left, self.after = commit, after

    def commit(self, batch):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Crash
        super().commit(batch)
        if self.left == 0:
            raise Crash


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("helpers_crash", [False, True], ids=["devices", "helpers"])
def test_one_host_crashes_at_each_of_its_commits(cast, tmp_path, helpers_crash, after):
    """The network and the other host go on, so what was sent is not sent for the first time."""
    people = [device(person) for person in EVERYONE]
    helpers = [each for each in cast.addresses if each not in people]
    crash, calm = (helpers, people) if helpers_crash else (people, helpers)

    async def main():
        network = troubled(7)
        other = await Host(cast, network, tmp_path / "calm.db", calm).start()
        path = tmp_path / "crash.db"
        survived = False
        commit = 0
        while not survived and commit < 8:
            commit += 1
            host = Host(cast, network, path, crash, partial(Crashing, commit=commit, after=after))
            await host.start()
            survived = await _runs_to_the_end(host)
            await host.abandon()
            with Journal(path) as journal:
                assert journal.damage() == []
        last = await Host(cast, network, path, crash).start()
        await asyncio.wait_for(last.player.finished(), PATIENCE)
        await asyncio.wait_for(other.player.finished(), PATIENCE)
        curator = (last if helpers_crash else other).parties[CURATOR]
        assert cast.counted(curator) == EVERYONE
        await last.stop()
        await other.stop()

    asyncio.run(main())


async def _runs_to_the_end(host):
    try:
        await asyncio.wait_for(host.player.finished(), PATIENCE)
    except Crash:
        return False
    return True


@pytest.mark.parametrize("kind", ["local", "shuffle"])
def test_kill_at_every_commit(keys, tmp_path, kind):
    """One process plays everyone and is killed; another continues from its journal."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.live.played"])
    for commit in itertools.count(1):
        killed = [
            _kill_and_continue(context, keys[kind], tmp_path, kind, commit, after)
            for after in (False, True)
        ]
        if not any(killed):
            break
    # Everyone's start, what came in, and what was answered cannot be in fewer groups.
    assert commit > 3


def _kill_and_continue(context, keys, tmp_path, kind, commit, after):
    path = tmp_path / f"{commit}-{after}.db"
    origin = time.time()
    arguments = (keys, path, kind, PEOPLE, origin, commit, after)
    process = context.Process(target=play_and_die, args=arguments)
    process.start()
    process.join()
    killed = process.exitcode != 0
    assert process.exitcode == (-signal.SIGKILL if killed else 0)
    process.close()
    with Journal(path) as journal:
        assert journal.damage() == []
    host = Host(Cast(keys, kind, PEOPLE, origin), MemoryNetwork(), path)
    assert asyncio.run(play_to_the_end(host)) == EVERYONE
    return killed


def test_after_a_restart_the_same_bytes_are_sent(keys, tmp_path):
    cast = Cast(keys["shuffle"], "shuffle", PEOPLE)
    who = [device(person) for person in EVERYONE]
    path = tmp_path / "journal.db"

    async def main():
        # Nothing gets through: everything stays in the outbox.
        offline = MemoryNetwork(reachable=lambda sender, count: 0)
        host = await Host(cast, offline, path, who).start()
        await asyncio.wait_for(
            host.player.until(lambda: all(host.parties[each].begun for each in who)), PATIENCE
        )
        await host.stop()
        with Journal(path) as journal:
            rows = [row for each in journal.outbox().values() for row in each]
        assert len(rows) == PEOPLE
        assert {Header.parse(row.cell).recipient for row in rows} == {cells.number(SHUFFLER)}
        online = MemoryNetwork()
        host = await Host(cast, online, path, who).start()
        await asyncio.wait_for(host.player.until(lambda: online.waiting() >= PEOPLE), PATIENCE)
        await host.stop()
        mailbox = online._mailboxes[SURVEY, cells.number(SHUFFLER)]
        assert {row.cell for row in rows} <= set(mailbox.cells.values())
        with Journal(path) as journal:
            kept = {row.id for each in journal.outbox().values() for row in each}
            assert not kept & {row.id for row in rows}

    asyncio.run(main())


def test_parties_begin_at_the_start_and_not_before(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE, time.time() + 3600)
    passed = [0.0]
    clocks = Clocks(lambda: cast.origin - 0.001, lambda: passed[0])

    async def main():
        with Journal(tmp_path / "journal.db") as journal:
            async with Player(journal, clocks=clocks) as player:
                party = cast.party(device(0))
                player.add(party, MemoryNetwork().transport(SURVEY, 0))
                await asyncio.sleep(0.02)
                assert not party.begun
                passed[0] = 0.002
                # Another party brings the clock to attention.
                other = cast.party(device(1))
                player.add(other, MemoryNetwork().transport(SURVEY, 1))
                await player.until(lambda: other.begun and party.begun)

    asyncio.run(main())


def line(epsilon0):
    return Line(time.time(), SURVEY, b"d" * 32, "?", epsilon0, 0.0, [("curator", epsilon0, 0.0)])


def test_the_ledger_is_asked_once_and_can_say_no(keys, tmp_path):
    cast = Cast(keys["local"], "local", 3)
    path = tmp_path / "journal.db"

    def spend(ledger, owner, price):
        if price > 10:
            raise Rejected(Reason.budget)
        return ledger.spend(owner, line(price))

    async def main(prices):
        network = MemoryNetwork()
        with Journal(path) as journal:
            ledger = Ledger(journal)
            async with Player(journal) as player:
                for person, price in enumerate(prices):
                    owner = bytes([person]) * 32
                    party = cast.party(device(person))
                    transport = network.transport(SURVEY, person)
                    player.add(party, transport, partial(spend, ledger, owner, price))
                expected = sum(price <= 10 for price in prices)
                await asyncio.wait_for(player.until(lambda: network.waiting() >= expected), 30)
            failures = {party.address: error for party, error in player.failures.items()}
            return failures, [len(Ledger(journal).lines(bytes([each]) * 32)) for each in range(3)]

    failures, lines = asyncio.run(main([1.0, 100.0, 2.0]))
    assert list(failures) == [device(1)]
    assert failures[device(1)].reason is Reason.budget
    assert lines == [1, 0, 1]
    # Those who had begun continue without spending again; the third begins only now.
    failures, lines = asyncio.run(main([1.0, 1.0, 2.0]))
    assert failures == {}
    assert lines == [1, 1, 1]


def test_a_party_that_fails_is_set_aside(keys, tmp_path, caplog):
    cast = Cast(keys["local"], "local", PEOPLE)

    async def main():
        host = await Host(cast, MemoryNetwork(), tmp_path / "journal.db").start()

        def broken(*_):
            raise ZeroDivisionError

        host.parties[device(2)].deliver = broken
        await asyncio.wait_for(
            host.player.until(
                lambda: (
                    bool(host.player.failures)
                    and all(
                        party.output is not None or party.address == device(2)
                        for party in host.parties.values()
                    )
                )
            ),
            PATIENCE,
        )
        assert cast.counted(host.parties[CURATOR]) == EVERYONE
        with pytest.raises(ZeroDivisionError):
            await host.player.finished()
        await host.stop()

    asyncio.run(main())
    assert "device/2 was set aside" in caplog.text


def test_a_journal_that_cannot_be_written_stops_everything(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE)

    async def main():
        network = MemoryNetwork()
        host = await Host(
            cast,
            network,
            tmp_path / "journal.db",
            make_journal=lambda file: Crashing(file, 1, False),
        ).start()
        with pytest.raises(Crash):
            await asyncio.wait_for(host.player.finished(), PATIENCE)
        with pytest.raises(Crash):
            await host.stop()
        assert network.waiting() == 0

    asyncio.run(main())


def test_facts_share_the_commits(tmp_path):
    async def main():
        with Journal(tmp_path / "journal.db") as journal:
            async with Player(journal) as player:
                await player.write([Fact(b"o", SURVEY, "phase", b"joined")])
                assert journal.facts(b"o") == {SURVEY: {"phase": b"joined"}}
            with pytest.raises(IncrowdError, match="stopped"):
                await player.until(lambda: False)

    asyncio.run(main())


def test_one_unreachable_recipient_does_not_hold_up_the_others(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE)
    network = MemoryNetwork()
    attempts = []

    async def main():
        with Journal(tmp_path / "journal.db") as journal:
            transport = network.transport(SURVEY, cells.number(CURATOR))
            deliver = transport.send

            async def send(batch):
                recipients = {Header.parse(cell).recipient for cell in batch}
                attempts.append(recipients)
                if down & recipients:
                    raise Unreachable("somebody is down")
                return await deliver(batch)

            transport.send = send
            transport.shared = False
            down = {0}
            party = cast.party(CURATOR)
            links = cast.links(CURATOR)
            async with Player(journal, retry=QUICK) as player:
                player.add(party, transport)
                for person in EVERYONE:
                    party.post(links.seal(person, 0, cells.DUMMY))
                player.mark(party)
                others = PEOPLE - 1
                await asyncio.wait_for(player.until(lambda: network.waiting() == others), PATIENCE)
                # News for somebody else goes out while the first is still down.
                party.post(links.seal(1, 0, cells.DUMMY))
                player.mark(party)
                await asyncio.wait_for(
                    player.until(lambda: network.waiting() == others + 1), PATIENCE
                )
                down.clear()
                await asyncio.wait_for(
                    player.until(lambda: network.waiting() == others + 2), PATIENCE
                )
        assert all(len(recipients) == 1 for recipients in attempts)

    asyncio.run(main())


def test_a_full_holder_is_asked_again_and_a_refusal_is_final(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE)
    answers = {0: [Reason.full, Reason.full, None], 1: [Reason.revoked], 2: [None]}
    asked = []

    async def main():
        with Journal(tmp_path / "journal.db") as journal:
            transport = MemoryNetwork().transport(SURVEY, cells.number(CURATOR))

            async def send(batch):
                recipients = [Header.parse(cell).recipient for cell in batch]
                asked.extend(recipients)
                return [answers[each].pop(0) for each in recipients]

            transport.send = send
            party, links = cast.party(CURATOR), cast.links(CURATOR)
            async with Player(journal, retry=QUICK) as player:
                player.add(party, transport)
                for person in answers:
                    party.post(links.seal(person, 0, cells.DUMMY))
                player.mark(party)
                await asyncio.wait_for(player.until(lambda: not any(answers.values())), PATIENCE)
                await asyncio.wait_for(
                    player.until(lambda: player._seats[party].courier.idle), PATIENCE
                )
            assert sorted(asked) == [0, 0, 0, 1, 2]
            assert party.statistics.undeliverable == {Reason.revoked: 1}
            assert journal.outbox() == {}

    asyncio.run(main())


def test_a_transport_that_opens_late(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE)

    async def main():
        network = MemoryNetwork()
        with Journal(tmp_path / "journal.db") as journal:
            async with Player(journal, retry=QUICK) as player:
                transport = network.transport(SURVEY, 0)
                attempts = []
                opened = transport.open

                async def late():
                    attempts.append(1)
                    if len(attempts) < 3:
                        raise Unreachable("not yet")
                    await opened()

                transport.open = late
                player.add(cast.party(device(0)), transport)
                await asyncio.wait_for(player.until(lambda: network.waiting() == 1), PATIENCE)
                assert len(attempts) == 3

    asyncio.run(main())


def test_the_memory_network_refuses_what_is_no_cell():
    async def main():
        transport = MemoryNetwork().transport(SURVEY, 0)
        outcomes = await transport.send([b"", bytes(CELL), bytes(CELL + 1)])
        assert outcomes == [Reason.malformed, Reason.version, Reason.oversized]
        await transport.close()
        async for _ in transport.deliveries():
            raise AssertionError

    asyncio.run(main())


def test_a_journal_in_use(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE)
    path = tmp_path / "journal.db"
    first = Host(cast, MemoryNetwork(), path)
    with pytest.raises(FileUnreadable, match="in use"):
        Host(cast, MemoryNetwork(), path)
    first.journal.close()


def test_a_held_party_begins_when_it_is_released(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE)

    async def main():
        network = MemoryNetwork()
        with Journal(tmp_path / "journal.db") as journal:
            async with Player(journal) as player:
                held, free = cast.party(device(0)), cast.party(device(1))
                player.add(held, network.transport(SURVEY, 0), held=True)
                player.add(free, network.transport(SURVEY, 1))
                await asyncio.wait_for(player.until(lambda: network.waiting() == 1), PATIENCE)
                assert not held.begun
                player.release(held)
                await asyncio.wait_for(player.until(lambda: network.waiting() == 2), PATIENCE)

    asyncio.run(main())


def test_a_removed_party_is_committed_and_called_no_more(keys, tmp_path):
    cast = Cast(keys["local"], "local", PEOPLE)

    async def main():
        network = MemoryNetwork()
        with Journal(tmp_path / "journal.db") as journal:
            async with Player(journal) as player:
                gone, stays = cast.party(device(0)), cast.party(device(1))
                for party in (gone, stays):
                    player.add(party, network.transport(SURVEY, party.number))
                await asyncio.wait_for(player.drained(gone), PATIENCE)
                await asyncio.wait_for(player.until(lambda: network.waiting() == 2), PATIENCE)
                await player.remove(gone)
                await player.remove(gone)
                assert [row.number for row in journal.parties()] == [0, 1]
                said = gone.statistics.messages
                # Without an answer both would go on asking.
                await asyncio.wait_for(
                    player.until(lambda: stays.statistics.messages >= 4), PATIENCE
                )
                assert gone.statistics.messages == said

    asyncio.run(main())
