"""A survey: a question, the data to ask it of, the promise to keep, and the protocol that keeps it.

``load`` reads a survey file and builds everything that a run needs, so that whatever is wrong shows
before anybody answers: every value is encoded, the randomizer is checked against the task, and the
budget against the guarantee. What the protocol leaves open is planned for the δ of the budget. An
ε0 that the file leaves out is solved for: the largest one, and so the most accurate answer, that
keeps the promise. With a given ε0, ``rounds = "budget"`` asks for as many rounds as the budget pays
for.

The number of people is counted from the data. A randomizer that the file leaves out is the usual
one of the protocol: mostly k-ary randomized response for a histogram (one small number per report,
and the smallest error as long as the categories are few) and one-bit rounding for a mean or a sum
(one bit per report, half the variance of Laplace noise at small ε0).

A survey is simulated, played by actors in memory, or run live: by devices of their own over a
network, with keys, sealed messages and fresh randomness that nobody can repeat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from typing import Protocol as Interface

import msgspec
import numpy as np
from numpy.typing import NDArray

from incrowd.errors import (
    BudgetInfeasible,
    IncrowdError,
    InvalidCrowd,
    InvalidParameter,
    MissingExtra,
    NotProven,
    ProtocolFailed,
)
from incrowd.graphs import Graph
from incrowd.live.options import LiveOptions
from incrowd.privacy.guarantee import view_of
from incrowd.protocols import PROTOCOLS
from incrowd.protocols import load as load_protocol
from incrowd.protocols.base import Protocol, Run
from incrowd.randomizers import RANDOMIZERS, Generic
from incrowd.randomizers.base import FloatArray, Randomizer
from incrowd.survey.calibrate import LOCAL_EPSILON, Goal, Unknown, calibrate, unknowns
from incrowd.survey.data import read_column
from incrowd.survey.fields import fields_of
from incrowd.survey.part import part_of
from incrowd.survey.schema import Budget, Section, SurveyFile, read
from incrowd.tasks import TASKS
from incrowd.tasks.base import Task

if TYPE_CHECKING:
    from incrowd.live.run import LiveRun
    from incrowd.sim import Faults

__all__ = ["Mode", "Progress", "Survey", "load", "load_question"]

Mode = Literal["simulate", "actors"]
"""The whole population at once, or one state machine per participant over a faulty network."""

COLUMN_TASKS = ("histogram", "mean", "sum")
"""The tasks that one column of data can answer."""

BUDGET = "budget"
"""In a survey file, in place of a number such as the rounds: the most that the budget allows."""


class Progress(Interface):
    """Is told what is being done and, where that is known, how much of how much."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Show it."""


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
    """The raw column, one entry per person."""
    solved: bool
    """Whether ε0 was solved for, rather than given."""
    column: str
    """The column of the data that holds the values."""
    live: LiveOptions
    """How a live run goes, unless it is told otherwise."""

    @property
    def randomizer(self) -> Randomizer:
        """What each person does to their answer."""
        return self.protocol.randomizer

    @property
    def truth(self) -> FloatArray | None:
        """The answer that people would have given without protection, where all are at hand."""
        return self.task.truth(self.values) if self.values.size else None

    def met_by(self, run: Run) -> bool:
        """Whether what really happened still keeps the promise of the budget."""
        goal, view = _goal(self.budget), view_of(self.budget.view)
        for guarantee in run.guarantees:
            if guarantee.view == view:
                return guarantee.epsilon(goal.delta) <= goal.epsilon
        return goal.reached(self.protocol.realised(run.collected)) <= goal.epsilon

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
                f"{chosen.min_crowd}"
            )
        try:
            from incrowd.live.run import run_live
        except ModuleNotFoundError as error:
            if str(error.name).startswith("incrowd"):
                raise
            raise MissingExtra(
                f"live runs need {error.name}, which is not installed: pip install 'incrowd[live]'"
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
    file = read(Path(path))
    data = file.path.parent / file.task.take("data", str)
    asked = _asked(file)
    column, task = asked["column"], asked["task"]
    say(f"reading {data.name}")
    values = read_column(data, column)
    try:
        task.encode(values)
    except IncrowdError as error:
        raise type(error)(f"{data}: column {column}: {error}") from error
    kind = _protocol_kind(file)
    graph = None
    if people is not None:
        try:
            kept, graph = part_of(kind.parameters_type, file.protocol.values, people, len(values))
        except IncrowdError as error:
            raise type(error)(f"{file.path}: {error}") from error
        values = values[kept]
    protocol, solved = _protocol(file, kind, task, len(values), graph, say)
    _check_alone(file, protocol)
    return Survey(**asked, protocol=protocol, budget=file.budget, values=values, solved=solved)


def load_question(path: str | Path, people: int, progress: Progress | None = None) -> Survey:
    """Read a survey file for so many people whose answers are elsewhere; there are no values."""
    say = progress or _silent
    say("reading the survey")
    file = read(Path(path))
    file.task.take("data", str, "")
    asked = _asked(file)
    kind = _protocol_kind(file)
    protocol, solved = _protocol(file, kind, asked["task"], people, None, say)
    _check_alone(file, protocol)
    nobody = np.empty(0, np.str_)
    return Survey(**asked, protocol=protocol, budget=file.budget, values=nobody, solved=solved)


def _asked(file: SurveyFile) -> dict[str, Any]:
    """What a survey file says, whoever answers."""
    question, column = file.task.take("question", str, ""), file.task.take("column", str)
    task = _task(file.task)
    _check_protocol(file.protocol)
    return {
        "path": file.path,
        "text": file.text,
        "question": question or f"What is the {_kind(task)} of {column}?",
        "task": task,
        "column": column,
        "live": file.live,
    }


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


def _kind(description: Any) -> str:
    return str(type(description).__struct_config__.tag)


def _goal(budget: Budget) -> Goal:
    return Goal(epsilon=budget.epsilon, delta=budget.delta, view=budget.view)


def _task(section: Section) -> Task:
    kind = TASKS[section.choose(COLUMN_TASKS)]
    section.known((*fields_of(kind), "kind", "data", "column", "question"))
    return section.build(kind)


def _check_protocol(section: Section) -> None:
    if "n" in section.values:
        raise section.fail("n", "the people are counted from the data; remove this key")


def _protocol_kind(file: SurveyFile) -> type[Protocol]:
    """The class of the protocol; its keys are checked, and files are named from where they are.

    A budget that names no view speaks of the protocol's own.
    """
    section = file.protocol
    kind = load_protocol(section.choose(PROTOCOLS))
    section.known(fields_of(kind.parameters_type))
    section.resolve(file.path.parent, kind.parameters_type)
    file.budget = msgspec.structs.replace(file.budget, view=file.budget.view or kind.view)
    return kind


def _protocol(
    file: SurveyFile,
    kind: type[Protocol],
    task: Task,
    people: int,
    graph: Graph | None,
    say: Progress,
) -> tuple[Protocol, bool]:
    """The protocol of the survey, planned, and whether its ε0 was solved for."""
    section = file.protocol
    stretched = _stretched(section, kind)
    if stretched is None:
        section.build(kind.parameters_type, n=people)
    randomizer = _randomizer(file, task, kind)
    goal = _goal(file.budget)
    stage = "checking the promise against the budget"
    say(stage)

    def build(eps0: Any, **more: Any) -> Protocol:
        drawn = eps0 if isinstance(eps0, Randomizer) else randomizer(eps0)
        parameters = section.build(kind.parameters_type, n=people, **more)
        try:
            made = kind.make(parameters, drawn, graph)
            return made.planned(
                goal.delta, progress=lambda done, total: say(stage, done=done, total=total)
            )
        except IncrowdError as error:
            raise type(error)(f"{file.path}: protocol: {error}") from error

    if stretched is None and not file.randomizer.values:
        stated = _stated(section, kind, people)
        if stated is not None:
            _check_local(file, stated)
            return _met(file, build(stated), goal, f"protocol: {stated.kind} noise"), False
    given = file.randomizer.values.get("epsilon")
    if given is None and stretched is not None:
        raise section.fail(
            stretched.name, f"{BUDGET} needs randomizer.epsilon: the budget can choose only one"
        )
    if given is None:
        unknown = replace(LOCAL_EPSILON, cap=file.budget.local_epsilon)
        _, protocol = calibrate(build, unknown, goal)
        return protocol, True
    _check_local(file, randomizer(given))
    if stretched is not None:
        name, whole = stretched.name, stretched.whole
        try:
            _, protocol = calibrate(
                lambda value: build(given, **{name: int(value) if whole else value}),
                stretched,
                goal,
            )
        except BudgetInfeasible as error:
            raise BudgetInfeasible(
                f"{file.path}: protocol.{name}: {error}; lower randomizer.epsilon, or raise the "
                "budget"
            ) from error
        return protocol, False
    return _met(file, build(given), goal, f"randomizer.epsilon: {given:g}"), False


def _check_local(file: SurveyFile, randomizer: Randomizer) -> None:
    """Refuse reports that alone reveal more than the budget allows."""
    cap = file.budget.local_epsilon
    if cap is not None and randomizer.epsilon > cap:
        raise BudgetInfeasible(
            f"{file.path}: randomizer.epsilon: {randomizer.epsilon:g} exceeds "
            f"budget.local_epsilon {cap:g}; lower it, or leave it out to have it solved"
        )


def _check_alone(file: SurveyFile, protocol: Protocol) -> None:
    """Refuse a cap on what a report reveals alone where reports have no noise of their own."""
    if file.budget.local_epsilon is not None:
        try:
            protocol.guarantee("everyone")
        except NotProven as error:
            raise BudgetInfeasible(f"{file.path}: budget.local_epsilon: {error}") from error


def _met(file: SurveyFile, protocol: Protocol, goal: Goal, given: str) -> Protocol:
    """The protocol, if what was given meets the budget."""
    reached = goal.reached(protocol)
    if reached > goal.epsilon:
        raise BudgetInfeasible(
            f"{file.path}: {given} gives epsilon {reached:.4g} at delta {goal.delta:g} against "
            f"{goal.view}, above budget.epsilon {goal.epsilon:g}; lower it, or leave it out to "
            "have it solved"
        )
    return protocol


def _stated(section: Section, kind: type[Protocol], people: int) -> Randomizer | None:
    """The randomizer that the protocol's own parameters describe, where they do."""
    try:
        made = kind.implied(section.build(kind.parameters_type, n=people))
    except InvalidParameter:
        return None
    return made if isinstance(made, Randomizer) else None


def _stretched(section: Section, kind: type[Protocol]) -> Unknown | None:
    """The parameter that is to be as large as the budget allows, where the file says so."""
    solvable = {name: each for name, each in unknowns(kind).items() if each.safe == "max"}
    named = [name for name, value in section.values.items() if value == BUDGET]
    if not named:
        return None
    if len(named) > 1 or named[0] not in solvable:
        raise section.fail(
            named[-1], f"only one of {', '.join(list(solvable)[1:])} can be set to {BUDGET}"
        )
    return solvable[named[0]]


def _randomizer_kind(section: Section, task: Task, kind: type[Protocol]) -> type[Randomizer]:
    """The class of the randomizer; its domain is checked before any of its keys."""
    # The generic one stands for all of them in accounting; nobody can draw from it.
    asked = {TASKS[name].domain for name in COLUMN_TASKS}
    drawable = {
        name: each
        for name, each in RANDOMIZERS.items()
        if each.domain in asked and each is not Generic
    }
    named = section.values.get("kind")
    if named in drawable:
        try:
            task.require_domain(drawable[named])
        except InvalidParameter as error:
            raise section.fail("kind", str(error)) from error
    fitting = {name: each for name, each in drawable.items() if each.domain == task.domain}
    return fitting[section.choose(fitting, kind.usual[_kind(task)])]


def _randomizer(
    file: SurveyFile, task: Task, protocol: type[Protocol]
) -> Callable[[Any], Randomizer]:
    """The randomizer of the survey as a function of its ε0."""
    section = file.randomizer
    kind = _randomizer_kind(section, task, protocol)
    fields = fields_of(kind)
    section.known(fields)
    # What the randomizer must know of the question it answers is taken from the question.
    shared: dict[str, Any] = {
        name: len(task.categories)
        for name in ("categories",)
        if name in fields and hasattr(task, "categories")
    }
    if "delta" in fields and fields["delta"].required:
        # Noise of any width can be stated at any δ0: that of the budget is as good as another.
        shared["delta"] = file.budget.delta
    filled = shared | section.values

    def build(eps0: Any) -> Randomizer:
        made = Section(section.file, section.name, filled).build(kind, epsilon=eps0)
        try:
            task.require(made)
        except InvalidParameter as error:
            raise section.fail("kind", str(error)) from error
        return made

    return build
