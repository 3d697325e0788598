"""What a hub sees of devices that speak to it, also in a survey with a shuffler under cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from incrowd.live.answers import Answers, Secret
from incrowd.live.cells import DATA, Header
from incrowd.live.client import Connection
from incrowd.live.curator import Proposal, propose, timing_of
from incrowd.live.host import patiently
from incrowd.live.journal import Journal
from incrowd.live.keys import PrivateKeys, Role
from incrowd.live.member import Helper
from incrowd.live.options import LiveOptions
from incrowd.live.policy_write import survey_policy
from incrowd.live.reasons import Reason
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import bound_to
from incrowd.protocols.runtime.actor import CURATOR, SHUFFLER, device
from incrowd.tasks.base import Task
from tests.live.crowds import DELTA, Crowd, crowd, until
from tests.live.worlds import LiveHub

SECONDS = 1.2
"""How long a round is, in surveys that are overheard."""

Seen = tuple[int, int, int, int, int]
"""Kind, sender, recipient, round and size of a cell."""


class Overheard(Connection):
    """A connection of which the other end writes down everything it sees of one device."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.stored: Counter[Seen] = Counter()
        self.taken = 0

    @property
    def sent(self) -> int:
        """How many cells with data, or that look so."""
        return sum(count for (kind, *_), count in self.stored.items() if kind == DATA)

    @property
    def unsigned(self) -> Counter[tuple[int, int, int, int]]:
        """What was stored, but for who sent it: to compare one device with another."""
        found: Counter[tuple[int, int, int, int]] = Counter()
        for (kind, _, recipient, round_, size), count in self.stored.items():
            found[kind, recipient, round_, size] += count
        return found

    async def put(self, survey: bytes, cells: Sequence[bytes]) -> list[tuple[int, Reason]]:
        refused = await super().put(survey, cells)
        for cell in cells:
            head = Header.parse(cell)
            self.stored[head.kind, head.sender, head.recipient, head.round, len(cell)] += 1
        return refused

    async def took(self, survey: bytes, places: Sequence[int]) -> None:
        self.taken += len(places)
        await super().took(survey, places)


async def overhear_shuffle(
    hub: LiveHub,
    folder: Path,
    protocol: Protocol,
    question: Task,
    answers: Sequence[Mapping[str, str]],
) -> tuple[list[Overheard], Any]:
    """What the hub sees of each device under cover, and what was collected.

    ``answers`` has what each person says, by column; the question is about one called cycles.
    """
    folder.mkdir()
    everyone = range(protocol.n)
    async with crowd(hub, folder, len(everyone)) as people:
        devices = await people.process(
            "all",
            everyone,
            connection=Overheard,
            policy=lambda curator: survey_policy(question, "cycles", curator, protocol.kind),
        )
        for each, own in zip(devices.devices.values(), answers, strict=True):
            each._answers = Answers({name: Secret(text) for name, text in own.items()})
        async with shuffler_of(people) as keys:
            proposal = await _offer(people, protocol, question, keys)
            # Whoever begins after the first tick has missed it, and that would show.
            started = await people.begin(proposal)
            run = await people.curator.receive(started)
            heard: list[Any] = [each.connection for each in devices.devices.values()]
            assert started.plan is not None
            ticks = started.plan.ticks(device(0), started.offer.spec.timing)
            planned = sum(sum(tick.cells.values()) for tick in ticks)
            # The last ticks come after everything is in; they belong to the picture.
            await until(lambda: all(each.sent >= planned for each in heard))
            await people.curator.close_survey(proposal.survey)
    return heard, run.collected


@asynccontextmanager
async def shuffler_of(people: Crowd) -> AsyncIterator[PrivateKeys]:
    """The keys of a shuffler that is up."""
    (keys,) = people.hub.deployment.parties(1, Role.helper, f"{SHUFFLER}-{people.number}-")
    with Journal(people.folder / "shuffler.sqlite") as journal:
        async with people.made_host(journal, people.pace.wall) as host:
            shuffler = Helper(keys, host)
            await patiently(shuffler.enrol)
            await shuffler.open()
            try:
                yield keys
            finally:
                await shuffler.close()


async def _offer(
    people: Crowd, protocol: Protocol, question: Task, shuffler: PrivateKeys
) -> Proposal:
    """Offer a survey under cover."""
    curator = people.curator
    options = LiveOptions(cover=True, round_seconds=SECONDS, grace_rounds=2, timeout=30.0)
    proposal = propose(
        bound_to(protocol, question), question, question="Do you cycle?", column="cycles",
        delta=DELTA, roster=people.records, keys=curator.keys, options=options,
        timing=timing_of(options), expires=people.host.time() + 600,
        helpers={CURATOR: curator.keys.record(), SHUFFLER: shuffler.record()},
    )  # fmt: skip
    await curator.open_survey(proposal)
    return proposal
