"""The host's journal: everything its parties must not forget, in one SQLite file.

One process plays many parties, and a flush to disk costs milliseconds whatever it carries. So the
changes of all parties are collected while the previous transaction runs, written in one transaction
(:class:`GroupCommit`), and only after it may anything of them be seen outside. Invariants:

* state, sealed cells, the windows of cells taken in, and ledger entries of one call are in the same
  transaction: after a crash at any point either all of them happened or none;
* a cell stays in the outbox, byte for byte, until the next holder has it. The rows of cells that
  arrived are deleted with the next transaction: a crash before that sends them again;
* entries of the ledger are only ever appended. Triggers refuse everything else, and each entry's
  hash covers the one before it, so that a change made by other means is found. Whoever rewrites the
  whole chain, or cuts off its end, is not found: it guards against accidents, not its own owner;
* what was replaced or deleted is overwritten in the file, as far as SQLite does that, and leaves
  the log beside it within a few seconds, or when the journal is opened again, unless somebody reads
  the file all the while. Blocks that the file system frees are not wiped;
* one process at a time has a journal open for writing.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from incrowd.errors import FileUnreadable, StoreUnavailable
from incrowd.live import chain
from incrowd.live.chain import Entry, Head
from incrowd.live.supervisor import Service

_REMEMBERED: Final = 2.0
"""Seconds that the log keeps what later transactions replaced, while the process lives."""

_STEPS: Final = (
    """
    CREATE TABLE parties (
        survey BLOB NOT NULL, number INTEGER NOT NULL, origin REAL NOT NULL,
        alarm REAL, tick INTEGER NOT NULL,
        queue BLOB NOT NULL, output BLOB, links BLOB NOT NULL, state BLOB,
        PRIMARY KEY (survey, number)
    );
    CREATE TABLE outbox (
        id INTEGER PRIMARY KEY, survey BLOB NOT NULL, number INTEGER NOT NULL, cell BLOB NOT NULL
    );
    CREATE TABLE facts (
        owner BLOB NOT NULL, survey BLOB NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (owner, survey, key)
    );
    CREATE TABLE ledger (
        owner BLOB NOT NULL, place INTEGER NOT NULL, survey BLOB NOT NULL,
        body BLOB NOT NULL, hash BLOB NOT NULL,
        PRIMARY KEY (owner, place), UNIQUE (owner, survey)
    );
    CREATE TRIGGER ledger_update BEFORE UPDATE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    CREATE TRIGGER ledger_delete BEFORE DELETE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    -- REPLACE deletes without asking the trigger above.
    CREATE TRIGGER ledger_insert BEFORE INSERT ON ledger
        WHEN EXISTS (SELECT 1 FROM ledger WHERE owner = NEW.owner
                     AND (place >= NEW.place OR survey = NEW.survey))
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
    """,
)
"""The schema as steps; a journal remembers how many were applied to it."""


class PartyRow(NamedTuple):
    """One party as it was after its last committed call; times are seconds after ``origin``."""

    survey: bytes
    number: int
    origin: float
    alarm: float | None
    tick: int
    queue: bytes
    output: bytes | None
    links: bytes
    state: bytes | None
    """The actor's state; none writes nothing and leaves the stored one."""


class OutboxRow(NamedTuple):
    """One sealed cell on its way to the next holder."""

    id: int
    survey: bytes
    number: int
    cell: bytes


class Fact(NamedTuple):
    """One thing that an owner knows of a survey; a value of none is forgotten."""

    owner: bytes
    survey: bytes
    key: str
    value: bytes | None


@dataclass(eq=False)
class Batch:
    """What one transaction writes."""

    ids: Iterator[int]
    parties: list[PartyRow] = field(default_factory=list)
    cells: list[OutboxRow] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def put(self, survey: bytes, number: int, cell: bytes) -> OutboxRow:
        """Add a cell to the outbox of this party."""
        row = OutboxRow(next(self.ids), survey, number, cell)
        self.cells.append(row)
        return row

    def __bool__(self) -> bool:
        return bool(self.parties or self.cells or self.sent or self.facts or self.entries)


