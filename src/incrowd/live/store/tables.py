"""What the hub keeps, as one set of operations over SQL that SQLite and PostgreSQL both speak.

Everything here runs inside one transaction that a :class:`~incrowd.live.store.base.Store` opened,
and such transactions run one after the other. So "look, then write" is safe, and an answer that was
committed is the answer that every later transaction finds.

Four groups of tables:

* **registry**: at most one key record per identity and one identity per name. Serials only grow. A
  revoked identity loses its record and its name, and cannot enrol again.
* **tasks**: offered, then started once, then closed. What was stored first stays: a second digest,
  join or start under the same key is refused, and the same bytes again are welcome.
* **connections**: from when to when parties were connected to a hub.
* **mailbox** and **tallies**: :mod:`incrowd.live.store.mailbox`.

Who may put cells is the caller's decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from incrowd.errors import InvalidParameter
from incrowd.live.store.mailbox import SURVEY_BYTES, Mailbox

_MAX_INTEGER = 2**63 - 1

State = Literal["offered", "started", "closed"]


class TaskRow(NamedTuple):
    """A task without its large files."""

    signed: bytes
    start: bytes | None
    state: State
    digest: bytes
    expires: float


class TaskSummary(NamedTuple):
    """A line in the list of tasks."""

    survey: bytes
    digest: bytes
    state: State
    expires: float


class ConnectionRow(NamedTuple):
    """One connection of a party to a hub, in seconds since 1970."""

    connection: bytes
    identity: bytes
    began: float
    heard: float
    """When the party was last heard on it, as far as that was stored."""
    ended: float | None
    """None while it is open, and for ever if its hub was killed."""


class Tables(Mailbox):
    """The tables of a hub, inside one transaction."""

    def savepoint(self) -> None:
        """Mark a point to return to, until :meth:`keep` or :meth:`undo`; they do not nest."""
        self._run("SAVEPOINT work")

    def keep(self) -> None:
        """Keep what happened since the savepoint."""
        self._run("RELEASE SAVEPOINT work")

    def undo(self) -> None:
        """Undo what happened since the savepoint, and only that."""
        self._run("ROLLBACK TO SAVEPOINT work")
        self._run("RELEASE SAVEPOINT work")

    def probe(self) -> None:
        """Write a row, and change nothing by it: proof that the store takes writes."""
        self._run("UPDATE schema_version SET version = version")

    # Registry

    def enrol(self, name: str, identity: bytes, serial: int, record: bytes, at: float) -> bool:
        """Store the key record of an identity; whether it is what the registry holds now.

        Refused: an older serial, another record under the same serial, a revoked identity, a name
        that another identity holds, and a second name for the same identity.
        """
        _integer(serial, "serial")
        if self._rows("SELECT 1 FROM revocations WHERE identity = ?", (identity,)):
            return False
        held = self._rows(
            "SELECT identity, name, serial, record FROM members WHERE identity = ? OR name = ?",
            (identity, name),
        )
        if not held:
            self._run(
                "INSERT INTO members (identity, name, serial, enrolled, record) "
                "VALUES (?, ?, ?, ?, ?)",
                (identity, name, serial, at, record),
            )
            return True
        if len(held) > 1 or held[0][:2] != (identity, name):
            return False
        if serial <= held[0][2]:
            return bool(held[0][2:] == (serial, record))
        self._run(
            "UPDATE members SET serial = ?, enrolled = ?, record = ? WHERE identity = ?",
            (serial, at, record, identity),
        )
        return True

    def record_of(self, identity: bytes) -> bytes | None:
        """The key record of an identity that is enrolled and not revoked."""
        return self._one("SELECT record FROM members WHERE identity = ?", (identity,))

    def records(self, after: str = "", limit: int = 1000) -> list[tuple[str, bytes]]:
        """Names and key records in the order of the names, those after a name, at most so many."""
        return self._rows(
            "SELECT name, record FROM members WHERE name > ? ORDER BY name LIMIT ?", (after, limit)
        )

    def revoke(self, identity: bytes, at: float) -> None:
        """Forget the record of an identity, free its name, and never enrol it again."""
        self._run(
            "INSERT INTO revocations (identity, revoked) VALUES (?, ?) "
            "ON CONFLICT (identity) DO NOTHING",
            (identity, at),
        )
        self._run("DELETE FROM members WHERE identity = ?", (identity,))

    def revoked(self) -> set[bytes]:
        """Every revoked identity."""
        return {identity for (identity,) in self._rows("SELECT identity FROM revocations")}

    def put_crl(self, body: bytes, number: int) -> bool:
        """Store a revocation list if its number is larger; whether it is the one held now."""
        _integer(number, "number of the revocation list")
        held = self._rows("SELECT number, body FROM crl")
        if held and number <= held[0][0]:
            return bool(held[0] == (number, body))
        self._run("DELETE FROM crl")
        self._run("INSERT INTO crl (number, body) VALUES (?, ?)", (number, body))
        return True

    def crl(self) -> bytes | None:
        """The revocation list with the largest number so far."""
        return self._one("SELECT body FROM crl")

    # Tasks

    def add_task(
        self,
        survey: bytes,
        digest: bytes,
        signed: bytes,
        roster: bytes,
        graph: bytes | None,
        expires: float,
    ) -> bool:
        """Offer a task; False when another one holds the survey's id."""
        _sized(survey, SURVEY_BYTES, "a survey's id")
        held = self._one("SELECT digest FROM tasks WHERE survey = ?", (survey,))
        if held is not None:
            return held == digest
        self._run(
            "INSERT INTO tasks (survey, digest, state, expires, signed, roster, graph) "
            "VALUES (?, ?, 'offered', ?, ?, ?, ?)",
            (survey, digest, expires, signed, roster, graph),
        )
        return True

    def task(self, survey: bytes) -> TaskRow | None:
        """A task as its curator signed it, and how far it is."""
        found = self._rows(
            "SELECT signed, start, state, digest, expires FROM tasks WHERE survey = ?", (survey,)
        )
        return TaskRow(*found[0]) if found else None

    def tasks(self) -> list[TaskSummary]:
        """Every task in a few bytes, the earliest to expire first."""
        return [
            TaskSummary(*row)
            for row in self._rows(
                "SELECT survey, digest, state, expires FROM tasks ORDER BY expires, survey"
            )
        ]

    def blob(self, survey: bytes, kind: Literal["roster", "graph"]) -> bytes | None:
        """The roster or the graph of a task."""
        if kind == "roster":
            return self._one("SELECT roster FROM tasks WHERE survey = ?", (survey,))
        if kind == "graph":
            return self._one("SELECT graph FROM tasks WHERE survey = ?", (survey,))
        raise InvalidParameter(f"a task has a roster and a graph, not a {kind!r}")

    def add_join(self, survey: bytes, number: int, join: bytes) -> bool:
        """Store the join of a roster's member; whether it is the one held for that number.

        Only a task that is offered takes new joins.
        """
        held = self._one("SELECT body FROM joins WHERE survey = ? AND number = ?", (survey, number))
        if held is not None:
            return held == join
        # The task's state is part of the statement, so that no join slips in behind a start.
        return bool(
            self._run(
                "INSERT INTO joins (survey, number, body) "
                "SELECT survey, ?, ? FROM tasks WHERE survey = ? AND state = 'offered'",
                (number, join, survey),
            )
        )

    def joins(self, survey: bytes) -> list[tuple[int, bytes]]:
        """Who joined, in the order of the roster."""
        return self._rows(
            "SELECT number, body FROM joins WHERE survey = ? ORDER BY number", (survey,)
        )

    def start_task(self, survey: bytes, start: bytes) -> bool:
        """Start an offered task; True also when it was started with the same bytes."""
        if self._run(
            "UPDATE tasks SET start = ?, state = 'started' WHERE survey = ? AND state = 'offered'",
            (start, survey),
        ):
            return True
        return self._one("SELECT start FROM tasks WHERE survey = ?", (survey,)) == start

    def close_task(self, survey: bytes, at: float) -> None:
        """Close a task; its waiting cells expire at the next :meth:`expire`."""
        self._run(
            "UPDATE tasks SET state = 'closed', closed = ? WHERE survey = ? AND state <> 'closed'",
            (at, survey),
        )

    def announce(self, survey: bytes, number: int, endpoint: str) -> None:
        """Where a party can be reached directly; the latest word counts."""
        self._run(
            "INSERT INTO endpoints (survey, number, endpoint) VALUES (?, ?, ?) "
            "ON CONFLICT (survey, number) DO UPDATE SET endpoint = excluded.endpoint",
            (survey, number, endpoint),
        )

    def endpoints(self, survey: bytes) -> dict[int, str]:
        """Where the parties of a survey can be reached directly."""
        return dict(
            self._rows("SELECT number, endpoint FROM endpoints WHERE survey = ?", (survey,))
        )

    def put_connections(self, rows: Sequence[ConnectionRow]) -> None:
        """Store connections; of one that is stored already, how far it is now."""
        if rows:
            self._session.insert(
                "INSERT INTO connections (connection, identity, began, heard, ended) VALUES {} "
                "ON CONFLICT (connection) DO UPDATE SET heard = excluded.heard, "
                "ended = excluded.ended",
                rows,
            )

    def connections(self, since: float) -> list[ConnectionRow]:
        """Connections that did not end before a time, in the order in which they began."""
        return [
            ConnectionRow(*row)
            for row in self._rows(
                "SELECT connection, identity, began, heard, ended FROM connections "
                "WHERE ended IS NULL OR ended >= ? ORDER BY began, connection",
                (since,),
            )
        ]

    def forget_connections(self, before: float) -> None:
        """Drop connections that ended before a time, and those that a later one replaced.

        A hub that was killed leaves its connections open: the next one of the same party, if it
        began before that time too, tells that they are over.
        """
        self._run("DELETE FROM connections WHERE ended < ?", (before,))
        self._run(
            "DELETE FROM connections WHERE ended IS NULL AND EXISTS (SELECT 1 FROM connections "
            "AS later WHERE later.identity = connections.identity "
            "AND later.began > connections.began AND later.began < ?)",
            (before,),
        )

    def forget(self, before: float) -> int:
        """Drop the surveys that ended before a time, with all that was known of them; how many.

        A survey ends when its task is closed or, without a task, when its last cell expires.
        """
        closed = self._rows(
            "SELECT survey FROM tasks WHERE state = 'closed' AND closed < ?", (before,)
        )
        ended = [survey for (survey,) in closed] + self._without_task(before)
        for survey in ended:
            self._forget(survey)
            for table in ("joins", "endpoints", "tasks"):
                self._run(f"DELETE FROM {table} WHERE survey = ?", (survey,))  # noqa: S608
        return len(ended)

    def _one(self, sql: str, parameters: Sequence[Any] = ()) -> bytes | None:
        found = self._rows(sql, parameters)
        value: bytes | None = found[0][0] if found else None
        return value


def _sized(value: bytes, size: int, what: str) -> None:
    if len(value) != size:
        raise InvalidParameter(f"{what} has {size} bytes, got {len(value)}")


def _integer(value: int, what: str) -> None:
    if not 0 <= value <= _MAX_INTEGER:
        raise InvalidParameter(f"the {what} must be between 0 and 2⁶³ − 1, got {value}")
