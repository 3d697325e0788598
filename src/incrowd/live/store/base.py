"""The contract of the hub's durable store, and its schema.

A store runs pieces of work, each in one transaction: :meth:`Store.transact` returns when everything
the work wrote is on stable storage, and leaves nothing behind when the work raises. Transactions
are serial, also between several processes on the same database: SQLite has one writer, and on
PostgreSQL every transaction begins by taking one lock. Therefore places in the mailbox become
visible in the order in which they were given out, and a reader that remembers the last one misses
nothing.

A failed commit can have happened all the same, if the connection broke at the wrong moment. Every
operation of :class:`Tables` may be repeated safely, which is what senders do.

The schema is a list of steps; a database remembers how many were applied. Opening an older one
applies the rest, opening a newer one is refused.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from incrowd.errors import FileUnreadable, StoreUnavailable
from incrowd.live.store.session import Session
from incrowd.live.store.tables import Tables

T = TypeVar("T")

# Words in braces differ between the databases. Small columns come first and large ones last, so
# that reading a state does not walk through a roster or a bundle. The one index of the bundles also
# holds how many cells wait, so that a reader knows which bundles it needs.
_STEPS = (
    """
    CREATE TABLE members (
        identity {bytes} PRIMARY KEY, name {text} NOT NULL UNIQUE, serial {int} NOT NULL,
        enrolled {real} NOT NULL, record {bytes} NOT NULL
    );
    CREATE TABLE revocations (identity {bytes} PRIMARY KEY, revoked {real} NOT NULL);
    CREATE TABLE crl (number {int} NOT NULL, body {bytes} NOT NULL);
    CREATE TABLE tasks (
        survey {bytes} PRIMARY KEY, digest {bytes} NOT NULL, state {text} NOT NULL,
        expires {real} NOT NULL, closed {real}, signed {bytes} NOT NULL, start {bytes},
        roster {bytes} NOT NULL, graph {bytes}
    );
    CREATE TABLE joins (
        survey {bytes} NOT NULL, number {int} NOT NULL, body {bytes} NOT NULL,
        PRIMARY KEY (survey, number)
    );
    CREATE TABLE endpoints (
        survey {bytes} NOT NULL, number {int} NOT NULL, endpoint {text} NOT NULL,
        PRIMARY KEY (survey, number)
    );
    CREATE TABLE numbers (bundles {int} NOT NULL);
    INSERT INTO numbers (bundles) VALUES (0);
    CREATE TABLE bundles (
        number {int} PRIMARY KEY, recipient {int} NOT NULL, cells {int} NOT NULL,
        waiting {int} NOT NULL, expires {real} NOT NULL, survey {bytes} NOT NULL,
        taken {bytes} NOT NULL, body {bytes} NOT NULL, CHECK (waiting BETWEEN 1 AND cells)
    );
    CREATE INDEX bundles_waiting ON bundles (survey, recipient, number, waiting);
    CREATE TABLE sessions (
        survey {bytes} NOT NULL, session {bytes} NOT NULL, seen {bytes} NOT NULL,
        PRIMARY KEY (survey, session)
    ) {clustered};
    CREATE TABLE tallies (
        survey {bytes} NOT NULL, recipient {int} NOT NULL, sent {int} NOT NULL,
        waiting {int} NOT NULL, delivered {int} NOT NULL, expired {int} NOT NULL,
        head {int} NOT NULL, until {real} NOT NULL, PRIMARY KEY (survey, recipient),
        CHECK (waiting >= 0 AND sent = waiting + delivered + expired)
    ) {clustered}
    """,
    """
    CREATE TABLE connections (
        connection {bytes} PRIMARY KEY, identity {bytes} NOT NULL, began {real} NOT NULL,
        heard {real} NOT NULL, ended {real}
    );
    CREATE INDEX connections_of ON connections (identity, began)
    """,
)


class Store(ABC):
    """A durable database of a hub. Safe to use from several threads."""

    kinds: ClassVar[dict[str, str]]
    """What the schema's words in braces mean in this database."""

    def __init__(
        self,
        place: str,
        session: Session,
        failures: type[Exception],
        refusals: tuple[type[Exception], ...],
    ) -> None:
        """``place`` names the database in messages; ``failures`` is what its driver raises.

        ``refusals`` are those failures that are the work's own, and would come again.
        """
        self._place = place
        self._session = session
        self._failures = failures
        self._refusals = refusals
        self._tables = Tables(session)
        self._lock = threading.Lock()

    def transact(self, work: Callable[[Tables], T]) -> T:
        """Run work in one transaction; what it wrote is durable when this returns.

        The work must not call :meth:`transact` itself, and must not keep the tables.
        """
        with self._lock:
            try:
                self._begin()
                result = work(self._tables)
                self._commit()
            except self._failures as error:
                self._rollback()
                kind = FileUnreadable if isinstance(error, self._refusals) else StoreUnavailable
                raise kind(
                    f"the store {self._place} failed: {' '.join(str(error).split())}; check that "
                    "it is reachable and that its disk is not full, then try again"
                ) from error
            except BaseException:
                self._rollback()
                raise
            return result

    def integrity(self) -> list[str]:
        """Everything that is wrong with the database, a line each; empty when it is sound."""
        return self.transact(lambda tables: self._faults() + tables.audit())

    @abstractmethod
    def close(self) -> None:
        """Let go of the database."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        """Bring the schema to the version that this program knows."""
        self.transact(lambda _: self._migrate())

    def _migrate(self) -> None:
        session = self._session
        session.run(f"CREATE TABLE IF NOT EXISTS schema_version (version {self.kinds['int']})")
        found = session.rows("SELECT version FROM schema_version")
        version = found[0][0] if found else 0
        if version > len(_STEPS):
            raise FileUnreadable(
                f"the store {self._place} has schema {version}, and this program knows up to "
                f"{len(_STEPS)}: open it with the newer incrowd that wrote it"
            )
        for step in _STEPS[version:]:
            for statement in step.format_map(self.kinds).split(";"):
                session.run(statement)
        session.run("DELETE FROM schema_version")
        session.run("INSERT INTO schema_version (version) VALUES (?)", (len(_STEPS),))

    @abstractmethod
    def _begin(self) -> None:
        """Start a transaction, after every other one on this database has ended."""

    @abstractmethod
    def _commit(self) -> None:
        """Make the transaction durable."""

    @abstractmethod
    def _rollback(self) -> None:
        """Undo the transaction, if there is one; never raises the driver's failures."""

    @abstractmethod
    def _faults(self) -> list[str]:
        """What the database itself finds wrong with its files."""
