"""A survey: questions, the data to ask them of, the guarantee to keep, and the protocol for it.

``load`` reads a survey file and builds everything that a run needs, so that whatever is wrong shows
before anybody answers: every value is encoded, the randomizer is checked against the task, and the
budget against the guarantee. What the protocol leaves open is planned for the δ of the budget. An
ε0 that the file leaves out is solved for: the largest one, and so the most accurate answer, that
meets the guarantee. With a given ε0, ``rounds = "calibrate"`` asks for as many rounds as the budget
pays for.

The number of people is counted from the data. A randomizer that the file leaves out is the one of
least error that suits the question and the protocol, at the guarantee of the budget (``choose``).

A survey is simulated, played by actors in memory, or run live: by devices of their own over a
network, with keys, sealed messages and fresh randomness that nobody can repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import InvalidCrowd, InvalidParameter, ProtocolFailed
from incrowd.extras import needed_extra
from incrowd.live.options import LiveOptions
from incrowd.protocols.api import Protocol
from incrowd.protocols.run import Run
from incrowd.protocols.settings import fields_of, settings_type
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.survey.parse import Budget, SurveyDocument, read
from incrowd.survey.people import People, part_of, read_people, with_graph
from incrowd.survey.pipeline import (
    PreparedRun,
    Progress,
    completed,
    goal_of,
    prepare,
    protocol_kind,
)
from incrowd.survey.questions import Question, column_of, questions_of, task_of
from incrowd.tasks.base import Task
from incrowd.tasks.raw import Gaps
from incrowd.views import view_of

if TYPE_CHECKING:
    from incrowd.live.run import LiveRun
    from incrowd.sim import Faults

Engine = Literal["simulate", "actors", "live"]
"""The whole population at once, one state machine per participant over a faulty network, or one
device per participant over a real one."""


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
    def questions(self) -> tuple[Question, ...]:
        """All questions."""
        return self.only.questions

    @property
    def text(self) -> str:
        """The question of a survey that asks one; of others the title, or all of them."""
        texts = [each.text for each in self.questions]
        return (len(texts) > 1 and self.document.title) or "; ".join(texts)

    @property
    def column(self) -> str:
        """Column of the only question; a joint task knows its own."""
        return column_of(self.questions)

    @property
    def protocol(self) -> Protocol:
        """Protocol of the only run."""
        return self.only.protocol

    @property
    def task(self) -> Task:
        """Task of all questions."""
        return task_of(self.questions, self.budget.ask)

    @property
    def values(self) -> NDArray[np.str_]:
        """Raw answers, one entry per person; none where they are elsewhere."""
        return self.people.values

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
    def truths(self) -> tuple[FloatArray | None, ...]:
        """Answers that people would have given without protection, where all are at hand."""
        return tuple(self._of_each(lambda task, values: task.truth(values)))

    @property
    def true_codes(self) -> tuple[NDArray[np.int64] | None, ...]:
        """True answers by person, where the data are at hand and a question maps them."""
        return tuple(self._of_each(lambda task, values: task.true_codes(values)))

    @property
    def gaps(self) -> tuple[Gaps | None, ...]:
        """Counts of rows without a usable answer in a curator's own data; none without data."""
        return tuple(self._of_each(lambda task, values: task.gaps(values)))

    def _of_each(self, fact: Callable[[Task, NDArray[Any]], Any]) -> list[Any]:
        """Facts of the data about each question; none without data."""
        if not self.values.size:
            return [None] * len(self.questions)
        pairs = zip(self.task.parts, self.task.answers(self.values), strict=True)
        return [fact(task, values) for task, values in pairs]

    def truths_of(self, run: Run) -> tuple[FloatArray | None, ...]:
        """The truths, row by row of the answers of a run."""
        pairs = zip(run.answers, self.truths, strict=True)
        return tuple(None if truth is None else each.beside(truth) for each, truth in pairs)

    def met_by(self, run: Run) -> bool:
        """Whether what really happened still meets the budget."""
        goal, view = goal_of(self.document), view_of(self.budget.view)
        for guarantee in run.guarantees:
            if guarantee.notion == "dp" and guarantee.view == view:
                return guarantee.epsilon(goal.delta) <= goal.epsilon
        return goal.reached(self.protocol.conditional_on(run.collected)) <= goal.epsilon

    def run(
        self,
        engine: Engine = "simulate",
        *,
        seed: int | None = None,
        faults: Faults | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Run:
        """Ask everybody. A seed makes the run repeatable; faults need actors.

        ``progress`` is told how many of how many participants have finished, with actors only. A
        live run takes the options of the file; see :meth:`run_live` for others.
        """
        if faults is not None and engine != "actors":
            raise InvalidParameter("faults need participants to befall: choose engine actors")
        if engine == "live":
            if seed is not None:
                unseeded = "seed must be left out of a live run: what protects a person must not be"
                raise InvalidParameter(f"{unseeded} repeatable", field="seed")
            return self.run_live()
        if engine == "actors":
            from incrowd import sim

            try:
                return sim.run(
                    self.protocol, self.values, task=self.task, faults=faults, seed=seed,
                    progress=progress,
                )  # fmt: skip
            except ProtocolFailed as error:
                raise ProtocolFailed(f"{_blamed(faults)}{error}") from error
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
        _check_live_rules(self.questions)
        if chosen.min_crowd > len(self.values):
            raise InvalidCrowd(
                f"min_crowd must be at most the {len(self.values)} people who are asked, got "
                f"{chosen.min_crowd}",
                field="min_crowd",
            )
        with needed_extra("live runs need"):
            from incrowd.live.run import run_live
        return run_live(
            self.protocol,
            self.values,
            self.task,
            options=chosen,
            question=self.text,
            column=self.column,
            delta=self.budget.delta,
            hosts=hosts,
            progress=progress,
            keep=keep,
        )


def load(
    path: str | Path,
    progress: Progress | None = None,
    *,
    people: int | None = None,
    data: Any = None,
) -> Survey:
    """Read a survey file and its data, and prepare the runs they describe.

    Args:
        path: The survey file.
        progress: Is told what is being done.
        people: Number of people, to try it out among fewer than the data have: those of the first
            rows, or of a connected part of the graph where there is a file of one.
        data: A frame of pandas, polars or pyarrow in place of the file that the survey names.

    """
    say = progress or _silent
    say("reading the survey")
    return build(read(Path(path)), say, people=people, data=data)


def build(
    document: SurveyDocument, say: Progress, *, people: int | None = None, data: Any = None
) -> Survey:
    """Prepare the survey that a document describes, of the people of its data."""
    questions = questions_of(document)
    say("reading the data")
    everyone = read_people(document, questions, data)
    kind = protocol_kind(document, questions)
    document = completed(document, kind)
    everyone = with_graph(everyone, document.protocol, settings_type(kind))
    if people is not None:
        with document.origin.located():
            everyone = part_of(everyone, people, document.protocol, settings_type(kind))
    return Survey(document, everyone, prepare(document, kind, questions, everyone, say))


def load_question(path: str | Path, people: int, progress: Progress | None = None) -> Survey:
    """Read a survey file for this many people, whose answers are elsewhere."""
    say = progress or _silent
    say("reading the survey")
    document = read(Path(path))
    questions = questions_of(document)
    with document.origin.located():
        _check_live_rules(questions)
    kind = protocol_kind(document, questions)
    document, everyone = completed(document, kind), People(people)
    return Survey(document, everyone, prepare(document, kind, questions, everyone, say))


def _check_live_rules(questions: Sequence[Question]) -> None:
    """Refuse rules by which taking part would depend on an answer."""
    for each in questions:
        if each.missing != "answer":
            raise InvalidParameter(
                f'question {each.id}: missing = "{each.missing}" is for simulations: over a '
                "network, whether a device takes part must not depend on its answer; leave it out"
            )


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
