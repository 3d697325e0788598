"""Surveys in which everybody says something else: a lost or doubled report has a name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from incrowd.graphs import families
from incrowd.live.answers import Answers, Secret
from incrowd.live.curator import Proposal
from incrowd.live.policy import ColumnRule
from incrowd.protocols.network_shuffle import NetworkShuffle
from incrowd.protocols.run import Run
from incrowd.randomizers import KRR
from incrowd.tasks.histogram import Histogram
from tests.live.crowds import Crowd, Process
from tests.live.policies import wide

__all__ = ["Outcome", "answer", "offer", "outcome", "owners", "spent_once"]

_EXACT = 30.0
"""At this epsilon a report is the answer itself, in all but about 10⁻¹³ of all cases."""


def answer(person: int) -> str:
    """The answer that only this person gives."""
    return f"only {person}"


def owners(count: int) -> dict[str, Any]:
    """How to open a process whose people give these answers, and may be asked for them."""
    values = tuple(map(answer, range(count)))
    columns = {"cycles": ColumnRule(type="category", values=values, complete=True)}
    return {
        "answers": lambda person: Answers({"cycles": Secret(answer(person))}),
        "policy": partial(wide, columns=columns),
    }


async def offer(people: Crowd, *, rounds: int, **options: object) -> Proposal:
    """Offer a survey in which everybody knows everybody."""
    count = len(people.paths)
    protocol = NetworkShuffle(
        KRR(categories=count, epsilon=_EXACT), graph=families.complete(count), rounds=rounds
    )
    question = Histogram(categories=tuple(map(answer, range(count))), complete=True)
    return await people.offered(protocol=protocol, question=question, **options)


@dataclass(frozen=True)
class Outcome:
    """How many reports were sent, and what became of them."""

    sent: int
    lost: int
    doubled: int


def outcome(people: Crowd, run: Run) -> Outcome:
    """Compare what was collected with what was sent."""
    count = len(people.paths)
    (reports,) = run.collected.rounds
    found = Counter(int(report) for report in reports)
    lost = sum(found[person] == 0 for person in range(count))
    return Outcome(count, lost, sum(found.values()) - (count - lost))


def spent_once(processes: list[Process], survey: bytes) -> bool:
    """Whether the ledger of everybody here has exactly one line for the survey."""
    return all(
        [line.survey for line in process.lines(person)].count(survey) == 1
        for process in processes
        for person in process.people
    )
