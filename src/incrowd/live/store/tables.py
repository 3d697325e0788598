"""What the hub keeps, as one set of operations over SQL that SQLite and PostgreSQL both speak.

Everything here runs inside one transaction that a :class:`~incrowd.live.store.base.Store` opened,
and such transactions run one after the other. So "look, then write" is safe, and an answer that was
committed is the answer that every later transaction finds.

Four groups of tables:

* **registry**: at most one key record per identity and one identity per name. Serials only grow. A
  revoked identity loses its record and its name, and cannot enrol again.
* **tasks**: offered, then started once, then closed. What was stored first stays: a second digest,
  join or start under the same key is refused, and the same bytes again are welcome.
* **mailbox**: a cell is accepted once per (survey, id), which a unique index enforces. Its row
  outlives the body as a tombstone, so a cell that comes again after its delivery is known.
* **tallies**: how many cells were sent, wait, were delivered or expired, per survey, kept in the
  same transaction as the cells. The table itself refuses any line in which
  ``sent ≠ waiting + delivered + expired``.

The mailbox does not ask whether a survey has a task; who may put cells is the caller's decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from incrowd.errors import InvalidParameter

__all__ = ["CellRow", "Counts", "Session", "Tables", "TaskRow", "TaskSummary"]

SURVEY_BYTES = 16
CELL_ID_BYTES = 24
_MAX_INTEGER = 2**63 - 1

_WAITING, _DELIVERED, _EXPIRED = 0, 1, 2
# The tally of every survey that was forgotten, under a key that no survey can have.
_FORGOTTEN = b""

_PUT = (
    "INSERT INTO cells (survey, id, sender, recipient, expires, body) VALUES {} "
    "ON CONFLICT (survey, id) DO NOTHING"
)
_TALLY_SENT = (
    "INSERT INTO tallies (survey, sent, waiting, delivered, expired) VALUES (?, ?, ?, 0, 0) "
    "ON CONFLICT (survey) DO UPDATE SET "
    "sent = tallies.sent + excluded.sent, waiting = tallies.waiting + excluded.waiting"
)
_TALLY_FORGOTTEN = (
    "INSERT INTO tallies (survey, sent, waiting, delivered, expired) VALUES (?, ?, 0, ?, ?) "
    "ON CONFLICT (survey) DO UPDATE SET sent = tallies.sent + excluded.sent, "
    "delivered = tallies.delivered + excluded.delivered, "
    "expired = tallies.expired + excluded.expired"
)
_SURVEY, _ID, _KEY = itemgetter(0), itemgetter(1), itemgetter(0, 1)


class CellRow(NamedTuple):
    """A sealed cell on its way: whose survey, its id, from whom, to whom, how long, and what."""

    survey: bytes
    id: bytes
    sender: int
    recipient: int
    expires: float
    body: bytes


class Counts(NamedTuple):
    """How many cells were accepted and what became of them; the last three sum to the first."""

    sent: int
    waiting: int
    delivered: int
    expired: int


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


class Session(ABC):
    """The few things that a database driver does for :class:`Tables`; ``?`` marks a parameter."""

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a change; how many rows it changed."""

    @abstractmethod
    def insert(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Insert at least one row, all of one width, where ``{}`` stands; how many were new."""

    @abstractmethod
    def many(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Execute a change once per row of parameters; how many rows were changed in all."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Everything that a query finds."""

    @staticmethod
    def marks(row: Sequence[Any]) -> str:
        """A parameter mark for every value of the row."""
        return f"({', '.join('?' * len(row))})"


class Tables:
    """The tables of a hub, inside one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._run, self._rows = session.run, session.rows

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

    # Mailbox

    def put_cells(self, cells: Sequence[CellRow]) -> list[bool]:
        """Accept cells; for each, whether it is new. The first body under an id stays."""
        if not cells:
            return []
        sizes = set(map(len, map(_SURVEY, cells))), set(map(len, map(_ID, cells)))
        if sizes != ({SURVEY_BYTES}, {CELL_ID_BYTES}):
            raise InvalidParameter(
                f"cells need surveys of {SURVEY_BYTES} bytes and ids of {CELL_ID_BYTES}, "
                f"got {sorted(sizes[0])} and {sorted(sizes[1])}"
            )
        (newest,) = self._rows("SELECT coalesce(max(seq), 0) FROM cells")[0]
        if self._session.insert(_PUT, cells) == len(cells):
            new, flags = cells, [True] * len(cells)
        else:
            # Sequence numbers only grow, so whatever is above the old maximum came in right now.
            fresh = set(self._rows("SELECT survey, id FROM cells WHERE seq > ?", (newest,)))
            new, flags = [], []
            for cell in cells:
                key = _KEY(cell)
                flags.append(key in fresh)
                if key in fresh:
                    fresh.remove(key)
                    new.append(cell)
        # Sorted, so that concurrent databases lock the lines in one order.
        for survey, count in sorted(Counter(map(_SURVEY, new)).items()):
            self._run(_TALLY_SENT, (survey, count, count))
        return flags

    def waiting(
        self, survey: bytes, recipient: int, after: int = 0, limit: int = 256
    ) -> list[tuple[int, bytes]]:
        """Mail in the order of arrival: sequence numbers above ``after`` with their bodies."""
        return self._rows(
            "SELECT seq, body FROM cells WHERE state = 0 AND survey = ? AND recipient = ? "
            "AND seq > ? ORDER BY seq LIMIT ?",
            (survey, recipient, after, limit),
        )

    def took(self, survey: bytes, recipient: int, seqs: Sequence[int]) -> int:
        """The recipient holds these cells durably: drop the bodies; how many had been waiting."""
        count = self._session.many(
            f"UPDATE cells SET state = {_DELIVERED}, body = NULL "  # noqa: S608
            "WHERE seq = ? AND state = 0 AND survey = ? AND recipient = ?",
            [(seq, survey, recipient) for seq in seqs],
        )
        self._settle(survey, "delivered", count)
        return count

    def expire(self, now: float) -> int:
        """Give up waiting cells that are over their time, or whose task is closed; how many."""
        return sum(
            self._expire(survey, inf if state == "closed" else now)
            for survey, state in self._rows(
                "SELECT tallies.survey, tasks.state FROM tallies "
                "LEFT JOIN tasks ON tasks.survey = tallies.survey WHERE tallies.waiting > 0"
            )
        )

    def counts(self, survey: bytes | None = None) -> Counts:
        """The tally of a survey, or of all there ever were."""
        columns = "SELECT sent, waiting, delivered, expired FROM tallies"
        found = (
            self._rows(columns)
            if survey is None
            else self._rows(f"{columns} WHERE survey = ?", (survey,))
        )
        return (
            Counts(*(sum(column) for column in zip(*found, strict=True)))
            if found
            else Counts(0, 0, 0, 0)
        )

    def forget(self, before: float) -> int:
        """Drop the surveys that ended before a time, with their tombstones; how many.

        A survey ends when its task is closed or, without a task, when its last cell expires.
        """
        ended = self._rows(
            "SELECT survey FROM tasks WHERE state = 'closed' AND closed < ? "
            "UNION SELECT survey FROM tallies WHERE waiting = 0 AND survey <> ? "
            "AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.survey = tallies.survey) "
            "AND (SELECT max(expires) FROM cells WHERE cells.survey = tallies.survey) < ?",
            (before, _FORGOTTEN, before),
        )
        for (survey,) in ended:
            self._expire(survey, inf)
            sent, _, delivered, expired = self.counts(survey)
            self._run(_TALLY_FORGOTTEN, (_FORGOTTEN, sent, delivered, expired))
            for table in ("tallies", "cells", "joins", "endpoints", "tasks"):
                self._run(f"DELETE FROM {table} WHERE survey = ?", (survey,))  # noqa: S608
        return len(ended)

    def audit(self) -> list[str]:
        """Where the tallies contradict the cells; empty when all is well."""
        found: dict[bytes, list[int]] = {}
        for survey, state, count in self._rows(
            "SELECT survey, state, count(*) FROM cells GROUP BY survey, state"
        ):
            found.setdefault(survey, [0, 0, 0])[state] = count
        told = {
            survey: list(states)
            for survey, *states in self._rows(
                "SELECT survey, waiting, delivered, expired FROM tallies WHERE survey <> ?",
                (_FORGOTTEN,),
            )
        }
        return [
            f"survey {survey.hex()}: the tally says {told.get(survey)} cells waiting, delivered "
            f"and expired, the mailbox holds {found.get(survey)}"
            for survey in sorted(found.keys() | told.keys())
            if found.get(survey) != told.get(survey)
        ]

    def _expire(self, survey: bytes, now: float) -> int:
        count = self._run(
            f"UPDATE cells SET state = {_EXPIRED}, body = NULL "  # noqa: S608
            "WHERE state = 0 AND survey = ? AND expires <= ?",
            (survey, now),
        )
        self._settle(survey, "expired", count)
        return count

    def _settle(self, survey: bytes, into: Literal["delivered", "expired"], count: int) -> None:
        if count:
            self._run(
                f"UPDATE tallies SET waiting = waiting - ?, {into} = {into} + ? "  # noqa: S608
                "WHERE survey = ?",
                (count, count, survey),
            )

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
