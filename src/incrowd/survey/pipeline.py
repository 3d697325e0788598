"""From the tables of a survey file to protocols that keep its budget.

Pure functions, one after another: ``parse`` reads the tables, ``resolve`` finds the protocol of the
questions as a function of its one unknown, ``tune`` chooses what settings leave open, ``calibrate``
solves for the unknown, and ``prepare`` does all of it. Three rules say what the unknown is: the
setting that the survey sets to ``calibrate``; else ε0, where the survey leaves it out; else
nothing, and what is given must keep the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from typing import Protocol as Interface

import msgspec

from incrowd import errors
from incrowd.protocols.api import Protocol
from incrowd.protocols.capabilities import NoiseStated, Tunable, bound_to, planned
from incrowd.protocols.joint import JointProtocol
from incrowd.protocols.registry import PROTOCOLS, answered_tasks, build, load, plugin_of
from incrowd.protocols.settings import fields_of, settings_type
from incrowd.randomizers import OneOf, read_matrix
from incrowd.randomizers.base import Randomizer
from incrowd.randomizers.registry import RANDOMIZERS, drawable_kinds
from incrowd.survey import choose
from incrowd.survey.calibrate import LOCAL_EPSILON, Goal, Unknown, unknowns
from incrowd.survey.calibrate import calibrate as solve
from incrowd.survey.choose import Candidates
from incrowd.survey.parse import SurveyDocument, Table, check_later
from incrowd.survey.people import People
from incrowd.survey.questions import Question, task_of
from incrowd.survey.shares import Draw, Shares
from incrowd.tasks.base import Task
from incrowd.tasks.registry import column_tasks

_STAGE = "checking the guarantee against the budget"
_LOWER = "lower it, or leave it out to have it solved"
CALIBRATE = "calibrate"
"""In a survey file, in place of a number such as the rounds: the most that the budget allows."""


class Progress(Interface):
    """Is told what is being done and, where that is known, how much of how much."""

    def __call__(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Show it."""


Member = Callable[..., Protocol]
"""Makes a protocol for a value of the unknown, and for further settings by name."""


@dataclass(frozen=True)
class Family:
    """Protocols that answer the same questions and differ in one unknown."""

    kind: type[Protocol]
    questions: tuple[Question, ...]
    people: People
    unknown: Unknown | None
    """None where everything is given."""
    at: Member
    stated: Table
    """Table whose values decide the guarantee."""
    chosen: bool = False
    """Whether settings were chosen for the budget."""
    considered: tuple[tuple[str, ...], ...] = ()
    """Kinds of randomizers that were compared for each question; one where there was no choice."""


@dataclass(frozen=True)
class PreparedRun:
    """A protocol that keeps the budget, and the questions that it answers."""

    questions: tuple[Question, ...]
    protocol: Protocol
    solved: bool
    """Whether ε0, or another setting that decides the guarantee, was solved for."""
    considered: tuple[tuple[str, ...], ...] = ()
    """Kinds of randomizers that were compared for each question; one where there was no choice."""


def goal_of(document: SurveyDocument) -> Goal:
    """Return the guarantee that a budget asks for."""
    budget = document.budget
    return Goal(epsilon=budget.epsilon, delta=budget.delta, view=budget.view)


def protocol_kind(document: SurveyDocument, questions: Sequence[Question]) -> type[Protocol]:
    """Return the class of the protocol, which must answer all questions."""
    table = document.protocol
    check_later(table)
    if "n" in table.values:
        raise table.fail("n", "the people are counted from the data; remove this key")
    kind = load(table.choose(PROTOCOLS))
    answered = answered_tasks(kind.kind)
    for question in questions:
        if question.task.kind not in answered:
            told = f"{kind.kind} answers {' or '.join(answered)}, and {question.id} asks for a"
            raise table.fail("kind", f"{told} {question.task.kind}")
    table.without("kind").known(fields_of(settings_type(kind)))
    return kind


def completed(document: SurveyDocument, kind: type[Protocol]) -> SurveyDocument:
    """Return the survey with files named from where they are, and a budget that names its view."""
    settings = document.protocol.without("kind")
    view = document.budget.view or plugin_of(kind).default_view
    return replace(
        document,
        protocol=settings.from_folder(document.folder, settings_type(kind)),
        budget=msgspec.structs.replace(document.budget, view=view),
    )


