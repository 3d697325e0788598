"""A survey: a question, the data to ask it of, the promise to keep, and the protocol that keeps it.

``load`` reads a survey file and builds everything that a run needs, so that whatever is wrong shows
before anybody answers: every value is encoded, the randomizer is checked against the task, and the
budget against the guarantee. What the protocol leaves open is planned for the δ of the budget. An
ε0 that the file leaves out is solved for: the largest one, and so the most accurate answer, that
keeps the promise. With a given ε0, ``rounds = "budget"`` asks for as many rounds as the budget pays
for.

The number of people is counted from the data. A randomizer that the file leaves out is the usual
one of the protocol: mostly k-ary randomized response for a histogram (one small number per report,
and the smallest error as long as the categories are few) and ternary response for a mean or a sum
(low, high or none), or one-bit rounding where the column is complete.

A survey is simulated, played by actors in memory, or run live: by devices of their own over a
network, with keys, sealed messages and fresh randomness that nobody can repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidCrowd, InvalidParameter, MissingExtra, ProtocolFailed
from incrowd.live.options import LiveOptions
from incrowd.protocols.api import Protocol
from incrowd.protocols.run import Run
from incrowd.protocols.settings import fields_of, settings_type
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.survey.parse import Budget, SurveyDocument, read
from incrowd.survey.people import People, part_of, read_people
from incrowd.survey.pipeline import (
    PreparedRun,
    Progress,
    completed,
    goal_of,
    prepare,
    protocol_kind,
)
from incrowd.survey.questions import Question, questions_of
from incrowd.tasks.base import Task
from incrowd.tasks.raw import Gaps
from incrowd.views import view_of

if TYPE_CHECKING:
    from incrowd.live.run import LiveRun
    from incrowd.sim import Faults

Mode = Literal["simulate", "actors"]
"""The whole population at once, or one state machine per participant over a faulty network."""


@dataclass(frozen=True, eq=False)
class Survey:
    """A survey whose runs keep its budget: everything that asking takes, checked."""

    document: SurveyDocument
    people: People
    runs: tuple[PreparedRun, ...]

    @property
    def only(self) -> PreparedRun:
        """The run of a survey that has one."""
        (run,) = self.runs
        return run

    @property
    def question(self) -> Question:
        """The question of a survey that asks one."""
        (question,) = self.only.questions
        return question

    @property
    def protocol(self) -> Protocol:
        """Protocol of the only run."""
        return self.only.protocol

    @property
    def task(self) -> Task:
        """Task of the only question."""
        return self.question.task

    @property
    def values(self) -> NDArray[np.str_]:
        """Raw answers, one entry per person; none where they are elsewhere."""
        return self.people.values(self.question)

    @property
    def budget(self) -> Budget:
        """Guarantee that must hold."""
        return self.document.budget

    @property
    def live(self) -> LiveOptions:
        """Options of a live run, unless it is told otherwise."""
        return self.document.live

    @property
    def randomizer(self) -> Randomizer:
        """Randomizer of each answer."""
        return self.protocol.randomizer

    @property
    def inputs(self) -> tuple[Path, ...]:
        """Files that it was made from, which no output may replace."""
        return self.document.files(settings_type(type(self.protocol)))

    @property
    def truth(self) -> FloatArray | None:
        """The answer that people would have given without protection, where all are at hand."""
        return self.task.truth(self.values) if self.values.size else None

    @property
    def gaps(self) -> Gaps | None:
        """Counts of rows without a usable answer in a curator's own data; none without data."""
        return self.task.gaps(self.values) if self.values.size else None

    def truth_of(self, run: Run) -> FloatArray | None:
        """The same, row by row of the answer of a run."""
        truth = self.truth
        return None if truth is None else run.result.beside(truth)

    def met_by(self, run: Run) -> bool:
        """Whether what really happened still keeps the promise of the budget."""
        goal, view = goal_of(self.document), view_of(self.budget.view)
        for guarantee in run.guarantees:
            if guarantee.notion == "dp" and guarantee.view == view:
                return guarantee.epsilon(goal.delta) <= goal.epsilon
        return goal.reached(self.protocol.conditional_on(run.collected)) <= goal.epsilon

    def run(
        self,
        mode: Mode = "simulate",
        *,
        seed: int | None = None,
        faults: Faults | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Run:
        """Ask everybody. A seed makes the run repeatable; faults need actors.

        ``progress`` is told how many of how many participants have finished, with actors only.
        """
        if mode == "actors":
            from incrowd import sim

            try:
                return sim.run(
                    self.protocol, self.values, task=self.task, faults=faults, seed=seed,
                    progress=progress,
                )  # fmt: skip
            except ProtocolFailed as error:
                raise ProtocolFailed(f"{_blamed(faults)}{error}") from error
        if faults is not None:
            raise InvalidParameter("faults need participants to befall: choose mode actors")
        return self.protocol.simulate(self.values, task=self.task, seed=seed)

    def run_live(
        self,
        options: LiveOptions | None = None,
        *,
        hosts: int | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        keep: Path | None = None,
    ) -> LiveRun:
        """Ask everybody over a network on this machine, each by a device of their own.

        ``options`` replace those of the file. Nothing can be seeded: what protects a person must
        not be repeatable.
        """
        chosen = self.live if options is None else options
        if chosen.min_crowd > len(self.values):
            raise InvalidCrowd(
                f"min_crowd must be at most the {len(self.values)} people who are asked, got "
                f"{chosen.min_crowd}",
                field="min_crowd",
            )
        try:
            from incrowd.live.run import run_live
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            if package == "incrowd":
                raise
            raise MissingExtra(
                f"live runs need {package}, which is not installed: pip install 'incrowd[live]'"
            ) from error
        return run_live(
            self.protocol,
            self.values,
            self.task,
            options=chosen,
            question=self.question.text,
            column=self.question.column,
            delta=self.budget.delta,
            hosts=hosts,
            progress=progress,
            keep=keep,
        )


def load(
    path: str | Path, progress: Progress | None = None, *, people: int | None = None
) -> Survey:
    """Read a survey file and its data, and prepare the runs they describe.

    ``people`` makes it a survey of as many people only, with everything solved for them: those of
    the first rows, or of a connected part of the graph where there is a file of one.
    """
    say = progress or _silent
    say("reading the survey")
    return build(read(Path(path)), say, people=people)


def build(document: SurveyDocument, say: Progress, *, people: int | None = None) -> Survey:
    """Prepare the survey that a document describes, of the people of its data."""
    questions = questions_of(document)
    say(f"reading {Path(questions[0].data).name}")
    everyone = read_people(document.folder, questions)
    kind = protocol_kind(document, questions[0])
    document = completed(document, kind)
    if people is not None:
        with document.origin.located():
            everyone = part_of(everyone, people, document.protocol, settings_type(kind))
    return Survey(document, everyone, prepare(document, kind, questions, everyone, say))


def load_question(path: str | Path, people: int, progress: Progress | None = None) -> Survey:
    """Read a survey file for so many people whose answers are elsewhere."""
    say = progress or _silent
    say("reading the survey")
    document = read(Path(path))
    questions = questions_of(document, data=False)
    kind = protocol_kind(document, questions[0])
    document, everyone = completed(document, kind), People(people)
    return Survey(document, everyone, prepare(document, kind, questions, everyone, say))


def _blamed(faults: Faults | None) -> str:
    """The faults that were asked for, to be put in front of what they caused."""
    chosen = chosen_faults(faults).items()
    listed = (f"{x} = {value if isinstance(value, str) else f'{value:g}'}" for x, value in chosen)
    return f"with {', '.join(listed)}: " if chosen else ""


def chosen_faults(faults: Faults | None) -> dict[str, Any]:
    """Return the faults that are not as they are by default."""
    fields = {} if faults is None else fields_of(type(faults))
    values = {name: getattr(faults, name) for name in fields}
    return {name: value for name, value in values.items() if value != fields[name].default}


def _silent(stage: str, done: int = 0, total: int = 0) -> None:
    del stage, done, total
