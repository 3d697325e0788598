"""The journal: one transaction for everything, one writer, and a ledger that only grows."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from incrowd.errors import FileUnreadable, ServiceFailed
from incrowd.live.chain import Entry
from incrowd.live.journal import Fact, GroupCommit, Journal, PartyRow
from incrowd.live.supervisor import Supervisor

SURVEY, OWNER = b"s" * 16, b"o" * 32


def row(**changes) -> PartyRow:
    fields = {
        "survey": SURVEY,
        "number": 3,
        "origin": 100.0,
        "alarm": 1.5,
        "tick": 2,
        "queue": b"queue",
        "output": None,
        "links": b"links",
        "state": b"state",
    }
    return PartyRow(**fields | changes)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


def test_what_was_committed_is_there_again(path):
    with Journal(path) as journal:
        batch = journal.batch()
        assert not batch
        batch.parties.append(row())
        kept, gone = batch.put(SURVEY, 3, b"kept"), batch.put(SURVEY, 3, b"gone")
        batch.facts += [Fact(OWNER, SURVEY, "phase", b"joined"), Fact(OWNER, SURVEY, "x", b"1")]
        batch.entries.append(Entry(OWNER, SURVEY, b"line"))
        journal.commit(batch)
        later = journal.batch()
        later.sent.append(gone.id)
        later.facts += [Fact(OWNER, SURVEY, "phase", b"started"), Fact(OWNER, SURVEY, "x", None)]
        later.parties.append(row(state=None, alarm=None, output=b"out"))
        journal.commit(later)
    with Journal(path) as journal:
        # A state of none leaves the stored one.
        assert journal.parties() == [row(alarm=None, output=b"out")]
        assert journal.outbox() == {(SURVEY, 3): [kept]}
        assert journal.facts(OWNER) == {SURVEY: {"phase": b"started"}}
        assert journal.facts(b"another") == {}
        assert journal.entries() == [Entry(OWNER, SURVEY, b"line")]
        assert journal.damage() == []
        assert journal.batch().put(SURVEY, 3, b"new").id > kept.id


def test_a_batch_is_written_whole_or_not_at_all(path):
    with Journal(path) as journal:
        batch = journal.batch()
        batch.entries.append(Entry(OWNER, SURVEY, b"line"))
        journal.commit(batch)
        broken = journal.batch()
        broken.parties.append(row())
        broken.put(SURVEY, 3, b"cell")
        broken.entries.append(Entry(OWNER, SURVEY, b"the same survey again"))
        with pytest.raises(FileUnreadable, match="append-only"):
            journal.commit(broken)
        assert journal.parties() == []
        assert journal.outbox() == {}
        assert journal.entries() == [Entry(OWNER, SURVEY, b"line")]


def test_files_are_their_owners_alone(path):
    with Journal(path) as journal:
        journal.commit(_with_fact(journal))
        modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    assert {"journal.db", "journal.db-wal", "journal.db.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_durable_settings(path):
    with Journal(path) as journal:
        database = journal._database
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert database.execute("PRAGMA synchronous").fetchone() == (2,)


def test_one_writer_and_any_number_of_readers(path):
    with Journal(path) as journal:
        with pytest.raises(FileUnreadable, match="in use by another process"):
            Journal(path)
        journal.commit(_with_fact(journal))
        with Journal(path, readonly=True) as reader:
            assert reader.facts(OWNER) == {SURVEY: {"key": b"value"}}
            with pytest.raises(FileUnreadable, match="readonly"):
                reader.commit(_with_fact(reader))
    Journal(path).close()


def _with_fact(journal):
    batch = journal.batch()
    batch.facts.append(Fact(OWNER, SURVEY, "key", b"value"))
    return batch


def test_files_that_are_no_journal(tmp_path, path):
    path.write_bytes(b"this is not a database, and never was one" * 100)
    with pytest.raises(FileUnreadable, match="cannot open the journal"):
        Journal(path)
    with pytest.raises(FileUnreadable, match="cannot open the journal"):
        Journal(tmp_path / "nowhere" / "journal.db")
    with pytest.raises(FileUnreadable, match="cannot open the journal"):
        Journal(tmp_path / "absent.db", readonly=True)
    newer = tmp_path / "newer.db"
    Journal(newer).close()
    database = sqlite3.connect(newer)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(FileUnreadable, match="version 99"):
        Journal(newer)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET body = x'00'",
        "DELETE FROM ledger",
        "REPLACE INTO ledger SELECT owner, place, survey, x'00', hash FROM ledger LIMIT 1",
        "REPLACE INTO ledger SELECT owner, place + 9, survey, x'00', hash FROM ledger LIMIT 1",
    ],
)
def test_the_ledger_is_append_only(path, statement):
    _ledger_of(path, 3)
    database = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("UPDATE ledger SET body = x'00' WHERE place = 2", 2),
        ("UPDATE ledger SET owner = x'00' WHERE place = 1", 1),
        ("DELETE FROM ledger WHERE place = 1", 2),
        ("DELETE FROM ledger WHERE place = 2", 3),
        ("UPDATE ledger SET place = 7 WHERE place = 3", 7),
    ],
)
def test_a_ledger_that_was_altered_by_force(path, statement, line):
    _ledger_of(path, 3)
    database = sqlite3.connect(path)
    for trigger in ("update", "delete"):
        database.execute(f"DROP TRIGGER ledger_{trigger}")
    database.execute(statement)
    database.commit()
    database.close()
    altered = pytest.raises(FileUnreadable, match=f"altered at line {line} of owner")
    with Journal(path) as journal, altered:
        journal.entries()


def _ledger_of(path, lines):
    with Journal(path) as journal:
        batch = journal.batch()
        batch.entries += [Entry(OWNER, bytes([number]) * 16, b"line") for number in range(lines)]
        journal.commit(batch)


def on_disk(path, secret: bytes) -> bool:
    """Whether a file of the journal holds these bytes."""
    return any(secret in each.read_bytes() for each in path.parent.iterdir())


def replace(path, secret: bytes) -> str:
    """A program that writes a state with a secret, replaces it, and is killed."""
    return f"""