class Journal:
    """The file; use it from any thread, one transaction at a time."""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        """Open, or make, the journal. ``readonly`` looks on while another process may write."""
        self.path = path
        self._lock = threading.Lock()
        self._witnesses: dict[bytes, Callable[[Head], None]] = {}
        self._guard: sqlite3.Connection | None = None
        if not readonly:
            self._guard = _only_writer(path)
        try:
            self._database = _connect(path, readonly)
            self._upgrade(readonly)
            if not readonly:
                self.forget()  # what a process that was killed left in the log
            (last,) = self._database.execute("SELECT coalesce(max(id), 0) FROM outbox").fetchone()
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise FileUnreadable(f"cannot open the journal {path}: {error}") from None
        except FileUnreadable:
            self.close()
            raise
        self._ids = itertools.count(last + 1)

    def _upgrade(self, readonly: bool) -> None:
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > len(_STEPS) or (readonly and version < len(_STEPS)):
            raise FileUnreadable(
                f"the journal {self.path} has version {version} and this program writes "
                f"{len(_STEPS)}: use the program that wrote it"
            )
        for number, step in enumerate(_STEPS[version:], version + 1):
            self._database.executescript(f"BEGIN;{step}PRAGMA user_version = {number};COMMIT;")

    def close(self) -> None:
        """Let go of the file, after a transaction that is under way."""
        database = getattr(self, "_database", None)
        if self._guard is not None and database is not None:
            # SQLite does so as well, but not while somebody else has the file open.
            with suppress(FileUnreadable):
                self.forget()
        with self._lock:
            for each in (database, self._guard):
                if each is not None:
                    each.close()
            self._guard = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Writing.

    def batch(self) -> Batch:
        """An empty batch for this journal."""
        return Batch(self._ids)

    def commit(self, batch: Batch) -> None:
        """Write everything in one transaction; returns when it is on stable storage."""
        with self._using() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                self._write(database, batch)
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise
        # Before anything of it leaves: see ``witness``.
        for owner in {entry.owner for entry in batch.entries} & self._witnesses.keys():
            self._witnesses[owner](self.head(owner))

    def witness(self, owner: bytes, tell: Callable[[Head], None]) -> None:
        """Tell somebody of every new end of this owner's ledger, as part of the commit."""
        self._witnesses[owner] = tell

    def forget(self) -> bool:
        """Empty the log, which still holds what was replaced; false if that must be tried again.

        So it is while somebody reads the file, and while the disk is full: nothing is lost by that.
        """
        with self._using() as database:
            (patience,) = database.execute("PRAGMA busy_timeout").fetchone()
            database.execute("PRAGMA busy_timeout = 0")  # nobody waits for whoever looks on
            try:
                (busy, _, _) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.Error:
                return False
            finally:
                database.execute(f"PRAGMA busy_timeout = {patience}")
        return not busy

    def _write(self, database: sqlite3.Connection, batch: Batch) -> None:
        database.executemany(
            "INSERT INTO parties VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET alarm = excluded.alarm, tick = excluded.tick, "
            "queue = excluded.queue, output = excluded.output, links = excluded.links, "
            "state = coalesce(excluded.state, state)",
            batch.parties,
        )
        database.executemany("INSERT INTO outbox VALUES (?, ?, ?, ?)", batch.cells)
        database.executemany("DELETE FROM outbox WHERE id = ?", ((id_,) for id_ in batch.sent))
        for fact in batch.facts:
            if fact.value is None:
                database.execute(
                    "DELETE FROM facts WHERE owner = ? AND survey = ? AND key = ?", fact[:3]
                )
            else:
                database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)", fact)
        for entry in batch.entries:
            chain.append(database, entry)

    # Reading.

    def parties(self) -> list[PartyRow]:
        """Every party that has begun."""
        with self._using() as database:
            rows = database.execute(
                "SELECT survey, number, origin, alarm, tick, queue, output, links, state "
                "FROM parties ORDER BY survey, number"
            )
            return [PartyRow(*row) for row in rows]

    def outbox(self) -> dict[tuple[bytes, int], list[OutboxRow]]:
        """The cells on their way, in order, by survey and number of their sender."""
        found: dict[tuple[bytes, int], list[OutboxRow]] = {}
        with self._using() as database:
            for row in database.execute("SELECT id, survey, number, cell FROM outbox ORDER BY id"):
                found.setdefault((row[1], row[2]), []).append(OutboxRow(*row))
        return found

    def owners(self) -> list[bytes]:
        """Everyone who has a ledger or knows of a survey."""
        with self._using() as database:
            rows = database.execute(
                "SELECT owner FROM ledger UNION SELECT owner FROM facts ORDER BY owner"
            )
            return [owner for (owner,) in rows]

    def facts(self, owner: bytes) -> dict[bytes, dict[str, bytes]]:
        """What this owner knows, by survey and key."""
        found: dict[bytes, dict[str, bytes]] = {}
        with self._using() as database:
            for survey, key, value in database.execute(
                "SELECT survey, key, value FROM facts WHERE owner = ? ORDER BY survey, key",
                (owner,),
            ):
                found.setdefault(survey, {})[key] = value
        return found

    def entries(self) -> list[Entry]:
        """Every line of every ledger, in order; a broken chain is refused."""
        with self._using() as database:
            found, broken = chain.verified(database)
        if broken is not None:
            owner, place = broken
            raise FileUnreadable(
                f"the ledger in {self.path} was altered at line {place} of owner "
                f"{owner.hex()[:16]}: restore the file from a copy, nothing is answered until then"
            )
        return found

    def head(self, owner: bytes) -> Head:
        """The end of this owner's ledger."""
        with self._using() as database:
            return chain.head_of(database, owner)

    def passes(self, owner: bytes, head: Head) -> bool:
        """Whether this owner's ledger ended, now or at some time, as ``head`` says."""
        with self._using() as database:
            return chain.passes(database, owner, head)

    def damage(self) -> list[str]:
        """What SQLite's integrity check finds; nothing when the file is whole."""
        with self._using() as database:
            rows = database.execute("PRAGMA integrity_check").fetchall()
        return [str(row[0]) for row in rows if row[0] != "ok"]

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._database
            except sqlite3.Error as error:
                # Locked, full, read-only, gone: all of that may pass, unlike a refused line.
                passing = isinstance(error, sqlite3.OperationalError)
                raise (StoreUnavailable if passing else FileUnreadable)(
                    f"the journal {self.path} cannot be used: {error}: check the disk and its space"
                ) from error