def prepare(
    document: SurveyDocument,
    kind: type[Protocol],
    questions: tuple[Question, ...],
    people: People,
    say: Progress,
) -> tuple[PreparedRun, ...]:
    """Return the runs that answer the questions within the budget."""
    family = tune(document, resolve(document, kind, questions, people), say)
    say(_STAGE)
    run = calibrate(document, family)
    _check_alone(document, run.protocol)
    return (run,)


def resolve(
    document: SurveyDocument, kind: type[Protocol], questions: tuple[Question, ...], people: People
) -> Family:
    """Return the protocols of the questions as a function of what the budget decides."""
    table = document.protocol
    stretched = _stretched(table, kind)
    options = [_candidates(document, question, kind) for question in questions]
    task = task_of(questions, document.budget.ask)
    one = task.domain == "several"
    if one:
        _check_whole(document, kind)

    def built(drawn: Randomizer | None, more: Mapping[str, Any]) -> Protocol:
        settings = table.build(settings_type(kind), n=people.n, **more)
        return build(kind, settings, drawn, {"graph": people.graph})

    def made(drawn: Sequence[Randomizer | None], more: Mapping[str, Any]) -> Protocol:
        with table.located():
            if one:
                return built(_drawn(questions, drawn), more)
            pairs = zip(questions, drawn, strict=True)
            parts = [bound_to(built(each, more), question.task) for question, each in pairs]
            return parts[0] if len(parts) == 1 else JointProtocol.of(parts)

    family = Family(kind, questions, people, None, lambda _, **more: made([None], more), table)
    epsilons = _given(questions)
    if not epsilons and stretched is not None:
        problem = f"{CALIBRATE} needs randomizer.epsilon: the budget can choose only one"
        raise table.fail(stretched.name, problem)
    known = [each for each in options if each is not None]
    if not known:
        return family
    family = replace(family, considered=tuple(each.kinds for each in known))
    if not epsilons:
        budget, goal = document.budget, goal_of(document)

        def alone(number: int, drawn: Randomizer) -> Protocol:
            return bound_to(built(drawn, {}), questions[number].task)

        draws = choose.at_budget(known, goal, people.n, alone, cap=budget.local_epsilon, one=one)
        shares = _shares(draws, questions, one)
        return replace(
            family,
            unknown=replace(LOCAL_EPSILON, cap=budget.local_epsilon),
            at=lambda value, **more: made(
                [draw(each) for draw, each in zip(draws, shares(value), strict=True)], more
            ),
        )
    pairs = zip(known, epsilons, strict=True)
    given = [choose.at_epsilon(each, epsilon0)(epsilon0) for each, epsilon0 in pairs]
    together = max if one else sum
    _check_local(document, questions, together(each.epsilon for each in given))
    if stretched is None:
        at: Member = lambda _, **more: made(given, more)  # noqa: E731
        return replace(family, at=at, stated=questions[0].randomizer)
    name, number = stretched.name, int if stretched.whole else float
    at = lambda value, **more: made(given, {**more, name: number(value)})  # noqa: E731
    return replace(family, unknown=stretched, at=at)


def tune(document: SurveyDocument, family: Family, say: Progress) -> Family:
    """Return the family with what settings leave open chosen for the budget."""
    found = _fitted(document, family, say)
    delta = document.budget.delta

    def at(value: Any, **more: Any) -> Protocol:
        protocol = family.at(value, **found, **more)
        with document.protocol.located():
            return planned(protocol, delta, progress=partial(say, _STAGE))

    return replace(family, at=at, chosen=bool(found))


def _fitted(document: SurveyDocument, family: Family, say: Progress) -> Mapping[str, Any]:
    """Settings beside those that are given, where the protocol can choose them."""
    limits, table, budget = document.limits, document.protocol, document.budget
    if not issubclass(family.kind, Tunable):
        if limits.values:
            problem = f"{family.kind.kind} chooses nothing that they limit; remove this table"
            raise document.origin.locate(errors.InvalidConfig(problem), limits.name)
        return {}
    limited = fields_of(family.kind.limits_type)
    limits.known(limited)
    chosen = limits.build(family.kind.limits_type)
    say("choosing parameters for the budget")
    with table.located():
        try:
            return family.kind.fitted(
                table.values, task=family.questions[0].task, people=family.people.n,
                epsilon=budget.epsilon, delta=budget.delta, view=budget.view, limits=chosen,
            )  # fmt: skip
        except errors.IncrowdError as error:
            # A protocol speaks of its limits and of its settings alike.
            if error.field is not None and error.field in limited:
                error.called(document.origin.key(limits.name, error.field))
                document.origin.locate(error)
            raise


