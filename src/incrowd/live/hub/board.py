"""The notice board: surveys as they were signed, how far they are, and who is who in them.

Everything is kept in the store; what is in memory is what relaying a cell needs at once. A survey
is offered, then started once, then closed. Before the start its people have places in the roster;
from the start on, those who joined are numbered anew from 0, and cells speak of these numbers only.

Several hubs may share a store, so each looks at it now and then and catches up with the others.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Literal

from incrowd.errors import InvalidParameter
from incrowd.live import cells, task
from incrowd.live.hub.closing import read_close
from incrowd.live.hub.messages import conflict
from incrowd.live.hub.registry import Registry
from incrowd.live.keys import KeyRecord, Role
from incrowd.live.reasons import Reason, Rejected
from incrowd.live.store import Committer, Tables, TaskRow
from incrowd.protocols.runtime.actor import CURATOR, Address, is_device

State = Literal["offered", "started", "closed"]
STATES: Final[tuple[State, ...]] = ("offered", "started", "closed")


class Survey:
    """One survey, in the form that answers who may send what to whom."""

    def __init__(self, signed: bytes, roster: list[KeyRecord]) -> None:
        encoded, self.spec = task.read_task(signed)
        self.id = self.spec.survey
        self.digest = task.digest_of(encoded)
        self.state: State = "offered"
        self.roster = roster
        """The records on the roster; empty once the survey is closed."""
        self.places = {record.identity: place for place, record in enumerate(roster)}
        self.helpers = {
            record.identity: cells.number(address) for address, record in self.spec.helpers.items()
        }
        self._slots = {number: number for number in self.helpers.values()}
        self.numbers: dict[bytes, int] = {}
        """Who may send and receive cells: identities and their numbers."""
        self.recipients: frozenset[int] = frozenset()
        self.out: set[int] = set()
        """The numbers of those who were revoked."""

    def begin(self, crowd: list[int]) -> None:
        """From now on, cells may travel between these people and the helpers."""
        self.state = "started"
        self._slots |= {place: number for number, place in enumerate(crowd)}
        self.numbers = {self.roster[place].identity: n for n, place in enumerate(crowd)}
        self.numbers |= self.helpers
        self.recipients = frozenset(self.numbers.values())

    def end(self) -> None:
        """Nothing travels any more."""
        self.state = "closed"
        self.roster, self.numbers, self.recipients = [], {}, frozenset()

    def concerns(self) -> Iterable[bytes]:
        """The identities that want to know about this survey."""
        yield from self.helpers
        yield from self.places

    def slot(self, identity: bytes) -> int | None:
        """Under which number an endpoint is kept: a place in the roster, or a helper's number."""
        return self.helpers.get(identity, self.places.get(identity))

    def address_of(self, slot: int) -> Address | None:
        """Whose endpoint is kept under this number, if that party takes part."""
        number = self._slots.get(slot)
        return None if number is None else cells.address(number)

    def strike(self, revoked: set[bytes]) -> None:
        """Let nothing through from or to those who were revoked."""
        self.out |= {self.numbers[each] for each in revoked if each in self.numbers}


Change = tuple[Survey, State]
"""A survey, and the state it has just entered."""


