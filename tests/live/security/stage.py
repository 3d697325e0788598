"""Twelve devices with different answers around a real hub, and everything that others see of them.

Each device is a whole node: its own host, journal, connection and policy, and the log lines of its
own life. The curator of the crowd is the attacker; what it makes out of joins, declines and cells
is what these tests compare.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from incrowd.live import frames
from incrowd.live.answers import Answers, Secret
from incrowd.live.cells import Header
from incrowd.live.client import Connection
from incrowd.live.curator import Proposal, propose, timing_of
from incrowd.live.keys import Role
from incrowd.live.options import LiveOptions
from incrowd.live.policy import ColumnRule, Policy
from incrowd.protocols.api import Protocol
from incrowd.protocols.runtime.actor import CURATOR
from incrowd.tasks.base import Task
from tests.live.crowds import DELTA, Crowd, Process, crowd, until
from tests.live.policies import wide
from tests.live.worlds import LiveHub

__all__ = ["PEOPLE", "Seen", "Stage", "stage"]

PEOPLE = 12
_HELPERS = itertools.count()
_NODE: ContextVar[str] = ContextVar("node", default="")


class Seen(NamedTuple):
    """Everything about one device in one survey that is outside its sealed report."""

    declined: str | None
    lines: tuple[tuple[float, float], ...]
    """Costs in the ledger."""
    frames: tuple[tuple[str, ...], ...]
    """Kinds of frames that left for the hub; of cells kind, recipient, round and length."""
    log: tuple[str, ...]


class Watched(Connection):
    """A connection whose frames are noted, apart from contents that are sealed."""

    sent: list[tuple[bytes, tuple[str, ...]]]

    async def _ask(self, make: Callable[[int], Any]) -> Any:
        frame = make(0)
        told = [type(frame).__name__]
        for cell in frame.cells if isinstance(frame, frames.Put) else ():
            head = Header.parse(cell)
            told.append(f"{head.kind} to {head.recipient} in {head.round}: {len(cell)}")
        self.__dict__.setdefault("sent", []).append((frame.survey, tuple(told)))
        return await super()._ask(make)


class Stage:
    """The crowd, one process per device, and its curator as the attacker."""

    def __init__(self, people: Crowd, log: list[tuple[str, str]]) -> None:
        self.people, self._log = people, log
        self.nodes: list[Process] = []

    async def enter(self, answers: Sequence[Mapping[str, str]], policy: Any) -> None:
        """Open a node for each of these answers."""
        for person, row in enumerate(answers):
            _NODE.set(f"node-{person}")
            own = Answers({column: Secret(cell) for column, cell in row.items()})
            self.nodes.append(
                await self.people.process(
                    f"node-{person}",
                    [person],
                    policy=policy,
                    answers=lambda _, own=own: own,
                    connection=Watched,
                )
            )
        _NODE.set("")

    def proposal(self, protocol: Protocol, task: Task, column: str, **options: Any) -> Proposal:
        """An offer of the curator's, signed."""
        timing = {"min_crowd": 2, "round_seconds": 0.4, "grace_rounds": 1, "timeout": 6.0}
        chosen = LiveOptions(**timing | options)
        crowd_, keys = self.people, self.people.curator.keys
        helpers = {
            each: crowd_.hub.deployment.parties(1, Role.helper, f"{each}-{next(_HELPERS)}-")[0]
            for each in protocol.helpers
        } | {CURATOR: keys}
        return propose(
            protocol, task, question="?", column=column, delta=DELTA, roster=crowd_.records,
            helpers={each: own.record() for each, own in helpers.items()}, keys=keys,
            options=chosen,
            timing=timing_of(chosen), expires=crowd_.host.time() + 600,
        )  # fmt: skip

    async def offer(self, *arguments: Any, **options: Any) -> bytes:
        """Offer a survey; its identifier, once every device has joined or declined."""
        proposal = self.proposal(*arguments, **options)
        for record in proposal.spec.helpers.values():
            await self.people.host.hub.enrol(record)
        await self.people.curator.open_survey(proposal)
        survey = proposal.survey
        await until(lambda: all(self.settled(each, survey) for each in range(len(self.nodes))))
        return survey

    def settled(self, person: int, survey: bytes) -> bool:
        """Whether a device has declined, or its join is with the hub."""
        node = self.nodes[person]
        return survey in self.device(person).declined or any(
            each.line.survey == survey
            for each in node.host.ledger.reserved(self.device(person).identity, 0.0)
        )

    def device(self, person: int) -> Any:
        return self.nodes[person].devices[person]

    def seen(self, person: int, survey: bytes) -> Seen:
        """What others could see of a device in a survey."""
        device, node = self.device(person), self.nodes[person]
        sent = device.connection.__dict__.get("sent", [])
        lines = [each for each in node.lines(person) if each.survey == survey]
        return Seen(
            declined=device.declined.get(survey),
            lines=tuple(each.cost("curator") for each in lines),
            frames=tuple(told for of, told in sent if of == survey),
            log=tuple(line for name, line in self._log if name == f"node-{person}"),
        )

    async def run(self, survey: bytes) -> Any:
        """Start a survey of those who joined, and conclude it."""
        started = await self.people.curator.gather(survey, wait=20.0, lead=1.0)
        run = await self.people.curator.receive(started)
        await self.people.curator.close_survey(survey)
        return run


class _Lines(logging.Handler):
    """Log lines with the node in whose task they came up."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((_NODE.get(), record.getMessage()))


@contextmanager
def _logged() -> Iterator[list[tuple[str, str]]]:
    handler, logger = _Lines(), logging.getLogger("incrowd")
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)


@asynccontextmanager
async def stage(
    hub: LiveHub,
    folder: Path,
    answers: Sequence[Mapping[str, str]],
    columns: Mapping[str, ColumnRule],
    **policy: Any,
) -> AsyncIterator[Stage]:
    """A stage on which everybody has the same policy, and an answer of their own."""
    rules: Callable[[bytes], Policy] = partial(wide, columns=columns, **policy)
    with _logged() as lines:
        async with crowd(hub, folder, len(answers)) as people:
            made = Stage(people, lines)
            await made.enter(answers, rules)
            # Connecting is not part of any survey.
            lines.clear()
            yield made
            await asyncio.sleep(0)