def calibrate(document: SurveyDocument, family: Family) -> PreparedRun:
    """Return the member of a family that keeps the budget and answers best."""
    unknown, goal = family.unknown, goal_of(document)
    if unknown is None:
        protocol = family.at(None)
        _check_local(document, family.questions, protocol.randomizer.epsilon)
        with family.stated.located():
            _check_met(document, family, protocol, goal)
        return PreparedRun(family.questions, protocol, family.chosen, family.considered)
    if unknown.name == LOCAL_EPSILON.name:
        with document.origin.located("budget"):
            _, protocol = solve(family.at, unknown, goal)
        return PreparedRun(family.questions, protocol, True, family.considered)
    with family.stated.located():
        try:
            _, protocol = solve(family.at, unknown, goal)
        except errors.BudgetInfeasible as error:
            if error.where:
                raise  # of one trial rather than of all
            advice = "lower randomizer.epsilon, or raise the budget"
            raise errors.BudgetInfeasible(f"{error}; {advice}", field=unknown.name) from error
    return PreparedRun(family.questions, protocol, False, family.considered)


def _check_alone(document: SurveyDocument, protocol: Protocol) -> None:
    """Refuse a cap on what a report reveals alone where reports have no noise of their own."""
    if document.budget.local_epsilon is not None:
        with document.origin.located("budget"):
            try:
                protocol.guarantee("everyone")
            except errors.NotProven as error:
                raise errors.BudgetInfeasible(str(error), field="local_epsilon") from error


def _with_matrix(table: Table, folder: Path) -> Table:
    """The table of a randomizer with the matrix of the file that it names."""
    named = table.values.get("matrix")
    if not isinstance(named, str):
        return table
    return replace(table, values={**table.values, "matrix": read_matrix(folder / named)})


def _given(questions: Sequence[Question]) -> list[Any]:
    """The ε0 of each question where the survey states them: all of them, or none.

    A matrix states its own.
    """
    stated = [
        each.randomizer.values.get("epsilon", 0.0 if "matrix" in each.randomizer.values else None)
        for each in questions
    ]
    if all(each is None for each in stated):
        return []
    if None in stated:
        absent = questions[stated.index(None)].randomizer
        raise absent.fail("epsilon", "missing; other questions have one: state all, or none")
    return stated


def _shares(
    draws: Sequence[Draw], questions: Sequence[Question], one: bool
) -> Callable[[float], list[float]]:
    """The ε0 of each question as a function of that of all of a person's reports."""
    if one or len(draws) == 1:
        return lambda total: [total] * len(draws)
    return Shares(draws, [each.weight for each in questions]).of


def _drawn(questions: Sequence[Question], parts: Sequence[Randomizer | None]) -> OneOf:
    """The randomizer of a person who answers one question, drawn so that weights hold.

    An error falls as the root of the number of answers: twice the weight takes four times the
    chance for half the error.
    """
    squares = [each.weight**2 for each in questions]
    return OneOf(cast(Any, tuple(parts)), tuple(each / sum(squares) for each in squares))


def _check_whole(document: SurveyDocument, kind: type[Protocol]) -> None:
    """Refuse a protocol whose curator does not get reports one by one, to sort by question."""
    taken = plugin_of(kind).default_randomizers
    if "several" not in taken:
        problem = f"{kind.kind} cannot tell answers to different questions apart; leave it out"
        error = errors.InvalidConfig(problem, field="ask")
        raise document.origin.locate(error, "budget")


def _check_local(document: SurveyDocument, questions: Sequence[Question], epsilon0: float) -> None:
    """Refuse reports that alone reveal more than the budget allows."""
    cap = document.budget.local_epsilon
    if cap is not None and epsilon0 > cap:
        key = document.origin.key("budget", "local_epsilon")
        error = errors.BudgetInfeasible(f"{epsilon0:g} exceeds {key} {cap:g}; {_LOWER}")
        error.field = "epsilon"
        raise document.origin.locate(error, questions[0].randomizer.name)


