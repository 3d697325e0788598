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
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from incrowd.errors import (
    InvalidCrowd,
    InvalidParameter,
    MissingExtra,
    ProtocolFailed,
)
from incrowd.live.options import LiveOptions
from incrowd.protocols.api import Protocol
from incrowd.protocols.run import Run
from incrowd.protocols.settings import fields_of
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.survey.data import read_columns
from incrowd.survey.parse import Budget, SurveyFile, files_named, read
from incrowd.survey.pipeline import (
    Progress,
    asked_by,
    check_alone,
    goal_of,
    protocol_kind,
    protocol_of,
)
from incrowd.survey.subset import part_of
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
    """Everything a run needs, checked."""

    path: Path
    text: str
    question: str
    task: Task
    protocol: Protocol
    budget: Budget
    values: NDArray[np.str_]
    """The raw column, one entry per person; of a query a row of texts."""
    solved: bool
    """Whether ε0, or whatever else decides the promise, was solved for rather than given."""
    column: str
    """The column of the data that holds the values; of a query the table."""
    live: LiveOptions
    """How a live run goes, unless it is told otherwise."""

    @property
    def randomizer(self) -> Randomizer:
        """What each person does to their answer."""
        return self.protocol.randomizer

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that it was made from, which nothing it leads to may replace."""
        return files_named(self.path, self.text, type(self.protocol.parameters))

    @property
    def truth(self) -> FloatArray | None:
        """The answer that people would have given without protection, where all are at hand."""
        return self.task.truth(self.values) if self.values.size else None

    @property
    def gaps(self) -> Gaps | None:
        """Counts of rows without an answer, and with one outside the domain; none without data.

        For a curator's own data, in simulations.
        """
        return self.task.gaps(self.values) if self.values.size else None

    def truth_of(self, run: Run) -> FloatArray | None:
        """The same, row by row of the answer of a run."""
        truth = self.truth
        return None if truth is None else run.result.beside(truth)

    def met_by(self, run: Run) -> bool:
        """Whether what really happened still keeps the promise of the budget."""
        goal, view = goal_of(self.budget), view_of(self.budget.view)
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
            question=self.question,
            column=self.column,
            delta=self.budget.delta,
            hosts=hosts,
            progress=progress,
            keep=keep,
        )


def load(
    path: str | Path, progress: Progress | None = None, *, people: int | None = None
) -> Survey:
    """Read a survey file and its data, and build the run they describe.

    ``people`` makes it a survey of as many people only, with everything solved for them: those of
    the first rows, or of a connected part of the graph where there is a file of one.
    """
    say = progress or _silent
    say("reading the survey")
    return build(read(Path(path)), say, people=people)


def build(file: SurveyFile, say: Progress, *, people: int | None = None) -> Survey:
    """The run that a survey describes, wherever its text comes from."""
    data = file.path.parent / file.task.take("data", str)
    asked = asked_by(file)
    column, task = asked["column"], asked["task"]
    say(f"reading {data.name}")
    values = task.rows(read_columns(data, task.asks(column)))
    kind = protocol_kind(file, task)
    graph = None
    if people is not None:
        with file.origin.located():
            kept, graph = part_of(kind.parameters_type, file.protocol.values, people, len(values))
        values = values[kept]
    protocol, solved = protocol_of(file, kind, task, len(values), graph, say)
    check_alone(file, protocol)
    return Survey(**asked, protocol=protocol, budget=file.budget, values=values, solved=solved)


def load_question(path: str | Path, people: int, progress: Progress | None = None) -> Survey:
    """Read a survey file for so many people whose answers are elsewhere; there are no values."""
    say = progress or _silent
    say("reading the survey")
    file = read(Path(path))
    file.task.take("data", str, "")
    asked = asked_by(file)
    kind = protocol_kind(file, asked["task"])
    protocol, solved = protocol_of(file, kind, asked["task"], people, None, say)
    check_alone(file, protocol)
    nobody = np.empty(0, np.str_)
    return Survey(**asked, protocol=protocol, budget=file.budget, values=nobody, solved=solved)


def _blamed(faults: Faults | None) -> str:
    """The faults that were asked for, to be put in front of what they caused."""
    if faults is None:
        return ""
    chosen = {
        field.name: getattr(faults, field.name)
        for field in fields_of(type(faults)).values()
        if getattr(faults, field.name) != field.default
    }
    listed = ", ".join(f"{name} = {_short(value)}" for name, value in chosen.items())
    return f"with {listed}: " if listed else ""


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _silent(stage: str, done: int = 0, total: int = 0) -> None:
    del stage, done, total