import os, signal
from pathlib import Path
from incrowd.live.journal import Journal, PartyRow

journal = Journal(Path({str(path)!r}))
for state in ({secret!r} * 300, b"nothing"):
    batch = journal.batch()
    batch.parties.append(PartyRow({SURVEY!r}, 3, 0.0, None, 0, b"", None, b"", state))
    journal.commit(batch)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_journal_that_is_opened_again_has_forgotten(path):
    secret = b"the report of device 2"
    subprocess.run([sys.executable, "-c", replace(path, secret)], check=False)
    assert on_disk(path, secret)  # in the log that the killed process left
    with Journal(path) as journal:
        assert [each.state for each in journal.parties()] == [b"nothing"]
        assert not on_disk(path, secret)


async def forgotten(path, secret: bytes, meanwhile=None) -> bool:
    """Whether these bytes leave the files in good time, while this goes on."""
    for number in range(200):
        if not on_disk(path, secret):
            return True
        if meanwhile is not None:
            await meanwhile(number)
        await asyncio.sleep(0.02)
    return False


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr("incrowd.live.journal._REMEMBERED", 0.1)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("busy", [False, True])
def test_what_was_replaced_leaves_the_log_while_the_journal_is_open(path, busy):
    secret = b"the report of device 2"

    async def main():
        with Journal(path) as journal:
            group = GroupCommit(journal)
            running = Supervisor().service("journal", group.run, period=1.0, restart=False)
            await group.write([Fact(OWNER, SURVEY, "key", secret)])
            await group.write([Fact(OWNER, SURVEY, "key", None)])

            async def more(number):
                await group.write([Fact(OWNER, SURVEY, "other", str(number).encode())])

            assert await forgotten(path, secret, more if busy else None)
            await group.write([Fact(OWNER, SURVEY, "key", b"again")])
            group.close()
            await running.finish()
        with Journal(path) as journal:
            assert journal.facts(OWNER)[SURVEY]["key"] == b"again"

    asyncio.run(main())