def _check_met(document: SurveyDocument, family: Family, protocol: Protocol, goal: Goal) -> None:
    """Refuse a protocol whose given noise does not keep the budget."""
    reached = goal.reached(protocol)
    if reached <= goal.epsilon:
        return
    field, advice = None, _LOWER
    if family.stated is family.questions[0].randomizer:
        field, given = "epsilon", f"{protocol.randomizer.epsilon:g}"
    elif isinstance(protocol, NoiseStated) and protocol.noise_advice:
        given, advice = protocol.noise_words, protocol.noise_advice
    else:
        given = f"{protocol.randomizer.kind} noise"
    raise errors.BudgetInfeasible(
        f"{given} gives epsilon {reached:.4g} at delta {goal.delta:g} against {goal.view}, "
        f"above {document.origin.key('budget', 'epsilon')} {goal.epsilon:g}; {advice}",
        field=field,
    )


def _stretched(table: Table, kind: type[Protocol]) -> Unknown | None:
    """The setting that is to be as large as the budget allows, where the survey says so."""
    solvable = {name: each for name, each in unknowns(kind).items() if each.safe == "max"}
    named = [name for name, value in table.values.items() if value == CALIBRATE]
    if not named:
        return None
    if len(named) > 1 or named[0] not in solvable:
        either = ", ".join(list(solvable)[1:])
        raise table.fail(named[-1], f"only one of {either} can be set to {CALIBRATE}")
    return solvable[named[0]]


def _candidates(
    document: SurveyDocument, question: Question, protocol: type[Protocol]
) -> Candidates | None:
    """The randomizers that a question may get; none where settings state the noise."""
    task, table, settings = question.task, question.randomizer, document.protocol.values
    if issubclass(protocol, NoiseStated) and not protocol.asks_randomizer(settings):
        if task.domain not in {each.domain for each in column_tasks().values()}:
            if table.values:
                noise = f"{document.protocol.name}.{protocol.noise}"
                raise table.fail("kind", f"a {task.kind} has no randomizer; set {noise} instead")
            return None
        if settings.get(protocol.noise) and not table.values:
            return None
    pairs = _named(table, task) if "kind" in table.values else _usual(table, task, protocol)
    draws = tuple(_draw(document, question, kind, more) for kind, more in pairs)
    kinds = dict.fromkeys(str(kind.__struct_config__.tag) for kind, _ in pairs)
    return Candidates(task, question.weight, draws, tuple(kinds))


_Described = list[tuple[type[Randomizer], Mapping[str, Any]]]
"""Kinds of randomizers with parameters that the survey need not state."""


def _named(table: Table, task: Task) -> _Described:
    """The randomizer that the survey names; its domain is checked before any of its keys."""
    asked = {each.domain for each in column_tasks().values()}
    named = table.values["kind"]
    if isinstance(named, str) and any(named in drawable_kinds(domain) for domain in asked):
        try:
            task.require_domain(RANDOMIZERS.load(named))
        except errors.InvalidParameter as error:
            raise table.fail("kind", str(error)) from error
    return [(RANDOMIZERS.load(table.choose(drawable_kinds(task.domain))), {})]


def _usual(table: Table, task: Task, protocol: type[Protocol]) -> _Described:
    """Randomizers of the protocol that suit the task and have all keys that the survey states."""
    named = plugin_of(protocol).default_randomizers[task.domain]
    kinds: list[type[Randomizer]] = [RANDOMIZERS.load(each) for each in named]
    suitable: _Described = [(kind, more) for kind in kinds for more in task.variants(kind)]
    # What a protocol needs serves, even where it cannot say that there is no answer.
    suitable = suitable or [(kinds[0], {})]
    stated = [pair for pair in suitable if table.values.keys() <= fields_of(pair[0]).keys()]
    return stated or suitable[:1]


def _draw(
    document: SurveyDocument, question: Question, kind: type[Randomizer], more: Mapping[str, Any]
) -> Draw:
    """A randomizer of a question as a function of its ε0."""
    task, table = question.task, question.randomizer
    fields, described = fields_of(kind), _with_matrix(table.without("kind"), document.folder)
    described.known(fields)
    # What the randomizer must know of the question it answers is taken from the question.
    shared: dict[str, Any] = dict(more)
    if "categories" in fields and task.domain == "category":
        shared["categories"] = task.outcomes
    if "delta" in fields and fields["delta"].required:
        # Noise of any width can be stated at any δ0: that of the budget is as good as another.
        shared["delta"] = document.budget.delta
    filled = replace(described, values={**shared, **described.values})

    def at(epsilon0: Any) -> Randomizer:
        derived = not fields["epsilon"].required
        made = filled.build(kind) if derived else filled.build(kind, epsilon=epsilon0)
        try:
            task.require(made)
        except errors.InvalidParameter as error:
            raise table.fail("kind", str(error)) from error
        return made

    return at
