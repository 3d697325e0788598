"""The mailbox: sealed cells that wait for their recipients, in bundles.

What one sender puts at once for one recipient is one **bundle**, one row: its cells in one value,
and a bitmap of those that were taken. A cell's *place* is the number of its bundle and its index in
it, one integer that means nothing to anyone else. Places are given out in the order of the commits,
and never twice. A bundle of which everything was taken is gone.

Whether a cell was accepted before is not read from the bundles but from its **session**: a cell's
id is the session of its sender and a counter, and one row per (survey, session) holds the exact set
of the counters that were accepted. It is read, checked and written in the accepting transaction,
transactions are serial, and the row outlives the cells. So the first copy of a cell stays, and any
other is known, also after the first was delivered or expired.

**Tallies** count per survey and recipient what was sent, waits, was delivered and expired, in the
same transaction as the bundles. The table itself refuses a line in which
``sent ≠ waiting + delivered + expired``. A tally also holds the place of the last cell that ever
came (``head``), by which a reader knows that nothing is between what it has and what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, Final, Literal, NamedTuple

from incrowd.errors import InvalidParameter
from incrowd.live.store.seen import Seen
from incrowd.live.store.session import Session

SURVEY_BYTES: Final = 16
SESSION_BYTES: Final = 16
CELL_ID_BYTES: Final = SESSION_BYTES + 8
BUNDLE: Final = 4096
"""How many cells a bundle has at most."""

# The tally of everything that was forgotten, under a key that no survey can have.
_FORGOTTEN = (b"", 0)

_NUMBERS = "UPDATE numbers SET bundles = bundles + ? RETURNING bundles"
_BUNDLES = (
    "INSERT INTO bundles (number, survey, recipient, cells, waiting, expires, taken, body) "
    "VALUES {}"
)
_SESSIONS = (
    "INSERT INTO sessions (survey, session, seen) VALUES {} "
    "ON CONFLICT (survey, session) DO UPDATE SET seen = excluded.seen"
)
_TALLIES = (
    "INSERT INTO tallies (survey, recipient, sent, waiting, delivered, expired, head, until) "
    "VALUES {} ON CONFLICT (survey, recipient) DO UPDATE SET "
    "sent = tallies.sent + excluded.sent, waiting = tallies.waiting + excluded.waiting, "
    "delivered = tallies.delivered + excluded.delivered, "
    "expired = tallies.expired + excluded.expired, head = excluded.head, "
    "until = CASE WHEN excluded.until > tallies.until THEN excluded.until ELSE tallies.until END"
)

Box = tuple[bytes, int]
"""A survey and a recipient."""


class CellRow(NamedTuple):
    """A sealed cell on its way: whose survey, its id, to whom, how long, and what."""

    survey: bytes
    id: bytes
    recipient: int
    expires: float
    body: bytes


class Parcel(NamedTuple):
    """Cells for one recipient that were put together, each with its session and counter."""

    survey: bytes
    recipient: int
    expires: float
    sessions: list[bytes]
    counters: list[int]
    cells: list[bytes]

    def check(self) -> None:
        """Refuse what cannot be one bundle."""
        sizes = {len(self.survey)}, set(map(len, self.sessions))
        if sizes != ({SURVEY_BYTES}, {SESSION_BYTES}):
            raise InvalidParameter(
                f"cells need surveys of {SURVEY_BYTES} bytes and sessions of {SESSION_BYTES}, got "
                f"{sorted(sizes[0])} and {sorted(sizes[1])}"
            )
        lengths = len(self.sessions), len(self.counters), len(self.cells)
        if len(set(lengths)) != 1 or not 1 <= lengths[0] <= BUNDLE:
            raise InvalidParameter(
                f"a parcel has between 1 and {BUNDLE} cells and a session and a counter for each, "
                f"got {lengths[2]} cells, {lengths[0]} sessions and {lengths[1]} counters"
            )
        if len(set(map(len, self.cells))) != 1:
            raise InvalidParameter("the cells of a parcel are of one size, got several sizes")


class Placed(NamedTuple):
    """What became of a parcel: the new cells are at consecutive places from the first one on."""

    fates: list[bool | None]
    """For each cell of the parcel: new, known already, or (none) refused for lack of room."""
    before: int
    """The last place that was given out for this recipient earlier."""
    first: int
    cells: list[bytes]


class Counts(NamedTuple):
    """How many cells were accepted and what became of them; the last three sum to the first."""

    sent: int
    waiting: int
    delivered: int
    expired: int


class _Tally:
    """What one transaction adds to a line of the tallies."""

    __slots__ = ("head", "new", "until", "waiting")

    def __init__(self, waiting: int, head: int) -> None:
        self.waiting, self.head = waiting, head
        self.new, self.until = 0, -inf


class Mailbox:
    """The mailbox inside one transaction. It does not ask whether a survey has a task."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._run, self._rows = session.run, session.rows

    def put(
        self, parcels: Sequence[Parcel], quota: Callable[[Parcel], int] | None = None
    ) -> list[Placed]:
        """Accept parcels, and of each recipient's cells as many as may wait; what became of them.

        A cell that is refused was not seen: it is as new later as it was now.
        """
        for parcel in parcels:
            parcel.check()
        tallies, sessions = self._tallies(parcels), self._sessions(parcels)
        kept: list[tuple[Parcel, list[bool | None], list[bytes]]] = []
        for parcel in parcels:
            tally = tallies[parcel.survey, parcel.recipient]
            room = BUNDLE if quota is None else quota(parcel) - tally.waiting
            fates = _accept(sessions, parcel, room)
            cells = parcel.cells
            if not all(fates):
                cells = [cell for cell, fate in zip(cells, fates, strict=True) if fate]
            tally.waiting += len(cells)
            kept.append((parcel, fates, cells))
        count = sum(bool(cells) for *_, cells in kept)
        if not count:
            return [Placed(fates, 0, 0, []) for _, fates, _ in kept]
        number = self._rows(_NUMBERS, (count,))[0][0] - count
        placed, rows = [], []
        for parcel, fates, cells in kept:
            tally = tallies[parcel.survey, parcel.recipient]
            before, first, size = tally.head, 0, len(cells)
            if size:
                number += 1
                first = number * BUNDLE
                tally.head, tally.new = first + size - 1, tally.new + size
                tally.until = max(tally.until, parcel.expires)
                bitmap, body = bytes(-(-size // 8)), b"".join(cells)
                rows.append((number, *parcel[:2], size, size, parcel.expires, bitmap, body))
            placed.append(Placed(fates, before, first, cells))
        self._session.insert(_BUNDLES, rows)
        self._session.insert(_SESSIONS, [(*key, seen.encode()) for key, seen in sessions.items()])
        self._session.insert(
            _TALLIES,
            [
                (*box, each.new, each.new, 0, 0, each.head, each.until)
                for box, each in tallies.items()
                if each.new
            ],
        )
        return placed

    def put_cells(self, cells: Sequence[CellRow]) -> list[bool]:
        """Accept cells; for each, whether it is new. The first body under an id stays."""
        parcels: list[Parcel] = []
        places: list[list[int]] = []
        # The parcel of each recipient to which more can be added, so that its mail stays in order.
        open_: dict[Box, int] = {}
        for place, cell in enumerate(cells):
            if len(cell.id) != CELL_ID_BYTES:
                raise InvalidParameter(
                    f"cells need ids of {CELL_ID_BYTES} bytes, got one of {len(cell.id)}"
                )
            box = cell.survey, cell.recipient
            at = open_.get(box, -1)
            if at < 0 or not _fits(parcels[at], cell):
                at = open_[box] = len(parcels)
                parcels.append(Parcel(*box, cell.expires, [], [], []))
                places.append([])
            parcels[at].sessions.append(cell.id[:SESSION_BYTES])
            parcels[at].counters.append(int.from_bytes(cell.id[SESSION_BYTES:], "big"))
            parcels[at].cells.append(cell.body)
            places[at].append(place)
        flags = [False] * len(cells)
        for where, placed in zip(places, self.put(parcels), strict=True):
            for place, fate in zip(where, placed.fates, strict=True):
                flags[place] = bool(fate)
        return flags

    def waiting(
        self, survey: bytes, recipient: int, after: int = 0, limit: int = 256
    ) -> list[tuple[int, bytes]]:
        """Mail in the order of arrival: at most so many places above ``after``, with their cells.

        Bundles come whole from the database, so a limit of at least a bundle reads none twice.
        """
        first = after // BUNDLE
        last, total = -1, 0
        # The index answers this: which bundles hold enough cells.
        for last, count in self._rows(
            "SELECT number, waiting FROM bundles WHERE survey = ? AND recipient = ? "
            "AND number >= ? ORDER BY number LIMIT ?",
            (survey, recipient, first, limit + 1),
        ):
            # The first may be behind the reader already, so it does not count.
            total += count if last > first else 0
            if total >= limit:
                break
        mail: list[tuple[int, bytes]] = []
        for number, size, bitmap, body in self._rows(
            "SELECT number, cells, taken, body FROM bundles WHERE survey = ? AND recipient = ? "
            "AND number BETWEEN ? AND ? ORDER BY number",
            (survey, recipient, first, last),
        ):
            width, taken = len(body) // size, int.from_bytes(bitmap, "little")
            place = number * BUNDLE
            mail += (
                (place + index, body[index * width : (index + 1) * width])
                for index in range(max(0, after + 1 - place), size)
                if not taken >> index & 1
            )
        return mail[:limit]

    def head(self, survey: bytes, recipient: int) -> int:
        """The last place that was given out for a recipient; 0 before the first."""
        found = self._rows(
            "SELECT head FROM tallies WHERE survey = ? AND recipient = ?", (survey, recipient)
        )
        return int(found[0][0]) if found else 0

    def took(self, survey: bytes, recipient: int, places: Sequence[int]) -> int:
        """The recipient holds these cells durably: drop them; how many had been waiting."""
        return self.take([((survey, recipient), places)])

    def take(self, taken: Sequence[tuple[Box, Sequence[int]]]) -> int:
        """The same for several recipients, each of whom takes only what is its own."""
        asked: dict[tuple[Box, int], int] = {}
        for box, places in taken:
            for number, bits in _by_bundle(places):
                asked[box, number] = asked.get((box, number), 0) | bits
        numbers = [number for _, number in asked]
        counts: dict[Box, int] = {}
        over, partly = [], []
        for number, survey, recipient, size, waiting, bitmap in self._rows(
            "SELECT number, survey, recipient, cells, waiting, taken FROM bundles "  # noqa: S608
            f"WHERE number IN {_marks(numbers)}",
            numbers,
        ):
            box, before = (survey, recipient), int.from_bytes(bitmap, "little")
            now = before | asked.get((box, number), 0) & ((1 << size) - 1)
            new = (now ^ before).bit_count()
            counts[box] = counts.get(box, 0) + new
            if new == waiting:
                over.append(number)
            elif new:
                partly.append((waiting - new, now.to_bytes(len(bitmap), "little"), number))
        if over:
            self._run(f"DELETE FROM bundles WHERE number IN {_marks(over)}", over)  # noqa: S608
        if partly:
            self._session.many("UPDATE bundles SET waiting = ?, taken = ? WHERE number = ?", partly)
        self._settle("delivered", [(*box, count) for box, count in counts.items() if count])
        return sum(counts.values())

    def expire(self, now: float) -> int:
        """Give up waiting cells that are over their time, or whose task is closed; how many."""
        return sum(
            self._expire(survey, inf if state == "closed" else now)
            for survey, state in self._rows(
                "SELECT DISTINCT tallies.survey, tasks.state FROM tallies "
                "LEFT JOIN tasks ON tasks.survey = tallies.survey WHERE tallies.waiting > 0"
            )
        )

    def counts(self, survey: bytes | None = None) -> Counts:
        """The tally of a survey, or of all there ever were."""
        sums = "SELECT sum(sent), sum(waiting), sum(delivered), sum(expired) FROM tallies"
        (found,) = (
            self._rows(sums)
            if survey is None
            else self._rows(f"{sums} WHERE survey = ?", (survey,))
        )
        return Counts(*(int(each or 0) for each in found))

    def backlog(self, survey: bytes) -> dict[int, int]:
        """How many cells wait for each recipient for whom any do."""
        return dict(
            self._rows(
                "SELECT recipient, waiting FROM tallies WHERE survey = ? AND waiting > 0 "
                "ORDER BY recipient",
                (survey,),
            )
        )

    def audit(self) -> list[str]:
        """Where the tallies contradict the bundles, or a bundle itself; empty when all is well."""
        faults, found = [], dict[Box, int]()
        for number, survey, recipient, size, waiting, bitmap, length in self._rows(
            "SELECT number, survey, recipient, cells, waiting, taken, length(body) FROM bundles"
        ):
            found[survey, recipient] = found.get((survey, recipient), 0) + waiting
            if waiting != size - int.from_bytes(bitmap, "little").bit_count() or length % size:
                faults.append(f"bundle {number}: {waiting} of {size} cells are not what it holds")
        told: dict[Box, int] = {
            (survey, recipient): waiting
            for survey, recipient, waiting in self._rows(
                "SELECT survey, recipient, waiting FROM tallies WHERE waiting > 0"
            )
        }
        return faults + [
            f"survey {box[0].hex()}: the tally says that {told.get(box, 0)} cells wait for party "
            f"{box[1]}, the mailbox holds {found.get(box, 0)}"
            for box in sorted(found.keys() | told.keys())
            if found.get(box) != told.get(box)
        ]

    def _tallies(self, parcels: Sequence[Parcel]) -> dict[Box, _Tally]:
        boxes = {(parcel.survey, parcel.recipient): _Tally(0, 0) for parcel in parcels}
        for survey, recipient, waiting, head in self._keyed(
            "SELECT survey, recipient, waiting, head FROM tallies WHERE survey = ? AND recipient",
            boxes,
        ):
            boxes[survey, recipient] = _Tally(waiting, head)
        return boxes

    def _sessions(self, parcels: Sequence[Parcel]) -> dict[tuple[bytes, bytes], Seen]:
        sessions = {
            (parcel.survey, session): Seen()
            for parcel in parcels
            for session in set(parcel.sessions)
        }
        for survey, session, seen in self._keyed(
            "SELECT survey, session, seen FROM sessions WHERE survey = ? AND session", sessions
        ):
            sessions[survey, session] = Seen.decode(seen)
        return sessions

    def _keyed(self, sql: str, keys: dict[tuple[bytes, Any], Any]) -> list[tuple[Any, ...]]:
        """The rows of these keys, a query for each survey: mostly there is one."""
        wanted: dict[bytes, list[Any]] = {}
        for survey, key in keys:
            wanted.setdefault(survey, []).append(key)
        return [
            row
            for survey, some in wanted.items()
            for row in self._rows(f"{sql} IN {_marks(some)}", (survey, *some))
        ]

    def _expire(self, survey: bytes, now: float) -> int:
        over = self._rows(
            "SELECT recipient, sum(waiting) FROM bundles WHERE survey = ? AND expires <= ? "
            "GROUP BY recipient",
            (survey, now),
        )
        self._settle("expired", [(survey, recipient, int(count)) for recipient, count in over])
        if over:
            self._run("DELETE FROM bundles WHERE survey = ? AND expires <= ?", (survey, now))
        return sum(int(count) for _, count in over)

    def _settle(
        self, into: Literal["delivered", "expired"], counts: list[tuple[bytes, int, int]]
    ) -> None:
        """So many cells of these recipients wait no longer."""
        if counts:
            self._session.many(
                f"UPDATE tallies SET waiting = waiting - ?, {into} = {into} + ? "  # noqa: S608
                "WHERE survey = ? AND recipient = ?",
                [(count, count, *box) for *box, count in counts],
            )

    def _without_task(self, before: float) -> list[bytes]:
        """Surveys without a task whose last cell expired before a time."""
        found = self._rows(
            "SELECT survey FROM tallies WHERE survey <> ? AND NOT EXISTS "
            "(SELECT 1 FROM tasks WHERE tasks.survey = tallies.survey) "
            "GROUP BY survey HAVING sum(waiting) = 0 AND max(until) < ?",
            (_FORGOTTEN[0], before),
        )
        return [survey for (survey,) in found]

    def _forget(self, survey: bytes) -> None:
        """Drop what the mailbox knows of a survey; its counts join those of all the others."""
        self._expire(survey, inf)
        counts = self.counts(survey)
        self._session.insert(_TALLIES, [(*_FORGOTTEN, *counts, 0, 0.0)])
        for table in ("bundles", "sessions", "tallies"):
            self._run(f"DELETE FROM {table} WHERE survey = ?", (survey,))  # noqa: S608


def _accept(
    sessions: dict[tuple[bytes, bytes], Seen], parcel: Parcel, room: int
) -> list[bool | None]:
    """See what is new and has room; what becomes of each cell."""
    survey, counters, session = parcel.survey, parcel.counters, parcel.sessions[0]
    if room >= len(counters) and parcel.sessions.count(session) == len(counters):
        return [*sessions[survey, session].add(counters)]
    fates: list[bool | None] = []
    for session, counter in zip(parcel.sessions, counters, strict=True):
        seen = sessions[survey, session]
        new = counter not in seen
        if new and room > 0:
            seen.add([counter])
            room -= 1
            fates.append(True)
        else:
            fates.append(None if new else False)
    return fates


def _by_bundle(places: Sequence[int]) -> Iterable[tuple[int, int]]:
    """The numbers of bundles, and which of their cells are meant, as bits."""
    if not places:
        return ()
    first, count = places[0], len(places)
    number, index = divmod(first, BUNDLE)
    if index + count <= BUNDLE and list(range(first, first + count)) == places:
        # A bundle as it was delivered, which is what is mostly taken.
        return ((number, ((1 << count) - 1) << index),)
    found: dict[int, int] = {}
    for place in places:
        number, index = divmod(place, BUNDLE)
        found[number] = found.get(number, 0) | 1 << index
    return found.items()


def _fits(parcel: Parcel, cell: CellRow) -> bool:
    return (
        len(parcel.cells) < BUNDLE
        and parcel.expires == cell.expires
        and len(parcel.cells[0]) == len(cell.body)
    )


def _marks(values: Any) -> str:
    """A parameter mark for each of some values; for none, something that nothing is in."""
    return f"({', '.join('?' * len(values)) or 'NULL'})"
