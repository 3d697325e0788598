"""From the tables of a survey file to what is asked and to the protocol that answers it.

What the protocol leaves open is planned for the δ of the budget; what it can choose is chosen; an
ε0 that the file leaves out is solved for. Whatever is wrong is said with the file and the key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

import msgspec

from incrowd.errors import (
    BudgetInfeasible,
    IncrowdError,
    InvalidConfig,
    InvalidParameter,
    NotProven,
)
from incrowd.graphs import Graph
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import Tunable, bound_to, planned
from incrowd.protocols.registry import PROTOCOLS, answered_tasks, plugin_of
from incrowd.protocols.registry import load as load_protocol
from incrowd.protocols.settings import fields_of
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.registry import RANDOMIZERS, drawable_kinds
from incrowd.survey.calibrate import LOCAL_EPSILON, Goal, Unknown, calibrate, unknowns
from incrowd.survey.parse import Budget, Section, SurveyFile
from incrowd.tasks.base import Task
from incrowd.tasks.query import Query, Schema
from incrowd.tasks.registry import QUERY, TASKS, column_tasks, survey_tasks

BUDGET = "budget"
"""In a survey file, in place of a number such as the rounds: the most that the budget allows."""


class Progress(Interface):
    """Is told what is being done and, where that is known, how much of how much."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Show it."""


def asked_by(file: SurveyFile) -> dict[str, Any]:
    """What a survey file says, whoever answers."""
    question = file.task.take("question", str, "")
    kind = file.task.values.get("kind")
    if isinstance(kind, str) and kind not in survey_tasks():
        file.task.choose(survey_tasks())
    if kind == QUERY:
        query = _query(file.task, file.path.parent)
        task: Task = query
        column = query.table
    else:
        column = file.task.take("column", str)
        task = _task(file.task)
        try:
            task.asks(column)
        except InvalidParameter as error:
            raise file.task.fail("column", str(error)) from error
    _check_protocol(file.protocol)
    return {
        "path": file.path,
        "text": file.text,
        "question": question or task.default_question(column),
        "task": task,
        "column": column,
        "live": file.live,
    }


def _kind(description: Any) -> str:
    return str(type(description).__struct_config__.tag)


def goal_of(budget: Budget) -> Goal:
    """The promise that a budget asks for."""
    return Goal(epsilon=budget.epsilon, delta=budget.delta, view=budget.view)


def _query(section: Section, folder: Path) -> Query:
    section.known(("kind", "data", "schema", "sql", "question"))
    schema = Schema.load(folder / section.take("schema", str))
    sql = section.take("sql", str)
    with section.origin.located(section.name):
        return Query(sql=sql, table=schema.table, columns=schema.columns)


def _task(section: Section) -> Task:
    kind: type[Task] = TASKS.load(section.choose(survey_tasks()))
    section.known((*fields_of(kind), "kind", "data", "column", "question"))
    return section.build(kind)


def _check_protocol(section: Section) -> None:
    if "n" in section.values:
        raise section.fail("n", "the people are counted from the data; remove this key")


def protocol_kind(file: SurveyFile, task: Task) -> type[Protocol]:
    """The class of the protocol; its keys are checked, and files are named from where they are.

    A budget that names no view speaks of the protocol's own.
    """
    section = file.protocol
    kind = load_protocol(section.choose(PROTOCOLS))
    answered = answered_tasks(kind.kind)
    if task.kind not in answered:
        raise section.fail(
            "kind", f"{kind.kind} answers {' or '.join(answered)}, and the task is a {task.kind}"
        )
    section.known(fields_of(kind.parameters_type))
    section.resolve(file.path.parent, kind.parameters_type)
    view = plugin_of(kind).default_view
    file.budget = msgspec.structs.replace(file.budget, view=file.budget.view or view)
    return kind


def protocol_of(
    file: SurveyFile,
    kind: type[Protocol],
    task: Task,
    people: int,
    graph: Graph | None,
    say: Progress,
) -> tuple[Protocol, bool]:
    """The protocol of the survey, planned, and whether its ε0 was solved for."""
    section, origin = file.protocol, file.origin
    stretched = _stretched(section, kind)
    if stretched is None:
        section.build(kind.parameters_type, n=people)
    goal = goal_of(file.budget)
    chosen = _fitted(file, kind, task, people, say)
    randomizer = _randomizer(file, task, kind)
    stage = "checking the promise against the budget"
    say(stage)

    def build(eps0: Any, **more: Any) -> Protocol:
        drawn = eps0 if isinstance(eps0, Randomizer) else randomizer(eps0)
        parameters = section.build(kind.parameters_type, n=people, **more)
        with origin.located(section.name):
            made = bound_to(kind.make(parameters, drawn, graph), task)
            return planned(
                made, goal.delta, progress=lambda done, total: say(stage, done=done, total=total)
            )

    if task.kind == QUERY:
        # Lies and dummies are the protocol's own: there is no ε0 to solve for.
        advice = "raise sampling or dummies, or leave all three out to have them chosen"
        with origin.located(section.name):
            lies = kind.implied(section.build(kind.parameters_type, n=people))
            told = "this choice of sampling, sources and dummies"
            return _met(file, build(lies), goal, told, advice=advice), chosen
    if stretched is None and not file.randomizer.values:
        stated = _stated(section, kind, people)
        if stated is not None:
            _check_local(file, stated)
            with origin.located(section.name):
                return _met(file, build(stated), goal, f"{stated.kind} noise"), chosen
    given = file.randomizer.values.get("epsilon")
    if given is None and stretched is not None:
        raise section.fail(
            stretched.name, f"{BUDGET} needs randomizer.epsilon: the budget can choose only one"
        )
    if given is None:
        unknown = replace(LOCAL_EPSILON, cap=file.budget.local_epsilon)
        with origin.located("budget"):
            _, protocol = calibrate(build, unknown, goal)
        return protocol, True
    _check_local(file, randomizer(given))
    if stretched is not None:
        name, whole = stretched.name, stretched.whole
        with origin.located(section.name):
            try:
                _, protocol = calibrate(
                    lambda value: build(given, **{name: int(value) if whole else value}),
                    stretched,
                    goal,
                )
            except BudgetInfeasible as error:
                if error.where:
                    raise  # of one trial rather than of all
                advice = "lower randomizer.epsilon, or raise the budget"
                raise BudgetInfeasible(f"{error}; {advice}", field=name) from error
        return protocol, False
    with origin.located(file.randomizer.name):
        return _met(file, build(given), goal, f"{given:g}", field="epsilon"), False