class Board:
    """Every survey of a hub."""

    def __init__(self, committer: Committer, registry: Registry) -> None:
        self._committer = committer
        self._registry = registry
        self._surveys: dict[bytes, Survey] = {}
        self._concerned: dict[bytes, set[bytes]] = {}

    def get(self, survey: bytes) -> Survey | None:
        """A survey that is not forgotten."""
        return self._surveys.get(survey)

    def concerning(self, identity: bytes) -> list[Survey]:
        """The surveys in which someone is on the roster, or helps."""
        return [
            self._surveys[each]
            for each in sorted(self._concerned.get(identity, ()))
            if each in self._surveys
        ]

    def tally(self) -> dict[str, int]:
        """How many surveys are in each state."""
        count: dict[str, int] = dict.fromkeys(STATES, 0)
        for survey in self._surveys.values():
            count[survey.state] += 1
        return count

    def strike(self, revoked: set[bytes]) -> None:
        """Put those who were revoked out of every survey."""
        for identity in revoked:
            for survey in self.concerning(identity):
                survey.strike({identity})

    async def refresh(self) -> list[Change]:
        """Catch up with the store: what changed since the last time."""
        held = await self._committer.do(lambda tables: tables.tasks())
        for gone in self._surveys.keys() - {line.survey for line in held}:
            self._forget(self._surveys.pop(gone))
        changes: list[Change] = []
        for line in held:
            known = self._surveys.get(line.survey)
            if known is None or known.state != line.state:
                survey = await self._load(line.survey)
                if survey is not None:
                    changes.append((survey, survey.state))
        return changes

    async def _load(self, survey: bytes) -> Survey | None:
        def work(tables: Tables) -> tuple[TaskRow, bytes] | None:
            row, roster = tables.task(survey), tables.blob(survey, "roster")
            return None if row is None or roster is None else (row, roster)

        found = await self._committer.do(work)
        if found is None:
            return None
        row, roster = found
        known = await asyncio.to_thread(_rebuilt, row, roster)
        self._add(known)
        return known

    def _add(self, survey: Survey) -> None:
        self._surveys[survey.id] = survey
        for identity in survey.concerns():
            self._concerned.setdefault(identity, set()).add(survey.id)
        survey.strike(self._registry.revoked)

    def _forget(self, survey: Survey) -> None:
        for identity in survey.concerns():
            held = self._concerned.get(identity, set())
            held.discard(survey.id)
            if not held:
                self._concerned.pop(identity, None)

    async def offer(self, signed: bytes, roster: bytes, graph: bytes | None) -> tuple[Survey, bool]:
        """Put up a task after checking all that can be checked without taking part.

        Returned with whether that is news.
        """
        survey = await asyncio.to_thread(self._checked, signed, roster, graph)
        await self._registry.require_enrolled([*survey.roster, *survey.spec.helpers.values()])
        spec, digest = survey.spec, survey.digest
        if not await self._committer.do(
            lambda tables: tables.add_task(spec.survey, digest, signed, roster, graph, spec.expires)
        ):
            raise conflict("another survey has this id", "draw a new id and sign the task again")
        known = self._surveys.get(survey.id)
        if known is not None:
            return known, False
        self._add(survey)
        return survey, True

    def _checked(self, signed: bytes, roster: bytes, graph: bytes | None) -> Survey:
        spec = task.read_task(signed)[1]
        if not math.isfinite(spec.expires):
            raise Rejected(Reason.malformed, "a survey ends at some time")
        if spec.expires <= time.time():
            raise Rejected(Reason.expired, "the survey is over already")
        people = task.decode_roster(roster, spec.roster)
        if len(people) != spec.people or (spec.graph is None) != (graph is None):
            raise Rejected(Reason.malformed, "the files are not those that the task names")
        if graph is not None and spec.graph is not None:
            drawn = task.decode_graph(graph, spec.graph)
            if drawn.n != spec.people:
                raise Rejected(Reason.malformed, "the graph is not about the people on the roster")
        for address, record in spec.helpers.items():
            _require_helper(address)
            self._registry.check(record, Role.curator if address == CURATOR else Role.helper)
        for record in people:
            self._registry.check(record, Role.device)
        survey = Survey(signed, people)
        if len(survey.helpers) != len(spec.helpers):
            raise Rejected(Reason.malformed, "one party cannot be two helpers")
        return survey

    async def start(self, survey: Survey, encoded: bytes) -> bool:
        """Start a survey with those who joined; whether that is news."""
        if survey.state == "offered":
            crowd = await asyncio.to_thread(self._startable, survey, encoded)
        stored = await self._committer.do(lambda tables: tables.start_task(survey.id, encoded))
        if not stored:
            raise conflict("the survey was started otherwise, or closed", "ask for its state")
        if survey.state != "offered":
            return False
        survey.begin(crowd)
        survey.strike(self._registry.revoked)
        return True

    def _startable(self, survey: Survey, encoded: bytes) -> list[int]:
        start = task.read_start(encoded, survey.spec, survey.digest)[1]
        if not math.isfinite(start.at):
            raise Rejected(Reason.malformed, "a survey starts at some time")
        task.check_joins(start, survey.roster, survey.spec.min_crowd)
        if any(survey.roster[place].identity in self._registry.revoked for place in start.people):
            raise Rejected(Reason.revoked, "someone who joined was revoked: start without them")
        return start.people

    async def close(self, survey: Survey, encoded: bytes) -> bool:
        """Close a survey; whether that is news."""
        read_close(encoded, survey.spec, survey.digest)
        await self._committer.do(partial(_close, [survey.id], time.time()))
        news = survey.state != "closed"
        survey.end()
        return news

    async def close_overdue(self) -> list[Change]:
        """Close what is over its time; a survey that nobody closed must not stay forever."""
        now = time.time()
        overdue = [
            each
            for each in self._surveys.values()
            if each.state != "closed" and each.spec.expires <= now
        ]
        if overdue:
            await self._committer.do(partial(_close, [each.id for each in overdue], now))
        for survey in overdue:
            survey.end()
        return [(survey, "closed") for survey in overdue]

    async def join(self, survey: Survey, identity: bytes, encoded: bytes) -> None:
        """Take in the join of whoever calls."""
        place = survey.places.get(identity)
        if place is None:
            raise Rejected(Reason.unknown)
        if survey.state == "closed" or survey.spec.expires <= time.time():
            raise Rejected(Reason.expired)
        join = task.read_join(encoded, survey.digest, survey.roster)
        if join.number != place:
            raise Rejected(Reason.forged)
        if not await self._committer.do(lambda tables: tables.add_join(survey.id, place, encoded)):
            raise Rejected(Reason.expired)


def _close(surveys: Sequence[bytes], at: float, tables: Tables) -> None:
    for survey in surveys:
        tables.close_task(survey, at)


def _require_helper(address: Address) -> None:
    try:
        cells.number(address)
    except InvalidParameter as error:
        raise Rejected(Reason.malformed, str(error)) from None
    if is_device(address):
        raise Rejected(Reason.malformed, "a device is on the roster and not a helper")


def _rebuilt(row: TaskRow, roster: bytes) -> Survey:
    """A survey as the store holds it; what is in the store was checked before it went in."""
    spec = task.read_task(row.signed)[1]
    survey = Survey(row.signed, task.decode_roster(roster, spec.roster))
    if row.start is not None:
        survey.begin(task.read_start(row.start, spec, survey.digest)[1].people)
    if row.state == "closed":
        survey.end()
    return survey
