"""The store in PostgreSQL, for a hub whose database lives elsewhere or serves several hubs.

Every transaction begins by taking one advisory lock of the database, so transactions are serial as
in SQLite, cells become visible in the order of their sequence numbers, and nothing can deadlock.
Each hub commits in groups, so what waits for the lock is a group, not a cell.

A connection that broke is replaced at the next transaction. A server that answers commits before
they are on disk (``synchronous_commit = off``) is told not to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

import psycopg

from incrowd.errors import FileUnreadable
from incrowd.live.store.base import Store
from incrowd.live.store.session import Session

_LOCK = int.from_bytes(b"incrowd\0", "big")
_CONNECT_SECONDS = 10
# A hub that froze inside a transaction is ended; until then, the others say that they are busy.
_SETTINGS = """
    SELECT set_config(name, new, false) FROM (VALUES
        ('synchronous_commit', 'on', current_setting('synchronous_commit') = 'off'),
        ('idle_in_transaction_session_timeout', '60s', true),
        ('lock_timeout', '5s', true)
    ) AS wanted (name, new, needed) WHERE needed
"""


@lru_cache
def _placed(sql: str) -> bytes:
    """The statement with this driver's parameter marks."""
    return sql.replace("?", "%s").encode()


class _PostgresSession(Session):
    """Talks over whichever connection the store has at the moment."""

    def __init__(self) -> None:
        self.connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._cursor().execute(_placed(sql), parameters or None).rowcount

    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        cursor = self._cursor()
        cursor.executemany(_placed(sql), rows)
        return max(0, cursor.rowcount)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._cursor().execute(_placed(sql), parameters or None).fetchall()

    def _cursor(self) -> psycopg.Cursor[tuple[Any, ...]]:
        if self.connection is None:
            raise psycopg.OperationalError("the connection is closed")
        return self.connection.cursor(binary=True)


class PostgresStore(Store):
    """The store in a PostgreSQL database, in the first schema of its search path."""

    kinds: ClassVar[dict[str, str]] = {
        "bytes": "BYTEA",
        # Byte order, as everywhere else in the system, whatever the database's language is.
        "text": 'TEXT COLLATE "C"',
        "int": "BIGINT",
        "real": "DOUBLE PRECISION",
        "clustered": "",
    }

    def __init__(self, url: str) -> None:
        """``url`` as in ``postgresql://user@host/database``; a password is never repeated."""
        self._url = url
        self._link = _PostgresSession()
        self._closed = False
        super().__init__(
            _place(url),
            self._link,
            psycopg.Error,
            (psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.DataError),
        )
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._closed = True
            self._hang_up()

    def _begin(self) -> None:
        link = self._link
        if self._closed:
            raise psycopg.OperationalError("it was closed")
        if link.connection is None or link.connection.closed:
            link.connection = psycopg.connect(self._url, connect_timeout=_CONNECT_SECONDS)
            link.run(_SETTINGS)
        # This first statement opens the transaction, which holds the lock to its end.
        link.run("SELECT pg_advisory_xact_lock(?)", (_LOCK,))

    def _commit(self) -> None:
        if self._link.connection is not None:
            self._link.connection.commit()

    def _rollback(self) -> None:
        connection = self._link.connection
        if connection is None:
            return
        try:
            connection.rollback()
        except psycopg.Error:
            self._hang_up()

    def _hang_up(self) -> None:
        connection, self._link.connection = self._link.connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _faults(self) -> list[str]:
        # Every constraint that was valid stays so; what is left to doubt is an unfinished index.
        return [
            f"the index {name} is not valid: rebuild it with REINDEX"
            for (name,) in self._link.rows(
                "SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class "
                "ON pg_class.oid = indrelid WHERE NOT indisvalid "
                "AND relnamespace = current_schema()::regnamespace"
            )
        ]


def _place(url: str) -> str:
    """The database without its password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        raise FileUnreadable(
            "the URL of the PostgreSQL database cannot be read: write it as "
            "postgresql://user@host:port/database"
        ) from error
    return f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"