def _fitted(file: SurveyFile, kind: type[Protocol], task: Task, people: int, say: Progress) -> bool:
    """Fill in what the table of the protocol leaves out, where the protocol can choose it."""
    if not issubclass(kind, Tunable):
        if file.limits.values:
            problem = f"{kind.kind} chooses nothing that they limit"
            raise file.origin.locate(InvalidConfig(problem), file.limits.name)
        return False
    limited = fields_of(kind.limits_type)
    file.limits.known(limited)
    limits = file.limits.build(kind.limits_type)
    say("choosing parameters for the budget")
    budget = file.budget
    with file.origin.located(file.protocol.name):
        try:
            found = kind.fitted(
                file.protocol.values, task=task, people=people, epsilon=budget.epsilon,
                delta=budget.delta, view=budget.view, limits=limits,
            )  # fmt: skip
        except IncrowdError as error:
            # A protocol speaks of its limits and of its parameters alike.
            if error.field is not None and error.field in limited:
                error.called(file.origin.key(file.limits.name, error.field))
                file.origin.locate(error)
            raise
    file.protocol.values |= found
    return bool(found)


def _check_local(file: SurveyFile, randomizer: Randomizer) -> None:
    """Refuse reports that alone reveal more than the budget allows."""
    cap = file.budget.local_epsilon
    if cap is not None and randomizer.epsilon > cap:
        error = BudgetInfeasible(
            f"{randomizer.epsilon:g} exceeds {file.origin.key('budget', 'local_epsilon')} {cap:g}; "
            "lower it, or leave it out to have it solved",
            field="epsilon",
        )
        raise file.origin.locate(error, file.randomizer.name)


def check_alone(file: SurveyFile, protocol: Protocol) -> None:
    """Refuse a cap on what a report reveals alone where reports have no noise of their own."""
    if file.budget.local_epsilon is not None:
        with file.origin.located("budget"):
            try:
                protocol.guarantee("everyone")
            except NotProven as error:
                raise BudgetInfeasible(str(error), field="local_epsilon") from error


def _met(
    file: SurveyFile,
    protocol: Protocol,
    goal: Goal,
    given: str,
    *,
    field: str | None = None,
    advice: str = "lower it, or leave it out to have it solved",
) -> Protocol:
    """The protocol, if what was given meets the budget."""
    reached = goal.reached(protocol)
    if reached > goal.epsilon:
        raise BudgetInfeasible(
            f"{given} gives epsilon {reached:.4g} at delta {goal.delta:g} against {goal.view}, "
            f"above {file.origin.key('budget', 'epsilon')} {goal.epsilon:g}; {advice}",
            field=field,
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
    asked = {each.domain for each in column_tasks().values()}
    named = section.values.get("kind")
    if isinstance(named, str) and any(named in drawable_kinds(domain) for domain in asked):
        try:
            task.require_domain(RANDOMIZERS.load(named))
        except InvalidParameter as error:
            raise section.fail("kind", str(error)) from error
    chosen: type[Randomizer] = RANDOMIZERS.load(
        section.choose(drawable_kinds(task.domain), _usual(task, kind))
    )
    return chosen


def _usual(task: Task, protocol: type[Protocol]) -> str:
    """The kind of the randomizer that a survey file leaves out."""
    named = plugin_of(protocol).default_randomizers[task.domain]
    # A complete column has no outcome for a missing answer.
    return "onebit" if named == "ternary" and getattr(task, "complete", False) else named


def _randomizer(
    file: SurveyFile, task: Task, protocol: type[Protocol]
) -> Callable[[Any], Randomizer]:
    """The randomizer of the survey as a function of its ε0."""
    section = file.randomizer
    if task.kind == QUERY:
        if section.values:
            raise section.fail("kind", "a query has no randomizer; set protocol.sampling instead")
        return lambda eps0: eps0
    kind = _randomizer_kind(section, task, protocol)
    fields = fields_of(kind)
    section.known(fields)
    # What the randomizer must know of the question it answers is taken from the question.
    shared: dict[str, Any] = {
        name: len(task.labels)
        for name in ("categories",)
        if name in fields and task.domain == "category"
    }
    if "delta" in fields and fields["delta"].required:
        # Noise of any width can be stated at any δ0: that of the budget is as good as another.
        shared["delta"] = file.budget.delta
    filled = shared | section.values

    def build(eps0: Any) -> Randomizer:
        made = Section(section.origin, section.name, filled).build(kind, epsilon=eps0)
        try:
            task.require(made)
        except InvalidParameter as error:
            raise section.fail("kind", str(error)) from error
        return made

    return build