def _connect(path: Path, readonly: bool) -> sqlite3.Connection:
    if not readonly:
        # SQLite gives the files beside the database the permissions of the database.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    mode = "ro" if readonly else "rw"
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    if not readonly:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        # What a party has forgotten, such as reports that were handed on, is overwritten in the
        # file itself; the log is emptied by Journal.forget.
        database.execute("PRAGMA secure_delete = ON")
    return database


def _only_writer(path: Path) -> sqlite3.Connection:
    """A lock that ends with the process, however that ends; readers are not kept out."""
    lock = path.with_name(f"{path.name}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_RDWR, 0o600))
        guard = sqlite3.connect(lock, timeout=0, isolation_level=None, check_same_thread=False)
    except (sqlite3.Error, OSError) as error:
        raise FileUnreadable(f"cannot open the journal {path}: {error}") from None
    try:
        guard.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error:
        guard.close()
        raise FileUnreadable(
            f"the journal {path} is in use by another process: stop that one first"
        ) from None
    return guard


class Source(Protocol):
    """Something that has changes to make durable."""

    def changes(self, batch: Batch) -> None:
        """Add what has changed since this was last asked."""

    def committed(self) -> None:
        """What was last added is durable."""


class _Write:
    """A batch of its own, and who waits for it."""

    def __init__(self, facts: Iterable[Fact], entries: Iterable[Entry]) -> None:
        self._facts, self._entries = list(facts), list(entries)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def changes(self, batch: Batch) -> None:
        batch.facts += self._facts
        batch.entries += self._entries

    def committed(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class GroupCommit:
    """One transaction at a time for everyone: while it runs, the next one gathers.

    While the file cannot be written, the group waits and nothing of it is carried out; it is tried
    again, the same, for as long as that lasts. Any other failure ends it: a new process finds the
    state before that group. Now and then it empties the log of what was replaced.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._marked: dict[Source, None] = {}
        self._unwritten: tuple[Batch, list[Source]] | None = None
        self._wanted = asyncio.Event()
        self._closing = False
        self._failure: BaseException | None = None
        self._forget_at = math.inf

    def mark(self, source: Source) -> None:
        """Commit the changes of this source with the next group."""
        self._marked[source] = None
        self._wanted.set()

    async def write(self, facts: Iterable[Fact] = (), entries: Iterable[Entry] = ()) -> None:
        """Write these with the next group; returns when they are durable."""
        self.check()
        write = _Write(facts, entries)
        self.mark(write)
        await write.done

    def check(self) -> None:
        """Raise if nothing will be written any more."""
        if self._failure is not None:
            raise self._failure

    async def run(self, pulse: Service) -> None:
        """Commit what is marked, until closed."""
        self._forget_at = _later()  # what was left when the journal was opened
        try:
            while self._unwritten or self._marked or not self._closing:
                if self._unwritten is None and not await self._asked(pulse):
                    done = await asyncio.to_thread(self._journal.forget)
                    self._forget_at = math.inf if done else _later()
                    continue
                await self._commit()
                pulse.beat()
        except StoreUnavailable as error:
            if self._closing:
                self._fail(error)
            raise
        except BaseException as error:
            self._fail(error)
            raise

    async def _commit(self) -> None:
        """Write the group that is left over, or the next."""
        if self._unwritten is None:
            self._wanted.clear()
            group, self._marked = list(self._marked), {}
            batch = self._journal.batch()
            self._unwritten = batch, group
            for source in group:
                source.changes(batch)
        batch, group = self._unwritten
        if batch:
            await asyncio.to_thread(self._journal.commit, batch)
            self._forget_at = min(self._forget_at, _later())
        self._unwritten = None
        for source in group:
            source.committed()

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        left = [] if self._unwritten is None else self._unwritten[1]
        for source in (*left, *self._marked):
            if isinstance(source, _Write) and not source.done.done():
                source.done.set_exception(FileUnreadable(f"not written: {error}"))

    async def _asked(self, pulse: Service) -> bool:
        """Wait until there is something to commit; false when it is time to forget first."""
        if self._forget_at == math.inf:
            return await pulse.until(self._wanted)
        left = self._forget_at - asyncio.get_running_loop().time()
        return left > 0 and await pulse.until(self._wanted, left)

    def close(self) -> None:
        """Let ``run`` end after everything that is marked."""
        self._closing = True
        self._wanted.set()


def _later() -> float:
    return asyncio.get_running_loop().time() + _REMEMBERED
