"""The store in one SQLite file, for a hub on one machine.

Write-ahead logging with ``synchronous=FULL``: a commit is one append to the log and one flush, and
it survives a loss of power. The log is copied back into the file every 128 MiB instead of every 4,
because cells come in batches of hundreds of kilobytes and each copy costs two more flushes. Pages
are of 64 KiB, so that such a batch is a few of them, and what a savepoint needs to undo stays in
memory.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

from incrowd.errors import FileUnreadable
from incrowd.live.store.base import Store
from incrowd.live.store.session import Session

_PAGE_BYTES = 65536
_CHECKPOINT_PAGES = (128 << 20) // _PAGE_BYTES
_CACHE_KIBIBYTES = 64 << 10
# Another process may hold the database while it flushes; this is far longer than any flush.
_BUSY_SECONDS = 5.0
"""How long a transaction waits for another process; its caller is then told to try again."""
_OPEN_SECONDS = 30.0
_RETRY_SECONDS = 0.01


class _SqliteSession(Session):
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._database.execute(sql, parameters).rowcount

    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        return max(0, self._database.executemany(sql, rows).rowcount)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(sql, parameters).fetchall()


class SqliteStore(Store):
    """The store in a file, which is created if it is missing."""

    kinds: ClassVar[dict[str, str]] = {
        "bytes": "BLOB",
        "text": "TEXT",
        "int": "INTEGER",
        "real": "REAL",
        "clustered": "WITHOUT ROWID",
    }

    def __init__(
        self, path: str | Path, *, synchronous: Literal["FULL", "NORMAL", "OFF"] = "FULL"
    ) -> None:
        """Anything but ``FULL`` can lose acknowledged cells when the power fails."""
        try:
            # Who talks to whom is in it; SQLite gives the files beside it the same permissions.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            # Autocommit: transactions begin and end where the store says so.
            self._database = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        super().__init__(
            str(path),
            _SqliteSession(self._database),
            sqlite3.Error,
            (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.DataError),
        )
        try:
            self._configure(synchronous)
            self._prepare()
        except sqlite3.Error as error:
            self.close()
            raise _unusable(path, error) from error
        except BaseException:
            self.close()
            raise

    def _configure(self, synchronous: str) -> None:
        pragma = self._pragma
        pragma(f"page_size = {_PAGE_BYTES}")
        mode = self._write_ahead()
        if mode != "wal":
            raise FileUnreadable(
                f"the store {self._place} cannot keep a write-ahead log (its journal mode is "
                f"{mode}): put it into a file on a local disk"
            )
        pragma(f"synchronous = {synchronous}")
        pragma("fullfsync = ON")  # where a plain flush stops at the disk's own cache
        pragma(f"wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        pragma("temp_store = MEMORY")
        pragma(f"cache_size = -{_CACHE_KIBIBYTES}")

    def _write_ahead(self) -> str:
        """The journal mode of the file after asking for a write-ahead log.

        Two processes that turn the same new file over wait for each other, so SQLite fails one of
        them at once, whatever its timeout: that one tries again.
        """
        deadline = time.monotonic() + _OPEN_SECONDS
        while True:
            try:
                (mode,) = self._pragma("journal_mode = WAL")
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return str(mode)

    def _pragma(self, text: str) -> list[Any]:
        return [row[0] for row in self._database.execute(f"PRAGMA {text}")]

    def close(self) -> None:
        """Let go of the file; the last one to do so folds the log into it."""
        with self._lock:
            self._database.close()

    def _begin(self) -> None:
        # Immediate: a transaction that reads first must not fail later because another one wrote.
        self._database.execute("BEGIN IMMEDIATE")

    def _commit(self) -> None:
        self._database.execute("COMMIT")

    def _rollback(self) -> None:
        with suppress(sqlite3.Error):
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")

    def _faults(self) -> list[str]:
        return [line for line in self._pragma("integrity_check") if line != "ok"]


def _unusable(path: str | Path, error: Exception) -> FileUnreadable:
    return FileUnreadable(
        f"{path} cannot be opened as a store: {error}; give the path of an SQLite file in a "
        "directory that can be written to"
    )