@pytest.mark.usefixtures("hasty")
def test_a_log_that_was_being_read_is_emptied_later(path):
    """Also what a killed process left, though nothing is written any more."""
    secret = b"the report of device 2"
    subprocess.run([sys.executable, "-c", replace(path, secret)], check=False)

    async def main():
        reader = sqlite3.connect(path, isolation_level=None)
        with closing(reader):
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM facts").fetchall()
            with Journal(path) as journal:
                group = GroupCommit(journal)
                running = Supervisor().service("journal", group.run, period=1.0, restart=False)
                await asyncio.sleep(0.3)
                assert on_disk(path, secret)
                reader.execute("COMMIT")
                assert await forgotten(path, secret)
                group.close()
                await running.finish()

    asyncio.run(main())


def test_a_journal_forgets_when_it_is_closed_beside_somebody_who_looks_on(path):
    secret = b"the report of device 2"
    with Journal(path) as journal, closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT * FROM facts").fetchall()
        for value in (secret, None):
            batch = journal.batch()
            batch.facts.append(Fact(OWNER, SURVEY, "key", value))
            journal.commit(batch)
        assert on_disk(path, secret)
        journal.close()
        journal.close()
        assert not on_disk(path, secret)


class Full:
    """A database on a disk without room for what its log would be copied to."""

    def __init__(self, database):
        self._database = database

    def execute(self, sql, *more):
        if "wal_checkpoint" in sql:
            raise sqlite3.OperationalError("database or disk is full")
        return self._database.execute(sql, *more)


def test_a_log_that_cannot_be_emptied_ends_nothing(path, monkeypatch):
    with Journal(path) as journal:
        batch = journal.batch()
        batch.facts.append(Fact(OWNER, SURVEY, "key", b"value"))
        journal.commit(batch)
        with monkeypatch.context() as patch:
            patch.setattr(journal, "_database", Full(journal._database))
            assert not journal.forget()
        assert journal._database.execute("PRAGMA busy_timeout").fetchone() != (0,)
        journal.commit(batch)
        assert journal.forget()


class Slow(Journal):
    """A journal that waits to be let go before each commit, and keeps their sizes."""

    def __init__(self, path):
        super().__init__(path)
        self.gate, self.entered, self.sizes = threading.Semaphore(0), threading.Semaphore(0), []

    def commit(self, batch):
        self.entered.release()
        self.gate.acquire()
        self.sizes.append(len(batch.facts))
        super().commit(batch)


def test_a_group_gathers_while_the_one_before_is_written(path):
    async def main():
        with Slow(path) as journal:
            group = GroupCommit(journal)
            running = Supervisor().service("journal", group.run, period=1.0, restart=False)
            first = asyncio.create_task(group.write([Fact(OWNER, SURVEY, "0", b"")]))
            await asyncio.to_thread(journal.entered.acquire)
            others = [
                asyncio.create_task(group.write([Fact(OWNER, SURVEY, str(number), b"")]))
                for number in range(1, 50)
            ]
            await asyncio.sleep(0)
            assert not first.done()
            journal.gate.release()
            await first
            assert not any(each.done() for each in others)
            journal.gate.release()
            await asyncio.gather(*others)
            group.close()
            await running.finish()
            assert journal.sizes == [1, 49]
            assert len(journal.facts(OWNER)[SURVEY]) == 50

    asyncio.run(main())


def test_a_failed_commit_ends_the_group(path):
    async def main():
        with Journal(path) as journal:
            group = GroupCommit(journal)
            supervisor = Supervisor()
            running = supervisor.service("journal", group.run, period=1.0, restart=False)
            entry = Entry(OWNER, SURVEY, b"line")
            await group.write(entries=[entry])
            with pytest.raises(FileUnreadable, match="not written"):
                await group.write(entries=[entry])
            with pytest.raises(FileUnreadable, match="append-only"):
                await group.write()
            await running.finish()
            assert isinstance(supervisor.exhausted, ServiceFailed)

    asyncio.run(main())
